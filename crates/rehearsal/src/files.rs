//! Files: read without asking, written and deleted only after permission, each inside one tool call.

use std::{fs, io, io::Read as _, path::Path};

use serde_json::{Value, json};

use crate::{
    text,
    turn::{Call, Decision, Step, Turn, content},
};

/// How much of a file a read shows.
const SHOWN_BYTES: u64 = 64 * 1024;
/// Files over this are replaced without a diff.
const DIFF_BYTES: u64 = 1024 * 1024;

/// How a change ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Made,
    Declined,
    Failed,
    /// The file already is what it should become; nothing was asked.
    Nothing,
}

/// What lies at a path, as far as a diff can show it.
#[derive(Debug, PartialEq, Eq)]
enum Present {
    Nothing,
    Text(String),
    /// Not UTF-8, or too long.
    Opaque(u64),
    /// No regular file.
    Special,
}

/// Shows the beginning of a file. `None` if it could not be read; the call says why.
pub(crate) async fn read(turn: &Turn, path: &str) -> Step<Option<String>> {
    let full = turn.resolve(path);
    let mut call = Call::new(turn.id("call"), format!("Read {path}"), Some("read"));
    call.raw_input = json!({"path": full});
    call.locations = vec![full.clone()];
    turn.announce_as(&call, "in_progress").await?;
    match beginning(&full) {
        Ok((bytes, size)) => match as_text(bytes, size) {
            Some(shown) => {
                turn.finish(
                    &call.id,
                    "completed",
                    json!({
                        "content": [content(&shown)],
                        "rawOutput": {"bytes": size, "truncated": size > SHOWN_BYTES},
                    }),
                )
                .await?;
                Ok(Some(shown))
            }
            None => {
                let words = format!("{} that are not text.", text::bytes(size));
                let fields = json!({"content": [content(&words)], "rawOutput": {"bytes": size}});
                turn.finish(&call.id, "completed", fields).await?;
                Ok(None)
            }
        },
        Err(error) => {
            turn.fail(&call.id, &format!("Cannot be read: {error}")).await?;
            Ok(None)
        }
    }
}

/// Proposes a file's new text and, if allowed, writes it.
pub(crate) async fn write(turn: &Turn, path: &str, new: &str) -> Step<Change> {
    let full = turn.resolve(path);
    let mut call = Call::new(turn.id("call"), format!("Write {path}"), Some("edit"));
    call.raw_input = json!({"path": full, "bytes": new.len()});
    call.locations = vec![full.clone()];
    let old = match present(&full) {
        Ok(old) => old,
        Err(error) => return failed(turn, &call, &format!("Cannot be looked at: {error}")).await,
    };
    call.content = match &old {
        Present::Text(old) if old == new => return Ok(Change::Nothing),
        Present::Nothing => vec![diff(&full, Value::Null, new)],
        Present::Text(old) => vec![diff(&full, json!(old), new)],
        Present::Opaque(size) => {
            let words = format!("Replaces {} that are not text, or too many to show.", text::bytes(*size));
            vec![content(&words)]
        }
        Present::Special => return failed(turn, &call, "Not a regular file.").await,
    };
    turn.announce(&call).await?;
    if let Decision::Declined(how) = turn.permission(&call, &format!("write {}", full.display())).await? {
        turn.declined(&call.id, how).await?;
        return Ok(Change::Declined);
    }
    turn.progress(&call.id, json!({"status": "in_progress"})).await?;
    // The answer may have taken long. What was allowed is the change that was shown, and no other.
    let result = match present(&full) {
        Ok(now) if now == old => put(&full, new),
        Ok(_) => Err(io::Error::other("the file was changed while the permission was open")),
        Err(error) => Err(error),
    };
    match result {
        Ok(()) => {
            turn.finish(&call.id, "completed", json!({"rawOutput": {"bytes": new.len()}})).await?;
            Ok(Change::Made)
        }
        Err(error) => {
            turn.fail(&call.id, &format!("Not written: {error}")).await?;
            Ok(Change::Failed)
        }
    }
}

/// Proposes to delete a file and, if allowed, deletes it.
pub(crate) async fn delete(turn: &Turn, path: &str) -> Step<Change> {
    let full = turn.resolve(path);
    let mut call = Call::new(turn.id("call"), format!("Delete {path}"), Some("delete"));
    call.raw_input = json!({"path": full});
    call.locations = vec![full.clone()];
    match present(&full) {
        Ok(Present::Nothing) => return failed(turn, &call, "There is no such file.").await,
        Ok(Present::Special) => return failed(turn, &call, "Not a regular file.").await,
        Ok(Present::Text(old)) => call.content = vec![diff(&full, json!(old), "")],
        Ok(Present::Opaque(_)) => {}
        Err(error) => return failed(turn, &call, &format!("Cannot be looked at: {error}")).await,
    }
    turn.announce(&call).await?;
    if let Decision::Declined(how) = turn.permission(&call, &format!("delete {}", full.display())).await? {
        turn.declined(&call.id, how).await?;
        return Ok(Change::Declined);
    }
    turn.progress(&call.id, json!({"status": "in_progress"})).await?;
    match fs::remove_file(&full) {
        Ok(()) => {
            turn.finish(&call.id, "completed", json!({})).await?;
            Ok(Change::Made)
        }
        Err(error) => {
            turn.fail(&call.id, &format!("Not deleted: {error}")).await?;
            Ok(Change::Failed)
        }
    }
}

async fn failed(turn: &Turn, call: &Call, reason: &str) -> Step<Change> {
    turn.announce(call).await?;
    turn.fail(&call.id, reason).await?;
    Ok(Change::Failed)
}

fn diff(path: &Path, old: Value, new: &str) -> Value {
    json!({"type": "diff", "path": path, "oldText": old, "newText": new})
}

/// The first bytes of a regular file and its whole size. Anything else is refused: a FIFO would block.
fn beginning(path: &Path) -> io::Result<(Vec<u8>, u64)> {
    let metadata = fs::metadata(path)?;
    if !metadata.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(SHOWN_BYTES).read_to_end(&mut bytes)?;
    Ok((bytes, metadata.len()))
}

/// The bytes as text, without a last character that was cut in two; `None` if they are none.
fn as_text(bytes: Vec<u8>, size: u64) -> Option<String> {
    match String::from_utf8(bytes) {
        Ok(text) => Some(text),
        Err(error) => {
            let cut = error.utf8_error();
            if cut.error_len().is_some() || size <= SHOWN_BYTES {
                return None;
            }
            let mut bytes = error.into_bytes();
            bytes.truncate(cut.valid_up_to());
            String::from_utf8(bytes).ok()
        }
    }
}

fn present(path: &Path) -> io::Result<Present> {
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        // A dangling link is something: writing would create what it points to.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(if path.is_symlink() { Present::Special } else { Present::Nothing });
        }
        Err(error) => return Err(error),
    };
    if !metadata.is_file() {
        return Ok(Present::Special);
    }
    if metadata.len() > DIFF_BYTES {
        return Ok(Present::Opaque(metadata.len()));
    }
    Ok(match String::from_utf8(fs::read(path)?) {
        Ok(text) => Present::Text(text),
        Err(_) => Present::Opaque(metadata.len()),
    })
}

fn put(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_character_is_left_out_and_other_bytes_are_no_text() {
        assert_eq!(as_text(b"ab\xc3".to_vec(), SHOWN_BYTES + 1).as_deref(), Some("ab"));
        assert_eq!(as_text(b"ab\xc3".to_vec(), 3), None);
        assert_eq!(as_text(b"a\xffb".to_vec(), SHOWN_BYTES + 1), None);
    }
}
