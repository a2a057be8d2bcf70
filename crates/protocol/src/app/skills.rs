//! `skills/list`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::lenient::null_as_default;

/// Params of `skills/list`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SkillsListParams {
    /// Directories of threads; absent or empty: the connection's base directory.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub cwds: Vec<String>,
    /// Accepted; skills are looked for at each call.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "std::ops::Not::not")]
    pub force_reload: bool,
}

/// Result of `skills/list`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SkillsListResult {
    /// One entry a directory, in the order in which they were asked for.
    pub data: Vec<SkillsListEntry>,
}

/// The skills that a thread in one directory can name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SkillsListEntry {
    /// The directory as it was asked for.
    pub cwd: String,
    /// Those that can be used. Of two with one name the first is meant, unless a prompt names the other's path.
    pub skills: Vec<SkillMetadata>,
    /// What looks like a skill and cannot be used, or why nothing could be looked for.
    pub errors: Vec<SkillErrorInfo>,
}

/// A skill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SkillMetadata {
    /// What `name` of a `skill` input takes.
    pub name: String,
    /// What it is for; may be empty.
    pub description: String,
    #[serde(default)]
    pub short_description: Option<String>,
    /// Its `SKILL.md`.
    pub path: String,
    pub scope: SkillScope,
    /// Always true: there is no switch for skills.
    pub enabled: bool,
    /// How it is shown, where that differs from its name.
    #[serde(default)]
    pub interface: Option<SkillInterface>,
}

/// Where a skill was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum SkillScope {
    /// In the user's home directory, or the server's home.
    User,
    /// In the thread's directory.
    Repo,
    /// Not used here.
    System,
    /// In a folder that the server's configuration names.
    Admin,
}

/// How a skill is shown.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SkillInterface {
    /// Name for people.
    #[serde(default)]
    pub display_name: Option<String>,
}

/// Something that looks like a skill and cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SkillErrorInfo {
    /// The file or folder.
    pub path: String,
    /// Why, for people.
    pub message: String,
}
