//! Terminals of the agent's own: what they write becomes the output of the tool call that shows them.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use super::messages::Digest;
use crate::decode::content::path;
use crate::decode::fields::{Object, take_filled, take_id, take_message, take_object, take_text};
use crate::update::{OutputPatch, ToolPatch};

/// Terminals remembered, the latest ones.
const MAX_TERMINALS: usize = 256;
/// Output kept of a terminal that no call shows yet; the rest of it is cut at the front.
const HELD_BYTES: usize = 256 << 10;

/// The terminals of a session.
#[derive(Debug, Default)]
pub(crate) struct Terminals {
    known: VecDeque<Terminal>,
}

#[derive(Debug, Default)]
struct Terminal {
    id: String,
    /// The call that shows it.
    call: Option<String>,
    /// What it wrote before a call showed it.
    held: String,
    /// Bytes of output told or held, and their digest.
    bytes: usize,
    digest: Digest,
    /// The beginning of a character whose end has not come.
    partial: Vec<u8>,
    command: Option<String>,
    cwd: Option<PathBuf>,
    exit_code: Option<i32>,
    ended: bool,
}

impl Terminals {
    /// `terminal_update`. Gives what is new of the call that shows it.
    pub(crate) fn update(&mut self, object: &mut Object, cwd: &Path) -> Option<ToolPatch> {
        let id = take_id(object, "terminalId")?;
        let terminal = self.terminal(&id);
        let mut patch = ToolPatch {
            command: take_message(object, "command"),
            cwd: take_filled(object, "cwd").map(|text| path(&text, cwd)),
            ..ToolPatch::default()
        };
        // Null clears, as an empty output does.
        match object.get_mut("output").map(Value::take) {
            Some(Value::Object(mut output)) => {
                let data = take_text(&mut output, "data").unwrap_or_default();
                patch.output = terminal.replace(&data);
            }
            Some(Value::Null) => patch.output = terminal.replace(""),
            _ => {}
        }
        if let Some(status) = take_object(object, "exitStatus") {
            let code = status.get("exitCode").and_then(Value::as_i64);
            patch.exit_code = code.and_then(|code| i32::try_from(code).ok());
            terminal.ended = true;
            if let Some(rest) = terminal.finish() {
                patch.output = match patch.output.take() {
                    Some(OutputPatch::Append(text)) => Some(OutputPatch::Append(text + &rest)),
                    Some(OutputPatch::Replace(text)) => Some(OutputPatch::Replace(text + &rest)),
                    None => Some(OutputPatch::Append(rest)),
                };
            }
        }
        terminal.learn(&patch);
        terminal.tell(patch)
    }

    /// `terminal_output_chunk`.
    pub(crate) fn chunk(&mut self, object: &mut Object) -> Option<ToolPatch> {
        let id = take_id(object, "terminalId")?;
        let data = take_text(object, "data")?;
        let terminal = self.terminal(&id);
        let output = terminal.append(&decoded(&data)).map(OutputPatch::Append)?;
        terminal.tell(ToolPatch { output: Some(output), ..ToolPatch::default() })
    }

    /// A call shows a terminal: what is known of it already is put into the call's patch.
    pub(crate) fn shown_by(&mut self, id: &str, patch: &mut ToolPatch) {
        let terminal = self.terminal(id);
        if terminal.call.as_ref() == Some(&patch.id) {
            return;
        }
        // Shown by one call only: its output would be told twice otherwise.
        if terminal.call.is_some() {
            return;
        }
        terminal.call = Some(patch.id.clone());
        patch.command = patch.command.take().or_else(|| terminal.command.take());
        patch.cwd = patch.cwd.take().or_else(|| terminal.cwd.take());
        patch.exit_code = patch.exit_code.or(terminal.exit_code);
        let held = std::mem::take(&mut terminal.held);
        if !held.is_empty() && patch.output.is_none() {
            patch.output = Some(OutputPatch::Append(held));
        }
    }

    /// The call that shows a terminal.
    pub(crate) fn call_of(&self, id: &str) -> Option<&str> {
        self.known.iter().find(|terminal| terminal.id == id)?.call.as_deref()
    }

