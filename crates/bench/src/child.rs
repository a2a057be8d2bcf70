//! A child that speaks line JSON on its stdio: the server, an agent, or the copier that is the raw reference.

use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};

use serde_json::{Value, json};

use crate::connection::Connection;

pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// The child and both ends of its pipes.
pub(crate) struct Lines {
    child: Child,
    pub(crate) input: BufWriter<ChildStdin>,
    pub(crate) output: BufReader<ChildStdout>,
    next_id: u64,
    line: String,
}

impl Lines {
    pub(crate) fn start(command: &mut Command) -> Result<Self> {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn()?;
        let input = child.stdin.take().ok_or("no stdin")?;
        let output = child.stdout.take().ok_or("no stdout")?;
        let (input, output) = (BufWriter::new(input), BufReader::with_capacity(256 << 10, output));
        Ok(Self { child, input, output, next_id: 0, line: String::new() })
    }

    /// A server on stdio in this home.
    pub(crate) fn server(bin: &Path, home: &Path) -> Result<Self> {
        Self::start(
            Command::new(bin)
                .args(["app-server", "--standalone", "--listen", "stdio://"])
                .env("SIGNALBOX_HOME", home),
        )
    }

    /// This program as the copier.
    pub(crate) fn copier() -> Result<Self> {
        Self::start(Command::new(std::env::current_exe()?).arg("copy"))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn send(&mut self, frame: &Value) -> Result<()> {
        serde_json::to_writer(&mut self.input, frame)?;
        self.input.write_all(b"\n")?;
        self.input.flush()?;
        Ok(())
    }

    /// The next line as it is.
    pub(crate) fn raw(&mut self) -> Result<&str> {
        self.line.clear();
        if self.output.read_line(&mut self.line)? == 0 {
            return Err("the process has left".into());
        }
        Ok(self.line.trim_end())
    }

    pub(crate) fn receive(&mut self) -> Result<Value> {
        Ok(serde_json::from_str(self.raw()?)?)
    }

    /// Sends a request and gives its result; frames that come before it are dropped.
    pub(crate) fn call(&mut self, method: &str, params: Value) -> Result<Value> {
        self.next_id += 1;
        let id = self.next_id;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))?;
        loop {
            let mut frame = self.receive()?;
            if frame["id"] == json!(id) && frame.get("method").is_none() {
                if let Some(error) = frame.get("error") {
                    return Err(format!("{method}: {error}").into());
                }
                return Ok(frame["result"].take());
            }
        }
    }

    pub(crate) fn initialize(&mut self) -> Result<()> {
        self.call("initialize", json!({"clientInfo": {"name": "bench", "version": "1"}})).map(drop)
    }

    /// A thread with the built-in agent in this directory.
    pub(crate) fn thread(&mut self, cwd: &Path) -> Result<String> {
        let params = json!({"cwd": cwd, "modelProvider": "rehearsal"});
        let started = self.call("thread/start", params)?;
        Ok(started["thread"]["id"].as_str().ok_or("no thread id")?.to_owned())
    }

    pub(crate) fn start_turn(&mut self, thread: &str, prompt: &str) -> Result<()> {
        let params = json!({"threadId": thread, "input": [{"type": "text", "text": prompt}]});
        self.call("turn/start", params).map(drop)
    }

    /// A whole turn; answers nothing.
    pub(crate) fn turn(&mut self, thread: &str, prompt: &str) -> Result<()> {
        self.start_turn(thread, prompt)?;
        while !self.raw()?.contains("\"turn/completed\"") {}
        Ok(())
    }

    /// The child and its pipes, before anything was read from them.
    pub(crate) fn into_connection(self) -> (Child, Connection) {
        (self.child, Connection::pipes(self.input, self.output))
    }

    /// Ends the child by closing its input.
    pub(crate) fn end(self) -> Result<()> {
        let Self { mut child, input, mut output, .. } = self;
        drop(input);
        std::io::copy(&mut output.by_ref(), &mut std::io::sink())?;
        child.wait()?;
        Ok(())
    }
}

/// Copies stdin to stdout, flushed whenever nothing more is there at once.
pub(crate) fn copy() -> ExitCode {
    let mut input = std::io::stdin().lock();
    let mut output = std::io::stdout().lock();
    // Whole lines, as a server takes them: whoever writes a line reads only when it is written.
    let mut line = Vec::new();
    loop {
        line.clear();
        match input.read_until(b'\n', &mut line) {
            Ok(0) => return ExitCode::SUCCESS,
            Ok(_) => {
                if output.write_all(&line).and_then(|()| output.flush()).is_err() {
                    return ExitCode::FAILURE;
                }
            }
            Err(_) => return ExitCode::FAILURE,
        }
    }
}
