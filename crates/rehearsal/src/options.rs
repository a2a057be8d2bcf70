//! What the environment may ask of the agent: where it remembers, and how it misbehaves at its start.

use std::{path::PathBuf, time::Duration};

/// How one agent process is set up.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The folder in which conversations are kept, so that `session/load` and `session/resume` work in a
    /// later process. Made on demand. Without it they work in this process only.
    pub state_dir: Option<PathBuf>,
    /// A file to which each line from the client is appended.
    pub heard: Option<PathBuf>,
    /// What goes wrong at the start.
    pub start: Start,
}

/// A way to start badly, for those who test how a client takes it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Start {
    /// Nothing goes wrong.
    #[default]
    Well,
    /// `exit:CODE`: the process leaves at once with this code, after one line on stderr.
    Exit(u8),
    /// `garbage`: lines that are not JSON at the start and in place of each answer.
    Garbage,
    /// `hang`: reads and never answers.
    Hang,
    /// `slow:MS`: `initialize` is answered after this time.
    Slow(Duration),
    /// `no-new`: `initialize` is answered, `session/new`, `load` and `resume` get an error -32603.
    NoNew,
    /// `hang-new`: `initialize` is answered; `session/new`, `load` and `resume` never are.
    HangNew,
    /// `hang-load`: the same for `load` and `resume` only.
    HangLoad,
    /// `load-only`: there is no `session/resume`, only `session/load`.
    LoadOnly,
    /// `no-load`: an earlier session can be neither loaded nor resumed.
    NoLoad,
    /// `resume-only`: there is no `session/load`, only `session/resume`.
    ResumeOnly,
    /// `late-load`: `session/load` is answered first, and then the conversation is told again.
    LateLoad,
    /// `no-list`: sessions cannot be listed.
    NoList,
    /// `no-fork`: a conversation cannot be copied.
    NoFork,
    /// `hang-fork`: `session/fork` is never answered.
    HangFork,
    /// `fail-fork`: `session/fork` gets an error -32603.
    FailFork,
    /// `late-choices`: `session/set_config_option` is answered once no turn runs.
    LateChoices,
    /// `auth`: as `no-new`, with the error -32000 that asks for a login.
    Auth,
}

/// The environment holds a value that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OptionsError {
    /// The variable has none of the documented forms.
    #[error(
        "SIGNALBOX_REHEARSAL_START is `{value}`; known are exit:CODE, garbage, hang, slow:MS, no-new, hang-new, \
         hang-load, load-only, no-load, resume-only, late-load, no-list, no-fork, hang-fork, fail-fork, late-choices, auth"
    )]
    Start {
        /// What the variable holds.
        value: String,
    },
}

impl Options {
    /// Reads `SIGNALBOX_REHEARSAL_STATE`, `SIGNALBOX_REHEARSAL_HEARD` and `SIGNALBOX_REHEARSAL_START`; empty counts as
    /// unset.
    ///
    /// # Errors
    /// If `SIGNALBOX_REHEARSAL_START` has none of the documented forms.
    pub fn from_env() -> Result<Self, OptionsError> {
        let path = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let start = std::env::var_os("SIGNALBOX_REHEARSAL_START").unwrap_or_default();
        Ok(Self {
            state_dir: path("SIGNALBOX_REHEARSAL_STATE"),
            heard: path("SIGNALBOX_REHEARSAL_HEARD"),
            start: Start::parse(&start.to_string_lossy())?,
        })
    }
}

impl Start {
    /// Whether `session/resume` works.
    pub(crate) fn can_resume(&self) -> bool {
        !matches!(self, Self::LoadOnly | Self::NoLoad)
    }

    /// Whether `session/load` works.
    pub(crate) fn can_load(&self) -> bool {
        !matches!(self, Self::NoLoad | Self::ResumeOnly)
    }

    /// Whether `session/list` works.
    pub(crate) fn can_list(&self) -> bool {
        *self != Self::NoList
    }

    /// Reads the form that the environment variable has.
    ///
    /// # Errors
    /// If the text has none of the documented forms.
    pub fn parse(value: &str) -> Result<Self, OptionsError> {
        let (word, number) = value.split_once(':').map_or((value, None), |(word, rest)| (word, Some(rest)));
        let unknown = || OptionsError::Start { value: value.to_owned() };
        Ok(match (word, number) {
            ("", None) => Self::Well,
            ("garbage", None) => Self::Garbage,
            ("hang", None) => Self::Hang,
            ("no-new", None) => Self::NoNew,
            ("hang-new", None) => Self::HangNew,
            ("hang-load", None) => Self::HangLoad,
            ("load-only", None) => Self::LoadOnly,
            ("no-load", None) => Self::NoLoad,
            ("resume-only", None) => Self::ResumeOnly,
            ("late-load", None) => Self::LateLoad,
            ("no-list", None) => Self::NoList,
            ("no-fork", None) => Self::NoFork,
            ("hang-fork", None) => Self::HangFork,
            ("fail-fork", None) => Self::FailFork,
            ("late-choices", None) => Self::LateChoices,
            ("auth", None) => Self::Auth,
            ("exit", Some(code)) => Self::Exit(code.parse().map_err(|_| unknown())?),
            ("slow", Some(ms)) => Self::Slow(Duration::from_millis(ms.parse().map_err(|_| unknown())?)),
            _ => return Err(unknown()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_documented_form_is_read_and_every_other_is_named() {
        let read = |text: &str| Start::parse(text).unwrap();
        assert_eq!(read(""), Start::Well);
        assert_eq!(read("exit:7"), Start::Exit(7));
        assert_eq!(read("garbage"), Start::Garbage);
        assert_eq!(read("hang"), Start::Hang);
        assert_eq!(
            (read("hang-new"), read("hang-load"), read("load-only"), read("no-load")),
            (Start::HangNew, Start::HangLoad, Start::LoadOnly, Start::NoLoad)
        );
        assert_eq!(
            (read("resume-only"), read("late-load"), read("no-list")),
            (Start::ResumeOnly, Start::LateLoad, Start::NoList)
        );
        assert_eq!(
            (read("no-fork"), read("hang-fork"), read("fail-fork")),
            (Start::NoFork, Start::HangFork, Start::FailFork)
        );
        assert_eq!(read("slow:250"), Start::Slow(Duration::from_millis(250)));
        assert_eq!(read("no-new"), Start::NoNew);
        assert_eq!((read("late-choices"), read("auth")), (Start::LateChoices, Start::Auth));
        for bad in ["exit", "exit:300", "slow:soon", "hang:1", "sulk"] {
            let error = Start::parse(bad).unwrap_err().to_string();
            assert!(error.contains(&format!("`{bad}`")), "{error}");
        }
    }
}
