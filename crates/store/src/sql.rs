//! The statements of the writer: the head of a commit (compare-and-set and fact rows) and one per derived change.

use std::sync::Arc;

use serde::Serialize;
use signalbox_facts::{Fact, Seq, SessionId, TurnStatus};
use sqlx::sqlite::{SqliteArguments, SqliteConnection};
use sqlx::{Arguments, AssertSqlSafe, Either, Encode, Executor, SqlSafeStr, SqlStr, Sqlite, Type};

use crate::derive::Change;

/// A statement, or several with `?N` counted over all of them, and its values.
#[derive(Debug)]
pub(crate) struct Statement {
    sql: SqlStr,
    /// How many statements it is.
    parts: usize,
    values: SqliteArguments,
    /// A value could not be encoded; told when the statement runs.
    broken: Option<sqlx::Error>,
}

impl Statement {
    pub(crate) fn new(sql: &'static str) -> Self {
        Self { parts: parts(sql), sql: sql.into_sql_str(), values: SqliteArguments::default(), broken: None }
    }

    /// From pieces of this crate's own text; values are bound, never spliced in.
    pub(crate) fn composed(sql: impl Into<Arc<str>>) -> Self {
        let sql: Arc<str> = sql.into();
        let parts = parts(&sql);
        let sql = AssertSqlSafe(sql).into_sql_str();
        Self { parts, sql, values: SqliteArguments::default(), broken: None }
    }

    pub(crate) fn bind<'t, T: Encode<'t, Sqlite> + Type<Sqlite>>(mut self, value: T) -> Self {
        if let Err(error) = self.values.add(value) {
            self.broken.get_or_insert(sqlx::Error::Encode(error));
        }
        self
    }

    pub(crate) fn id(self, id: uuid::Uuid) -> Self {
        self.bind(id.into_bytes().to_vec())
    }

    pub(crate) fn maybe_id(self, id: Option<uuid::Uuid>) -> Self {
        self.bind(id.map(|id| id.into_bytes().to_vec()))
    }

    pub(crate) fn int(self, number: u64) -> Self {
        self.bind(integer(number))
    }

    pub(crate) fn json(mut self, value: &impl Serialize) -> Self {
        match serde_json::to_string(value) {
            Ok(text) => self.bind(text),
            Err(error) => {
                self.broken.get_or_insert(sqlx::Error::Encode(Box::new(error)));
                self
            }
        }
    }

    /// As a query of sqlx.
    pub(crate) fn query(self) -> Result<sqlx::query::Query<'static, Sqlite, SqliteArguments>, sqlx::Error> {
        match self.broken {
            Some(error) => Err(error),
            None => Ok(sqlx::query_with(self.sql, self.values)),
        }
    }

    /// Runs all its statements in one message to the connection's thread. Answers the rows each of them changed; after
    /// an error, those of the statements before it.
    pub(crate) async fn run(self, connection: &mut SqliteConnection) -> (Changed, Result<(), sqlx::Error>) {
        use futures_util::TryStreamExt;
        let mut changed = Changed::default();
        let parts = self.parts;
        let query = match self.query() {
            Ok(query) => query,
            Err(error) => return (changed, Err(error)),
        };
        let mut results = connection.fetch_many(query);
        // Not until the stream ends: its end would be one more change of thread.
        while changed.len() < parts {
            match results.try_next().await {
                Ok(Some(Either::Left(done))) => changed.push(done.rows_affected()),
                Ok(Some(Either::Right(_))) => {}
                Ok(None) => break,
                Err(error) => return (changed, Err(error)),
            }
        }
        (changed, Ok(()))
    }

    /// Runs it where only failure and the rows changed by its first statement matter.
    pub(crate) async fn execute(self, connection: &mut SqliteConnection) -> Result<u64, sqlx::Error> {
        let (changed, result) = self.run(connection).await;
        result.map(|()| changed.at(0))
    }
}

/// None of our texts has a semicolon elsewhere than between statements.
fn parts(sql: &str) -> usize {
    1 + sql.bytes().filter(|byte| *byte == b';').count()
}

/// Rows changed by each statement of a message, in order.
#[derive(Default, Debug)]
pub(crate) struct Changed(Vec<u64>);

