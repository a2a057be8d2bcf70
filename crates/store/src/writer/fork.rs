//! A session that begins with another one's history: all of it copied in one transaction, inside the database.

use signalbox_facts::{
    Activity, ActivityState, Fact, FactBody, Seq, SessionCreated, SessionId, SessionRow, TurnId,
};
use sqlx::sqlite::SqliteConnection;
use sqlx::{Executor, Row};
use uuid::Uuid;

use crate::change::{self, word};
use crate::derive::Change;
use crate::error::ForkError;
use crate::reader::decode;
use crate::sql::Statement;
use crate::{StorageKind, StoreError};

/// A session to be made from another one's history.
#[derive(Clone, PartialEq, Debug)]
pub struct Fork {
    /// Whose history.
    pub source: SessionId,
    /// The last fact that is copied: the end of a turn, or anything after it and before the next turn.
    pub through_seq: Seq,
    /// The new session's id.
    pub session: SessionId,
    /// What the new session is set up with. Its policy, model, effort, cwd and roots hold, not those of the source.
    pub created: SessionCreated,
    /// The agent's own id of a copy of its conversation, if it has made one.
    pub agent_session: Option<String>,
    /// When, Unix milliseconds.
    pub at_ms: i64,
}

impl Fork {
    /// The new session's first fact.
    #[must_use]
    pub fn created_fact(&self) -> Fact {
        let created = SessionCreated { forked_from: Some(self.source), ..self.created.clone() };
        self.fact(1, FactBody::SessionCreated(created.into()))
    }

    fn fact(&self, seq: Seq, body: FactBody) -> Fact {
        let session = self.session;
        Fact { session, turn: None, seq, through_seq: seq, item_seq: None, at_ms: self.at_ms, body }
    }
}

/// The name under which another database is read while it is copied from.
const ELSEWHERE: &str = "elsewhere";

/// A statement about the source, in the database where it is.
fn about(sql: &str, from: &str) -> Statement {
    Statement::composed(sql.replace("{from}", from))
}

/// Rows copied by one statement. A statement that reads and writes one table holds what it has read in memory.
const COPY_ROWS: i64 = 1024;

/// What is not the fork's: settings, which `session_created` tells, the agent's conversation, the queue, the archive,
/// the checkout, rules. Rules kept by an answer are cut out of the answer.
const COPY: &str = "insert into facts (session, seq, through_seq, turn, item_seq, at_ms, kind, body) \
     select ?1, seq, min(through_seq, ?5), turn, item_seq, at_ms, kind, \
     case when kind = 'permission_resolved' and json_valid(body) then json_remove(body, '$.kept_rule') else body end \
     from {from}.facts where session = ?2 and seq > ?3 and seq <= ?4 and kind not in ('session_created', 'agent_session', \
     'policy_changed', 'settings_changed', 'queue_changed', 'archived', 'worktree_discarded', 'rule_removed')";

/// A turn that the source took back later is not taken back in the fork.
const COPY_TURNS: &str = "with reverts (seq, from_seq) as materialized \
     (select seq, body ->> '$.from_seq' from facts where session = ?1 and kind = 'reverted' and json_valid(body)) \
     insert into turns (session, first_seq, id, end_seq, status, reverted, compacted, started_at_ms, ended_at_ms, \
     failure, context) \
     select ?1, t.first_seq, t.id, t.end_seq, t.status, \
     t.reverted = 1 and exists (select 1 from reverts r where r.from_seq <= t.first_seq and r.seq > t.first_seq), \
     t.compacted, t.started_at_ms, t.ended_at_ms, t.failure, t.context \
     from {from}.turns t where t.session = ?2 and t.first_seq <= ?3";

/// Seqs of the facts from which the row of a session without settings follows.
const TELLING: &str = "select max(through_seq), \
     max(seq) filter (where kind = 'title_changed' and json_valid(body)), \
     max(seq) filter (where kind = 'usage' and json_valid(body)), \
     max(seq) filter (where kind = 'activity' and json_valid(body)), \
     max(seq) filter (where kind in ('prompt', 'turn_ended') and json_valid(body)), \
     min(seq) filter (where kind = 'prompt' and json_valid(body) and body ->> '$.display' <> '') \
     from facts where session = ?1";

