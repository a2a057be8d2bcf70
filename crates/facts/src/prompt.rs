//! What a user wrote, and the settings a turn ran with.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Policy, TurnId};

/// A block of a prompt as the user composed it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum DocBlock {
    /// Text.
    Text {
        /// The text, untrimmed.
        text: String,
        /// Marked ranges of it, as the client sent them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        elements: Vec<TextSpan>,
    },
    /// A skill with its parameters.
    Skill {
        /// Skill id.
        skill_id: String,
        /// Placeholder values.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        params: BTreeMap<String, String>,
        /// Where the client found it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<String>,
    },
    /// A file of the session's roots.
    File {
        /// Relative to the cwd, or absolute.
        path: String,
        /// How the client named it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    /// An image of the session's roots.
    Image {
        /// Relative to the cwd, or absolute.
        path: String,
        /// How closely to look, as the client asked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        detail: Option<String>,
    },
    /// An image by URL (`data:` or `https:`).
    ImageUrl {
        /// The URL.
        url: String,
        /// How closely to look, as the client asked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        detail: Option<String>,
    },
    /// Another session's chat.
    Session {
        /// Its id.
        session_id: String,
    },
    /// An issue of some tracker.
    Issue {
        /// Tracker.
        source: String,
        /// Id there.
        id: String,
        /// Title.
        #[serde(default)]
        title: String,
        /// Link.
        #[serde(default)]
        url: String,
        /// Text.
        #[serde(default)]
        body: String,
    },
    /// A resource by URI, with its text or the file that holds it.
    Resource {
        /// URI.
        uri: String,
        /// Its text.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
        /// A file of the session's roots.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<String>,
        /// MIME type of the text.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mime_type: Option<String>,
    },
    /// Context that a client adds.
    Context {
        /// Where it comes from.
        source: String,
        /// The content.
        value: String,
        /// Whether it comes from outside and must be fenced as data.
        untrusted: bool,
    },
}

impl DocBlock {
    /// A plain text block.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into(), elements: Vec::new() }
    }
}

/// A marked range of a text block, in bytes of its UTF-8.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TextSpan {
    /// First byte.
    pub start: u64,
    /// One past the last byte.
    pub end: u64,
    /// What to show instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placeholder: Option<String>,
}

/// A labelled block of context that a client adds to a turn.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AdditionalContext {
    /// The content.
    pub value: String,
    /// Whether it comes from outside and must be fenced as data.
    pub untrusted: bool,
}

/// An accepted prompt. The first one of a turn carries the turn's context; steering ones continue the turn.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Prompt {
    /// What the user composed.
    #[serde(default)]
    pub blocks: Vec<DocBlock>,
    /// Canonical text ([`canonical_text`]); never holds expanded skills, files or chats.
    pub text: String,
    /// At most 400 scalars of it, for lists.
    #[serde(default)]
    pub display: String,
    /// `request_id` of the Op.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// The client's own id of the message, exactly-once per session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_message_id: Option<String>,
    /// The context of the turn that this prompt opens; absent for a prompt that steers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opens: Option<Box<TurnContext>>,
}

impl Prompt {
    /// Whether it comes from a log of which only the text is known. Such a prompt steered nothing.
    #[must_use]
    pub fn is_legacy(&self) -> bool {
        self.blocks.is_empty() && self.display.is_empty()
    }
}

/// The settings in force when a turn began.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct TurnContext {
    /// Working directory, absolute.
    pub cwd: PathBuf,
    /// Additional workspace roots, absolute.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roots: Vec<PathBuf>,
    /// The agent's model id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Reasoning effort.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    /// Policy.
    pub policy: Policy,
    /// Agent options by id.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, Value>,
    /// Client metadata of the turn, passed to the agent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub client_metadata: BTreeMap<String, String>,
    /// Additional context by source.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub additional_context: BTreeMap<String, AdditionalContext>,
    /// The turn that caused this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_turn: Option<TurnId>,
    /// The turn that the chain of causes began with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_turn: Option<TurnId>,
}

/// The stored text of a prompt: blocks joined by a blank line, empty parts left out, text not trimmed, references as
/// short marks.
#[must_use]
pub fn canonical_text(blocks: &[DocBlock]) -> String {
    let parts = blocks.iter().map(|block| match block {
        DocBlock::Text { text, .. } => text.clone(),
        DocBlock::Skill { skill_id, .. } => format!("[skill:{skill_id}]"),
        DocBlock::File { path, .. } => format!("[@{path}]"),
        DocBlock::Image { path, .. } => format!("[img:{path}]"),
        DocBlock::ImageUrl { url, .. } if url.starts_with("data:") => "[img]".to_owned(),
        DocBlock::ImageUrl { url, .. } => format!("[img:{url}]"),
        DocBlock::Session { session_id } => {
            format!("[chat:{}]", session_id.chars().take(8).collect::<String>())
        }
        DocBlock::Issue { source, id, .. } => format!("[issue:{source}#{id}]"),
        DocBlock::Resource { uri, .. } => format!("[resource:{uri}]"),
        DocBlock::Context { .. } => String::new(),
    });
    parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n\n")
}

/// The first 400 scalars of a prompt's text, with an ellipsis if there is more.
#[must_use]
pub fn display_text(text: &str) -> String {
    match text.char_indices().nth(400) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}\u{2026}", &text[..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_text_keeps_text_and_marks_references() {
        let blocks = [
            DocBlock::text("First line\n  indented line"),
            DocBlock::Skill { skill_id: "review".into(), params: BTreeMap::new(), path: None },
            DocBlock::File { path: "src/main.rs".into(), name: None },
            DocBlock::Session { session_id: "1234567890abcdef".into() },
            DocBlock::text(""),
        ];
        assert_eq!(
            canonical_text(&blocks),
            "First line\n  indented line\n\n[skill:review]\n\n[@src/main.rs]\n\n[chat:12345678]"
        );
    }

    #[test]
    fn display_text_is_cut_after_400_scalars() {
        let exact: String = "é".repeat(400);
        assert_eq!(display_text(&exact), exact);
        let longer = format!("{exact}x");
        assert_eq!(display_text(&longer).chars().count(), 401);
        assert!(display_text(&longer).ends_with('\u{2026}'));
    }
}
