//! Writes changes as a unified diff in git's style.

use std::fmt::Write as _;
use std::path::Path;

use git2::{AttrCheckFlags, AttrValue, DiffOptions, Oid, Patch, Repository};
use sha2::{Digest, Sha256};

use super::blobs::BlobStore;
use super::change::{Change, Side};
use super::content::{self, Content};
use super::renames::Lines;
use super::scan::RelPath;
use super::stamp::{FileTime, Mode, Stamp};

/// A diff that grows up to a bound.
#[derive(Debug)]
pub(super) struct Output {
    text: String,
    max_bytes: usize,
    truncated: bool,
}

impl Output {
    pub(super) fn new(max_bytes: usize) -> Self {
        Self { text: String::new(), max_bytes, truncated: false }
    }

    /// The diff, and whether something was left out.
    pub(super) fn finish(self) -> (String, bool) {
        (self.text, self.truncated)
    }

    /// Whether hardly another header would fit: time to stop looking for more.
    pub(super) fn is_full(&self) -> bool {
        self.truncated && !self.fits(256)
    }

    fn fits(&self, bytes: usize) -> bool {
        self.text.len().saturating_add(bytes) <= self.max_bytes
    }

    /// Adds a file: wholly, or only its header, which still tells that it changed, or not at all.
    fn add(&mut self, header: &str, body: &str) {
        if self.fits(header.len() + body.len()) {
            self.text.push_str(header);
            self.text.push_str(body);
            return;
        }
        self.truncated = true;
        if self.fits(header.len()) {
            self.text.push_str(header);
        }
    }
}

/// Where the contents of changed files come from.
pub(super) struct Source<'a> {
    pub(super) repo: &'a Repository,
    pub(super) store: &'a BlobStore,
    pub(super) workdir: &'a Path,
    pub(super) prefix: &'a [u8],
    pub(super) max_file_bytes: u64,
}

/// One side with its bytes.
struct Loaded {
    mode: Mode,
    oid: Option<Oid>,
    /// `None` if not known or too many.
    bytes: Option<Vec<u8>>,
}

