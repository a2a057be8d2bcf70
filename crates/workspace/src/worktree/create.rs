//! Makes a linked worktree for a session, wholly or not at all.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use git2::{BranchType, ErrorCode, Repository, WorktreeAddOptions};
use signalbox_facts::{SessionId, Worktree, WorktreeBaseline};

use super::baseline::{self, BaselineKind};
use super::check::{checked_out, points_to};
use super::error::{Leftover, Step, WorktreeError};
use super::identity::Identity;
use super::orphan::Making;
use super::rollback::Made;
use super::{ADMIN_PREFIX, CONTAINER, branch_of, short};
use crate::repo;

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct CreateRequest<'a> {
    /// The directory the user selected; may lie below the root of its checkout.
    pub selected: &'a Path,
    /// The session, which gives checkout and branch their names.
    pub session: SessionId,
    /// Which commit to start from.
    pub base: BaselineKind,
    /// The full sha that the user saw when choosing; another one now means refusal.
    pub pin: Option<&'a str>,
    /// Where checkouts go if they cannot lie beside the repository: `worktrees` in the home folder.
    pub fallback: &'a Path,
}

/// A worktree that was made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Created {
    /// Its path, branch and baseline.
    pub worktree: Worktree,
    /// The selected directory inside it: where the agent starts.
    pub cwd: PathBuf,
    /// The selected directory, canonical.
    pub project_path: PathBuf,
    /// What the checkout lacks.
    pub warnings: Vec<WorktreeWarning>,
    made: Made,
}

impl Created {
    /// Takes everything back that was made, and nothing else: for a session that came to nothing. Returns what could not
    /// be removed.
    #[must_use]
    pub fn take_back(self) -> Vec<Leftover> {
        match repo::discover(&self.project_path) {
            Ok(repo) => self.made.take_back(&repo),
            Err(error) => {
                let leftover = |what: String| Leftover { what, why: error.to_string() };
                vec![
                    leftover(self.worktree.path.display().to_string()),
                    leftover(format!("branch {}", self.worktree.branch)),
                ]
            }
        }
    }
}

/// Something that a checkout made here lacks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum WorktreeWarning {
    /// Submodules are not checked out.
    Submodules {
        /// How many.
        count: usize,
    },
    /// Files kept by Git LFS are pointers.
    Lfs,
    /// The source shows only some files; the checkout has all.
    SparseCheckout,
}

impl WorktreeWarning {
    /// A stable snake_case word for programs.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::Submodules { .. } => "worktree_submodules",
            Self::Lfs => "worktree_lfs",
            Self::SparseCheckout => "worktree_sparse_checkout",
        }
    }
}

impl fmt::Display for WorktreeWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Submodules { count } => write!(
                f,
                "the repository has {count} submodule{}, empty in the new checkout until `git submodule update --init` is run there",
                if *count == 1 { "" } else { "s" }
            ),
            Self::Lfs => f.write_str(
                "files kept by Git LFS are pointers in the new checkout until `git lfs pull` is run there",
            ),
            Self::SparseCheckout => {
                f.write_str("the new checkout has all files, although the selected one is sparse")
            }
        }
    }
}

/// Makes branch and checkout at the chosen commit, from local objects only. On any error nothing of it remains, except
/// what [`WorktreeError::LeftBehind`] names; what was there before is never touched.
pub fn create(request: &CreateRequest<'_>) -> Result<Created, WorktreeError> {
    create_announced(request, |_| Ok(()))
}

/// The same; `announce` is told what will be made when nothing of it exists yet and nothing but the making can fail. If it
/// fails, nothing is made. With what it was told, [`take_back_orphan`](super::take_back_orphan) can clean up if this
/// process ends too early to do it.
pub fn create_announced(
    request: &CreateRequest<'_>,
    announce: impl FnOnce(&Making) -> io::Result<()>,
) -> Result<Created, WorktreeError> {
    let locate = |path: &Path| WorktreeError::io(Step::Locate, path);
    let selected = request.selected.canonicalize().map_err(locate(request.selected))?;
    let repo = repo::discover(&selected)?;
    refuse_unsupported(&repo)?;
    let plan = Plan::of(&repo, &selected, request)?;
    plan.refuse_taken(&repo)?;
    // From here on the repository changes: the last moment to resolve the ref and to compare it with what was shown.
    let baseline = baseline::resolve(&repo, request.base)
        .map_err(|source| WorktreeError::Baseline { kind: request.base, source })?;
    if let Some(pin) = request.pin
        && pin != baseline.sha
    {
        return Err(WorktreeError::Stale {
            kind: request.base,
            expected: pin.to_owned(),
            found: baseline.sha,
        });
    }
    announce(&plan.announcement(request.session, &baseline))
        .map_err(WorktreeError::io(Step::Announce, &plan.checkout))?;
    let mut made = Made::default();
    match make(&repo, &plan, baseline, &mut made) {
        Ok((worktree, cwd, warnings)) => {
            Ok(Created { worktree, cwd, project_path: selected, warnings, made })
        }
        Err(error) => {
            let left = made.take_back(&repo);
            if left.is_empty() {
                Err(error)
            } else {
                Err(WorktreeError::LeftBehind { source: Box::new(error), left })
            }
        }
    }
}

