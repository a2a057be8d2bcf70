//! What is answered: lists, pages, and messages that are nothing.

use serde_json::json;
use signalbox_protocol::ops::{ClientRequest, Event, ServerFrame};
use signalbox_rpc::Role;
use signalbox_server::ops_socket::{Inbound, OpsLimits};

use super::stage::Stage;

fn page(session: &str, before: Option<u64>, request_id: &str) -> ClientRequest {
    ClientRequest::Transcript {
        session: session.to_owned(),
        before,
        limit: Some(20),
        request_id: Some(request_id.to_owned()),
    }
}

fn is_page(frame: &ServerFrame) -> bool {
    matches!(frame, ServerFrame::Transcript { .. } | ServerFrame::TranscriptError { .. })
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_session_has_an_empty_page_with_nulls() {
    let stage = Stage::new().await;
    let mut client = stage.connect();
    client.next().await;
    for unknown in ["none", "019a0000-0000-7000-8000-000000000000"] {
        client.asks(page(unknown, None, "page-1")).await;
        let frame = serde_json::to_value(client.next().await).unwrap();
        assert_eq!(
            frame,
            json!({"kind": "transcript", "session": unknown, "request_id": "page-1", "entries": [],
                "next_before": null, "snapshot_through": null})
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cursor_that_is_none_of_the_session_is_answered_by_its_request_id() {
    let stage = Stage::new().await;
    let (mut client, session) = stage.session("rehearsal").await;
    client.prompts(&session, "say Hello.").await;
    client.until_event("turn_ended").await;
    client.asks(page(&session, None, "page-1")).await;
    let Some(ServerFrame::Transcript { entries, .. }) = client.until(is_page).await.pop() else { panic!() };
    let (prompt, answer) = (entries[0].seq, entries[1].seq);

    let other = client.creates("rehearsal", &stage.folder).await;
    let bad = [(&session, answer), (&session, 999_999), (&other, prompt)];
    for (number, (session, before)) in bad.into_iter().enumerate() {
        let id = format!("bad-{number}");
        client.asks(page(session, Some(before), &id)).await;
        let frame = client.until(is_page).await.pop();
        let Some(ServerFrame::TranscriptError { session: of, request_id, message }) = frame else {
            panic!("{frame:?}")
        };
        assert_eq!((&of, request_id), (session, Some(id)));
        assert!(message.contains(&before.to_string()), "{message}");
    }
    client.asks(page(&session, Some(prompt), "good")).await;
    let frame = client.until(is_page).await.pop();
    let Some(ServerFrame::Transcript { entries, next_before, .. }) = frame else { panic!("{frame:?}") };
    assert_eq!((entries.len(), next_before), (0, None), "there is nothing before the first turn");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_message_is_answered_and_the_connection_goes_on() {
    let stage = Stage::new().await;
    let limits = OpsLimits { text_bytes: 200, ..OpsLimits::default() };
    let mut client = stage.connect_as(Role::Operator, limits);
    client.next().await;
    let long =
        json!({"op": "rename", "session": "s", "title": "x".repeat(200), "request_id": "r"}).to_string();
    for (inbound, words, request_id) in [
        (Inbound::Text("{".into()), "not JSON", None),
        (Inbound::Text(r#"["cancel","s"]"#.into()), "no batches", None),
        (Inbound::Text(r#"{"op":"later","request_id":"r1"}"#.into()), "unknown op `later`", Some("r1")),
        (
            Inbound::Text(r#"{"req":"transcript","request_id":"r2"}"#.into()),
            "missing field `session`",
            Some("r2"),
        ),
        (Inbound::Text(long), "more than the 200", None),
        (Inbound::TooLarge { bytes: 1 << 30 }, "1073741824 bytes", None),
        (Inbound::Binary, "only text", None),
    ] {
        client.sends_inbound(inbound).await;
        let frame = client.next().await;
        let ServerFrame::Error { message, request_id: echoed } = &frame else { panic!("{frame:?}") };
        assert!(message.contains(words), "{message}");
        assert_eq!(echoed.as_deref(), request_id);
    }
    client.sends(json!({"req": "sessions"})).await;
    assert_eq!(client.next().await, ServerFrame::Sessions { sessions: vec![] });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_cannot_be_read_is_told_and_the_connection_goes_on() {
    let stage = Stage::new().await;
    let (mut before, session) = stage.session("rehearsal").await;
    stage.store.reader.close().await;
    before.sends(json!({"req": "sessions"})).await;
    before.until(|frame| matches!(frame, ServerFrame::SessionsError { .. })).await;
    assert_eq!(before.state.list.order, [session.as_str()], "the last good list stays");

    let mut after = stage.connect();
    let frame = after.next().await;
    assert!(matches!(frame, ServerFrame::SessionsError { .. }), "{frame:?}");
    after.asks(page(&session, None, "page-1")).await;
    let frame = after.next().await;
    let ServerFrame::TranscriptError { request_id, .. } = &frame else { panic!("{frame:?}") };
    assert_eq!(request_id.as_deref(), Some("page-1"));
    before.sends(json!({"op": "rename", "session": session, "title": "Still there"})).await;
    after.until_event("session_title_changed").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_observer_reads_and_submits_nothing() {
    let stage = Stage::new().await;
    let (_operator, session) = stage.session("rehearsal").await;
    let mut observer = stage.connect_as(Role::Observer, OpsLimits::default());
    observer.next().await;
    let id = observer.prompts(&session, "say Hello.").await;
    let frame = observer.next().await;
    let ServerFrame::Error { request_id, .. } = &frame else { panic!("{frame:?}") };
    assert_eq!(request_id.as_ref(), Some(&id));
    assert!(observer.state.submitted.is_empty());
    observer.asks(page(&session, None, "page-1")).await;
    let frame = observer.next().await;
    let ServerFrame::Transcript { entries, .. } = &frame else { panic!("{frame:?}") };
    assert_eq!(entries.len(), 0, "nothing was prompted");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_declined_op_is_told_to_everybody_with_its_request_id() {
    let stage = Stage::new().await;
    let mut client = stage.connect();
    let mut other = stage.connect();
    client.next().await;
    other.next().await;
    let id = client.prompts("nowhere", "say Hello.").await;
    for client in [&mut client, &mut other] {
        let frame = client.next().await;
        let ServerFrame::Event { event: Event::Error { session, terminal, request_id, .. } } = &frame else {
            panic!("{frame:?}")
        };
        assert_eq!((session.as_deref(), *terminal, request_id.as_ref()), (Some("nowhere"), true, Some(&id)));
    }
    assert!(client.state.submitted.is_empty());
    assert!(!client.state.sessions.contains_key("nowhere"));
}
