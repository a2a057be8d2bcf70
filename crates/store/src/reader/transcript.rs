//! Pages of the transcript: whole turns, read at one moment. What a page looks like on the wire is the engine's.

use std::ops::ControlFlow;

use futures_util::TryStreamExt;
use signalbox_facts::{Fact, Seq, SessionId, TurnId};
use sqlx::Row;
use sqlx::sqlite::SqliteRow;
use uuid::Uuid;

use super::decode;
use super::{Lease, Reader};
use crate::StoreError;
use crate::sql::{Statement, integer};

/// Most turns of a page.
const MOST_TURNS: u32 = 50;

/// Which page of a transcript.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageRequest {
    /// Only turns before this one: the seq of a prompt that opened a turn. None is the newest page.
    pub before: Option<Seq>,
    /// Most turns, 1 to 50; what lies outside is brought inside.
    pub turns: u32,
    /// Bytes of stored bodies after which no further turn is begun. A page has at least one whole turn all the same.
    pub max_bytes: usize,
}

impl Default for PageRequest {
    fn default() -> Self {
        Self { before: None, turns: 20, max_bytes: 512 * 1024 }
    }
}

/// A page: the facts of whole turns that are part of a transcript, oldest first.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct TranscriptFacts {
    /// Prompts, texts, thoughts, tool calls and plans. Turns that a revert covers are left out.
    pub facts: Vec<Fact>,
    /// The cursor of the next older page; none if there is nothing older.
    pub next_before: Option<Seq>,
    /// The session's high-water mark at the moment of the page; none if there is no such session.
    pub snapshot_through: Option<Seq>,
}

/// There is no such page.
#[derive(Debug, thiserror::Error)]
pub enum TranscriptError {
    /// The cursor is not the seq of a prompt that opened a turn of this session, or that turn was reverted.
    #[error("cursor {value} is no prompt that opens a turn of this session")]
    InvalidCursor {
        /// The cursor.
        value: Seq,
    },
    /// The newest turn of the page cannot be read. Turns before it can, from `older` on.
    #[error("fact {seq} of session {session} is unreadable: {reason}")]
    Unreadable {
        /// The session.
        session: SessionId,
        /// The row.
        seq: Seq,
        /// What is wrong with it.
        reason: String,
        /// The cursor of the page before the unreadable turn; none if there is nothing older.
        older: Option<Seq>,
    },
    /// The database cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Reader {
    /// A page of a session's transcript, all of one moment. Facts before the first turn come with the oldest turn, or,
    /// where they do not fit, as a page of their own. A turn with an unreadable row ends the page before it, so that it
    /// costs nothing but itself.
    ///
    /// # Errors
    /// See [`TranscriptError`]. An unknown session has an empty page, and no valid cursor.
    pub async fn transcript(
        &self,
        session: SessionId,
        request: PageRequest,
    ) -> Result<TranscriptFacts, TranscriptError> {
        let failed = || StoreError::database("reading a transcript");
        let mut lease = self.lease().await?;
        lease.begin().await.map_err(failed())?;
        let page = read(&mut lease, session, request).await.map_err(failed())?;
        lease.end().await.map_err(failed())?;
        lease.done();
        page
    }
}

/// A turn that the page may hold. What lies before all turns is one more of them, without id and prompt.
struct Candidate {
    first: Seq,
    /// Where the next turn begins, reverted or not.
    next: Seq,
    id: Option<TurnId>,
    /// Seq of the prompt that opened it.
    prompt: Option<Seq>,
}

