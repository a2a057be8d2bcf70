//! Structured changes of files and the git patch beside them, as the diffs of single files.

use std::collections::HashMap;
use std::path::Path;

use signalbox_facts::{FileChangeKind, FileDiff};

use super::content::path;
use super::fields::{Object, into_object, take_filled, take_list, take_object, text};

/// Files of one change; more are left out.
const MAX_FILES: usize = 1000;
/// A patch longer than this is not read: the files are told without their lines.
const PATCH_BYTES: usize = 8 << 20;

/// The files that a change touches. The list of changes says which they are, the patch what happens in them; a file that
/// is only in one of them is told all the same.
pub(crate) fn changes(object: &mut Object, cwd: &Path) -> Vec<FileDiff> {
    let patch = take_object(object, "patch").unwrap_or_default();
    let mut hunks = match (text(&patch, "format"), text(&patch, "text")) {
        (Some("git_patch") | None, Some(patch)) if patch.len() <= PATCH_BYTES => sections(patch),
        _ => HashMap::new(),
    };
    let list = take_list(object, "changes").unwrap_or_default();
    let changes = list.into_iter().take(MAX_FILES).filter_map(|change| {
        let mut change = into_object(change).ok()?;
        let to = take_filled(&mut change, "path")?;
        let from = take_filled(&mut change, "oldPath");
        let (file, kind) = match (text(&change, "operation"), from) {
            (Some("add"), _) => (to.clone(), FileChangeKind::Add),
            (Some("delete"), _) => (to.clone(), FileChangeKind::Delete),
            (Some("move"), Some(from)) => (from, FileChangeKind::Update { move_path: Some(path(&to, cwd)) }),
            // The copy is new; what it was copied from stays.
            (Some("copy"), _) => (to.clone(), FileChangeKind::Add),
            _ => (to.clone(), FileChangeKind::Update { move_path: None }),
        };
        let unified = hunks.remove(&to).or_else(|| hunks.remove(&file));
        let unified = unified.map(|section| section.hunks).unwrap_or_default();
        Some(FileDiff { path: path(&file, cwd), kind, unified, truncated: false })
    });
    let mut all: Vec<_> = changes.collect();
    let mut rest: Vec<_> = hunks.into_iter().collect();
    rest.sort_by(|a, b| a.0.cmp(&b.0));
    all.extend(rest.into_iter().take(MAX_FILES).map(|(file, section)| FileDiff {
        path: path(&file, cwd),
        kind: section.kind,
        unified: section.hunks,
        truncated: false,
    }));
    all
}

struct Section {
    kind: FileChangeKind,
    hunks: String,
}

/// The hunks of each file, by the name it has afterwards (or had, if it goes).
fn sections(patch: &str) -> HashMap<String, Section> {
    let mut all = HashMap::new();
    let mut current = Header::default();
    let mut hunks = String::new();
    // Lines that still belong to the hunk: what looks like a header in there is text.
    let (mut old, mut new) = (0_u64, 0_u64);
    for line in patch.split_inclusive('\n') {
        if old > 0 || new > 0 || line.starts_with('\\') {
            match line.as_bytes().first() {
                Some(b'+') => new = new.saturating_sub(1),
                Some(b'-') => old = old.saturating_sub(1),
                Some(b'\\') => {}
                _ => (old, new) = (old.saturating_sub(1), new.saturating_sub(1)),
            }
            hunks.push_str(line);
            continue;
        }
        let bare = line.trim_end_matches(['\n', '\r']);
        if let Some((was, is)) = hunk(bare) {
            (old, new) = (was, is);
            hunks.push_str(line);
        } else if bare.starts_with("diff --git ") {
            current.close(&mut hunks, &mut all);
        } else if let Some(name) = bare.strip_prefix("--- ") {
            current.old = file_name(name);
        } else if let Some(name) = bare.strip_prefix("+++ ") {
            current.new = file_name(name);
        }
    }
    current.close(&mut hunks, &mut all);
    all
}

#[derive(Default)]
struct Header {
    old: Option<String>,
    new: Option<String>,
}

impl Header {
    fn close(&mut self, hunks: &mut String, all: &mut HashMap<String, Section>) {
        let Self { old, new } = std::mem::take(self);
        let mut hunks = std::mem::take(hunks);
        if !hunks.is_empty() && !hunks.ends_with('\n') {
            hunks.push('\n');
        }
        let (name, kind) = match (old, new) {
            (Some(_), Some(new)) => (new, FileChangeKind::Update { move_path: None }),
            (None, Some(new)) => (new, FileChangeKind::Add),
            (Some(old), None) => (old, FileChangeKind::Delete),
            (None, None) => return,
        };
        all.insert(name, Section { kind, hunks });
    }
}

/// The numbers of old and new lines of a hunk, from its first line.
fn hunk(line: &str) -> Option<(u64, u64)> {
    let (ranges, _) = line.strip_prefix("@@ -")?.split_once(" @@")?;
    let (old, new) = ranges.split_once(" +")?;
    let count = |range: &str| match range.split_once(',') {
        Some((_, count)) => count.parse().ok(),
        None => Some(1),
    };
    Some((count(old)?, count(new)?))
}

