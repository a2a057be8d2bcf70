//! The house stands as designed: which crate may depend on which, and what third parties may come in.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "asks cargo about this workspace")]

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// Allowed normal dependencies between our crates. Development dependencies are free.
const EDGES: [(&str, &[&str]); 15] = [
    ("facts", &[]),
    ("home", &[]),
    ("protocol", &[]),
    ("rpc", &[]),
    ("rehearsal", &[]),
    ("store", &["facts"]),
    ("agents", &["facts", "home"]),
    ("workspace", &["facts", "home"]),
    ("engine", &["facts", "agents", "workspace", "store", "protocol"]),
    ("app-server", &["facts", "engine", "store", "rpc", "protocol"]),
    ("client", &["protocol", "home"]),
    ("server", &["app-server", "engine", "store", "rpc", "facts", "protocol", "home"]),
    (
        "cli",
        &[
            "agents",
            "app-server",
            "client",
            "engine",
            "facts",
            "home",
            "protocol",
            "rehearsal",
            "rpc",
            "server",
            "store",
            "workspace",
        ],
    ),
    ("testkit", &["facts", "protocol", "client", "home"]),
    ("bench", &["facts", "protocol", "client", "home", "testkit", "store"]),
];

/// Only these know the library beside them; everybody else would let its types leak through the house.
const OWNERS: [(&str, &[&str]); 8] = [
    ("sqlx", &["store"]),
    ("git2", &["workspace"]),
    ("agent-client-protocol-schema", &["agents", "rehearsal"]),
    ("jsonrpsee", &["rpc", "server", "client", "bench"]),
    ("tokio-tungstenite", &["rpc", "server", "client", "testkit", "bench"]),
    ("hyper", &["server"]),
    ("tokio-rustls", &["server"]),
    ("schemars", &["protocol", "rpc", "app-server", "cli"]),
];

const LICENSES: [&str; 12] = [
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "MIT",
    "MIT-0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Zlib",
    "Unicode-3.0",
    "Unlicense",
    "CC0-1.0",
    "BSL-1.0",
];

fn workspace() -> cargo_metadata::Metadata {
    cargo_metadata::MetadataCommand::new()
        .manifest_path(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
        .no_deps()
        .exec()
        .unwrap()
}

fn folder(name: &str) -> String {
    if name == "signalbox" { "cli".to_owned() } else { name.trim_start_matches("signalbox-").to_owned() }
}

fn normal_dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let metadata = workspace();
    let crates = metadata.packages.iter().map(|package| {
        let normal =
            package.dependencies.iter().filter(|one| one.kind == cargo_metadata::DependencyKind::Normal);
        (folder(&package.name), normal.map(|one| one.name.clone()).collect())
    });
    crates.collect()
}

#[test]
fn no_edge_that_the_design_does_not_allow() {
    let allowed: BTreeMap<_, BTreeSet<_>> = EDGES
        .iter()
        .map(|(name, to)| ((*name).to_owned(), to.iter().map(|to| (*to).to_owned()).collect()))
        .collect();
    let found = normal_dependencies();
    assert_eq!(
        found.keys().collect::<Vec<_>>(),
        allowed.keys().collect::<Vec<_>>(),
        "every crate has its line"
    );
    for (name, dependencies) in found {
        let ours: BTreeSet<_> =
            dependencies.iter().filter(|to| to.starts_with("signalbox")).map(|to| folder(to)).collect();
        let more: Vec<_> = ours.difference(&allowed[&name]).collect();
        assert!(more.is_empty(), "crates/{name} must not depend on {more:?}; ARCHITECTURE.md says why");
    }
}

#[test]
fn a_library_stays_with_its_owner() {
    let found = normal_dependencies();
    for (library, owners) in OWNERS {
        let users: Vec<_> = found
            .iter()
            .filter(|(name, to)| to.contains(library) && !owners.contains(&name.as_str()))
            .collect();
        assert!(
            users.is_empty(),
            "only {owners:?} may use {library}, but {:?} do",
            users.iter().map(|u| u.0).collect::<Vec<_>>()
        );
    }
}

#[test]
fn every_crate_comes_from_the_registry_under_a_license_we_accept() {
    let host = String::from_utf8(Command::new("rustc").args(["-vV"]).output().unwrap().stdout).unwrap();
    let host = host.lines().find_map(|line| line.strip_prefix("host: ")).unwrap().to_owned();
    let metadata = cargo_metadata::MetadataCommand::new()
        .manifest_path(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
        .other_options(vec!["--filter-platform".to_owned(), host])
        .exec()
        .unwrap();
    let mut checked = 0;
    for package in &metadata.packages {
        if let Some(source) = &package.source {
            assert!(source.is_crates_io(), "{} comes from {source}", package.name);
        }
        let license = package.license.as_deref().unwrap_or_default().replace('/', " OR ");
        // One acceptable alternative is enough; of what is joined by AND everything must be.
        let fits = license
            .replace(['(', ')'], "")
            .split(" OR ")
            .any(|alternative| alternative.split(" AND ").all(|one| LICENSES.contains(&one.trim())));
        assert!(fits, "{} is under {license:?}", package.name);
        checked += 1;
    }
    assert!(checked > 100, "only {checked} crates were looked at");
}

#[test]
fn every_file_says_first_what_lives_in_it() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut folders = vec![root.join("crates"), root.join("tests")];
    let mut looked_at = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                let first = text.lines().find(|line| !line.starts_with("#!")).unwrap_or_default();
                assert!(first.starts_with("//!"), "{} does not begin with a //! sentence", path.display());
                assert!(text.lines().count() <= 800, "{} is over 800 lines", path.display());
                looked_at += 1;
            }
        }
    }
    assert!(looked_at > 100, "only {looked_at} files were looked at");
}
