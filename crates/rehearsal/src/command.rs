//! Commands: a child in a process group of its own, its output streamed into the tool call as it comes.
//!
//! The output goes out the way codex-acp and pi do it: `_meta.terminal_info` when the command starts,
//! `_meta.terminal_output_delta` for each piece, `_meta.terminal_exit` at the end, and then once the whole
//! output as content, for clients that know nothing of this.

use std::{
    collections::VecDeque,
    io,
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{ExitStatus, Stdio},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use tokio::{io::AsyncReadExt, net::unix::pipe, process::Child};

use crate::{
    script::Style,
    text::{self, Decoder},
    turn::{Call, Decision, Step, Turn, content},
};

/// How much of an output is kept for the final content: half of it the beginning, half the end.
const KEPT_BYTES: usize = 1024 * 1024;
const READ_BYTES: usize = 32 * 1024;
/// How long output may still come after the command's group is gone; only a process that left the group
/// can hold the pipe then.
const DRAIN: Duration = Duration::from_millis(500);

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ended {
    /// It ran; with this exit code, unless a signal ended it.
    Exit(Option<i32>),
    /// It was not allowed.
    Declined,
    /// It could not be started.
    Unstarted,
}

/// Asks, runs and shows one command.
pub(crate) async fn execute(turn: &Turn, command: &str, style: Style) -> Step<Ended> {
    let kind = (style != Style::Unkinded).then_some("execute");
    let mut call = Call::new(turn.id("call"), command, kind);
    call.raw_input = json!({"command": command, "cwd": turn.cwd});
    let announced = matches!(style, Style::Proper | Style::Unkinded);
    if announced {
        turn.announce(&call).await?;
    }
    if let Decision::Declined(how) = turn.permission(&call, &format!("run {command}")).await? {
        if announced {
            turn.declined(&call.id, how).await?;
        }
        return Ok(Ended::Declined);
    }
    match style {
        Style::Proper | Style::Unkinded => {}
        Style::PermitFirst => turn.announce(&call).await?,
        Style::Unannounced => turn.opened(&call.id),
    }
    run(turn, &call.id, command).await
}

/// Runs an allowed command inside its tool call.
async fn run(turn: &Turn, id: &str, command: &str) -> Step<Ended> {
    let started = spawn(command, &turn.cwd);
    let (mut child, mut group, mut output) = match started {
        Ok(started) => started,
        Err(error) => {
            turn.fail(id, &format!("Could not be started: {error}")).await?;
            return Ok(Ended::Unstarted);
        }
    };
    let captured = Arc::new(Mutex::new(Captured::default()));
    turn.captures(id, &captured);
    turn.progress(
        id,
        json!({
            "status": "in_progress",
            "content": [{"type": "terminal", "terminalId": id}],
            "_meta": {"terminal_info": {"terminal_id": id, "cwd": turn.cwd}},
        }),
    )
    .await?;

    let mut decoder = Decoder::default();
    let mut buffer = vec![0; READ_BYTES];
    let mut status = None;
    let mut last_moment = tokio::time::Instant::now();
    let mut open = true;
    while open {
        let piece = tokio::select! {
            read = output.read(&mut buffer) => match read {
                Ok(count) if count > 0 => decoder.push(&buffer[..count]),
                ended => {
                    if let Err(error) = ended {
                        tracing::warn!(%error, "a command's output cannot be read");
                    }
                    open = false;
                    decoder.finish()
                }
            },
            ended = child.wait(), if status.is_none() => {
                status = Some(ended);
                group.kill();
                last_moment = tokio::time::Instant::now() + DRAIN;
                continue;
            }
            () = tokio::time::sleep_until(last_moment), if status.is_some() => break,
        };
        if !piece.is_empty() {
            captured.lock().push(&piece);
            let delta = json!({"terminal_id": id, "data": piece});
            turn.progress(id, json!({"_meta": {"terminal_output_delta": delta}})).await?;
        }
    }
    let status = match status {
        Some(status) => status,
        None => child.wait().await,
    };
    group.kill();
    finish(turn, id, &captured, status).await
}

async fn finish(
    turn: &Turn,
    id: &str,
    captured: &Mutex<Captured>,
    status: io::Result<ExitStatus>,
) -> Step<Ended> {
    let (output, bytes, omitted) = {
        let captured = captured.lock();
        (captured.text(), captured.bytes, captured.omitted())
    };
    let (code, signal) = match &status {
        Ok(status) => (status.code(), status.signal().map(signal_name)),
        Err(error) => {
            tracing::warn!(%error, "a command's exit code is unknown");
            (None, None)
        }
    };
    let shown = if output.is_empty() { Vec::new() } else { vec![content(&output)] };
    let fields = json!({
        "content": shown,
        "rawOutput": {"exitCode": code, "signal": signal, "bytes": bytes, "omittedBytes": omitted},
        "_meta": {"terminal_exit": {"terminal_id": id, "exit_code": code, "signal": signal}},
    });
    let success = code == Some(0);
    turn.finish(id, if success { "completed" } else { "failed" }, fields).await?;
    Ok(Ended::Exit(code))
}

fn signal_name(signal: i32) -> Value {
    let name = match Signal::from_named_raw(signal) {
        Some(Signal::HUP) => "SIGHUP",
        Some(Signal::INT) => "SIGINT",
        Some(Signal::ABORT) => "SIGABRT",
        Some(Signal::KILL) => "SIGKILL",
        Some(Signal::SEGV) => "SIGSEGV",
        Some(Signal::PIPE) => "SIGPIPE",
        Some(Signal::TERM) => "SIGTERM",
        _ => return json!(format!("signal {signal}")),
    };
    json!(name)
}

/// Starts `sh -c COMMAND` in a group of its own, stdout and stderr in one pipe so that their order holds.
fn spawn(command: &str, cwd: &Path) -> io::Result<(Child, Group, pipe::Receiver)> {
    let (reader, writer) = io::pipe()?;
    #[allow(
        clippy::disallowed_methods,
        reason = "commands are this module's job; they get the agent's own environment"
    )]
    let mut shell = tokio::process::Command::new("sh");
    shell
        .args(["-c", command])
        .current_dir(cwd)
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer)
        .process_group(0)
        .kill_on_drop(true);
    let child = shell.spawn()?;
    // The command still holds our copies of the writing end; the output ends only without them.
    drop(shell);
    let group = Group(child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw));
    let output = pipe::Receiver::from_owned_fd(reader.into())?;
    Ok((child, group, output))
}

