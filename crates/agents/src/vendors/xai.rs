//! Grok Build.

use super::Quirks;
use crate::presets::Preset;

/// It announces tool calls without kind or status and has the kind in `_meta`; its text content before the end is a
/// description, its raw output an array of bytes.
pub(crate) const GROK: Preset = Preset {
    provider: "grok",
    title: "Grok Build",
    // `--no-leader` keeps it apart from a terminal interface that may be running.
    commands: &[&["grok", "agent", "--no-leader", "stdio"]],
    download: Some(&["npx", "-y", "@xai-official/grok", "agent", "--no-leader", "stdio"]),
    env: &["XAI_API_KEY", "GROK_HOME"],
    install_hint: "npm install -g @xai-official/grok",
    login_hint: Some("run `grok login`, or set XAI_API_KEY"),
    quirks: Quirks { output_in_content: false, kind_in_meta: Some("x.ai/tool"), ..Quirks::NONE },
    ..Preset::BASE
};
