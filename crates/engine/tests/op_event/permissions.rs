//! Scenarios 20 to 45: what is asked, what is decided unasked, and what an answer does.

use serde_json::{Value, json};

use super::face::{Face, names, only, permit, permit_as, said, the, trace};

/// Two commands that wait for permission at once: the session, and the two in the order of their sequence.
async fn two_parked(face: &mut Face) -> (String, Value, Value) {
    let session = face.new_session().await;
    face.prompts(&session, "parallel true || true", "r").await;
    let heard = face
        .until(|event| event["activity"]["state"]["pending"].as_array().is_some_and(|p| p.len() == 2))
        .await;
    assert_eq!(trace(&heard), ["1 running", "2 awaiting_input 1", "3 awaiting_input 2"]);
    let pending = heard.last().unwrap()["activity"]["state"]["pending"].clone();
    face.next("permission_request").await;
    (session, pending[0].clone(), pending[1].clone())
}

fn selected(option: &str) -> Value {
    json!({"outcome": {"outcome": "selected", "optionId": option}})
}

fn cancelled() -> Value {
    json!({"outcome": {"outcome": "cancelled"}})
}

#[tokio::test]
async fn s20_two_requests_wait_in_order_and_the_list_says_the_same() {
    let mut face = Face::new().await;
    let (session, first, second) = two_parked(&mut face).await;
    assert!(first["sequence"].as_u64() < second["sequence"].as_u64());
    let listed = face.snapshot(&session).await["activity"].clone();
    assert_eq!((&listed["revision"], &listed["state"]["pending"]), (&json!(3), &json!([first, second])));
}

#[tokio::test]
async fn s21_s22_answers_that_do_not_fit_change_nothing() {
    let mut face = Face::new().await;
    let (session, first, _) = two_parked(&mut face).await;
    let other = face.new_session().await;
    face.answers("some-other-session", &first, Some("allow")).await;
    face.answers(&other, &first, Some("allow")).await;
    face.answers(&session, &first, Some("not-advertised")).await;
    face.answers(&session, &json!({"input_id": "no-such-input"}), Some("allow")).await;
    face.sends(json!({
        "op": "answer_elicitation", "session": session, "request_id": first["input_id"], "answer": {"action": "cancel"},
    }))
    .await;
    assert!(face.quiet(&other).await.is_empty());
    assert!(face.quiet(&session).await.is_empty());
    assert_eq!(face.snapshot(&session).await["activity"]["revision"], 3);
    assert!(face.answers_heard().is_empty(), "the agent still waits");
}

#[tokio::test]
async fn s23_s24_s25_two_answers_one_after_the_other() {
    let mut face = Face::new().await;
    let (session, first, second) = two_parked(&mut face).await;
    face.answers(&session, &first, Some("allow")).await;
    let four = face.next("session_activity_changed").await["activity"].clone();
    assert_eq!((&four["revision"], &four["state"]["pending"]), (&json!(4), &json!([second])));
    face.next("permission_resolved").await;
    // A second answer to the same request, and a different one, come too late.
    face.answers(&session, &first, Some("allow")).await;
    face.answers(&session, &first, Some("reject")).await;
    let told = face.quiet(&session).await;
    assert!(
        only(&told, "session_activity_changed").is_empty() && only(&told, "error").is_empty(),
        "{told:?}"
    );
    face.answers(&session, &second, Some("reject")).await;
    let heard = face.until_end(&session).await;
    assert_eq!(trace(&heard), ["5 running", "6 idle"]);
    assert_eq!(the(&heard, "turn_ended")["stop_reason"], "end_turn");
    let answers = face.answers_heard();
    assert!(answers.contains(&selected("allow")) && answers.contains(&selected("reject")), "{answers:?}");
    assert_eq!(answers.len(), 2, "each request is answered once");
}

#[tokio::test]
async fn s26_no_option_cancels_whether_null_or_absent() {
    let mut face = Face::new().await;
    let (session, first, second) = two_parked(&mut face).await;
    face.answers(&session, &first, None).await;
    face.sends(json!({"op": "answer_permission", "session": session, "request_id": second["input_id"]}))
        .await;
    let heard = face.until_end(&session).await;
    for resolved in only(&heard, "permission_resolved") {
        assert_eq!(resolved.get("option_id"), Some(&Value::Null), "written, because the document has it so");
    }
    assert_eq!(face.answers_heard(), [cancelled(), cancelled()]);
}

