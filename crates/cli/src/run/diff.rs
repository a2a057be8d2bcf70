//! Changes of files as coloured unified diffs.

use std::io;
use std::path::{Component, Path};

use signalbox_protocol::app::{FileUpdateChange, PatchChangeKind};

use super::clean;
use super::screen::{BAD, BOLD, DIM, GOOD, PLACE, PLAIN, Screen};

/// Lines of one change that are shown.
const LINES: usize = 200;

/// Shows changes, each with its heading.
pub(super) fn show(screen: &mut Screen, cwd: &str, changes: &[FileUpdateChange]) -> io::Result<()> {
    if changes.is_empty() {
        return screen.line(format_args!("{BOLD}± files{BOLD:#}"));
    }
    for change in changes {
        heading(screen, cwd, change)?;
        let text = clean::clean(&change.diff);
        let lines: Vec<&str> = body(&change.kind, &text).collect();
        for line in lines.iter().take(LINES) {
            one(screen, &change.kind, line)?;
        }
        if lines.len() > LINES {
            screen.bar(DIM, &format!("… {} more lines …", lines.len() - LINES))?;
        }
    }
    Ok(())
}

/// Shows only which files are changed, and how much.
pub(super) fn headings(screen: &mut Screen, cwd: &str, changes: &[FileUpdateChange]) -> io::Result<()> {
    changes.iter().try_for_each(|change| heading(screen, cwd, change))
}

fn heading(screen: &mut Screen, cwd: &str, change: &FileUpdateChange) -> io::Result<()> {
    let path = clean::line(within(cwd, &change.path));
    let (added, removed) = count(&change.kind, &change.diff);
    let what = match &change.kind {
        PatchChangeKind::Add => format!("new, +{added}"),
        PatchChangeKind::Delete => format!("deleted, -{removed}"),
        PatchChangeKind::Update { move_path: Some(to) } => {
            format!("moved to {}, +{added} -{removed}", clean::line(within(cwd, to)))
        }
        // A directory, or a change of which nothing is known.
        PatchChangeKind::Update { move_path: None } if change.diff.trim().is_empty() => {
            return screen.line(format_args!("{BOLD}± {path}{BOLD:#}"));
        }
        PatchChangeKind::Update { move_path: None } => format!("+{added} -{removed}"),
    };
    screen.line(format_args!("{BOLD}± {path}{BOLD:#} {DIM}({what}){DIM:#}"))
}

/// A path as seen from the session's directory.
pub(super) fn within<'p>(cwd: &str, path: &'p str) -> &'p str {
    match path.strip_prefix(cwd).and_then(|rest| rest.strip_prefix('/')) {
        Some(inside) if !inside.is_empty() => inside,
        _ => path,
    }
}

/// The first of the changed files that lies outside the session's directory.
pub(super) fn outside(cwd: &str, changes: &[FileUpdateChange]) -> Option<String> {
    let far = changes.iter().find(|change| {
        let path = Path::new(&change.path);
        (path.is_absolute() && !path.starts_with(cwd))
            || path.components().any(|part| part == Component::ParentDir)
    });
    far.map(|change| clean::line(&change.path))
}

/// The lines that tell something: without the names of the files, which stand in the heading.
fn body<'t>(kind: &PatchChangeKind, text: &'t str) -> impl Iterator<Item = &'t str> {
    let in_hunks = !matches!(kind, PatchChangeKind::Update { .. });
    let mut begun = in_hunks || !text.contains("@@");
    text.lines().filter(move |line| {
        begun = begun || line.starts_with("@@");
        begun
    })
}

fn one(screen: &mut Screen, kind: &PatchChangeKind, line: &str) -> io::Result<()> {
    let (mark, style) = match kind {
        PatchChangeKind::Add => ("+", GOOD),
        PatchChangeKind::Delete => ("-", BAD),
        PatchChangeKind::Update { .. } if line.starts_with('+') => ("", GOOD),
        PatchChangeKind::Update { .. } if line.starts_with('-') => ("", BAD),
        PatchChangeKind::Update { .. } if line.starts_with("@@") => ("", PLACE),
        PatchChangeKind::Update { .. } => ("", PLAIN),
    };
    screen.bar(style, &format!("{mark}{line}"))
}

fn count(kind: &PatchChangeKind, diff: &str) -> (usize, usize) {
    match kind {
        PatchChangeKind::Add => (diff.lines().count(), 0),
        PatchChangeKind::Delete => (0, diff.lines().count()),
        PatchChangeKind::Update { .. } => counted(diff),
    }
}

/// Added and removed lines of a unified diff. The lengths of its hunks tell lines from headings.
fn counted(diff: &str) -> (usize, usize) {
    let (mut added, mut removed, mut in_hunk) = (0, 0, false);
    for line in diff.lines() {
        if line.starts_with("@@") {
            in_hunk = true;
        } else if line.starts_with("diff --git ") {
            in_hunk = false;
        } else if in_hunk {
            added += usize::from(line.starts_with('+'));
            removed += usize::from(line.starts_with('-'));
        }
    }
    (added, removed)
}

/// How many files a diff of a whole turn changes, and how many lines.
pub(super) fn summary(diff: &str) -> String {
    let files = diff.lines().filter(|line| line.starts_with("diff --git ")).count();
    let files = if files == 0 { diff.lines().filter(|line| line.starts_with("+++ ")).count() } else { files };
    let (added, removed) = counted(diff);
    format!("{files} {} changed, +{added} -{removed}", if files == 1 { "file" } else { "files" })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIFF: &str = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,3 @@\n one\n-two\n+2\n+3\n";

    #[test]
    fn a_turn_is_summed_up() {
        assert_eq!(summary(DIFF), "1 file changed, +2 -1");
        let two = format!(
            "{DIFF}diff --git a/y b/y\nnew file mode 100644\n--- /dev/null\n+++ b/y\n@@ -0,0 +1 @@\n+y\n"
        );
        assert_eq!(summary(&two), "2 files changed, +3 -1");
        assert_eq!(summary("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"), "1 file changed, +1 -1");
    }

    #[test]
    fn paths_are_shown_from_the_directory() {
        assert_eq!(within("/work/app", "/work/app/src/x.rs"), "src/x.rs");
        assert_eq!(within("/work/app", "/work/apple/x.rs"), "/work/apple/x.rs");
        assert_eq!(within("/work/app", "/etc/passwd"), "/etc/passwd");
    }

    #[test]
    fn the_names_of_files_are_no_lines_of_a_diff() {
        let update = PatchChangeKind::Update { move_path: None };
        let lines: Vec<_> = body(&update, DIFF).collect();
        assert_eq!(lines.first(), Some(&"@@ -1,2 +1,3 @@"));
        assert_eq!(count(&update, DIFF), (2, 1));
        assert_eq!(count(&PatchChangeKind::Add, "a\nb\n"), (2, 0));
    }
}
