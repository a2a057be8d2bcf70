//! Which directory a checkout is: noted in git's record of the worktree, so that a replacement is noticed even if it
//! carries a copy of everything inside.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::UNIX_EPOCH;

/// Name of the note inside `<repository>/worktrees/<name>`.
const FILE: &str = "signalbox-identity";

/// What tells a directory from every other one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Identity {
    inode: u64,
    /// Nanoseconds since the epoch; `None` where the file system does not tell.
    born_at: Option<u128>,
}

impl Identity {
    /// The identity of a directory (not of one that a link points to).
    pub(super) fn of(dir: &Path) -> io::Result<Self> {
        let metadata = fs::symlink_metadata(dir)?;
        if !metadata.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        let born_at = metadata
            .created()
            .ok()
            .and_then(|at| at.duration_since(UNIX_EPOCH).ok())
            .map(|since| since.as_nanos());
        Ok(Self { inode: metadata.ino(), born_at })
    }

    /// Whether both are the same directory. The time of birth decides where both are known: inode numbers are used
    /// again at once by some file systems, and change with a new mount on others.
    pub(super) fn is(&self, other: &Self) -> bool {
        match (self.born_at, other.born_at) {
            (Some(ours), Some(theirs)) => ours == theirs,
            _ => self.inode == other.inode,
        }
    }

    /// Notes it in git's record of the worktree, whose removal removes the note.
    pub(super) fn note(&self, admin: &Path) -> io::Result<()> {
        let born_at = self.born_at.map(|at| at.to_string()).unwrap_or_default();
        fs::write(admin.join(FILE), format!("inode {}\nborn_at {born_at}\n", self.inode))
    }

    /// What was noted; `None` if nothing that can be read, which is no proof of anything.
    pub(super) fn noted(admin: &Path) -> Option<Self> {
        let text = fs::read_to_string(admin.join(FILE)).ok()?;
        let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
        Some(Self {
            inode: value("inode")?.parse().ok()?,
            born_at: value("born_at").and_then(|at| at.parse().ok()),
        })
    }
}
