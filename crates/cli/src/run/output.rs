//! A command's output as it is shown: its beginning at once, its end when it has ended, and how much lies between.

use super::clean::{self, Cleaner};

/// Lines that are shown as they come.
const HEAD: usize = 40;
/// Lines that are shown of the rest, at the end.
const TAIL: usize = 10;
/// Longest line that is shown, in characters.
const WIDTH: usize = 400;

/// What of an output has been shown.
#[derive(Debug, Default)]
pub(super) struct Output {
    cleaner: Cleaner,
    /// The line that has no end yet.
    open: String,
    shown: usize,
    any: bool,
}

impl Output {
    /// More output; the lines to be shown now.
    pub(super) fn push(&mut self, delta: &str) -> Vec<String> {
        self.any = self.any || !delta.is_empty();
        if self.shown == HEAD {
            return Vec::new();
        }
        self.open.push_str(&self.cleaner.push(delta));
        let mut lines = Vec::new();
        while let Some(end) = self.open.find('\n')
            && self.shown < HEAD
        {
            let rest = self.open.split_off(end + 1);
            lines.push(cut(self.open.trim_end_matches('\n')));
            self.open = rest;
            self.shown += 1;
        }
        if self.shown == HEAD {
            self.open = String::new();
        }
        lines
    }

    /// The command has ended and this is all of its output: what is still to be shown.
    pub(super) fn rest(&mut self, whole: &str) -> Vec<String> {
        let text = clean::clean(whole);
        let all: Vec<&str> = text.lines().collect();
        let left = all.get(self.shown.min(all.len())..).unwrap_or_default();
        let mut lines = Vec::new();
        let room = HEAD.saturating_sub(self.shown);
        let (head, tail) = left.split_at(room.min(left.len()));
        lines.extend(head.iter().map(|line| cut(line)));
        let hidden = tail.len().saturating_sub(TAIL);
        if hidden > 0 {
            lines.push(format!("… {hidden} more {} …", if hidden == 1 { "line" } else { "lines" }));
        }
        lines.extend(tail[hidden..].iter().map(|line| cut(line)));
        lines
    }
}

fn cut(line: &str) -> String {
    match line.char_indices().nth(WIDTH) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(count: usize) -> String {
        (1..=count).map(|n| format!("{n}\n")).collect()
    }

    #[test]
    fn lines_are_shown_once_they_have_an_end() {
        let mut output = Output::default();
        assert_eq!(output.push("one\ntw"), ["one"]);
        assert_eq!(output.push("o"), Vec::<String>::new());
        assert_eq!(output.push("\n"), ["two"]);
        output.push("last");
        assert_eq!(output.rest("one\ntwo\nlast"), ["last"]);
    }

    #[test]
    fn of_much_output_beginning_and_end_are_shown() {
        let mut output = Output::default();
        let mut lines = output.push(&numbers(1000));
        lines.extend(output.push("1001\n"));
        assert_eq!(lines.len(), HEAD);
        let rest = output.rest(&numbers(1001));
        assert_eq!(rest.first().unwrap(), "… 951 more lines …");
        assert_eq!(rest.last().unwrap(), "1001");
        assert_eq!(rest.len(), TAIL + 1);
    }

    #[test]
    fn output_without_deltas_is_shown_at_the_end() {
        assert_eq!(Output::default().rest("a\nb\n"), ["a", "b"]);
        assert_eq!(Output::default().rest(""), Vec::<String>::new());
    }

    #[test]
    fn a_long_line_is_cut() {
        let line = Output::default().rest(&"x".repeat(1000)).remove(0);
        assert_eq!(line.chars().count(), WIDTH + 1);
    }
}
