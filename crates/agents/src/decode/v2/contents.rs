//! What calls show, as far as chunks add to it: text goes on as output, other pieces are told again with those before.
//!
//! Nothing that was shown is taken back because too much of it is remembered: what does not fit any more is left out at
//! the end, and the call says so.

use std::collections::VecDeque;

use crate::update::{Content, OutputPatch, ToolPart, ToolPatch};

/// Content remembered of all calls together.
const CONTENT_BYTES: usize = 4 << 20;
/// Pieces remembered of one call: their bytes and their number.
const CALL_BYTES: usize = 1 << 20;
const CALL_PARTS: usize = 1000;
/// Calls whose content is remembered, the latest ones.
const MAX_CALLS: usize = 256;
/// What a piece costs besides its text.
const PART_BYTES: usize = 64;
/// So many pieces are told at once each. Later ones wait until they are worth telling all of them again.
const TOLD_AT_ONCE: usize = 16;
/// The mark where pieces are left out.
pub(super) const LEFT_OUT: &str = "\n[… more pieces left out …]\n";

/// The content of a session's calls.
#[derive(Debug, Default)]
pub(super) struct Contents {
    calls: VecDeque<Call>,
    /// Some call is no longer remembered.
    forgot: bool,
}

#[derive(Debug, Default)]
struct Call {
    id: String,
    /// Once text came in chunks, only what is no text.
    parts: Vec<ToolPart>,
    /// Their bytes, and how many of these were told.
    bytes: usize,
    told: usize,
    /// Text is told as output.
    streams: bool,
    /// No more pieces fit: those that were shown are not all here, or they are too many.
    full: bool,
    /// That was said.
    marked: bool,
}

impl Contents {
    /// An update of a call; if it has content, that takes the place of what was there.
    pub(super) fn whole(&mut self, patch: &mut ToolPatch) {
        let call = self.call(&patch.id, false);
        let Some(parts) = &mut patch.content else {
            patch.content = call.held();
            return;
        };
        // What a terminal among them writes comes from the terminal.
        let terminal = parts.iter().any(|part| matches!(part, ToolPart::Terminal { .. }));
        if call.streams && patch.output.is_none() && !terminal {
            patch.output = Some(OutputPatch::Replace(take_texts(parts)));
        }
        (call.full, call.marked) = (false, false);
        call.parts.clone_from(parts);
        call.weigh();
        call.told = call.bytes;
        self.make_room();
    }

    /// More of what a call shows.
    pub(super) fn more(&mut self, patch: &mut ToolPatch, more: Vec<ToolPart>) {
        let forgot = self.forgot;
        let call = self.call(&patch.id, forgot);
        let mut output = String::new();
        for part in more {
            match part {
                ToolPart::Content(Content::Text(text)) => {
                    output.push_str(&call.stream(patch));
                    output.push_str(&text);
                }
                part if call.takes(&part) => {
                    call.parts.push(part);
                    call.weigh();
                }
                _ if !call.marked => {
                    call.marked = true;
                    output.push_str(&call.stream(patch));
                    output.push_str(LEFT_OUT);
                }
                _ => {}
            }
        }
        if (call.parts.len() <= TOLD_AT_ONCE || call.bytes > call.told + call.told / 4)
            && let Some(all) = call.held()
        {
            patch.content = Some(all);
        }
        if !output.is_empty() {
            patch.output = Some(match patch.output.take() {
                Some(OutputPatch::Append(before)) => OutputPatch::Append(before + &output),
                Some(OutputPatch::Replace(before)) => OutputPatch::Replace(before + &output),
                None => OutputPatch::Append(output),
            });
        }
        self.make_room();
    }

    /// The calls with pieces that were not worth telling yet.
    pub(super) fn held(&mut self) -> Vec<ToolPatch> {
        let held = self.calls.iter_mut().filter_map(|call| {
            let content = Some(call.held()?);
            Some(ToolPatch { id: call.id.clone(), content, ..ToolPatch::default() })
        });
        held.collect()
    }

    /// A call, now the latest. `full` is what one is that is not known.
    fn call(&mut self, id: &str, full: bool) -> &mut Call {
        let at = self.calls.iter().rposition(|call| call.id == id);
        let known = at.and_then(|at| self.calls.remove(at));
        if known.is_none() && self.calls.len() >= MAX_CALLS {
            self.calls.pop_front();
            self.forgot = true;
        }
        let call = known.unwrap_or_else(|| Call { id: id.to_owned(), full, ..Call::default() });
        self.calls.push_back(call);
        let last = self.calls.len() - 1;
        &mut self.calls[last]
    }

    /// Pieces of the calls that were heard of least lately go, where they are told already; then no more can be added.
    fn make_room(&mut self) {
        let mut bytes: usize = self.calls.iter().map(|call| call.bytes).sum();
        for call in &mut self.calls {
            if bytes <= CONTENT_BYTES {
                break;
            }
            if !call.parts.is_empty() && call.told >= call.bytes {
                bytes -= call.bytes;
                call.parts = Vec::new();
                (call.bytes, call.told, call.full) = (0, 0, true);
            }
        }
    }
}

impl Call {
    /// From here on text is output. What was shown of it before comes first there, and is no content any more.
    fn stream(&mut self, patch: &mut ToolPatch) -> String {
        if std::mem::replace(&mut self.streams, true) {
            return String::new();
        }
        let had = self.parts.len();
        let text = take_texts(&mut self.parts);
        if self.parts.len() != had {
            self.weigh();
            self.told = self.bytes;
            patch.content = Some(self.parts.clone());
        }
        text
    }

    /// Whether one more piece fits. A first one always does, so that no large picture is left out.
    fn takes(&mut self, part: &ToolPart) -> bool {
        let fits = self.parts.len() < CALL_PARTS && self.bytes + weight(part) <= CALL_BYTES;
        self.full |= !fits && !self.parts.is_empty();
        !self.full
    }

    /// All its pieces, if some are not told.
    fn held(&mut self) -> Option<Vec<ToolPart>> {
        let news = self.bytes > self.told;
        self.told = self.bytes;
        news.then(|| self.parts.clone())
    }

    fn weigh(&mut self) {
        self.bytes = self.parts.iter().map(weight).sum();
    }
}

/// Takes the texts out of pieces, as one.
fn take_texts(parts: &mut Vec<ToolPart>) -> String {
    let mut all = String::new();
    parts.retain(|part| match part {
        ToolPart::Content(Content::Text(text)) => {
            all.push_str(text);
            false
        }
        _ => true,
    });
    all
}

/// About how many bytes a piece holds.
fn weight(part: &ToolPart) -> usize {
    let bytes = match part {
        ToolPart::Content(Content::Text(text)) => text.len(),
        ToolPart::Content(Content::Image { data, .. } | Content::Audio { data, .. }) => data.len(),
        ToolPart::Content(Content::Resource { text, blob, .. }) => {
            text.as_ref().or(blob.as_ref()).map_or(0, String::len)
        }
        ToolPart::Content(Content::Unknown(value)) | ToolPart::Unknown(value) => value.to_string().len(),
        ToolPart::Diff { old_text, new_text, .. } => {
            old_text.as_ref().map_or(0, String::len) + new_text.len()
        }
        ToolPart::Patch(diff) => diff.unified.len(),
        _ => 0,
    };
    bytes + PART_BYTES
}