impl Source<'_> {
    pub(super) fn old_bytes(&self, side: &Side) -> Option<Vec<u8>> {
        content::recall(self.repo, self.store, side.content, self.max_file_bytes)
    }

    pub(super) fn new_bytes(&self, path: &[u8], side: &Side) -> Option<Vec<u8>> {
        match side.content {
            Content::Kept(_) => {
                let unknown = FileTime { secs: 0, nanos: 0 };
                let stamp =
                    Stamp { mode: side.mode, size: side.size, mtime: unknown, ctime: unknown, ino: 0 };
                let path = self.workdir.join(as_path(path));
                content::read(&path, &stamp, self.max_file_bytes).ok().map(|(bytes, _)| bytes)
            }
            other => content::recall(self.repo, self.store, other, self.max_file_bytes),
        }
    }

    /// Adds one change to the diff, unless its sides turn out to be equal after all. Whether it is exact.
    pub(super) fn render(&self, change: &Change, output: &mut Output) -> bool {
        let mut old = change.old.as_ref().map(|(_, side)| self.load_old(side));
        let mut new = change.new.as_ref().map(|(path, side)| self.load_new(path, side));
        let path = change.new.as_ref().or(change.old.as_ref()).map_or(&[][..], |(path, _)| path);
        let mut binary = self.never_as_text(path);
        if let (Some(old), Some(new)) = (&mut old, &mut new) {
            let canonical = change
                .old
                .as_ref()
                .is_some_and(|(_, side)| matches!(side.content, Content::Index(_) | Content::Guess(_)));
            let from_disk =
                change.new.as_ref().is_some_and(|(_, side)| matches!(side.content, Content::Kept(_)));
            if canonical && from_disk {
                match self.reconcile(path, old, new) {
                    Reconciled::Text => {}
                    Reconciled::Lfs => binary = true,
                    Reconciled::Equal if old.mode == new.mode && !is_rename(change) => return true,
                    Reconciled::Equal => new.bytes.clone_from(&old.bytes),
                }
            }
        }
        let exact = self.is_exact(change.old.as_ref(), old.as_ref())
            && self.is_exact(change.new.as_ref(), new.as_ref());
        let old_path = change.old.as_ref().map(|(path, _)| self.shown(path));
        let new_path = change.new.as_ref().map(|(path, _)| self.shown(path));
        match (&old, &new) {
            // A file that became a link, or a link a directory's repository: git shows one going and one coming.
            (Some(before), Some(after)) if !before.mode.comparable(after.mode) => {
                write_file(output, old_path.as_deref(), Some(before), None, None, binary);
                write_file(output, None, None, new_path.as_deref(), Some(after), binary);
            }
            _ => {
                let (old_path, new_path) = (old_path.as_deref(), new_path.as_deref());
                write_file(output, old_path, old.as_ref(), new_path, new.as_ref(), binary);
            }
        }
        exact
    }

    /// Whether a side is shown as it is. From a file beyond the size limit nothing is missing: it is shown like a
    /// binary one.
    fn is_exact(&self, side: Option<&(RelPath, Side)>, loaded: Option<&Loaded>) -> bool {
        let Some((_, side)) = side else { return true };
        let missing = loaded.is_some_and(|loaded| loaded.bytes.is_none()) && side.size <= self.max_file_bytes;
        !missing && !matches!(side.content, Content::Guess(_))
    }

    fn load_old(&self, side: &Side) -> Loaded {
        Loaded { mode: side.mode, oid: side.oid(), bytes: self.old_bytes(side) }
    }

    fn load_new(&self, path: &[u8], side: &Side) -> Loaded {
        let bytes = self.new_bytes(path, side);
        let oid = match (&bytes, side.mode) {
            // What is shown counts, should the file have changed since it was compared.
            (Some(bytes), mode) if mode != Mode::Gitlink => content::hash(bytes).ok(),
            _ => side.oid(),
        };
        Loaded { mode: side.mode, oid, bytes }
    }

    fn shown(&self, path: &[u8]) -> Vec<u8> {
        [self.prefix, path].concat()
    }

    fn never_as_text(&self, path: &[u8]) -> bool {
        matches!(self.attribute(path, "diff"), Attribute::Unset)
    }

    fn attribute(&self, path: &[u8], name: &str) -> Attribute {
        let value = self.repo.get_attr(as_path(path), name, AttrCheckFlags::FILE_THEN_INDEX).ok().flatten();
        match AttrValue::from_string(value) {
            AttrValue::True | AttrValue::String(_) | AttrValue::Bytes(_) => Attribute::Set,
            AttrValue::False => Attribute::Unset,
            AttrValue::Unspecified => Attribute::Unspecified,
        }
    }

    /// Brings git's form of the old content and the file's form of the new one together.
    fn reconcile(&self, path: &[u8], old: &Loaded, new: &mut Loaded) -> Reconciled {
        let (Some(before), Some(after)) = (&old.bytes, &new.bytes) else { return Reconciled::Text };
        if let Some(pointer) = LfsPointer::parse(before)
            && LfsPointer::parse(after).is_none()
        {
            return if pointer.names(after) { Reconciled::Equal } else { Reconciled::Lfs };
        }
        if !has_crlf(before) && has_crlf(after) && self.converts_line_ends(path) {
            let after = without_cr(after);
            let equal = after == *before;
            new.oid = content::hash(&after).ok();
            new.bytes = Some(after);
            if equal {
                return Reconciled::Equal;
            }
        }
        Reconciled::Text
    }

    /// Whether git turns CR LF into LF when it takes the file in.
    fn converts_line_ends(&self, path: &[u8]) -> bool {
        match self.attribute(path, "text") {
            Attribute::Set => true,
            Attribute::Unset => false,
            Attribute::Unspecified => {
                matches!(self.attribute(path, "eol"), Attribute::Set)
                    || self
                        .repo
                        .config()
                        .and_then(|config| config.get_string("core.autocrlf"))
                        .is_ok_and(|value| matches!(value.as_str(), "true" | "input" | "yes" | "on" | "1"))
            }
        }
    }
}

enum Attribute {
    Set,
    Unset,
    Unspecified,
}

enum Reconciled {
    Text,
    Equal,
    Lfs,
}

fn is_rename(change: &Change) -> bool {
    matches!((&change.old, &change.new), (Some((old, _)), Some((new, _))) if old != new)
}

fn as_path(path: &[u8]) -> &Path {
    use std::os::unix::ffi::OsStrExt;
    Path::new(std::ffi::OsStr::from_bytes(path))
}

fn has_crlf(text: &[u8]) -> bool {
    text.windows(2).any(|pair| pair == b"\r\n")
}

fn without_cr(text: &[u8]) -> Vec<u8> {
    let next = text.iter().skip(1).map(Some).chain([None]);
    text.iter()
        .zip(next)
        .filter(|&(&byte, next)| !(byte == b'\r' && next == Some(&b'\n')))
        .map(|(&byte, _)| byte)
        .collect()
}

/// What Git LFS keeps in the repository instead of a file.
struct LfsPointer<'a> {
    sha256: &'a str,
    size: u64,
}

impl<'a> LfsPointer<'a> {
    fn parse(content: &'a [u8]) -> Option<Self> {
        let text = std::str::from_utf8(content.get(..content.len().min(1024))?).ok()?;
        if !text.starts_with("version https://git-lfs.github.com/spec/") {
            return None;
        }
        let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key));
        Some(Self { sha256: value("oid sha256:")?, size: value("size ")?.parse().ok()? })
    }

    fn names(&self, content: &[u8]) -> bool {
        let mut hex = String::with_capacity(64);
        if self.size == content.len() as u64 {
            for byte in Sha256::digest(content) {
                // Writing to a string cannot fail.
                let _ = write!(hex, "{byte:02x}");
            }
        }
        hex == self.sha256
    }
}

/// Git's test: a zero byte near the beginning.
fn is_binary(bytes: &[u8]) -> bool {
    bytes.iter().take(8000).any(|&byte| byte == 0)
}