/// The agent hears of the cancel before the answers, unlike in the reference: it must not go on with its next step in
/// between. What waits is drained and stored before either.
#[tokio::test]
async fn s27_a_cancel_drains_what_waits_in_one_step_and_the_agent_hears_of_it_first() {
    let mut face = Face::new().await;
    let (session, ..) = two_parked(&mut face).await;
    face.sends(json!({"op": "cancel", "session": session})).await;
    let heard = face.until_end(&session).await;
    assert_eq!(trace(&heard), ["4 running", "5 idle"]);
    assert_eq!(the(&heard, "turn_ended")["stop_reason"], "cancelled");
    let resolved = only(&heard, "permission_resolved");
    assert_eq!(resolved.len(), 2);
    assert!(resolved.iter().all(|event| event["by"] == json!({"kind": "interrupt"})));
    assert_eq!(face.answers_heard(), [cancelled(), cancelled()]);
    let messages = face.heard();
    let cancel = messages.iter().position(|message| message["method"] == "session/cancel").unwrap();
    let answer = messages.iter().position(|message| message["method"].is_null()).unwrap();
    assert!(cancel < answer, "{messages:?}");
}

#[tokio::test]
async fn s28_a_cancel_of_nothing_is_silent() {
    let mut face = Face::new().await;
    let session = face.new_session().await;
    face.sends(json!({"op": "cancel", "session": "missing-session"})).await;
    face.sends(json!({"op": "cancel", "session": session})).await;
    assert!(face.quiet(&session).await.is_empty());
}

/// What is decided unasked is told too, with the rule; the reference says nothing.
#[tokio::test]
async fn s29_yolo_allows_both_without_asking() {
    let mut face = Face::new().await;
    let session = face.new_session().await;
    face.sends(json!({"op": "set_permission_mode", "session": session, "mode": "yolo"})).await;
    let changed = face.next("execution_policy_changed").await;
    assert_eq!(changed["policy"], json!({"mode": "yolo", "sandbox": "workspace_write"}));
    let heard = face.turn(&session, "parallel true || true").await;
    assert_eq!(trace(&heard), ["1 running", "2 idle"]);
    assert!(only(&heard, "permission_request").is_empty());
    for resolved in only(&heard, "permission_resolved") {
        assert_eq!((&resolved["rule"], &resolved["by"]), (&json!("mode"), &json!({"kind": "policy"})));
    }
    assert_eq!(face.answers_heard(), [selected("allow"), selected("allow")]);
    assert_eq!(face.snapshot(&session).await["permission_mode"], "yolo");
}

#[tokio::test]
async fn s30_s31_the_first_policy_holds_from_the_first_turn_and_after_a_restart() {
    let mut face = Face::new().await;
    let policy = json!({"mode": "ask", "sandbox": "read_only"});
    let work = face.work();
    let fields =
        json!({"provider": "rehearsal", "cwd": work, "use_worktree": false, "initial_policy": policy});
    let session = face.creates(fields).await;
    let mut face = face;
    for restart in [false, true] {
        if restart {
            face = face.restarts().await;
        }
        let heard = face.turn(&session, "run touch made").await;
        assert!(only(&heard, "permission_request").is_empty());
        let resolved = the(&heard, "permission_resolved");
        assert_eq!((&resolved["rule"], &resolved["option_id"]), (&json!("ceiling"), &json!("reject")));
        assert_eq!(heard.last().unwrap()["event"], "turn_ended");
        let listed = face.snapshot(&session).await;
        assert_eq!(
            (&listed["permission_mode"], &listed["sandbox_policy"]),
            (&json!("ask"), &json!("read_only"))
        );
    }
    assert!(!face.work().join("made").exists());
}

/// Asks all of these under one policy; each answer, `None` for those that were put to a client.
async fn decided(mode: &str, sandbox: &str, calls: &[Value]) -> Vec<Option<String>> {
    let mut face = Face::new().await;
    let session = face.new_session().await;
    face.sets_policy(&session, mode, sandbox).await;
    face.prompts(&session, &permit(calls), "r").await;
    // Every request has come to a decision: it waits, or it was told as resolved.
    let (mut waiting, mut resolved) = (Vec::new(), 0);
    while waiting.len() + resolved < calls.len() {
        let event = face.hears().await;
        match event["event"].as_str().unwrap() {
            "permission_request" => waiting.push(event),
            "permission_resolved" => resolved += 1,
            _ => {}
        }
    }
    // So that those who wait can be told from the others.
    for request in &waiting {
        face.answers(&session, request, None).await;
    }
    face.until_end(&session).await;
    let asked: Vec<_> = waiting.iter().map(|request| request["tool_call_id"].as_str().unwrap()).collect();
    let answers = face.answers_heard().into_iter().enumerate();
    answers
        .map(|(n, answer)| {
            let outcome = &answer["outcome"];
            let option = outcome["optionId"].as_str().or(outcome["outcome"].as_str()).unwrap().to_owned();
            (!asked.contains(&format!("asked-{n}").as_str())).then_some(option)
        })
        .collect()
}

