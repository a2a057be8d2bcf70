//! What comes before what: the welcome, the messages of one client, and the end of its input.

use serde_json::json;
use signalbox_engine::Unattended;
use signalbox_protocol::ops::{
    ActivityState, Event, Op, PermissionMode, Policy, ResolverKind, SandboxLevel, ServerFrame,
};
use signalbox_rpc::Role;
use signalbox_server::ops_socket::OpsLimits;

use super::stage::{Stage, names, within};

#[tokio::test(flavor = "multi_thread")]
async fn the_first_frame_is_the_list() {
    let stage = Stage::new().await;
    let mut first = stage.connect();
    assert_eq!(first.next().await, ServerFrame::Sessions { sessions: vec![] });
    let session = first.creates("rehearsal", &stage.folder).await;

    let mut second = stage.connect();
    let ServerFrame::Sessions { sessions } = second.next().await else { panic!() };
    let [listed] = &sessions[..] else { panic!("{sessions:?}") };
    assert_eq!((listed.id.as_str(), listed.title.as_str()), (session.as_str(), "Untitled session"));
    let keys = serde_json::to_value(listed).unwrap();
    assert_eq!(keys.get("worktree_path"), Some(&serde_json::Value::Null), "every key is written");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_happens_while_a_client_connects_is_in_the_list_or_follows_it() {
    let stage = Stage::new().await;
    let mut maker = stage.connect();
    maker.next().await;
    let mut created = Vec::new();
    let mut joined = Vec::new();
    for _ in 0..12 {
        let cwd = stage.folder.path().join("work");
        let op = json!({"op": "new_session", "provider": {"custom": "rehearsal"}, "cwd": cwd, "use_worktree": false});
        maker.sends(op).await;
        joined.push(stage.connect());
        let seen = maker.until_event("session_created").await;
        let Some(ServerFrame::Event { event: Event::SessionCreated { session, .. } }) = seen.last() else {
            panic!()
        };
        created.push(session.clone());
    }
    for mut client in joined {
        while !created.iter().all(|session| client.state.sessions.contains_key(session)) {
            client.next().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_is_bounded_and_never_without_a_turn_that_runs() {
    let stage = Stage::new().await;
    let (mut maker, running) = stage.session("rehearsal").await;
    maker.prompts(&running, "hang polite").await;
    maker.until_event("turn_started").await;
    let mut newest = Vec::new();
    for _ in 0..3 {
        newest.insert(0, maker.creates("rehearsal", &stage.folder).await);
    }
    let archived = maker.creates("rehearsal", &stage.folder).await;
    maker.submits(Op::Archive { session: archived, request_id: None }).await;
    maker.until_event("session_archived").await;

    let mut client = stage.connect_as(Role::Operator, OpsLimits { listed: 2, ..OpsLimits::default() });
    client.next().await;
    assert_eq!(client.state.list.order, [newest[0].as_str(), newest[1].as_str(), running.as_str()]);
    assert!(matches!(client.state.sessions[&running].activity.state, ActivityState::Running { .. }));
    maker.submits(Op::Cancel { session: running, turn: None }).await;
    client.until_event("turn_ended").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_sent_before_a_prompt_holds_for_it() {
    let stage = Stage::new().await;
    let (mut client, session) = stage.session("rehearsal").await;
    let policy = Policy { mode: PermissionMode::Ask, sandbox: SandboxLevel::ReadOnly, never_ask: false };
    let op = client.state.set_policy(&session, policy, "policy");
    client.sends(serde_json::to_value(op).unwrap()).await;
    client.prompts(&session, "run echo hi").await;

    let seen = client.until_event("turn_ended").await;
    let names = names(&seen);
    let place = |name: &str| names.iter().position(|seen| seen == name);
    assert!(place("execution_policy_changed").unwrap() < place("turn_started").unwrap(), "{names:?}");
    assert_eq!(place("permission_request"), None);
    let resolved = seen.iter().find_map(|frame| match frame {
        ServerFrame::Event { event: Event::PermissionResolved { by, .. } } => Some(by.kind),
        _ => None,
    });
    assert_eq!(resolved, Some(ResolverKind::Policy));
    assert_eq!(client.state.sessions[&session].policy, Some(policy));
    assert!(client.state.submitted.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_does_not_wait_behind_a_prompt_whose_agent_does_not_start() {
    let stage = Stage::new().await;
    let (mut client, session) = stage.session("stuck").await;
    client.prompts(&session, "anything").await;
    client.until_event("turn_started").await;
    client.submits(Op::Cancel { session: session.clone(), turn: None }).await;
    client
        .until(|frame| match frame {
            ServerFrame::Event { event: Event::TurnEnded { .. } } => true,
            ServerFrame::Event { event: Event::Error { terminal, .. } } => *terminal,
            _ => false,
        })
        .await;
    assert!(!client.state.sessions[&session].running);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_messages_sent_at_once_are_taken_in_their_order() {
    let stage = Stage::new().await;
    let (mut client, session) = stage.session("rehearsal").await;
    let titles: Vec<String> = (0..40).map(|number| format!("title {number}")).collect();
    for title in &titles {
        client.submits(Op::Rename { session: session.clone(), title: title.clone(), request_id: None }).await;
    }
    let mut heard = Vec::new();
    while heard.len() < titles.len() {
        if let ServerFrame::Event { event: Event::SessionTitleChanged { title, .. } } = client.next().await {
            heard.push(title);
        }
    }
    assert_eq!(heard, titles);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_that_was_taken_reaches_its_end_without_its_client() {
    let stage = Stage::new().await;
    let (mut client, session) = stage.session("rehearsal").await;
    let mut observer = stage.connect();
    observer.next().await;
    observer.opens(&session).await;
    client.prompts(&session, "sleep 50\nsay Still here.").await;
    client.leaves().await;

    observer.until_event("turn_ended").await;
    assert!(!observer.state.sessions[&session].running);
    let told = format!("{:?}", observer.state.sessions[&session].transcript);
    assert!(told.contains("Still here."), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_the_input_ends_only_the_reading() {
    let stage = Stage::new().await;
    let (mut client, session) = stage.session("rehearsal").await;
    client.prompts(&session, "say One.").await;
    client.ends_its_input();
    client.until_event("turn_ended").await;
    client.leaves().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_engine_stops_the_connection_ends_after_its_last_event() {
    let stage = Stage::new().await;
    let (mut client, session) = stage.session("rehearsal").await;
    client.prompts(&session, "hang polite").await;
    client.until_event("turn_started").await;
    within(stage.engine.shutdown()).await;
    let mut last = None;
    while let Some(frame) = client.reads().await {
        client.state.apply(frame.clone());
        last = Some(frame);
    }
    assert!(!client.state.sessions[&session].running, "{last:?}");
    client.leaves().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_on_the_socket_is_there_to_answer_until_its_input_ends() {
    let stage = Stage::with(Unattended::Reject).await;
    let mut observer = stage.connect_as(Role::Observer, OpsLimits::default());
    observer.next().await;
    let (mut operator, session) = stage.session("rehearsal").await;
    operator.prompts(&session, "run echo hi").await;
    observer.until_event("permission_request").await;
    assert_eq!(observer.state.awaiting()[0].session, session);

    operator.leaves().await;
    let seen = observer.until_event("permission_resolved").await;
    let Some(ServerFrame::Event { event: Event::PermissionResolved { by, .. } }) = seen.last() else {
        panic!()
    };
    assert_eq!(by.kind, ResolverKind::Unattended, "an observer cannot answer");
    observer.until_event("turn_ended").await;
    assert!(observer.state.awaiting().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approval_is_answered_by_the_client_that_comes_later() {
    let stage = Stage::new().await;
    let (mut first, session) = stage.session("rehearsal").await;
    first.prompts(&session, "run echo hi").await;
    first.until_event("permission_request").await;
    first.leaves().await;

    let mut second = stage.connect();
    second.next().await;
    let waiting = second.state.awaiting();
    let [waiting] = &waiting[..] else { panic!("{waiting:?}") };
    let answer = Op::AnswerPermission {
        session: waiting.session.to_owned(),
        request_id: waiting.input.input_id.clone(),
        option_id: Some("allow".to_owned()),
        for_session: false,
        message: None,
        decline: false,
    };
    for _ in 0..2 {
        // The second answer comes too late, and nothing is said about it.
        second.submits(answer.clone()).await;
    }
    let seen = second.until_event("turn_ended").await;
    let names = names(&seen);
    assert_eq!(names.iter().filter(|name| *name == "permission_resolved").count(), 1, "{names:?}");
    // That nobody was there for a while may be told before or after the second one came.
    let said = |frame: &&ServerFrame| {
        matches!(frame, ServerFrame::Event { event: Event::Error { reason, .. } }
            if reason.as_deref() != Some("unattended"))
    };
    assert_eq!(seen.iter().filter(said).count(), 0, "{names:?}");
}