/// The outer error is the database's; the connection is not used again after it.
async fn read(
    lease: &mut Lease,
    session: SessionId,
    request: PageRequest,
) -> Result<Result<TranscriptFacts, TranscriptError>, sqlx::Error> {
    let invalid = |value| Ok(Err(TranscriptError::InvalidCursor { value }));
    let Some((last_seq, first_turn)) = bounds(lease, session).await? else {
        return match request.before {
            Some(value) => invalid(value),
            None => Ok(Ok(TranscriptFacts::default())),
        };
    };
    let end = match request.before {
        None => Seq::MAX,
        Some(value) => match opened_by(lease, session, value).await? {
            Some(first) => first,
            None => return invalid(value),
        },
    };
    let most = request.turns.clamp(1, MOST_TURNS);
    let mut turns = candidates(lease, session, end, most + 1).await?;
    let has_older = turns.len() > most as usize;
    turns.truncate(most as usize);
    if !has_older {
        let preamble = first_turn.unwrap_or(Seq::MAX);
        turns.push(Candidate { first: 0, next: preamble, id: None, prompt: None });
    }
    let mut page = Page { session, max_bytes: request.max_bytes, turns, ..Page::default() };
    for (first, next) in page.ranges() {
        if page.range(lease, first, next).await?.is_break() {
            break;
        }
    }
    Ok(page.finish(has_older, last_seq))
}

/// High-water mark, and where the first turn begins.
async fn bounds(lease: &mut Lease, session: SessionId) -> Result<Option<(Seq, Option<Seq>)>, sqlx::Error> {
    let sql = "select last_seq, (select first_seq from turns where session = ?1 order by first_seq limit 1) \
               from sessions where id = ?1";
    let Some(row) = lease.row(Statement::new(sql).id(session.0)).await? else { return Ok(None) };
    Ok(Some((seq(&row, 0)?.unwrap_or(0), seq(&row, 1)?)))
}

/// The first prompt from the beginning of turn `t` on; a few rows at most lie between the two.
const PROMPT: &str = "(select f.seq from facts f where f.session = ?1 and f.seq >= t.first_seq and f.kind = 'prompt' \
     order by f.seq limit 1)";

/// Where the turn begins that this prompt opened; none if it opened none, or if that was reverted.
async fn opened_by(lease: &mut Lease, session: SessionId, prompt: Seq) -> Result<Option<Seq>, sqlx::Error> {
    let sql = format!(
        "select t.first_seq, t.reverted, {PROMPT} from turns t where t.session = ?1 and t.first_seq <= ?2 \
         order by t.first_seq desc limit 1"
    );
    let statement = Statement::composed(sql).id(session.0).int(prompt);
    let Some(row) = lease.row(statement).await? else { return Ok(None) };
    let is_kept = row.try_get::<i64, _>(1)? == 0;
    Ok(if is_kept && seq(&row, 2)? == Some(prompt) { seq(&row, 0)? } else { None })
}

/// The newest turns that begin before `end` and that no revert covers.
async fn candidates(
    lease: &mut Lease,
    session: SessionId,
    end: Seq,
    count: u32,
) -> Result<Vec<Candidate>, sqlx::Error> {
    let sql = format!(
        "select t.first_seq, (select n.first_seq from turns n where n.session = ?1 and n.first_seq > t.first_seq \
         order by n.first_seq limit 1), {PROMPT}, t.id from turns t \
         where t.session = ?1 and t.first_seq < ?2 and t.reverted = 0 order by t.first_seq desc limit ?3"
    );
    let statement = Statement::composed(sql).id(session.0).int(end).bind(i64::from(count));
    let rows = lease.rows(statement).await?;
    rows.iter().map(candidate).collect()
}

fn candidate(row: &SqliteRow) -> Result<Candidate, sqlx::Error> {
    let next = seq(row, 1)?.unwrap_or(Seq::MAX);
    let id: &[u8] = row.try_get(3)?;
    Ok(Candidate {
        first: seq(row, 0)?.unwrap_or(0),
        next,
        id: Uuid::from_slice(id).ok().map(TurnId),
        prompt: seq(row, 2)?.filter(|prompt| *prompt < next),
    })
}

fn seq(row: &SqliteRow, column: usize) -> Result<Option<Seq>, sqlx::Error> {
    Ok(row.try_get::<Option<i64>, _>(column)?.map(i64::unsigned_abs))
}

/// A page while it is read, newest fact first.
struct Page {
    session: SessionId,
    max_bytes: usize,
    /// What it may hold, newest first.
    turns: Vec<Candidate>,
    facts: Vec<Fact>,
    bytes: usize,
    /// Place in `turns` of the turn that is being read.
    at: usize,
    /// How many facts there were before it.
    mark: usize,
    /// Whether the page ends before the turn at `at`.
    is_cut: bool,
    unreadable: Option<(Seq, String)>,
}

