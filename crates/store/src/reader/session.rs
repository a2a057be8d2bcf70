//! One session: its row, its turns, receipts, and all of it at one moment.

use signalbox_facts::{Fact, Seq, SessionId, SessionRow, TurnId, TurnRow};
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use super::decode::{self, SESSION, TURN};
use super::{Lease, Reader};
use crate::StoreError;
use crate::sql::Statement;

/// A session at one moment: what is needed to load it.
#[derive(Clone, PartialEq, Debug)]
pub struct SessionAt {
    /// Its row; `row.last_seq` is the moment.
    pub row: SessionRow,
    /// The newest turn that no revert covers, open or ended.
    pub turn: Option<TurnRow>,
    /// The facts of that turn and, from its beginning on, those of no turn. Without a turn, all facts of no turn.
    pub facts: Vec<Fact>,
}

/// Which turns of a session. Turns that a revert covers are left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TurnQuery {
    /// Only turns whose first seq is less.
    pub before: Option<Seq>,
    /// Only turns whose first seq is greater.
    pub after: Option<Seq>,
    /// Most turns.
    pub limit: u32,
    /// Oldest first instead of newest first.
    pub ascending: bool,
}

impl Default for TurnQuery {
    fn default() -> Self {
        Self { before: None, after: None, limit: 20, ascending: false }
    }
}

/// What became of a client's message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Receipt {
    /// The turn it was accepted into.
    pub turn: Option<TurnId>,
    /// Seq of its prompt.
    pub seq: Seq,
}

impl Reader {
    /// A session's row.
    ///
    /// # Errors
    /// [`StoreError::Unreadable`] for a damaged row, or if the database cannot be read.
    pub async fn session(&self, session: SessionId) -> Result<Option<SessionRow>, StoreError> {
        let mut lease = self.lease().await?;
        let row = row(&mut lease, session).await?;
        lease.done();
        Ok(row)
    }

    /// Row, newest turn and its facts, all of one moment; none if there is no such session.
    ///
    /// # Errors
    /// As [`Reader::session`].
    pub async fn session_at(&self, session: SessionId) -> Result<Option<SessionAt>, StoreError> {
        let failed = || StoreError::database("loading a session");
        let mut lease = self.lease().await?;
        lease.begin().await.map_err(failed())?;
        let Some(row) = row(&mut lease, session).await? else {
            lease.end().await.map_err(failed())?;
            lease.done();
            return Ok(None);
        };
        let turn = newest(&mut lease, session).await?;
        let facts = super::facts::from_turn(&mut lease, session, turn.as_ref()).await.map_err(failed())?;
        lease.end().await.map_err(failed())?;
        lease.done();
        Ok(Some(SessionAt { row, turn, facts }))
    }

    /// A turn of a session.
    ///
    /// # Errors
    /// As [`Reader::session`].
    pub async fn turn(&self, session: SessionId, turn: TurnId) -> Result<Option<TurnRow>, StoreError> {
        let sql = format!("select {TURN} from turns where session = ?1 and id = ?2");
        let statement = Statement::composed(sql).id(session.0).id(turn.0);
        let mut lease = self.lease().await?;
        let row = lease.row(statement).await.map_err(StoreError::database("reading a turn"))?;
        lease.done();
        row.as_ref().map(|row| decoded(session, row)).transpose()
    }

    /// A page of turns.
    ///
    /// # Errors
    /// As [`Reader::session`].
    pub async fn turns(&self, session: SessionId, query: TurnQuery) -> Result<Vec<TurnRow>, StoreError> {
        let order = if query.ascending { "asc" } else { "desc" };
        let sql = format!(
            "select {TURN} from turns where session = ?1 and first_seq > ?2 and first_seq < ?3 and reverted = 0 \
             order by first_seq {order} limit ?4"
        );
        let statement = Statement::composed(sql)
            .id(session.0)
            .int(query.after.unwrap_or(0))
            .int(query.before.unwrap_or(u64::MAX))
            .bind(i64::from(query.limit));
        let mut lease = self.lease().await?;
        let rows = lease.rows(statement).await.map_err(StoreError::database("reading turns"))?;
        lease.done();
        rows.iter().map(|row| decoded(session, row)).collect()
    }

    /// The newest turn that no revert covers.
    ///
    /// # Errors
    /// As [`Reader::session`].
    pub async fn newest_turn(&self, session: SessionId) -> Result<Option<TurnRow>, StoreError> {
        let mut lease = self.lease().await?;
        let turn = newest(&mut lease, session).await?;
        lease.done();
        Ok(turn)
    }

    /// What became of the message with this id of the client's own; none if it was never accepted.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub async fn receipt(
        &self,
        session: SessionId,
        client_message_id: &str,
    ) -> Result<Option<Receipt>, StoreError> {
        let failed = || StoreError::database("reading a receipt");
        let sql = "select turn, seq from receipts where session = ?1 and kind = 'message' and id = ?2";
        let mut lease = self.lease().await?;
        let row = lease.row(Statement::new(sql).id(session.0).bind(client_message_id)).await;
        let row = row.map_err(failed())?;
        lease.done();
        let Some(row) = row else { return Ok(None) };
        let turn = decode::maybe_id(&row, "turn");
        let turn = turn.map_err(|reason| StoreError::Unreadable { session, reason })?;
        let seq: i64 = row.try_get(1).map_err(failed())?;
        Ok(Some(Receipt { turn: turn.map(TurnId), seq: seq.unsigned_abs() }))
    }
}

pub(super) async fn row(lease: &mut Lease, session: SessionId) -> Result<Option<SessionRow>, StoreError> {
    let sql = format!(
        "select {SESSION} from sessions s left join session_details d on d.session = s.id where s.id = ?1"
    );
    let row = lease.row(Statement::composed(sql).id(session.0)).await;
    let row = row.map_err(StoreError::database("reading a session"))?;
    let decoded = row.as_ref().map(decode::session).transpose();
    decoded.map_err(|reason| StoreError::Unreadable { session, reason })
}

pub(super) async fn newest(lease: &mut Lease, session: SessionId) -> Result<Option<TurnRow>, StoreError> {
    let sql = format!(
        "select {TURN} from turns where session = ?1 and reverted = 0 order by first_seq desc limit 1"
    );
    let row = lease.row(Statement::composed(sql).id(session.0)).await;
    let row = row.map_err(StoreError::database("reading a turn"))?;
    row.as_ref().map(|row| decoded(session, row)).transpose()
}

pub(super) fn decoded(session: SessionId, row: &SqliteRow) -> Result<TurnRow, StoreError> {
    decode::turn(row).map_err(|reason| StoreError::Unreadable { session, reason })
}
