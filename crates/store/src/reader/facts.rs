//! The log: by range, by turn, between turns.

use signalbox_facts::{Fact, Seq, SessionId, TurnId, TurnRow};
use sqlx::Row;

use super::decode::{self, FACT};
use super::{Lease, Reader};
use crate::StoreError;
use crate::sql::Statement;

impl Reader {
    /// Facts from `from` through `through`, both included. A compacted row is selected by its first seq.
    ///
    /// # Errors
    /// If the database cannot be read. A damaged fact comes as a `warning` with reason `unreadable`.
    pub async fn facts(&self, session: SessionId, from: Seq, through: Seq) -> Result<Vec<Fact>, StoreError> {
        let sql =
            format!("select {FACT} from facts where session = ?1 and seq >= ?2 and seq <= ?3 order by seq");
        self.read(session, Statement::composed(sql).id(session.0).int(from).int(through)).await
    }

    /// The facts of a turn, late ones included; none if there is no such turn.
    ///
    /// # Errors
    /// As [`Reader::facts`].
    pub async fn facts_of_turn(&self, session: SessionId, turn: TurnId) -> Result<Vec<Fact>, StoreError> {
        let sql = format!("select {FACT} from facts where session = ?1 {OF_TURN} order by seq");
        self.read(session, Statement::composed(sql).id(session.0).id(turn.0)).await
    }

    /// Facts of no turn from `from` through `through`, both included.
    ///
    /// # Errors
    /// As [`Reader::facts`].
    pub async fn facts_between_turns(
        &self,
        session: SessionId,
        from: Seq,
        through: Seq,
    ) -> Result<Vec<Fact>, StoreError> {
        let sql = format!(
            "select {FACT} from facts where session = ?1 and seq >= ?2 and seq <= ?3 and turn is null order by seq"
        );
        self.read(session, Statement::composed(sql).id(session.0).int(from).int(through)).await
    }

    /// The next rows of a turn with bodies of text and output alone; the others hold their place.
    pub(crate) async fn chunk_slice(
        &self,
        session: SessionId,
        turn: TurnId,
        from: Seq,
        limit: u32,
    ) -> Result<Vec<Fact>, StoreError> {
        let sql = format!(
            "select seq, through_seq, turn, item_seq, at_ms, \
             case when kind in ('agent_text', 'agent_thought', 'tool_output') then body end as body \
             from facts where session = ?1 {OF_TURN} and seq >= ?3 order by seq limit ?4"
        );
        let statement = Statement::composed(sql).id(session.0).id(turn.0).int(from).bind(i64::from(limit));
        self.read(session, statement).await
    }

    /// Seq of the `count`th fact, or of the last if there are fewer; none if there is no fact.
    pub(crate) async fn nth_seq(&self, session: SessionId, count: u32) -> Result<Option<Seq>, StoreError> {
        let failed = || StoreError::database("counting facts");
        let sql = "select max(seq) from (select seq from facts where session = ?1 order by seq limit ?2)";
        let mut lease = self.lease().await?;
        let row = lease.row(Statement::new(sql).id(session.0).bind(i64::from(count))).await;
        let row = row.map_err(failed())?;
        lease.done();
        let seq = row.map(|row| row.try_get::<Option<i64>, _>(0)).transpose().map_err(failed())?;
        Ok(seq.flatten().map(i64::unsigned_abs))
    }

    async fn read(&self, session: SessionId, statement: Statement) -> Result<Vec<Fact>, StoreError> {
        let mut lease = self.lease().await?;
        let facts =
            read(&mut lease, session, statement).await.map_err(StoreError::database("reading facts"))?;
        lease.done();
        Ok(facts)
    }
}

/// The range in which all facts of the turn `?2` lie, and those of it. Without an index on turns: the range holds
/// little else.
const OF_TURN: &str = "and turn = ?2 \
     and seq >= (select first_seq from turns where session = ?1 and id = ?2) \
     and seq < coalesce((select min(first_seq) from turns where session = ?1 and first_seq > \
     (select first_seq from turns where session = ?1 and id = ?2)), 9223372036854775807)";

/// What a view of the newest turn is made from.
pub(super) async fn from_turn(
    lease: &mut Lease,
    session: SessionId,
    turn: Option<&TurnRow>,
) -> Result<Vec<Fact>, sqlx::Error> {
    let statement = match turn {
        Some(turn) => {
            let sql = format!(
                "select {FACT} from facts where session = ?1 and seq >= ?2 and (turn = ?3 or turn is null) order by seq"
            );
            Statement::composed(sql).id(session.0).int(turn.first_seq).id(turn.id.0)
        }
        None => {
            let sql = format!("select {FACT} from facts where session = ?1 and turn is null order by seq");
            Statement::composed(sql).id(session.0)
        }
    };
    read(lease, session, statement).await
}

async fn read(lease: &mut Lease, session: SessionId, statement: Statement) -> Result<Vec<Fact>, sqlx::Error> {
    lease.rows(statement).await?.iter().map(|row| decode::fact(session, row)).collect()
}
