//! The launch table: how each known agent is started, which of its modes asks, and what it may need from the environment.

use crate::vendors::{self, Quirks};

/// How a known agent is started.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// Provider name.
    pub provider: &'static str,
    /// Name for people.
    pub title: &'static str,
    /// Command lines to try in order; the first whose program is on `PATH` is taken.
    pub commands: &'static [&'static [&'static str]],
    /// Command line that downloads it from npm (or PyPI) and runs it; only where the user allowed downloads. It ends in
    /// the arguments of the first of `commands`.
    pub download: Option<&'static [&'static str]>,
    /// Programs that must be on `PATH` too.
    pub needs: &'static [&'static str],
    /// Modes in which it asks, best first. Empty: it asks as it starts, or never (see `mediated`).
    pub ask_modes: &'static [&'static str],
    /// Modes for policies that allow edits inside the roots, best first. Empty: those of `ask_modes`, where our policy
    /// answers for the user. Only for agents that confine what they do unasked.
    pub edit_modes: &'static [&'static str],
    /// Modes for the policy yolo, best first.
    pub yolo_modes: &'static [&'static str],
    /// Whether it asks before it acts at all.
    pub mediated: bool,
    /// Whether it edits files inside its directory without asking, in all modes in which it edits at all.
    pub edits_unasked: bool,
    /// Variables it may need, besides the base; values are the user's.
    pub env: &'static [&'static str],
    /// Variables set for it.
    pub set_env: &'static [(&'static str, &'static str)],
    /// Names of the rule files that it reads itself, in its directory and above it. Other rules are sent to it.
    pub rules: &'static [&'static str],
    /// How to get it.
    pub install_hint: &'static str,
    /// How to log in.
    pub login_hint: Option<&'static str>,
    /// Highest ACP version to offer it. A higher one than 1 only where a real one was seen to do well with it.
    pub protocol: u16,
    /// What is odd about it.
    pub quirks: Quirks,
}

/// All known agents, the nine of the Op/Event contract first. `rehearsal` is our own program and given by the caller.
static PRESETS: [Preset; 14] = [
    vendors::anthropic::CLAUDE_CODE,
    vendors::openai::CODEX,
    vendors::xai::GROK,
    vendors::cursor::CURSOR,
    vendors::opencode::OPENCODE,
    vendors::opencode::OPENCODE2,
    vendors::pi::PI,
    vendors::moonshot::KIMI,
    vendors::zai::ZCODE,
    vendors::google::GEMINI,
    vendors::qwen::QWEN,
    vendors::github::COPILOT,
    vendors::mistral::VIBE,
    vendors::block::GOOSE,
];

/// Every known agent, in the order to list them.
#[must_use]
pub fn presets() -> &'static [Preset] {
    &PRESETS
}

/// The known agent of this provider name.
#[must_use]
pub fn preset(provider: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.provider == provider)
}

impl Preset {
    /// The defaults that vendors' tables start from.
    pub(crate) const BASE: Self = Self {
        provider: "",
        title: "",
        commands: &[],
        download: None,
        needs: &[],
        ask_modes: &[],
        edit_modes: &[],
        yolo_modes: &[],
        mediated: true,
        edits_unasked: false,
        env: &[],
        set_env: &[],
        rules: &[],
        install_hint: "",
        login_hint: None,
        protocol: 1,
        quirks: Quirks::NONE,
    };

    /// The first command line whose program (and everything it needs) `exists`, as program and arguments.
    #[must_use]
    pub fn installed(
        &self,
        exists: impl Fn(&str) -> bool,
    ) -> Option<(&'static str, &'static [&'static str])> {
        if !self.needs.iter().all(|program| exists(program)) {
            return None;
        }
        let found = self.commands.iter().find(|line| line.first().is_some_and(|program| exists(program)))?;
        let (program, args) = found.split_first()?;
        Some((program, args))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use signalbox_facts::Provider;

    use super::*;

    #[test]
    fn every_documented_provider_has_an_entry_and_none_has_two() {
        let names: BTreeSet<_> = presets().iter().map(|preset| preset.provider).collect();
        assert_eq!(names.len(), presets().len());
        for name in Provider::NAMED {
            assert!(names.contains(name), "{name}");
        }
    }

    #[test]
    fn entries_are_complete() {
        for preset in presets() {
            assert!(!preset.commands.is_empty() && preset.commands.iter().all(|line| !line.is_empty()));
            assert!(!preset.title.is_empty() && !preset.install_hint.is_empty(), "{}", preset.provider);
            assert!(preset.mediated || preset.ask_modes.is_empty(), "{}", preset.provider);
            let edits_unasked = !preset.edit_modes.is_empty();
            assert!(preset.quirks.confines_commands || !edits_unasked, "{}", preset.provider);
        }
    }

    #[test]
    fn a_download_ends_in_the_arguments_of_the_command() {
        for preset in presets() {
            let Some(download) = preset.download else { continue };
            assert!(download.ends_with(&preset.commands[0][1..]), "{}", preset.provider);
            assert!(matches!(download[0], "npx" | "uvx"), "{}", preset.provider);
        }
    }

    #[test]
    fn rule_files_are_names_without_folders() {
        for preset in presets() {
            assert!(
                preset.rules.iter().all(|name| !name.is_empty() && !name.contains('/')),
                "{}",
                preset.provider
            );
        }
        assert_eq!(preset("codex").unwrap().rules, ["AGENTS.md"]);
        assert!(preset("grok").unwrap().rules.is_empty());
    }

    #[test]
    fn the_first_installed_command_is_taken_and_its_needs_must_be_there() {
        let cursor = preset("cursor").unwrap();
        assert_eq!(cursor.installed(|program| program == "agent"), Some(("agent", &["acp"][..])));
        let pi = preset("pi").unwrap();
        assert_eq!(pi.installed(|program| program == "pi-acp"), None);
        assert_eq!(pi.installed(|_| true), Some(("pi-acp", &[][..])));
    }
}
