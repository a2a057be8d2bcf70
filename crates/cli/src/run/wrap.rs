//! Breaks prose between words where it would run over the edge of the terminal. Code in fences is left as it is.

/// Breaks a text that comes in pieces.
#[derive(Debug, Default)]
pub(super) struct Wrap {
    /// Columns of the terminal; none where there is no terminal.
    width: Option<usize>,
    column: usize,
    /// The word that has no end yet, and the spaces before it.
    word: String,
    spaces: usize,
    /// Columns by which broken lines of this paragraph are set in.
    hang: usize,
    /// Nothing but spaces and a bullet has come on this line.
    at_start: bool,
    /// The line began with a fence: code until the next such line.
    in_code: bool,
    begun: bool,
}

/// Narrower than this, breaking does more harm than good.
const LEAST: usize = 40;

impl Wrap {
    /// For a terminal with so many columns left of the margin.
    pub(super) fn new(width: Option<usize>) -> Self {
        Self { width: width.filter(|width| *width >= LEAST), at_start: true, ..Self::default() }
    }

    /// The next piece, as far as its words are whole.
    pub(super) fn push(&mut self, piece: &str) -> String {
        if self.width.is_none() {
            return piece.to_owned();
        }
        let mut out = String::with_capacity(piece.len() + 8);
        for letter in piece.chars() {
            match letter {
                '\n' => {
                    self.place(&mut out);
                    self.line_end(&mut out);
                }
                ' ' => {
                    self.place(&mut out);
                    self.spaces += 1;
                }
                letter => self.word.push(letter),
            }
        }
        out
    }

    /// The rest, when the text is at its end, or rests for so long that its last word is to be seen.
    pub(super) fn finish(&mut self) -> String {
        let mut out = String::new();
        self.place(&mut out);
        out
    }

    fn line_end(&mut self, out: &mut String) {
        out.push('\n');
        self.column = 0;
        self.spaces = 0;
        self.hang = 0;
        self.at_start = true;
        self.begun = false;
    }

    /// Puts the word that has come to its end.
    fn place(&mut self, out: &mut String) {
        if self.word.is_empty() {
            return;
        }
        let word = std::mem::take(&mut self.word);
        let spaces = std::mem::take(&mut self.spaces);
        if !std::mem::replace(&mut self.begun, true) && word.starts_with("```") {
            self.in_code = !self.in_code;
        }
        let length = word.chars().count();
        // What follows without a space goes on with a word that was shown before it was whole.
        let fits = spaces == 0 || self.width.is_none_or(|width| self.column + spaces + length <= width);
        if fits || self.in_code || self.column <= self.hang {
            out.extend(std::iter::repeat_n(' ', spaces));
            self.column += spaces;
        } else {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', self.hang));
            self.column = self.hang;
        }
        out.push_str(&word);
        self.column += length;
        if self.at_start {
            self.at_start = false;
            // A list's item hangs from its bullet.
            let is_bullet = matches!(word.as_str(), "-" | "*" | "•") || is_number(&word);
            self.hang = if is_bullet { spaces + length + 1 } else { spaces };
        }
    }
}

/// The whole of a text, broken.
pub(super) fn wrapped(text: &str, width: Option<usize>) -> String {
    let mut wrap = Wrap::new(width);
    let mut out = wrap.push(text);
    out.push_str(&wrap.finish());
    out
}

/// `1.` and the like.
fn is_number(word: &str) -> bool {
    word.strip_suffix(['.', ')'])
        .is_some_and(|n| !n.is_empty() && n.len() < 4 && n.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_pieces(pieces: &[&str]) -> String {
        let mut wrap = Wrap::new(Some(LEAST));
        let mut text: String = pieces.iter().map(|piece| wrap.push(piece)).collect();
        text.push_str(&wrap.finish());
        text
    }

    #[test]
    fn lines_break_between_words() {
        let text = in_pieces(&["one two three four five six seven eight nine ten"]);
        assert_eq!(text, "one two three four five six seven eight\nnine ten");
    }

    #[test]
    fn a_word_may_come_in_pieces() {
        let text = in_pieces(&["one two three four five six sev", "en eigh", "t nine", " ten\n"]);
        assert_eq!(text, "one two three four five six seven eight\nnine ten\n");
    }

    #[test]
    fn a_word_that_was_shown_early_stays_whole() {
        let mut wrap = Wrap::new(Some(LEAST));
        let mut text = wrap.push("one two three four five six seven eig");
        text.push_str(&wrap.finish());
        text.push_str(&wrap.push("htyeight nine "));
        assert_eq!(text, "one two three four five six seven eightyeight\nnine");
    }

    #[test]
    fn items_of_a_list_hang() {
        let text = in_pieces(&["- one two three four five six seven eight nine\n1. a\n"]);
        assert_eq!(text, "- one two three four five six seven\n  eight nine\n1. a\n");
    }

    #[test]
    fn code_and_long_words_stay_whole() {
        let long = "x".repeat(60);
        let code = format!("```sh\necho {long} y\n```\n");
        assert_eq!(in_pieces(&[&code]), code);
        assert_eq!(in_pieces(&[&long, " y"]), format!("{long}\ny"));
        assert_eq!(in_pieces(&["  a  b\n\n  c"]), "  a  b\n\n  c");
    }

    #[test]
    fn without_a_terminal_nothing_is_touched() {
        let mut wrap = Wrap::new(None);
        let long = "one two three ".repeat(20);
        assert_eq!(wrap.push(&long), long);
        assert_eq!(wrap.finish(), "");
    }
}
