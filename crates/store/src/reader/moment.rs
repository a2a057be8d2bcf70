//! A session at one moment: several reads that see the same state, each no larger than its caller wants.

use std::ops::ControlFlow;

use futures_util::TryStreamExt;
use signalbox_facts::{Fact, Seq, SessionId, SessionRow, TurnId, TurnRow};
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use super::decode::{self, FACT};
use super::session::{TurnQuery, decoded, newest, row};
use super::{Lease, Reader};
use crate::StoreError;
use crate::sql::Statement;

/// A session at one moment. It holds one of the few read connections, so it is not to be kept while waiting for anybody.
/// End it with [`Moment::end`]; one that is dropped costs its connection.
pub struct Moment {
    lease: Lease,
    row: SessionRow,
}

impl std::fmt::Debug for Moment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Moment")
            .field("session", &self.row.id)
            .field("last_seq", &self.row.last_seq)
            .finish_non_exhaustive()
    }
}

/// A turn and where its facts lie.
#[derive(Clone, PartialEq, Debug)]
pub struct TurnSpan {
    /// The turn.
    pub row: TurnRow,
    /// Where the next turn begins, reverted or not. Late facts of this one lie before it.
    pub next_seq: Seq,
}

/// Where an item begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ItemStart {
    /// Its first seq.
    pub seq: Seq,
    /// Its turn.
    pub turn: TurnId,
}

/// Which items of a session. Those of turns that a revert covers are left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ItemQuery {
    /// Only items that begin after this seq.
    pub after: Seq,
    /// Only items that begin before this seq.
    pub before: Seq,
    /// Only messages of the agent.
    pub messages: bool,
    /// Oldest first instead of newest first.
    pub ascending: bool,
    /// Most items.
    pub limit: u32,
}

/// Which facts of turns to visit, in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FactQuery {
    /// The facts of a turn and, from its beginning on, those of no turn. Without a turn, all facts of no turn.
    Since {
        /// Where the turn begins, and which it is.
        turn: Option<(Seq, TurnId)>,
        /// The first seq that is not visited.
        before: Seq,
    },
    /// What turns are made of, from one seq to before another. Facts that say nothing of a turn are left out.
    Turns {
        /// The first seq.
        from: Seq,
        /// The first seq that is not visited.
        before: Seq,
    },
    /// What turns are made of beside their items, the newest plan and diff in the range included.
    Outline {
        /// The first seq.
        from: Seq,
        /// The first seq that is not visited.
        before: Seq,
    },
    /// All facts of the items that begin from `first` through `last`; the beginning of the item after them, which ends a
    /// message; and the ends of turns.
    Items {
        /// Where the first item begins.
        first: Seq,
        /// Where the last item begins.
        last: Seq,
        /// The first seq that is not visited.
        before: Seq,
    },
    /// All facts of one item.
    Item {
        /// Where it begins.
        first: Seq,
        /// The first seq that is not visited.
        before: Seq,
    },
}

impl Reader {
    /// A session as it is now; none if there is no such session.
    ///
    /// # Errors
    /// As [`Reader::session`].
    pub async fn moment(&self, session: SessionId) -> Result<Option<Moment>, StoreError> {
        let mut lease = self.lease().await?;
        lease.begin().await.map_err(StoreError::database("reading a session"))?;
        match row(&mut lease, session).await? {
            Some(row) => Ok(Some(Moment { lease, row })),
            None => {
                lease.end().await.map_err(StoreError::database("reading a session"))?;
                lease.done();
                Ok(None)
            }
        }
    }
}

impl Moment {
    /// Its row; `last_seq` is the moment.
    #[must_use]
    pub fn session(&self) -> &SessionRow {
        &self.row
    }

    /// The newest turn that no revert covers.
    ///
    /// # Errors
    /// As [`Reader::session`].
    pub async fn newest_turn(&mut self) -> Result<Option<TurnRow>, StoreError> {
        newest(&mut self.lease, self.row.id).await
    }

