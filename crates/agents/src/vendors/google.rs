//! Gemini CLI.

use super::Quirks;
use crate::presets::Preset;

/// It knows only modes and models of the older protocol and replays a loaded session after it has answered, a text
/// of its own about the session first.
pub(crate) const GEMINI: Preset = Preset {
    provider: "gemini",
    title: "Gemini CLI",
    commands: &[&["gemini", "--acp"]],
    download: Some(&["npx", "-y", "@google/gemini-cli", "--acp"]),
    ask_modes: &["default"],
    yolo_modes: &["yolo"],
    env: &[
        "GEMINI_API_KEY",
        "GOOGLE_API_KEY",
        "GOOGLE_GEMINI_BASE_URL",
        "GOOGLE_CLOUD_PROJECT",
        "GOOGLE_CLOUD_LOCATION",
        "GOOGLE_APPLICATION_CREDENTIALS",
    ],
    install_hint: "npm install -g @google/gemini-cli",
    login_hint: Some("run `gemini` once and log in, or set GEMINI_API_KEY"),
    rules: &["GEMINI.md"],
    quirks: Quirks { output_in_content: false, added_to_prompts: Some("<session_context>"), ..Quirks::NONE },
    ..Preset::BASE
};