impl Changed {
    fn push(&mut self, rows: u64) {
        self.0.push(rows);
    }

    pub(crate) fn at(&self, place: usize) -> u64 {
        self.0.get(place).copied().unwrap_or(0)
    }

    /// How many statements ended well.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

/// SQLite's integers are signed; a seq never comes near the bound.
pub(crate) fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A fact as the log keeps it. The body is encoded before the commit is queued, outside the writer task.
#[derive(Clone, Debug)]
pub(crate) struct FactRow {
    seq: i64,
    turn: Option<uuid::Uuid>,
    item_seq: Option<i64>,
    at_ms: i64,
    kind: &'static str,
    body: Arc<str>,
}

impl FactRow {
    pub(crate) fn encode(fact: &Fact) -> Result<Self, serde_json::Error> {
        Ok(Self {
            seq: integer(fact.seq),
            turn: fact.turn.map(|turn| turn.0),
            item_seq: fact.item_seq.map(integer),
            at_ms: fact.at_ms,
            kind: fact.body.kind(),
            body: serde_json::to_string(&fact.body)?.into(),
        })
    }

    /// Bytes it takes in the queue and in the log, about.
    pub(crate) fn bytes(&self) -> usize {
        self.body.len() + 96
    }

    fn bind_to(&self, statement: Statement) -> Statement {
        statement
            .bind(self.seq)
            .maybe_id(self.turn)
            .bind(self.item_seq)
            .bind(self.at_ms)
            .bind(self.kind)
            .bind(self.body.clone())
    }

    pub(crate) fn seq(&self) -> i64 {
        self.seq
    }

    pub(crate) fn body(&self) -> &str {
        &self.body
    }
}

/// What comes before the head of a commit.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Frame {
    /// Begins the transaction.
    pub begin: bool,
    /// Sets the savepoint of this session's commit.
    pub savepoint: bool,
}

impl Frame {
    /// Place of the compare-and-set among the statements.
    pub(crate) fn guard(self) -> usize {
        usize::from(self.begin) + usize::from(self.savepoint)
    }
}

/// Most fact rows in one statement.
pub(crate) const ROWS: usize = 64;

/// Texts of statements with many rows, made once each. Rows are padded to a power of two with nulls, so that few
/// statements have to be prepared. Values have no numbers: SQLite would look each of them up by name.
#[derive(Default, Debug)]
pub(crate) struct Texts(std::collections::HashMap<(Shape, usize), Arc<str>>);

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Shape {
    Append,
    Head(Frame),
    More,
}

impl Texts {
    /// Facts of any sessions that change nothing but the log: one statement that is a transaction of its own. It fails
    /// as a whole if one of them does not follow its session's high-water mark.
    pub(crate) fn append<'a>(
        &mut self,
        count: usize,
        rows: impl Iterator<Item = (SessionId, &'a FactRow)>,
    ) -> Statement {
        let mut statement = self.text(Shape::Append, count, |sql, places| {
            sql.push_str(
                "insert into appended (session, seq, turn, item_seq, at_ms, kind, body) select * from ",
            );
            values(sql, places, 7);
            sql.push_str(" where column2 is not null");
        });
        for (session, row) in rows {
            statement = row.bind_to(statement.id(session.0));
        }
        pad(statement, count, 7)
    }

    /// The head of a commit: frame, compare-and-set of the high-water mark, up to [`ROWS`] facts. Where the mark is not
    /// the expected one nothing is inserted, which the count of the guard statement tells.
    pub(crate) fn head(
        &mut self,
        frame: Frame,
        session: SessionId,
        expected: Seq,
        last: Seq,
        rows: &[FactRow],
    ) -> Statement {
        let statement = self.text(Shape::Head(frame), rows.len(), |sql, places| {
            sql.push_str(if frame.begin { "begin immediate; " } else { "" });
            sql.push_str(if frame.savepoint { "savepoint c; " } else { "" });
            sql.push_str("update sessions set last_seq = ? where id = ? and last_seq = ?; ");
            insert(sql, places, "changes() = 1 and ");
        });
        bind_rows(statement.int(last).id(session.0).int(expected), session, rows)
    }

