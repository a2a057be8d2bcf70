//! The two axes of the execution policy: how permission requests are answered, and the ceiling on what may run at all.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the permission requests of an agent are answered, below the ceiling of the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PermissionMode {
    /// Every request is put to a client.
    #[default]
    Ask,
    /// Edits, deletions and moves inside the session's roots are allowed, everything else is asked.
    AcceptEdits,
    /// Everything the sandbox admits is allowed.
    Yolo,
}

/// The ceiling on tool kinds. It mediates what agents ask for; it does not contain processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SandboxLevel {
    /// Reading, searching, fetching and thinking only.
    ReadOnly,
    /// Also edits and commands; edits outside the roots are never allowed without asking.
    #[default]
    WorkspaceWrite,
    /// Also edits outside the roots.
    DangerFullAccess,
}

/// Both axes together. They are always written, applied and reported as a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
pub struct Policy {
    pub mode: PermissionMode,
    pub sandbox: SandboxLevel,
    /// Ext: nobody is asked; what `mode` would ask is rejected. A `mode` that is set by itself ends it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub never_ask: bool,
}

/// A change of one or both axes; the core folds it into the pair it holds, in one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
pub struct PolicyPatch {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<PermissionMode>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxLevel>,
    /// Ext: whether nobody is asked; left out, it stays unless `mode` is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub never_ask: Option<bool>,
}

impl PolicyPatch {
    /// The pair that results when this change is folded into `current`.
    #[must_use]
    pub fn over(self, current: Policy) -> Policy {
        Policy {
            mode: self.mode.unwrap_or(current.mode),
            sandbox: self.sandbox.unwrap_or(current.sandbox),
            never_ask: self.never_ask.unwrap_or(current.never_ask && self.mode.is_none()),
        }
    }
}

impl From<Policy> for PolicyPatch {
    fn from(policy: Policy) -> Self {
        Self { mode: Some(policy.mode), sandbox: Some(policy.sandbox), never_ask: Some(policy.never_ask) }
    }
}

/// A rule that an "allow for this session" answer left. It holds only inside the ceiling and the roots.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum SessionRule {
    /// This exact command line is allowed.
    Command { command: String },
    /// Edits, deletions and moves under this absolute directory are allowed.
    Edits { root: String },
}
