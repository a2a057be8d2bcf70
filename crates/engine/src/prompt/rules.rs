//! Rules for agents that do not read them themselves: configured files, and the `AGENTS.md` of a directory and of those
//! above it in its repository. Reads files.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::labels::one_line;
use super::mentions::{read, regular};
use super::{Compiled, MadeFrom, Omission};

const FILE: &str = "AGENTS.md";
/// What is sent of all rules together.
const MAX_BYTES: usize = 32 << 10;
/// Directories above the session's that are looked at; no repository is so deep.
const MAX_DEPTH: usize = 64;

/// A rule file to send.
struct Rule {
    path: PathBuf,
    text: String,
    /// Bytes of the file that are not in `text`.
    left_out: u64,
}

/// The rules for an agent that reads files of these names itself. The nearest come last, because later rules are taken to
/// refine earlier ones; if there is too much, the nearest are kept.
pub(super) fn collect(cwd: &Path, reads: &[String], files: &[PathBuf]) -> Compiled {
    let mut compiled = Compiled::default();
    let folders = folders(cwd);
    let top = folders.first().map(PathBuf::as_path).unwrap_or(cwd);
    let mut paths = Vec::new();
    for path in files {
        // Where it would find the file by itself, it has it already.
        let read_by_itself = folders.iter().any(|folder| reads.iter().any(|name| folder.join(name) == *path));
        if !read_by_itself {
            paths.push((path.clone(), true));
        }
    }
    for folder in &folders {
        let path = folder.join(FILE);
        if path.symlink_metadata().is_ok() && !is_read(folder, reads) {
            paths.push((path, false));
        }
    }
    let (mut rules, mut left, mut seen) = (Vec::new(), MAX_BYTES, BTreeSet::new());
    for (path, configured) in paths.into_iter().rev() {
        let within = (!configured).then_some(top);
        match rule(&path, within, left, &mut seen) {
            Ok(Some(rule)) => {
                left -= rule.text.len();
                rules.push(rule);
            }
            Ok(None) => {}
            Err(reason) => compiled.miss(format!("rules:{}", path.display()), reason),
        }
    }
    for rule in rules.into_iter().rev() {
        let reference = format!("rules:{}", rule.path.display());
        let path = one_line(&rule.path.display().to_string());
        let mut text = format!("<rules file=\"{path}\">\n{}", rule.text.trim_end());
        if rule.left_out > 0 {
            text.push_str(&format!("\n[{} bytes of this file are left out here]", rule.left_out));
            let reason =
                format!("the last {} bytes are left out: rules are sent up to {MAX_BYTES}", rule.left_out);
            compiled.omissions.push(Omission { reference: reference.clone(), reason });
        }
        text.push_str("\n</rules>");
        compiled.push_text(MadeFrom::Rules, Some(reference), text);
    }
    compiled
}

/// The root of the repository, and the directories from there down to `cwd`. Outside of a repository, only `cwd`.
fn folders(cwd: &Path) -> Vec<PathBuf> {
    let up: Vec<&Path> = cwd.ancestors().take(MAX_DEPTH).collect();
    let root = up.iter().position(|folder| folder.join(".git").symlink_metadata().is_ok()).unwrap_or(0);
    up[..=root].iter().rev().map(|folder| (*folder).to_owned()).collect()
}

/// Whether the agent learns what a folder's rules say without us: it reads the file, or one that is the same or includes it.
fn is_read(folder: &Path, reads: &[String]) -> bool {
    let rules = folder.join(FILE).canonicalize().ok();
    reads.iter().any(|name| {
        let own = folder.join(name);
        name == FILE
            || (rules.is_some() && own.canonicalize().ok() == rules)
            || (regular(&own).is_ok()
                && read(&own, MAX_BYTES).is_ok_and(|text| includes(&String::from_utf8_lossy(&text))))
    })
}

/// Rule files include each other by a word such as `@AGENTS.md`.
fn includes(text: &str) -> bool {
    text.split_whitespace().any(|word| matches!(word.strip_prefix('@'), Some(FILE | "./AGENTS.md")))
}

fn rule(
    path: &Path,
    within: Option<&Path>,
    left: usize,
    seen: &mut BTreeSet<PathBuf>,
) -> Result<Option<Rule>, String> {
    let real = path.canonicalize().map_err(|error| error.to_string())?;
    if let Some(within) = within {
        let within = within.canonicalize().map_err(|error| error.to_string())?;
        if !real.starts_with(within) {
            return Err("it leads out of its project".to_owned());
        }
    }
    let length = regular(&real)?;
    if !seen.insert(real.clone()) {
        return Ok(None);
    }
    // One more than there is room for, which tells whether it goes on.
    let bytes = read(&real, left + 1)?;
    let text = match String::from_utf8(bytes) {
        Ok(text) => text,
        // Cut in the middle of a character.
        Err(error) if error.utf8_error().error_len().is_none() => {
            let through = error.utf8_error().valid_up_to();
            String::from_utf8_lossy(&error.as_bytes()[..through]).into_owned()
        }
        Err(_) => return Err("it is not UTF-8 text".to_owned()),
    };
    let text = text.trim_start_matches('\u{feff}');
    if text.trim().is_empty() && length <= left as u64 {
        return Ok(None);
    }
    let kept = if length > left as u64 || text.len() > left { whole_lines(text, left) } else { text };
    let left_out = if kept.len() == text.len() { 0 } else { length.saturating_sub(kept.len() as u64) };
    Ok(Some(Rule { path: path.to_owned(), text: kept.to_owned(), left_out }))
}

