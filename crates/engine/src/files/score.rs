//! Which paths fit a few letters best. Pure, save that it can be stopped.

use std::cmp::Reverse;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::walk::Listing;

/// For each letter that is matched.
const LETTER: u32 = 16;
/// A letter right behind the one that was matched before it.
const NEXT: u32 = 12;
/// The first letter of a file's or directory's name.
const NAME: u32 = 10;
/// The first letter of a word inside a name.
const WORD: u32 = 8;
/// A match that begins in the last name of the path.
const LAST: u32 = 6;

/// A path that fits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hit {
    /// Place of its root in the query.
    pub root: usize,
    /// Relative to the root.
    pub path: String,
    /// Whether it is a directory.
    pub directory: bool,
    /// Greater is better.
    pub score: u32,
    /// Places of the matched characters, ascending.
    pub indices: Vec<u32>,
}

/// The best of several listings. Of equal ones the shorter path comes first.
pub(super) fn best(
    query: &str,
    listings: &[(usize, Arc<Listing>)],
    most: usize,
    stop: &CancellationToken,
) -> Vec<Hit> {
    let mut matcher = Matcher::new(query);
    let mut fitting = Vec::new();
    for (root, listing) in listings {
        for (number, (path, directory)) in listing.entries().enumerate() {
            if number % 1024 == 0 && stop.is_cancelled() {
                return Vec::new();
            }
            if let Some(score) = matcher.score(path) {
                fitting.push((Reverse(score), path.len(), path, *root, directory));
            }
        }
    }
    fitting.sort_unstable();
    fitting.truncate(most);
    let hit = |(score, _, path, root, directory): (Reverse<u32>, usize, &str, usize, bool)| {
        matcher.score(path);
        let mut indices = matcher.places.clone();
        indices.sort_unstable();
        indices.dedup();
        Hit { root, path: path.to_owned(), directory, score: score.0, indices }
    };
    fitting.into_iter().map(hit).collect()
}

/// Finds the letters of each word of a query in a path, in their order and as near each other as a look back finds them.
/// Every character of the query is itself: none is an operator.
struct Matcher {
    words: Vec<Word>,
    /// Characters of the path, and the same in lower case.
    letters: Vec<char>,
    lower: Vec<char>,
    /// Where the characters of the query are, in the path that was looked at last.
    places: Vec<u32>,
}

/// A word of a query.
struct Word {
    letters: Vec<char>,
    /// Upper case counts, because the word has some.
    exact: bool,
}

impl Matcher {
    fn new(query: &str) -> Self {
        let word = |word: &str| Word {
            letters: word.chars().collect(),
            exact: word.chars().any(char::is_uppercase),
        };
        let words = query.split_whitespace().map(word).collect();
        Self { words, letters: Vec::new(), lower: Vec::new(), places: Vec::new() }
    }

    /// How well the path fits; none if it does not.
    fn score(&mut self, path: &str) -> Option<u32> {
        self.places.clear();
        self.letters.clear();
        self.letters.extend(path.chars());
        self.lower.clear();
        self.lower.extend(self.letters.iter().copied().map(plain));
        let last = self.letters.iter().rposition(|letter| *letter == '/').map_or(0, |slash| slash + 1);
        let mut whole = 0;
        for word in &self.words {
            let text = if word.exact { &self.letters } else { &self.lower };
            // Whatever is in the last name is meant before what is in the directories above it.
            let found = nearest(text, &word.letters, last).map(|places| (places, LAST));
            let anywhere = || nearest(text, &word.letters, 0).map(|places| (places, 0));
            let (places, bonus) = found.or_else(anywhere)?;
            whole += bonus + weight(&self.letters, &places);
            self.places.extend(places.into_iter().map(|place| u32::try_from(place).unwrap_or(u32::MAX)));
        }
        (!self.words.is_empty()).then_some(whole)
    }
}

/// A letter in lower case, as one letter.
fn plain(letter: char) -> char {
    match letter {
        'A'..='Z' => letter.to_ascii_lowercase(),
        '\0'..='\x7f' => letter,
        _ => letter.to_lowercase().next().unwrap_or(letter),
    }
}

/// Places of the wanted letters from a place on: where they first are complete, drawn together from behind.
fn nearest(text: &[char], wanted: &[char], from: usize) -> Option<Vec<usize>> {
    let mut end = from;
    for letter in wanted {
        end += text[end..].iter().position(|other| other == letter)? + 1;
    }
    if let Some(start) = text[from..].windows(wanted.len()).position(|window| window == wanted) {
        return Some((from + start..from + start + wanted.len()).collect());
    }
    let mut places = Vec::with_capacity(wanted.len());
    for letter in wanted.iter().rev() {
        end = text[..end].iter().rposition(|other| other == letter)?;
        places.push(end);
    }
    places.reverse();
    Some(places)
}

fn weight(letters: &[char], places: &[usize]) -> u32 {
    let mut before = None;
    let mut sum = 0;
    for place in places {
        let ahead = place.checked_sub(1).map(|ahead| letters[ahead]);
        sum += LETTER;
        sum += match ahead {
            None | Some('/') => NAME,
            Some(ahead) if !ahead.is_alphanumeric() => WORD,
            Some(ahead) if ahead.is_lowercase() && letters[*place].is_uppercase() => WORD,
            Some(_) => 0,
        };
        if before.is_some_and(|before: usize| before + 1 == *place) {
            sum += NEXT;
        }
        before = Some(*place);
    }
    sum
}
