//! Codex through `codex-acp`.

use super::Quirks;
use crate::presets::Preset;

/// It starts in a mode where a second model reviews; it streams command output in `_meta` and leaves cancelled calls
/// open. In `read-only` it asks before every edit and before commands that its sandbox would stop; in `workspace-write` it
/// edits and runs commands inside the workspace unasked, confined. The older Rust adapter of the same name calls the latter `auto`.
pub(crate) const CODEX: Preset = Preset {
    provider: "codex",
    title: "Codex",
    commands: &[&["codex-acp"]],
    download: Some(&["npx", "-y", "@agentclientprotocol/codex-acp"]),
    ask_modes: &["read-only"],
    edit_modes: &["workspace-write", "auto"],
    yolo_modes: &["agent-full-access", "full-access"],
    env: &["CODEX_HOME", "CODEX_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL"],
    install_hint: "npm install -g @agentclientprotocol/codex-acp",
    login_hint: Some("run `codex login`, or CODEX_API_KEY=… signalbox login codex --method api-key"),
    rules: &["AGENTS.md"],
    // Since 2.6; the older Rust adapter answers with 1.
    protocol: 2,
    quirks: Quirks {
        output_in_content: false,
        confines_commands: true,
        compact_prompt: Some("/compact"),
        ..Quirks::NONE
    },
    ..Preset::BASE
};
