//! Finds which deleted file lives on under which new name: equal contents first, then similar ones.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Instant;

use git2::Oid;

use super::change::{Change, Side};
use super::render::Source;
use super::scan::RelPath;
use super::stamp::Mode;

/// A similarity, in percent, from which on a file counts as renamed; git's own.
const THRESHOLD: u64 = 50;
/// Files on either side beyond which only equal contents are looked for.
const MAX_CANDIDATES: usize = 64;
/// Larger files are compared by their hash only.
const MAX_BYTES: u64 = 512 << 10;

/// Joins the deletion and the addition of each renamed file.
pub(super) fn pair(changes: Vec<Change>, source: &Source<'_>, deadline: Instant) -> Vec<Change> {
    let (mut deleted, mut added, mut rest) = (Vec::new(), Vec::new(), Vec::new());
    for change in changes {
        match change {
            Change { old: Some((path, side)), new: None } if is_file(&side) => {
                deleted.push(Some((path, side)))
            }
            Change { old: None, new: Some((path, side)) } if is_file(&side) => added.push(Some((path, side))),
            other => rest.push(other),
        }
    }
    pair_equal(&mut deleted, &mut added, &mut rest);
    deleted.retain(Option::is_some);
    added.retain(Option::is_some);
    if deleted.len() <= MAX_CANDIDATES && added.len() <= MAX_CANDIDATES {
        pair_similar(&mut deleted, &mut added, &mut rest, source, deadline);
    }
    rest.extend(deleted.into_iter().flatten().map(|old| Change { old: Some(old), new: None }));
    rest.extend(added.into_iter().flatten().map(|new| Change { old: None, new: Some(new) }));
    rest
}

type Candidate = Option<(RelPath, Side)>;

/// Empty files have nothing to be recognised by.
fn is_file(side: &Side) -> bool {
    matches!(side.mode, Mode::Regular | Mode::Executable) && side.size > 0
}

fn pair_equal(deleted: &mut [Candidate], added: &mut [Candidate], pairs: &mut Vec<Change>) {
    let mut by_oid: HashMap<Oid, Vec<usize>> = HashMap::new();
    for (index, (_, side)) in deleted.iter().flatten().enumerate() {
        if let Some(oid) = side.oid() {
            by_oid.entry(oid).or_default().push(index);
        }
    }
    for slot in added {
        let Some((path, side)) = slot.as_ref() else { continue };
        let Some(homes) = side.oid().and_then(|oid| by_oid.get_mut(&oid)).filter(|homes| !homes.is_empty())
        else {
            continue;
        };
        // Of several equal files the one with the same name.
        let namesake = homes
            .iter()
            .position(|&index| {
                deleted.get(index).and_then(Option::as_ref).is_some_and(|(old, _)| name(old) == name(path))
            })
            .unwrap_or(0);
        let index = homes.swap_remove(namesake);
        let old = deleted.get_mut(index).and_then(Option::take);
        pairs.push(Change { old, new: slot.take() });
    }
}

fn name(path: &[u8]) -> &[u8] {
    path.rsplit(|&byte| byte == b'/').next().unwrap_or_default()
}

fn pair_similar(
    deleted: &mut [Candidate],
    added: &mut [Candidate],
    pairs: &mut Vec<Change>,
    source: &Source<'_>,
    deadline: Instant,
) {
    if deleted.is_empty() || added.is_empty() {
        return;
    }
    let old: Vec<Option<Lines>> = deleted
        .iter()
        .map(|candidate| {
            let (_, side) = candidate.as_ref().filter(|(_, side)| side.size <= MAX_BYTES)?;
            source.old_bytes(side).map(|bytes| Lines::of(&bytes))
        })
        .collect();
    let mut scores = Vec::new();
    for (to, candidate) in added.iter().enumerate() {
        if Instant::now() >= deadline {
            return;
        }
        let Some((path, side)) = candidate.as_ref().filter(|(_, side)| side.size <= MAX_BYTES) else {
            continue;
        };
        let Some(new) = source.new_bytes(path, side).map(|bytes| Lines::of(&bytes)) else { continue };
        for (from, old) in old.iter().enumerate() {
            let score = old.as_ref().map_or(0, |old| old.similarity(&new));
            if score >= THRESHOLD {
                scores.push((score, from, to));
            }
        }
    }
    scores.sort_by_key(|&(score, from, to)| (std::cmp::Reverse(score), from, to));
    for (_, from, to) in scores {
        let (Some(old), Some(new)) = (deleted.get_mut(from), added.get_mut(to)) else { continue };
        if old.is_some() && new.is_some() {
            pairs.push(Change { old: old.take(), new: new.take() });
        }
    }
}

/// A text as a bag of lines.
pub(super) struct Lines {
    /// Bytes in all lines with that hash.
    bytes: HashMap<u64, u64>,
    total: u64,
}

impl Lines {
    pub(super) fn of(text: &[u8]) -> Self {
        let mut bytes = HashMap::new();
        for line in text.split_inclusive(|&byte| byte == b'\n') {
            let mut hasher = DefaultHasher::new();
            line.hash(&mut hasher);
            *bytes.entry(hasher.finish()).or_insert(0) += line.len() as u64;
        }
        Self { bytes, total: text.len() as u64 }
    }

    /// Percent of the larger text that both have in common.
    pub(super) fn similarity(&self, other: &Self) -> u64 {
        let larger = self.total.max(other.total);
        if larger == 0 || self.total.min(other.total) * 100 < larger * THRESHOLD {
            return 0;
        }
        let common: u64 = self
            .bytes
            .iter()
            .map(|(line, size)| other.bytes.get(line).map_or(0, |other| *size.min(other)))
            .sum();
        common * 100 / larger
    }
}
