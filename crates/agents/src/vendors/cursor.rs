//! Cursor's command line agent.

use super::Quirks;
use crate::presets::Preset;

/// It wants `authenticate` after `initialize`, which never returns when the user is not logged in.
pub(crate) const CURSOR: Preset = Preset {
    provider: "cursor",
    title: "Cursor",
    commands: &[&["cursor-agent", "acp"], &["agent", "acp"]],
    env: &["CURSOR_API_KEY"],
    install_hint: "install the Cursor CLI from https://cursor.com/cli",
    login_hint: Some("run `cursor-agent login`"),
    rules: &["AGENTS.md"],
    quirks: Quirks { authenticate: Some("cursor_login"), ..Quirks::NONE },
    ..Preset::BASE
};
