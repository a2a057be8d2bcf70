//! One transaction: each session's commit in a savepoint of its own, so that what fails takes nobody with it.

use std::sync::Arc;

use signalbox_facts::{Seq, SessionId, TurnId};
use sqlx::sqlite::SqliteConnection;
use sqlx::{Executor, Row};

use crate::change;
use crate::commit::Prepared;
use crate::derive::Change;
use crate::fail::{FailPoint, FailPoints};
use crate::sql::{FactRow, Frame, ROWS, Statement, Texts};
use crate::{CommitError, StorageKind};

/// The transaction as a whole did not happen, or is not known to have.
#[derive(Debug)]
pub(super) enum Lost {
    /// Another process holds a lock and kept it for the whole time that we wait.
    Locked(sqlx::Error),
    /// Anything else; the connection is not to be trusted.
    Gone(sqlx::Error),
}

impl Lost {
    pub(super) fn of(error: sqlx::Error) -> Self {
        match StorageKind::of(&error) {
            StorageKind::Locked => Self::Locked(error),
            _ => Self::Gone(error),
        }
    }
}

/// Why one session's commit failed.
enum Failure {
    /// It contradicts what is stored.
    Rejected(CommitError),
    /// The database could not take it.
    Sql(sqlx::Error),
    /// It took the transaction with it.
    Lost(Lost),
}

impl From<sqlx::Error> for Failure {
    fn from(error: sqlx::Error) -> Self {
        Self::Sql(error)
    }
}

/// Stores all commits that can be stored. Answers one result for each.
pub(super) async fn transact(
    connection: &mut SqliteConnection,
    texts: &mut Texts,
    fail: &FailPoints,
    writes: &[&Prepared],
) -> Result<Vec<Result<(), CommitError>>, Lost> {
    if !fail.any() && append(connection, texts, writes).await? {
        return Ok(writes.iter().map(|_| Ok(())).collect());
    }
    let many = writes.len() > 1;
    let mut transaction = Transaction { connection, texts, fail, many, begun: false, ended: false };
    let mut results = Vec::with_capacity(writes.len());
    for write in writes {
        results.push(match transaction.write(write).await {
            Ok(()) => Ok(()),
            Err(Failure::Lost(lost)) => return Err(lost),
            Err(Failure::Rejected(error)) => {
                transaction.undo().await?;
                Err(error)
            }
            // Alone it is the transaction; a new connection may do better.
            Err(Failure::Sql(error)) if !many => return Err(Lost::Gone(error)),
            Err(Failure::Sql(error)) => {
                transaction.undo().await?;
                Err(CommitError::storage(write.session, Arc::new(error)))
            }
        });
    }
    transaction.commit().await?;
    Ok(results)
}

/// The common transaction, a few chunks that change no row but the high-water marks, as a single statement. False if it
/// is another one, or if one of the commits is not in its place: then nothing has happened, and the careful way finds
/// out which.
async fn append(
    connection: &mut SqliteConnection,
    texts: &mut Texts,
    writes: &[&Prepared],
) -> Result<bool, Lost> {
    let count: usize = writes.iter().map(|write| write.rows.len()).sum();
    if count > ROWS || writes.iter().any(|write| !write.is_plain()) {
        return Ok(false);
    }
    let rows = writes.iter().flat_map(|write| write.rows.iter().map(|row| (write.session, row)));
    match texts.append(count, rows).execute(connection).await {
        Ok(_) => Ok(true),
        Err(error) if StorageKind::of(&error) == StorageKind::Constraint => Ok(false),
        Err(error) => Err(Lost::of(error)),
    }
}

struct Transaction<'a> {
    connection: &'a mut SqliteConnection,
    texts: &'a mut Texts,
    fail: &'a FailPoints,
    /// Whether each commit has a savepoint; alone, the transaction is its own.
    many: bool,
    begun: bool,
    /// Rolled back because its only commit was rejected.
    ended: bool,
}

