//! Starts an agent only to learn what it is, whether it opens a session, or to have it log its user in; then stops it.

use std::time::Duration;

use crate::event::{AgentEvent, AgentFailure, AgentInfo, FailureReason};
use crate::handle::launch;
use crate::spec::{LaunchSpec, Limits, OpenSession};
use crate::supervisor::Supervisor;

/// What came of it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Probed {
    /// What the agent said about itself, if it got that far; with models, options and modes where a session was opened.
    pub info: Option<AgentInfo>,
    /// Why it did not get as far as it was to.
    pub failure: Option<Box<AgentFailure>>,
    /// Warnings of its start, for people.
    pub warnings: Vec<String>,
}

/// Warnings that are kept.
const MAX_WARNINGS: usize = 32;

/// Starts an agent until its session is open, or without one until it has introduced itself, for at most so long, and stops it. Returns when its processes are gone; dropping
/// the future stops them too.
pub async fn probe(
    spec: LaunchSpec,
    open: Option<OpenSession>,
    limits: Limits,
    longest: Duration,
    supervisor: &Supervisor,
) -> Probed {
    let name = spec.provider.to_string();
    let introduce_only = open.is_none();
    let (agent, mut events) = launch(spec, open, limits, supervisor);
    let mut probed = Probed::default();
    let mut late = std::pin::pin!(tokio::time::sleep(longest));
    let (mut is_done, mut is_late) = (false, false);
    loop {
        let events = tokio::select! {
            events = events.recv() => events,
            () = late.as_mut(), if !is_late && !is_done => {
                is_late = true;
                agent.stop();
                continue;
            }
        };
        let Some(events) = events else { break };
        for event in events {
            match event {
                AgentEvent::Introduced(info) => {
                    probed.info = Some(*info);
                    if introduce_only {
                        is_done = true;
                        agent.stop();
                    }
                }
                AgentEvent::Ready(info) => {
                    probed.info = Some(*info);
                    is_done = true;
                    agent.stop();
                }
                AgentEvent::Warning { message, .. } if probed.warnings.len() < MAX_WARNINGS => {
                    probed.warnings.push(message);
                }
                AgentEvent::StartFailed(mut failure) if !is_done => {
                    if is_late {
                        failure.reason = FailureReason::AgentTimeout;
                        failure.message = format!("{name} was not ready within {} s", longest.as_secs());
                    }
                    probed.failure = Some(failure);
                }
                // Nobody answers it here; what is being learnt does not need it.
                AgentEvent::Permission { key, .. } | AgentEvent::Elicitation { key, .. } => {
                    if let Err(error) = agent.dismiss(key) {
                        tracing::debug!(%error, "a question of an agent that ends is not answered");
                    }
                }
                _ => {}
            }
        }
    }
    probed
}
