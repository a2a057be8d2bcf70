//! The unified diff of one file's change, from the texts that a tool call carries. Pure and bounded.

use std::path::PathBuf;
use std::time::Duration;

use signalbox_facts::{FileChangeKind, FileDiff};
use similar::TextDiff;

/// Texts above this are not compared line by line.
const MAX_TEXT_BYTES: usize = 1 << 20;
/// A diff above this is cut.
const MAX_DIFF_BYTES: usize = 256 << 10;
/// Comparing gives up refining after this long; the diff stays correct.
const DEADLINE: Duration = Duration::from_millis(100);

/// Makes the diff of a change. `old` is absent for a new file; an empty `new` of a `delete` means that the file goes.
#[must_use]
pub(crate) fn file_diff(path: PathBuf, old: Option<&str>, new: &str, delete: bool) -> FileDiff {
    let kind = match (old, delete) {
        (_, true) => FileChangeKind::Delete,
        (None, false) => FileChangeKind::Add,
        (Some(_), false) => FileChangeKind::Update { move_path: None },
    };
    let old = old.unwrap_or("");
    if old.len() + new.len() > MAX_TEXT_BYTES {
        let unified = format!("@@ too large to compare: {} and {} bytes @@\n", old.len(), new.len());
        return FileDiff { path, kind, unified, truncated: true };
    }
    let diff = TextDiff::configure().timeout(DEADLINE).diff_lines(old, new);
    let unified = diff.unified_diff().context_radius(3).missing_newline_hint(true).to_string();
    let (unified, truncated) = cut(unified);
    FileDiff { path, kind, unified, truncated }
}

/// A diff that came as one, not longer than one of ours.
#[must_use]
pub(crate) fn bounded_diff(diff: FileDiff) -> FileDiff {
    let (unified, cut) = cut(diff.unified);
    FileDiff { unified, truncated: diff.truncated || cut, ..diff }
}

fn cut(mut unified: String) -> (String, bool) {
    if unified.len() <= MAX_DIFF_BYTES {
        return (unified, false);
    }
    let end = unified[..unified.floor_char_boundary(MAX_DIFF_BYTES)].rfind('\n').map_or(0, |at| at + 1);
    unified.truncate(end);
    (unified, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_file_is_all_additions() {
        let diff = file_diff("/a".into(), None, "one\ntwo\n", false);
        assert_eq!(
            (diff.kind, diff.unified.as_str()),
            (FileChangeKind::Add, "@@ -0,0 +1,2 @@\n+one\n+two\n")
        );
    }

    #[test]
    fn a_changed_line_shows_both() {
        let diff = file_diff("/a".into(), Some("one\ntwo\n"), "one\nTwo\n", false);
        assert_eq!(diff.unified, "@@ -1,2 +1,2 @@\n one\n-two\n+Two\n");
    }

    #[test]
    fn a_huge_diff_is_cut_at_a_line() {
        let new = "0123456789abcdef\n".repeat(30_000);
        let diff = file_diff("/a".into(), None, &new, false);
        assert!(diff.truncated && diff.unified.len() <= MAX_DIFF_BYTES && diff.unified.ends_with('\n'));
    }
}
