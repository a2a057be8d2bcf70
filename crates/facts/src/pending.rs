//! Parked permission requests and questions, and how they were resolved.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};

use crate::{InputId, Location, Seq};

/// What an agent's permission option means (ACP `PermissionOptionKind`); unknown kinds are kept as text.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OptionKind {
    /// Allow this one time.
    AllowOnce,
    /// Allow, and the agent remembers it.
    AllowAlways,
    /// Reject this one time.
    RejectOnce,
    /// Reject, and the agent remembers it.
    RejectAlways,
    /// A kind this version does not know.
    #[serde(untagged)]
    Other(String),
}

/// One answer that the agent offers.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PermissionOption {
    /// The agent's id of the option; the ids differ from agent to agent.
    pub id: String,
    /// Label for people.
    pub label: String,
    /// What the option means; choose by this, never by id or position.
    pub kind: OptionKind,
}

/// Whether something is a permission request or a question.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InputKind {
    /// The agent asks whether it may do something.
    Permission,
    /// The agent asks the user a question (ACP elicitation form).
    Elicitation,
}

/// A permission request or question that waits for an answer. A record, not a callback: it outlives every connection.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PendingInput {
    /// Its id, everywhere the same.
    pub id: InputId,
    /// Permission or question.
    pub kind: InputKind,
    /// What is asked, for people.
    pub title: String,
    /// The agent's own options, in the agent's order.
    pub options: Vec<PermissionOption>,
    /// Global, durable first-in-first-out number over all sessions.
    pub sequence: u64,
    /// When it was parked, Unix milliseconds.
    pub requested_at_ms: i64,
    /// The item it is about, if the tool call has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item_seq: Option<Seq>,
    /// The agent's tool call id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call: Option<String>,
    /// ACP tool kind (`execute`, `edit`, …), as far as known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_kind: Option<String>,
    /// The command line, for `execute`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Where the command would run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathBuf>,
    /// Files the tool would touch.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub locations: Vec<Location>,
    /// Why it is asked although the mode might allow it, or what the agent gave as reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The form of a question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub form: Option<Form>,
}

/// A question's form, normalised from the agent's JSON Schema, or an address that the user is asked to open.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Form {
    /// The question.
    pub message: String,
    /// Its fields, at most 32.
    pub fields: Vec<FormField>,
    /// The agent's schema as it came, bounded, for clients that render schemas.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub schema: Value,
    /// What is asked is to open this address; there are no fields then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<FormLink>,
}

/// An address that the user is asked to open, to go on there. It is shown, and never fetched by anybody but the user.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FormLink {
    /// The agent's id of the question, by which it tells later that it is done.
    pub id: String,
    /// The address, `http` or `https`.
    pub url: String,
}

/// One field of a form.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct FormField {
    /// Property name in the answer.
    pub key: String,
    /// Type of the answer.
    pub kind: FieldKind,
    /// Label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Longer help.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether the form may be sent without it.
    #[serde(default)]
    pub required: bool,
    /// Choices of `select` and `multi_select`, at most 64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<FieldOption>,
    /// The value to start with, of the field's kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// The least: characters of a text, value of a number, choices of a multiple choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<Number>,
    /// The most, counted likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<Number>,
    /// A regular expression that a text must match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// JSON Schema's word for what a text is: `email`, `uri`, `date`, `date-time`, others as they came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    /// The key of the choice whose answer in words of one's own this text is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_of: Option<String>,
}

/// Type of a form field.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FieldKind {
    /// Free text.
    #[default]
    Text,
    /// Any number.
    Number,
    /// A whole number.
    Integer,
    /// Yes or no.
    Boolean,
    /// One of the options.
    Select,
    /// Any of the options.
    MultiSelect,
}

/// A choice of a form field.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FieldOption {
    /// The value sent back.
    pub value: String,
    /// Label for people.
    pub label: String,
    /// More about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// What was decided, in the app-server API's words.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Allowed once.
    Accept,
    /// Allowed, and a session rule was kept.
    AcceptForSession,
    /// Rejected; the turn goes on.
    Decline,
    /// Cancelled; the turn is interrupted.
    Cancel,
    /// A question was answered, or an option of no known kind was chosen.
    Answered,
}

/// Who or what resolved an approval.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResolverKind {
    /// A client answered.
    Client,
    /// The policy, or a session rule, decided.
    Policy,
    /// The turn was interrupted or ended.
    Interrupt,
    /// The server stopped before it was answered.
    Restart,
    /// Nobody was there to answer.
    Unattended,
    /// The agent: what it asked for was done elsewhere.
    Agent,
}

/// Resolver with its name where it has one.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ResolvedBy {
    /// The kind of resolver.
    pub kind: ResolverKind,
    /// Client or device name, or the rule that decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl ResolvedBy {
    /// One that has no name.
    #[must_use]
    pub fn kind(kind: ResolverKind) -> Self {
        Self { kind, name: None }
    }
}

/// A permission request or question has its answer. Automatic decisions have this fact without a request before it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PermissionResolved {
    /// Which one.
    pub input: InputId,
    /// What it asked, for people.
    pub title: String,
    /// The agent's tool call id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call: Option<String>,
    /// What was decided.
    pub decision: Decision,
    /// The agent's option that was chosen; absent when the request was cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub option_id: Option<String>,
    /// Who decided.
    pub by: ResolvedBy,
    /// The rule that took an automatic decision (`ceiling`, `unclear`, `session_rule`, `mode`, `unattended`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// What the client wrote with a decline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// A session rule kept from this answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_rule: Option<SessionRule>,
}

impl PermissionResolved {
    /// What was decided about an input and by whom, and nothing else.
    #[must_use]
    pub fn of(input: &PendingInput, decision: Decision, by: ResolvedBy) -> Self {
        Self {
            input: input.id,
            title: input.title.clone(),
            tool_call: input.tool_call.clone(),
            decision,
            option_id: None,
            by,
            rule: None,
            message: None,
            kept_rule: None,
        }
    }
}

/// Kept from an "allow for this session" answer; valid only inside the ceiling and the roots.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum SessionRule {
    /// This exact command line.
    Command {
        /// The command line as the agent stated it.
        command: String,
    },
    /// Edits, deletes and moves under this root.
    Edits {
        /// Absolute path.
        root: PathBuf,
    },
}
