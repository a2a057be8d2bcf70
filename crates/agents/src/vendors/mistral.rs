//! Mistral Vibe.

use super::Quirks;
use crate::presets::Preset;

/// It starts in a mode that accepts edits, echoes each prompt, and keeps a session busy for good if a permission
/// request is answered with an error (so it never is).
pub(crate) const VIBE: Preset = Preset {
    provider: "mistral_vibe",
    title: "Mistral Vibe",
    commands: &[&["vibe-acp"]],
    download: Some(&["uvx", "--from", "mistral-vibe", "vibe-acp"]),
    ask_modes: &["ask", "default"],
    yolo_modes: &["auto-approve"],
    env: &["MISTRAL_API_KEY", "VIBE_HOME"],
    install_hint: "uv tool install mistral-vibe",
    login_hint: Some("run `vibe --setup`, or set MISTRAL_API_KEY"),
    quirks: Quirks { output_in_content: false, ..Quirks::NONE },
    ..Preset::BASE
};
