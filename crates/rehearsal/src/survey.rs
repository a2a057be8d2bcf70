//! Looks at a folder as git would see it, bounded in files, bytes and time. Reads only.

use std::{
    collections::BTreeMap,
    fs,
    io::Read as _,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use ignore::WalkBuilder;

/// The note that the agent itself proposes; it is no part of what it sees, so that a second look finds the
/// same.
pub(crate) const NOTE: &str = "REHEARSAL-NOTE.md";

const MAX_FILES: u64 = 20_000;
const MAX_COUNTED_BYTES: u64 = 64 * 1024 * 1024;
/// Longer files are data rather than something written by people; their lines are not counted.
const MAX_FILE_BYTES: u64 = 1024 * 1024;
const MAX_TIME: Duration = Duration::from_secs(2);

/// What a folder holds.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    pub(crate) files: u64,
    pub(crate) bytes: u64,
    /// Whether a bound ended the look.
    pub(crate) partial: bool,
    /// Most lines first.
    pub(crate) languages: Vec<Language>,
    /// Top-level folders, largest first.
    pub(crate) folders: Vec<Folder>,
    /// Relative paths of what was looked for.
    pub(crate) readme: Option<String>,
    pub(crate) tests: Option<String>,
    pub(crate) ci: Option<String>,
    pub(crate) manifest: Option<String>,
    /// Inside a git repository, its own or a parent's.
    pub(crate) git: bool,
}

#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Language {
    pub(crate) name: &'static str,
    pub(crate) files: u64,
    pub(crate) lines: u64,
}

#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Folder {
    pub(crate) name: String,
    pub(crate) files: u64,
    pub(crate) bytes: u64,
}

/// Walks `root`. Blocking; ends early when `stop` is set.
pub(crate) fn look(root: &Path, stop: &Arc<AtomicBool>) -> Survey {
    let started = Instant::now();
    let mut survey = Survey { git: in_git(root), ..Survey::default() };
    let mut languages: BTreeMap<&'static str, Language> = BTreeMap::new();
    let mut folders: BTreeMap<String, Folder> = BTreeMap::new();
    let mut counted = 0;
    let walk = WalkBuilder::new(root)
        .hidden(false)
        .require_git(false)
        .filter_entry(|entry| entry.file_name() != ".git")
        .sort_by_file_name(std::cmp::Ord::cmp)
        .build();
    for entry in walk {
        if survey.files >= MAX_FILES || started.elapsed() > MAX_TIME || stop.load(Ordering::Relaxed) {
            survey.partial = true;
            break;
        }
        // What cannot be read is not there, as far as this look goes.
        let Ok(entry) = entry else { continue };
        let Ok(path) = entry.path().strip_prefix(root) else { continue };
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        let kind = entry.file_type();
        if kind.is_some_and(|kind| kind.is_dir()) {
            survey.notice_folder(path, name);
            continue;
        }
        if !kind.is_some_and(|kind| kind.is_file()) || path == Path::new(NOTE) {
            continue;
        }
        let bytes = entry.metadata().map_or(0, |metadata| metadata.len());
        survey.files += 1;
        survey.bytes += bytes;
        survey.notice_file(path, name);
        if let Some(top) = top_folder(path) {
            let folder =
                folders.entry(top.clone()).or_insert_with(|| Folder { name: top, ..Folder::default() });
            folder.files += 1;
            folder.bytes += bytes;
        }
        if let Some(language) = language(name) {
            let seen = languages.entry(language).or_insert(Language { name: language, files: 0, lines: 0 });
            seen.files += 1;
            if bytes <= MAX_FILE_BYTES && counted + bytes <= MAX_COUNTED_BYTES {
                counted += bytes;
                seen.lines += lines(entry.path());
            }
        }
    }
    survey.languages = languages.into_values().collect();
    survey.languages.sort_by(|a, b| b.lines.cmp(&a.lines).then(a.name.cmp(b.name)));
    survey.folders = folders.into_values().collect();
    survey.folders.sort_by(|a, b| b.bytes.cmp(&a.bytes).then(a.name.cmp(&b.name)));
    survey
}

