//! The file in which a test finds each line that the client has sent.

use std::{
    fs::{File, OpenOptions},
    io::Write as _,
    path::PathBuf,
};

use parking_lot::Mutex;

use crate::complain;

/// An open file; several processes may append to the same one.
pub(crate) struct Heard(Mutex<File>);

impl Heard {
    /// Opens it. What cannot be opened is said on stderr, and nothing is noted.
    pub(crate) fn open(path: PathBuf) -> Option<Self> {
        match OpenOptions::new().create(true).append(true).open(&path) {
            Ok(file) => Some(Self(Mutex::new(file))),
            Err(error) => {
                complain(&format!("{}: {error}", path.display()));
                None
            }
        }
    }

    /// Notes one line before anything is done about it.
    pub(crate) fn note(&self, line: &[u8]) {
        let mut whole = line.to_vec();
        whole.push(b'\n');
        if let Err(error) = self.0.lock().write_all(&whole) {
            complain(&format!("a line could not be noted: {error}"));
        }
    }
}
