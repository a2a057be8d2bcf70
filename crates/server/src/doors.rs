//! Where a server listens: addresses as they are written, and what to do with a socket that is left over.

use std::fmt;
use std::io;
use std::net::SocketAddr;
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
    /// `ws://IP:PORT`, or `wss://` for TLS: HTTP and WebSocket; port 0 is one that is free.
    Tcp {
        /// The address.
        address: SocketAddr,
        /// Whether it was written as one of TLS.
        tls: bool,
    },
}

/// No address to listen on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ListenError {
    /// Nothing of this kind.
    #[error(
        "cannot listen on {0:?}: it must be stdio://, unix:// (the home's socket), unix://PATH, IP:PORT, ws://IP:PORT or wss://IP:PORT"
    )]
    Unknown(String),
    /// A name, which may mean several addresses, or others tomorrow.
    #[error("cannot listen on {0:?}: write the address as numbers, as in ws://127.0.0.1:4517 (or localhost)")]
    Name(String),
}

impl FromStr for Listen {
    type Err = ListenError;

    fn from_str(address: &str) -> Result<Self, ListenError> {
        if let Some(path) = address.strip_prefix("unix://") {
            return Ok(Self::Unix(Some(path).filter(|path| !path.is_empty()).map(PathBuf::from)));
        }
        if matches!(address, "stdio://" | "stdio") {
            return Ok(Self::Stdio);
        }
        let (scheme, rest) = address.split_once("://").unwrap_or(("ws", address));
        let tls = match scheme {
            "ws" | "http" => false,
            "wss" | "https" => true,
            _ => return Err(ListenError::Unknown(address.to_owned())),
        };
        let plain = rest.strip_suffix('/').unwrap_or(rest);
        let plain = match plain.strip_prefix("localhost:") {
            Some(port) => format!("127.0.0.1:{port}"),
            None => plain.to_owned(),
        };
        match plain.parse() {
            Ok(address) => Ok(Self::Tcp { address, tls }),
            Err(_) if address.contains(':') && !plain.contains('/') => {
                Err(ListenError::Name(address.to_owned()))
            }
            Err(_) => Err(ListenError::Unknown(address.to_owned())),
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdio => f.write_str("stdio://"),
            Self::Unix(None) => f.write_str("unix://"),
            Self::Unix(Some(path)) => write!(f, "unix://{}", path.display()),
            Self::Tcp { address, tls: false } => write!(f, "ws://{address}"),
            Self::Tcp { address, tls: true } => write!(f, "wss://{address}"),
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

    fn tcp(address: &str, tls: bool) -> Listen {
        Listen::Tcp { address: address.parse().unwrap(), tls }
    }

    #[test]
    fn addresses_are_read_and_written() {
        for (written, listen) in [
            ("stdio://", Listen::Stdio),
            ("unix://", Listen::Unix(None)),
            ("unix:///run/x.sock", Listen::Unix(Some("/run/x.sock".into()))),
            ("unix://x.sock", Listen::Unix(Some("x.sock".into()))),
            ("ws://127.0.0.1:4517", tcp("127.0.0.1:4517", false)),
            ("wss://[::]:0", tcp("[::]:0", true)),
        ] {
            assert_eq!(written.parse::<Listen>().unwrap(), listen);
            assert_eq!(listen.to_string(), written);
        }
        let error = "carrier-pigeon://".parse::<Listen>().unwrap_err().to_string();
        assert!(error.contains("stdio://, unix://"), "{error}");
        for (written, listen) in [
            ("127.0.0.1:4517", tcp("127.0.0.1:4517", false)),
            ("http://localhost:1/", tcp("127.0.0.1:1", false)),
            ("https://10.0.0.1:443", tcp("10.0.0.1:443", true)),
        ] {
            assert_eq!(written.parse::<Listen>().unwrap(), listen);
        }
        for name in ["ws://box.example:4517", "box:1", "ws://127.0.0.1:99999"] {
            let error = name.parse::<Listen>().unwrap_err().to_string();
            assert!(error.contains("as numbers"), "{error}");
        }
        assert!("4517".parse::<Listen>().is_err() && "ws://127.0.0.1:1/rpc".parse::<Listen>().is_err());
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
