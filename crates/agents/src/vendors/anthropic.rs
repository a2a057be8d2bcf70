//! Claude Code through `claude-agent-acp`.

use super::Quirks;
use crate::presets::Preset;

/// It starts in a mode that decides by itself; a finished command's output is a fenced block and the text before that a
/// description. One message id covers a thought and the answer after it.
pub(crate) const CLAUDE_CODE: Preset = Preset {
    provider: "claude_code",
    title: "Claude Code",
    commands: &[&["claude-agent-acp"], &["claude-code-acp"]],
    download: Some(&["npx", "-y", "@agentclientprotocol/claude-agent-acp"]),
    ask_modes: &["default"],
    yolo_modes: &["bypassPermissions"],
    env: &[
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "ANTHROPIC_BASE_URL",
        "ANTHROPIC_MODEL",
        "CLAUDE_CONFIG_DIR",
        "CLAUDE_CODE_EXECUTABLE",
        "CLAUDE_CODE_OAUTH_TOKEN",
        "CLAUDE_CODE_USE_BEDROCK",
        "CLAUDE_CODE_USE_VERTEX",
    ],
    install_hint: "npm install -g @agentclientprotocol/claude-agent-acp",
    login_hint: Some("run `claude` once and log in, or set ANTHROPIC_API_KEY"),
    // Newer ones read AGENTS.md too, but only where there is no CLAUDE.md. Read twice is better than not at all.
    rules: &["CLAUDE.md"],
    // Since 0.101; older ones answer with 1.
    protocol: 2,
    quirks: Quirks {
        output_in_content: false,
        fenced_output: true,
        compact_prompt: Some("/compact"),
        other_suffix: Some("_custom"),
        ..Quirks::NONE
    },
    ..Preset::BASE
};
