//! The screen: blocks of text in order, with a spinner on stderr while nothing happens. Knows nothing of turns.

use std::fmt::Display;
use std::io::{self, Write};
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use tokio::time::Instant;

use super::clean;
use super::wrap::Wrap;

pub(super) const PLAIN: Style = Style::new();
pub(super) const BOLD: Style = Style::new().bold();
pub(super) const DIM: Style = Style::new().dimmed();
pub(super) const GOOD: Style = AnsiColor::Green.on_default();
pub(super) const BAD: Style = AnsiColor::Red.on_default();
pub(super) const NOTE: Style = AnsiColor::Yellow.on_default();
pub(super) const PLACE: Style = AnsiColor::Cyan.on_default();

/// What a block is; blocks are set apart by an empty line, lines of a list are not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Block {
    /// One of several short lines: tool calls, steps of a plan, notices.
    Line,
    /// A growing text, by the item it belongs to.
    Text(String),
    /// Anything else that stands alone.
    Piece,
}

/// So long nothing happens before a spinner says that something is awaited.
pub(super) const QUIET: Duration = Duration::from_millis(150);
/// How often the spinner moves.
const STEP: Duration = Duration::from_millis(100);
const FRAMES: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

/// Says on stderr that something is awaited. Written without moving the cursor far, and never up to the edge: what is
/// typed meanwhile must not push it to another line.
#[derive(Debug)]
struct Spinner {
    since: Instant,
    moved: Instant,
    step: usize,
    /// Columns to be wiped out of a line of its own; none for a mark behind a text.
    drawn: Option<usize>,
}

/// A text that may go on.
struct Growing {
    wrap: Wrap,
    margin: &'static str,
    style: Style,
}

/// Where blocks are written.
pub(super) struct Screen {
    out: Box<dyn Write + Send>,
    block: Option<Block>,
    at_line_start: bool,
    /// Columns of the line that is open.
    column: usize,
    growing: Option<Growing>,
    /// Line ends of a growing text that are written once more of it follows.
    line_ends: usize,
    spinner: Option<Spinner>,
    may_spin: bool,
    writes: u64,
    width: Option<usize>,
}

impl Screen {
    /// A screen on this stream: a terminal with so many columns, or none; with a spinner if `may_spin`.
    pub(super) fn new(out: Box<dyn Write + Send>, width: Option<usize>, may_spin: bool) -> Self {
        Self {
            out,
            block: None,
            at_line_start: true,
            column: 0,
            growing: None,
            line_ends: 0,
            spinner: None,
            may_spin,
            writes: 0,
            width,
        }
    }

    /// Columns of the terminal; none where there is none.
    pub(super) fn width(&self) -> Option<usize> {
        self.width
    }

    /// Begins a block, setting it apart from the one before.
    pub(super) fn begin(&mut self, block: Block) -> io::Result<()> {
        self.end_line()?;
        let apart = match (&self.block, &block) {
            (None, _) | (Some(Block::Line), Block::Line) => false,
            (Some(_), _) => true,
        };
        if apart {
            self.out.write_all(b"\n")?;
        }
        self.block = Some(block);
        Ok(())
    }

    /// The block that is open.
    pub(super) fn is_open(&self, block: &Block) -> bool {
        self.block.as_ref() == Some(block)
    }

    /// Writes one line of the open block.
    pub(super) fn line(&mut self, text: impl Display) -> io::Result<()> {
        self.end_line()?;
        writeln!(self.out, "{text}")
    }

    /// Writes a line without its end, for somebody to type behind it.
    pub(super) fn ask(&mut self, text: impl Display) -> io::Result<()> {
        self.end_line()?;
        write!(self.out, "{text}")?;
        self.at_line_start = false;
        self.out.flush()
    }

    /// Somebody has typed a line end.
    pub(super) fn typed(&mut self) {
        self.at_line_start = true;
    }

    /// Adds to the growing text that is open, with `margin` before each line. A word is held back until it is whole.
    pub(super) fn grow(&mut self, margin: &'static str, style: Style, text: &str) -> io::Result<()> {
        let width = self.width.map(|width| width.saturating_sub(margin.chars().count()));
        let growing = self.growing.get_or_insert_with(|| Growing { wrap: Wrap::new(width), margin, style });
        let text = growing.wrap.push(text);
        self.put(margin, style, &text)
    }

    /// Shows what is held back of the growing text.
    pub(super) fn settle(&mut self) -> io::Result<()> {
        let Some(growing) = &mut self.growing else { return Ok(()) };
        let (margin, style, rest) = (growing.margin, growing.style, growing.wrap.finish());
        self.put(margin, style, &rest)
    }

