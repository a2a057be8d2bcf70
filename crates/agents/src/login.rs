//! The `PATH` of the user's login shell, for agents that no connection offers one.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal};
use tokio::io::AsyncReadExt;

/// How long the shell may take; profiles can do anything.
const SHELL: Duration = Duration::from_secs(5);
/// What is read of what it prints.
const OUTPUT_BYTES: u64 = 1024 * 1024;
/// What a user has who has set nothing.
const USUAL: &str = "/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin";

/// Asks the login shell named by `SHELL` in `base` (see [`base_environment`](crate::base_environment)) for its `PATH`. A
/// shell that fails or takes longer than five seconds is given up, and the usual folders are taken.
pub async fn login_path(base: &BTreeMap<String, String>) -> String {
    let shell = base.get("SHELL").map_or("/bin/sh", String::as_str);
    match tokio::time::timeout(SHELL, asked(shell, base)).await {
        Ok(Some(path)) => path,
        Ok(None) | Err(_) => {
            tracing::warn!(
                shell,
                path = USUAL,
                "the login shell does not say its PATH; the usual one is taken"
            );
            USUAL.to_owned()
        }
    }
}

/// A shell and whatever its profile started; killed when nobody waits any more.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // Fails when nobody is left, which is what is wanted.
            let _ = rustix::process::kill_process_group(group, Signal::KILL);
        }
    }
}

async fn asked(shell: &str, base: &BTreeMap<String, String>) -> Option<String> {
    #[allow(clippy::disallowed_methods, reason = "the environment is cleared in the next lines")]
    let mut command = tokio::process::Command::new(shell);
    // `env` because it prints the same whatever the shell's syntax.
    command.args(["-l", "-c", "env"]).env_clear().envs(base).process_group(0).kill_on_drop(true);
    if let Some(home) = base.get("HOME") {
        command.current_dir(home);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let _group = Group(child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)));
    let mut printed = Vec::new();
    child.stdout.take()?.take(OUTPUT_BYTES).read_to_end(&mut printed).await.ok()?;
    // Profiles may print what they like before it.
    let text = String::from_utf8_lossy(&printed);
    text.lines()
        .rev()
        .find_map(|line| line.strip_prefix("PATH="))
        .filter(|path| !path.is_empty())
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    async fn with_shell(script: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        let shell = folder.path().join("shell");
        std::fs::write(&shell, script).unwrap();
        std::fs::set_permissions(&shell, std::fs::Permissions::from_mode(0o755)).unwrap();
        let base = BTreeMap::from([("SHELL".to_owned(), shell.display().to_string())]);
        login_path(&base).await
    }

    #[tokio::test]
    async fn a_profile_that_prints_is_no_obstacle() {
        let path =
            with_shell("#!/bin/sh\necho Welcome\nPATH=/mine:/bin:/usr/bin exec /bin/sh -c \"$3\"\n").await;
        assert_eq!(path, "/mine:/bin:/usr/bin");
    }

    #[tokio::test]
    async fn a_shell_that_fails_leaves_the_usual_folders() {
        assert_eq!(with_shell("#!/bin/sh\nexit 3\n").await, USUAL);
        let nowhere = BTreeMap::from([("SHELL".to_owned(), "/does/not/exist".to_owned())]);
        assert_eq!(login_path(&nowhere).await, USUAL);
    }
}
