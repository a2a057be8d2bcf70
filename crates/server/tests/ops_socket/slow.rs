//! Clients that do not read: they cost a bounded amount of memory, are told what they missed, and find their way back.

use std::time::Duration;

use serde_json::json;
use signalbox_client::ops::Item;
use signalbox_engine::{Origin, Unattended};
use signalbox_protocol::ops::{Event, Op, ResolverKind, ServerFrame};
use signalbox_rpc::Role;
use signalbox_server::ops_socket::{Inbound, OpsLimits};

use super::stage::{Client, Stage, names};

/// More events than the engine keeps for anybody, each about nothing that exists.
async fn noise(stage: &Stage) {
    for number in 0..10_000 {
        let op = Op::SetModel { session: format!("nowhere-{number}"), model: "m".to_owned() };
        stage.engine.dispatch_op(op, Origin::default()).await;
    }
}

/// All that agents said, as this client has it.
fn said(client: &Client, session: &str) -> Vec<String> {
    let transcript = client.state.sessions[session].transcript.as_ref().unwrap();
    let items = transcript.turns.iter().flat_map(|turn| &turn.items);
    items
        .filter_map(|item| if let Item::Text { text, .. } = item { Some(text.clone()) } else { None })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_read_is_told_what_it_missed_and_stays_usable() {
    let stage = Stage::new().await;
    let limits = OpsLimits { outbox_items: 4, ..OpsLimits::default() };
    let mut slow = stage.connect_as(Role::Operator, limits);
    slow.next().await;
    noise(&stage).await;
    let seen = slow.until(|frame| matches!(frame, ServerFrame::Lagged { .. })).await;
    assert!(seen.len() < 10, "only its outbox held anything for it, but that held {}", seen.len());
    let Some(ServerFrame::Lagged { missed }) = seen.last() else { panic!() };
    assert!(*missed > 1_000, "{missed}");
    slow.makes_good().await;
    let session = slow.creates("rehearsal", &stage.folder).await;
    slow.prompts(&session, "say Hello.").await;
    slow.until_event("turn_ended").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_lagged_ends_with_the_same_history_as_one_that_did_not() {
    let stage = Stage::new().await;
    let limits = OpsLimits { outbox_items: 2, ..OpsLimits::default() };
    let mut slow = stage.connect_as(Role::Operator, limits);
    slow.next().await;
    let (mut quick, session) = stage.session("rehearsal").await;
    slow.opens(&session).await;
    quick.opens(&session).await;
    quick.prompts(&session, "say One.\nsay Two.\nplan done: look | todo: go\nsay Three.").await;
    quick.until_event("turn_ended").await;
    assert_eq!(said(&quick, &session), ["One.", "Two.", "Three."]);
    noise(&stage).await;
    quick.prompts(&session, "think Hm.\nsay Four.").await;
    quick.until_event("turn_started").await;
    quick.makes_good().await;
    quick.waits_while_it_runs(&session).await;

    let seen = slow.until(|frame| matches!(frame, ServerFrame::Lagged { .. })).await;
    assert!(!names(&seen).contains(&"turn_ended".to_owned()), "the end of the first turn was missed");
    slow.makes_good().await;
    slow.waits_while_it_runs(&session).await;
    assert_eq!(said(&slow, &session), ["One.", "Two.", "Three.", "Four."]);
    assert_eq!(said(&quick, &session), ["One.", "Two.", "Three.", "Four."]);
    assert_eq!(slow.state.sessions[&session].activity, quick.state.sessions[&session].activity);
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_do_not_fit_wait_and_are_never_dropped() {
    let stage = Stage::new().await;
    let limits = OpsLimits { outbox_items: 2, outbox_bytes: 60, inbox_items: 2, ..OpsLimits::default() };
    let mut client = stage.connect_as(Role::Operator, limits);
    let inbox = client.inbox();
    let sending = tokio::spawn(async move {
        for number in 0..200 {
            let text = json!({"op": "later", "request_id": number.to_string()}).to_string();
            inbox.send(Inbound::Text(text)).await.unwrap();
        }
    });
    client.next().await;
    for number in 0..200 {
        let frame = client.next().await;
        let ServerFrame::Error { request_id, .. } = &frame else { panic!("{frame:?}") };
        assert_eq!(*request_id, Some(number.to_string()));
    }
    sending.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_takes_nothing_any_more_is_gone_and_attends_to_nothing() {
    let stage = Stage::with(Unattended::Reject).await;
    let grace = Duration::from_millis(50);
    let limits = OpsLimits { outbox_items: 1, grace, ..OpsLimits::default() };
    let (mut quick, session) = stage.session("rehearsal").await;
    let mut half_open = stage.connect_as(Role::Operator, limits);
    half_open.next().await;
    noise(&stage).await;
    half_open.is_served_no_more().await;
    let mut observer = stage.connect_as(Role::Observer, OpsLimits::default());
    observer.next().await;
    quick.prompts(&session, "run echo hi").await;
    quick.ends_its_input();
    let seen = observer.until_event("permission_resolved").await;
    let Some(ServerFrame::Event { event: Event::PermissionResolved { by, .. } }) = seen.last() else {
        panic!()
    };
    assert_eq!(by.kind, ResolverKind::Unattended);
}
