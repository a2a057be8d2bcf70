//! ACP child processes: launch table, handshake, supervision, one quirks file a vendor. Nothing else knows ACP or vendors.
//!
//! [`start`] launches an agent and returns at once with a handle ([`Agent`]) and its ordered stream of events
//! ([`AgentEvents`]). No call on the handle ever waits, so a session actor can own it; everything that takes time is
//! an event. When nobody takes events, chunks merge and then the agent's pipe is simply not read.

mod decode;
mod driver;
mod event;
mod giants;
pub mod guard;
mod handle;
mod listed;
mod login;
mod masks;
pub mod presets;
mod probe;
mod process;
mod queue;
mod spec;
mod supervisor;
mod traffic;
mod update;
mod vendors;
mod visit;
mod wire_out;

pub use event::{
    AgentEvent, AgentFailure, AgentInfo, AuthMethod, FailureReason, PromptOutcome, RefusedSetting,
    RequestKey, TokenUsage,
};
pub use guard::Guard;
pub use handle::{
    Agent, AgentGone, Answer, ElicitationAnswer, ForkRequest, PromptBlock, PromptRequest, SendError, Stage,
    Token, start,
};
pub use listed::{ListedSession, SessionPage};
pub use login::login_path;
pub use presets::{Preset, preset, presets};
pub use probe::{Onlooker, ProbeNews, Probed, probe};
pub use process::find_program;
pub use queue::AgentEvents;
pub use spec::{
    Environment, LaunchSpec, Limits, McpServer, McpTransport, OpenSession, PASSED, Posture, base_environment,
    environment, offered_variables,
};
pub use supervisor::Supervisor;
pub use update::{
    AgentModes, Content, NoticeSeverity, OutputPatch, PlanPatch, TextChunk, ToolPart, ToolPatch, Update,
};
pub use vendors::Quirks;
pub use visit::{Visit, dismiss_request};
