//! Statements and their values; those that append facts. Derived rows are in [`crate::change`].

use std::sync::Arc;

use serde::Serialize;
use signalbox_facts::{Fact, Seq, SessionId};
use sqlx::sqlite::{SqliteArguments, SqliteConnection};
use sqlx::{Arguments, AssertSqlSafe, Either, Encode, Executor, SqlSafeStr, SqlStr, Sqlite, Type};

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
