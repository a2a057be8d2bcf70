//! The log of a detached server: one file, and the one before it, each of bounded size.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use signalbox_home::{Home, HomeError};

/// A log of this size becomes the one before, and a new one begins.
const LOG_BYTES: u64 = 4 * 1024 * 1024;
/// What is shown of its end.
pub(super) const TAIL_BYTES: u64 = 4 * 1024;

/// Where a home's server logs.
pub(super) fn path(home: &Home) -> Result<PathBuf, HomeError> {
    Ok(home.logs()?.join("server.log"))
}

/// Opens the log for adding to it; a full one is put aside first.
pub(super) fn open(path: &Path) -> io::Result<File> {
    if fs::metadata(path).is_ok_and(|meta| meta.len() >= LOG_BYTES) {
        fs::rename(path, path.with_extension("log.1"))?;
    }
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

/// Writes to the log, and begins a new file when it is full. Standard error goes along, so that whatever a library or a
/// panic prints is in the same place.
#[derive(Debug, Clone)]
pub struct ServerLog(Arc<Mutex<Open>>);

#[derive(Debug)]
struct Open {
    path: PathBuf,
    file: File,
    bytes: u64,
}

impl ServerLog {
    /// The log of this home's server.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn open(home: &Home) -> io::Result<Self> {
        let path = path(home).map_err(io::Error::other)?;
        let file = open(&path)?;
        let bytes = file.metadata()?.len();
        rustix::stdio::dup2_stderr(file.as_fd())?;
        Ok(Self(Arc::new(Mutex::new(Open { path, file, bytes }))))
    }
}

impl Write for ServerLog {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        let mut open = self.0.lock();
        if open.bytes >= LOG_BYTES {
            let file = self::open(&open.path)?;
            rustix::stdio::dup2_stderr(file.as_fd())?;
            rustix::stdio::dup2_stdout(file.as_fd())?;
            open.bytes = file.metadata()?.len();
            open.file = file;
        }
        let written = open.file.write(text)?;
        open.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.lock().file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_log_is_put_aside() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("server.log");
        let size = usize::try_from(LOG_BYTES).unwrap();
        fs::write(&path, vec![b'x'; size - 1]).unwrap();
        open(&path).unwrap().write_all(b"y").unwrap();
        open(&path).unwrap().write_all(b"z").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"z");
        assert_eq!(fs::read(folder.path().join("server.log.1")).unwrap().len(), size);
    }
}
