//! Plain data of the core: ids, facts and their bodies, activity, policy, pending input. No clock, no I/O, no async.
//!
//! A [`Fact`] is the stored unit of truth. Events, transcript entries and thread items are projections of
//! facts and live elsewhere; their JSON is never what is stored.

mod activity;
mod compact;
mod device;
mod fact;
mod ids;
mod launch;
mod pending;
mod policy;
mod prompt;
mod rows;
mod signal;
mod tool;

pub use activity::{Activity, ActivityState, FailedReason};
pub use compact::compact;
pub use device::{DeviceRole, DeviceRow};
pub use fact::{
    AgentText, CompactionStatus, ContextCompaction, Fact, FactBody, Failure, ForkContext, Plan, PlanEntry,
    PlanStatus, PolicyChanged, QueueChanged, QueuePause, QueuedPrompt, Reverted, SessionCreated,
    SettingsChanged, TitleChanged, TitleOrigin, TokensAtEnd, ToolOutput, TurnDiff, TurnEnded, TurnStatus,
    Usage, Warning, Worktree, WorktreeBaseline, WorktreeDiscarded,
};
pub use ids::{DeviceId, InputId, Provider, Seq, SessionId, SubmissionId, TurnId};
pub use launch::{Launch, McpLaunch};
pub use pending::{
    Decision, FieldKind, FieldOption, Form, FormField, FormLink, InputKind, OptionKind, PendingInput,
    PermissionOption, PermissionResolved, ResolvedBy, ResolverKind, SessionRule,
};
pub use policy::{Mode, Policy, Sandbox};
pub use prompt::{AdditionalContext, DocBlock, Prompt, TextSpan, TurnContext, canonical_text, display_text};
pub use rows::{SessionRow, SessionSource, TurnRow};
pub use signal::{
    Choice, Command, Committed, ConfigOption, ConfigValue, ContextWindow, Model, RateLimit, Signal,
    SignalBody,
};
pub use tool::{
    FileChangeKind, FileDiff, ItemKind, Location, McpTool, ToolCall, ToolContent, ToolOutcome, ToolStatus,
};
