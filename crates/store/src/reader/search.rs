//! Searches in prompts and answers, and what the indexer reads.

use std::time::Duration;

use signalbox_facts::{Seq, SessionId, SessionSource, TurnId};
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use super::decode::{self, SESSION};
use super::list::{cursor, listed};
use super::{Lease, Listed, PageCursor, Reader, SortKey};
use crate::sql::{Statement, integer};
use crate::words::{self, SearchTerm};
use crate::writer::{TEXT_BYTES, TextRow};
use crate::{StoreError, change};

/// How long a search waits for the index.
const PATIENCE: Duration = Duration::from_secs(1);

/// What to search for, and in which sessions.
#[derive(Clone, PartialEq, Debug)]
pub struct SearchQuery {
    /// Every word of it is in the prompt or message.
    pub term: SearchTerm,
    /// Sessions in the archive, or those outside.
    pub archived: bool,
    /// Sorted by.
    pub sort: SortKey,
    /// Oldest first instead of newest first.
    pub ascending: bool,
    /// Most sessions of the page.
    pub limit: u32,
    /// Goes on after the page that ended here.
    pub after: Option<PageCursor>,
    /// Only this source.
    pub source: Option<SessionSource>,
}

/// A session with its newest match.
#[derive(Clone, PartialEq, Debug)]
pub struct Found {
    /// The session.
    pub session: Listed,
    /// First fact of the newest prompt or message that matches.
    pub seq: Seq,
    /// Its item.
    pub item_seq: Seq,
    /// Its turn.
    pub turn: Option<TurnId>,
    /// A piece of it, on one line.
    pub snippet: String,
    /// Where this entry is in the list.
    pub place: PageCursor,
}

/// A page of sessions with matches.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct SearchPage {
    /// In order.
    pub found: Vec<Found>,
    /// Whether there are more after them.
    pub more: bool,
    /// False while something that could match is not indexed yet.
    pub complete: bool,
}

/// How far a session is indexed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IndexPlace {
    /// Where to read from: the beginning of the turn in which the first fact lies that is not indexed.
    pub(crate) from: Seq,
    /// Everything up to here is.
    pub(crate) indexed: Seq,
    /// The newest fact.
    pub(crate) last: Seq,
    /// The last fact before the turn that goes on; of that turn only prompts are indexed.
    pub(crate) whole: Seq,
}

/// Of each session that has one the newest match that no revert covers. Not the best by rank: that would have to weigh
/// every match of a common word before the first page, and the newest is as often what is looked for.
const MATCHES: &str = "with newest as materialized (select d.session as session, max(d.seq) as seq, \
     d.through_seq as through_seq, d.item_seq as item_seq \
     from search_words w cross join search_docs d on d.id = w.rowid where w.search_words match ?1 \
     and not exists (select 1 from turns t indexed by turns_reverted where t.session = d.session and t.reverted = 1 \
     and t.first_seq = (select max(first_seq) from turns where session = t.session and first_seq <= d.seq)) \
     group by d.session)";

