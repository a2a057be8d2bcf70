//! A database that a newer signalbox has written: refused with a word on what to do, and left as it is.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use std::path::Path;
use std::process::{Command, Output, Stdio};

fn app_server(home: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_signalbox"))
        .args(["app-server", "--standalone", "--listen", "stdio://"])
        .env("SIGNALBOX_HOME", home)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

#[test]
fn a_newer_database_is_refused_and_left_as_it_is() {
    let home = tempfile::tempdir().unwrap();
    assert_eq!(app_server(home.path()).status.code(), Some(0));
    let database = home.path().join("signalbox.db");
    let mut bytes = std::fs::read(&database).unwrap();
    // SQLite keeps a file's user version here, big-endian; ours is the version of the schema.
    let version = 60..64;
    let known = u32::from_be_bytes(bytes[version.clone()].try_into().unwrap());
    bytes[version.clone()].copy_from_slice(&99_u32.to_be_bytes());
    std::fs::write(&database, &bytes).unwrap();

    let refused = app_server(home.path());
    assert_eq!(refused.status.code(), Some(2));
    assert_eq!(refused.stdout, b"");
    let said = String::from_utf8(refused.stderr).unwrap();
    for part in [
        database.to_str().unwrap(),
        "written by a newer signalbox",
        "schema version 99",
        "use that version",
        "choose another home",
        &format!("put back the copy {}.schema-{known}", database.display()),
    ] {
        assert!(said.contains(part), "{part} in {said}");
    }
    assert_eq!(std::fs::read(&database).unwrap(), bytes);

    // The version that wrote it finds everything in order.
    bytes[version].copy_from_slice(&known.to_be_bytes());
    std::fs::write(&database, &bytes).unwrap();
    assert_eq!(app_server(home.path()).status.code(), Some(0));
}
