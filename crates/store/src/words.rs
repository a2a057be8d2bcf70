//! Words: what the index gets of a text, what it is asked for a search term, which piece of a text is shown. Pure.
//!
//! A word is a run of letters and digits, in any case and without its accents. Scripts that put no spaces between words
//! (Chinese, Japanese, Thai) are indexed character by character. What stands together in a term (`commit_new`,
//! `Vec::push`) must stand together in the text, and the last word of a term is the beginning of one, so that a search finds
//! while it is typed.

use std::borrow::Cow;

/// Longest term, in characters.
const MAX_TERM: usize = 1000;
/// Most words of a term.
const MAX_WORDS: usize = 64;
/// Characters of a snippet.
const SNIPPET: usize = 240;
/// Of them, before the first match.
const LEAD: usize = 40;
/// Matches that are weighed for a snippet.
const MAX_MATCHES: usize = 512;

/// What to search for: nothing in it has a meaning beyond its letters and digits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SearchTerm {
    /// Words that stand together, one group for each run between spaces.
    groups: Vec<Vec<String>>,
    /// The last word goes on.
    open: bool,
}

/// Why a term cannot be searched for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SearchTermError {
    /// Nothing in it is ever indexed.
    #[error("the search term has no letters and no digits; type a word")]
    Empty,
    /// It is too long.
    #[error("the search term is longer than {MAX_TERM} characters; shorten it")]
    TooLong,
    /// It has too many words.
    #[error("the search term has more than {MAX_WORDS} words; leave some out")]
    TooMany,
}

impl SearchTerm {
    /// Takes a term as a person typed it.
    ///
    /// # Errors
    /// See [`SearchTermError`].
    pub fn parse(term: &str) -> Result<Self, SearchTermError> {
        if term.chars().count() > MAX_TERM {
            return Err(SearchTermError::TooLong);
        }
        let group = |run: &str| words(run).map(|(_, word)| word.to_owned()).collect::<Vec<_>>();
        let groups: Vec<_> = term.split_whitespace().map(group).filter(|group| !group.is_empty()).collect();
        match groups.iter().map(Vec::len).sum() {
            0 => Err(SearchTermError::Empty),
            1..=MAX_WORDS => Ok(Self { groups, open: term.ends_with(is_letter) }),
            _ => Err(SearchTermError::TooMany),
        }
    }

    /// The same in the index's own language. Every word is quoted, and none has a quote in it.
    pub(crate) fn expression(&self) -> String {
        let groups: Vec<_> = self.groups.iter().map(|group| format!("\"{}\"", group.join(" "))).collect();
        groups.join(" ") + if self.open { " *" } else { "" }
    }

    /// The piece of a text in which most of the words are, on one line.
    pub(crate) fn snippet(&self, text: &str) -> String {
        let wanted: Vec<&String> = self.groups.iter().flatten().collect();
        let open = self.open.then(|| wanted.len() - 1);
        let mut found: Vec<(usize, usize)> = Vec::new();
        for (at, word) in words(text) {
            let fits = |(place, wanted): (usize, &&String)| begins(word, wanted, open == Some(place));
            if let Some(place) = wanted.iter().enumerate().position(fits) {
                found.push((at, place));
            }
            if found.len() == MAX_MATCHES {
                break;
            }
        }
        let mut best = (0, 0);
        for (place, (at, _)) in found.iter().enumerate() {
            // Bytes, so a little less than fits; what counts is which words are near each other.
            let near = found[place..].iter().take_while(|(other, _)| other - at < SNIPPET - LEAD);
            let mut different: Vec<usize> = near.map(|(_, wanted)| *wanted).collect();
            different.sort_unstable();
            different.dedup();
            if different.len() > best.0 {
                best = (different.len(), *at);
            }
        }
        piece(text, best.1)
    }
}

/// A text as the index gets it.
pub(crate) fn indexed(text: &str) -> Cow<'_, str> {
    if !text.chars().any(stands_alone) {
        return Cow::Borrowed(text);
    }
    let mut spaced = String::with_capacity(text.len() * 2);
    for letter in text.chars() {
        let alone = stands_alone(letter);
        if alone {
            spaced.push(' ');
        }
        spaced.push(letter);
        if alone {
            spaced.push(' ');
        }
    }
    Cow::Owned(spaced)
}

/// Appends as much as keeps the text within its bound.
pub(crate) fn append(text: &mut String, more: &str, most: usize) {
    let room = most.saturating_sub(text.len());
    text.push_str(&more[..more.floor_char_boundary(room.min(more.len()))]);
}

/// Cuts a text at its bound.
pub(crate) fn shorten(text: &mut String, most: usize) {
    text.truncate(text.floor_char_boundary(most.min(text.len())));
}

/// The words of a text with the places at which they begin.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut rest = text.char_indices().peekable();
    std::iter::from_fn(move || {
        let (start, first) = rest.find(|(_, letter)| is_letter(*letter))?;
        let mut end = start + first.len_utf8();
        if !stands_alone(first) {
            while let Some((at, next)) = rest.next_if(|(_, next)| is_letter(*next) && !stands_alone(*next)) {
                end = at + next.len_utf8();
            }
        }
        Some((start, &text[start..end]))
    })
}

