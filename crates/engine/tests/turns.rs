//! Turns through the engine with a real agent process: what is committed, in which order, and how each turn ends.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    unreachable_pub,
    dead_code
)]

mod stage;

use expect_test::expect;
use signalbox_engine::{Accepted, OpError, Why};
use signalbox_facts::{FactBody, PendingInput};
use signalbox_protocol::ops::{Op, PermissionMode, SandboxLevel, TurnMode};
use stage::{Stage, Watched, fact, story};

#[tokio::test]
async fn a_plain_turn() {
    let stage = Stage::new().await;
    let mut session = stage.session().await;
    session.prompts("think Let me see.\nsay Hello.").await;
    expect![[r#"
        session_created
        1 running
        title "think Let me see" Automatic
        prompt "think Let me see.\nsay Hello."
        thinks "Let me see."
        says "Hello."
        2 idle
        ended Completed end_turn
    "#]]
    .assert_eq(&story(&session.until_end().await));
}

#[tokio::test]
async fn an_approved_command_really_runs() {
    let stage = Stage::new().await;
    let mut session = stage.session().await;
    session.prompts("run echo hi > made; echo done").await;
    let input = session.is_asked().await;
    assert!(!stage.work().join("made").exists(), "nothing runs before it is allowed");
    assert_eq!(input.command.as_deref(), Some("echo hi > made; echo done"));
    assert_eq!(session.answers(&input, Some("allow")).await, Ok(Accepted::Applied));
    expect![[r#"
        3 running
        resolved Accept by Client
        CommandExecution "echo hi > made; echo done" InProgress
        output "done\n"
        CommandExecution "echo hi > made; echo done" Completed exit 0
        4 idle
        ended Completed end_turn
    "#]]
    .assert_eq(&story(&session.until_end().await));
    assert_eq!(std::fs::read_to_string(stage.work().join("made")).unwrap(), "hi\n");
    let late = session.answers(&input, Some("reject")).await.unwrap_err();
    assert_eq!(late.reason(), "approval_resolved");
    assert_eq!(late.data()["by"]["name"], "tester");
}

#[tokio::test]
async fn a_declined_edit_changes_nothing() {
    let stage = Stage::new().await;
    let mut session = stage.session().await;
    session.prompts("write a.txt <<END\nx\nEND").await;
    let input = session.is_asked().await;
    assert_eq!(session.answers(&input, Some("nonsense")).await.unwrap_err().reason(), "invalid_params");
    session.answers(&input, Some("reject")).await.unwrap();
    let seen = story(&session.until_end().await);
    assert!(seen.contains("resolved Decline by Client") && seen.contains("Failed Declined"), "{seen}");
    assert!(seen.ends_with("ended Completed end_turn\n"), "{seen}");
    assert!(!stage.work().join("a.txt").exists());
}

#[tokio::test]
async fn two_parked_requests_and_a_cancel() {
    let stage = Stage::new().await;
    let mut session = stage.session().await;
    session.prompts("parallel sleep 60 || sleep 61").await;
    let first = session.is_asked().await;
    let second = session.is_asked().await;
    assert!(first.sequence < second.sequence);
    session.cancels().await;
    let seen = story(&session.until_end().await);
    let revisions: Vec<_> =
        seen.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit())).collect();
    assert_eq!(revisions, ["4 running", "5 idle"]);
    assert_eq!(seen.matches("resolved Cancel by Interrupt").count(), 2, "{seen}");
    assert!(seen.ends_with("ended Interrupted cancelled\n"), "{seen}");
    let late = session.answers(&first, Some("allow")).await.unwrap_err();
    assert_eq!(late.reason(), "approval_resolved");
}

#[tokio::test]
async fn an_agent_that_dies_ends_the_turn_and_the_next_prompt_starts_a_fresh_one() {
    let stage = Stage::new().await;
    let mut session = stage.session().await;
    session.prompts("say before\nstderr out of steam\ncrash 3").await;
    let seen = session.until_end().await;
    let Some(FactBody::TurnEnded(ended)) = seen.last().and_then(fact) else { panic!() };
    let failure = ended.failure.as_ref().unwrap();
    assert_eq!(failure.reason, "agent_failed");
    assert!(failure.data["stderrTail"].as_str().unwrap().contains("out of steam"), "{failure:?}");
    assert!(story(&seen).contains("says \"before\""));
    session.prompts("say after").await;
    assert!(story(&session.until_end().await).contains("says \"after\""));
}

#[tokio::test]
async fn a_start_is_declined_while_a_turn_runs_and_a_steer_goes_into_it() {
    let stage = Stage::new().await;
    let mut session = stage.session().await;
    let turn = session.prompts("say first\nhang polite").await;
    session.hears("first").await;
    let mut start = session.input("say no");
    start.mode = TurnMode::Start;
    assert_eq!(session.submit(Op::TurnInput(start)).await, Err(OpError::TurnActive(turn)));
    let prompt =
        Op::Prompt { session: session.id.to_string(), doc: session.input("say no").doc, request_id: None };
    assert_eq!(session.submit(prompt).await, Err(OpError::TurnActive(turn)));
    assert_eq!(session.prompts("say second").await, turn);
    expect![[r#"
        prompt "say second" continues
        says "second"
        2 idle
        ended Completed end_turn
    "#]]
    .assert_eq(&story(&session.until_end().await));
}

#[tokio::test]
async fn a_steer_of_an_agent_that_does_not_stop_prompts_a_fresh_process_in_the_same_turn() {
    let stage = Stage::new().await;
    let mut session = stage.session().await;
    let turn = session.prompts("say first\nhang").await;
    session.hears("first").await;
    session.agent_answers().await;
    assert_eq!(session.prompts("say second").await, turn);
    let seen = session.until_end().await;
    assert!(story(&seen).contains("says \"second\"\n2 idle\nended Completed end_turn\n"), "{}", story(&seen));
}

#[tokio::test]
async fn a_steer_waits_for_an_open_approval() {
    let stage = Stage::new().await;
    let mut session = stage.session().await;
    session.prompts("run true\nhang polite").await;
    let input = session.is_asked().await;
    session.prompts("say steered").await;
    session.answers(&input, Some("allow")).await.unwrap();
    let seen = story(&session.until_end().await);
    let closed = seen.find("Completed exit 0").unwrap();
    assert!(closed < seen.find("says \"steered\"").unwrap(), "the command was not cut off: {seen}");
}

#[tokio::test]
async fn an_agent_that_ignores_a_cancel_is_killed_and_the_session_stays_usable() {
    let stage = Stage::new().await;
    let mut session = stage.session().await;
    session.prompts("say there\nhang").await;
    session.hears("there").await;
    session.agent_answers().await;
    session.cancels().await;
    assert!(story(&session.until_end().await).ends_with("ended Interrupted cancelled\n"));
    session.prompts("say again").await;
    session.hears("again").await;
}

#[tokio::test]
async fn a_cancel_before_the_agent_is_ready_is_not_lost() {
    let stage = Stage::new().await;
    let mut session = stage.session().await;
    session.prompts("hang").await;
    session.cancels().await;
    assert!(story(&session.until_end().await).ends_with("ended Interrupted cancelled\n"));
    assert_eq!(session.cancels().await, Accepted::Interrupting { turn: None });
}

#[tokio::test]
async fn yolo_allows_inside_the_ceiling_and_read_only_rejects() {
    let stage = Stage::new().await;
    let mut session = stage.session().await;
    session.policy(PermissionMode::Yolo, SandboxLevel::WorkspaceWrite).await;
    session.prompts("run true").await;
    let seen = story(&session.until_end().await);
    assert!(seen.contains("resolved Accept by Policy (mode)") && !seen.contains("awaiting"), "{seen}");
    session.policy(PermissionMode::Yolo, SandboxLevel::ReadOnly).await;
    session.prompts("run true").await;
    let seen = story(&session.until_end().await);
    assert!(
        seen.contains("resolved Decline by Policy (ceiling)") && seen.contains("Failed Declined"),
        "{seen}"
    );
}

#[tokio::test]
async fn a_new_policy_decides_what_is_parked() {
    let stage = Stage::new().await;
    let mut session = stage.session().await;
    session.prompts("run true").await;
    session.is_asked().await;
    session.policy(PermissionMode::Yolo, SandboxLevel::WorkspaceWrite).await;
    let seen = story(&session.until_end().await);
    assert!(seen.contains("3 running\nresolved Accept by Policy (mode)\n"), "{seen}");
}

#[tokio::test]
async fn allowing_for_the_session_asks_no_second_time() {
    let stage = Stage::new().await;
    let mut session = stage.session().await;
    session.prompts("run true").await;
    let PendingInput { id, .. } = session.is_asked().await;
    let answer = Op::AnswerPermission {
        session: session.id.to_string(),
        request_id: id.to_string(),
        option_id: Some("allow".into()),
        for_session: true,
        message: None,
        decline: false,
    };
    session.submit(answer).await.unwrap();
    session.until_end().await;
    session.prompts("run true\nrun false").await;
    let other = session.is_asked().await;
    assert_eq!(other.command.as_deref(), Some("false"), "only the exact command is remembered");
}

#[tokio::test]
async fn the_same_client_message_is_accepted_once_also_after_a_restart() {
    let stage = Stage::new().await;
    let mut session = stage.session().await;
    let mut input = session.input("say once");
    input.client_message_id = Some("c1".into());
    let Ok(Accepted::Started { turn }) = session.submit(Op::TurnInput(input.clone())).await else { panic!() };
    session.until_end().await;
    assert_eq!(session.submit(Op::TurnInput(input.clone())).await, Ok(Accepted::Repeated { turn }));
    let id = session.id;
    drop(session);
    let stage = stage.restart().await;
    let session = stage.watch(id).await;
    assert_eq!(session.submit(Op::TurnInput(input)).await, Ok(Accepted::Repeated { turn }));
    let mut other = session.input("say twice");
    other.client_message_id = Some("c1".into());
    assert_eq!(session.submit(Op::TurnInput(other)).await.unwrap_err().reason(), "invalid_params");
}

#[tokio::test]
async fn a_shutdown_ends_the_turn_and_the_agent_remembers_after_it() {
    let stage = Stage::new().await;
    let mut session = stage.session().await;
    session.prompts("say here\nhang polite").await;
    session.hears("here").await;
    let (id, engine) = (session.id, stage.engine.clone());
    let ((), seen) = tokio::join!(engine.shutdown(), session.until_end());
    assert!(story(&seen).ends_with("2 failed Interrupted\nended Interrupted cancelled server_stopped\n"));
    drop(session);
    let stage = stage.restart().await;
    let mut session = stage.watch(id).await;
    session.prompts("say back").await;
    let seen = story(&session.until_end().await);
    assert!(seen.contains("says \"back\"") && !seen.contains("context_lost"), "{seen}");
}

#[tokio::test]
async fn what_comes_after_the_end_belongs_to_the_turn() {
    let stage = Stage::new().await;
    let mut session = stage.session().await;
    let turn = session.prompts("say soon\nlate at last").await;
    session.until_end().await;
    let seen = session.hears("at last").await;
    let Some(signalbox_facts::Committed::Fact(late)) = seen.last() else { panic!() };
    assert_eq!(late.turn, Some(turn));
}

#[tokio::test]
async fn a_turn_without_output_says_so() {
    let stage = Stage::new().await;
    let mut session = stage.session().await;
    session.prompts("sleep 1").await;
    assert!(story(&session.until_end().await).contains("warning no_output\n"));
}

#[tokio::test]
async fn bad_beginnings_have_clear_reasons() {
    let stage = Stage::new().await;
    let refused = async |provider: &str| stage.new_session(provider).await.unwrap_err();
    assert_eq!(refused("nobody").await.reason(), "provider_not_found");
    let missing = refused("missing").await;
    assert_eq!(
        (missing.reason(), &missing.data()["command"]),
        ("provider_unavailable", &"no-such-program-anywhere".into())
    );
    let id = stage.new_session("leaves").await.unwrap();
    let mut session = stage.watch(id).await;
    session.prompts("hello").await;
    let seen = session.until_end().await;
    let Some(FactBody::TurnEnded(ended)) = seen.last().and_then(fact) else { panic!() };
    let failure = ended.failure.as_ref().unwrap();
    assert_eq!(failure.reason, "agent_failed");
    assert_eq!(failure.data["exitStatus"], "exit status: 7");
    let unknown = Op::Cancel { session: "nope".into(), turn: None };
    assert_eq!(session.submit(unknown).await.unwrap_err().reason(), "thread_not_found");
    assert_eq!(
        session.submit(Op::TurnInput(session.input(" \n"))).await.unwrap_err().reason(),
        "invalid_params"
    );
}

#[tokio::test]
async fn one_stuck_and_one_dying_agent_hinder_nobody() {
    let stage = Stage::new().await;
    let mut stuck = stage.session().await;
    let mut dying = stage.session().await;
    let mut others = Vec::new();
    for _ in 0..8 {
        others.push(stage.session().await);
    }
    stuck.prompts("say stuck\nhang").await;
    dying.prompts("crash").await;
    for session in &others {
        session.prompts("stream 200 20 0").await;
    }
    for session in &mut others {
        assert!(story(&session.until_end().await).ends_with("ended Completed end_turn\n"));
    }
    assert!(story(&dying.until_end().await).contains("ended Failed - agent_failed"));
    stuck.hears("stuck").await;
}

/// Git without a person's configuration.
fn git(folder: &std::path::Path, args: &[&str]) {
    let config = ["-c", "user.name=t", "-c", "user.email=t@example.invalid", "-c", "init.defaultBranch=main"];
    let done =
        std::process::Command::new("git").current_dir(folder).args(config).args(args).output().unwrap();
    assert!(done.status.success(), "{done:?}");
}

#[tokio::test]
async fn the_diff_of_a_turn_shows_what_commands_and_edits_changed_in_a_repository() {
    let stage = Stage::new().await;
    let work = stage.work();
    git(&work, &["init", "-q"]);
    std::fs::write(work.join("kept"), "kept\n").unwrap();
    std::fs::write(work.join("gone"), "gone\n").unwrap();
    git(&work, &["add", "."]);
    git(&work, &["commit", "-qm", "first"]);
    std::fs::write(work.join("dirty"), "before the turn\n").unwrap();
    let mut session = stage.session().await;
    session.policy(PermissionMode::Yolo, SandboxLevel::WorkspaceWrite).await;
    session.prompts("run rm gone; echo more >> kept\nwrite new.txt <<END\nnew\nEND").await;
    let seen = session.until_end().await;
    let diff = seen.iter().rev().find_map(|one| match fact(one) {
        Some(FactBody::TurnDiff(diff)) => Some(diff),
        _ => None,
    });
    let diff = diff.expect("a diff");
    assert!(!diff.partial);
    for part in ["deleted file mode", "-gone", "+more", "b/new.txt", "+new"] {
        assert!(diff.diff.contains(part), "{part} in {}", diff.diff);
    }
    assert!(!diff.diff.contains("before the turn"), "what was dirty before is no part of it");
}

#[tokio::test]
async fn outside_git_the_diff_is_what_edits_carry() {
    let stage = Stage::new().await;
    let mut session = stage.session().await;
    session.policy(PermissionMode::Yolo, SandboxLevel::WorkspaceWrite).await;
    session.prompts("write new.txt <<END\nnew\nEND").await;
    assert!(story(&session.until_end().await).contains("diff of 1 files, partial\n"));
}

#[tokio::test]
async fn a_question_is_answered_by_its_form_or_by_a_projected_option() {
    let stage = Stage::new().await;
    let mut session = stage.session().await;
    session.prompts("ask Which one? | red | blue").await;
    let question = session.is_asked().await;
    let form = question.form.as_ref().expect("a form");
    let key = form.fields[0].key.clone();
    let answer = signalbox_protocol::ops::ElicitationAnswer::Accept {
        content: [(key.clone(), "blue".into()), ("smuggled".to_owned(), true.into())].into_iter().collect(),
    };
    let op = Op::AnswerElicitation {
        session: session.id.to_string(),
        request_id: question.id.to_string(),
        answer,
    };
    session.submit(op).await.unwrap();
    let seen = story(&session.until_end().await);
    assert!(seen.contains("resolved Answered by Client") && seen.contains("blue"), "{seen}");

    session.prompts("ask Which one? | red | blue").await;
    let question = session.is_asked().await;
    session.answers(&question, Some(&format!("{key}#0"))).await.unwrap();
    assert!(story(&session.until_end().await).contains("red"));
}

#[tokio::test]
async fn a_decline_with_a_message_gives_it_to_the_agent() {
    let stage = Stage::new().await;
    let mut session = stage.session().await;
    session.prompts("run true\nhang polite").await;
    let input = session.is_asked().await;
    let answer = Op::AnswerPermission {
        session: session.id.to_string(),
        request_id: input.id.to_string(),
        option_id: Some("reject".into()),
        for_session: false,
        message: Some("say instead this".into()),
        decline: false,
    };
    session.submit(answer).await.unwrap();
    let seen = story(&session.until_end().await);
    assert!(
        seen.contains("prompt \"say instead this\" continues") && seen.contains("says \"instead this\""),
        "{seen}"
    );
}

#[tokio::test]
async fn an_agent_that_fails_again_and_again_is_started_later_and_later() {
    let stage = Stage::new().await;
    let mut session = stage.session().await;
    let failing = async |session: &mut Watched| {
        session.prompts("crash 3").await;
        story(&session.until_end().await)
    };
    // The second one starts at once, the third has to wait and says so.
    for _ in 0..2 {
        let told = failing(&mut session).await;
        assert!(told.contains("ended Failed") && !told.contains("agent_restarting"), "{told}");
    }
    let began = std::time::Instant::now();
    let told = failing(&mut session).await;
    assert!(told.contains("agent_restarting") && told.contains("ended Failed"), "{told}");
    assert!(began.elapsed() >= std::time::Duration::from_millis(900), "{:?}", began.elapsed());

    // Whoever does not want to wait interrupts, and the thread says until when it waits.
    session.prompts("say Hello.").await;
    session
        .until(|committed| matches!(fact(committed), Some(FactBody::Warning(warning)) if warning.reason == "agent_restarting"))
        .await;
    let explained = stage.engine.explain(session.id).await.unwrap();
    assert!(matches!(explained.state, Why::RestartingAgent { at_ms: Some(_) }), "{explained:?}");
    session.cancels().await;
    assert!(story(&session.until_end().await).contains("ended Interrupted cancelled"));

    // A turn that ends well makes it as it was.
    session.prompts("say Hello.").await;
    assert!(story(&session.until_end().await).contains("ended Completed"));
    for _ in 0..2 {
        assert!(!failing(&mut session).await.contains("agent_restarting"));
    }
}
