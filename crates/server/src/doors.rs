//! Where a server listens: addresses as they are written, and what to do with a socket that is left over.

use std::fmt;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use signalbox_home::{Home, HomeError};
use signalbox_rpc::UnixDoor;

/// An address to listen on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    /// `stdio://`: one client on stdin and stdout.
    Stdio,
    /// `unix://PATH`: any number of clients on a socket; without a path on the home's.
    Unix(Option<PathBuf>),
}

/// No address to listen on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ListenError {
    /// Nothing of this kind.
    #[error("cannot listen on {0:?}: it must be stdio://, unix:// (the home's socket) or unix://PATH")]
    Unknown(String),
    /// Known to existing clients, not served by this version.
    #[error("cannot listen on {0:?}: this version serves stdio:// and unix:// only")]
    NotYet(String),
}

impl FromStr for Listen {
    type Err = ListenError;

    fn from_str(address: &str) -> Result<Self, ListenError> {
        if let Some(path) = address.strip_prefix("unix://") {
            return Ok(Self::Unix(Some(path).filter(|path| !path.is_empty()).map(PathBuf::from)));
        }
        match address {
            "stdio://" | "stdio" => Ok(Self::Stdio),
            _ if ["ws://", "wss://", "http://", "https://"]
                .iter()
                .any(|scheme| address.starts_with(scheme)) =>
            {
                Err(ListenError::NotYet(address.to_owned()))
            }
            _ => Err(ListenError::Unknown(address.to_owned())),
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdio => f.write_str("stdio://"),
            Self::Unix(None) => f.write_str("unix://"),
            Self::Unix(Some(path)) => write!(f, "unix://{}", path.display()),
        }
    }
}

/// A socket could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum DoorError {
    /// Its folder is not ours.
    #[error(transparent)]
    Folder(#[from] HomeError),
    /// Somebody listens there.
    #[error("cannot listen on {}: another process does", path.display())]
    InUse {
        /// The socket.
        path: PathBuf,
    },
    /// Something that is no socket lies there.
    #[error("cannot listen on {}: there is a file that is no socket", path.display())]
    NoSocket {
        /// The path.
        path: PathBuf,
    },
    /// Anything else.
    #[error("cannot listen on {}", path.display())]
    Bind {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Listens on a unix socket, by default the home's. A socket that nobody listens on any more is replaced. The caller
/// holds the home's lock.
///
/// # Errors
/// If somebody listens there, or the path cannot be a socket.
pub fn bind(home: &Home, path: Option<&Path>) -> Result<UnixDoor, DoorError> {
    let path = match path {
        Some(path) => path,
        None => {
            home.prepare_socket()?;
            home.socket()
        }
    };
    let failed = |source| DoorError::Bind { path: path.to_owned(), source };
    match path.symlink_metadata() {
        Ok(there) if !there.file_type().is_socket() => {
            return Err(DoorError::NoSocket { path: path.to_owned() });
        }
        Ok(_) => match UnixStream::connect(path) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                std::fs::remove_file(path).map_err(failed)?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
            Ok(_) => return Err(DoorError::InUse { path: path.to_owned() }),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    UnixDoor::bind(path).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_written() {
        for (written, listen) in [
            ("stdio://", Listen::Stdio),
            ("unix://", Listen::Unix(None)),
            ("unix:///run/x.sock", Listen::Unix(Some("/run/x.sock".into()))),
            ("unix://x.sock", Listen::Unix(Some("x.sock".into()))),
        ] {
            assert_eq!(written.parse::<Listen>().unwrap(), listen);
            assert_eq!(listen.to_string(), written);
        }
        let error = "carrier-pigeon://".parse::<Listen>().unwrap_err().to_string();
        assert!(error.contains("stdio://, unix://"), "{error}");
        let error = "ws://127.0.0.1:1".parse::<Listen>().unwrap_err().to_string();
        assert!(error.contains("this version"), "{error}");
    }

    #[tokio::test]
    async fn a_left_over_socket_is_replaced_and_nothing_else_is() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::locate(Some(folder.path().join("home")), &|_| None).unwrap();
        let path = folder.path().join("a.sock");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists(), "a listener that dies leaves its socket");
        let door = bind(&home, Some(&path)).unwrap();
        assert!(matches!(bind(&home, Some(&path)), Err(DoorError::InUse { .. })));
        drop(door);
        assert!(!path.exists());
        std::fs::write(&path, "dear to somebody").unwrap();
        assert!(matches!(bind(&home, Some(&path)), Err(DoorError::NoSocket { .. })));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "dear to somebody");
        assert!(bind(&home, None).unwrap().path().ends_with("signalbox.sock"));
    }
}
