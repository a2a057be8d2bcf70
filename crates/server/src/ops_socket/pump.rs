//! From the engine's events to one outbox, at the client's own speed.

use signalbox_engine::{OpEvents, OpEventsError};
use signalbox_protocol::ops::ServerFrame;

use super::Outbox;
use super::outgoing::OutFrame;

/// Runs until the client or the engine is gone; then the connection is over as far as the engine is concerned.
pub(super) async fn run(mut events: OpEvents, outbox: Outbox) {
    loop {
        let next = tokio::select! {
            biased;
            () = outbox.queue.closed() => return,
            () = outbox.over.cancelled() => return,
            next = events.recv() => next,
        };
        let frame = match next {
            Ok(event) => OutFrame::Event(event),
            Err(OpEventsError::Lagged { missed }) => {
                tracing::debug!(missed, "a client of the event socket is too slow");
                OutFrame::of(&ServerFrame::Lagged { missed })
            }
            Err(OpEventsError::Closed) => return outbox.over.cancel(),
        };
        if outbox.send(frame).await.is_err() {
            return;
        }
    }
}
