//! Text of agents made safe for a terminal: what would move the cursor, set colours or reorder letters is taken out,
//! because a command must look like what it is when somebody is asked to allow it.

/// Takes control sequences out of text that comes in pieces.
#[derive(Debug, Default, Clone)]
pub(super) struct Cleaner {
    state: State,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Text,
    /// After a carriage return: a line end if a newline follows or other text does.
    Return,
    /// After ESC.
    Escape,
    /// After `ESC [`, up to its final byte.
    Control,
    /// After `ESC ]` and the like, up to BEL or `ESC \`.
    Message,
    /// In such a message, after ESC.
    MessageEscape,
}

impl Cleaner {
    /// The clean form of the next piece.
    pub(super) fn push(&mut self, piece: &str) -> String {
        let mut clean = String::with_capacity(piece.len());
        for letter in piece.chars() {
            self.letter(letter, &mut clean);
        }
        clean
    }

    fn letter(&mut self, letter: char, clean: &mut String) {
        match self.state {
            State::Return => {
                self.state = State::Text;
                clean.push('\n');
                if letter != '\n' {
                    self.letter(letter, clean);
                }
            }
            State::Text => match letter {
                '\u{1b}' => self.state = State::Escape,
                '\u{9b}' => self.state = State::Control,
                '\u{90}' | '\u{98}' | '\u{9d}' | '\u{9e}' | '\u{9f}' => self.state = State::Message,
                '\r' => self.state = State::Return,
                '\n' | '\t' => clean.push(letter),
                letter if letter.is_control() => {}
                letter if reorders(letter) => clean.push('\u{fffd}'),
                letter => clean.push(letter),
            },
            State::Escape => {
                self.state = match letter {
                    '[' => State::Control,
                    ']' | 'P' | 'X' | '^' | '_' => State::Message,
                    // Sequences of two with one more letter, such as the choice of a character set.
                    ' '..='/' => State::Escape,
                    _ => State::Text,
                }
            }
            State::Control => {
                if ('@'..='~').contains(&letter) {
                    self.state = State::Text;
                } else if letter == '\u{1b}' {
                    self.state = State::Escape;
                }
            }
            State::Message => match letter {
                '\u{7}' | '\u{9c}' => self.state = State::Text,
                '\u{1b}' => self.state = State::MessageEscape,
                _ => {}
            },
            State::MessageEscape => {
                self.state = if letter == '\\' { State::Text } else { State::Message };
            }
        }
    }
}

/// Marks that make text read in another order than it is.
fn reorders(letter: char) -> bool {
    matches!(letter, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The clean form of a whole text.
pub(crate) fn clean(text: &str) -> String {
    Cleaner::default().push(text)
}

/// The clean form of a text that has to stay on one line.
pub(super) fn line(text: &str) -> String {
    clean(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// At most this many characters, with a mark where something was cut.
pub(super) fn short(text: &str, most: usize) -> String {
    let text = line(text);
    match text.char_indices().nth(most.saturating_sub(1)) {
        Some((end, _)) if text[end..].chars().nth(1).is_some() => format!("{}…", &text[..end]),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_titles_and_cursor_moves_are_taken_out() {
        assert_eq!(clean("\u{1b}[31mred\u{1b}[0m and \u{1b}]0;title\u{7}plain"), "red and plain");
        assert_eq!(clean("\u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{1b}\\"), "link");
        assert_eq!(clean("rm -rf /\u{1b}[2K\u{1b}[1Gls\u{8}\u{8}"), "rm -rf /ls");
        assert_eq!(clean("a\u{9b}31mb\u{1b}(Bc"), "abc");
    }

    #[test]
    fn a_sequence_may_come_in_pieces() {
        let mut cleaner = Cleaner::default();
        let pieces = ["one \u{1b}", "[3", "1mtwo", "\r", "\nthree\r"];
        let text: String = pieces.iter().map(|piece| cleaner.push(piece)).collect();
        assert_eq!(text, "one two\nthree");
    }

    #[test]
    fn a_line_that_is_written_over_is_a_line_of_its_own() {
        assert_eq!(clean("10 %\r20 %\rdone\r\n"), "10 %\n20 %\ndone\n");
    }

    #[test]
    fn letters_keep_their_order() {
        assert_eq!(clean("ls \u{202e}gnp.exe"), "ls \u{fffd}gnp.exe");
        assert_eq!(clean("日本語 é 👍"), "日本語 é 👍");
    }

    #[test]
    fn short_forms_are_one_line() {
        assert_eq!(short("a\n  b\tc", 10), "a b c");
        assert_eq!(short("abcdef", 6), "abcdef");
        assert_eq!(short("abcdefg", 6), "abcde…");
        assert_eq!(short("ééééééé", 3), "éé…");
    }
}
