//! Lists of sessions: pages by time, open sessions, what waits for an answer.

use signalbox_facts::{PendingInput, Provider, SessionId, SessionRow, SessionSource, TurnId};
use sqlx::sqlite::SqliteRow;
use uuid::Uuid;

use super::Reader;
use super::decode::{self, SESSION};
use crate::StoreError;
use crate::sql::Statement;

/// A row of a list. One that does not decode is listed all the same.
#[derive(Clone, PartialEq, Debug)]
pub enum Listed {
    /// A session.
    Session(Box<SessionRow>),
    /// A session whose row is damaged.
    Unreadable {
        /// Its id.
        id: SessionId,
        /// What is wrong.
        reason: String,
    },
}

/// By which time a list is sorted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SortKey {
    /// Start or end of the newest turn.
    #[default]
    Updated,
    /// Creation.
    Created,
}

impl SortKey {
    pub(super) fn column(self) -> &'static str {
        match self {
            Self::Updated => "updated_at_ms",
            Self::Created => "created_at_ms",
        }
    }
}

/// Where a page ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageCursor {
    /// Time of the last session by the page's sort key, Unix milliseconds.
    pub at_ms: i64,
    /// Its id.
    pub id: SessionId,
}

/// Which sessions to list. The default is the newest 20 that are not in the archive.
#[derive(Clone, PartialEq, Debug)]
pub struct SessionQuery {
    /// Those in the archive, or those outside.
    pub archived: bool,
    /// Sorted by.
    pub sort: SortKey,
    /// Oldest first instead of newest first.
    pub ascending: bool,
    /// Most sessions of the page.
    pub limit: u32,
    /// Goes on after the page that ended here.
    pub after: Option<PageCursor>,
    /// Only these working directories; empty is all.
    pub cwds: Vec<String>,
    /// Only these providers; empty is all.
    pub providers: Vec<Provider>,
    /// Only this source.
    pub source: Option<SessionSource>,
    /// Only those with this text in title or preview, ASCII letters in either case.
    pub search: Option<String>,
}

impl Default for SessionQuery {
    fn default() -> Self {
        Self {
            archived: false,
            sort: SortKey::Updated,
            ascending: false,
            limit: 20,
            after: None,
            cwds: Vec::new(),
            providers: Vec::new(),
            source: None,
            search: None,
        }
    }
}

/// A page of sessions.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct SessionPage {
    /// In order.
    pub sessions: Vec<Listed>,
    /// Where the next page begins; none if there is no more.
    pub next: Option<PageCursor>,
}

impl Reader {
    /// A page of sessions.
    ///
    /// # Errors
    /// If the database cannot be read. Damaged rows are no error.
    pub async fn sessions(&self, query: &SessionQuery) -> Result<SessionPage, StoreError> {
        let failed = StoreError::database("listing sessions");
        let mut lease = self.lease().await?;
        let mut rows = lease.rows(page(query)).await.map_err(failed)?;
        lease.done();
        let limit = query.limit.max(1) as usize;
        let more = rows.len() > limit;
        rows.truncate(limit);
        let next = if more { rows.last().and_then(|row| cursor(query.sort, row)) } else { None };
        Ok(SessionPage { sessions: rows.iter().filter_map(listed).collect(), next })
    }

    /// Sessions in which a turn runs or waits. After a start these were cut off.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub async fn open_sessions(&self) -> Result<Vec<Listed>, StoreError> {
        let failed = StoreError::database("listing open sessions");
        let sql = format!(
            "select {SESSION} from sessions s left join session_details d on d.session = s.id \
             where s.state in ('running', 'awaiting_input') order by s.id"
        );
        let mut lease = self.lease().await?;
        let rows = lease.rows(Statement::composed(sql)).await.map_err(failed)?;
        lease.done();
        Ok(rows.iter().filter_map(listed).collect())
    }

    /// Sessions with follow-ups that wait, running or not. Those whose queue cannot be read are left out.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub async fn queued_sessions(&self) -> Result<Vec<SessionId>, StoreError> {
        let failed = StoreError::database("listing queues");
        // A queue that cannot be read makes its session unreadable, and hurts no other.
        let statement = Statement::new(
            "select session from session_details where queue is not null \
             and case when json_valid(queue) then queue ->> '$.paused' is not 1 else 0 end order by session",
        );
        let mut lease = self.lease().await?;
        let rows = lease.rows(statement).await.map_err(failed)?;
        lease.done();
        let session = |row: &SqliteRow| decode::id(row, "session").ok().map(SessionId);
        Ok(rows.iter().filter_map(session).collect())
    }

    /// What waits for an answer, in one session or in all, by sequence number.
    ///
    /// # Errors
    /// If the database cannot be read. A damaged row is logged and left out.
    pub async fn pending_inputs(
        &self,
        session: Option<SessionId>,
    ) -> Result<Vec<(SessionId, Option<TurnId>, PendingInput)>, StoreError> {
        let failed = StoreError::database("listing pending inputs");
        let statement = match session {
            Some(session) => Statement::new(
                "select session, turn, body from pending_inputs where session = ?1 order by sequence",
            )
            .id(session.0),
            None => Statement::new("select session, turn, body from pending_inputs order by sequence"),
        };
        let mut lease = self.lease().await?;
        let rows = lease.rows(statement).await.map_err(failed)?;
        lease.done();
        let decode = |row: &SqliteRow| {
            let session = SessionId(decode::id(row, "session")?);
            let turn = decode::maybe_id(row, "turn")?.map(TurnId);
            Ok::<_, String>((session, turn, decode::pending(row)?))
        };
        let readable = rows.iter().filter_map(|row| {
            decode(row).inspect_err(|reason| tracing::error!(reason, "pending input is unreadable")).ok()
        });
        Ok(readable.collect())
    }

    /// What maintenance left undone: deleted sessions whose facts are still there, ended turns not compacted.
    pub(crate) async fn unfinished(&self) -> Result<(Vec<SessionId>, Vec<(SessionId, TurnId)>), StoreError> {
        let failed = StoreError::database("looking for unfinished maintenance");
        let mut lease = self.lease().await?;
        let work = async {
            let deleted = lease.rows(Statement::new("select session from deletions limit 1000")).await?;
            let turns =
                "select session, id from turns where compacted = 0 and end_seq is not null limit 1000";
            let turns = lease.rows(Statement::new(turns)).await?;
            Ok((deleted, turns))
        };
        let (deleted, turns) = work.await.map_err(failed)?;
        lease.done();
        let session = |row: &SqliteRow| decode::id(row, "session").ok().map(SessionId);
        let turn = |row: &SqliteRow| decode::id(row, "id").ok().map(TurnId);
        Ok((
            deleted.iter().filter_map(session).collect(),
            turns.iter().filter_map(|row| session(row).zip(turn(row))).collect(),
        ))
    }
}