impl Survey {
    fn notice_folder(&mut self, path: &Path, name: &str) {
        if matches!(name, "tests" | "test" | "spec" | "__tests__") {
            keep_highest(&mut self.tests, path, "/");
        }
        if path == Path::new(".github/workflows") || matches!(name, ".circleci" | ".ci" | ".woodpecker") {
            keep_highest(&mut self.ci, path, "/");
        }
    }

    fn notice_file(&mut self, path: &Path, name: &str) {
        let lower = name.to_ascii_lowercase();
        let top = path.components().count() == 1;
        if top && (lower == "readme" || lower.starts_with("readme.")) {
            keep_highest(&mut self.readme, path, "");
        }
        if top && MANIFESTS.contains(&name) && self.manifest.is_none() {
            self.manifest = Some(name.to_owned());
        }
        let stem = lower.split('.').next().unwrap_or_default();
        if stem.starts_with("test_") || stem.ends_with("_test") || lower.contains(".test.") {
            keep_highest(&mut self.tests, path, "");
        }
        if matches!(name, ".gitlab-ci.yml" | ".travis.yml" | "Jenkinsfile" | "azure-pipelines.yml") {
            keep_highest(&mut self.ci, path, "");
        }
    }
}

const MANIFESTS: [&str; 4] = ["Cargo.toml", "package.json", "pyproject.toml", "go.mod"];

/// Keeps the path that lies nearest to the root; of equals the first.
fn keep_highest(place: &mut Option<String>, path: &Path, end: &str) {
    let depth = |path: &Path| path.components().count();
    if place.as_ref().is_none_or(|old| depth(path) < depth(Path::new(old))) {
        *place = Some(format!("{}{end}", path.display()));
    }
}

fn top_folder(path: &Path) -> Option<String> {
    let mut parts = path.components();
    let first = parts.next()?;
    parts.next()?;
    Some(first.as_os_str().to_string_lossy().into_owned())
}

/// Whether a folder or a parent of it has a `.git`.
fn in_git(root: &Path) -> bool {
    root.ancestors().any(|folder| folder.join(".git").exists())
}

fn lines(path: &Path) -> u64 {
    let mut bytes = Vec::new();
    let read = fs::File::open(path).and_then(|file| file.take(MAX_FILE_BYTES).read_to_end(&mut bytes));
    match read {
        Ok(_) => memchr::memchr_iter(b'\n', &bytes).count() as u64,
        Err(_) => 0,
    }
}

/// What a manifest calls its project: `package NAME`, `workspace`, …
pub(crate) fn project_name(manifest: &str, text: &str) -> Option<String> {
    match manifest {
        "package.json" => {
            let value: serde_json::Value = serde_json::from_str(text).ok()?;
            value["name"].as_str().map(|name| format!("npm package `{name}`"))
        }
        "Cargo.toml" => match toml_name(text, "package") {
            Some(name) => Some(format!("Cargo package `{name}`")),
            None => text.contains("[workspace]").then(|| "Cargo workspace".to_owned()),
        },
        "pyproject.toml" => toml_name(text, "project").map(|name| format!("Python project `{name}`")),
        "go.mod" => text
            .lines()
            .find_map(|line| line.strip_prefix("module "))
            .map(|name| format!("Go module `{}`", name.trim())),
        _ => None,
    }
}

/// `name = "…"` of one TOML table. Enough for a remark; whoever builds the project reads it properly.
fn toml_name(text: &str, table: &str) -> Option<String> {
    let header = format!("[{table}]");
    text.lines()
        .skip_while(|line| line.trim() != header)
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .find_map(|line| {
            let (key, value) = line.split_once('=')?;
            (key.trim() == "name").then(|| value.trim().trim_matches('"').to_owned())
        })
}

