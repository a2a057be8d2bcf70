//! The end of a turn: how it ended, what it changed, what it used, and why it failed.

use std::io;

use anstyle::Style;
use serde_json::Value;
use signalbox_protocol::app::{ThreadTokenUsage, Turn, TurnError, TurnStatus};

use super::clean;
use super::diff;
use super::screen::{BAD, Block, DIM, GOOD, NOTE};
use super::view::View;
use super::wrap::wrapped;
use crate::details::last_lines;

impl View {
    /// The end of the turn.
    pub(super) fn ended(&mut self, turn: &Turn) -> io::Result<()> {
        self.screen.begin(Block::Piece)?;
        let took = turn.duration_ms.map(duration).unwrap_or_default();
        let (mark, style, word) = match turn.status {
            TurnStatus::Completed => ("✓", GOOD, "completed"),
            TurnStatus::Interrupted => ("■", NOTE, "interrupted"),
            TurnStatus::Failed => ("✗", BAD, "failed"),
            TurnStatus::InProgress => ("…", DIM, "still running"),
        };
        if let (Some(error), TurnStatus::Failed) = (&turn.error, turn.status) {
            self.failure(error)?;
        }
        let how = if turn.status == TurnStatus::Interrupted { "after" } else { "in" };
        let mut facts = Vec::new();
        facts.push(if took.is_empty() { word.to_owned() } else { format!("{word} {how} {took}") });
        let changed = turn.diff.as_deref().or(self.diff.as_deref()).filter(|diff| !diff.is_empty());
        facts.extend(changed.map(diff::summary));
        let usage = turn.token_usage.as_ref().or(self.usage.as_ref());
        facts.extend(usage.map(tokens).unwrap_or_default());
        self.facts(mark, style, &facts)?;
        self.screen.flush()
    }

    /// Facts in a row, in as many lines as they need.
    fn facts(&mut self, mark: &str, style: Style, facts: &[String]) -> io::Result<()> {
        let width = self.screen.width().unwrap_or(usize::MAX);
        let (mut line, mut columns) = (String::new(), 0);
        for (n, fact) in facts.iter().enumerate() {
            let length = fact.chars().count() + 3;
            match n {
                0 => line = format!("{style}{mark} {fact}{style:#}"),
                _ if columns + length > width => {
                    self.screen.line(&line)?;
                    (line, columns) = (format!("  {DIM}{fact}{DIM:#}"), 0);
                }
                _ => line.push_str(&format!("{DIM} · {fact}{DIM:#}")),
            }
            columns += length;
        }
        self.screen.line(&line)
    }

    pub(super) fn failure(&mut self, error: &TurnError) -> io::Result<()> {
        for line in wrapped(clean::clean(&error.message).trim_end(), self.screen.width()).lines() {
            self.screen.line(format_args!("{BAD}{line}{BAD:#}"))?;
        }
        let details = error.additional_details.as_deref().map(clean::clean).unwrap_or_default();
        for line in details.lines().filter(|line| !line.trim().is_empty()) {
            self.screen.bar(DIM, line)?;
        }
        let word = |key: &str| error.data.as_ref().and_then(|data| data.get(key)).and_then(Value::as_str);
        for line in word("stdoutTail").map(last_lines).unwrap_or_default() {
            self.screen.bar(DIM, &line)?;
        }
        let hint = word("hint").map(clean::line).unwrap_or_default();
        for line in wrapped(&hint, self.screen.width()).lines() {
            self.screen.line(format_args!("{NOTE}{line}{NOTE:#}"))?;
        }
        Ok(())
    }
}

/// A time span as people say it.
pub(super) fn duration(ms: i64) -> String {
    let ms = ms.max(0);
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        _ => format!("{} min {} s", ms / 60_000, ms % 60_000 / 1_000),
    }
}

/// What is known of tokens: how many, and how full the context is.
fn tokens(usage: &ThreadTokenUsage) -> Vec<String> {
    let (total, used) = (usage.total.total_tokens, usage.last.total_tokens);
    let window = usage.model_context_window.filter(|window| *window > 0);
    let sum = (total > 0).then(|| format!("{} tokens", grouped(total)));
    let context = window.map(|window| format!("context {} of {}", grouped(used), grouped(window)));
    sum.into_iter().chain(context).collect()
}

/// A number with its thousands set apart.
fn grouped(number: i64) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if number < 0 { format!("-{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_and_numbers_are_easy_to_read() {
        assert_eq!(duration(999), "999 ms");
        assert_eq!(duration(2_345), "2.3 s");
        assert_eq!(duration(61_500), "1 min 1 s");
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(grouped(-123_456), "-123,456");
    }
}
