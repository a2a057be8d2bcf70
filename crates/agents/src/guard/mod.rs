//! The guard: a small process beside the server that cleans up behind it when it dies, however it dies.
//!
//! It holds the reading end of a pipe and is told through it of each agent's start and end. When the pipe closes, it kills
//! what is left. It begins with the first agent; if it has died, another is started with the next thing that
//! there is to tell, at the latest with the next agent, and is told all that live.

mod program;

use std::collections::BTreeMap;
use std::io::{self, PipeWriter, Write};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::Pid;

pub use program::run;

/// How long a guard may take to leave once it has nothing to guard.
const LEAVING: Duration = Duration::from_secs(2);
/// How often is looked whether it has left.
const LOOK: Duration = Duration::from_millis(2);

/// What the guard is told, one line each. Unknown lines are ignored, because a program may have been replaced by a newer one
/// while its server runs.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Word {
    /// An agent with this mark is about to be started.
    Agent(String),
    /// It was started, and leads this group.
    Group(String, Pid),
    /// It has ended and was reaped: from now on its group's id may come to mean another one.
    Exited(String),
    /// Nothing is left of it.
    Gone(String),
}

impl Word {
    fn line(&self) -> String {
        match self {
            Self::Agent(mark) => format!("agent {mark}\n"),
            Self::Group(mark, group) => format!("group {mark} {}\n", group.as_raw_pid()),
            Self::Exited(mark) => format!("exited {mark}\n"),
            Self::Gone(mark) => format!("gone {mark}\n"),
        }
    }

    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        let (kind, mark) = (words.next()?, words.next()?.to_owned());
        match kind {
            "agent" => Some(Self::Agent(mark)),
            "group" => Some(Self::Group(mark, Pid::from_raw(words.next()?.parse().ok()?)?)),
            "exited" => Some(Self::Exited(mark)),
            "gone" => Some(Self::Gone(mark)),
            _ => None,
        }
    }
}

/// The agents that live, by their marks, with their groups as long as those are theirs.
#[derive(Debug, Default)]
struct Living(BTreeMap<String, Option<Pid>>);

impl Living {
    fn hear(&mut self, word: Word) {
        match word {
            Word::Agent(mark) => drop(self.0.insert(mark, None)),
            Word::Group(mark, group) => drop(self.0.insert(mark, Some(group))),
            Word::Exited(mark) => {
                if let Some(group) = self.0.get_mut(&mark) {
                    *group = None;
                }
            }
            Word::Gone(mark) => drop(self.0.remove(&mark)),
        }
    }
}

/// The server's side of its guard. Cheap to clone; the default is none.
#[derive(Clone, Debug, Default)]
pub struct Guard {
    state: Option<Arc<Mutex<State>>>,
}

#[derive(Debug)]
struct State {
    command: Vec<String>,
    process: Option<(Child, PipeWriter)>,
    living: Living,
    /// That there is none was told.
    warned: bool,
}

impl Guard {
    /// A guard that is started with this command line, program first, when it is first needed. The program is to call
    /// [`run`].
    #[must_use]
    pub fn new(command: Vec<String>) -> Self {
        let state = State { command, process: None, living: Living::default(), warned: false };
        Self { state: Some(Arc::new(Mutex::new(state))) }
    }

    /// The id of its process, if it runs.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        let mut state = self.state.as_ref()?.lock();
        state.is_running().then(|| state.process.as_ref().map(|(child, _)| child.id()))?
    }

    /// An agent is about to be started. It is watched from here on, so there is no moment at which the server can die
    /// without anybody knowing of it.
    pub(crate) fn watch(&self, mark: &str) -> Watched {
        let watched = Watched { guard: self.clone(), mark: mark.to_owned() };
        if let Some(state) = &self.state {
            let mut state = state.lock();
            let word = Word::Agent(mark.to_owned());
            if state.is_running() {
                state.tell(word);
            } else {
                state.living.hear(word);
                state.start();
            }
        }
        watched
    }

    /// Lets the guard go when nothing is left to guard, and waits until it has left.
    pub async fn close(&self) {
        let Some(state) = &self.state else { return };
        let Some((mut child, pipe)) = state.lock().process.take() else { return };
        drop(pipe);
        let left = async {
            while let Ok(None) = child.try_wait() {
                tokio::time::sleep(LOOK).await;
            }
        };
        if tokio::time::timeout(LEAVING, left).await.is_err() {
            tracing::warn!("the guard of the agents has not left in time");
        }
    }
}

