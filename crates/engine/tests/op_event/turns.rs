//! Scenarios 1 to 19: the life of a turn, and which event belongs to which prompt.

use serde_json::json;
use signalbox_store::FailPoint;

use super::face::{Face, is_end, names, only, said, the, trace, wordless};

#[tokio::test]
async fn s01_a_prompt_for_an_unknown_session_is_one_terminal_error() {
    let mut face = Face::new().await;
    face.prompts("missing-session", "say hello", "missing-request").await;
    let told = face.told().await;
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(
        wordless(&told[0]),
        json!({"event": "error", "session": "missing-session", "terminal": true, "request_id": "missing-request",
            "reason": "thread_not_found"})
    );
}

#[tokio::test]
async fn s02_a_turn_starts_once_before_its_permission_request_and_stays_open() {
    let mut face = Face::new().await;
    let session = face.new_session().await;
    face.prompts(&session, "run true", "first-request").await;
    let heard = face.until(|event| event["event"] == "permission_request").await;
    assert_eq!(the(&heard, "turn_started")["request_id"], "first-request");
    assert!(face.quiet(&session).await.is_empty());
    assert_eq!(face.snapshot(&session).await["activity"]["state"]["kind"], "awaiting_input");
}

#[tokio::test]
async fn s03_a_second_prompt_is_declined_and_the_turn_goes_on() {
    let mut face = Face::new().await;
    let session = face.new_session().await;
    face.prompts(&session, "run true", "first-request").await;
    let request = face.next("permission_request").await;
    face.prompts(&session, "say no", "concurrent-request").await;
    let error = face.hears().await;
    assert_eq!(
        wordless(&error),
        json!({"event": "error", "session": session, "terminal": false, "request_id": "concurrent-request",
            "reason": "turn_active"})
    );
    face.answers(&session, &request, Some("allow")).await;
    let rest = face.until_end(&session).await;
    assert!(only(&rest, "turn_started").is_empty());
    assert_eq!(face.heard_of("session/prompt").len(), 1);
}

#[tokio::test]
async fn s04_when_the_end_is_seen_the_next_prompt_is_accepted() {
    let mut face = Face::new().await;
    let session = face.new_session().await;
    face.prompts(&session, "run true", "first").await;
    let request = face.next("permission_request").await;
    face.answers(&session, &request, Some("allow")).await;
    let end = face.until_end(&session).await;
    assert_eq!(
        the(&end, "turn_ended"),
        &json!({"event": "turn_ended", "session": session, "stop_reason": "end_turn"})
    );
    face.prompts(&session, "say again", "second").await;
    let next = face.until_end(&session).await;
    assert_eq!(the(&next, "turn_started")["request_id"], "second");
    assert!(only(&next, "error").is_empty());
}

#[tokio::test]
async fn s05_an_error_of_the_agent_ends_the_turn_as_failed() {
    let mut face = Face::new().await;
    let session = face.new_session().await;
    face.prompts(&session, "fail Out of coal", "failing-request").await;
    let heard = face.until_end(&session).await;
    assert_eq!(trace(&heard), ["1 running", "2 failed"]);
    assert_eq!(the(&heard, "turn_started")["request_id"], "failing-request");
    let state = &only(&heard, "session_activity_changed")[1]["activity"]["state"];
    let end = heard.last().unwrap();
    assert_eq!(state["reason"], "provider_error");
    assert_eq!(state["message"], end["message"]);
    assert!(end["message"].as_str().unwrap().contains("Out of coal"));
    assert_eq!(
        wordless(end),
        json!({"event": "error", "session": session, "terminal": true, "request_id": "failing-request",
            "reason": "agent_failed"})
    );
}

#[tokio::test]
async fn s06_s07_a_prompt_that_cannot_be_stored_leaves_no_trace_and_the_next_one_starts() {
    let mut face = Face::new().await;
    let session = face.new_session().await;
    face.fail.fail(FailPoint::InSavepoint, 0, 2);
    face.prompts(&session, "say no", "locked-request").await;
    let told = face.quiet(&session).await;
    assert_eq!(names(&told), ["error"]);
    assert_eq!(
        wordless(&told[0]),
        json!({"event": "error", "session": session, "terminal": true, "request_id": "locked-request",
            "reason": "storage_failed"})
    );
    assert!(face.page(&session).await.entries.is_empty());
    assert_eq!(face.snapshot(&session).await["activity"], json!({"revision": 0, "state": {"kind": "idle"}}));

    face.prompts(&session, "say yes", "retry-request").await;
    let heard = face.until_end(&session).await;
    let seq = the(&heard, "turn_started")["transcript_seq"].as_u64().unwrap();
    let page = face.page(&session).await;
    assert_eq!(
        page.entries[0].seq, seq,
        "the seq of its fact; unlike the reference, 0 is the session itself"
    );
    assert_eq!(trace(&heard), ["1 running", "2 idle"]);
}

