//! OpenCode 1 and 2.

use super::Quirks;
use crate::presets::Preset;

/// It asks where its own configuration says so, so that is set for it; the text of a running command is its output. Its
/// plan is the arguments of the tool `todowrite`.
pub(crate) const OPENCODE: Preset = Preset {
    provider: "opencode",
    title: "OpenCode",
    commands: &[&["opencode", "acp"]],
    download: Some(&["npx", "-y", "opencode-ai", "acp"]),
    env: &[
        "OPENCODE_CONFIG",
        "OPENCODE_CONFIG_DIR",
        "ANTHROPIC_API_KEY",
        "OPENAI_API_KEY",
        "OPENROUTER_API_KEY",
    ],
    set_env: &[("OPENCODE_PERMISSION", r#"{"edit":"ask","bash":"ask","webfetch":"ask"}"#)],
    install_hint: "npm install -g opencode-ai",
    login_hint: Some("run `opencode auth login`"),
    // It reads the second only where there is none of the first.
    rules: &["AGENTS.md", "CLAUDE.md"],
    quirks: Quirks { plan_in_arguments: Some("todos"), compact_prompt: Some("/compact"), ..Quirks::NONE },
    ..Preset::BASE
};

/// The second major version, which users install beside the first.
pub(crate) const OPENCODE2: Preset = Preset {
    provider: "opencode2",
    title: "OpenCode 2",
    commands: &[&["opencode2", "acp"]],
    download: Some(&["npx", "-y", "@opencode/cli", "acp"]),
    install_hint: "npm install -g @opencode/cli",
    login_hint: Some("run `opencode2 auth login`"),
    ..OPENCODE
};