/// One agent, as the guard knows it.
#[derive(Debug)]
pub(crate) struct Watched {
    guard: Guard,
    mark: String,
}

impl Watched {
    /// It runs, and leads this group.
    pub(crate) fn leads(&self, group: Pid) {
        self.tell(Word::Group(self.mark.clone(), group));
    }

    /// It was reaped: its group's id may come to mean another one.
    pub(crate) fn exited(&self) {
        self.tell(Word::Exited(self.mark.clone()));
    }

    /// Nothing is left of it.
    pub(crate) fn gone(&self) {
        self.tell(Word::Gone(self.mark.clone()));
    }

    fn tell(&self, word: Word) {
        if let Some(state) = &self.guard.state {
            state.lock().tell(word);
        }
    }
}

impl State {
    fn is_running(&mut self) -> bool {
        self.process.as_mut().is_some_and(|(child, _)| matches!(child.try_wait(), Ok(None)))
    }

    fn tell(&mut self, word: Word) {
        let line = word.line();
        self.living.hear(word);
        let Some((_, pipe)) = &mut self.process else { return };
        if let Err(error) = pipe.write_all(line.as_bytes()) {
            tracing::debug!(%error, "the guard of the agents does not listen; another takes its place");
            self.start();
        }
    }

    /// Starts another one and tells it all that live, if any do.
    fn start(&mut self) {
        self.end();
        if self.living.0.is_empty() {
            return;
        }
        match self.spawned() {
            Ok(process) => self.process = Some(process),
            Err(error) if !self.warned => {
                self.warned = true;
                let program = self.command.first().map(String::as_str).unwrap_or_default();
                tracing::warn!(%error, program, "agents have no guard: if this process is killed, they may stay");
            }
            Err(_) => {}
        }
    }

    fn spawned(&self) -> io::Result<(Child, PipeWriter)> {
        let Some((program, arguments)) = self.command.split_first() else {
            return Err(io::Error::other("no program is given"));
        };
        let (reader, mut writer) = io::pipe()?;
        // Who is killed in the middle of a start must not leave a guard that has heard half a line; and nobody here waits
        // for one that does not read.
        rustix::io::ioctl_fionbio(&writer, true)?;
        #[allow(clippy::disallowed_methods, reason = "this is the launcher: the environment is cleared")]
        let mut command = std::process::Command::new(program);
        command.args(arguments).env_clear().current_dir("/");
        command.stdin(reader).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn()?;
        let mut told = String::new();
        for (mark, group) in &self.living.0 {
            told += &Word::Agent(mark.clone()).line();
            told += &group.map(|group| Word::Group(mark.clone(), group).line()).unwrap_or_default();
        }
        if let Err(error) = writer.write_all(told.as_bytes()) {
            kill(&mut child);
            return Err(error);
        }
        Ok((child, writer))
    }

    /// Ends the one that is there. It must be dead before its pipe closes, or it would take that for our own end.
    fn end(&mut self) {
        if let Some((mut child, pipe)) = self.process.take() {
            kill(&mut child);
            drop(pipe);
        }
    }
}

fn kill(child: &mut Child) {
    if let Err(error) = child.kill().and_then(|()| child.wait()) {
        tracing::debug!(%error, "a guard that is replaced cannot be ended");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_survive_the_way() {
        let (mark, group) = ("0190-a".to_owned(), Pid::from_raw(77).unwrap());
        for word in [
            Word::Agent(mark.clone()),
            Word::Group(mark.clone(), group),
            Word::Exited(mark.clone()),
            Word::Gone(mark),
        ] {
            assert_eq!(Word::parse(word.line().trim_end()), Some(word));
        }
        for line in ["", "agent", "group m", "group m x", "group m 0", "later m"] {
            assert_eq!(Word::parse(line), None, "{line:?}");
        }
    }

    #[test]
    fn a_group_is_forgotten_when_its_leader_was_reaped() {
        let mut living = Living::default();
        let group = Pid::from_raw(77).unwrap();
        for word in [
            Word::Agent("a".into()),
            Word::Group("a".into(), group),
            Word::Agent("b".into()),
            Word::Group("b".into(), group),
            Word::Exited("b".into()),
            Word::Agent("c".into()),
            Word::Gone("c".into()),
            Word::Exited("c".into()),
        ] {
            living.hear(word);
        }
        assert_eq!(living.0, BTreeMap::from([("a".to_owned(), Some(group)), ("b".to_owned(), None)]));
    }
}
