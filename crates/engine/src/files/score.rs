//! Which paths fit a few letters best. Pure, save that it can be stopped.

use std::cmp::Reverse;
use std::sync::Arc;

use nucleo_matcher::pattern::{AtomKind, CaseMatching, Normalization, Pattern};
use nucleo_matcher::{Config, Matcher, Utf32Str};
use tokio_util::sync::CancellationToken;

use super::walk::Listing;

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
    // Every character of the query is itself: none is an operator.
    let pattern = Pattern::new(query, CaseMatching::Smart, Normalization::Smart, AtomKind::Fuzzy);
    let mut matcher = Matcher::new(Config::DEFAULT.match_paths());
    let mut letters = Vec::new();
    let mut fitting = Vec::new();
    for (root, listing) in listings {
        for (number, (path, directory)) in listing.entries().enumerate() {
            if number % 1024 == 0 && stop.is_cancelled() {
                return Vec::new();
            }
            if let Some(score) = pattern.score(Utf32Str::new(path, &mut letters), &mut matcher) {
                fitting.push((Reverse(score), path.len(), path, *root, directory));
            }
        }
    }
    fitting.sort_unstable();
    fitting.truncate(most);
    let hit = |(score, _, path, root, directory): (Reverse<u32>, usize, &str, usize, bool)| {
        let mut indices = Vec::new();
        pattern.indices(Utf32Str::new(path, &mut letters), &mut matcher, &mut indices);
        indices.sort_unstable();
        indices.dedup();
        Hit { root, path: path.to_owned(), directory, score: score.0, indices }
    };
    fitting.into_iter().map(hit).collect()
}
