//! Where the home is, who may read it, and that only one process holds it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail by panicking")]

use std::ffi::OsString;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use signalbox_home::{Holder, Home, HomeError, Lock, LockError};

fn locate(explicit: Option<&Path>, variables: &[(&str, &Path)]) -> Result<Home, HomeError> {
    let env = |name: &str| -> Option<OsString> {
        variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.as_os_str().to_owned())
    };
    Home::locate(explicit.map(Path::to_path_buf), &env)
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap();
    (folder, path)
}

#[test]
fn the_nearest_name_wins_and_the_folder_is_private() {
    let (_guard, base) = folder();
    let (user, set, given) = (base.join("user"), base.join("set"), base.join("deep/given"));
    std::fs::create_dir(&user).unwrap();
    let home = locate(None, &[("HOME", &user)]).unwrap();
    assert_eq!(home.folder(), user.join(".signalbox"));
    let home = locate(None, &[("HOME", &user), ("SIGNALBOX_HOME", &set)]).unwrap();
    assert_eq!(home.folder(), set);
    let home = locate(Some(&given), &[("HOME", &user), ("SIGNALBOX_HOME", &set)]).unwrap();
    assert_eq!(home.folder(), given);
    assert_eq!(mode(&given), 0o700);
    assert_eq!(home.database(), given.join("signalbox.db"));
    assert_eq!(mode(&home.logs().unwrap()), 0o700);
    let state = home.agent_state("../odd name").unwrap();
    assert_eq!(state, given.join("agents/___odd_name"));
    assert!(matches!(locate(None, &[]), Err(HomeError::Unknown)));
    assert!(matches!(locate(None, &[("HOME", Path::new(""))]), Err(HomeError::Unknown)));
}

#[test]
fn a_file_is_no_home() {
    let (_guard, base) = folder();
    let file = base.join("file");
    std::fs::write(&file, "").unwrap();
    let error = locate(Some(&file), &[]).unwrap_err();
    assert!(error.to_string().contains(file.to_str().unwrap()), "{error}");
}

#[test]
fn the_socket_moves_when_its_path_gets_too_long() {
    let (_guard, base) = folder();
    let short = locate(Some(&base.join("h")), &[]).unwrap();
    assert_eq!(short.socket(), base.join("h/signalbox.sock"));
    let (long, runtime) = (base.join("x".repeat(100)), base.join("run"));
    std::fs::create_dir(&runtime).unwrap();
    let home = locate(Some(&long), &[("XDG_RUNTIME_DIR", &runtime)]).unwrap();
    assert_eq!(home.socket().parent(), Some(&*runtime));
    assert!(home.socket().as_os_str().len() <= 100);
    home.prepare_socket().unwrap();

    let temporary = base.join("tmp");
    let home = locate(Some(&long), &[("TMPDIR", &temporary)]).unwrap();
    home.prepare_socket().unwrap();
    let private = home.socket().parent().unwrap();
    assert!(private.starts_with(&temporary));
    assert_eq!(mode(private), 0o700);
    assert_eq!(locate(Some(&long), &[("TMPDIR", &temporary)]).unwrap(), home, "the same for every process");
    let other = locate(Some(&base.join("y".repeat(100))), &[("TMPDIR", &temporary)]).unwrap();
    assert_ne!(other.socket(), home.socket());

    // Somebody else could put a socket of his own there.
    std::fs::set_permissions(private, std::fs::Permissions::from_mode(0o777)).unwrap();
    assert!(matches!(home.prepare_socket(), Err(HomeError::NotPrivate { .. })));
}

#[test]
fn files_are_written_for_the_owner_alone_and_whole() {
    let (_guard, base) = folder();
    let home = locate(Some(&base), &[]).unwrap();
    let path = home.write_private("token", b"one").unwrap();
    assert_eq!(path, home.token_file());
    assert_eq!(mode(&path), 0o600);
    let before = std::fs::metadata(&path).unwrap().ino();
    home.write_private("token", b"two").unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"two");
    assert_ne!(std::fs::metadata(&path).unwrap().ino(), before, "replaced, not overwritten");
    assert_eq!(std::fs::read_dir(&base).unwrap().count(), 1, "no drafts stay");
}

#[test]
fn one_holder_at_a_time_and_the_other_learns_who() {
    let (_guard, base) = folder();
    let home = locate(Some(&base), &[]).unwrap();
    assert_eq!(Holder::last(&home), None);
    let lock = Lock::take(&home, "app-server", "1.0.0").unwrap();
    assert_eq!(mode(lock.path()), 0o600);
    let error = Lock::take(&home, "run", "1.0.0").unwrap_err();
    let text = error.to_string();
    let LockError::Held { holder: Some(holder), .. } = error else { panic!("{text}") };
    assert_eq!((holder.pid, holder.role.as_str()), (std::process::id(), "app-server"));
    assert_eq!(holder.socket, home.socket());
    let pid = std::process::id();
    let expected =
        format!("the home {} is in use by signalbox app-server (process {pid}, 1.0.0)", base.display());
    assert_eq!(text, expected);
    assert_eq!(Holder::last(&home), Some(holder));
    drop(lock);
    assert_eq!(Holder::last(&home), None);
    Lock::take(&home, "run", "1.0.0").unwrap();
}

#[test]
fn what_others_may_write_is_refused_and_what_they_may_read_is_known() {
    let (_guard, base) = folder();
    let config = base.join("config.toml");
    std::fs::write(&config, "").unwrap();
    let set = |path: &Path, mode| std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    for mode in [0o777, 0o770, 0o702] {
        set(&base, mode);
        let error = locate(Some(&base), &[]).unwrap_err().to_string();
        assert!(error.contains(&format!("chmod 700 {}", base.display())), "{error}");
    }
    set(&base, 0o755);
    assert!(locate(Some(&base), &[]).unwrap().is_open_to_others());
    set(&base, 0o700);
    assert!(!locate(Some(&base), &[]).unwrap().is_open_to_others());
    set(&config, 0o620);
    let error = signalbox_home::Config::load(&config).unwrap_err();
    let why = std::error::Error::source(&error).unwrap().to_string();
    assert!(why.contains("chmod 600"), "{error}: {why}");
    set(&config, 0o644);
    signalbox_home::Config::load(&config).unwrap();
}
