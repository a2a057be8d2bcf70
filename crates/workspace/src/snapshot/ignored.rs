//! Which untracked files git would not show: `.gitignore` files, `info/exclude`, `core.excludesFile`.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};

use git2::Repository;
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

/// Larger ignore files are not ones.
const MAX_IGNORE_BYTES: u64 = 1 << 20;

/// The rules that hold for a whole repository.
#[derive(Debug)]
pub(crate) struct BaseRules {
    /// Strongest first.
    rules: Vec<Gitignore>,
    ignore_case: bool,
}

impl BaseRules {
    pub(crate) fn of(repo: &Repository, workdir: &Path) -> Self {
        let config = repo.config().ok();
        let ignore_case =
            config.as_ref().and_then(|config| config.get_bool("core.ignorecase").ok()).unwrap_or(false);
        let global = config.and_then(|config| config.get_path("core.excludesfile").ok()).or_else(|| {
            let config_home =
                std::env::var_os("XDG_CONFIG_HOME").filter(|value| !value.is_empty()).map(PathBuf::from);
            let config_home =
                config_home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".config")))?;
            Some(config_home.join("git/ignore"))
        });
        let files = [Some(repo.commondir().join("info/exclude")), global];
        let rules =
            files.into_iter().flatten().filter_map(|file| compile(workdir, &file, ignore_case)).collect();
        Self { rules, ignore_case }
    }
}

/// Reads one ignore file whose patterns are relative to `dir`; `None` if there is nothing to follow.
fn compile(dir: &Path, file: &Path, ignore_case: bool) -> Option<Gitignore> {
    let metadata = std::fs::metadata(file).ok()?;
    if !metadata.is_file() || metadata.len() > MAX_IGNORE_BYTES {
        return None;
    }
    let mut builder = GitignoreBuilder::new(dir);
    // A pattern that cannot be understood is skipped, as git does.
    let _ = builder.case_insensitive(ignore_case).map(|builder| builder.add(file));
    builder.build().ok().filter(|rules| !rules.is_empty())
}

/// One directory's rules, with those of the directories above it. Compiled only when something has to be decided.
#[derive(Debug)]
pub(crate) struct Rules<'a> {
    base: &'a BaseRules,
    parent: Option<&'a Self>,
    dir: &'a Path,
    /// Whether the directory has an ignore file of its own.
    has_own: bool,
    own: OnceCell<Option<Gitignore>>,
}

impl<'a> Rules<'a> {
    pub(crate) fn new(base: &'a BaseRules, parent: Option<&'a Self>, dir: &'a Path, has_own: bool) -> Self {
        Self { base, parent, dir, has_own, own: OnceCell::new() }
    }

    /// Whether git would ignore `path`, an absolute path right inside this directory.
    pub(crate) fn ignores(&self, path: &Path, is_dir: bool) -> bool {
        let mut rules = Some(self);
        while let Some(here) = rules {
            if here.has_own {
                let own = here
                    .own
                    .get_or_init(|| compile(here.dir, &here.dir.join(".gitignore"), here.base.ignore_case));
                match own.as_ref().map_or(Match::None, |own| own.matched(path, is_dir)) {
                    Match::Ignore(_) => return true,
                    Match::Whitelist(_) => return false,
                    Match::None => {}
                }
            }
            rules = here.parent;
        }
        for rules in &self.base.rules {
            match rules.matched(path, is_dir) {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None => {}
            }
        }
        false
    }
}
