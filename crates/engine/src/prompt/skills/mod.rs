//! Skills: folders with a `SKILL.md`, looked for in the project's, the user's and the configured roots. Reads files.
//!
//! Where two have one id, the project's goes before the user's, and that before a configured one: the nearer knows better.
//! A prompt that names a skill's path gets that one.

mod front;
mod template;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::Sources;
use super::labels::{head, one_line};
use super::mentions::{read, regular};

/// Folders of skills in a project or a home directory, in order.
const FOLDERS: [&str; 4] = [".signalbox/skills", ".claude/skills", ".agents/skills", ".codex/skills"];
const FILE: &str = "SKILL.md";
/// Largest `SKILL.md`.
const MAX_BYTES: usize = 64 << 10;
/// Most skills of one root.
const MAX_SKILLS: usize = 256;
/// Most entries of one root that are looked at.
const MAX_ENTRIES: usize = 4096;
/// Most scalars of an id, and of a description.
const MAX_ID: usize = 64;
const MAX_DESCRIPTION: usize = 1024;

/// What was found, in the order in which it counts.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Skills {
    /// Usable skills. Of those with one id the first is meant.
    pub skills: Vec<Skill>,
    /// Folders that look like skills and cannot be used.
    pub errors: Vec<SkillError>,
}

/// A skill.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Skill {
    /// What a prompt names: the name in its front matter, or that of its folder.
    pub id: String,
    /// Name for people.
    pub name: String,
    /// What it is for; may be empty.
    pub description: String,
    /// Its `SKILL.md`, symbolic links followed.
    pub path: PathBuf,
    /// Where it was found.
    pub scope: Scope,
    /// The text for the agent, placeholders in it.
    body: String,
    /// The folder's own name, which a prompt may use as well.
    folder_name: String,
}

/// Where a skill was found.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Scope {
    /// In a directory of the session.
    Project,
    /// In the user's home directory, or the server's home.
    User,
    /// In a folder of the configuration.
    Configured,
}

/// A folder that looks like a skill and cannot be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SkillError {
    /// The `SKILL.md` or the folder, as it was found.
    pub path: PathBuf,
    /// Why, for people.
    pub message: String,
}

impl Scope {
    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Project => "project",
            Self::User => "user",
            Self::Configured => "configured",
        }
    }
}

/// All skills of a session with these roots, the working directory first. Blocks on the file system.
#[must_use]
pub fn skills(roots: &[PathBuf], sources: &Sources) -> Skills {
    let mut found = Skills::default();
    let mut seen = BTreeSet::new();
    for root in roots {
        for folder in FOLDERS {
            // What a project brings along may not lead out of it.
            found.look(&root.join(folder), Some(root), Scope::Project, &mut seen);
        }
    }
    let user = sources.user_home.iter().flat_map(|home| FOLDERS.map(|folder| home.join(folder)));
    for folder in user.chain(sources.home.iter().map(|home| home.join("skills"))) {
        found.look(&folder, None, Scope::User, &mut seen);
    }
    for folder in &sources.skill_roots {
        if !folder.is_dir() {
            found.fail(folder, "the folder, which is named in the configuration, is not there");
        }
        found.look(folder, None, Scope::Configured, &mut seen);
    }
    found
}

impl Skills {
    /// The skill that a prompt names; a path decides among those of one id.
    pub(super) fn find(&self, id: &str, path: Option<&str>, roots: &[PathBuf]) -> Result<&Skill, String> {
        let by_id = self.skills.iter().filter(|skill| skill.id == id);
        let by_folder = self.skills.iter().filter(|skill| skill.id != id && skill.folder_name == id);
        let mut named = by_id.chain(by_folder).peekable();
        if named.peek().is_none() {
            let broken = self.errors.iter().find(|error| error.names(id));
            return Err(broken.map_or_else(
                || "there is no skill of this name".to_owned(),
                |error| format!("{}: {}", error.path.display(), error.message),
            ));
        }
        let Some(path) = path.filter(|path| !path.is_empty()) else {
            return named.next().ok_or_else(String::new);
        };
        let base = roots.first().map_or(Path::new("/"), PathBuf::as_path);
        let wanted = base.join(path).canonicalize();
        let wanted = wanted.map_err(|error| format!("it is not at {}: {error}", one_line(path)))?;
        named
            .find(|skill| skill.path == wanted || skill.path.parent() == Some(&wanted))
            .ok_or_else(|| format!("the skill of this name is not the one at {}", one_line(path)))
    }