    /// What no call shows, as calls of their own, so that it can be seen. To be asked when the agent has said all it
    /// has to say of a turn.
    pub(crate) fn unshown(&mut self) -> Vec<ToolPatch> {
        let unshown = self.known.iter_mut().filter(|terminal| {
            terminal.call.is_none() && (terminal.command.is_some() || !terminal.held.is_empty())
        });
        let patches = unshown.map(|terminal| {
            terminal.call = Some(terminal.id.clone());
            let held = std::mem::take(&mut terminal.held);
            ToolPatch {
                id: terminal.id.clone(),
                kind: Some("execute".to_owned()),
                title: Some(terminal.command.clone().unwrap_or_else(|| "Terminal".to_owned())),
                status: Some(match (terminal.ended, terminal.exit_code) {
                    (false, _) => signalbox_facts::ToolStatus::InProgress,
                    (true, None | Some(0)) => signalbox_facts::ToolStatus::Completed,
                    (true, Some(_)) => signalbox_facts::ToolStatus::Failed,
                }),
                command: terminal.command.take(),
                cwd: terminal.cwd.take(),
                exit_code: terminal.exit_code,
                output: (!held.is_empty()).then_some(OutputPatch::Append(held)),
                ..ToolPatch::default()
            }
        });
        patches.collect()
    }

    fn terminal(&mut self, id: &str) -> &mut Terminal {
        let at = self.known.iter().rposition(|terminal| terminal.id == id).unwrap_or_else(|| {
            if self.known.len() >= MAX_TERMINALS {
                self.known.pop_front();
            }
            self.known.push_back(Terminal { id: id.to_owned(), ..Terminal::default() });
            self.known.len() - 1
        });
        &mut self.known[at]
    }
}

impl Terminal {
    /// Whole characters out of more bytes; what is cut off waits for its rest.
    fn append(&mut self, bytes: &[u8]) -> Option<String> {
        self.partial.extend_from_slice(bytes);
        let whole = match std::str::from_utf8(&self.partial) {
            Ok(_) => self.partial.len(),
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            Err(_) => self.partial.len(),
        };
        let rest = self.partial.split_off(whole);
        let text = String::from_utf8_lossy(&std::mem::replace(&mut self.partial, rest)).into_owned();
        self.add(&text);
        (!text.is_empty()).then_some(text)
    }

    /// All that it has written.
    fn replace(&mut self, data: &str) -> Option<OutputPatch> {
        self.partial.clear();
        let text = String::from_utf8_lossy(&decoded(data)).into_owned();
        let told = text.get(..self.bytes).filter(|told| Digest::of(told) == self.digest);
        let patch = match told {
            Some(told) if told.len() == text.len() => return None,
            Some("") => OutputPatch::Append(text.clone()),
            Some(told) => OutputPatch::Append(text[told.len()..].to_owned()),
            None => OutputPatch::Replace(text.clone()),
        };
        (self.bytes, self.digest) = (text.len(), Digest::of(&text));
        Some(patch)
    }

    fn add(&mut self, text: &str) {
        self.bytes += text.len();
        self.digest.add(text);
    }

    /// It writes no more: half a character will not be completed.
    fn finish(&mut self) -> Option<String> {
        let rest = String::from_utf8_lossy(&std::mem::take(&mut self.partial)).into_owned();
        self.add(&rest);
        (!rest.is_empty()).then_some(rest)
    }

    fn learn(&mut self, patch: &ToolPatch) {
        self.exit_code = patch.exit_code.or(self.exit_code);
        if self.call.is_none() {
            self.command = patch.command.clone().or(self.command.take());
            self.cwd = patch.cwd.clone().or(self.cwd.take());
        }
    }

    /// As news of the call that shows it, or kept until one does.
    fn tell(&mut self, patch: ToolPatch) -> Option<ToolPatch> {
        if let Some(call) = &self.call {
            let patch = ToolPatch { id: call.clone(), ..patch };
            let says = patch.command.is_some()
                || patch.cwd.is_some()
                || patch.output.is_some()
                || patch.exit_code.is_some();
            return says.then_some(patch);
        }
        match patch.output {
            Some(OutputPatch::Append(text)) => self.held.push_str(&text),
            Some(OutputPatch::Replace(text)) => self.held = text,
            None => {}
        }
        if self.held.len() > HELD_BYTES {
            let from = self.held.ceil_char_boundary(self.held.len() - HELD_BYTES);
            self.held.drain(..from);
        }
        None
    }
}

/// Base64 where it is that; an agent that sends plain text means the text.
fn decoded(data: &str) -> Vec<u8> {
    BASE64_STANDARD.decode(data).unwrap_or_else(|_| data.as_bytes().to_vec())
}