fn kinds(all: &[&str]) -> Vec<Value> {
    all.iter().map(|kind| json!({"kind": kind, "locations": [{"path": "inside"}]})).collect()
}

fn some(option: &str) -> Option<String> {
    Some(option.to_owned())
}

#[tokio::test]
async fn s32_the_ceiling_under_yolo() {
    let beyond =
        decided("yolo", "read_only", &kinds(&["edit", "execute", "delete", "move", "switch_mode"])).await;
    assert_eq!(beyond, vec![some("reject"); 5]);
    let within = decided("yolo", "read_only", &kinds(&["read", "search", "fetch", "think"])).await;
    assert_eq!(within, vec![some("allow"); 4]);
}

#[tokio::test]
async fn s33_unknown_kinds_are_rejected_where_nobody_is_asked() {
    for sandbox in ["read_only", "workspace_write"] {
        let unknown = decided("yolo", sandbox, &kinds(&["other", "", "provider_magic"])).await;
        assert_eq!(unknown, vec![some("reject"); 3], "{sandbox}");
    }
}

#[tokio::test]
async fn s34_full_access_admits_unknown_kinds() {
    assert_eq!(decided("yolo", "danger_full_access", &kinds(&["other"])).await, [some("allow")]);
    assert_eq!(decided("ask", "danger_full_access", &kinds(&["other"])).await, [None]);
}

#[tokio::test]
async fn s35_accept_edits_allows_edits_inside_and_asks_for_the_rest() {
    let mut calls = kinds(&["edit", "delete", "move", "execute"]);
    calls.push(json!({"kind": "edit", "locations": [{"path": "/etc/passwd"}]}));
    calls.push(json!({"kind": "edit"}));
    let allow = some("allow");
    assert_eq!(
        decided("accept_edits", "workspace_write", &calls).await,
        [allow.clone(), allow.clone(), allow, None, None, None]
    );
}

/// The reference rejects it silently; here somebody is asked, as DESIGN's second rule says.
#[tokio::test]
async fn s36_a_request_without_a_kind_is_asked() {
    assert_eq!(decided("ask", "workspace_write", &[json!({})]).await, [None]);
    assert_eq!(
        decided("ask", "read_only", &[json!({})]).await,
        [some("reject")],
        "not where nothing may be done"
    );
}

/// With nothing to reject by, the request is answered `cancelled`. With nothing to allow by once, the reference cancels;
/// here it is asked.
#[tokio::test]
async fn s37_requests_without_a_fitting_option() {
    let allow_only = json!([{"optionId": "allow", "name": "Allow", "kind": "allow_once"}]);
    let denied = decided("ask", "read_only", &[json!({"kind": "execute", "options": allow_only})]).await;
    assert_eq!(denied, [some("cancelled")]);
    let reject_only = json!([{"optionId": "reject", "name": "Reject", "kind": "reject_once"}]);
    let allowed =
        decided("yolo", "workspace_write", &[json!({"kind": "execute", "options": reject_only})]).await;
    assert_eq!(allowed, [None]);
}

/// The reference takes the first option that allows, which grants "always" (12.B14).
#[tokio::test]
async fn s38_an_automatic_allow_is_for_once() {
    let options = json!([
        {"optionId": "for-ever", "name": "Always", "kind": "allow_always"},
        {"optionId": "once", "name": "Once", "kind": "allow_once"},
        {"optionId": "never", "name": "Never", "kind": "reject_always"},
        {"optionId": "no", "name": "No", "kind": "reject_once"},
    ]);
    let call = json!({"kind": "execute", "options": options});
    assert_eq!(decided("yolo", "workspace_write", std::slice::from_ref(&call)).await, [some("once")]);
    assert_eq!(decided("yolo", "read_only", &[call]).await, [some("no")]);
    let always = json!([{"optionId": "for-ever", "name": "Always", "kind": "allow_always"}]);
    let asked = decided("yolo", "workspace_write", &[json!({"kind": "execute", "options": always})]).await;
    assert_eq!(asked, [None], "an always is never chosen for the user");
}