    fn put(&mut self, margin: &str, style: Style, text: &str) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        self.rest();
        for (n, line) in text.split('\n').enumerate() {
            if n > 0 {
                self.line_ends += 1;
            }
            if line.is_empty() {
                continue;
            }
            for _ in 0..std::mem::take(&mut self.line_ends) {
                if self.at_line_start {
                    writeln!(self.out, "{style}{}{style:#}", margin.trim_end())?;
                } else {
                    self.out.write_all(b"\n")?;
                }
                self.at_line_start = true;
            }
            if self.at_line_start {
                self.column = 0;
            }
            let margin = if std::mem::take(&mut self.at_line_start) { margin } else { "" };
            self.column += margin.chars().count() + line.chars().count();
            write!(self.out, "{style}{margin}{line}{style:#}")?;
        }
        Ok(())
    }

    /// Writes one line of a command's output or of a diff behind a bar; what would run over the edge goes on behind
    /// the bar too.
    pub(super) fn bar(&mut self, style: Style, text: &str) -> io::Result<()> {
        let room = self.width.map_or(usize::MAX, |width| width.saturating_sub(2).max(20));
        let mut rest = text;
        loop {
            let end = rest.char_indices().nth(room).map_or(rest.len(), |(end, _)| end);
            let (line, more) = rest.split_at(end);
            self.line(format_args!("{DIM}│{DIM:#} {style}{line}{style:#}"))?;
            if more.is_empty() {
                return Ok(());
            }
            rest = more;
        }
    }

    /// Ends the line that is open, if one is.
    pub(super) fn end_line(&mut self) -> io::Result<()> {
        self.settle()?;
        self.growing = None;
        self.rest();
        self.line_ends = 0;
        if !std::mem::replace(&mut self.at_line_start, true) {
            self.out.write_all(b"\n")?;
        }
        Ok(())
    }

    /// Lets everything be seen.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// When the spinner wants to be moved, or may begin at the earliest; never where it cannot be shown.
    pub(super) fn restless(&self, quiet_from: Instant) -> Option<Instant> {
        match &self.spinner {
            Some(spinner) => Some(spinner.moved + STEP),
            None => self.has_room().then(|| quiet_from + QUIET),
        }
    }

    fn has_room(&self) -> bool {
        let width = self.width.unwrap_or_default();
        self.may_spin && (self.at_line_start || self.column + 4 < width)
    }

    /// Shows that something is awaited, or moves on in showing it: in words on a line of its own, or as a mark behind
    /// a text that may go on.
    pub(super) fn spin(&mut self, what: &str) {
        if !self.has_room() {
            return;
        }
        let now = Instant::now();
        let spinner = self.spinner.get_or_insert(Spinner { since: now, moved: now, step: 0, drawn: None });
        let frame = FRAMES[spinner.step % FRAMES.len()];
        let drawn = if self.at_line_start {
            let seconds = spinner.since.elapsed().as_secs();
            let room = self.width.unwrap_or(80).saturating_sub(12);
            let what = clean::short(what, room.max(10));
            let mut stderr = anstream::stderr().lock();
            let wiped = spinner.drawn.unwrap_or_default();
            // What somebody types meanwhile is echoed behind it; it is wiped out too.
            spinner.drawn = Some(what.chars().count() + 10);
            write!(stderr, "\r{:wiped$}\r{frame} {what} {DIM}{seconds}s{DIM:#}", "")
                .and_then(|()| stderr.flush())
        } else {
            let mut stderr = io::stderr().lock();
            write!(stderr, " {frame}\u{8}\u{8}").and_then(|()| stderr.flush())
        };
        // A spinner that cannot be seen is missed by nobody.
        drop(drawn);
        spinner.step += 1;
        spinner.moved = now;
    }

    /// A number that grows whenever something is written.
    pub(super) fn written(&self) -> u64 {
        self.writes
    }

    /// Takes the spinner away; something is to be written.
    fn rest(&mut self) {
        self.writes += 1;
        if let Some(spinner) = self.spinner.take() {
            let mut stderr = io::stderr().lock();
            let wiped = match spinner.drawn {
                Some(wiped) => write!(stderr, "\r{:wiped$}\r", ""),
                None => write!(stderr, "  \u{8}\u{8}"),
            };
            drop(wiped.and_then(|()| stderr.flush()));
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.rest();
    }
}

impl std::fmt::Debug for Screen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Screen").field("block", &self.block).finish_non_exhaustive()
    }
}
