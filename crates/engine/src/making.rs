//! Notes of checkouts that are being made, so that the next start can take back what a kill left between checkout and
//! session. What of a checkout may go is decided in the crate `workspace`; what becomes of it later, in `worktrees.rs`.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use signalbox_facts::SessionId;
use signalbox_store::StoreError;
use signalbox_workspace::{Leftover, Making, take_back_orphan};

use crate::core::Core;

/// Folder of the notes, inside the folder for checkouts.
const FOLDER: &str = "making";

/// One note for each checkout whose session is not stored yet, in a file named after the session.
#[derive(Debug)]
pub(crate) struct Notes {
    folder: PathBuf,
    /// Sessions that have a note. Also keeps two creations for one id apart, and a creation from what is being taken back.
    noted: Mutex<HashSet<SessionId>>,
}

/// The content of a note.
#[derive(Serialize, Deserialize)]
struct Note {
    session: SessionId,
    repository: PathBuf,
    checkout: PathBuf,
    branch: String,
    commit: String,
}

impl Notes {
    /// Notes are kept in a folder of their own inside this one; made when it is needed, removed when it is empty.
    pub(crate) fn new(worktrees: &Path) -> Self {
        Self { folder: worktrees.join(FOLDER), noted: Mutex::default() }
    }

    /// Notes what will be made; when it returns the disk has it. Blocks.
    pub(crate) fn write(&self, making: &Making) -> io::Result<()> {
        let mut noted = self.noted.lock();
        if noted.contains(&making.session) {
            let why = "another checkout for this session is being made or taken back";
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
        }
        let Making { session, repository, checkout, branch, commit } = making.clone();
        let text = serde_json::to_vec(&Note { session, repository, checkout, branch, commit })?;
        let draft = self.folder.join(format!("{session}.tmp"));
        let written = make_folder(&self.folder).and_then(|()| {
            let mut file = File::create(&draft)?;
            file.write_all(&text)?;
            file.sync_all()?;
            fs::rename(&draft, self.file(session))?;
            sync_folder(&self.folder)
        });
        match written {
            Ok(()) => {
                noted.insert(session);
            }
            Err(_) => {
                // Nothing will be made, so nothing needs to be remembered; the next start does not mind what remains.
                let _ = fs::remove_file(&draft);
                let _ = fs::remove_file(self.file(session));
                self.remove_empty_folders();
            }
        }
        written
    }

    /// Removes a note: its checkout has a session, or is gone. Blocks.
    pub(crate) fn remove(&self, session: SessionId) {
        let mut noted = self.noted.lock();
        let file = self.file(session);
        let removed = match fs::remove_file(&file) {
            // If the note came back after a power cut, it could outlive its session.
            Ok(()) => sync_folder(&self.folder),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        };
        match removed {
            Ok(()) => {
                noted.remove(&session);
                self.remove_empty_folders();
            }
            Err(error) => {
                tracing::error!(%session, note = %file.display(), %error, "the note of a checkout was not removed");
            }
        }
    }