impl Reader {
    /// A page of the sessions in which something matches: prompts, and answers of turns that have ended. Reverted turns
    /// and deleted sessions are not found. Waits a moment for what is not indexed yet.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub async fn search(&self, query: &SearchQuery) -> Result<SearchPage, StoreError> {
        let failed = StoreError::database("searching");
        // What was said a moment ago is found. With much to index that takes longer, and the page says so.
        let complete = tokio::time::timeout(PATIENCE, self.pool.indexing.settled()).await.is_ok();
        let mut lease = self.lease().await?;
        let (found, more) = page(&mut lease, query).await.map_err(failed)?;
        lease.done();
        Ok(SearchPage { found, more, complete })
    }

    /// How many sessions are known to have something that is not indexed yet, and whether all are known.
    #[must_use]
    pub fn index_backlog(&self) -> (usize, bool) {
        (self.pool.indexing.backlog(), self.pool.indexing.sweep().is_none())
    }

    /// Sessions after this one that are not indexed to their end, by id. Those in which a turn runs are not among them:
    /// whoever runs it tells.
    pub(crate) async fn unindexed(
        &self,
        after: Option<SessionId>,
        limit: u32,
    ) -> Result<Vec<SessionId>, StoreError> {
        let failed = StoreError::database("looking for what is not indexed");
        let sql = "select s.id from sessions s left join search_progress p on p.session = s.id \
             where (?1 is null or s.id > ?1) and coalesce(p.through_seq, 0) < s.last_seq \
             and s.state not in ('running', 'awaiting_input') order by s.id limit ?2";
        let statement = Statement::new(sql).maybe_id(after.map(|id| id.0)).bind(i64::from(limit));
        let mut lease = self.lease().await?;
        let rows = lease.rows(statement).await.map_err(failed)?;
        lease.done();
        Ok(rows.iter().filter_map(|row| decode::id(row, "id").ok().map(SessionId)).collect())
    }

    /// How far a session is indexed; none if there is no such session.
    pub(crate) async fn index_place(&self, session: SessionId) -> Result<Option<IndexPlace>, StoreError> {
        let failed = StoreError::database("indexing");
        let sql = "select s.last_seq, coalesce(p.through_seq, 0), coalesce((select max(first_seq) from turns t \
             where t.session = s.id and t.first_seq <= coalesce(p.through_seq, 0) + 1), 1), \
             (select first_seq from turns t where t.session = s.id and t.end_seq is null \
             and not exists (select 1 from turns n where n.session = s.id and n.first_seq > t.first_seq)) \
             from sessions s left join search_progress p on p.session = s.id where s.id = ?1";
        let mut lease = self.lease().await?;
        let work = async {
            let Some(row) = lease.row(Statement::new(sql).id(session.0)).await? else { return Ok(None) };
            let seq = |column: usize| row.try_get::<i64, _>(column).map(i64::unsigned_abs);
            let open = row.try_get::<Option<i64>, _>(3)?.map(i64::unsigned_abs);
            let (last, indexed, from) = (seq(0)?, seq(1)?, seq(2)?);
            let whole = open.map_or(last, |open| open.saturating_sub(1));
            Ok(Some(IndexPlace { from, indexed, last, whole }))
        };
        let place = work.await.map_err(failed)?;
        lease.done();
        Ok(place)
    }

    /// The next rows with text that can be indexed.
    pub(crate) async fn texts(
        &self,
        session: SessionId,
        from: Seq,
        place: &IndexPlace,
        limit: u32,
    ) -> Result<Vec<TextRow>, StoreError> {
        let failed = StoreError::database("indexing");
        let sql = "select seq, through_seq, case kind when 'prompt' then null else item_seq end, \
             case when json_valid(body) then body ->> '$.text' end from facts \
             where session = ?1 and seq >= ?2 and seq <= ?3 \
             and (kind = 'prompt' or kind = 'agent_text' and seq <= ?4) order by seq limit ?5";
        let statement = Statement::new(sql).id(session.0).int(from).int(place.last).int(place.whole);
        let mut lease = self.lease().await?;
        let work = async {
            let rows = lease.rows(statement.bind(i64::from(limit))).await?;
            rows.iter().map(text_row).collect::<Result<Vec<_>, sqlx::Error>>()
        };
        let rows = work.await.map_err(failed)?;
        lease.done();
        Ok(rows)
    }

    /// The text of a document: the prompt at `from`, or the message of an item as far as it was at `through`.
    pub(crate) async fn text_of(
        &self,
        session: SessionId,
        from: Seq,
        through: Seq,
        item: Option<Seq>,
    ) -> Result<String, StoreError> {
        let failed = StoreError::database("indexing");
        let mut lease = self.lease().await?;
        let (text, _) = text(&mut lease, session, from, through, item).await.map_err(failed)?;
        lease.done();
        Ok(text)
    }

    /// First seq of a session's `count`th document, or of the last if there are fewer; none if there is none.
    pub(crate) async fn nth_document(
        &self,
        session: SessionId,
        count: u32,
    ) -> Result<Option<Seq>, StoreError> {
        let failed = || StoreError::database("counting documents");
        let sql =
            "select max(seq) from (select seq from search_docs where session = ?1 order by seq limit ?2)";
        let mut lease = self.lease().await?;
        let row = lease.row(Statement::new(sql).id(session.0).bind(i64::from(count))).await;
        let row = row.map_err(failed())?;
        lease.done();
        let seq = row.map(|row| row.try_get::<Option<i64>, _>(0)).transpose().map_err(failed())?;
        Ok(seq.flatten().map(i64::unsigned_abs))
    }
}

