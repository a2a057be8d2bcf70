//! ZCode, which has no ACP of its own, through a community bridge.

use super::Quirks;
use crate::presets::Preset;

/// The bridge looks for ZCode on `PATH` or in `ZCODE_BIN`.
pub(crate) const ZCODE: Preset = Preset {
    provider: "zcode",
    title: "ZCode",
    commands: &[&["zcode-acp-server"], &["glm-acp-agent"]],
    download: Some(&["npx", "-y", "zcode-acp-server"]),
    env: &["ZCODE_BIN", "ZAI_API_KEY"],
    install_hint: "npm install -g zcode-acp-server",
    quirks: Quirks { output_in_content: false, ..Quirks::NONE },
    ..Preset::BASE
};