/// Where everything will go.
struct Plan {
    container: PathBuf,
    checkout: PathBuf,
    branch: String,
    admin_name: String,
    /// Git's records of all worktrees.
    admins: PathBuf,
    /// The repository's own folder.
    commondir: PathBuf,
    /// The selected directory, relative to the root of its checkout.
    subdir: PathBuf,
}

impl Plan {
    fn of(repo: &Repository, selected: &Path, request: &CreateRequest<'_>) -> Result<Self, WorktreeError> {
        let locate = |path: &Path| WorktreeError::io(Step::Locate, path);
        let (root, subdir) = match repo.workdir() {
            Some(workdir) => {
                let root = workdir.canonicalize().map_err(locate(workdir))?;
                let subdir =
                    selected.strip_prefix(&root).map(Path::to_owned).map_err(|_| WorktreeError::Verify {
                        path: selected.to_owned(),
                        reason: format!("it does not lie in its checkout {}", root.display()),
                    })?;
                (root, subdir)
            }
            // A bare repository has no directories to select.
            None => (repo.path().canonicalize().map_err(locate(repo.path()))?, PathBuf::new()),
        };
        let id = short(request.session);
        let container = container(&root, request.fallback);
        let checkout = container.join(format!("{}-{id}", repository_name(&root)));
        let commondir = repo.commondir().canonicalize().map_err(locate(repo.commondir()))?;
        Ok(Self {
            container,
            checkout,
            branch: branch_of(&id),
            admin_name: format!("{ADMIN_PREFIX}{id}"),
            admins: commondir.join("worktrees"),
            commondir,
            subdir,
        })
    }

    fn admin(&self) -> PathBuf {
        self.admins.join(&self.admin_name)
    }

    fn announcement(&self, session: SessionId, baseline: &WorktreeBaseline) -> Making {
        Making {
            session,
            repository: self.commondir.clone(),
            checkout: self.checkout.clone(),
            branch: self.branch.clone(),
            commit: baseline.sha.clone(),
        }
    }

    /// Nothing of what will be made may exist, be it a dangling link.
    fn refuse_taken(&self, repo: &Repository) -> Result<(), WorktreeError> {
        for path in [self.checkout.clone(), self.admin()] {
            match fs::symlink_metadata(&path) {
                Ok(_) => return Err(WorktreeError::PathTaken { path }),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(WorktreeError::io(Step::Locate, &path)(error)),
            }
        }
        match repo.find_branch(&self.branch, BranchType::Local) {
            Ok(_) => Err(WorktreeError::BranchTaken { branch: self.branch.clone() }),
            Err(error) if error.code() == ErrorCode::NotFound => Ok(()),
            Err(error) => Err(WorktreeError::git(Step::Branch, &self.checkout)(error)),
        }
    }
}

/// The folder for checkouts: beside the repository, unless that is not writable or lies in another repository, whose
/// status would then show it.
fn container(root: &Path, fallback: &Path) -> PathBuf {
    let Some(parent) = root.parent() else { return fallback.to_owned() };
    if parent.file_name().is_some_and(|name| name == CONTAINER) {
        return parent.to_owned();
    }
    let writable =
        rustix::fs::access(parent, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK).is_ok();
    let foreign = match repo::discover(parent) {
        Ok(repo) => repo.workdir().is_some() || parent.starts_with(repo.path()),
        Err(repo::OpenError::NotARepository { .. }) => false,
        Err(_) => true,
    };
    if writable && !foreign { parent.join(CONTAINER) } else { fallback.to_owned() }
}

/// The repository's name as the start of a folder's name.
fn repository_name(root: &Path) -> String {
    let name = root.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let name = name.strip_suffix(".git").unwrap_or(&name);
    let name: String = name.chars().map(|c| if c.is_control() { '-' } else { c }).take(100).collect();
    if name.is_empty() { "repository".to_owned() } else { name }
}

fn refuse_unsupported(repo: &Repository) -> Result<(), WorktreeError> {
    let refuse =
        |reason: &str| WorktreeError::Unsupported { path: repo.path().to_owned(), reason: reason.to_owned() };
    if let Err(error) = repo.index() {
        return Err(match repo::index_refusal(&error) {
            Some(reason) => refuse(reason),
            None => WorktreeError::git(Step::Locate, repo.path())(error),
        });
    }
    Ok(())
}