/// A command's process group, killed when it is dropped: on a cancel the step that ran the command is dropped
/// where it stands, with the group's leader not yet reaped, so the number is still the group's.
struct Group(Option<Pid>);

impl Group {
    /// Kills what is left of the group, once. A command ends with its shell: what it left in the background
    /// goes with it. The number stays taken as long as one of them lives.
    fn kill(&mut self) {
        if let Some(group) = self.0.take() {
            // No such group means that all have ended.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The beginning and the end of an output.
#[derive(Debug, Default)]
pub(crate) struct Captured {
    head: String,
    tail: VecDeque<String>,
    tail_bytes: usize,
    /// Of the whole output.
    bytes: usize,
}

impl Captured {
    fn push(&mut self, piece: &str) {
        self.bytes += piece.len();
        let begin = text::head(piece, (KEPT_BYTES / 2).saturating_sub(self.head.len()));
        let rest = if self.tail_bytes == 0 {
            self.head.push_str(begin);
            &piece[begin.len()..]
        } else {
            piece
        };
        if rest.is_empty() {
            return;
        }
        self.tail_bytes += rest.len();
        self.tail.push_back(rest.to_owned());
        while let Some(first) = self.tail.front()
            && self.tail_bytes - first.len() >= KEPT_BYTES / 2
        {
            self.tail_bytes -= first.len();
            self.tail.pop_front();
        }
    }

    /// Bytes that [`Captured::text`] leaves out.
    fn omitted(&self) -> usize {
        self.bytes - self.head.len() - self.tail_bytes.min(KEPT_BYTES / 2)
    }

    /// The output, with a mark where bytes are left out.
    pub(crate) fn text(&self) -> String {
        let tail: String = self.tail.iter().map(String::as_str).collect();
        let tail = text::tail(&tail, KEPT_BYTES / 2);
        let omitted = self.bytes - self.head.len() - tail.len();
        if omitted == 0 {
            return format!("{}{tail}", self.head);
        }
        format!("{}\n[{omitted} bytes left out]\n{tail}", self.head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_output_keeps_both_ends_and_says_what_is_missing() {
        let mut captured = Captured::default();
        for n in 0..200_000 {
            captured.push(&format!("{n:015}\n"));
        }
        let text = captured.text();
        assert!(text.starts_with("000000000000000\n000000000000001\n"));
        assert!(text.ends_with("000000000199999\n"));
        let omitted = 200_000 * 16 - KEPT_BYTES;
        assert!(text.contains(&format!("\n[{omitted} bytes left out]\n")));
        assert_eq!(captured.omitted(), omitted);
    }

    #[test]
    fn an_output_of_exactly_the_bound_is_whole() {
        let mut captured = Captured::default();
        captured.push(&"x".repeat(KEPT_BYTES));
        assert_eq!(captured.text().len(), KEPT_BYTES);
        assert_eq!(captured.omitted(), 0);
    }
}