/// The lines that fit; of a first line that does not fit, nothing.
fn whole_lines(text: &str, bytes: usize) -> &str {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].rfind('\n').map_or("", |at| &text[..=at])
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn repository() -> (tempfile::TempDir, PathBuf) {
        let root = tempfile::tempdir().unwrap();
        let cwd = root.path().join("repo/a/b");
        fs::create_dir_all(&cwd).unwrap();
        fs::create_dir(root.path().join("repo/.git")).unwrap();
        fs::write(root.path().join("AGENTS.md"), "above the repository").unwrap();
        fs::write(root.path().join("repo/AGENTS.md"), "of the repository").unwrap();
        fs::write(cwd.join("AGENTS.md"), "nearest").unwrap();
        (root, cwd)
    }

    fn texts(compiled: &Compiled) -> Vec<&str> {
        let text = |piece: &super::super::Piece| piece.block.clone();
        assert!(
            compiled
                .pieces
                .iter()
                .all(|piece| matches!(text(piece), signalbox_agents::PromptBlock::Context(_)))
        );
        compiled.pieces.iter().filter_map(|piece| piece.text()?.lines().nth(1)).collect()
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn those_of_the_repository_come_with_the_nearest_last() {
        let (root, cwd) = repository();
        assert_eq!(texts(&collect(&cwd, &[], &[])), ["of the repository", "nearest"]);
        let house = root.path().join("HOUSE.md");
        fs::write(&house, "of the house").unwrap();
        assert_eq!(
            texts(&collect(&cwd, &[], std::slice::from_ref(&house))),
            ["of the house", "of the repository", "nearest"]
        );
        assert_eq!(texts(&collect(&cwd, &names(&["AGENTS.md"]), &[house])), ["of the house"]);
    }

    #[test]
    fn outside_of_a_repository_only_the_directory_itself_counts() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("in")).unwrap();
        fs::write(root.path().join("AGENTS.md"), "above").unwrap();
        assert!(collect(&root.path().join("in"), &[], &[]).pieces.is_empty());
        assert_eq!(texts(&collect(root.path(), &[], &[])), ["above"]);
    }

    #[test]
    fn what_the_agent_reads_under_another_name_is_not_sent_again() {
        let (_root, cwd) = repository();
        let claude = names(&["CLAUDE.md"]);
        assert_eq!(texts(&collect(&cwd, &claude, &[])).len(), 2);
        symlink("AGENTS.md", cwd.join("CLAUDE.md")).unwrap();
        assert_eq!(texts(&collect(&cwd, &claude, &[])), ["of the repository"]);
        fs::write(cwd.ancestors().nth(2).unwrap().join("CLAUDE.md"), "See @AGENTS.md for all.").unwrap();
        assert!(collect(&cwd, &claude, &[]).pieces.is_empty());
    }

    #[test]
    fn a_rule_file_that_leads_out_of_the_project_or_is_missing_is_told() {
        let (root, cwd) = repository();
        fs::remove_file(cwd.join("AGENTS.md")).unwrap();
        symlink(root.path().join("AGENTS.md"), cwd.join("AGENTS.md")).unwrap();
        let compiled = collect(&cwd, &[], &[PathBuf::from("/no/such/file")]);
        assert_eq!(texts(&compiled), ["of the repository"]);
        let keys: Vec<_> = compiled.unresolved.iter().map(|missing| missing.reference.clone()).collect();
        assert_eq!(
            keys,
            [format!("rules:{}", cwd.join("AGENTS.md").display()), "rules:/no/such/file".to_owned()]
        );
    }

    #[test]
    fn too_much_is_cut_at_a_line_and_the_nearest_is_kept() {
        let (_root, cwd) = repository();
        let line = format!("{}\n", "é".repeat(49));
        let nearest = line.repeat(MAX_BYTES / line.len() - 1);
        fs::write(cwd.join("AGENTS.md"), &nearest).unwrap();
        let far = cwd.ancestors().nth(2).unwrap().join("AGENTS.md");
        fs::write(&far, line.repeat(10)).unwrap();
        let compiled = collect(&cwd, &[], &[]);
        let far = compiled.pieces[0].text().unwrap();
        assert_eq!(far.matches(&line).count(), 1, "{far}");
        assert!(far.contains(&format!("[{} bytes of this file are left out here]", line.len() * 9)), "{far}");
        assert!(compiled.pieces[1].text().unwrap().contains(nearest.trim_end()));
        assert_eq!(compiled.omissions.len(), 1);
        let sent: usize = compiled.pieces.iter().map(super::super::Piece::bytes).sum();
        assert!(sent < MAX_BYTES + 400);
    }

    #[test]
    fn what_is_no_file_is_told() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("AGENTS.md")).unwrap();
        let compiled = collect(root.path(), &[], &[]);
        assert_eq!(compiled.unresolved[0].reason, "it is no regular file");
    }
}