/// Makes everything, noting each thing right after it was made.
fn make(
    repo: &Repository,
    plan: &Plan,
    baseline: WorktreeBaseline,
    made: &mut Made,
) -> Result<(Worktree, PathBuf, Vec<WorktreeWarning>), WorktreeError> {
    let at_checkout = |step| WorktreeError::git(step, &plan.checkout);
    if !plan.container.exists() {
        fs::create_dir_all(&plan.container).map_err(WorktreeError::io(Step::Container, &plan.container))?;
        made.container = Some(plan.container.clone());
    }
    let commit = git2::Oid::from_str(&baseline.sha)
        .and_then(|oid| repo.find_commit(oid))
        .map_err(at_checkout(Step::Branch))?;
    // Without force: fails if somebody made it meanwhile.
    let branch =
        repo.branch(&plan.branch, &commit, false).map_err(at_checkout(Step::Branch))?.into_reference();
    made.branch = Some((plan.branch.clone(), commit.id()));
    // Libgit2 would make it too, and fail if another creation was faster.
    match fs::create_dir(&plan.admins) {
        Ok(()) => made.admins = Some(plan.admins.clone()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(WorktreeError::io(Step::Checkout, &plan.admins)(error)),
    }
    // Neither existed a moment ago, and libgit2 makes both exclusively; rollback looks again at what it finds.
    made.admin = Some(plan.admin());
    made.checkout = Some(plan.checkout.clone());
    let mut options = WorktreeAddOptions::new();
    options.reference(Some(&branch));
    repo.worktree(&plan.admin_name, &plan.checkout, Some(&options)).map_err(at_checkout(Step::Checkout))?;
    let identity = Identity::of(&plan.checkout).map_err(WorktreeError::io(Step::Identity, &plan.checkout))?;
    made.identity = Some(identity);
    identity.note(&plan.admin()).map_err(WorktreeError::io(Step::Identity, &plan.admin()))?;
    let (path, cwd, warnings) = verify(plan, &baseline, identity)?;
    Ok((Worktree { path, branch: plan.branch.clone(), baseline }, cwd, warnings))
}

/// Opens what was made, as somebody who knows nothing of how.
fn verify(
    plan: &Plan,
    baseline: &WorktreeBaseline,
    identity: Identity,
) -> Result<(PathBuf, PathBuf, Vec<WorktreeWarning>), WorktreeError> {
    let wrong =
        |reason: &str| WorktreeError::Verify { path: plan.checkout.clone(), reason: reason.to_owned() };
    let io = |path: &Path| WorktreeError::io(Step::Verify, path);
    let path = plan.checkout.canonicalize().map_err(io(&plan.checkout))?;
    let repo = repo::open_exactly(&path)?;
    let head = repo.head().map_err(WorktreeError::git(Step::Verify, &path))?;
    if head.target().map(|oid| oid.to_string()).as_deref() != Some(baseline.sha.as_str()) {
        return Err(wrong("HEAD is not the baseline's commit"));
    }
    if checked_out(&repo).as_deref() != Some(plan.branch.as_str()) {
        return Err(wrong("another branch is checked out"));
    }
    if !points_to(&plan.admin(), &path) || !Identity::of(&path).is_ok_and(|found| found.is(&identity)) {
        return Err(wrong("another directory is in its place"));
    }
    let cwd = path.join(&plan.subdir);
    let canonical = cwd.canonicalize();
    if !canonical.as_ref().is_ok_and(|canonical| canonical.is_dir() && canonical.starts_with(&path)) {
        return Err(WorktreeError::NotInCommit { directory: plan.subdir.clone(), sha: baseline.sha.clone() });
    }
    let cwd = canonical.map_err(io(&cwd))?;
    let warnings = warnings(&repo, &path)?;
    Ok((path, cwd, warnings))
}

/// Looks through the new checkout's index for what was not checked out.
fn warnings(repo: &Repository, path: &Path) -> Result<Vec<WorktreeWarning>, WorktreeError> {
    let index = repo.index().map_err(WorktreeError::git(Step::Verify, path))?;
    let mut submodules = 0;
    let mut lfs = false;
    for entry in index.iter() {
        if entry.mode == 0o160_000 {
            submodules += 1;
        } else if !lfs && entry.path.rsplit(|&byte| byte == b'/').next() == Some(b".gitattributes".as_slice())
        {
            let attributes = path.join(std::ffi::OsStr::from_bytes(&entry.path));
            lfs = fs::read(attributes).is_ok_and(|text| names_lfs(&text));
        }
    }
    lfs = lfs || fs::read(repo.commondir().join("info/attributes")).is_ok_and(|text| names_lfs(&text));
    let sparse = repo.config().and_then(|config| config.get_bool("core.sparsecheckout")).unwrap_or(false);
    let mut warnings = Vec::new();
    if submodules > 0 {
        warnings.push(WorktreeWarning::Submodules { count: submodules });
    }
    if lfs {
        warnings.push(WorktreeWarning::Lfs);
    }
    if sparse {
        warnings.push(WorktreeWarning::SparseCheckout);
    }
    Ok(warnings)
}

fn names_lfs(attributes: &[u8]) -> bool {
    let mut lines = attributes.split(|&byte| byte == b'\n');
    lines.any(|line| {
        !line.trim_ascii_start().starts_with(b"#") && line.windows(10).any(|part| part == b"filter=lfs")
    })
}
