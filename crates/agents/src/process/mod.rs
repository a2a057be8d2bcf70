//! An agent's processes: started in a group of their own with exactly the environment given, stopped without remainder.

mod family;
mod lines;
mod stop;
mod tail;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};

use rustix::process::{Pid, Signal};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};
use uuid::Uuid;

pub(crate) use family::descendants;
pub(crate) use lines::Lines;
pub(crate) use stop::{Remains, kill};
pub(crate) use tail::Tail;

use crate::event::{AgentFailure, FailureReason};
use crate::guard::{Guard, Watched};
use crate::spec::{Environment, LaunchSpec};

/// Carries an agent's own id in the environment of everything it starts.
const MARK: &str = "SIGNALBOX_AGENT";

/// A running agent: its leader, the group it leads, and its pipes.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) leader: Leader,
    /// The group's id; the leader's process id.
    group: Option<Pid>,
    mark: String,
    watched: Watched,
    /// What was found below the leader when it was told to end.
    descendants: Vec<Pid>,
    pub(crate) stdin: Option<ChildStdin>,
    pub(crate) stdout: Option<ChildStdout>,
    pub(crate) stderr: Option<ChildStderr>,
}

/// The process that was started.
#[derive(Debug)]
pub(crate) struct Leader {
    child: Child,
    /// How it ended, once it has.
    pub(crate) status: Option<ExitStatus>,
}

impl Leader {
    /// Waits for its end. Dropping the future loses nothing.
    pub(crate) async fn ended(&mut self) {
        if self.status.is_none() {
            self.status = self.child.wait().await.ok();
        }
    }
}

impl Process {
    /// Starts the agent.
    pub(crate) fn spawn(spec: &LaunchSpec, guard: &Guard) -> Result<Self, Box<AgentFailure>> {
        let Some(program) = find_program(&spec.command, &spec.env, &spec.cwd) else {
            let message =
                format!("{} needs the command `{}`, which was not found", spec.provider, spec.command);
            let mut failure = AgentFailure::new(FailureReason::ProviderUnavailable, message);
            failure.hint = spec.install_hint.clone();
            return Err(Box::new(failure));
        };
        if !spec.cwd.is_dir() {
            let message = format!("the working directory {} does not exist", spec.cwd.display());
            return Err(Box::new(AgentFailure::new(FailureReason::AgentFailed, message)));
        }
        let mark = Uuid::now_v7().to_string();
        #[allow(
            clippy::disallowed_methods,
            reason = "this is the launcher: the environment is cleared and set whole"
        )]
        let mut command = tokio::process::Command::new(&program);
        command
            .args(&spec.args)
            .env_clear()
            .envs(&spec.env.0)
            .env(MARK, &mark)
            .current_dir(&spec.cwd)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        let watched = guard.watch(&mark);
        let mut child = command.spawn().map_err(|error| {
            watched.gone();
            let message = format!("{} cannot be started: {error}", program.display());
            let mut failure = AgentFailure::new(FailureReason::ProviderUnavailable, message);
            failure.hint = spec.install_hint.clone();
            Box::new(failure)
        })?;
        let group = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        if let Some(group) = group {
            watched.leads(group);
        }
        Ok(Self {
            group,
            mark,
            watched,
            descendants: Vec::new(),
            stdin: child.stdin.take(),
            stdout: child.stdout.take(),
            stderr: child.stderr.take(),
            leader: Leader { child, status: None },
        })
    }

    /// The leader's process id; none after its end.
    pub(crate) fn id(&self) -> Option<u32> {
        self.leader.child.id()
    }

    /// Signals the whole group. Right after the leader's end its id is still the group's, as long as a member lives.
    pub(crate) fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // Fails when nobody is left, which is what is wanted.
            let _ = rustix::process::kill_process_group(group, signal);
        }
    }

    /// The leader has ended and was reaped.
    pub(crate) fn exited(&self) {
        self.watched.exited();
    }

    /// Notes what is below the leader as long as that can be seen. To be called before it is told to end.
    pub(crate) async fn note_descendants(&mut self) {
        if cfg!(target_os = "linux") {
            return;
        }
        let Some(leader) = self.group.filter(|_| self.leader.status.is_none()) else { return };
        match tokio::task::spawn_blocking(move || descendants(leader)).await {
            Ok(found) => self.descendants = found,
            Err(error) => tracing::warn!(%error, "what an agent has started could not be looked for"),
        }
    }

    /// Kills what is left after the leader's end: its group, and everything else that carries its mark. All of it is gone
    /// when this returns, unless it hangs in the kernel.
    pub(crate) async fn sweep(&mut self) {
        let descendants = std::mem::take(&mut self.descendants);
        let remains = Remains { group: self.group, mark: self.mark.clone(), descendants };
        // Reading /proc is a few milliseconds of system calls, too long for a thread that serves others.
        match tokio::task::spawn_blocking(move || kill(&[remains])).await {
            Ok(0) => self.watched.gone(),
            Ok(left) => tracing::warn!(left, "processes of an agent do not die; they hang in the kernel"),
            Err(error) => tracing::warn!(%error, "an agent's left-over processes could not be looked for"),
        }
    }
}

/// The file that a command names: as a path, relative to `cwd` if it has a slash, else on the `PATH` of `env`.
#[must_use]
pub fn find_program(command: &str, env: &Environment, cwd: &Path) -> Option<PathBuf> {
    if command.is_empty() {
        return None;
    }
    if command.contains('/') {
        return Some(cwd.join(command)).filter(|path| is_executable(path));
    }
    let paths = env.get("PATH")?;
    std::env::split_paths(paths).map(|dir| cwd.join(dir).join(command)).find(|path| is_executable(path))
}

fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_found_on_the_given_path_only() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("tool");
        std::fs::write(&file, "").unwrap();
        let path = |path: &Path| Environment([("PATH".to_owned(), path.display().to_string())].into());
        assert_eq!(find_program("tool", &path(dir.path()), Path::new("/")), None, "not executable");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(find_program("tool", &path(dir.path()), Path::new("/")), Some(file.clone()));
        assert_eq!(
            find_program("./tool", &Environment::default(), dir.path()).map(|path| path.exists()),
            Some(true)
        );
        assert_eq!(find_program("tool", &Environment::default(), dir.path()), None);
        assert_eq!(find_program("", &path(dir.path()), dir.path()), None);
    }
}