    /// What earlier processes noted and did not bring to an end. Blocks.
    fn found(&self) -> Vec<Making> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Vec::new(),
            Err(error) => {
                let folder = self.folder.display();
                tracing::error!(%folder, %error, "the notes of checkouts cannot be read");
                return Vec::new();
            }
        };
        let mut noted = self.noted.lock();
        let mut found = Vec::new();
        for entry in entries {
            let path = match entry {
                Ok(entry) => entry.path(),
                Err(error) => {
                    tracing::error!(folder = %self.folder.display(), %error, "a note of a checkout was not found again");
                    continue;
                }
            };
            let session = path.file_stem().and_then(|stem| stem.to_str()?.parse::<SessionId>().ok());
            let (Some(session), Some(kind)) = (session, path.extension().and_then(|kind| kind.to_str()))
            else {
                tracing::warn!(path = %path.display(), "not a note of a checkout; left alone");
                continue;
            };
            if kind == "tmp" {
                // Nothing is made before its note is whole.
                if let Err(error) = fs::remove_file(&path) {
                    tracing::warn!(path = %path.display(), %error, "an unfinished note was not removed");
                }
                continue;
            }
            noted.insert(session);
            match read(&path) {
                Ok(making) if making.session == session => found.push(making),
                Ok(_) => {
                    tracing::error!(note = %path.display(), "a note of a checkout names another session")
                }
                Err(error) => {
                    tracing::error!(note = %path.display(), %error, "a note of a checkout cannot be read; left alone");
                }
            }
        }
        self.remove_empty_folders();
        found
    }

    fn file(&self, session: SessionId) -> PathBuf {
        self.folder.join(format!("{session}.json"))
    }

    /// Called with the lock held, so that no note is just about to go in.
    fn remove_empty_folders(&self) {
        if fs::remove_dir(&self.folder).is_ok()
            && let Some(worktrees) = self.folder.parent()
        {
            let _ = fs::remove_dir(worktrees);
        }
    }
}

/// Takes back, in the background, each checkout that was noted and that no session owns. Returns once it is known which
/// these are: what is noted from then on is not meant.
pub(crate) async fn take_back_what_a_kill_left(core: &Arc<Core>) {
    let worktrees = &core.worktrees;
    let notes = Arc::clone(&worktrees.notes);
    let found = core.tracker.spawn_blocking(move || notes.found()).await.unwrap_or_else(|lost| {
        tracing::error!(%lost, "the notes of checkouts were not read");
        Vec::new()
    });
    if !found.is_empty() {
        let job = {
            let core = Arc::clone(core);
            async move {
                for making in found {
                    settle(&core, making).await;
                }
            }
        };
        core.tracker.spawn(worktrees.settling.track_future(job));
    }
    worktrees.settling.close();
}

/// Brings one note to an end. What cannot be done now is tried again at the next start.
async fn settle(core: &Core, making: Making) {
    let session = making.session;
    let owned = match core.stores.disk.reader.session(session).await {
        Ok(row) => row.is_some(),
        // It cannot be read, and it is there.
        Err(StoreError::Unreadable { .. }) => true,
        Err(error) => {
            return tracing::error!(%session, %error, "whether a noted checkout has a session is not known");
        }
    };
    let slot = tokio::select! {
        biased;
        () = core.shutdown.cancelled() => return,
        slot = core.worktrees.slot() => slot,
    };
    let notes = Arc::clone(&core.worktrees.notes);
    let settled = core.tracker.spawn_blocking(move || {
        let _slot = slot;
        let left = if owned { Vec::new() } else { take_back_orphan(&making) };
        let checkout = making.checkout.display();
        if left.is_empty() {
            if !owned {
                tracing::info!(%session, %checkout, "took back a checkout that a stop left without a session");
            }
            notes.remove(session);
        } else {
            let left = list(&left);
            tracing::error!(%session, %checkout, left, "a checkout without a session remains");
        }
    });
    if let Err(lost) = settled.await {
        tracing::error!(%session, %lost, "a checkout without a session was not looked at");
    }
}

/// What could not be removed, in one line.
pub(crate) fn list(left: &[Leftover]) -> String {
    left.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn read(path: &Path) -> io::Result<Making> {
    let Note { session, repository, checkout, branch, commit } = serde_json::from_slice(&fs::read(path)?)?;
    Ok(Making { session, repository, checkout, branch, commit })
}

/// Makes a folder and those above it, each known to the disk.
fn make_folder(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let Some(parent) = folder.parent() else { return Ok(()) };
    make_folder(parent)?;
    match fs::create_dir(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    sync_folder(parent)
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    match File::open(folder)?.sync_all() {
        // Some file systems know no such thing.
        Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => {
            Ok(())
        }
        synced => synced,
    }
}
