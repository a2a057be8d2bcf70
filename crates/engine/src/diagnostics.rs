//! What the engine can say of its inside: sessions, agents, queues, figures of the store.

use std::time::Duration;

use futures_util::future::join_all;
use signalbox_facts::SessionId;
use signalbox_store::{Listed, StoreFigures};

use crate::bus::RingFigures;
use crate::engine::Engine;
use crate::explain::{Explanation, Why};
use crate::submission::OpError;

/// A session that has not explained itself for so long is busy.
const PATIENCE: Duration = Duration::from_secs(1);

/// The inside of an engine at one moment.
#[derive(Clone, Debug)]
pub struct Diagnostics {
    /// Every session in memory.
    pub sessions: Vec<(SessionId, Explanation)>,
    /// The ring of events for Op/Event frontends.
    pub ring: RingFigures,
    /// The store on disk.
    pub store: StoreFigures,
}

impl Engine {
    /// Why a session moves or not. Never waits for an agent, nor for a store that does not answer, and loads nothing.
    ///
    /// # Errors
    /// There is no such session, or it is not loaded and cannot be read.
    pub async fn explain(&self, session: SessionId) -> Result<Explanation, OpError> {
        if let Some(handle) = self.handle_in_memory(session)
            && let Some(explanation) = self.ask(session, &handle).await
        {
            return Ok(explanation);
        }
        Ok(Explanation::of_row(&self.row(session).await?, Why::NotLoaded))
    }

    /// Whether there is something that would be cut off or lost if the server left now: a turn that runs or waits for an
    /// answer, or an ephemeral session. True as well if that cannot be known.
    pub async fn is_busy(&self) -> bool {
        let stores = &self.core().stores;
        if stores.has_ephemeral() {
            return true;
        }
        self.open_turns().await.is_none_or(|open| open > 0)
    }

    /// How many turns run or wait for an answer, ephemeral ones not counted; none if that cannot be known.
    pub async fn open_turns(&self) -> Option<usize> {
        match self.core().stores.disk.reader.open_sessions().await {
            Ok(open) => Some(open.iter().filter(|one| matches!(one, Listed::Session(_))).count()),
            Err(error) => {
                tracing::warn!(%error, "which turns run cannot be read");
                None
            }
        }
    }

    /// Everything at once: loaded sessions are asked side by side.
    pub async fn diagnostics(&self) -> Diagnostics {
        let asked = self.loaded().into_iter().map(async |session| {
            let handle = self.handle_in_memory(session)?;
            self.ask(session, &handle).await.map(|explanation| (session, explanation))
        });
        let sessions = join_all(asked).await.into_iter().flatten().collect();
        Diagnostics { sessions, ring: self.core().bus.figures(), store: self.core().stores.disk.figures() }
    }

    /// None if the session has just been unloaded or deleted.
    async fn ask(&self, session: SessionId, handle: &crate::session::Handle) -> Option<Explanation> {
        match tokio::time::timeout(PATIENCE, handle.explain()).await {
            Ok(explanation) => explanation,
            Err(_) => {
                let row = tokio::time::timeout(PATIENCE, self.row(session)).await.ok()?.ok()?;
                let waiting = handle.waiting();
                Some(Explanation { waiting, ..Explanation::of_row(&row, Why::Busy) })
            }
        }
    }
}
