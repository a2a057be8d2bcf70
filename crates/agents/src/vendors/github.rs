//! GitHub Copilot CLI.

use super::Quirks;
use crate::presets::Preset;

/// Its mode ids are URLs; it asks in the one it starts in.
pub(crate) const COPILOT: Preset = Preset {
    provider: "copilot",
    title: "GitHub Copilot",
    commands: &[&["copilot", "--acp"]],
    download: Some(&["npx", "-y", "@github/copilot", "--acp"]),
    ask_modes: &["https://agentclientprotocol.com/protocol/session-modes#agent"],
    env: &[
        "GH_TOKEN",
        "GITHUB_TOKEN",
        "COPILOT_GITHUB_TOKEN",
        "COPILOT_MODEL",
        "COPILOT_OFFLINE",
        "COPILOT_PROVIDER_API_KEY",
        "COPILOT_PROVIDER_BASE_URL",
        "COPILOT_PROVIDER_TYPE",
    ],
    install_hint: "npm install -g @github/copilot",
    login_hint: Some("run `copilot` and use /login, or set GH_TOKEN"),
    rules: &["AGENTS.md"],
    quirks: Quirks { output_in_content: false, ..Quirks::NONE },
    ..Preset::BASE
};
