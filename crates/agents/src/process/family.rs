//! The descendants of processes, where environments cannot be read: from a list of all processes and their parents.

use rustix::process::Pid;

/// Every process that descends from `root` now. Linux needs none of it: marks are found there.
#[cfg(target_os = "linux")]
pub(crate) fn descendants(_root: Pid) -> Vec<Pid> {
    Vec::new()
}

/// Every process that descends from `root` now. One that has lost its parent is not found any more, so this is to be asked
/// while the agent lives.
#[cfg(not(target_os = "linux"))]
pub(crate) fn descendants(root: Pid) -> Vec<Pid> {
    #[allow(clippy::disallowed_methods, reason = "a program of the system, with a cleared environment")]
    let mut command = std::process::Command::new("/bin/ps");
    command.args(["-A", "-o", "pid=,ppid="]).env_clear().stdin(std::process::Stdio::null());
    match command.output() {
        Ok(output) => below(root, &String::from_utf8_lossy(&output.stdout)),
        Err(error) => {
            tracing::warn!(%error, "what an agent has started cannot be looked for");
            Vec::new()
        }
    }
}

/// Out of lines with a process and its parent each.
#[cfg(any(test, not(target_os = "linux")))]
fn below(root: Pid, list: &str) -> Vec<Pid> {
    let mut pairs: Vec<(Pid, Pid)> = list
        .lines()
        .filter_map(|line| {
            let mut ids = line.split_ascii_whitespace().map(|id| Pid::from_raw(id.parse().ok()?));
            Some((ids.next()??, ids.next()??))
        })
        .collect();
    let mut found = vec![root];
    let mut at = 0;
    while let Some(parent) = found.get(at).copied() {
        at += 1;
        // Each process is taken once, so a list that makes no sense has an end too.
        pairs.retain(|(process, of)| {
            if *of == parent && *process != root {
                found.push(*process);
            }
            *of != parent
        });
    }
    found.split_off(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_and_theirs_are_found_in_any_order() {
        let pid = |id| Pid::from_raw(id).unwrap();
        let list =
            "    1     0\n   12    11\n   11    10\n   10     1\n   13    10\n   14     1\n nonsense\n";
        let mut found = below(pid(10), list);
        found.sort_by_key(|pid| pid.as_raw_pid());
        assert_eq!(found, [pid(11), pid(12), pid(13)]);
        assert_eq!(below(pid(5), "5 5\n6 5\n5 6\n"), [pid(6)]);
    }
}