fn write_file(
    output: &mut Output,
    old_path: Option<&[u8]>,
    old: Option<&Loaded>,
    new_path: Option<&[u8]>,
    new: Option<&Loaded>,
    binary: bool,
) {
    let Some(either) = old_path.or(new_path) else { return };
    let a = quoted("a/", old_path.unwrap_or_else(|| new_path.unwrap_or(either)));
    let b = quoted("b/", new_path.unwrap_or(either));
    let unknown = |side: Option<&Loaded>| side.is_some_and(|side| side.bytes.is_none());
    let bytes = |side: Option<&'_ Loaded>| side.and_then(|side| side.bytes.clone()).unwrap_or_default();
    let (before, after) = (bytes(old), bytes(new));
    let binary = binary || unknown(old) || unknown(new) || is_binary(&before) || is_binary(&after);

    let mut header = format!("diff --git {a} {b}\n");
    let same = match (old, new) {
        (Some(old), Some(new)) => old.oid.is_some() && old.oid == new.oid,
        _ => false,
    };
    match (old, new) {
        (None, Some(new)) => push(&mut header, &["new file mode ", new.mode.octal()]),
        (Some(old), None) => push(&mut header, &["deleted file mode ", old.mode.octal()]),
        (Some(old), Some(new)) if old.mode != new.mode => {
            push(&mut header, &["old mode ", old.mode.octal()]);
            push(&mut header, &["new mode ", new.mode.octal()]);
        }
        _ => {}
    }
    if let (Some(from), Some(to)) = (old_path, new_path)
        && from != to
    {
        let score = if same { 100 } else { Lines::of(&before).similarity(&Lines::of(&after)).min(99) };
        push(&mut header, &["similarity index ", &score.to_string(), "%"]);
        push(&mut header, &["rename from ", &quoted("", from)]);
        push(&mut header, &["rename to ", &quoted("", to)]);
    }
    if same {
        output.add(&header, "");
        return;
    }
    let name = |side: Option<&Loaded>| match side {
        None => Some("0000000".to_owned()),
        Some(side) => side.oid.map(|oid| oid.to_string().chars().take(7).collect()),
    };
    if let (Some(from), Some(to)) = (name(old), name(new)) {
        let mode = match (old, new) {
            (Some(old), Some(new)) if old.mode == new.mode => format!(" {}", new.mode.octal()),
            _ => String::new(),
        };
        push(&mut header, &["index ", &from, "..", &to, &mode]);
    }
    let a = if old.is_some() { a } else { "/dev/null".to_owned() };
    let b = if new.is_some() { b } else { "/dev/null".to_owned() };
    if binary {
        output.add(&header, &format!("Binary files {a} and {b} differ\n"));
        return;
    }
    let hunks = hunks(&before, &after);
    // Git ends a name with a tab where a space could be taken for its end.
    let ended = |name: &str| {
        if name.contains(' ') && !name.starts_with('"') { format!("{name}\t") } else { name.to_owned() }
    };
    let body =
        if hunks.is_empty() { hunks } else { format!("--- {}\n+++ {}\n{hunks}", ended(&a), ended(&b)) };
    output.add(&header, &body);
}

fn push(header: &mut String, parts: &[&str]) {
    for part in parts {
        header.push_str(part);
    }
    header.push('\n');
}

/// The hunks between two texts, with three lines around each. Bytes that are not UTF-8 are replaced.
fn hunks(old: &[u8], new: &[u8]) -> String {
    let mut options = DiffOptions::new();
    options.context_lines(3).force_text(true).indent_heuristic(true);
    let path = Some(Path::new("file"));
    let patch =
        Patch::from_buffers(old, path, new, path, Some(&mut options)).and_then(|mut patch| patch.to_buf());
    match patch {
        Ok(patch) => {
            let text = String::from_utf8_lossy(&patch);
            // libgit2 puts its own header before them.
            text.find("\n@@ ").map_or_else(String::new, |start| text.split_at(start + 1).1.to_owned())
        }
        Err(error) => {
            tracing::debug!(error = &error as &dyn std::error::Error, "two texts could not be compared");
            String::new()
        }
    }
}

/// A path as git writes it: in quotes and escaped where it could be misread.
fn quoted(prefix: &str, path: &[u8]) -> String {
    let plain = std::str::from_utf8(path)
        .ok()
        .filter(|path| !path.contains(|c: char| c.is_control() || c == '"' || c == '\\'));
    if let Some(path) = plain {
        return format!("{prefix}{path}");
    }
    let mut text = format!("\"{prefix}");
    for &byte in path {
        match byte {
            b'"' => text.push_str("\\\""),
            b'\\' => text.push_str("\\\\"),
            b'\n' => text.push_str("\\n"),
            b'\t' => text.push_str("\\t"),
            b'\r' => text.push_str("\\r"),
            0x20..=0x7e => text.push(char::from(byte)),
            other => {
                let _ = write!(text, "\\{other:03o}");
            }
        }
    }
    text.push('"');
    text
}