    /// Turns, and how many bytes the stored bodies of their facts take.
    ///
    /// # Errors
    /// As [`Reader::session`].
    pub async fn turns(&mut self, query: TurnQuery) -> Result<Vec<(TurnSpan, u64)>, StoreError> {
        let failed = || StoreError::database("reading turns");
        let order = if query.ascending { "asc" } else { "desc" };
        let statement = Statement::composed(format!(
            "select s.*, (select coalesce(sum(octet_length(f.body)), 0) from facts f where f.session = ?1 \
             and f.seq >= s.first_seq and f.seq < s.next_seq) as bytes from \
             ({SPAN} and t.first_seq > ?2 and t.first_seq < ?3 and t.reverted = 0 \
             order by t.first_seq {order} limit ?4) s order by s.first_seq {order}"
        ));
        let statement = statement
            .id(self.row.id.0)
            .int(query.after.unwrap_or(0))
            .int(query.before.unwrap_or(u64::MAX))
            .bind(i64::from(query.limit));
        let rows = self.lease.rows(statement).await.map_err(failed())?;
        let sized = |row| {
            let bytes: i64 = SqliteRow::try_get(row, "bytes").map_err(failed())?;
            Ok((span(self.row.id, row)?, bytes.unsigned_abs()))
        };
        rows.iter().map(sized).collect()
    }

    /// A turn, reverted or not.
    ///
    /// # Errors
    /// As [`Reader::session`].
    pub async fn turn(&mut self, turn: TurnId) -> Result<Option<TurnSpan>, StoreError> {
        let statement = Statement::composed(format!("{SPAN} and t.id = ?2"));
        self.span(statement.id(self.row.id.0).id(turn.0)).await
    }

    /// The turn of the item that begins at a seq, reverted or not; none if no item begins there.
    ///
    /// # Errors
    /// As [`Reader::session`].
    pub async fn turn_of_item(&mut self, seq: Seq) -> Result<Option<TurnSpan>, StoreError> {
        let sql = format!(
            "{SPAN} and t.id = (select turn from facts where session = ?1 and seq = ?2 and item_seq = ?2)"
        );
        self.span(Statement::composed(sql).id(self.row.id.0).int(seq)).await
    }

    async fn span(&mut self, statement: Statement) -> Result<Option<TurnSpan>, StoreError> {
        let row = self.lease.row(statement).await.map_err(StoreError::database("reading a turn"))?;
        row.as_ref().map(|row| span(self.row.id, row)).transpose()
    }

