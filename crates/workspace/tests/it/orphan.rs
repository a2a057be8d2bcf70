//! Taking back what a maker left that was killed: in each state in which it can break off, and only then.

use std::fs;
use std::io;
use std::path::PathBuf;

use signalbox_facts::SessionId;
use signalbox_workspace::{
    BaselineKind, CreateRequest, Making, WorktreeError, create_announced, take_back_orphan,
};

use crate::fixture::{Place, copy, git_in, short};

/// A checkout without a session, and what was announced of it.
struct Orphan {
    place: Place,
    /// Branches and worktrees before it was made.
    before: String,
    making: Making,
    /// Git's record of it.
    admin: PathBuf,
}

impl Orphan {
    fn whole() -> Self {
        Self::of(Place::repository())
    }

    fn of(place: Place) -> Self {
        let before = place.registry();
        let session = SessionId::generate();
        let fallback = place.around.join("home/worktrees");
        let mut announced = None;
        let request = CreateRequest {
            selected: &place.root,
            session,
            base: BaselineKind::Current,
            pin: None,
            fallback: &fallback,
        };
        let made = create_announced(&request, |making| {
            announced = Some(making.clone());
            Ok(())
        });
        let (made, making) = (made.expect("made"), announced.expect("announced"));
        assert_eq!((&made.worktree.path, &made.worktree.branch), (&making.checkout, &making.branch));
        let admin = making.repository.join("worktrees").join(format!("signalbox-{}", short(session)));
        assert!(admin.is_dir());
        Self { place, before, making, admin }
    }

    fn file(&self, path: &str) -> PathBuf {
        self.making.checkout.join(path)
    }

    /// As if the maker had not come to the index and to noting the checkout's identity.
    fn broke_off(self) -> Self {
        fs::remove_file(self.admin.join("index")).expect("an index");
        fs::remove_file(self.admin.join("signalbox-identity")).expect("an identity");
        self
    }

    fn without_checkout(self) -> Self {
        fs::remove_dir_all(&self.making.checkout).expect("a checkout");
        self
    }

    fn without_record(self) -> Self {
        fs::remove_dir_all(&self.admin).expect("a record");
        self
    }

    #[track_caller]
    fn is_taken_back(&self) {
        assert_eq!(take_back_orphan(&self.making), []);
        assert!(fs::symlink_metadata(&self.making.checkout).is_err());
        assert!(!self.place.path(".git/worktrees").exists());
        assert!(!self.place.around.join(".signalbox-worktrees").exists());
        assert_eq!(self.place.registry(), self.before);
        self.place.git(&["fsck"]);
        assert_eq!(self.place.git(&["status", "--porcelain"]), "");
        assert_eq!(take_back_orphan(&self.making), [], "a second look finds nothing to do");
    }

    /// All of it, with what is left told in words that contain this.
    #[track_caller]
    fn is_kept(&self, why: &str) {
        let before = (self.place.registry(), everything(&self.making.checkout), everything(&self.admin));
        let left = take_back_orphan(&self.making);
        assert_eq!(left.len(), 1, "{left:?}");
        assert!(left[0].to_string().contains(why), "{}", left[0]);
        let after = (self.place.registry(), everything(&self.making.checkout), everything(&self.admin));
        assert_eq!(after, before);
    }
}

/// Every path below a directory.
fn everything(dir: &std::path::Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten() {
        let entry = entry.expect("entry");
        found.push(entry.path());
        if entry.file_type().expect("type").is_dir() {
            found.extend(everything(&entry.path()));
        }
    }
    found.sort();
    found
}

// ---- taken back ----

#[test]
fn a_whole_checkout_is_taken_back() {
    Orphan::whole().is_taken_back();
}

#[test]
fn an_announcement_that_fails_leaves_nothing_to_take_back() {
    let place = Place::repository();
    let before = place.registry();
    let mut announced = None;
    let request = CreateRequest {
        selected: &place.root,
        session: SessionId::generate(),
        base: BaselineKind::Current,
        pin: None,
        fallback: &place.around.join("home/worktrees"),
    };
    let refused = create_announced(&request, |making| {
        announced = Some(making.clone());
        Err(io::Error::other("the disk is full"))
    });
    assert!(matches!(refused, Err(WorktreeError::Io { .. })), "{refused:?}");
    assert_eq!(place.registry(), before);
    assert!(!place.around.join(".signalbox-worktrees").exists());
    assert_eq!(take_back_orphan(&announced.expect("announced")), []);
}

#[test]
fn a_branch_alone_is_taken_back() {
    Orphan::whole().without_checkout().without_record().is_taken_back();
}

