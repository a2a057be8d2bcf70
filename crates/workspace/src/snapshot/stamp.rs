//! What `lstat` says about a file, when that may be trusted, and the memory of contents hashed before.

use std::collections::HashMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use git2::Oid;

/// A file's mode as git knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    Regular,
    Executable,
    Symlink,
    /// A repository inside the repository; its content is a commit.
    Gitlink,
}

impl Mode {
    pub(crate) fn from_git(mode: u32) -> Option<Self> {
        match mode & 0o170_000 {
            0o100_000 if mode & 0o100 != 0 => Some(Self::Executable),
            0o100_000 => Some(Self::Regular),
            0o120_000 => Some(Self::Symlink),
            0o160_000 => Some(Self::Gitlink),
            _ => None,
        }
    }

    pub(crate) fn octal(self) -> &'static str {
        match self {
            Self::Regular => "100644",
            Self::Executable => "100755",
            Self::Symlink => "120000",
            Self::Gitlink => "160000",
        }
    }

    /// Whether both are contents of the same sort, so that one can be shown as an edit of the other.
    pub(crate) fn comparable(self, other: Self) -> bool {
        let file = |mode| matches!(mode, Self::Regular | Self::Executable);
        self == other || (file(self) && file(other))
    }
}

/// Seconds and nanoseconds since the epoch, as file systems keep them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct FileTime {
    pub(crate) secs: i64,
    pub(crate) nanos: i64,
}

impl FileTime {
    pub(crate) fn mtime(metadata: &Metadata) -> Self {
        Self { secs: metadata.mtime(), nanos: metadata.mtime_nsec() }
    }

    pub(crate) fn of(time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Self {
            secs: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
            nanos: i64::from(since.subsec_nanos()),
        }
    }

    fn plus(self, duration: Duration) -> Self {
        let nanos = self.nanos + i64::from(duration.subsec_nanos());
        let secs = i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
        Self {
            secs: self.secs.saturating_add(secs).saturating_add(nanos / 1_000_000_000),
            nanos: nanos % 1_000_000_000,
        }
    }
}

/// What identifies a state of a file without reading it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stamp {
    pub(crate) mode: Mode,
    pub(crate) size: u64,
    pub(crate) mtime: FileTime,
    pub(crate) ctime: FileTime,
    pub(crate) ino: u64,
}

impl Stamp {
    /// `None` for what git does not track: directories, sockets, pipes, devices.
    pub(crate) fn of(metadata: &Metadata) -> Option<Self> {
        Some(Self {
            mode: Mode::from_git(metadata.mode())?,
            size: metadata.size(),
            mtime: FileTime::mtime(metadata),
            ctime: FileTime { secs: metadata.ctime(), nanos: metadata.ctime_nsec() },
            ino: metadata.ino(),
        })
    }

    /// The same from `fstatat`.
    #[allow(
        clippy::unnecessary_cast,
        clippy::useless_conversion,
        trivial_numeric_casts,
        reason = "the types of the fields differ from system to system"
    )]
    pub(crate) fn of_stat(stat: &rustix::fs::Stat) -> Option<Self> {
        Some(Self {
            mode: Mode::from_git(stat.st_mode as u32)?,
            size: stat.st_size as u64,
            mtime: FileTime { secs: stat.st_mtime as i64, nanos: stat.st_mtime_nsec as i64 },
            ctime: FileTime { secs: stat.st_ctime as i64, nanos: stat.st_ctime_nsec as i64 },
            ino: stat.st_ino as u64,
        })
    }

    /// Whether the file could be written again without its stamp changing: clocks of file systems tick coarsely,
    /// so a file changed just before it was looked at cannot be told from one changed just after.
    pub(crate) fn is_racy(&self, looked_at: SystemTime) -> bool {
        // No file system stamps whole seconds by chance on both times.
        let (changed, tick) = if self.ctime.nanos == 0 && self.mtime.nanos == 0 {
            (self.ctime.max(self.mtime), Duration::from_secs(2))
        } else {
            (self.ctime, Duration::from_millis(20))
        };
        changed.plus(tick) >= FileTime::of(looked_at)
    }

    /// Whether the file surely did not change since `time`.
    pub(crate) fn is_older_than(&self, time: SystemTime) -> bool {
        !self.is_racy(time)
    }
}

/// Hashes of files that git's own index does not vouch for, by path and stamp, so that a file is read once however
/// many snapshots and diffs look at it. Owned by the caller, usually one a session; empty is always right.
#[derive(Debug, Default)]
pub struct StatCache {
    entries: HashMap<PathBuf, Hashed>,
    generation: u64,
}

#[derive(Debug)]
struct Hashed {
    stamp: Stamp,
    oid: Oid,
    generation: u64,
}

impl StatCache {
    /// Bound of the memory: some 20 MB at the very most.
    const MAX_ENTRIES: usize = 100_000;

    /// An empty cache.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How many files it knows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it knows none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn get(&mut self, path: &Path, stamp: &Stamp) -> Option<Oid> {
        let entry = self.entries.get_mut(path)?;
        entry.generation = self.generation;
        (entry.stamp == *stamp).then_some(entry.oid)
    }

    /// Remembers a hash, unless the file could have changed since under the same stamp.
    pub(crate) fn put(&mut self, path: PathBuf, stamp: Stamp, oid: Oid, read_at: SystemTime) {
        if stamp.is_racy(read_at)
            || (self.entries.len() >= Self::MAX_ENTRIES && !self.entries.contains_key(&path))
        {
            self.entries.remove(&path);
            return;
        }
        self.entries.insert(path, Hashed { stamp, oid, generation: self.generation });
    }

    /// Starts a snapshot: what it does not ask for is forgotten at [`Self::sweep`].
    pub(crate) fn begin(&mut self) {
        self.generation += 1;
    }

    pub(crate) fn sweep(&mut self) {
        let generation = self.generation;
        self.entries.retain(|_, entry| entry.generation == generation);
        self.entries.shrink_to_fit();
    }
}
