//! What a user sends: the blocks of `input`, and of a `userMessage` item.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::lenient::null_as_default;

/// One block of user input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum UserInput {
    Text {
        text: String,
        /// Spans the client shows as one element. The name is spelled as existing clients do.
        #[serde(rename = "text_elements", default, deserialize_with = "null_as_default")]
        text_elements: Vec<TextElement>,
    },
    /// An image by URL (`data:` URLs carry it inline). Images by `fileId` are refused: there is no file store.
    Image {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        url: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        file_id: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        detail: Option<ImageDetail>,
    },
    LocalImage {
        path: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        detail: Option<ImageDetail>,
    },
    /// Understood, and refused: agents take no audio.
    Audio {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        url: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        file_id: Option<String>,
    },
    /// Understood, and refused: agents take no audio.
    LocalAudio {
        path: String,
    },
    Skill {
        name: String,
        path: String,
    },
    /// A file by what the client calls it and where it is.
    Mention {
        name: String,
        path: String,
    },
    /// Ext: the newest turns of another thread.
    Chat {
        thread_id: String,
    },
    /// Ext: a resource with its text, or with the file that holds it.
    Resource {
        uri: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mime_type: Option<String>,
    },
}

/// A span of a text block that the client shows as one element.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TextElement {
    pub byte_range: ByteRange,
    /// What is shown instead of the span.
    #[serde(default)]
    pub placeholder: Option<String>,
}

/// A span in bytes of the text's UTF-8 form, end exclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ByteRange {
    pub start: u64,
    pub end: u64,
}

/// The resolution in which an image is to be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ImageDetail {
    Auto,
    Low,
    High,
    Original,
}