    /// Further facts of a commit whose head has passed.
    pub(crate) fn more(&mut self, session: SessionId, rows: &[FactRow]) -> Statement {
        let statement = self.text(Shape::More, rows.len(), |sql, places| insert(sql, places, ""));
        bind_rows(statement, session, rows)
    }

    fn text(&mut self, shape: Shape, rows: usize, write: impl FnOnce(&mut String, usize)) -> Statement {
        let places = rows.next_power_of_two();
        let text = self.0.entry((shape, places)).or_insert_with(|| {
            let mut sql = String::new();
            write(&mut sql, places);
            sql.into()
        });
        Statement::composed(text.clone())
    }
}

fn insert(sql: &mut String, places: usize, condition: &str) {
    sql.push_str(
        "insert into facts (session, seq, through_seq, turn, item_seq, at_ms, kind, body) \
         select ?, column1, column1, column2, column3, column4, column5, column6 from ",
    );
    values(sql, places, 6);
    sql.push_str(" where ");
    sql.push_str(condition);
    sql.push_str("column1 is not null");
}

fn values(sql: &mut String, places: usize, columns: usize) {
    let row = format!("({})", vec!["?"; columns].join(", "));
    sql.push_str("(values ");
    sql.push_str(&vec![row.as_str(); places].join(", "));
    sql.push(')');
}

fn bind_rows(statement: Statement, session: SessionId, rows: &[FactRow]) -> Statement {
    let statement = rows.iter().fold(statement.id(session.0), |statement, row| row.bind_to(statement));
    pad(statement, rows.len(), 6)
}

fn pad(statement: Statement, rows: usize, columns: usize) -> Statement {
    let nulls = (rows.next_power_of_two() - rows) * columns;
    (0..nulls).fold(statement, |statement, _| statement.bind(None::<i64>))
}

