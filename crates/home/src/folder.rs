//! The folder itself: found, created for its owner alone, and the paths in it.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Most bytes of a unix socket's path: the kernels' limits are 108 (Linux) and 104 (macOS), with the ending zero.
const SOCKET_PATH_BYTES: usize = 100;

/// The home could not be found or prepared.
#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    /// Neither given nor to be guessed.
    #[error("no home folder: neither SIGNALBOX_HOME nor HOME is set")]
    Unknown,
    /// Something on the way is not as it must be.
    #[error("cannot use {} as home folder", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A folder of the temporary directory that must be ours belongs to somebody else, or is open to others.
    #[error("{} must be a folder of this user that nobody else may enter; remove it, or set XDG_RUNTIME_DIR", path.display())]
    NotPrivate {
        /// The folder.
        path: PathBuf,
    },
    /// Others may change what lies in the home, and with it what this user's programs do.
    #[error("{} can be written by other users, who could then act as this one: chmod 700 {}", path.display(), path.display())]
    Writable {
        /// The folder.
        path: PathBuf,
    },
    /// A file could not be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// The home folder of one server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Home {
    folder: PathBuf,
    socket: PathBuf,
}

impl Home {
    /// Finds the home — `explicit`, else `$SIGNALBOX_HOME`, else `~/.signalbox` — and creates it with mode 0700 if it is
    /// not there. `env` looks up a variable.
    ///
    /// # Errors
    /// If no home can be named, it cannot be created, or other users may write to it.
    pub fn locate(
        explicit: Option<PathBuf>,
        env: &dyn Fn(&str) -> Option<OsString>,
    ) -> Result<Self, HomeError> {
        let set = |name| env(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let folder = explicit
            .or_else(|| set("SIGNALBOX_HOME"))
            .or_else(|| set("HOME").map(|home| home.join(".signalbox")))
            .ok_or(HomeError::Unknown)?;
        let failed = |source| HomeError::Folder { path: folder.clone(), source };
        let folder = std::path::absolute(&folder).map_err(failed)?;
        create_private(&folder)?;
        // One home, one name: the socket's place may depend on it.
        let folder =
            folder.canonicalize().map_err(|source| HomeError::Folder { path: folder.clone(), source })?;
        let meta =
            fs::metadata(&folder).map_err(|source| HomeError::Folder { path: folder.clone(), source })?;
        if meta.mode() & 0o022 != 0 {
            return Err(HomeError::Writable { path: folder });
        }
        let socket = socket_path(&folder, set("XDG_RUNTIME_DIR"), set("TMPDIR"));
        Ok(Self { folder, socket })
    }

    /// Whether other users of the machine can look into the folder. One that was there before is left as it was found.
    #[must_use]
    pub fn is_open_to_others(&self) -> bool {
        fs::metadata(&self.folder).is_ok_and(|meta| meta.permissions().mode() & 0o077 != 0)
    }

    /// The folder, absolute, without links.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The configuration.
    #[must_use]
    pub fn config_file(&self) -> PathBuf {
        self.folder.join("config.toml")
    }

    /// The database.
    #[must_use]
    pub fn database(&self) -> PathBuf {
        self.folder.join("signalbox.db")
    }

    /// The lock of the process that serves this home.
    #[must_use]
    pub fn lock_file(&self) -> PathBuf {
        self.folder.join("lock")
    }

    /// The server's unix socket: in the home if the path is at most 100 bytes, else in `$XDG_RUNTIME_DIR`, else in a
    /// folder of the temporary directory, named by a hash of the home.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// The server's token for TCP.
    #[must_use]
    pub fn token_file(&self) -> PathBuf {
        self.folder.join("token")
    }

    /// Log files.
    ///
    /// # Errors
    /// If the folder cannot be created.
    pub fn logs(&self) -> Result<PathBuf, HomeError> {
        self.subfolder("logs")
    }

    /// Logs of what passes between threads and their agents.
    ///
    /// # Errors
    /// If the folder cannot be created.
    pub fn agent_logs(&self) -> Result<PathBuf, HomeError> {
        self.logs()?;
        self.subfolder("logs/agents")
    }

    /// Where state of one provider's agent may be kept.
    ///
    /// # Errors
    /// If the folder cannot be created.
    pub fn agent_state(&self, provider: &str) -> Result<PathBuf, HomeError> {
        // A name from the configuration; it must not lead out of the home.
        let name: String = provider
            .chars()
            .map(|letter| if letter.is_ascii_alphanumeric() || "_-".contains(letter) { letter } else { '_' })
            .collect();
        self.subfolder(&format!("agents/{name}"))
    }

    fn subfolder(&self, name: &str) -> Result<PathBuf, HomeError> {
        let path = self.folder.join(name);
        create_private(&path)?;
        Ok(path)
    }

    /// Makes the folder of the socket ready: for a socket in the temporary directory it is created, or checked to be
    /// this user's alone. To be called before listening and before connecting.
    ///
    /// # Errors
    /// If the folder is not ours.
    pub fn prepare_socket(&self) -> Result<(), HomeError> {
        let Some(parent) = self.socket.parent() else { return Ok(()) };
        if parent.file_name().is_none_or(|name| name != private_name().as_str()) {
            return Ok(());
        }
        create_private(parent)?;
        let failed = |source| HomeError::Folder { path: parent.to_path_buf(), source };
        let meta = fs::symlink_metadata(parent).map_err(failed)?;
        let ours = meta.is_dir() && meta.uid() == user() && meta.mode() & 0o077 == 0;
        if ours { Ok(()) } else { Err(HomeError::NotPrivate { path: parent.to_path_buf() }) }
    }

    /// Writes a file of the home for its owner alone (0600): whole, or not at all.
    ///
    /// # Errors
    /// If the disk refuses.
    pub fn write_private(&self, name: &str, content: &[u8]) -> Result<PathBuf, HomeError> {
        let path = self.folder.join(name);
        let failed = |source| HomeError::Write { path: path.clone(), source };
        let draft = self.folder.join(format!("{name}.{}.tmp", std::process::id()));
        let write = || {
            // Whatever is there under this name is of a process that died: never followed, never reused.
            match fs::remove_file(&draft) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
            file.write_all(content)?;
            file.sync_all()?;
            fs::rename(&draft, &path)
        };
        write().inspect_err(|_| drop(fs::remove_file(&draft))).map_err(failed)?;
        Ok(path)
    }
}

fn create_private(path: &Path) -> Result<(), HomeError> {
    let failed = |source| HomeError::Folder { path: path.to_path_buf(), source };
    match fs::metadata(path) {
        Ok(meta) if meta.is_dir() => Ok(()),
        Ok(_) => Err(failed(io::Error::from(io::ErrorKind::NotADirectory))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)
        }
        Err(error) => Err(failed(error)),
    }
}

fn socket_path(folder: &Path, runtime: Option<PathBuf>, temporary: Option<PathBuf>) -> PathBuf {
    let fits = |path: &Path| path.as_os_str().len() <= SOCKET_PATH_BYTES;
    let inside = folder.join("signalbox.sock");
    if fits(&inside) {
        return inside;
    }
    let name = format!("signalbox-{:016x}.sock", hash(folder.as_os_str().as_bytes()));
    let in_runtime = runtime.filter(|folder| folder.is_absolute()).map(|folder| folder.join(&name));
    if let Some(path) = in_runtime.filter(|path| fits(path)) {
        return path;
    }
    let temporary = temporary.map(|folder| folder.join(private_name()).join(&name));
    match temporary.filter(|path| fits(path)) {
        Some(path) => path,
        None => Path::new("/tmp").join(private_name()).join(&name),
    }
}

fn private_name() -> String {
    format!("signalbox-{}", user())
}

fn user() -> u32 {
    rustix::process::getuid().as_raw()
}

/// FNV-1a: the same in every version and process, which the standard library's hashes do not promise.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
