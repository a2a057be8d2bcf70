//! Ends what is left of agents: whole groups, and every process of our user that carries an agent's mark, however far it
//! has left the group.
//!
//! Two cheaper nets are not used. `PR_SET_PDEATHSIG` ends only the process that was started, not its children, and is
//! bound to the thread that started it, which a runtime may end. `PR_SET_CHILD_SUBREAPER` would hand us every orphan of
//! every agent to reap, and nothing at all once we are dead ourselves.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

/// What may be left of one agent.
#[derive(Clone, Debug)]
pub(crate) struct Remains {
    /// Its process group, as long as the id can mean no other.
    pub(crate) group: Option<Pid>,
    /// Its own id, in the environment of everything it has started.
    pub(crate) mark: String,
    /// Processes that were found below it, where environments cannot be read.
    #[cfg_attr(target_os = "linux", allow(dead_code, reason = "marks are found instead"))]
    pub(crate) descendants: Vec<Pid>,
}

/// How long killed processes may take to be gone. Only what hangs in the kernel takes longer.
const LONGEST: Duration = Duration::from_secs(2);

/// Kills all of it and waits until it is gone; gives how many processes are still there. Blocks for some milliseconds, or
/// for two seconds if something does not die.
pub(crate) fn kill(remains: &[Remains]) -> usize {
    let until = Instant::now() + LONGEST;
    let kill_groups = || {
        for group in remains.iter().filter_map(|remains| remains.group) {
            // Fails when nobody is left, which is what is wanted.
            let _ = rustix::process::kill_process_group(group, Signal::KILL);
        }
    };
    system::kill(remains, &kill_groups, until)
}

#[cfg(target_os = "linux")]
mod system {
    use std::collections::HashSet;
    use std::fs;
    use std::os::fd::OwnedFd;
    use std::os::unix::fs::MetadataExt;
    use std::time::{Duration, Instant};

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::process::{Pid, PidfdFlags, Signal, getuid, pidfd_open, pidfd_send_signal};

    use super::Remains;

    /// After this a process that was in the middle of starting a program shows its environment.
    const EXEC: Duration = Duration::from_millis(2);
    /// A kernel thread, in the flags of `/proc/PID/stat`.
    const KERNEL_THREAD: i64 = 0x0020_0000;

    /// Round by round, because what forks while we look is found in the next one, until one finds nothing.
    pub(super) fn kill(remains: &[Remains], kill_groups: &dyn Fn(), until: Instant) -> usize {
        let entries: HashSet<Vec<u8>> = remains
            .iter()
            .map(|remains| format!("{}={}", crate::process::MARK, remains.mark).into_bytes())
            .collect();
        let groups: HashSet<i32> = remains.iter().filter_map(|r| Some(r.group?.as_raw_pid())).collect();
        let mut bare_before = HashSet::new();
        loop {
            // Looked for before anything is killed: a dying process shows no environment any more, and is still there.
            let Look { found, bare } = look(&entries, &groups);
            kill_groups();
            for process in &found {
                // Fails when it has ended meanwhile.
                let _ = pidfd_send_signal(process, Signal::KILL);
            }
            let none = found.is_empty();
            let left = wait(found, until);
            // Without an environment may be who is just starting a program: not any more at a second look.
            let news = bare.difference(&bare_before).next().is_some();
            if none && !news || Instant::now() >= until {
                return left;
            }
            if none {
                std::thread::sleep(EXEC);
            }
            bare_before = bare;
        }
    }

    /// What a look through `/proc` has found.
    struct Look {
        /// Processes to be killed. The descriptors were opened before anything was read of the processes, so their ids
        /// cannot have come to mean others.
        found: Vec<OwnedFd>,
        /// Ids of processes that show no environment.
        bare: HashSet<i32>,
    }

