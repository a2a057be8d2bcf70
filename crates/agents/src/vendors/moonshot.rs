//! Kimi Code.

use super::Quirks;
use crate::presets::Preset;

/// It streams the arguments of a tool call as text content, and its permission requests have no kind. It asks for commands
/// and for edits elsewhere, never for edits inside its directory. In its histories, reminders of its own follow what the user said.
pub(crate) const KIMI: Preset = Preset {
    provider: "kimi",
    title: "Kimi Code",
    commands: &[&["kimi", "acp"]],
    download: Some(&["npx", "-y", "@moonshot-ai/kimi-code", "acp"]),
    ask_modes: &["default"],
    yolo_modes: &["yolo"],
    edits_unasked: true,
    env: &["KIMI_CODE_HOME", "KIMI_API_KEY", "MOONSHOT_API_KEY"],
    install_hint: "npm install -g @moonshot-ai/kimi-code",
    login_hint: Some("run `kimi login`"),
    rules: &["AGENTS.md"],
    quirks: Quirks {
        output_in_content: false,
        arguments_in_content: true,
        added_to_prompts: Some("<system-reminder>"),
        ..Quirks::NONE
    },
    ..Preset::BASE
};
