//! Questions with fields (elicitations) and what is answered to them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value};

/// A question an agent asks with typed fields, or an address that it asks the user to open.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Form {
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    pub fields: Vec<FormField>,
    /// What is asked is to open this web address and to go on there; there are no fields then. Show all of it, let the
    /// user open it, and fetch nothing from it. `accept` means that the user will, or did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// One field of a form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FormField {
    /// The key under which the answer's content holds the value.
    pub key: String,
    pub kind: FormFieldKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(default)]
    pub required: bool,
    /// What a `select` or `multi_select` offers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<FormOption>,
    /// The key of the select whose "other" answer this text field holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom_answer_for: Option<String>,
    /// The value to start with: a JSON value of the field's kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// The least: characters of a `text`, value of a number, choices of a `multi_select`. An answer that breaks this or one of
    /// the next three is refused, and the question waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<Number>,
    /// The most, counted likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<Number>,
    /// A regular expression that a `text` must match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// What a `text` is, in JSON Schema's words: `email`, `uri`, `date`, `date-time`, or another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
}

/// What kind of value a field takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FormFieldKind {
    Text,
    Number,
    Integer,
    Boolean,
    Select,
    MultiSelect,
}

/// One choice of a select.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FormOption {
    pub value: String,
    pub label: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview: Option<String>,
}

/// The answer to a form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum ElicitationAnswer {
    /// Values by field key; what does not fit the form is left out before the agent sees it.
    Accept {
        #[serde(default)]
        content: Map<String, Value>,
    },
    Decline,
    Cancel,
}

/// The kind of an answer, without its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ElicitationAction {
    Accept,
    Decline,
    Cancel,
}

impl ElicitationAnswer {
    /// Which kind of answer this is.
    #[must_use]
    pub fn action(&self) -> ElicitationAction {
        match self {
            Self::Accept { .. } => ElicitationAction::Accept,
            Self::Decline => ElicitationAction::Decline,
            Self::Cancel => ElicitationAction::Cancel,
        }
    }
}
