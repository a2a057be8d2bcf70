//! The screen: blocks of text in order, with a spinner on stderr while nothing happens. Knows nothing of turns.

use std::fmt::Display;
use std::io::{self, Write};
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

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

/// Where blocks are written.
pub(super) struct Screen {
    out: Box<dyn Write + Send>,
    block: Option<Block>,
    at_line_start: bool,
    /// Line ends of a growing text that are written once more of it follows.
    line_ends: usize,
    spinner: Option<ProgressBar>,
    may_spin: bool,
    writes: u64,
}

impl Screen {
    /// A screen on this stream; with a spinner if `may_spin`.
    pub(super) fn new(out: Box<dyn Write + Send>, may_spin: bool) -> Self {
        Self { out, block: None, at_line_start: true, line_ends: 0, spinner: None, may_spin, writes: 0 }
    }

    /// Begins a block, setting it apart from the one before.
    pub(super) fn begin(&mut self, block: Block) -> io::Result<()> {
        self.rest();
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
        self.rest();
        self.end_line()?;
        writeln!(self.out, "{text}")
    }

    /// Writes a line without its end, for somebody to type behind it.
    pub(super) fn ask(&mut self, text: impl Display) -> io::Result<()> {
        self.rest();
        self.end_line()?;
        write!(self.out, "{text}")?;
        self.at_line_start = false;
        self.out.flush()
    }

    /// Somebody has typed a line end.
    pub(super) fn typed(&mut self) {
        self.at_line_start = true;
    }

    /// Adds to the growing text that is open, with `margin` before each line.
    pub(super) fn grow(&mut self, margin: &str, style: Style, text: &str) -> io::Result<()> {
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
            let margin = if std::mem::take(&mut self.at_line_start) { margin } else { "" };
            write!(self.out, "{style}{margin}{line}{style:#}")?;
        }
        Ok(())
    }

    /// Ends the line that is open, if one is.
    pub(super) fn end_line(&mut self) -> io::Result<()> {
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

    /// Whether [`Screen::spin`] would show something new.
    pub(super) fn can_spin(&self) -> bool {
        self.may_spin && self.at_line_start && self.spinner.is_none()
    }

    /// Shows that something is awaited.
    pub(super) fn spin(&mut self, what: &str) {
        if !self.can_spin() {
            return;
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed:.dim}") {
            bar.set_style(style.tick_strings(&["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏", " "]));
        }
        bar.set_message(what.to_owned());
        bar.enable_steady_tick(Duration::from_millis(100));
        self.spinner = Some(bar);
    }

    /// A number that grows whenever something is written.
    pub(super) fn written(&self) -> u64 {
        self.writes
    }

    /// Takes the spinner away; something is to be written.
    fn rest(&mut self) {
        self.writes += 1;
        if let Some(bar) = self.spinner.take() {
            bar.finish_and_clear();
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