#[test]
fn lock_and_log_of_a_branch_that_was_not_made_are_taken_back() {
    let orphan = Orphan::whole().without_checkout().without_record();
    orphan.place.git(&["branch", "-q", "-D", &orphan.making.branch]);
    let lock = orphan.making.repository.join(format!("refs/heads/{}.lock", orphan.making.branch));
    fs::create_dir_all(lock.parent().expect("a parent")).expect("folder");
    fs::write(&lock, "").expect("file");
    let log = orphan.making.repository.join("logs/refs/heads").join(&orphan.making.branch);
    fs::create_dir_all(log.parent().expect("a parent")).expect("folder");
    fs::write(&log, "0000 1111 A <a@example.org> 1 +0000\tbranch: Created\n").expect("file");
    orphan.is_taken_back();
    assert!(!lock.exists() && !log.exists());
}

#[test]
fn a_branch_whose_lock_is_still_there_is_taken_back_and_one_that_somebody_locks_is_not() {
    let orphan = Orphan::whole().without_checkout().without_record();
    let file = orphan.making.repository.join("refs/heads").join(&orphan.making.branch);
    let lock = orphan.making.repository.join(format!("refs/heads/{}.lock", orphan.making.branch));
    fs::write(&lock, "").expect("file");
    orphan.is_kept("branch");
    fs::remove_file(&lock).expect("a lock");
    // Libgit2 links the lock to its new name before it removes the old one.
    fs::hard_link(&file, &lock).expect("link");
    orphan.is_taken_back();
    assert!(!lock.exists());
}

#[test]
fn a_record_without_a_checkout_is_taken_back() {
    Orphan::whole().without_checkout().is_taken_back();
}

#[test]
fn an_empty_record_is_taken_back() {
    let orphan = Orphan::whole().without_checkout().without_record();
    fs::create_dir_all(&orphan.admin).expect("folder");
    orphan.is_taken_back();
}

#[test]
fn an_empty_directory_is_taken_back() {
    let orphan = Orphan::whole().without_checkout().without_record();
    fs::create_dir_all(&orphan.admin).expect("folder");
    fs::create_dir(&orphan.making.checkout).expect("folder");
    orphan.is_taken_back();
}

#[test]
fn files_that_were_opened_and_not_written_are_taken_back() {
    let orphan = Orphan::whole().without_checkout().without_record();
    fs::create_dir_all(&orphan.admin).expect("folder");
    fs::write(orphan.admin.join("gitdir"), "").expect("file");
    fs::create_dir(&orphan.making.checkout).expect("folder");
    fs::write(orphan.file(".git"), "").expect("file");
    orphan.is_taken_back();
}

#[test]
fn a_checkout_before_its_head_is_taken_back() {
    let orphan = Orphan::whole().broke_off();
    fs::remove_file(orphan.admin.join("HEAD")).expect("HEAD");
    for file in ["README.md", "src", "packages"] {
        let path = orphan.file(file);
        let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path));
    }
    orphan.is_taken_back();
}

#[test]
fn a_checkout_in_the_middle_of_its_files_is_taken_back() {
    let orphan = Orphan::whole().broke_off();
    let text = fs::read(orphan.file("README.md")).expect("a file");
    fs::write(orphan.file("README.md"), &text[..text.len() / 2]).expect("file");
    fs::remove_dir_all(orphan.file("packages")).expect("folder");
    orphan.is_taken_back();
}

#[test]
fn a_checkout_whose_removal_broke_off_is_taken_back() {
    let orphan = Orphan::whole();
    fs::remove_file(orphan.file(".git")).expect("file");
    fs::remove_file(orphan.file("README.md")).expect("file");
    orphan.is_taken_back();
}

#[test]
fn a_checkout_of_which_git_has_forgotten_the_record_is_taken_back() {
    Orphan::whole().without_record().is_taken_back();
}

#[test]
fn submodules_and_line_ends_are_no_work_of_anybody() {
    let place = Place::repository();
    let lib = place.sibling("lib");
    lib.write("lib.txt", "1\n");
    lib.commit("lib");
    place.git(&["-c", "protocol.file.allow=always", "submodule", "add", "-q", "../lib", "vendor/lib"]);
    place.write(".gitattributes", "*.txt text eol=crlf\n");
    place.write("dos.txt", "one\r\ntwo\r\n");
    place.link("README.md", "link");
    place.commit("more");
    let orphan = Orphan::of(place);
    assert_eq!(fs::read(orphan.file("dos.txt")).expect("a file"), b"one\r\ntwo\r\n");
    orphan.is_taken_back();
}

#[test]
fn a_repository_that_is_gone_with_its_checkout_has_nothing_to_take_back() {
    let orphan = Orphan::whole().without_checkout();
    fs::remove_dir_all(&orphan.place.root).expect("a repository");
    assert_eq!(take_back_orphan(&orphan.making), []);
}

// ---- kept ----

#[test]
fn another_directory_in_its_place_is_kept() {
    let orphan = Orphan::whole().without_checkout().without_record();
    fs::create_dir_all(&orphan.making.checkout).expect("folder");
    fs::write(orphan.file("README.md"), "# Hello\n").expect("file");
    orphan.is_kept("it is not what was made");
}