async fn page(lease: &mut Lease, query: &SearchQuery) -> Result<(Vec<Found>, bool), sqlx::Error> {
    // Matches and their texts are of one moment.
    lease.begin().await?;
    let mut rows = lease.rows(statement(query)).await?;
    let limit = query.limit.max(1) as usize;
    let more = rows.len() > limit;
    rows.truncate(limit);
    let mut found = Vec::with_capacity(rows.len());
    for row in &rows {
        let (Some(session), Some(place)) = (listed(row), cursor(query.sort, row)) else { continue };
        let seq = |column: &str| row.try_get::<i64, _>(column).map(i64::unsigned_abs);
        let (first, through) = (seq("match_seq")?, seq("match_through")?);
        let item = row.try_get::<Option<i64>, _>("match_item")?.map(i64::unsigned_abs);
        let (text, turn) = text(lease, place.id, first, through, item).await?;
        let snippet = query.term.snippet(&text);
        found.push(Found { session, seq: first, item_seq: item.unwrap_or(first), turn, snippet, place });
    }
    lease.end().await?;
    Ok((found, more))
}

fn statement(query: &SearchQuery) -> Statement {
    let column = query.sort.column();
    let (order, beyond) = if query.ascending { ("asc", ">") } else { ("desc", "<") };
    let after = match query.after {
        Some(_) => format!("and (s.{column}, s.id) {beyond} (?5, ?6)"),
        None => String::new(),
    };
    let sql = format!(
        "{MATCHES} select {SESSION}, b.seq as match_seq, b.through_seq as match_through, b.item_seq as match_item \
         from newest b cross join sessions s on s.id = b.session left join session_details d on d.session = s.id \
         where s.archived = ?2 and (?3 is null or s.source = ?3) {after} \
         order by s.{column} {order}, s.id {order} limit ?4"
    );
    let statement = Statement::composed(sql)
        .bind(query.term.expression())
        .bind(query.archived)
        .bind(query.source.as_ref().map(change::word))
        .bind(i64::from(query.limit.max(1)) + 1);
    match query.after {
        Some(after) => statement.bind(after.at_ms).id(after.id.0),
        None => statement,
    }
}

/// The text of a document, as much as is indexed of it, and its turn.
async fn text(
    lease: &mut Lease,
    session: SessionId,
    from: Seq,
    through: Seq,
    item: Option<Seq>,
) -> Result<(String, Option<TurnId>), sqlx::Error> {
    let sql = match item {
        Some(_) => {
            "select turn, case when json_valid(body) then body ->> '$.text' end from facts \
             where session = ?1 and seq >= ?2 and seq <= ?3 and kind = 'agent_text' and item_seq = ?4 order by seq"
        }
        None => {
            "select turn, case when json_valid(body) then body ->> '$.text' end from facts \
             where session = ?1 and seq = ?2"
        }
    };
    let mut statement = Statement::new(sql).id(session.0).int(from);
    if let Some(item) = item {
        statement = statement.int(through).bind(integer(item));
    }
    let mut whole = String::new();
    let mut turn = None;
    for row in &lease.rows(statement).await? {
        turn = turn.or(decode::maybe_id(row, "turn").ok().flatten().map(TurnId));
        words::append(&mut whole, row.try_get::<Option<&str>, _>(1)?.unwrap_or_default(), TEXT_BYTES);
    }
    Ok((whole, turn))
}

fn text_row(row: &SqliteRow) -> Result<TextRow, sqlx::Error> {
    Ok(TextRow {
        seq: row.try_get::<i64, _>(0)?.unsigned_abs(),
        through: row.try_get::<i64, _>(1)?.unsigned_abs(),
        item: row.try_get::<Option<i64>, _>(2)?.map(i64::unsigned_abs),
        text: row.try_get::<Option<String>, _>(3)?.unwrap_or_default(),
    })
}