impl Default for Page {
    fn default() -> Self {
        Self {
            session: SessionId(Uuid::nil()),
            max_bytes: 0,
            turns: Vec::new(),
            facts: Vec::new(),
            bytes: 0,
            at: 0,
            mark: 0,
            is_cut: false,
            unreadable: None,
        }
    }
}

impl Page {
    /// Where the candidates lie, newest first: one range, unless reverted turns lie between them.
    fn ranges(&self) -> Vec<(Seq, Seq)> {
        let mut ranges: Vec<(Seq, Seq)> = Vec::new();
        for turn in &self.turns {
            match ranges.last_mut() {
                Some((first, _)) if *first == turn.next => *first = turn.first,
                _ => ranges.push((turn.first, turn.next)),
            }
        }
        ranges
    }

    /// Takes in the facts of a range. Bodies of other kinds than the transcript's are not even looked at: the kind lies
    /// before the body in a row.
    async fn range(
        &mut self,
        lease: &mut Lease,
        first: Seq,
        next: Seq,
    ) -> Result<ControlFlow<()>, sqlx::Error> {
        let statement = Statement::new(
            "select seq, through_seq, item_seq, at_ms, kind, body from facts \
             where session = ?1 and seq >= ?2 and seq < ?3 \
             and kind in ('prompt', 'agent_text', 'agent_thought', 'tool_call', 'plan') order by seq desc",
        );
        let statement = statement.id(self.session.0).bind(integer(first)).bind(integer(next));
        let mut rows = lease.stream(statement)?;
        while let Some(row) = rows.try_next().await? {
            if self.row(&row)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn row(&mut self, row: &SqliteRow) -> Result<ControlFlow<()>, sqlx::Error> {
        let at = seq(row, 0)?.unwrap_or(0);
        while self.turns.get(self.at).is_some_and(|turn| at < turn.first) {
            self.at += 1;
            self.mark = self.facts.len();
        }
        let body = decode::body_of_kind(row, 4, 5);
        self.bytes += body.as_ref().map_or(0, |(_, bytes)| *bytes);
        let is_first = self.mark == 0;
        match body {
            Ok((body, _)) if is_first || self.bytes <= self.max_bytes => {
                self.facts.push(Fact {
                    session: self.session,
                    turn: self.turns.get(self.at).and_then(|turn| turn.id),
                    seq: at,
                    through_seq: seq(row, 1)?.unwrap_or(at),
                    item_seq: seq(row, 2)?,
                    at_ms: row.try_get(3)?,
                    body,
                });
                return Ok(ControlFlow::Continue(()));
            }
            Err(reason) if is_first => self.unreadable = Some((at, reason)),
            _ => {
                self.facts.truncate(self.mark);
                self.is_cut = true;
            }
        }
        Ok(ControlFlow::Break(()))
    }

    fn finish(mut self, has_older: bool, last_seq: Seq) -> Result<TranscriptFacts, TranscriptError> {
        let session = self.session;
        let cursor = |turn: Option<&Candidate>| match turn {
            None => Ok(None),
            Some(Candidate { prompt: Some(prompt), .. }) => Ok(Some(*prompt)),
            Some(Candidate { prompt: None, id: None, .. }) => Ok(None),
            Some(turn) => Err((turn.first, "the turn that begins here has no prompt".to_owned())),
        };
        let next_before = if let Some((seq, reason)) = self.unreadable {
            // Not known whether there is anything before it but other turns.
            let older = cursor(self.turns.get(self.at)).unwrap_or(None);
            return Err(TranscriptError::Unreadable { session, seq, reason, older });
        } else if self.is_cut {
            cursor(self.turns[..self.at].last())
        } else if has_older {
            cursor(self.turns.last())
        } else {
            Ok(None)
        };
        let next_before = next_before.map_err(|(seq, reason)| {
            tracing::error!(%session, seq, reason, "a turn is damaged");
            TranscriptError::Unreadable { session, seq, reason, older: None }
        })?;
        self.facts.reverse();
        Ok(TranscriptFacts { facts: self.facts, next_before, snapshot_through: Some(last_seq) })
    }
}
