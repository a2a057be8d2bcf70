//! Opening connections: pragmas, the check that the file is ours, migrations.

use std::path::{Path, PathBuf};
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Executor, Row};

use crate::StoreError;

/// The schema, oldest step first. A step is never edited after a release; its place is its version.
const MIGRATIONS: &[&str] = &[
    include_str!("../../../migrations/0001_initial.sql"),
    include_str!("../../../migrations/0002_waiting_queues.sql"),
    include_str!("../../../migrations/0003_search.sql"),
];

/// Marks the file as ours (`SgBx` in ASCII), so that no other program's database is touched.
const APPLICATION_ID: i64 = 0x5367_4278;

/// Where the database is.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// A file, in WAL mode.
    File(PathBuf),
    /// Memory of this process, shared by all connections with the same name.
    Memory(String),
}

/// What differs between uses of the store.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// How long a write waits for a lock that another process holds before the commit fails. Default: 2 s.
    pub busy_timeout: Duration,
    /// Upper bound of the database in pages of 4 KiB; beyond it commits fail as if the disk were full. Default: none.
    pub max_pages: Option<u32>,
    /// About how many bytes the write-ahead log may take before it is moved into the file; at sixteen times as many the
    /// writer takes part, between two commits. Default: 4 MiB.
    pub wal_bytes: u64,
    /// Armed fail points.
    #[cfg(feature = "fail-points")]
    pub fail_points: crate::FailPoints,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            busy_timeout: Duration::from_secs(2),
            max_pages: None,
            wal_bytes: 4 * 1024 * 1024,
            #[cfg(feature = "fail-points")]
            fail_points: crate::FailPoints::from_environment(),
        }
    }
}

/// What a connection is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// The one connection that writes.
    Write,
    /// Reads only.
    Read,
    /// Moves the WAL into the file.
    Checkpoint,
}

/// Makes the file for its owner alone, wherever it lies; what SQLite puts beside it gets the same rights.
fn private(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
    match std::fs::metadata(path) {
        Ok(found) if found.permissions().mode() & 0o077 != 0 && found.is_file() => {
            let private = std::fs::Permissions::from_mode(0o600);
            std::fs::set_permissions(path, private)
        }
        Ok(_) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let made = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
            match made {
                // A folder that is not there is told by whoever opens the database.
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            }
        }
        Err(error) => Err(error),
    }
}

