//! Contents of files before a turn, kept by hash in a folder of ours: never in the user's object store.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use git2::{ObjectType, Oid};

/// A folder of contents named by their hash. Several sessions, and several processes, may share it.
///
/// Nothing is synced to disk: a content matters only as long as the turn runs that may change its file.
#[derive(Clone, Debug)]
pub struct BlobStore {
    dir: PathBuf,
}

impl BlobStore {
    /// Opens the folder, which is made (readable by the owner only) if missing.
    pub fn open(dir: &Path) -> io::Result<Self> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        // Whoever made the folder: what lies inside may be secret.
        if fs::metadata(dir)?.permissions().mode() & 0o077 != 0 {
            fs::set_permissions(dir, Permissions::from_mode(0o700))?;
        }
        Ok(Self { dir: dir.to_owned() })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.dir
    }

    fn file(&self, oid: Oid) -> PathBuf {
        let name = oid.to_string();
        let (first, rest) = name.split_at(2);
        self.dir.join(first).join(rest)
    }

    /// Whether a content of that size is there; if so, its age for [`Self::prune`] begins anew.
    pub(crate) fn holds(&self, oid: Oid, size: u64) -> bool {
        let path = self.file(oid);
        let Ok(metadata) = fs::symlink_metadata(&path) else { return false };
        if metadata.len() != size {
            return false;
        }
        let old = metadata
            .modified()
            .ok()
            .and_then(|at| at.elapsed().ok())
            .is_some_and(|age| age > Duration::from_secs(3600));
        // Failing to renew the age is harmless until the next prune, which leaves a diff partial at worst.
        !old || File::options()
            .append(true)
            .open(&path)
            .and_then(|file| file.set_modified(SystemTime::now()))
            .is_ok()
    }

    pub(crate) fn put(&self, oid: Oid, content: &[u8]) -> io::Result<()> {
        if self.holds(oid, content.len() as u64) {
            return Ok(());
        }
        let path = self.file(oid);
        match self.write(&path, content) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if let Some(parent) = path.parent() {
                    fs::DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
                }
                self.write(&path, content)
            }
            result => result,
        }
    }

    /// Writes aside and renames, so that a reader never sees half a content.
    fn write(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let unique = COUNTER.fetch_add(1, Ordering::Relaxed);
        let aside = path.with_extension(format!("{}-{unique}.new", std::process::id()));
        let written = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&aside)
            .and_then(|mut file| file.write_all(content))
            .and_then(|()| fs::rename(&aside, path));
        if written.is_err() {
            // Best effort: what stays behind is found by prune.
            let _ = fs::remove_file(&aside);
        }
        written
    }

    /// The content, if it is there and is what its name says.
    pub(crate) fn get(&self, oid: Oid) -> Option<Vec<u8>> {
        let content = fs::read(self.file(oid)).ok()?;
        (Oid::hash_object(ObjectType::Blob, &content).ok()? == oid).then_some(content)
    }

    /// Removes contents not used for `max_age`, then the longest unused ones until `max_bytes` are left.
    /// Call it when no turn runs, or with an age beyond that of any turn: a running turn's diff becomes partial
    /// without them. Returns the bytes removed.
    pub fn prune(&self, max_bytes: u64, max_age: Duration) -> io::Result<u64> {
        let mut files = Vec::new();
        let mut total = 0_u64;
        for folder in fs::read_dir(&self.dir)? {
            let folder = folder?;
            if !folder.file_type()?.is_dir() {
                continue;
            }
            for file in fs::read_dir(folder.path())? {
                let file = file?;
                let metadata = match file.metadata() {
                    Ok(metadata) => metadata,
                    // Somebody else prunes too.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    Err(error) => return Err(error),
                };
                total += metadata.len();
                files.push((metadata.modified()?, metadata.len(), file.path()));
            }
        }
        files.sort();
        let now = SystemTime::now();
        let mut removed = 0;
        for (used_at, size, path) in files {
            let expired = now.duration_since(used_at).is_ok_and(|age| age > max_age);
            if !expired && total - removed <= max_bytes {
                break;
            }
            match fs::remove_file(&path) {
                Ok(()) => removed += size,
                Err(error) if error.kind() == io::ErrorKind::NotFound => removed += size,
                Err(error) => return Err(error),
            }
        }
        Ok(removed)
    }
}