/// Whether a word is this one, or begins with it.
fn begins(word: &str, wanted: &str, open: bool) -> bool {
    let mut word = word.chars().flat_map(folded);
    let mut wanted = wanted.chars().flat_map(folded);
    loop {
        match (word.next(), wanted.next()) {
            (_, None) if open => return true,
            (None, None) => return true,
            (word, wanted) if word == wanted => {}
            _ => return false,
        }
    }
}

fn is_letter(letter: char) -> bool {
    letter.is_alphanumeric() || is_accent(letter)
}

/// Combining marks, which belong to the letter before them.
fn is_accent(letter: char) -> bool {
    matches!(letter, '\u{300}'..='\u{36f}')
}

/// Characters of scripts without spaces: each is a word.
fn stands_alone(letter: char) -> bool {
    matches!(letter,
        '\u{e00}'..='\u{e7f}' | '\u{e80}'..='\u{eff}' | '\u{1780}'..='\u{17ff}' | '\u{3040}'..='\u{30ff}'
        | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

/// A letter without case and accent, near enough to place a snippet; the index itself knows all accents.
fn folded(letter: char) -> impl Iterator<Item = char> {
    let plain = |letter: char| match letter {
        'à'..='å' => 'a',
        'ç' => 'c',
        'è'..='ë' => 'e',
        'ì'..='ï' => 'i',
        'ñ' => 'n',
        'ò'..='ö' => 'o',
        'ù'..='ü' => 'u',
        'ý' | 'ÿ' => 'y',
        other => other,
    };
    letter.to_lowercase().filter(|letter| !is_accent(*letter)).map(plain)
}

/// A piece of a text around the place `at`, on one line, with marks where it is cut.
fn piece(text: &str, at: usize) -> String {
    let before: Vec<(usize, char)> = text[..at].char_indices().rev().take(LEAD).collect();
    // At a space, so that no word is cut, if there is one.
    let space = before.iter().rev().find(|(_, letter)| letter.is_whitespace());
    let start = match before.last() {
        Some((0, _)) | None => 0,
        Some((first, _)) => space.map_or(*first, |(at, _)| *at),
    };
    let mut out = String::from(if start > 0 { "\u{2026}" } else { "" });
    let mut length = 0;
    for word in text[start..].split_whitespace() {
        if length > 0 {
            out.push(' ');
            length += 1;
        }
        for letter in word.chars() {
            if length >= SNIPPET {
                out.truncate(out.trim_end().len());
                out.push('\u{2026}');
                return out;
            }
            out.push(letter);
            length += 1;
        }
    }
    out
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn expression(term: &str) -> String {
        SearchTerm::parse(term).unwrap().expression()
    }

    #[test]
    fn nothing_that_is_typed_is_syntax() {
        assert_eq!(expression("say \"NEAR(a b)\" OR x*"), "\"say\" \"NEAR a\" \"b\" \"OR\" \"x\"");
        assert_eq!(expression("body:secret -not ^first"), "\"body secret\" \"not\" \"first\" *");
        assert_eq!(expression("\"unbalanced"), "\"unbalanced\" *");
        assert_eq!(expression("a\0b "), "\"a b\"");
        for blank in ["", "  \t\n", "->", "\"\" *", "🦀"] {
            assert_eq!(SearchTerm::parse(blank), Err(SearchTermError::Empty), "{blank:?}");
        }
        assert_eq!(SearchTerm::parse(&"x".repeat(1001)), Err(SearchTermError::TooLong));
        assert_eq!(SearchTerm::parse(&"x ".repeat(65)), Err(SearchTermError::TooMany));
    }

    #[test]
    fn code_stays_together_and_the_last_word_goes_on() {
        assert_eq!(expression("fn commit_new("), "\"fn\" \"commit new\"");
        assert_eq!(expression("Vec::pus"), "\"Vec pus\" *");
        assert_eq!(expression("検索する"), "\"検 索 す る\" *");
        assert_eq!(indexed("の検索 index"), " の  検  索  index");
        assert!(matches!(indexed("plain"), Cow::Borrowed("plain")));
    }

    #[test]
    fn a_snippet_shows_where_most_words_are() {
        let snippet = |text: &str, term: &str| SearchTerm::parse(term).unwrap().snippet(text);
        assert_eq!(snippet("Fix the\n  Söckets, please", "sockets"), "Fix the Söckets, please");
        let far = format!("alpha {} alpha and beta close {}", "x ".repeat(300), "y ".repeat(300));
        let shown = snippet(&far, "beta alpha");
        assert!(shown.contains("alpha and beta close"), "{shown}");
        assert!(shown.starts_with('…') && shown.ends_with('…'), "{shown}");
        assert!(shown.chars().count() <= SNIPPET + 2, "{}", shown.chars().count());
        // Nothing that this knows to be a match: the beginning.
        assert_eq!(snippet("something else", "none "), "something else");
        assert_eq!(snippet("", "none"), "");
        assert_eq!(snippet(&"語".repeat(1000), "語").chars().count(), SNIPPET + 1);
    }

    #[test]
    fn texts_are_cut_between_letters() {
        let mut text = "aé".to_owned();
        append(&mut text, "éé", 6);
        assert_eq!(text, "aéé");
        shorten(&mut text, 2);
        assert_eq!(text, "a");
    }
}