/// The language of a file, by its name.
fn language(name: &str) -> Option<&'static str> {
    if matches!(name, "Makefile" | "GNUmakefile") {
        return Some("Make");
    }
    if name == "Dockerfile" {
        return Some("Dockerfile");
    }
    let (_, extension) = name.rsplit_once('.')?;
    Some(match extension {
        "rs" => "Rust",
        "py" | "pyi" => "Python",
        "js" | "jsx" | "mjs" | "cjs" => "JavaScript",
        "ts" | "tsx" | "mts" => "TypeScript",
        "go" => "Go",
        "java" => "Java",
        "kt" | "kts" => "Kotlin",
        "scala" => "Scala",
        "c" | "h" => "C",
        "cc" | "cpp" | "cxx" | "hh" | "hpp" => "C++",
        "cs" => "C#",
        "rb" => "Ruby",
        "php" => "PHP",
        "swift" => "Swift",
        "m" | "mm" => "Objective-C",
        "zig" => "Zig",
        "hs" => "Haskell",
        "ex" | "exs" => "Elixir",
        "erl" => "Erlang",
        "clj" => "Clojure",
        "lua" => "Lua",
        "dart" => "Dart",
        "jl" => "Julia",
        "r" | "R" => "R",
        "sh" | "bash" | "zsh" => "Shell",
        "sql" => "SQL",
        "html" => "HTML",
        "css" | "scss" => "CSS",
        "vue" => "Vue",
        "svelte" => "Svelte",
        "tf" => "Terraform",
        "nix" => "Nix",
        "proto" => "Protobuf",
        "md" => "Markdown",
        "toml" => "TOML",
        "yaml" | "yml" => "YAML",
        "json" => "JSON",
        _ => return None,
    })
}

/// The folder's name, for people.
pub(crate) fn folder_name(root: &Path) -> String {
    root.file_name()
        .map_or_else(|| PathBuf::from(root).display().to_string(), |name| name.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(root: &Path, path: &str, text: &str) {
        let full = root.join(path);
        fs::create_dir_all(full.parent().unwrap()).unwrap();
        fs::write(full, text).unwrap();
    }

    #[test]
    fn what_git_ignores_is_not_seen() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        put(root, ".gitignore", "target/\n");
        put(root, "target/big.rs", &"x\n".repeat(10_000));
        put(root, "src/main.rs", "fn main() {\n}\n");
        put(root, "src/deep/lib.rs", "\n");
        put(root, "crates/a/tests/one.rs", "");
        put(root, "tests/all.rs", "");
        put(root, ".github/workflows/ci.yml", "on: push\n");
        put(root, "Readme.md", "# Title\n");
        put(root, "Cargo.toml", "[package]\nname = \"x\"\n");
        put(root, NOTE, "not seen\n");
        let survey = look(root, &Arc::default());
        assert_eq!(survey.files, 8);
        assert!(!survey.partial && !survey.git);
        assert_eq!(survey.languages[0], Language { name: "Rust", files: 4, lines: 3 });
        assert_eq!(survey.folders[0].name, "src");
        assert_eq!(survey.readme.as_deref(), Some("Readme.md"));
        assert_eq!(survey.tests.as_deref(), Some("tests/"));
        assert_eq!(survey.ci.as_deref(), Some(".github/workflows/"));
        assert_eq!(survey.manifest.as_deref(), Some("Cargo.toml"));
    }

    #[test]
    fn manifests_tell_their_names() {
        let cargo = "[workspace.package]\nname = \"no\"\n[package]\nversion = \"1\"\nname = \"yes\"\n";
        assert_eq!(project_name("Cargo.toml", cargo).as_deref(), Some("Cargo package `yes`"));
        assert_eq!(project_name("Cargo.toml", "[workspace]\n").as_deref(), Some("Cargo workspace"));
        assert_eq!(project_name("package.json", "{\"name\":\"n\"}").as_deref(), Some("npm package `n`"));
        assert_eq!(project_name("go.mod", "module a/b\n").as_deref(), Some("Go module `a/b`"));
        assert_eq!(project_name("pyproject.toml", "no"), None);
    }
}
