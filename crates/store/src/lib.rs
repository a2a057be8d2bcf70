//! Facts in SQLite: the [`Writer`] with its commit pipeline, the [`Reader`], migrations. No policy, no projections.

mod change;
mod commit;
mod connect;
mod derive;
mod error;
mod fail;
mod indexing;
mod reader;
mod sql;
mod store;
mod words;
mod writer;

pub use commit::Commit;
pub use connect::StoreOptions;
pub use error::{CommitError, ForkError, StorageKind, StoreError};
#[cfg(feature = "fail-points")]
pub use fail::{FailPoint, FailPoints, Held};
pub use reader::{
    FactQuery, Found, ItemQuery, ItemStart, Listed, Moment, PageCursor, PageRequest, Reader, Receipt,
    SearchPage, SearchQuery, SessionAt, SessionPage, SessionQuery, SortKey, TranscriptError, TranscriptFacts,
    TurnQuery, TurnSpan,
};
pub use store::{Store, StoreFigures};
pub use words::{SearchTerm, SearchTermError};
pub use writer::{Compacted, Fork, Writer};