/// The statement of a derived change, and whether its first part must change exactly one row.
pub(crate) fn change(session: SessionId, change: &Change<'_>) -> (Statement, bool) {
    let id = session.0;
    match change {
        Change::Created { at_ms, created } => (create(id, *at_ms, created), true),
        Change::Title(title) => (
            Statement::new("update sessions set title = ?2, title_origin = ?3 where id = ?1")
                .id(id)
                .bind(title.title.as_str())
                .bind(word(&title.origin)),
            true,
        ),
        Change::Activity { first, last } => (
            Statement::new(
                "update sessions set activity = ?2, activity_revision = ?3, state = ?2 ->> '$.state.kind' \
                 where id = ?1 and activity_revision = ?4 - 1",
            )
            .id(id)
            .json(last)
            .int(last.revision)
            .int(*first),
            true,
        ),
        Change::Prompted { at_ms, preview } => (
            Statement::new(
                "update sessions set updated_at_ms = ?2, preview = case when preview = '' then ?3 else preview end \
                 where id = ?1",
            )
            .id(id)
            .bind(*at_ms)
            .bind(preview.as_str()),
            true,
        ),
        Change::TurnOpened { turn, first_seq, at_ms, context } => (
            Statement::new(
                "insert into turns (session, first_seq, id, status, reverted, compacted, started_at_ms, context) \
                 values (?1, ?2, ?3, ?4, 0, 0, ?5, ?6)",
            )
            .id(id)
            .int(*first_seq)
            .id(turn.0)
            .bind(word(&TurnStatus::InProgress))
            .bind(*at_ms)
            .json(context),
            true,
        ),
        Change::TurnEnded { turn, seq, at_ms, ended } => (
            Statement::new(
                "update turns set end_seq = ?3, status = ?4, failure = ?5, ended_at_ms = ?6 \
                 where session = ?1 and id = ?2; \
                 update sessions set updated_at_ms = ?6 where id = ?1; \
                 delete from pending_inputs where session = ?1 and turn = ?2",
            )
            .id(id)
            .id(turn.0)
            .int(*seq)
            .bind(word(&ended.status))
            .bind(ended.failure.as_ref().and_then(|failure| serde_json::to_string(failure).ok()))
            .bind(*at_ms),
            true,
        ),
        Change::Policy(policy) => {
            (Statement::new("update sessions set policy = ?2 where id = ?1").id(id).json(policy), true)
        }
        Change::Settings(settings) => (
            Statement::new(
                "update sessions set model = coalesce(?2, model), effort = coalesce(?3, effort), \
                 cwd = coalesce(?4, cwd) where id = ?1; \
                 update session_details set roots = coalesce(?5, roots), options = json_patch(options, ?6) \
                 where session = ?1",
            )
            .id(id)
            .bind(settings.model.as_deref())
            .bind(settings.effort.as_deref())
            .bind(settings.cwd.as_ref().map(|cwd| cwd.to_string_lossy().into_owned()))
            .bind(settings.roots.as_ref().and_then(|roots| serde_json::to_string(roots).ok()))
            .json(&settings.options),
            true,
        ),
        Change::AgentSession(agent) => (
            Statement::new("update sessions set agent_session = ?2 where id = ?1").id(id).bind(*agent),
            true,
        ),
        Change::Usage(usage) => {
            (Statement::new("update sessions set usage = ?2 where id = ?1").id(id).json(usage), true)
        }
        Change::Queue(queue) => (
            Statement::new("update session_details set queue = ?2 where session = ?1").id(id).json(queue),
            true,
        ),
        Change::Archived(archived) => (
            Statement::new("update sessions set archived = ?2 where id = ?1").id(id).bind(*archived),
            true,
        ),
        Change::WorktreeDiscarded => {
            (Statement::new("update sessions set worktree_discarded = 1 where id = ?1").id(id), true)
        }
        Change::Rule(rule) => (
            Statement::new(
                "update session_details set rules = json_insert(rules, '$[#]', json(?2)) where session = ?1 \
                 and not exists (select 1 from json_each(rules) where value = json(?2))",
            )
            .id(id)
            .json(rule),
            false,
        ),
        Change::Reverted { from_seq } => (
            Statement::new("update turns set reverted = 1 where session = ?1 and first_seq >= ?2")
                .id(id)
                .int(*from_seq),
            false,
        ),
        Change::Parked { turn, input } => (
            Statement::new(
                "insert into pending_inputs (id, session, turn, sequence, requested_at_ms, body) \
                 values (?1, ?2, ?3, ?4, ?5, ?6); \
                 update counters set value = max(value, ?4) where name = 'pending_sequence'",
            )
            .id(input.id.0)
            .id(id)
            .maybe_id(turn.map(|turn| turn.0))
            .int(input.sequence)
            .bind(input.requested_at_ms)
            .json(input),
            true,
        ),
        // An automatic decision resolves an input that was never parked.
        Change::Resolved(input) => {
            (Statement::new("delete from pending_inputs where id = ?1").id(input.0), false)
        }
        Change::Receipt { client_message_id, turn, seq } => (
            Statement::new(
                "insert into receipts (session, kind, id, turn, seq) values (?1, 'message', ?2, ?3, ?4)",
            )
            .id(id)
            .bind(*client_message_id)
            .maybe_id(turn.map(|turn| turn.0))
            .int(*seq),
            true,
        ),
    }
}

fn create(id: uuid::Uuid, at_ms: i64, created: &signalbox_facts::SessionCreated) -> Statement {
    Statement::new(
        "insert into sessions (id, last_seq, activity_revision, state, updated_at_ms, created_at_ms, archived, \
         worktree_discarded, ephemeral, provider, source, title_origin, title, preview, cwd, project_path, policy, \
         activity, model, effort, worktree, forked_from) \
         values (?1, 0, 0, 'idle', ?2, ?2, 0, 0, ?3, ?4, ?5, 'default', '', '', ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13); \
         insert into session_details (session, roots, options, rules, instructions) values (?1, ?14, '{}', '[]', ?15)",
    )
    .id(id)
    .bind(at_ms)
    .bind(created.ephemeral)
    .bind(created.provider.as_str())
    .bind(word(&created.source))
    .bind(created.cwd.to_string_lossy().into_owned())
    .bind(created.project_path.to_string_lossy().into_owned())
    .json(&created.policy)
    .json(&signalbox_facts::Activity::default())
    .bind(created.model.as_deref())
    .bind(created.effort.as_deref())
    .bind(created.worktree.as_ref().and_then(|worktree| serde_json::to_string(worktree).ok()))
    .maybe_id(created.forked_from.map(|from| from.0))
    .json(&created.roots)
    .bind(created.instructions.as_deref())
}

/// The one word that a plain enum is in JSON.
fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}
