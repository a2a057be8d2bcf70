//! The execution policy's two axes: how eagerly to ask, and what may be allowed at all.

use serde::{Deserialize, Serialize};

/// How permission requests inside the ceiling are answered.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Everything is asked.
    #[default]
    Ask,
    /// Edits inside the roots are allowed, the rest is asked.
    AcceptEdits,
    /// Everything inside the ceiling is allowed.
    Yolo,
    /// Nobody is asked anything: reading and edits inside the roots are allowed, commands only where nothing is to be
    /// protected or the agent confines them itself, and everything else is rejected.
    NeverAsk,
}

/// The ceiling of tool kinds. This is mediation of what agents ask for, not containment by the operating system.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sandbox {
    /// Reading, searching, fetching and thinking only.
    ReadOnly,
    /// Also edits, deletes and moves inside the roots, and commands.
    #[default]
    WorkspaceWrite,
    /// No ceiling.
    DangerFullAccess,
}

/// Both axes together; they are only ever written as a pair. The default is ask + workspace_write.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Policy {
    /// How eagerly to ask.
    pub mode: Mode,
    /// What may be allowed at all.
    pub sandbox: Sandbox,
}

impl Policy {
    /// Whether nothing that an agent may ask for would be asked or rejected, so that it need not ask at all.
    #[must_use]
    pub fn lets_agents_loose(self) -> bool {
        self.mode == Mode::Yolo || (self.mode == Mode::NeverAsk && self.sandbox == Sandbox::DangerFullAccess)
    }
}