/// There is always a store here, so a transcript event is never without its seq.
#[tokio::test]
async fn s08_every_transcript_event_carries_its_seq_and_the_page_has_the_same() {
    let mut face = Face::new().await;
    let session = face.new_session().await;
    let heard = face
        .turn(&session, "think Hm.\nsay One.\nplan done: a | todo: b\nread nothing-there\nsay Two.")
        .await;
    let mut seqs = Vec::new();
    for event in &heard {
        let name = event["event"].as_str().unwrap();
        let transcript = ["turn_started", "agent_text", "agent_thought", "tool_call", "plan"].contains(&name);
        assert_eq!(event["transcript_seq"].is_u64(), transcript, "{event}");
        seqs.extend(event["transcript_seq"].as_u64());
    }
    let page = face.page(&session).await;
    assert!(page.entries.iter().all(|entry| seqs.contains(&entry.seq)));
    assert!(page.snapshot_through.unwrap() >= *seqs.last().unwrap());
}

#[tokio::test]
async fn s09_the_order_of_one_turn() {
    let mut face = Face::new().await;
    let session = face.new_session().await;
    let heard = face.turn(&session, "say Fine.").await;
    let order: Vec<_> = names(&heard)
        .into_iter()
        .filter(|name| !["models", "config_options", "usage"].contains(name))
        .collect();
    assert_eq!(
        order,
        [
            "session_activity_changed",
            "session_title_changed",
            "turn_started",
            "agent_text",
            "session_activity_changed",
            "turn_ended"
        ]
    );
    let second = face.turn(&session, "say Again.").await;
    assert!(only(&second, "session_title_changed").is_empty(), "the automatic title is given once");
}

#[tokio::test]
async fn s10_without_a_request_id_there_is_no_key_for_it() {
    let mut face = Face::new().await;
    let session = face.new_session().await;
    face.sends(json!({"op": "prompt", "session": session, "doc": [{"type": "text", "text": "fail x"}]}))
        .await;
    let heard = face.until_end(&session).await;
    assert!(the(&heard, "turn_started").get("request_id").is_none());
    assert!(
        only(&heard, "session_activity_changed")[0]["activity"]["state"].get("prompt_request_id").is_none()
    );
    assert!(heard.last().unwrap().get("request_id").is_none());
}

/// Ours are ACP's own words, not the PascalCase names of the reference; unknown ones are passed through.
#[tokio::test]
async fn s11_stop_reasons_are_acps() {
    let mut face = Face::new().await;
    let session = face.new_session().await;
    for reason in ["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled", "something_new"] {
        let heard = face.turn(&session, &format!("say so\nend-with {reason}")).await;
        assert_eq!(the(&heard, "turn_ended")["stop_reason"], reason);
    }
}

#[tokio::test]
async fn s12_a_turn_outlives_the_client_that_began_it() {
    let mut face = Face::new().await;
    let session = face.new_session().await;
    let mut initiator = face.listens_too();
    face.prompts(&session, "say first\nrun true", "r").await;
    loop {
        if initiator.recv().await.unwrap().event.name() == "turn_started" {
            break;
        }
    }
    drop(initiator);
    let request = face.next("permission_request").await;
    face.answers(&session, &request, Some("allow")).await;
    assert_eq!(face.until_end(&session).await.last().unwrap()["event"], "turn_ended");
}

#[tokio::test]
async fn s13_s14_an_agent_that_dies_fails_the_turn_and_the_next_prompt_starts_a_fresh_one() {
    let mut face = Face::new().await;
    let session = face.new_session().await;
    face.prompts(&session, "say Last words.\nstderr the boiler has burst\ncrash 3", "r").await;
    let heard = face.until_end(&session).await;
    assert_eq!(said(&heard), "Last words.");
    assert_eq!(trace(&heard), ["1 running", "2 failed"]);
    let end = heard.last().unwrap();
    assert_eq!((&end["terminal"], &end["request_id"]), (&json!(true), &json!("r")));
    let message = end["message"].as_str().unwrap();
    assert!(message.contains('3') && message.contains("the boiler has burst"), "{message}");
    let next = face.turn(&session, "say Here again.").await;
    assert_eq!(
        (said(&next).as_str(), next.last().unwrap()["event"].as_str()),
        ("Here again.", Some("turn_ended"))
    );
}

