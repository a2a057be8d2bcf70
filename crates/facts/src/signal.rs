//! Signals: shown in order with the facts, but with nothing to store.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{Fact, Seq, SessionId, TurnId, Usage};

/// What passes the commit pipeline, in order: stored facts and signals between them.
#[derive(Clone, Debug)]
pub enum Committed {
    /// A stored fact.
    Fact(Arc<Fact>),
    /// Something that leaves no row.
    Signal(Arc<Signal>),
}

/// Session state that is shown live and told again by the agent after a restart.
#[derive(Clone, PartialEq, Debug)]
pub struct Signal {
    /// The session.
    pub session: SessionId,
    /// The turn that was open.
    pub turn: Option<TurnId>,
    /// The last fact's seq; a signal takes none of its own.
    pub seq: Seq,
    /// Unix milliseconds.
    pub at_ms: i64,
    /// What it says.
    pub body: SignalBody,
}

/// What a signal says.
#[derive(Clone, PartialEq, Debug)]
pub enum SignalBody {
    /// The models the agent offers.
    Models {
        /// All of them.
        available: Vec<Model>,
        /// The current one's id; may be empty.
        current: String,
    },
    /// The agent's options, the whole set.
    ConfigOptions(Vec<ConfigOption>),
    /// The agent's slash commands, the whole set.
    Commands(Vec<Command>),
    /// How full the context is.
    ContextWindow(ContextWindow),
    /// How much of its limits the agent's account has used.
    RateLimits {
        /// All that are known.
        limits: Vec<RateLimit>,
        /// The session's tokens so far, which are told beside them.
        usage: Usage,
    },
    /// The agent has said nothing for a while, or speaks again.
    Stalled {
        /// Since when it is silent, Unix milliseconds; absent when it speaks again.
        since_ms: Option<i64>,
    },
    /// The session leaves memory.
    Unloaded,
    /// The session is no more.
    Deleted,
}

/// A model an agent offers.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Model {
    /// The agent's id.
    pub id: String,
    /// Name for people.
    pub name: String,
    /// More about it.
    #[serde(default)]
    pub description: Option<String>,
}

/// A choice of a config option.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Choice {
    /// The value.
    pub id: String,
    /// Name for people.
    pub name: String,
    /// More about it.
    #[serde(default)]
    pub description: Option<String>,
    /// Name of the group that the agent shows it in, if it has groups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
}

/// The value of a config option.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ConfigValue {
    /// Of a boolean option.
    Flag(bool),
    /// Of a select option.
    Choice(String),
}

/// An option that the agent lets clients set.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ConfigOption {
    /// The agent's id.
    pub id: String,
    /// Name for people.
    pub name: String,
    /// ACP category (`mode`, `model`, `thought_level`, …).
    #[serde(default)]
    pub category: Option<String>,
    /// More about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Current value; of an option of an unknown type its value as text.
    pub current: ConfigValue,
    /// What a select option offers, in the agent's order; those of a group follow each other.
    #[serde(default)]
    pub choices: Vec<Choice>,
    /// It is of a type that this version does not know: shown, but it cannot be set.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fixed: bool,
}

/// A slash command that the agent offers.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Command {
    /// Name without the slash.
    pub name: String,
    /// What it does.
    pub description: String,
    /// What to type after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// One limit on what the agent's account may use.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RateLimit {
    /// The agent's name for it.
    pub name: String,
    /// 0 to 100.
    pub used_percent: f64,
    /// The time it is counted over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_minutes: Option<u64>,
    /// When it begins anew, Unix seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resets_at: Option<i64>,
}

/// The agent's context window.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct ContextWindow {
    /// Tokens used.
    pub used_tokens: u64,
    /// Capacity in tokens.
    pub size_tokens: u64,
    /// Cost so far in US dollars, where reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
}