    fn look(entries: &HashSet<Vec<u8>>, groups: &HashSet<i32>) -> Look {
        let mut look = Look { found: Vec::new(), bare: HashSet::new() };
        let Ok(processes) = fs::read_dir("/proc") else { return look };
        let own = getuid().as_raw();
        for dir in processes.flatten() {
            let Some(id) = dir.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
                continue;
            };
            if !dir.metadata().is_ok_and(|data| data.uid() == own) {
                continue;
            }
            let Some(handle) = Pid::from_raw(id).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok())
            else {
                continue;
            };
            let Ok(stat) = fs::read_to_string(format!("/proc/{id}/stat")) else { continue };
            let Some(Living { group, headless }) = living(&stat) else { continue };
            if groups.contains(&group) {
                look.found.push(handle);
                continue;
            }
            let Some(environment) = environment(id, headless) else { continue };
            if environment.is_empty() {
                look.bare.insert(id);
            } else if environment.split(|byte| *byte == 0).any(|variable| entries.contains(variable)) {
                look.found.push(handle);
            }
        }
        look
    }

    /// A process that has not ended.
    #[derive(PartialEq, Eq, Debug)]
    struct Living {
        group: i32,
        /// Its first thread has ended, others have not.
        headless: bool,
    }

    /// Out of a line of `/proc/PID/stat`; none of a process that has ended, or belongs to the kernel.
    fn living(stat: &str) -> Option<Living> {
        // The state follows the name, which stands in parentheses and may hold any character.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
        let field = |at: usize| fields.get(at)?.parse::<i64>().ok();
        let headless = matches!(*fields.first()?, "Z" | "X" | "x");
        let (group, flags, threads) = (field(2)?, field(6)?, field(17)?);
        let ended = headless && threads <= 1 || flags & KERNEL_THREAD != 0;
        (!ended).then_some(Living { group: i32::try_from(group).ok()?, headless })
    }

    /// A process's environment. Its first thread has none any more when it has ended.
    fn environment(id: i32, headless: bool) -> Option<Vec<u8>> {
        if !headless {
            return fs::read(format!("/proc/{id}/environ")).ok();
        }
        let threads = fs::read_dir(format!("/proc/{id}/task")).ok()?.flatten();
        let environments = threads.filter_map(|thread| fs::read(thread.path().join("environ")).ok());
        Some(environments.max_by_key(Vec::len).unwrap_or_default())
    }

    /// Waits until these have ended: a signal is only a wish. Gives how many have not.
    fn wait(mut processes: Vec<OwnedFd>, until: Instant) -> usize {
        while !processes.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            let timeout =
                Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
            let mut polled: Vec<PollFd<'_>> =
                processes.iter().map(|process| PollFd::new(process, PollFlags::IN)).collect();
            let ready = poll(&mut polled, Some(&timeout));
            let ended: Vec<bool> = polled.iter().map(|polled| !polled.revents().is_empty()).collect();
            match ready {
                Err(rustix::io::Errno::INTR) => continue,
                Ok(0) | Err(_) => break,
                Ok(_) => {}
            }
            let mut ended = ended.into_iter();
            processes.retain(|_| !ended.next().unwrap_or_default());
        }
        processes.len()
    }

    #[cfg(test)]
    mod tests {
        use super::{Living, living};

        #[test]
        fn only_the_living_of_our_own_count() {
            let stat =
                |start: &str, threads: u32| living(&format!("{start} 1 2 3 4 5 6 7 8 20 0 {threads} 0 99"));
            let group = |headless| Some(Living { group: 77, headless });
            assert_eq!(stat("7 (a) b) S 1 77 77 0 -1 4194560", 1), group(false));
            assert_eq!(stat("7 (sh) Z 1 77 77 0 -1 4194560", 1), None);
            assert_eq!(stat("7 (node) Z 1 77 77 0 -1 4194560", 9), group(true));
            assert_eq!(stat("2 (kthreadd) S 0 0 0 0 -1 2129984", 1), None);
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::time::{Duration, Instant};

    use rustix::process::{Signal, kill_process, test_kill_process, test_kill_process_group};

    use super::Remains;

    /// How often is looked whether they have ended; nobody tells.
    const LOOK: Duration = Duration::from_millis(5);

    /// The groups and what was found below the agents: environments cannot be read here.
    pub(super) fn kill(remains: &[Remains], kill_groups: &dyn Fn(), until: Instant) -> usize {
        kill_groups();
        let recorded = || remains.iter().flat_map(|remains| &remains.descendants);
        for process in recorded() {
            // Fails when it has ended.
            let _ = kill_process(*process, Signal::KILL);
        }
        loop {
            let groups = remains.iter().filter_map(|remains| remains.group);
            let groups = groups.filter(|group| test_kill_process_group(*group).is_ok()).count();
            let left = groups + recorded().filter(|process| test_kill_process(**process).is_ok()).count();
            if left == 0 || Instant::now() >= until {
                return left;
            }
            std::thread::sleep(LOOK);
        }
    }
}