    /// The turns that a revert covers, of those that begin from one seq to before another.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub async fn reverted(&mut self, from: Seq, before: Seq) -> Result<Vec<TurnId>, StoreError> {
        let statement = Statement::new(
            "select id from turns where session = ?1 and first_seq >= ?2 and first_seq < ?3 and reverted = 1",
        );
        let statement = statement.id(self.row.id.0).int(from).int(before);
        let rows = self.lease.rows(statement).await.map_err(StoreError::database("reading turns"))?;
        let turn = |row| {
            let id = decode::id(row, "id");
            id.map(TurnId).map_err(|reason| StoreError::Unreadable { session: self.row.id, reason })
        };
        rows.iter().map(turn).collect()
    }

    /// Where items begin.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub async fn item_starts(&mut self, query: ItemQuery) -> Result<Vec<ItemStart>, StoreError> {
        let failed = || StoreError::database("reading items");
        let order = if query.ascending { "asc" } else { "desc" };
        let kind = if query.messages { "and f.kind = 'agent_text'" } else { "" };
        let statement = Statement::composed(format!(
            "select f.seq, f.turn from facts f where f.session = ?1 and f.seq > ?2 and f.seq < ?3 \
             and f.item_seq = f.seq and f.turn is not null {kind} and not exists \
             (select 1 from turns t where t.session = ?1 and t.id = f.turn and t.reverted = 1) \
             order by f.seq {order} limit ?4"
        ));
        let statement =
            statement.id(self.row.id.0).int(query.after).int(query.before).bind(i64::from(query.limit));
        let rows = self.lease.rows(statement).await.map_err(failed())?;
        let start = |row| {
            let turn = decode::id(row, "turn");
            let turn = turn.map_err(|reason| StoreError::Unreadable { session: self.row.id, reason })?;
            let seq = row.try_get::<i64, _>(0).map_err(failed())?.unsigned_abs();
            Ok(ItemStart { seq, turn: TurnId(turn) })
        };
        rows.iter().map(start).collect()
    }

    /// Hands over facts one by one, so that nobody has to hold them all, until the visitor has enough.
    ///
    /// # Errors
    /// As [`Reader::facts`].
    pub async fn visit(
        &mut self,
        query: FactQuery,
        mut visitor: impl FnMut(Fact) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        let failed = || StoreError::database("reading facts");
        let session = self.row.id;
        let mut rows = self.lease.stream(statement(session, query)).map_err(failed())?;
        while let Some(row) = rows.try_next().await.map_err(failed())? {
            if visitor(decode::fact_of_kind(session, &row).map_err(failed())?).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Gives the connection back.
    ///
    /// # Errors
    /// If the database fails at that; the connection is not used again.
    pub async fn end(mut self) -> Result<(), StoreError> {
        self.lease.end().await.map_err(StoreError::database("ending a read"))?;
        self.lease.done();
        Ok(())
    }
}

fn span(session: SessionId, row: &SqliteRow) -> Result<TurnSpan, StoreError> {
    let next: i64 = row.try_get("next_seq").map_err(StoreError::database("reading turns"))?;
    Ok(TurnSpan { row: decoded(session, row)?, next_seq: next.unsigned_abs() })
}

/// Turns with their ranges; conditions on `t` follow.
const SPAN: &str = "select t.id, t.session, t.first_seq, t.end_seq, t.status, t.failure, t.context, t.reverted, \
     t.started_at_ms, t.ended_at_ms, coalesce((select n.first_seq from turns n where n.session = ?1 \
     and n.first_seq > t.first_seq order by n.first_seq limit 1), 9223372036854775807) as next_seq \
     from turns t where t.session = ?1";

/// What turns are made of.
const OF_TURNS: &str = "'prompt', 'agent_text', 'agent_thought', 'tool_call', 'tool_output', 'plan', 'turn_diff', \
     'usage', 'context_compaction', 'permission_requested', 'permission_resolved', 'turn_ended'";

fn statement(session: SessionId, query: FactQuery) -> Statement {
    let select = format!("select {FACT}, kind from facts where session = ?1 and seq >= ?2 and seq < ?3");
    match query {
        FactQuery::Since { turn, before } => {
            let sql = format!("{select} and (turn is null or turn = ?4) order by seq");
            let from = turn.map_or(0, |(from, _)| from);
            let statement = Statement::composed(sql).id(session.0).int(from).int(before);
            statement.maybe_id(turn.map(|(_, turn)| turn.0))
        }
        FactQuery::Turns { from, before } => {
            let sql = format!("{select} and turn is not null and kind in ({OF_TURNS}) order by seq");
            Statement::composed(sql).id(session.0).int(from).int(before)
        }
        FactQuery::Outline { from, before } => {
            let newest = |kind: &str| {
                format!(
                    "seq = (select seq from facts where session = ?1 and seq >= ?2 and seq < ?3 and kind = '{kind}' \
                     order by seq desc limit 1)"
                )
            };
            let sql = format!(
                "{select} and turn is not null and (kind in ('usage', 'permission_requested', 'permission_resolved', 'turn_ended') \
                 or (kind = 'prompt' and body like '%\"opens\":%') or {} or {}) order by seq",
                newest("plan"),
                newest("turn_diff"),
            );
            Statement::composed(sql).id(session.0).int(from).int(before)
        }
        FactQuery::Items { first, last, before } => {
            let sql = format!(
                "{select} and turn is not null and ((item_seq >= ?2 and item_seq <= ?4 and kind in ({OF_TURNS})) \
                 or kind = 'turn_ended' or seq = (select seq \
                 from facts where session = ?1 and seq > ?4 and seq < ?3 and item_seq = seq order by seq limit 1)) \
                 order by seq"
            );
            Statement::composed(sql).id(session.0).int(first).int(before).int(last)
        }
        FactQuery::Item { first, before } => {
            let sql = format!("{select} and item_seq = ?2 and kind in ({OF_TURNS}) order by seq");
            Statement::composed(sql).id(session.0).int(first).int(before)
        }
    }
}
