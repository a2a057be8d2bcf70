//! The handle to a running agent: calls that never wait, and their arguments.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};

use serde_json::{Map, Value};
use signalbox_facts::ConfigValue;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::driver;
use crate::event::RequestKey;
use crate::queue::{self, AgentEvents};
use crate::spec::{LaunchSpec, Limits, OpenSession, Posture};
use crate::supervisor::Supervisor;
use crate::traffic::Traffic;

/// Chosen by the caller to recognise the answer to a setting.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Token(pub u64);

/// Commands that may wait for the driver. It takes them at once, whatever the agent does, so this is never reached
/// by a caller that waits for answers.
const COMMANDS: usize = 1024;

/// The agent has ended, or is being stopped; its last event tells why.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the agent is gone")]
pub struct AgentGone;

/// Why a call was not accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SendError {
    /// The agent has ended, or is being stopped.
    #[error("the agent is gone")]
    Gone,
    /// A prompt is running; one at a time.
    #[error("a prompt is running")]
    PromptRunning,
    /// The prompt has no content; some agents never recover from one.
    #[error("the prompt is empty")]
    EmptyPrompt,
    /// Too many calls wait for the agent.
    #[error("too many calls wait for the agent")]
    Overloaded,
}

/// A prompt as the agent gets it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct PromptRequest {
    /// Its content, compiled; not empty.
    pub blocks: Vec<PromptBlock>,
    /// `_meta` of the request: client metadata, trace context.
    pub meta: Map<String, Value>,
}

/// A block of a prompt as the agent gets it. What an agent cannot take is turned into text or a link, with a warning.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PromptBlock {
    /// Text that the user means as a prompt.
    Text(String),
    /// Text that goes along for the agent to know, such as what was said before: not the user's words, and no request.
    Context(String),
    /// An image.
    Image {
        /// MIME type.
        mime: String,
        /// Base64.
        data: String,
        /// Where it came from.
        uri: Option<String>,
    },
    /// A link that the agent may follow.
    Link {
        /// Where.
        uri: String,
        /// Name for people.
        name: String,
        /// MIME type.
        mime: Option<String>,
    },
    /// A resource with its text.
    Resource {
        /// Where it came from.
        uri: String,
        /// Its text.
        text: String,
        /// MIME type.
        mime: Option<String>,
    },
}

/// The answer to a permission request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// One of the agent's options, by its id.
    Selected(String),
    /// None of them.
    Cancelled,
}

/// The answer to a question.
#[derive(Clone, PartialEq, Debug)]
pub enum ElicitationAnswer {
    /// The form's values by key: strings, numbers, booleans, lists of strings.
    Accept(BTreeMap<String, Value>),
    /// The user does not want to answer.
    Decline,
    /// The user went away.
    Cancel,
}

#[derive(Debug)]
pub(crate) enum Request {
    Prompt(PromptRequest),
    Cancel,
    Permission(RequestKey, Answer),
    Elicitation(RequestKey, ElicitationAnswer),
    Dismiss(RequestKey),
    Model(Token, String),
    Effort(Token, String),
    Mode(Token, String),
    Posture(Token, Posture),
    Option(Token, String, ConfigValue),
    Fork(Token, ForkRequest),
    List(Token, ListRequest),
    DeleteSession(Token, String),
    Open(Box<OpenSession>),
}

/// Which of the agent's own sessions shall be listed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct ListRequest {
    /// Only those of this directory.
    pub(crate) cwd: Option<PathBuf>,
    /// From here on, as the agent said.
    pub(crate) cursor: Option<String>,
}

/// Where a copy of the conversation shall go on.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ForkRequest {
    /// Its working directory, absolute.
    pub cwd: PathBuf,
    /// Additional workspace roots, absolute.
    pub roots: Vec<PathBuf>,
}

/// A running, or starting, agent. Cheap to clone; when the last clone is dropped the agent is stopped. No call waits.
#[derive(Clone, Debug)]
pub struct Agent {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    requests: mpsc::Sender<Request>,
    stop: CancellationToken,
    prompting: Arc<AtomicBool>,
    /// Process id; 0 before there is a process.
    pid: Arc<AtomicU32>,
    stage: Arc<AtomicU8>,
}

/// How far an agent's start is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// Its process starts, or is downloaded first; `initialize` is not answered yet.
    Starting,
    /// It logs in.
    LoggingIn,
    /// It opens its conversation, for which some wait for their MCP servers.
    Opening,
    /// Mode, model and options are set, and the end of a replay is waited for.
    Arranging,
    /// It takes prompts.
    Ready,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Starts an agent and opens its session. Returns at once; everything else is an event. The driver's one task is one of
/// `supervisor`'s and ends only when all processes of the agent are gone.
pub fn start(
    spec: LaunchSpec,
    open: OpenSession,
    limits: Limits,
    supervisor: &Supervisor,
) -> (Agent, AgentEvents) {
    launch(spec, Some(open), limits, supervisor)
}

/// The same without a session, which may be opened later.
pub(crate) fn launch(
    spec: LaunchSpec,
    open: Option<OpenSession>,
    limits: Limits,
    supervisor: &Supervisor,
) -> (Agent, AgentEvents) {
    let (requests, incoming) = mpsc::channel(COMMANDS);
    let (sink, events) = queue::channel(limits.queue_bytes);
    let stop = CancellationToken::new();
    let prompting = Arc::new(AtomicBool::new(false));
    let pid = Arc::<AtomicU32>::default();
    let stage = Arc::<AtomicU8>::default();
    let shared = driver::Shared {
        prompting: Arc::clone(&prompting),
        pid: Arc::clone(&pid),
        stage: Arc::clone(&stage),
    };
    let traffic = Traffic::begin(&spec, open.as_ref(), &supervisor.tracker);
    let watch = driver::Watch { guard: supervisor.guard.clone(), giants: supervisor.giants.clone(), traffic };
    let driver = driver::run(spec, open, limits, incoming, sink, stop.clone(), shared, watch);
    supervisor.tracker.spawn(driver);
    (Agent { shared: Arc::new(Shared { requests, stop, prompting, pid, stage }) }, events)
}