/// The ids of the page come from an index that also holds what filters look at; only then the rows are fetched.
fn page(query: &SessionQuery) -> Statement {
    let column = query.sort.column();
    let (order, beyond) = if query.ascending { ("asc", ">") } else { ("desc", "<") };
    let mut sql = "with page as (select p.id from sessions p where p.archived = ?1".to_owned();
    let mut values: Vec<Value> = Vec::new();
    let mut push = |value: Value| {
        values.push(value);
        values.len() + 2
    };
    if let Some(after) = query.after {
        let (at, id) = (push(Value::Int(after.at_ms)), push(Value::Id(after.id.0)));
        sql.push_str(&format!(" and (p.{column}, p.id) {beyond} (?{at}, ?{id})"));
    }
    if !query.providers.is_empty() {
        let names: Vec<&str> = query.providers.iter().map(Provider::as_str).collect();
        sql.push_str(&format!(" and p.provider in (select value from json_each(?{}))", push(json(&names))));
    }
    if !query.cwds.is_empty() {
        sql.push_str(&format!(" and p.cwd in (select value from json_each(?{}))", push(json(&query.cwds))));
    }
    if let Some(source) = query.source {
        let word = match source {
            SessionSource::Cli => "cli",
            SessionSource::App => "app",
        };
        sql.push_str(&format!(" and p.source = ?{}", push(Value::Text(word.to_owned()))));
    }
    if let Some(search) = query.search.as_deref().filter(|search| !search.is_empty()) {
        let n = push(Value::Text(like(search)));
        sql.push_str(&format!(" and (p.title like ?{n} escape '\\' or p.preview like ?{n} escape '\\')"));
    }
    sql.push_str(&format!(
        " order by p.{column} {order}, p.id {order} limit ?2) \
         select {SESSION} from page join sessions s on s.id = page.id \
         left join session_details d on d.session = s.id order by s.{column} {order}, s.id {order}"
    ));
    let mut statement = Statement::composed(sql).bind(query.archived).bind(i64::from(query.limit.max(1)) + 1);
    for value in values {
        statement = match value {
            Value::Int(number) => statement.bind(number),
            Value::Id(id) => statement.id(id),
            Value::Text(text) => statement.bind(text),
        };
    }
    statement
}

enum Value {
    Int(i64),
    Id(Uuid),
    Text(String),
}

fn json(words: &impl serde::Serialize) -> Value {
    Value::Text(serde_json::to_string(words).unwrap_or_else(|_| "[]".to_owned()))
}

/// A pattern that finds exactly this text.
fn like(text: &str) -> String {
    let mut pattern = String::from("%");
    for letter in text.chars() {
        if matches!(letter, '%' | '_' | '\\') {
            pattern.push('\\');
        }
        pattern.push(letter);
    }
    pattern.push('%');
    pattern
}

pub(super) fn cursor(sort: SortKey, row: &SqliteRow) -> Option<PageCursor> {
    let id = SessionId(decode::id(row, "id").ok()?);
    Some(PageCursor { at_ms: decode::int(row, sort.column()).ok()?, id })
}

/// None only if not even the id can be read.
pub(super) fn listed(row: &SqliteRow) -> Option<Listed> {
    match decode::session(row) {
        Ok(session) => Some(Listed::Session(Box::new(session))),
        Err(reason) => {
            let id = decode::id(row, "id").ok().map(SessionId);
            tracing::error!(session = ?id, reason, "session row is unreadable");
            Some(Listed::Unreadable { id: id?, reason })
        }
    }
}