/// Copies, from another database if one is named. The outer error is the database's, and the connection is not to be used
/// again after it.
pub(super) async fn fork(
    connection: &mut SqliteConnection,
    fork: &Fork,
    elsewhere: Option<String>,
) -> Result<Result<SessionRow, ForkError>, sqlx::Error> {
    let from = if elsewhere.is_some() { ELSEWHERE } else { "main" };
    if let Some(uri) = &elsewhere {
        let attach = Statement::composed(format!("attach database ?1 as {ELSEWHERE}"));
        attach.bind(uri.clone()).execute(connection).await?;
    }
    connection.execute("begin immediate").await?;
    let row = copy(connection, fork, from).await?;
    connection.execute(if row.is_ok() { "commit" } else { "rollback" }).await?;
    if elsewhere.is_some() {
        Statement::composed(format!("detach database {ELSEWHERE}")).execute(connection).await?;
    }
    Ok(row)
}

async fn copy(
    connection: &mut SqliteConnection,
    fork: &Fork,
    from_where: &str,
) -> Result<Result<SessionRow, ForkError>, sqlx::Error> {
    if let Err(refusal) = check(connection, fork, from_where).await? {
        return Ok(Err(refusal));
    }
    let (id, source) = (fork.session.0, fork.source.0);
    let first = fork.created_fact();
    if let FactBody::SessionCreated(created) = &first.body {
        let created = Change::Created { at_ms: fork.at_ms, created };
        match change::statement(fork.session, &created).0.execute(connection).await {
            Err(error) if StorageKind::of(&error) == StorageKind::Constraint => {
                return Ok(Err(ForkError::Exists { session: fork.session }));
            }
            created => created?,
        };
    }
    append(connection, &first).await?;
    let mut from = 1;
    while let Some(to) = next_slice(connection, fork, from_where, from).await? {
        let copy = about(COPY, from_where).id(id).id(source).int(from).int(to).int(fork.through_seq);
        copy.execute(connection).await?;
        from = to;
    }
    about(COPY_TURNS, from_where).id(id).id(source).int(fork.through_seq).execute(connection).await?;
    let Some(mut row) = SessionRow::created(&first) else {
        return Ok(Err(ForkError::Exists { session: fork.session }));
    };
    for fact in telling(connection, fork.session, &mut row).await? {
        row.apply(&fact);
    }
    if row.activity.state != ActivityState::Idle {
        // How the source's turn ended is told by the turn; the fork has nothing to recover from.
        let idle = Activity { revision: row.activity.revision + 1, state: ActivityState::Idle };
        let fact = fork.fact(row.last_seq + 1, FactBody::Activity(idle));
        append(connection, &fact).await?;
        row.apply(&fact);
    }
    if let Some(id) = &fork.agent_session {
        let fact = fork.fact(row.last_seq + 1, FactBody::AgentSession { id: id.clone() });
        append(connection, &fact).await?;
        row.apply(&fact);
    }
    store(connection, &row).await?;
    Ok(Ok(row))
}

