//! Conversations on disk: one small JSON file a session, so that a later process can load it.

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::session::Kept;

/// A session in a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) id: String,
    pub(crate) cwd: PathBuf,
    pub(crate) title: Option<String>,
}

/// Something is wrong with a session's file.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MemoryError {
    #[error("{path}")]
    Io { path: PathBuf, source: io::Error },
    #[error("{path} is not a conversation")]
    Json { path: PathBuf, source: serde_json::Error },
}

#[derive(Serialize, Deserialize)]
struct Document<S> {
    version: u32,
    #[serde(flatten)]
    session: S,
}

const VERSION: u32 = 1;
/// Files beyond this are not ours: a saved conversation is bounded far below.
const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;
/// The most files that one listing looks into.
const MAX_LISTED: usize = 1000;

/// The state folder, or nothing.
pub(crate) struct Memory {
    dir: Option<PathBuf>,
}

impl Memory {
    pub(crate) fn new(dir: Option<PathBuf>) -> Self {
        Self { dir }
    }

    /// Whether anything is kept.
    pub(crate) fn keeps(&self) -> bool {
        self.dir.is_some()
    }

    /// Writes a session's file; a reader sees the old one or the new one.
    pub(crate) fn save(&self, id: &str, session: &Kept) -> Result<(), MemoryError> {
        let Some(path) = self.path(id) else { return Ok(()) };
        let wrap = |source| MemoryError::Io { path: path.clone(), source };
        let text = serde_json::to_vec(&Document { version: VERSION, session })
            .map_err(|source| MemoryError::Json { path: path.clone(), source })?;
        if let Some(dir) = &self.dir {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(wrap)?;
        }
        let draft = path.with_extension("tmp");
        let mut options = fs::OpenOptions::new();
        let mut file =
            options.write(true).create(true).truncate(true).mode(0o600).open(&draft).map_err(wrap)?;
        io::Write::write_all(&mut file, &text).map_err(wrap)?;
        fs::rename(&draft, &path).map_err(wrap)
    }

    /// Reads a session's file; `None` if there is none.
    pub(crate) fn load(&self, id: &str) -> Result<Option<Kept>, MemoryError> {
        let Some(path) = self.path(id) else { return Ok(None) };
        read(&path)
    }

    /// Removes a session's file; whether there was one.
    pub(crate) fn remove(&self, id: &str) -> Result<bool, MemoryError> {
        let Some(path) = self.path(id) else { return Ok(false) };
        match fs::remove_file(&path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(source) => Err(MemoryError::Io { path, source }),
        }
    }

    /// The ids of all kept sessions, newest first.
    pub(crate) fn ids(&self) -> Vec<String> {
        let Some(dir) = &self.dir else { return Vec::new() };
        let Ok(files) = fs::read_dir(dir) else { return Vec::new() };
        let mut ids: Vec<String> = files
            .flatten()
            .filter_map(|file| {
                let name = file.file_name();
                let id = name.to_str()?.strip_suffix(".json")?;
                Uuid::parse_str(id).is_ok().then(|| id.to_owned())
            })
            .collect();
        // Version 7 ids sort by the time of their making.
        ids.sort_unstable_by(|a, b| b.cmp(a));
        ids.truncate(MAX_LISTED);
        ids
    }

    /// The path of a session's file. Ids are ours, so anything that is no UUID has none.
    fn path(&self, id: &str) -> Option<PathBuf> {
        let dir = self.dir.as_ref()?;
        let id = Uuid::parse_str(id).ok()?;
        Some(dir.join(format!("{id}.json")))
    }
}

fn read(path: &Path) -> Result<Option<Kept>, MemoryError> {
    let wrap = |source| MemoryError::Io { path: path.to_owned(), source };
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(wrap(error)),
    };
    if !metadata.is_file() || metadata.len() > MAX_FILE_BYTES {
        return Err(wrap(io::ErrorKind::InvalidData.into()));
    }
    let text = fs::read(path).map_err(wrap)?;
    let document: Document<Kept> = serde_json::from_slice(&text)
        .map_err(|source| MemoryError::Json { path: path.to_owned(), source })?;
    Ok(Some(document.session))
}