impl Agent {
    /// Sends a prompt. Before [`crate::AgentEvent::Ready`] it is held until the session is open. Its end is
    /// [`crate::AgentEvent::PromptEnded`], in any case.
    ///
    /// # Errors
    /// One prompt at a time, never an empty one, and the agent must be there.
    pub fn prompt(&self, prompt: PromptRequest) -> Result<(), SendError> {
        if prompt.blocks.is_empty() {
            return Err(SendError::EmptyPrompt);
        }
        if self.shared.prompting.swap(true, Ordering::AcqRel) {
            return Err(SendError::PromptRunning);
        }
        let sent = self.send(Request::Prompt(prompt));
        if sent.is_err() {
            self.shared.prompting.store(false, Ordering::Release);
        }
        sent
    }

    /// Cancels the running prompt; its open permission requests and questions are answered as cancelled and come
    /// back as [`crate::AgentEvent::Withdrawn`]. Harmless when none runs.
    ///
    /// # Errors
    /// The agent is gone.
    pub fn cancel(&self) -> Result<(), SendError> {
        self.send(Request::Cancel)
    }

    /// Answers a permission request. A second answer, or one that comes after a withdrawal, has no effect.
    ///
    /// # Errors
    /// The agent is gone.
    pub fn answer_permission(&self, key: RequestKey, answer: Answer) -> Result<(), SendError> {
        self.send(Request::Permission(key, answer))
    }

    /// Answers a question. A second answer, or one that comes after a withdrawal, has no effect.
    ///
    /// # Errors
    /// The agent is gone.
    pub fn answer_elicitation(&self, key: RequestKey, answer: ElicitationAnswer) -> Result<(), SendError> {
        self.send(Request::Elicitation(key, answer))
    }

    /// Answers a permission request or a question as cancelled. A second answer, or one that comes after a withdrawal, has
    /// no effect.
    ///
    /// # Errors
    /// The agent is gone.
    pub fn dismiss(&self, key: RequestKey) -> Result<(), SendError> {
        self.send(Request::Dismiss(key))
    }

    /// Sets the model; answered by [`crate::AgentEvent::OptionSet`], as all settings are.
    ///
    /// # Errors
    /// The agent is gone.
    pub fn set_model(&self, token: Token, id: impl Into<String>) -> Result<(), SendError> {
        self.send(Request::Model(token, id.into()))
    }

    /// Sets the reasoning effort, whatever the agent calls that option.
    ///
    /// # Errors
    /// The agent is gone.
    pub fn set_effort(&self, token: Token, level: impl Into<String>) -> Result<(), SendError> {
        self.send(Request::Effort(token, level.into()))
    }

    /// Sets a session mode by the agent's id of it.
    ///
    /// # Errors
    /// The agent is gone.
    pub fn set_mode(&self, token: Token, id: impl Into<String>) -> Result<(), SendError> {
        self.send(Request::Mode(token, id.into()))
    }

    /// Sets the mode that suits what the policy leaves to the agent, as the launch table names them.
    ///
    /// # Errors
    /// The agent is gone.
    pub fn set_posture(&self, token: Token, posture: Posture) -> Result<(), SendError> {
        self.send(Request::Posture(token, posture))
    }

    /// Sets an option by its id.
    ///
    /// # Errors
    /// The agent is gone.
    pub fn set_option(
        &self,
        token: Token,
        id: impl Into<String>,
        value: ConfigValue,
    ) -> Result<(), SendError> {
        self.send(Request::Option(token, id.into(), value))
    }

    /// Has the agent copy its conversation, so that another process can go on with the copy; answered by
    /// [`crate::AgentEvent::Forked`] within [`Limits::fork`]. To be asked of an agent without a prompt.
    ///
    /// # Errors
    /// The agent is gone.
    pub fn fork(&self, token: Token, request: ForkRequest) -> Result<(), SendError> {
        self.send(Request::Fork(token, request))
    }

    /// Stops the agent and every process of its own; [`crate::AgentEvent::Exited`] (or `StartFailed`) tells when.
    pub fn stop(&self) {
        self.shared.stop.cancel();
    }

    /// The id of its process; none before there is one.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        Some(self.shared.pid.load(Ordering::Relaxed)).filter(|pid| *pid != 0)
    }

    /// How far its start is.
    #[must_use]
    pub fn stage(&self) -> Stage {
        match self.shared.stage.load(Ordering::Relaxed) {
            0 => Stage::Starting,
            1 => Stage::LoggingIn,
            2 => Stage::Opening,
            3 => Stage::Arranging,
            _ => Stage::Ready,
        }
    }

    /// Whether it has ended or is being stopped: it takes nothing any more, and its last event is still to come or was the
    /// last.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.is_stopping() || self.shared.requests.is_closed()
    }

    /// Whether [`Agent::stop`] was called.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.shared.stop.is_cancelled()
    }

    pub(crate) fn send(&self, request: Request) -> Result<(), SendError> {
        if self.shared.stop.is_cancelled() {
            return Err(SendError::Gone);
        }
        self.shared.requests.try_send(request).map_err(|error| match error {
            mpsc::error::TrySendError::Closed(_) => SendError::Gone,
            mpsc::error::TrySendError::Full(_) => SendError::Overloaded,
        })
    }
}