impl Place {
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::File(path) => path,
            Self::Memory(name) => Path::new(name),
        }
    }

    /// Where another connection finds it, for reading only.
    pub(crate) fn uri(&self) -> String {
        let (name, how) = match self {
            // Named, because it is not the way of a connection in memory.
            Self::File(path) => (path.to_string_lossy(), "mode=ro&vfs=unix"),
            Self::Memory(name) => (name.into(), "mode=ro&vfs=memdb"),
        };
        let name = name.replace('%', "%25").replace('?', "%3f").replace('#', "%23");
        format!("file:{name}?{how}")
    }

    /// The write-ahead log beside the file.
    pub(crate) fn wal(&self) -> Option<PathBuf> {
        let Self::File(path) = self else { return None };
        let mut wal = path.as_os_str().to_owned();
        wal.push("-wal");
        Some(wal.into())
    }

    fn options(&self, role: Role, options: &StoreOptions) -> SqliteConnectOptions {
        let (thread, statements) = match role {
            Role::Write => ("store-write", 64),
            Role::Read => ("store-read", 32),
            Role::Checkpoint => ("store-sync", 2),
        };
        let base = SqliteConnectOptions::new()
            .busy_timeout(options.busy_timeout)
            .statement_cache_capacity(statements)
            .command_buffer_size(4)
            .row_buffer_size(128)
            .foreign_keys(false)
            .thread_name(move |_| thread.to_owned())
            .disable_statement_logging();
        match self {
            Self::File(path) => {
                base.filename(path).create_if_missing(role == Role::Write).read_only(role == Role::Read)
            }
            // The `memdb` file system shares one database among the connections of a process, with proper locking;
            // shared cache mode would answer reads during a commit with errors.
            Self::Memory(name) => base.filename(name).vfs("memdb").create_if_missing(true),
        }
    }

    /// A connection that is ready for its role. The file must have been opened by [`Place::open`] before.
    pub(crate) async fn connect(
        &self,
        role: Role,
        options: &StoreOptions,
    ) -> Result<SqliteConnection, sqlx::Error> {
        let mut connection = self.options(role, options).connect().await?;
        connection.execute(AssertSqlSafe(self.pragmas(role, options))).await?;
        Ok(connection)
    }

    fn pragmas(&self, role: Role, options: &StoreOptions) -> String {
        // Page caches are small: the operating system caches the file as well, and idle memory counts.
        let mut sql = match role {
            Role::Write => "pragma cache_size = -1024; pragma temp_store = memory;".to_owned(),
            Role::Read => {
                "pragma cache_size = -512; pragma temp_store = memory; pragma query_only = 1;".to_owned()
            }
            Role::Checkpoint => "pragma cache_size = -64;".to_owned(),
        };
        if matches!(self, Self::File(_)) && role != Role::Read {
            // The WAL is moved by the checkpoint task alone, and shrinks when it starts over.
            sql.push_str("pragma journal_mode = wal; pragma synchronous = normal;");
            sql.push_str("pragma wal_autocheckpoint = 0; pragma journal_size_limit = 8388608;");
        }
        if let (Role::Write, Some(pages)) = (role, options.max_pages) {
            sql.push_str(&format!("pragma max_page_count = {pages};"));
        }
        sql
    }

    /// The write connection, after the file was found to be ours and brought to the newest schema.
    pub(crate) async fn open(&self, options: &StoreOptions) -> Result<(SqliteConnection, u64), StoreError> {
        let path = self.path();
        if matches!(self, Self::File(_)) {
            private(path).map_err(|source| StoreError::open(path, sqlx::Error::Io(source)))?;
        }
        let opened = self.options(Role::Write, options).connect().await;
        let mut connection = opened.map_err(|source| StoreError::open(path, source))?;
        let version = self.version(&mut connection).await?;
        if version == 0 && matches!(self, Self::File(_)) {
            // An empty file has nothing that a journal could save, and each of its syncs would be waited for.
            let first = connection.execute("pragma synchronous = normal; pragma journal_mode = off").await;
            first.map_err(|source| StoreError::open(path, source))?;
        }
        let pragmas = connection.execute(AssertSqlSafe(self.pragmas(Role::Write, options))).await;
        pragmas.map_err(|source| StoreError::open(path, source))?;
        self.migrate(&mut connection, version, MIGRATIONS).await?;
        let sequence = sqlx::query("select value from counters where name = 'pending_sequence'");
        let row = connection.fetch_one(sequence).await.map_err(|source| StoreError::open(path, source))?;
        let sequence: i64 = row.try_get(0).map_err(|source| StoreError::open(path, source))?;
        Ok((connection, sequence.unsigned_abs()))
    }

    /// Schema version of the file. Reads only: a file that is not ours stays as it is.
    async fn version(&self, connection: &mut SqliteConnection) -> Result<i64, StoreError> {
        let path = self.path();
        let sql = "select application_id, user_version, (select count(*) from sqlite_schema) \
                   from pragma_application_id, pragma_user_version";
        let row = connection.fetch_one(sql).await.map_err(|source| StoreError::open(path, source))?;
        let read = |at: usize| row.try_get::<i64, _>(at).map_err(|source| StoreError::open(path, source));
        let (application, version, tables) = (read(0)?, read(1)?, read(2)?);
        let known = i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX);
        match (application, version) {
            (APPLICATION_ID, found) if found > known => {
                Err(StoreError::Newer { path: path.to_path_buf(), found, known })
            }
            (APPLICATION_ID, found) => Ok(found),
            (0, 0) if tables == 0 => Ok(0),
            _ => Err(StoreError::Foreign { path: path.to_path_buf() }),
        }
    }

    /// All missing steps in one transaction: a crash leaves the old schema or the new one. What held data before is
    /// copied beside the file first, because an older program cannot read the result.
    async fn migrate(
        &self,
        connection: &mut SqliteConnection,
        from: i64,
        steps: &[&'static str],
    ) -> Result<(), StoreError> {
        let path = self.path();
        let done = usize::try_from(from).unwrap_or(0);
        let newest = steps.len();
        if done >= newest {
            return Ok(());
        }
        if let Self::File(path) = self
            && from > 0
        {
            let kept = backup(path, connection, from).await?;
            tracing::info!(backup = %kept.display(), "database copied before its migration");
        }
        let failed = |to: usize| {
            let to = i64::try_from(to).unwrap_or(i64::MAX);
            move |source| StoreError::Migrate { path: path.to_path_buf(), from, to, source }
        };
        connection.execute("begin immediate").await.map_err(failed(done + 1))?;
        for (place, sql) in steps.iter().enumerate().skip(done) {
            connection.execute(*sql).await.map_err(failed(place + 1))?;
        }
        let stamp =
            format!("pragma application_id = {APPLICATION_ID}; pragma user_version = {newest}; commit");
        connection.execute(AssertSqlSafe(stamp)).await.map_err(failed(newest))?;
        tracing::info!(path = %path.display(), from, to = newest, "database schema created or migrated");
        Ok(())
    }
}