impl Transaction<'_> {
    async fn write(&mut self, write: &Prepared) -> Result<(), Failure> {
        if !self.begun {
            let lost = |error: std::io::Error| Failure::Lost(Lost::Gone(error.into()));
            self.fail.hit(FailPoint::BeforeBegin).await.map_err(lost)?;
        }
        let changes = write.changes();
        let mut savepoint = self.many;
        if let Some(created) = changes.iter().find(|change| matches!(change, Change::Created { .. })) {
            self.open(savepoint).await?;
            savepoint = false;
            self.create(write.session, created).await?;
        }
        let (first, rest) = write.rows.split_at(write.rows.len().min(ROWS));
        self.head(write, Frame { begin: !self.begun, savepoint }, first).await?;
        for rows in rest.chunks(ROWS) {
            self.texts.more(write.session, rows).execute(self.connection).await?;
        }
        for change in changes.iter().filter(|change| !matches!(change, Change::Created { .. })) {
            self.change(write.session, change).await?;
        }
        self.fail.hit(FailPoint::InSavepoint).await.map_err(|error| Failure::Sql(error.into()))?;
        if self.many {
            self.connection.execute("release c").await?;
        }
        Ok(())
    }

    /// Begins the transaction and the savepoint without a head.
    async fn open(&mut self, savepoint: bool) -> Result<(), Failure> {
        if !self.begun {
            let begun = self.connection.execute("begin immediate").await;
            begun.map_err(|error| Failure::Lost(Lost::of(error)))?;
            self.begun = true;
        }
        if savepoint {
            self.connection.execute("savepoint c").await?;
        }
        Ok(())
    }

    async fn create(&mut self, session: SessionId, created: &Change<'_>) -> Result<(), Failure> {
        let (statement, _) = change::statement(session, created);
        match statement.execute(self.connection).await {
            Ok(_) => Ok(()),
            Err(error) if StorageKind::of(&error) == StorageKind::Constraint => {
                Err(Failure::Rejected(CommitError::Exists { session }))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Compare-and-set of the high-water mark, and the first rows.
    async fn head(&mut self, write: &Prepared, frame: Frame, rows: &[FactRow]) -> Result<(), Failure> {
        let head = self.texts.head(frame, write.session, write.expected, write.last, rows);
        let (changed, result) = head.run(self.connection).await;
        if let Err(error) = result {
            if frame.begin && changed.len() == 0 {
                return Err(Failure::Lost(Lost::of(error)));
            }
            self.begun = true;
            return Err(error.into());
        }
        self.begun = true;
        if changed.at(frame.guard()) == 1 {
            return Ok(());
        }
        let (session, expected) = (write.session, write.expected);
        let stored = last_seq(self.connection, session).await?;
        Err(Failure::Rejected(CommitError::Conflict { session, expected, stored }))
    }

    async fn change(&mut self, session: SessionId, change: &Change<'_>) -> Result<(), Failure> {
        let (statement, must_change_one) = change::statement(session, change);
        let rejected = match statement.execute(self.connection).await {
            Ok(changed) if changed == 1 || !must_change_one => return Ok(()),
            Ok(_) => match change {
                Change::Activity { first, .. } => CommitError::Revision { session, revision: *first },
                _ => CommitError::Invalid { session, reason: format!("no row for {}", name(change)) },
            },
            Err(error) if StorageKind::of(&error) == StorageKind::Constraint => match change {
                Change::Receipt { client_message_id, .. } => CommitError::DuplicateMessage {
                    session,
                    client_message_id: (*client_message_id).to_owned(),
                    turn: receipt(self.connection, session, client_message_id).await?,
                },
                _ => CommitError::Invalid { session, reason: format!("{}: {error}", name(change)) },
            },
            Err(error) => return Err(error.into()),
        };
        Err(Failure::Rejected(rejected))
    }

    /// Back to before this session's commit.
    async fn undo(&mut self) -> Result<(), Lost> {
        let undo = if self.many { "rollback to c; release c" } else { "rollback" };
        self.connection.execute(undo).await.map_err(Lost::Gone)?;
        self.ended = !self.many;
        Ok(())
    }

    async fn commit(&mut self) -> Result<(), Lost> {
        if self.ended {
            return Ok(());
        }
        self.fail.hit(FailPoint::BeforeCommit).await.map_err(|error| Lost::Gone(error.into()))?;
        self.connection.execute("commit").await.map_err(Lost::Gone)?;
        Ok(())
    }
}

fn name(change: &Change<'_>) -> &'static str {
    match change {
        Change::Created { .. } => "session_created",
        Change::TurnOpened { .. } => "prompt",
        Change::TurnEnded { .. } => "turn_ended",
        Change::Parked { .. } => "permission_requested",
        _ => "derived row",
    }
}

async fn last_seq(connection: &mut SqliteConnection, session: SessionId) -> Result<Option<Seq>, sqlx::Error> {
    let query =
        sqlx::query("select last_seq from sessions where id = ?1").bind(session.0.into_bytes().to_vec());
    let row = connection.fetch_optional(query).await?;
    row.map(|row| row.try_get::<i64, _>(0).map(i64::unsigned_abs)).transpose()
}

async fn receipt(
    connection: &mut SqliteConnection,
    session: SessionId,
    client_message_id: &str,
) -> Result<Option<TurnId>, sqlx::Error> {
    let query = sqlx::query("select turn from receipts where session = ?1 and kind = 'message' and id = ?2")
        .bind(session.0.into_bytes().to_vec())
        .bind(client_message_id);
    let Some(row) = connection.fetch_optional(query).await? else { return Ok(None) };
    let turn: Option<&[u8]> = row.try_get(0)?;
    Ok(turn.and_then(|bytes| uuid::Uuid::from_slice(bytes).ok()).map(TurnId))
}

/// Whether the log holds this very row.
pub(super) async fn holds(
    connection: &mut SqliteConnection,
    session: SessionId,
    row: &FactRow,
) -> Result<bool, sqlx::Error> {
    let query = sqlx::query("select 1 from facts where session = ?1 and seq = ?2 and body = ?3")
        .bind(session.0.into_bytes().to_vec())
        .bind(row.seq())
        .bind(row.body());
    Ok(connection.fetch_optional(query).await?.is_some())
}

/// A maintenance transaction: all statements, or none if one changed another number of rows than it must.
pub(super) async fn slice(
    connection: &mut SqliteConnection,
    statements: Vec<(Statement, Option<u64>)>,
) -> Result<bool, sqlx::Error> {
    connection.execute("begin immediate").await?;
    for (statement, expected) in statements {
        let changed = statement.execute(connection).await?;
        if expected.is_some_and(|expected| expected != changed) {
            connection.execute("rollback").await?;
            return Ok(false);
        }
    }
    connection.execute("commit").await?;
    Ok(true)
}