    /// Takes in the skills of one root. `within`: what the root itself must lie in.
    fn look(&mut self, root: &Path, within: Option<&Path>, scope: Scope, seen: &mut BTreeSet<PathBuf>) {
        let Ok(real) = root.canonicalize() else { return };
        if within.is_some_and(|within| !within.canonicalize().is_ok_and(|within| real.starts_with(within))) {
            return self.fail(root, "the folder leads out of its project");
        }
        let entries = match fs::read_dir(&real) {
            Ok(entries) => entries,
            Err(error) => return self.fail(root, error.to_string()),
        };
        let mut folders: Vec<PathBuf> = entries
            .take(MAX_ENTRIES)
            .filter_map(|entry| Some(entry.ok()?.path()))
            // Also a link that leads nowhere, so that it can be told.
            .filter(|folder| folder.join(FILE).symlink_metadata().is_ok())
            .collect();
        // A link to another skill of the root is that skill, so the real folder goes first.
        folders.sort_unstable_by_key(|folder| (folder.is_symlink(), folder.clone()));
        if folders.len() > MAX_SKILLS {
            self.fail(root, format!("there are more than {MAX_SKILLS} skills; the rest is left out"));
            folders.truncate(MAX_SKILLS);
        }
        for folder in folders {
            match skill(&folder, &real, scope) {
                Ok(skill) if seen.insert(skill.path.clone()) => self.skills.push(skill),
                Ok(_) => {}
                Err(message) => self.fail(&folder.join(FILE), message),
            }
        }
    }

    fn fail(&mut self, path: &Path, message: impl Into<String>) {
        self.errors.push(SkillError { path: path.to_owned(), message: message.into() });
    }
}

impl SkillError {
    /// Whether it may be about the skill that a prompt names.
    fn names(&self, id: &str) -> bool {
        self.path.ends_with(FILE)
            && self.path.parent().and_then(Path::file_name).is_some_and(|name| name == id)
    }
}

fn skill(folder: &Path, root: &Path, scope: Scope) -> Result<Skill, String> {
    let path = folder.join(FILE).canonicalize().map_err(|error| error.to_string())?;
    if !path.starts_with(root) {
        return Err("it leads out of the folder of skills that it is in".to_owned());
    }
    if regular(&path)? > MAX_BYTES as u64 {
        return Err(format!("it is larger than {} KiB", MAX_BYTES >> 10));
    }
    let text = String::from_utf8(read(&path, MAX_BYTES)?).map_err(|_| "it is not UTF-8 text".to_owned())?;
    let parsed = front::parse(&text).map_err(|error| error.to_string())?;
    let folder_name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let name = parsed.name.map_or_else(|| folder_name.clone(), |name| one_line(&name));
    let usable = name.chars().count() <= MAX_ID && !name.contains(char::is_whitespace);
    let id = if usable { name.clone() } else { folder_name.clone() };
    let description = parsed.description.unwrap_or_else(|| first_words(&parsed.body));
    let description = head(&description, MAX_DESCRIPTION).0.to_owned();
    Ok(Skill { id, name, description, path, scope, body: parsed.body, folder_name })
}

/// The first line of a text that says something, for a skill without a description.
fn first_words(body: &str) -> String {
    let mut lines = body.lines().map(|line| line.trim_start_matches('#').trim());
    one_line(lines.find(|line| !line.is_empty()).unwrap_or_default())
}

/// A skill as the agent gets it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Filled {
    pub(super) text: String,
    pub(super) unfilled: Vec<String>,
}

/// Puts the values in, and says whose text this is and where its other files are.
pub(super) fn fill(skill: &Skill, params: &BTreeMap<String, String>) -> Result<Filled, String> {
    let filled = template::fill(&skill.body, params);
    let folder = skill.path.parent().unwrap_or(Path::new("/"));
    let folder = one_line(&folder.display().to_string());
    let mut text = format!("<skill name=\"{}\" folder=\"{folder}\">\n{}\n", skill.id, filled.text);
    if !filled.unused.is_empty() {
        // A value that the text has no place for is not lost.
        text.push_str("\nArguments:\n");
        for name in &filled.unused {
            text.push_str(&format!("- {}: {}\n", one_line(name), params[name]));
        }
    }
    text.push_str("</skill>");
    if skill.body.is_empty() && params.is_empty() {
        return Err("its file has no text".to_owned());
    }
    Ok(Filled { text, unfilled: filled.unfilled })
}

#[cfg(test)]
mod tests;
