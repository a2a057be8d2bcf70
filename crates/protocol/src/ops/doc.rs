//! The document a prompt is: blocks as the user wrote them, before anything in them is looked up or expanded.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One block of a document. Paths are relative to the session's cwd or absolute inside its roots.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum DocBlock {
    /// Words.
    Text {
        text: String,
        /// Spans of the text that the writer's client shows as one element; kept for that client, never interpreted.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        elements: Vec<TextSpan>,
    },
    /// A skill by its id, with values for its placeholders.
    Skill {
        skill_id: String,
        #[serde(default)]
        params: BTreeMap<String, String>,
        /// The skill's file, if the client named it; it decides when two skills have one id.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<String>,
    },
    /// A file, whose text is sent along.
    File {
        path: String,
        /// What the user's client called it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    /// An image in a file.
    Image {
        path: String,
        /// The resolution the client asked for, in its own word.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        detail: Option<String>,
    },
    /// An image by URL; `data:` URLs carry it inline.
    ImageUrl {
        url: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        detail: Option<String>,
    },
    /// The newest turns of another session.
    Session { session_id: String },
    /// A ticket as the client knows it; nothing is fetched.
    Issue {
        source: String,
        id: String,
        #[serde(default)]
        title: String,
        #[serde(default)]
        url: String,
        #[serde(default)]
        body: String,
    },
    /// A resource with its text, or with the file that holds it.
    Resource {
        uri: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mime_type: Option<String>,
    },
    /// Something the client's surroundings add to what the user wrote.
    Context {
        source: String,
        value: String,
        #[serde(default)]
        kind: ContextKind,
    },
}

/// A span of a text block, in bytes of its UTF-8 form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TextSpan {
    pub start: u64,
    pub end: u64,
    /// What the client shows instead of the span.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placeholder: Option<String>,
}

/// One entry of `additional_context`; its source is the key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ContextEntry {
    pub value: String,
    #[serde(default)]
    pub kind: ContextKind,
}

/// How far an added context may be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ContextKind {
    /// Data from anywhere; given to the agent fenced, never as instructions.
    #[default]
    Untrusted,
    /// Written by the client application itself.
    Application,
}
