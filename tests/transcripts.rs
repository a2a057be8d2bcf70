//! The transcripts in `tests/transcripts`, played over stdio and over the unix socket. `UPDATE=1` rewrites them.
#![allow(clippy::disallowed_methods)]

use std::path::Path;

use signalbox_testkit::{App, play};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/transcripts");

macro_rules! transcripts {
    ($($name:ident,)*) => {
        $(
            #[test]
            fn $name() {
                let file = Path::new(FOLDER).join(concat!(stringify!($name), ".txt"));
                play(&file, || App::new(env!("CARGO_BIN_EXE_signalbox")));
            }
        )*

        const NAMES: &[&str] = &[$(stringify!($name)),*];
    };
}

transcripts! {
    handshake,
    plain_turn,
    reasoning,
    command_approved,
    command_declined,
    command_for_session,
    command_cancelled,
    file_change,
    plan,
    prompt_preview,
    question,
    interrupt_streaming,
    interrupt_command,
    interrupt_approval,
    agent_crash,
    agent_fails,
    steer,
    late_updates,
    two_clients,
    joiner_in_text,
    joiner_with_approval,
    worktree,
    transcript,
    fork,
    revert,
    queue,
    archive_delete,
    mcp_tool,
    dynamic_tool,
    question_labels,
    only_always,
    late_answer,
    malformed_answer,
    decline_with_message,
    sigterm,
    sigterm_approval,
    restart_in_turn,
    compaction,
    form,
    no_output,
    rate_limits,
    plan_in_prose,
    unattended,
    two_tools_at_once,
    compat,
    settings,
    pages,
}

#[test]
fn every_file_is_played() {
    let mut files: Vec<String> = std::fs::read_dir(FOLDER)
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    files.sort();
    let mut names = NAMES.to_vec();
    names.sort_unstable();
    assert_eq!(files, names);
}
