//! The lock: one process serves a home. Held by the kernel, so it ends with its holder however that ends.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::Home;

/// The process that holds a home, as it wrote itself into the lock file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Holder {
    /// Its process id.
    pub pid: u32,
    /// Since when it holds the lock, Unix milliseconds.
    pub since_ms: u64,
    /// What it is: `app-server`, `run`, …
    pub role: String,
    /// Its version.
    pub version: String,
    /// The unix socket it listens on, or would.
    pub socket: PathBuf,
    /// It leaves, because it was asked to or is not needed: whoever loses it now was not left by accident.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub leaving: bool,
}

/// The lock was not taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process holds it.
    #[error("the home {} is in use {}", home.display(), describe(holder.as_ref()))]
    Held {
        /// The home folder.
        home: PathBuf,
        /// Who; none if it is just starting or ending.
        holder: Option<Holder>,
    },
    /// The lock file cannot be used.
    #[error("cannot lock {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

fn describe(holder: Option<&Holder>) -> String {
    match holder {
        Some(holder) => format!("by signalbox {} (process {}, {})", holder.role, holder.pid, holder.version),
        None => "by another signalbox process".to_owned(),
    }
}

/// A held lock; dropping it gives the home free.
#[derive(Debug)]
pub struct Lock {
    file: File,
    path: PathBuf,
    holder: Holder,
}

impl Lock {
    /// Takes the lock without waiting, and writes who holds it.
    ///
    /// # Errors
    /// If another process holds it, or the file cannot be used.
    pub fn take(home: &Home, role: &str, version: &str) -> Result<Self, LockError> {
        let path = home.lock_file();
        let failed = |source| LockError::File { path: path.clone(), source };
        let mut file = open(&path).map_err(failed)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                let home = home.folder().to_path_buf();
                return Err(LockError::Held { home, holder: read(&mut file) });
            }
            Err(error) => return Err(failed(error.into())),
        }
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let holder = Holder {
            pid: std::process::id(),
            since_ms: u64::try_from(since.as_millis()).unwrap_or(u64::MAX),
            role: role.to_owned(),
            version: version.to_owned(),
            socket: home.socket().to_path_buf(),
            leaving: false,
        };
        write(&mut file, &holder).map_err(failed)?;
        Ok(Self { file, path, holder })
    }

    /// Writes into the file that the holder leaves.
    pub fn leaves(&mut self) {
        self.holder.leaving = true;
        if let Err(error) = write(&mut self.file, &self.holder) {
            tracing::warn!(path = %self.path.display(), %error, "cannot say in the lock file that this server leaves");
        }
    }

    /// The lock file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // The file stays: removing it would let two processes lock two files of one name. Emptied, it names nobody.
        if let Err(error) = self.file.set_len(0) {
            tracing::debug!(path = %self.path.display(), %error, "cannot empty the lock file");
        }
    }
}

impl Holder {
    /// Who wrote itself into the home's lock file last. It may have died since; [`Holder::current`] knows.
    #[must_use]
    pub fn last(home: &Home) -> Option<Self> {
        File::open(home.lock_file()).ok().and_then(|mut file| read(&mut file))
    }

    /// Whether the server of this process id, which is gone, left because somebody wanted it to: it says so in the lock
    /// file before it does.
    #[must_use]
    pub fn has_left(home: &Home, pid: u32) -> bool {
        Self::last(home).is_none_or(|holder| holder.pid == pid && holder.leaving)
    }

    /// Who holds the home's lock right now.
    #[must_use]
    pub fn current(home: &Home) -> Held {
        let Ok(mut file) = File::open(home.lock_file()) else { return Held::Free };
        // The kernel knows whether the process that wrote itself into the file still lives. If it does not, the lock is
        // ours for this moment; whoever wants it just now tries again.
        match flock(&file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => Held::Free,
            Err(_) => read(&mut file).map_or(Held::Unknown, Held::By),
        }
    }
}

/// Whether a home's lock is held.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Held {
    /// By nobody.
    Free,
    /// By a process that is just starting or ending.
    Unknown,
    /// By this one.
    By(Holder),
}

/// The turn of one program to start the home's server: of several that find none, one starts it and the others wait.
/// Held by the kernel, so it ends with its holders however they end: the program, and the server that it has given it to.
#[derive(Debug)]
pub struct StartTurn {
    file: File,
    path: PathBuf,
}

/// That a server of the home is being started.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Starting {
    /// The process that is to be the server; none if there is none yet.
    pub pid: Option<u32>,
}

impl Starting {
    /// Whether somebody starts the home's server right now.
    #[must_use]
    pub fn current(home: &Home) -> Option<Self> {
        let file = File::open(turn_file(home)).ok()?;
        match flock(&file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => None,
            Err(_) => {
                let mut text = String::new();
                let read = file.take(32).read_to_string(&mut text);
                Some(Self { pid: read.ok().and_then(|_| text.trim().parse().ok()) })
            }
        }
    }
}

fn turn_file(home: &Home) -> PathBuf {
    home.folder().join("starting")
}

impl StartTurn {
    /// Takes the turn if nobody has it.
    ///
    /// # Errors
    /// If the file cannot be used.
    pub fn try_take(home: &Home) -> Result<Option<Self>, LockError> {
        let path = turn_file(home);
        let failed = |source| LockError::File { path: path.clone(), source };
        let file = open(&path).map_err(failed)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                let mut turn = Self { file, path };
                // Whoever is named there was started by somebody before.
                turn.write("")?;
                Ok(Some(turn))
            }
            Err(Errno::WOULDBLOCK | Errno::INTR) => Ok(None),
            Err(error) => Err(failed(error.into())),
        }
    }

    /// The turn for a child too: it lasts until both have closed it.
    ///
    /// # Errors
    /// If the process has no descriptor left.
    pub fn share(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Says which process is to be the server.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn names(&mut self, pid: u32) -> Result<(), LockError> {
        self.write(&pid.to_string())
    }

    fn write(&mut self, text: &str) -> Result<(), LockError> {
        let mut write = || {
            self.file.set_len(0)?;
            self.file.seek(SeekFrom::Start(0))?;
            self.file.write_all(text.as_bytes())
        };
        write().map_err(|source| LockError::File { path: self.path.clone(), source })
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

fn read(file: &mut File) -> Option<Holder> {
    let mut text = String::new();
    file.seek(SeekFrom::Start(0)).ok()?;
    file.take(64 * 1024).read_to_string(&mut text).ok()?;
    toml::from_str(&text).ok()
}

fn write(file: &mut File, holder: &Holder) -> io::Result<()> {
    let text = toml::to_string(holder).map_err(io::Error::other)?;
    file.set_len(0)?;
    file.seek(SeekFrom::Start(0))?;
    file.write_all(text.as_bytes())
}