#[tokio::test]
async fn s15_a_cancel_before_the_agent_has_a_session_ends_the_turn() {
    let mut face = Face::new().await;
    for provider in ["hang", "hang-new"] {
        let session = face.new_session_of(provider).await;
        face.prompts(&session, "say never", "r").await;
        face.next("turn_started").await;
        face.sends(json!({"op": "cancel", "session": session})).await;
        let heard = face.until_end(&session).await;
        assert_eq!(the(&heard, "turn_ended")["stop_reason"], "cancelled", "{provider}");
        assert_eq!(trace(&heard), ["2 idle"]);
    }
}

#[tokio::test]
async fn s15_a_cancel_while_an_earlier_session_is_loaded_ends_the_turn() {
    let mut face = Face::new().await;
    let session = face.new_session_of("hang-load").await;
    face.turn(&session, "say first").await;
    let mut face = face.restarts().await;
    face.prompts(&session, "say never", "r").await;
    face.next("turn_started").await;
    face.sends(json!({"op": "cancel", "session": session})).await;
    let heard = face.until_end(&session).await;
    assert_eq!(the(&heard, "turn_ended")["stop_reason"], "cancelled");
}

#[tokio::test]
async fn s16_an_unknown_skill_is_told_and_the_turn_goes_on() {
    let mut face = Face::new().await;
    let session = face.new_session().await;
    let doc =
        json!([{"type": "skill", "skill_id": "nope", "params": {}}, {"type": "text", "text": "say Anyway."}]);
    face.sends(json!({"op": "prompt", "session": session, "doc": doc, "request_id": "r"})).await;
    let heard = face.until_end(&session).await;
    let error = the(&heard, "error");
    assert!(error["message"].as_str().unwrap().contains("nope"));
    assert_eq!((&error["terminal"], &error["request_id"]), (&json!(false), &json!("r")));
    assert_eq!(said(&heard), "Anyway.");
}

/// The reference accepts an empty document; a prompt that says nothing is a mistake, so it is declined.
#[tokio::test]
async fn s17_an_empty_document_is_declined() {
    let mut face = Face::new().await;
    let session = face.new_session().await;
    for doc in [json!([]), json!([{"type": "text", "text": "  \n"}])] {
        face.sends(json!({"op": "prompt", "session": session, "doc": doc, "request_id": "r"})).await;
        let told = face.quiet(&session).await;
        assert_eq!(
            wordless(&told[0]),
            json!({"event": "error", "session": session, "terminal": true, "request_id": "r", "reason": "invalid_params"})
        );
        assert_eq!(told.len(), 1);
    }
    assert_eq!(face.snapshot(&session).await["activity"]["revision"], 0);
}

#[tokio::test]
async fn s18_a_server_that_stops_ends_its_turns_as_interrupted() {
    let mut face = Face::new().await;
    let session = face.new_session().await;
    face.prompts(&session, "run true", "r").await;
    face.next("permission_request").await;
    let engine = face.engine.clone();
    face.inside(async move { engine.shutdown().await }).await;
    let heard = face.until_closed().await;
    assert_eq!(trace(&heard), ["3 running", "4 failed"]);
    let state = &only(&heard, "session_activity_changed")[1]["activity"]["state"];
    assert_eq!(state["reason"], "interrupted");
    let end = heard.iter().find(|event| is_end(event)).unwrap();
    assert_eq!((&end["event"], &end["request_id"]), (&json!("error"), &json!("r")));
}

/// That a late end of an older turn cannot reach a newer one is a unit test of `activity`; here the same for a cancel.
#[tokio::test]
async fn s19_a_cancel_of_an_older_turn_changes_nothing() {
    let mut face = Face::new().await;
    let session = face.new_session().await;
    let first = face.turn(&session, "say one").await;
    let old = only(&first, "session_activity_changed")[0]["activity"]["state"]["turn_id"].clone();
    face.prompts(&session, "run true", "r").await;
    let request = face.next("permission_request").await;
    face.sends(json!({"op": "cancel", "session": session, "turn": old})).await;
    assert!(face.quiet(&session).await.is_empty());
    face.answers(&session, &request, Some("allow")).await;
    assert_eq!(the(&face.until_end(&session).await, "turn_ended")["stop_reason"], "end_turn");
}
