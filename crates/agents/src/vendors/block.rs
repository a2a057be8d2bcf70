//! goose.

use crate::presets::Preset;

/// Its asking mode is one of its session modes; configuration decides about the rest.
pub(crate) const GOOSE: Preset = Preset {
    provider: "goose",
    title: "goose",
    commands: &[&["goose", "acp"]],
    ask_modes: &["approve"],
    yolo_modes: &["auto"],
    env: &["GOOSE_PROVIDER", "GOOSE_MODEL", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY"],
    install_hint: "install goose from https://github.com/block/goose",
    login_hint: Some("run `goose configure`"),
    rules: &[".goosehints", "AGENTS.md"],
    ..Preset::BASE
};
