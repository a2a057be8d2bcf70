//! The Op/Event contract: `Op` goes in, `Event` comes out, and these are the values both are made of.
//!
//! Rules that hold for every type here:
//! - Unknown fields are ignored; an unknown `op`, `type` or enum value makes the whole message undecodable.
//! - An optional field that is absent is omitted when written. `null` is written only where its own documentation says so.
//!   When read, `null` and absence mean the same.
//! - Ids are strings. Those this server makes are UUIDs; nothing may depend on that.

mod activity;
mod codec;
mod decode;
mod doc;
mod event;
mod form;
mod frame;
mod launch;
mod op;
mod policy;
mod provider;
mod queue;
mod session;
mod settings;
mod transcript;

pub use activity::{Activity, ActivityState, FailureReason, PendingInput, PendingKind};
pub use codec::{EVENT_FRAME_BYTES, Incoming, Problem, Undecodable, decode, encode, event_frame};
pub use decode::{DecodeError, decode_op};
pub use doc::{ContextEntry, ContextKind, DocBlock, TextSpan};
pub use event::{
    CloseReason, ConfigChoice, ConfigOption, Event, ModelChoice, RateLimit, Resolver, ResolverKind,
};
pub use form::{ElicitationAction, ElicitationAnswer, Form, FormField, FormFieldKind, FormOption};
pub use frame::{ClientRequest, ServerFrame};
pub use launch::{Launch, McpServer};
pub(crate) use op::choice_or_switch;
pub use op::{Import, NewSession, Op, TurnInput, TurnMode};
pub use policy::{PermissionMode, Policy, PolicyPatch, SandboxLevel, SessionRule};
pub use provider::Provider;
pub use queue::QueuedPrompt;
pub use session::{BaselineKind, ForkContext, MemoryAccess, SessionSnapshot, TitleOrigin, WorktreeBaseline};
pub use settings::SettingsPatch;
pub use transcript::{Part, Role, TranscriptEntry};