#[test]
fn a_file_or_a_link_in_its_place_is_kept() {
    let orphan = Orphan::whole().without_checkout();
    fs::write(&orphan.making.checkout, "mine").expect("file");
    orphan.is_kept("it is not what was made");
    fs::remove_file(&orphan.making.checkout).expect("file");
    std::os::unix::fs::symlink(&orphan.place.root, &orphan.making.checkout).expect("link");
    orphan.is_kept("it is not what was made");
}

#[test]
fn a_copy_in_its_place_is_kept() {
    let orphan = Orphan::whole();
    let aside = orphan.place.around.join("aside");
    fs::rename(&orphan.making.checkout, &aside).expect("rename");
    fs::create_dir(&orphan.making.checkout).expect("folder");
    copy(&aside, &orphan.making.checkout);
    orphan.is_kept("it is not what was made");
}

#[test]
fn files_that_no_commit_has_are_kept() {
    let place = Place::repository();
    place.write(".gitignore", "*.log\n");
    place.commit("ignores");
    for file in ["README.md", "untracked.txt", "ignored.log", "new/deep/file.txt"] {
        let orphan = Orphan::of(place.at(&place.root));
        let path = orphan.file(file);
        fs::create_dir_all(path.parent().expect("a parent")).expect("folder");
        fs::write(&path, "mine\n").expect("file");
        orphan.is_kept(&format!("somebody has worked in it: {}", path.display()));
        // However the making broke off.
        orphan.broke_off().is_kept("somebody has worked in it");
    }
}

#[test]
fn a_repository_inside_it_is_kept() {
    let orphan = Orphan::whole();
    let inner = orphan.file("inner");
    fs::create_dir(&inner).expect("folder");
    git_in(&inner, &["init", "-q", "."]);
    git_in(&inner, &["commit", "-q", "--allow-empty", "-m", "mine"]);
    orphan.is_kept("somebody has worked in it");
}

#[test]
fn what_is_only_staged_is_kept() {
    let orphan = Orphan::whole();
    let checkout = &orphan.making.checkout;
    fs::write(orphan.file("mine.txt"), "mine\n").expect("file");
    git_in(checkout, &["add", "mine.txt"]);
    fs::remove_file(orphan.file("mine.txt")).expect("file");
    orphan.is_kept("somebody has worked in it");
}

#[test]
fn commits_beyond_the_baseline_are_kept() {
    let orphan = Orphan::whole();
    git_in(&orphan.making.checkout, &["commit", "-q", "--allow-empty", "-m", "mine"]);
    orphan.is_kept("it has moved");
    let orphan = orphan.without_checkout();
    orphan.is_kept("it has moved");
    orphan.without_record().is_kept("it has moved");

    let orphan = Orphan::whole();
    git_in(&orphan.making.checkout, &["checkout", "-q", "--detach"]);
    git_in(&orphan.making.checkout, &["commit", "-q", "--allow-empty", "-m", "mine"]);
    orphan.is_kept("something else is checked out");
}

#[test]
fn a_branch_that_is_checked_out_elsewhere_is_kept() {
    let orphan = Orphan::whole().without_checkout().without_record();
    orphan.place.git(&["checkout", "-q", &orphan.making.branch]);
    orphan.is_kept("it is checked out somewhere else");
}

#[test]
fn a_locked_or_moved_worktree_is_kept() {
    let orphan = Orphan::whole();
    orphan.place.git(&["worktree", "lock", orphan.making.checkout.to_str().expect("text")]);
    orphan.is_kept("somebody locked the worktree");

    let orphan = Orphan::whole();
    let elsewhere = orphan.place.around.join("elsewhere");
    let (from, to) = (orphan.making.checkout.to_str().expect("text"), elsewhere.to_str().expect("text"));
    orphan.place.git(&["worktree", "move", from, to]);
    orphan.is_kept("it is another worktree's");
    assert!(elsewhere.join("README.md").exists());
}

#[test]
fn names_that_are_not_this_sessions_are_kept() {
    let orphan = Orphan::whole();
    let other = SessionId::generate();
    let wrong = [
        Making { branch: "main".to_owned(), ..orphan.making.clone() },
        Making { branch: format!("signalbox/{}", short(other)), ..orphan.making.clone() },
        Making { session: other, ..orphan.making.clone() },
        Making { checkout: orphan.place.root.clone(), ..orphan.making.clone() },
        Making { checkout: PathBuf::from("relative"), ..orphan.making.clone() },
        Making { commit: "HEAD".to_owned(), ..orphan.making.clone() },
    ];
    let before = (orphan.place.registry(), everything(&orphan.place.root));
    for making in wrong {
        let left = take_back_orphan(&making);
        assert!(left.len() == 1 && left[0].why.contains("not ours"), "{left:?}");
    }
    assert_eq!((orphan.place.registry(), everything(&orphan.place.root)), before);
    orphan.is_taken_back();
}