/// Whether the source can be cut there.
async fn check(
    connection: &mut SqliteConnection,
    fork: &Fork,
    from_where: &str,
) -> Result<Result<(), ForkError>, sqlx::Error> {
    let (session, through) = (fork.source, fork.through_seq);
    let last = about("select last_seq from {from}.sessions where id = ?1", from_where).id(session.0);
    let Some(row) = connection.fetch_optional(last.query()?).await? else {
        return Ok(Err(ForkError::UnknownSource { session }));
    };
    let last = row.try_get::<i64, _>(0)?.unsigned_abs();
    if through == 0 || through > last {
        return Ok(Err(ForkError::NoSuchSeq { session, through, last }));
    }
    let turn = "select id, end_seq from {from}.turns where session = ?1 and first_seq <= ?2 order by first_seq desc limit 1";
    let turn = about(turn, from_where).id(session.0).int(through);
    let Some(row) = connection.fetch_optional(turn.query()?).await? else { return Ok(Ok(())) };
    let end: Option<i64> = row.try_get(1)?;
    if end.is_some_and(|end| end.unsigned_abs() <= through) {
        return Ok(Ok(()));
    }
    let turn = Uuid::from_slice(row.try_get(0)?).map_err(|error| sqlx::Error::Decode(error.into()))?;
    Ok(Err(ForkError::InsideTurn { session, through, turn: TurnId(turn) }))
}

/// Seq of the last row of the next slice.
async fn next_slice(
    connection: &mut SqliteConnection,
    fork: &Fork,
    from_where: &str,
    from: Seq,
) -> Result<Option<Seq>, sqlx::Error> {
    let sql = "select max(seq) from (select seq from {from}.facts where session = ?1 and seq > ?2 and seq <= ?3 \
               order by seq limit ?4)";
    let slice = about(sql, from_where).id(fork.source.0).int(from).int(fork.through_seq).bind(COPY_ROWS);
    let row = connection.fetch_one(slice.query()?).await?;
    Ok(row.try_get::<Option<i64>, _>(0)?.map(i64::unsigned_abs))
}

async fn append(connection: &mut SqliteConnection, fact: &Fact) -> Result<(), sqlx::Error> {
    let sql =
        "insert into facts (session, seq, through_seq, at_ms, kind, body) values (?1, ?2, ?2, ?3, ?4, ?5)";
    let statement = Statement::new(sql).id(fact.session.0).int(fact.seq).bind(fact.at_ms);
    statement.bind(fact.body.kind()).json(&fact.body).execute(connection).await.map(drop)
}

/// The few facts that the row follows from, in order; the high-water mark goes straight into the row.
async fn telling(
    connection: &mut SqliteConnection,
    session: SessionId,
    row: &mut SessionRow,
) -> Result<Vec<Fact>, sqlx::Error> {
    let found = connection.fetch_one(Statement::new(TELLING).id(session.0).query()?).await?;
    let seq = |column: usize| found.try_get::<Option<i64>, _>(column);
    row.last_seq = seq(0)?.unwrap_or(1).unsigned_abs();
    let sql = format!(
        "select {} from facts where session = ?1 and seq in (?2, ?3, ?4, ?5, ?6) order by seq",
        decode::FACT
    );
    let mut statement = Statement::composed(sql).id(session.0);
    for column in 1..=5 {
        statement = statement.bind(seq(column)?);
    }
    let rows = connection.fetch_all(statement.query()?).await?;
    rows.iter().map(|row| decode::fact(session, row)).collect()
}

/// Writes what follows from copied facts into the row that `session_created` made.
async fn store(connection: &mut SqliteConnection, row: &SessionRow) -> Result<(), sqlx::Error> {
    let sql = "update sessions set last_seq = ?2, activity = ?3, activity_revision = ?4, state = ?3 ->> '$.state.kind', \
               updated_at_ms = ?5, title = ?6, title_origin = ?7, preview = ?8, usage = ?9, agent_session = ?10 where id = ?1";
    let statement = Statement::new(sql)
        .id(row.id.0)
        .int(row.last_seq)
        .json(&row.activity)
        .int(row.activity.revision)
        .bind(row.updated_at_ms)
        .bind(row.title.clone())
        .bind(word(&row.title_origin))
        .bind(row.preview.clone())
        .bind(row.usage.as_ref().and_then(|usage| serde_json::to_string(usage).ok()))
        .bind(row.agent_session.clone());
    statement.execute(connection).await.map(drop)
}

/// The database's own trouble, for the caller.
pub(super) fn failed(error: sqlx::Error) -> ForkError {
    StoreError::database("forking a session")(error).into()
}
