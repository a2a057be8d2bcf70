//! Starts an agent only to learn what it is, whether it opens a session, or to have it log its user in; then stops it.

use std::time::Duration;

use signalbox_facts::Form;
use tokio::sync::mpsc;

use crate::event::{AgentEvent, AgentFailure, AgentInfo, FailureReason, RequestKey};
use crate::handle::{Agent, ElicitationAnswer, launch};
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
    /// The end of what the agent wrote to stderr.
    pub stderr_tail: String,
    /// Addresses that the agent asked to be opened.
    pub addresses: Vec<String>,
}

/// What happens meanwhile, for a user who waits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ProbeNews {
    /// A piece of the agent's stderr.
    Said(String),
    /// An address is to be opened. The agent may wait for an answer, or tell by itself that it is done.
    Address {
        /// For the answer.
        key: RequestKey,
        /// What it is for.
        message: String,
        /// The address, `http` or `https`.
        url: String,
    },
    /// That needs no answer any more.
    Settled {
        /// Which one.
        key: RequestKey,
    },
}

/// A user who waits. Without one every question is dismissed.
#[derive(Debug)]
pub struct Onlooker {
    /// Where news go. What finds no room is left out of them.
    pub news: mpsc::Sender<ProbeNews>,
    /// Whether an address was opened or declined.
    pub answers: mpsc::Receiver<(RequestKey, bool)>,
}

/// Warnings that are kept.
const MAX_WARNINGS: usize = 32;
/// Addresses that are kept.
const MAX_ADDRESSES: usize = 8;

impl Onlooker {
    fn tell(&self, news: ProbeNews) {
        if self.news.try_send(news).is_err() {
            tracing::debug!("news of an agent's login found nobody");
        }
    }
}

/// The user's next answer; never without a user.
async fn answer(onlooker: &mut Option<Onlooker>) -> Option<(RequestKey, bool)> {
    match onlooker {
        Some(onlooker) => onlooker.answers.recv().await,
        None => std::future::pending().await,
    }
}

/// Puts a question to the user, if there is one and it is about an address. Nobody answers others here.
fn ask(agent: &Agent, key: RequestKey, form: &Form, onlooker: Option<&Onlooker>, probed: &mut Probed) {
    let Some(link) = &form.link else { return dismiss(agent, key) };
    if probed.addresses.len() < MAX_ADDRESSES {
        probed.addresses.push(link.url.clone());
    }
    match onlooker {
        Some(onlooker) => {
            onlooker.tell(ProbeNews::Address { key, message: form.message.clone(), url: link.url.clone() });
        }
        None => dismiss(agent, key),
    }
}

fn dismiss(agent: &Agent, key: RequestKey) {
    if let Err(error) = agent.dismiss(key) {
        tracing::debug!(%error, "a question of an agent that ends is not answered");
    }
}

/// Starts an agent until its session is open, or without one until it has introduced itself, for at most so long, and stops it. Returns when its processes are gone; dropping
/// the future stops them too.
pub async fn probe(
    spec: LaunchSpec,
    open: Option<OpenSession>,
    limits: Limits,
    longest: Duration,
    supervisor: &Supervisor,
    mut onlooker: Option<Onlooker>,
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
            answer = answer(&mut onlooker) => {
                match answer {
                    Some((key, opened)) => {
                        let answer = if opened { ElicitationAnswer::Accept([].into()) } else { ElicitationAnswer::Decline };
                        if let Err(error) = agent.answer_elicitation(key, answer) {
                            tracing::debug!(%error, "an agent that ends gets no answer");
                        }
                    }
                    // The user has gone.
                    None => onlooker = None,
                }
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
                AgentEvent::Exited(failure) => probed.stderr_tail = failure.stderr_tail,
                AgentEvent::StartFailed(mut failure) if !is_done => {
                    probed.stderr_tail.clone_from(&failure.stderr_tail);
                    if is_late {
                        failure.reason = FailureReason::AgentTimeout;
                        failure.message = format!("{name} was not ready within {} s", longest.as_secs());
                    }
                    probed.failure = Some(failure);
                }
                AgentEvent::Said(text) => {
                    if let Some(onlooker) = &onlooker {
                        onlooker.tell(ProbeNews::Said(text));
                    }
                }
                AgentEvent::Elicitation { key, form, .. } => {
                    ask(&agent, key, &form, onlooker.as_ref(), &mut probed);
                }
                AgentEvent::Withdrawn { key } | AgentEvent::DoneElsewhere { key } => {
                    if let Some(onlooker) = &onlooker {
                        onlooker.tell(ProbeNews::Settled { key });
                    }
                }
                // What is being learnt does not need it.
                AgentEvent::Permission { key, .. } => dismiss(&agent, key),
                _ => {}
            }
        }
    }
    probed
}