/// The reference lets titles and `_meta` move a request between the rules (12.D11). Here only its kind and places count.
#[tokio::test]
async fn s39_titles_and_meta_decide_nothing() {
    let dressed = |kind: &str| json!({"kind": kind, "title": "Website access", "_meta": {"is_mcp_tool_approval": true}});
    assert_eq!(decided("yolo", "danger_full_access", &[dressed("other")]).await, [some("allow")]);
    assert_eq!(decided("yolo", "read_only", &[dressed("execute")]).await, [some("reject")]);
}

#[tokio::test]
async fn s40_s41_the_activity_comes_first_and_holds_the_whole_request() {
    let mut face = Face::new().await;
    let session = face.new_session().await;
    face.prompts(&session, &permit(&[json!({"kind": "execute", "title": "Run command?"})]), "r").await;
    let heard = face.until(|event| event["event"] == "permission_request").await;
    let [.., activity, request] = heard.as_slice() else { panic!() };
    let state = &activity["activity"]["state"];
    let pending = &state["pending"][0];
    let options = json!([["allow", "Allow"], ["reject", "Reject"]]);
    let kinds = json!({"allow": "allow_once", "reject": "reject_once"});
    assert_eq!(
        pending,
        &json!({"input_id": request["request_id"], "kind": "permission", "title": "Run command?", "options": options,
            "option_kinds": kinds, "sequence": pending["sequence"]})
    );
    assert!(pending["sequence"].is_u64() && request["request_id"].is_string());
    assert_eq!(state["prompt_request_id"], "r");
    assert_eq!(
        request,
        &json!({"event": "permission_request", "session": session, "request_id": pending["input_id"],
            "title": "Run command?", "options": options, "option_kinds": kinds, "tool_call_id": "asked-0"})
    );
}

#[tokio::test]
async fn s42_sequences_are_one_order_over_all_sessions_and_restarts() {
    let mut face = Face::new().await;
    let mut last = 0;
    for _ in 0..2 {
        for _ in 0..2 {
            let session = face.new_session().await;
            face.prompts(&session, "run true", "r").await;
            let activity = face.next_activity("awaiting_input").await;
            let sequence = activity["state"]["pending"][0]["sequence"].as_u64().unwrap();
            assert!(sequence > last, "{sequence} after {last}");
            last = sequence;
        }
        face = face.restarts().await;
    }
}

#[tokio::test]
async fn s43_a_request_outside_a_turn_is_cancelled_and_not_told() {
    let mut face = Face::new().await;
    let session = face.new_session().await;
    let script = format!("say done\n{}", permit_as("send-late", &[json!({"kind": "execute"})]));
    face.prompts(&session, &script, "r").await;
    face.until_end(&session).await;
    // The agent says in a late message what it was answered.
    let late = face.until(|event| event["event"] == "agent_text").await;
    assert_eq!(said(&late), format!("session/request_permission got {}", cancelled()));
    assert_eq!(names(&late), ["agent_text"]);
}

#[tokio::test]
async fn s44_what_still_waits_when_the_agent_ends_the_turn_is_cancelled() {
    let mut face = Face::new().await;
    let session = face.new_session().await;
    let script = format!("{}\nsleep 300", permit_as("send-unheard", &[json!({"kind": "execute"})]));
    face.prompts(&session, &script, "r").await;
    let heard = face.until_end(&session).await;
    // Drained by the end itself: what waited is settled before the end is seen.
    assert_eq!(trace(&heard), ["1 running", "2 awaiting_input 1", "3 running", "4 idle"]);
    the(&heard, "permission_resolved");
    face.turn(&session, "say next").await;
    assert_eq!(face.answers_heard(), [cancelled()]);
}

/// The reference leaves parked requests alone (45); here a new policy decides them, as an answer would.
#[tokio::test]
async fn s45_a_new_policy_decides_what_waits() {
    let mut face = Face::new().await;
    let (session, ..) = two_parked(&mut face).await;
    face.sends(json!({"op": "set_execution_policy", "session": session, "mode": "yolo", "sandbox": "workspace_write", "request_id": "p"}))
        .await;
    let heard = face.until_end(&session).await;
    assert_eq!(heard[0]["event"], "execution_policy_changed");
    assert_eq!(trace(&heard), ["4 awaiting_input 1", "5 running", "6 idle"]);
    assert_eq!(only(&heard, "permission_resolved").len(), 2);
    assert_eq!(face.answers_heard(), [selected("allow"), selected("allow")]);
}
