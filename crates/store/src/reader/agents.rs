//! Which sessions hold which conversations of agents.

use std::collections::HashMap;

use signalbox_facts::{Provider, SessionId};
use sqlx::Row;

use super::{Reader, decode};
use crate::StoreError;
use crate::sql::Statement;

impl Reader {
    /// The sessions of a provider by their agents' own ids of the conversations; of several that hold one the oldest.
    ///
    /// # Errors
    /// If the database cannot be read. Damaged rows are left out.
    pub async fn agent_sessions(
        &self,
        provider: &Provider,
    ) -> Result<HashMap<String, SessionId>, StoreError> {
        let failed = StoreError::database("listing the conversations of agents");
        let statement = Statement::new(
            "select id, agent_session from sessions where provider = ?1 and agent_session is not null order by id desc",
        );
        let mut lease = self.lease().await?;
        let rows = lease.rows(statement.bind(provider.to_string())).await.map_err(failed)?;
        lease.done();
        let one = |row: &sqlx::sqlite::SqliteRow| {
            Some((row.try_get("agent_session").ok()?, SessionId(decode::id(row, "id").ok()?)))
        };
        Ok(rows.iter().filter_map(one).collect())
    }
}
