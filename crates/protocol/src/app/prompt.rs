//! `prompt/preview`: what an input becomes before an agent gets it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::input::UserInput;
use crate::lenient::null_as_default;
use crate::ops::ContextEntry;

/// Params of `prompt/preview`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromptPreviewParams {
    /// The thread whose next prompt it would be.
    pub thread_id: String,
    /// As in `turn/start`.
    pub input: Vec<UserInput>,
    /// As in `turn/start`.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub additional_context: BTreeMap<String, ContextEntry>,
}

/// Result of `prompt/preview`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromptPreviewResult {
    /// What the agent would get, in order. An agent that does not take a kind gets text or a link instead.
    pub blocks: Vec<PreviewBlock>,
    /// What is shorter than what it stands for.
    pub omissions: Vec<PreviewNote>,
    /// References that lead nowhere. The prompt would go without them.
    pub unresolved: Vec<PreviewNote>,
}

/// A block of a prompt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PreviewBlock {
    /// Its kind as the agent sees it.
    pub kind: PreviewKind,
    /// What it was made from.
    pub source: PreviewSource,
    /// What exactly, such as `skill:review` or `file:src/main.rs`; absent for what the user wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// Size of its content in bytes.
    pub bytes: u64,
    /// Its text, or the address of a link; the beginning if it is long. Images have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Whether `text` is only the beginning.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

/// Kinds of blocks, in the words of the Agent Client Protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PreviewKind {
    Text,
    Image,
    Resource,
    ResourceLink,
}

/// What a block was made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum PreviewSource {
    /// Instructions of the thread.
    Instructions,
    /// A rule file; only in the first prompt of a conversation.
    Rules,
    /// What was said in the thread before the agent joined it.
    History,
    /// Additional context.
    Context,
    /// What the user wrote.
    Text,
    Skill,
    File,
    Image,
    /// Another thread.
    Chat,
    Issue,
    Resource,
}

/// Something about a reference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PreviewNote {
    /// The reference, such as `skill:nope`, `file:x` or `session:ID`.
    pub reference: String,
    /// For people.
    pub reason: String,
}
