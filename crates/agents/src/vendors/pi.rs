//! Pi through `pi-acp`.

use super::Quirks;
use crate::presets::Preset;

/// Pi has no permissions at all: it never asks. Command output comes in `_meta`. It greets with its version.
pub(crate) const PI: Preset = Preset {
    provider: "pi",
    title: "Pi",
    commands: &[&["pi-acp"]],
    download: Some(&["npx", "-y", "pi-acp"]),
    needs: &["pi"],
    mediated: false,
    env: &["PI_CODING_AGENT_DIR", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"],
    install_hint: "npm install -g pi-acp @earendil-works/pi-coding-agent",
    login_hint: Some("run `pi` and log in there"),
    rules: &["AGENTS.md"],
    quirks: Quirks { output_in_content: false, greets: true, ..Quirks::NONE },
    ..Preset::BASE
};
