//! Qwen Code.

use super::Quirks;
use crate::presets::Preset;

/// It starts in a mode that decides by itself and sends requests of its own that must be refused at once.
pub(crate) const QWEN: Preset = Preset {
    provider: "qwen",
    title: "Qwen Code",
    commands: &[&["qwen", "--acp"]],
    download: Some(&["npx", "-y", "@qwen-code/qwen-code", "--acp"]),
    ask_modes: &["default"],
    yolo_modes: &["yolo"],
    env: &["OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL", "DASHSCOPE_API_KEY"],
    install_hint: "npm install -g @qwen-code/qwen-code",
    login_hint: Some("run `qwen` once and log in, or set OPENAI_API_KEY"),
    rules: &["QWEN.md", "AGENTS.md"],
    quirks: Quirks { output_in_content: false, ..Quirks::NONE },
    ..Preset::BASE
};