/// Copies the database to `signalbox.db.schema-<version>`, named for the version that the copy has, whole or not at all.
/// A copy of an earlier time is replaced.
async fn backup(path: &Path, connection: &mut SqliteConnection, version: i64) -> Result<PathBuf, StoreError> {
    let beside = |ending: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".schema-{version}{ending}"));
        PathBuf::from(name)
    };
    let (kept, partial) = (beside(""), beside(".partial"));
    let failed = |source| StoreError::Backup { path: kept.clone(), source };
    match std::fs::remove_file(&partial) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error.into())),
        _ => {}
    }
    let name = partial.to_string_lossy().into_owned();
    let copy = sqlx::query("vacuum into ?1").bind(name);
    connection.execute(copy).await.map_err(failed)?;
    let moved = std::fs::File::open(&partial).and_then(|file| {
        file.sync_all()?;
        std::fs::rename(&partial, &kept)
    });
    moved.map_err(|error| failed(error.into()))?;
    Ok(kept)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// A database of schema version 1 with a row in it, opened for writing.
    async fn old(folder: &Path) -> (Place, SqliteConnection) {
        let place = Place::File(folder.join("signalbox.db"));
        let (mut connection, _) = place.open(&StoreOptions::default()).await.unwrap();
        let older = "create table t (a); insert into t values ('kept'); pragma user_version = 1";
        connection.execute(older).await.unwrap();
        (place, connection)
    }

    async fn version(connection: &mut SqliteConnection) -> i64 {
        connection.fetch_one("pragma user_version").await.unwrap().get(0)
    }

    #[tokio::test]
    async fn what_held_data_is_copied_before_its_migration() {
        let folder = tempfile::tempdir().unwrap();
        let (place, mut connection) = old(folder.path()).await;
        std::fs::write(folder.path().join("signalbox.db.schema-1.partial"), "of a crash").unwrap();
        let steps = ["", "alter table t add column b", "update t set b = 'new'"];
        place.migrate(&mut connection, 1, &steps).await.unwrap();
        assert_eq!(version(&mut connection).await, 3);
        let row = connection.fetch_one("select a || b from t").await.unwrap();
        assert_eq!(row.get::<String, _>(0), "keptnew");

        let copy = Place::File(folder.path().join("signalbox.db.schema-1"));
        let mut before = copy.options(Role::Read, &StoreOptions::default()).connect().await.unwrap();
        assert_eq!(version(&mut before).await, 1);
        let row = before.fetch_one("select * from t").await.unwrap();
        assert_eq!((row.len(), row.get::<String, _>(0).as_str()), (1, "kept"));
        assert!(!folder.path().join("signalbox.db.schema-1.partial").exists());
    }

    #[tokio::test]
    async fn a_migration_that_fails_leaves_the_file_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let (place, mut connection) = old(folder.path()).await;
        let steps = ["", "alter table t add column b", "update nothing set a = 1"];
        let error = place.migrate(&mut connection, 1, &steps).await.unwrap_err();
        assert!(matches!(error, StoreError::Migrate { from: 1, to: 3, .. }), "{error}");
        drop(connection);
        let mut connection = place.options(Role::Read, &StoreOptions::default()).connect().await.unwrap();
        assert_eq!(version(&mut connection).await, 1);
        assert_eq!(connection.fetch_one("select * from t").await.unwrap().len(), 1);
        // Tried again, the copy of the first attempt is in nobody's way.
        let (place, mut connection) =
            (place.clone(), place.connect(Role::Write, &StoreOptions::default()).await.unwrap());
        place.migrate(&mut connection, 1, &["", "alter table t add column b", ""]).await.unwrap();
        assert_eq!(version(&mut connection).await, 3);
    }
}