/// A file's name as git writes it: in quotes where it has unusual characters; `/dev/null` is none.
fn file_name(name: &str) -> Option<String> {
    let name = name.split('\t').next().unwrap_or(name);
    if name == "/dev/null" {
        return None;
    }
    let Some(quoted) = name.strip_prefix('"').and_then(|name| name.strip_suffix('"')) else {
        return Some(name.to_owned());
    };
    let mut bytes = Vec::with_capacity(quoted.len());
    let mut rest = quoted.bytes().peekable();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        match rest.next()? {
            b'n' => bytes.push(b'\n'),
            b't' => bytes.push(b'\t'),
            b'r' => bytes.push(b'\r'),
            b'a' => bytes.push(7),
            b'b' => bytes.push(8),
            b'v' => bytes.push(11),
            b'f' => bytes.push(12),
            first @ b'0'..=b'7' => {
                let mut value = u32::from(first - b'0');
                for _ in 0..2 {
                    if let Some(digit @ b'0'..=b'7') = rest.peek().copied() {
                        value = value * 8 + u32::from(digit - b'0');
                        rest.next();
                    }
                }
                bytes.push(u8::try_from(value).ok()?);
            }
            other => bytes.push(other),
        }
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Whether a piece of content has this shape.
pub(crate) fn is_structured(object: &Object) -> bool {
    text(object, "type") == Some("diff") && (object.contains_key("changes") || object.contains_key("patch"))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use serde_json::{Value, json};

    use super::*;

    fn of(value: Value) -> Vec<FileDiff> {
        let Value::Object(mut object) = value else { panic!() };
        changes(&mut object, Path::new("/w"))
    }

    #[test]
    fn each_file_gets_its_hunks() {
        let patch = "diff --git /w/a.txt /w/a.txt\n--- /w/a.txt\n+++ /w/a.txt\n@@ -1,2 +1,2 @@ fn x\n same\n-old\n+new\n\
            @@ -9 +9 @@\n--- not a header\n+++ nor this\n\
            diff --git \"/w/\\303\\244.txt\" \"/w/\\303\\244.txt\"\nnew file mode 100644\n--- /dev/null\n\
            +++ \"/w/\\303\\244.txt\"\n@@ -0,0 +1 @@\n+x\n\\ No newline at end of file\n\
            diff --git /w/gone /w/gone\n--- /w/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-bye\n";
        let diffs = of(json!({"type":"diff","changes":[
            {"operation":"modify","path":"/w/a.txt"},{"operation":"add","path":"/w/ä.txt","fileType":"text"},
            {"operation":"delete","path":"/w/gone"}],"patch":{"format":"git_patch","text":patch}}));
        let found: Vec<_> = diffs.iter().map(|diff| (diff.path.to_str().unwrap(), &diff.kind)).collect();
        let update = FileChangeKind::Update { move_path: None };
        assert_eq!(
            found,
            [("/w/a.txt", &update), ("/w/ä.txt", &FileChangeKind::Add), ("/w/gone", &FileChangeKind::Delete)]
        );
        assert_eq!(
            diffs[0].unified,
            "@@ -1,2 +1,2 @@ fn x\n same\n-old\n+new\n@@ -9 +9 @@\n--- not a header\n+++ nor this\n"
        );
        assert_eq!(diffs[1].unified, "@@ -0,0 +1 @@\n+x\n\\ No newline at end of file\n");
    }

    #[test]
    fn moves_and_changes_without_a_patch_are_told() {
        let diffs = of(json!({"type":"diff","changes":[
            {"operation":"move","oldPath":"/w/a","path":"/w/b"},{"operation":"copy","oldPath":"/w/a","path":"/w/c"},
            {"operation":"_shred","path":"/w/d"},{"operation":"add"},7]}));
        let kinds: Vec<_> = diffs.iter().map(|diff| diff.kind.clone()).collect();
        let moved = FileChangeKind::Update { move_path: Some(PathBuf::from("/w/b")) };
        assert_eq!(kinds, [moved, FileChangeKind::Add, FileChangeKind::Update { move_path: None }]);
        assert!(diffs.iter().all(|diff| diff.unified.is_empty()));
    }

    #[test]
    fn a_patch_alone_and_an_unreadable_one_do_no_harm() {
        let alone = of(
            json!({"type":"diff","patch":{"format":"git_patch","text":"--- /w/a\n+++ /w/a\n@@ -1 +1 @@\n-a\n+b"}}),
        );
        assert_eq!((alone.len(), alone[0].unified.as_str()), (1, "@@ -1 +1 @@\n-a\n+b\n"));
        let odd = of(json!({"type":"diff","changes":[{"operation":"modify","path":"/w/a"}],
            "patch":{"format":"git_patch","text":"@@ -9999999999999999999999 +1 @@\nwords\n\\\n\"--- \"\n"}}));
        assert_eq!((odd.len(), odd[0].unified.as_str()), (1, ""));
    }
}
