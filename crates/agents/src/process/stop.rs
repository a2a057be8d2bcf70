//! Kills every process of our user whose environment carries an agent's mark, however far it has left the group.

/// Rounds of looking for marked processes: one that forks while we look is found in the next.
#[cfg(target_os = "linux")]
const ROUNDS: usize = 5;

/// Kills them. Linux only: elsewhere another process's environment cannot be read.
#[cfg(target_os = "linux")]
pub(super) async fn kill_marked(mark: &str) {
    let wanted = format!("{}={mark}", super::MARK).into_bytes();
    // Reading /proc is a few milliseconds of system calls, too long for a thread that serves others.
    let swept = tokio::task::spawn_blocking(move || {
        for _ in 0..ROUNDS {
            if linux::kill_all(&wanted) == 0 {
                return;
            }
        }
    });
    if let Err(error) = swept.await {
        tracing::warn!(%error, "an agent's left-over processes could not be looked for");
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) async fn kill_marked(_mark: &str) {}

#[cfg(target_os = "linux")]
mod linux {
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    use rustix::process::{Pid, PidfdFlags, Signal, getuid, pidfd_open, pidfd_send_signal};

    /// Kills all processes of ours whose environment has this entry; tells how many.
    pub(super) fn kill_all(entry: &[u8]) -> usize {
        let Ok(processes) = fs::read_dir("/proc") else { return 0 };
        let own = getuid().as_raw();
        let ids = processes.flatten().filter_map(|dir| {
            let id: i32 = dir.file_name().to_str()?.parse().ok()?;
            (dir.metadata().ok()?.uid() == own).then_some(id)
        });
        ids.filter(|id| kill(*id, entry)).count()
    }

    /// Through a descriptor that is opened before the environment is read: the id cannot come to mean another process.
    fn kill(id: i32, entry: &[u8]) -> bool {
        let Some(handle) = Pid::from_raw(id).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()) else {
            return false;
        };
        let Ok(environment) = fs::read(format!("/proc/{id}/environ")) else { return false };
        environment.split(|byte| *byte == 0).any(|variable| variable == entry)
            && pidfd_send_signal(handle, Signal::KILL).is_ok()
    }
}
