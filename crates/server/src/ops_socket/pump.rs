//! From the engine's events to one outbox, at the client's own speed.

use signalbox_engine::{OpEvents, OpEventsError};
use signalbox_protocol::ops::ServerFrame;
use tokio_util::sync::CancellationToken;

use super::outgoing::OutFrame;
use super::queue::QueueSender;

/// Runs until the client or the engine is gone; says so of the engine.
pub(super) async fn run(mut events: OpEvents, outbox: QueueSender<OutFrame>, engine_gone: CancellationToken) {
    loop {
        let next = tokio::select! {
            biased;
            () = outbox.closed() => return,
            next = events.recv() => next,
        };
        let frame = match next {
            Ok(event) => OutFrame::Event(event),
            Err(OpEventsError::Lagged { missed }) => {
                tracing::debug!(missed, "a client of the event socket is too slow");
                OutFrame::of(&ServerFrame::Lagged { missed })
            }
            Err(OpEventsError::Closed) => return engine_gone.cancel(),
        };
        if outbox.send(frame).await.is_err() {
            return;
        }
    }
}
