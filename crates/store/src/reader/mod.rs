//! Reads: a few read-only connections, opened when needed. They never wait for the writer, nor it for them.

mod agents;
pub(crate) mod decode;
mod devices;
mod facts;
mod list;
mod moment;
mod search;
mod session;
mod transcript;

use std::sync::Arc;

use futures_util::stream::BoxStream;
use parking_lot::Mutex;
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{Connection, Executor};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub use list::{Listed, PageCursor, SessionPage, SessionQuery, SortKey};
pub use moment::{FactQuery, ItemQuery, ItemStart, Moment, TurnSpan};
pub use search::{Found, SearchPage, SearchQuery};
pub use session::{Receipt, SessionAt, TurnQuery};
pub use transcript::{PageRequest, TranscriptError, TranscriptFacts};

use crate::StoreError;
use crate::connect::{Place, Role, StoreOptions};
use crate::indexing::Indexing;
use crate::sql::Statement;

/// Reads at the same time; further ones wait for a place. Each connection costs a thread and up to 0.5 MiB of cache.
const CONNECTIONS: usize = 3;

/// Reads of a store. Clones share the connections.
#[derive(Clone, Debug)]
pub struct Reader {
    pool: Arc<Pool>,
}

/// Not sqlx's pool, which spawns tasks of its own to take connections back.
#[derive(Debug)]
struct Pool {
    place: Place,
    options: StoreOptions,
    /// What the search index still lacks.
    indexing: Arc<Indexing>,
    permits: Arc<Semaphore>,
    idle: Mutex<Vec<SqliteConnection>>,
}

impl Reader {
    pub(crate) fn new(place: Place, options: StoreOptions, indexing: Arc<Indexing>) -> Self {
        let permits = Arc::new(Semaphore::new(CONNECTIONS));
        Self { pool: Arc::new(Pool { place, options, indexing, permits, idle: Mutex::default() }) }
    }

    pub(crate) fn place(&self) -> &Place {
        &self.pool.place
    }

    /// A connection for one read. If the read fails, or its future is dropped, the connection is not used again.
    async fn lease(&self) -> Result<Lease, StoreError> {
        let permit = self.pool.permits.clone().acquire_owned().await.map_err(|_| StoreError::Closed)?;
        let idle = self.pool.idle.lock().pop();
        let connection = match idle {
            Some(connection) => connection,
            None => {
                let opened = self.pool.place.connect(Role::Read, &self.pool.options).await;
                opened.map_err(|source| StoreError::open(self.pool.place.path(), source))?
            }
        };
        Ok(Lease { connection, pool: self.pool.clone(), _permit: permit })
    }

    /// Closes the connections; reads that come later fail with [`StoreError::Closed`].
    pub async fn close(&self) {
        // Whoever reads now gives the place back when done.
        let all = u32::try_from(CONNECTIONS).unwrap_or(u32::MAX);
        let permits = self.pool.permits.acquire_many(all).await;
        let idle = std::mem::take(&mut *self.pool.idle.lock());
        for connection in idle {
            if let Err(error) = connection.close().await {
                tracing::warn!(%error, "closing a read connection failed");
            }
        }
        self.pool.permits.close();
        drop(permits);
    }
}

struct Lease {
    connection: SqliteConnection,
    pool: Arc<Pool>,
    _permit: OwnedSemaphorePermit,
}

impl Lease {
    async fn rows(&mut self, statement: Statement) -> Result<Vec<SqliteRow>, sqlx::Error> {
        self.connection.fetch_all(statement.query()?).await
    }

    async fn row(&mut self, statement: Statement) -> Result<Option<SqliteRow>, sqlx::Error> {
        self.connection.fetch_optional(statement.query()?).await
    }

    /// Rows one by one, for a read that may stop early.
    fn stream(
        &mut self,
        statement: Statement,
    ) -> Result<BoxStream<'_, Result<SqliteRow, sqlx::Error>>, sqlx::Error> {
        Ok(self.connection.fetch(statement.query()?))
    }

    /// From here to [`Lease::end`] all reads see the same state.
    async fn begin(&mut self) -> Result<(), sqlx::Error> {
        self.connection.execute("begin").await.map(drop)
    }

    async fn end(&mut self) -> Result<(), sqlx::Error> {
        self.connection.execute("commit").await.map(drop)
    }

    /// Gives the connection back.
    fn done(self) {
        let Self { connection, pool, _permit } = self;
        pool.idle.lock().push(connection);
    }
}
