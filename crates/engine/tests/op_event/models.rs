//! Scenarios 102 to 118: the agent's own conversation, models and options, the context window, questions, launches.

use serde_json::{Value, json};

use super::face::{Face, names, only, said, the, wordless};

#[tokio::test]
async fn s102_a_loaded_conversation_goes_on_and_its_replay_is_neither_told_nor_stored() {
    let mut face = Face::new().await;
    let session = face.new_session_of("load-only").await;
    face.turn(&session, "say replayed history").await;
    let before = face.snapshot(&session).await["acp_session_id"].clone();
    let mut face = face.restarts().await;
    let heard = face.turn(&session, "say news").await;
    assert_eq!(said(&heard), "news");
    assert!(only(&heard, "error").is_empty(), "{:?}", names(&heard));
    assert_eq!(face.heard_of("session/load").len(), 1);
    assert_eq!(face.heard_of("session/load")[0]["sessionId"], before);
    assert_eq!(face.snapshot(&session).await["acp_session_id"], before);
    let told: Vec<_> = face.page(&session).await.entries.iter().map(|entry| entry.part.clone()).collect();
    assert_eq!(told.len(), 4, "two prompts, two answers: {told:?}");
}

#[tokio::test]
async fn s103_a_conversation_that_is_gone_is_told_and_the_turn_runs_in_a_new_one() {
    let mut face = Face::new().await;
    let session = face.new_session().await;
    face.turn(&session, "say first").await;
    let before = face.snapshot(&session).await["acp_session_id"].clone();
    let mut face = face.restarts().await;
    std::fs::remove_dir_all(face.folder().join("agent-memory")).unwrap();
    face.prompts(&session, "say second", "r").await;
    let heard = face.until_end(&session).await;
    assert_eq!(reasons(&heard), ["context_lost", "context_primed"]);
    let lost = json!({"event": "error", "session": session, "terminal": false, "request_id": "r", "reason": "context_lost"});
    assert_eq!(wordless(only(&heard, "error")[0]), lost);
    assert!(
        only(&heard, "error").iter().all(|error| error["terminal"] == false && error["request_id"] == "r")
    );
    // The new agent is given what was said before, and does not do it again.
    assert_eq!(said(&heard), "second");
    assert_eq!(heard.last().unwrap()["event"], "turn_ended");
    assert_ne!(face.snapshot(&session).await["acp_session_id"], before);
}

fn reasons(events: &[Value]) -> Vec<&str> {
    only(events, "error").into_iter().map(|error| error["reason"].as_str().unwrap()).collect()
}

/// The reference says nothing; here the user is told that the agent does not remember.
#[tokio::test]
async fn s104_an_agent_that_cannot_load_is_not_asked_to() {
    let mut face = Face::new().await;
    let session = face.new_session_of("no-load").await;
    face.turn(&session, "say first").await;
    let mut face = face.restarts().await;
    let heard = face.turn(&session, "say second").await;
    assert_eq!(reasons(&heard), ["context_lost", "context_primed"]);
    assert!(face.heard_of("session/load").is_empty() && face.heard_of("session/resume").is_empty());
    assert_eq!(face.heard_of("session/new").len(), 2);
}

/// `usage` is what prompts report, never the context window (DESIGN 5); the cost is ACP's object in dollars.
#[tokio::test]
async fn s105_s106_the_context_window_and_its_cost() {
    let mut face = Face::new().await;
    let session = face.new_session().await;
    let update =
        |cost: Value| json!({"sessionUpdate": "usage_update", "used": 53000, "size": 200_000, "cost": cost});
    let script = format!(
        "say x\nsend-update {}\nsend-update {}",
        json!({"sessionUpdate": "usage_update", "used": 53000, "size": 200_000}),
        update(json!({"amount": 0.42, "currency": "USD"})),
    );
    let heard = face.turn(&session, &script).await;
    let window = json!({"event": "context_window", "session": session, "used_tokens": 53000, "context_window": 200_000});
    let mut priced = window.clone();
    priced["cost_usd"] = json!(0.42);
    assert_eq!(only(&heard, "context_window"), [&window, &priced]);
    let usage = the(&heard, "usage");
    assert!(usage["input_tokens"].as_u64().unwrap() < 1000 && usage["output_tokens"] == 1, "{usage}");
    // A session's sum, so the next turn adds to it.
    let more = face.turn(&session, "say y").await;
    assert_eq!(the(&more, "usage")["output_tokens"], 2);
    assert!(only(&more, "context_window").is_empty());
}

#[tokio::test]
async fn s107_grouped_options_are_told_flat_with_the_name_of_their_group() {
    let mut face = Face::new().await;
    let session = face.new_session().await;
    let options = json!([
        {"id": "speed", "name": "Speed", "category": "model_config", "type": "select", "currentValue": "fast", "options": [
            {"group": "a", "name": "A", "options": [{"value": "slow", "name": "Slow"}]},
            {"group": "b", "name": "B", "options": [{"value": "fast", "name": "Fast", "description": "Quick."}]},
        ]},
        {"id": "loud", "name": "Loud", "type": "boolean", "currentValue": true},
    ]);
    let update = json!({"sessionUpdate": "config_option_update", "configOptions": options});
    let heard = face.turn(&session, &format!("say x\nsend-update {update}")).await;
    let told = only(&heard, "config_options").last().unwrap()["options"].clone();
    // Behind them comes the mode of agents that report their modes apart.
    assert_eq!(
        Value::from(&told.as_array().unwrap()[..2]),
        json!([
            {"id": "speed", "name": "Speed", "category": "model_config", "current": "fast", "choices": [
                {"id": "slow", "name": "Slow", "description": null, "group": "A"},
                {"id": "fast", "name": "Fast", "description": "Quick.", "group": "B"},
            ]},
            {"id": "loud", "name": "Loud", "category": null, "current": "true", "choices": [
                {"id": "true", "name": "On", "description": null},
                {"id": "false", "name": "Off", "description": null},
            ]},
        ])
    );
}

fn current<'a>(options: &'a Value, id: &str) -> &'a Value {
    let options = options["options"].as_array().unwrap();
    &options.iter().find(|option| option["id"] == id).unwrap()["current"]
}

#[tokio::test]
async fn s108_an_option_is_set_in_the_agent_and_the_whole_set_is_told() {
    let mut face = Face::new().await;
    let session = face.new_session().await;
    face.turn(&session, "say x").await;
    face.sends(json!({"op": "set_config_option", "session": session, "config_id": "mode", "value": "look"}))
        .await;
    let told = face.until(|event| event["event"] == "config_options").await.pop().unwrap();
    assert_eq!(current(&told, "mode"), "look");
    assert_eq!(current(&told, "model"), "rehearsal");
    let set = face.heard_of("session/set_config_option").pop().unwrap();
    assert_eq!((&set["configId"], &set["value"]), (&json!("mode"), &json!("look")));
}

/// The reference refuses it; here it is kept and set when the agent runs.
#[tokio::test]
async fn s109_an_option_before_the_first_prompt_is_kept_for_the_agent() {
    let mut face = Face::new().await;
    let session = face.new_session().await;
    face.sends(json!({"op": "set_config_option", "session": session, "config_id": "mode", "value": "look"}))
        .await;
    let told = face.until(|event| event["event"] == "config_options").await.pop().unwrap();
    assert_eq!(current(&told, "mode"), "look");
    let heard = face.turn(&session, "run touch made").await;
    assert!(only(&heard, "permission_request").is_empty());
    assert_eq!(face.heard_of("session/set_config_option")[0]["value"], "look");
}

#[tokio::test]
async fn s110_a_model_or_option_that_the_agent_refuses_changes_nothing() {
    let mut face = Face::new().await;
    let session = face.new_session().await;
    face.turn(&session, "say x").await;
    for op in [
        json!({"op": "set_model", "session": session, "model": "no-such-model"}),
        json!({"op": "set_config_option", "session": session, "config_id": "mode", "value": "no-such-mode"}),
        json!({"op": "set_config_option", "session": session, "config_id": "no-such-option", "value": "x"}),
    ] {
        face.sends(op).await;
        assert_eq!(
            wordless(&face.hears().await),
            json!({"event": "error", "session": session, "terminal": false, "reason": "unsupported_by_agent"})
        );
    }
    assert!(face.quiet(&session).await.is_empty());
    assert_eq!(face.snapshot(&session).await["model"], Value::Null);
}

#[tokio::test]
async fn set_model_is_recorded_without_an_agent_and_given_to_it_when_it_runs() {
    let mut face = Face::new().await;
    let session = face.new_session().await;
    face.sends(json!({"op": "set_model", "session": session, "model": "rehearsal-terse"})).await;
    assert_eq!(face.next("models").await["current"], "rehearsal-terse");
    assert_eq!(face.snapshot(&session).await["model"], "rehearsal-terse");
    let heard = face.turn(&session, "say x").await;
    let told = only(&heard, "models").last().copied().cloned().unwrap();
    assert_eq!(told["current"], "rehearsal-terse");
    let ids: Vec<_> =
        told["available"].as_array().unwrap().iter().map(|model| model["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["rehearsal", "rehearsal-terse"]);
    face.sends(json!({"op": "set_model", "session": session, "model": "rehearsal"})).await;
    assert_eq!(face.next("models").await["current"], "rehearsal");
    assert_eq!(face.snapshot(&session).await["model"], "rehearsal");
    face.sends(json!({"op": "set_model", "session": "missing-session", "model": "m"})).await;
    let told = face.told().await;
    assert_eq!(
        wordless(told.last().unwrap()),
        json!({"event": "error", "session": "missing-session", "terminal": false, "reason": "thread_not_found"})
    );
}

/// A question of two fields, asked as ACP does.
fn question() -> String {
    let schema = json!({"type": "object", "required": ["question_0"], "properties": {
        "question_0": {"type": "string", "title": "Login", "oneOf": [
            {"const": "OAuth", "title": "OAuth"}, {"const": "API key", "title": "API key"}]},
    }});
    let params = json!({"mode": "form", "message": "How to log in?", "requestedSchema": schema});
    format!("send-request elicitation/create {params}")
}

#[tokio::test]
async fn s115_a_question_waits_with_its_form_and_only_what_was_asked_reaches_the_agent() {
    let mut face = Face::new().await;
    let session = face.new_session().await;
    face.prompts(&session, &question(), "r").await;
    let heard = face.until(|event| event["event"] == "elicitation_request").await;
    let [.., activity, request] = heard.as_slice() else { panic!() };
    let form = json!({"message": "How to log in?", "fields": [{"key": "question_0", "kind": "select", "title": "Login",
        "required": true, "options": [{"value": "OAuth", "label": "OAuth"}, {"value": "API key", "label": "API key"}]}]});
    assert_eq!(
        request,
        &json!({"event": "elicitation_request", "session": session, "request_id": request["request_id"], "form": form})
    );
    let pending = &activity["activity"]["state"]["pending"][0];
    assert_eq!((&pending["kind"], &pending["form"]), (&json!("elicitation"), &form));
    face.sends(json!({
        "op": "answer_elicitation", "session": session, "request_id": request["request_id"],
        "answer": {"action": "accept", "content": {"question_0": "OAuth", "question_9": "smuggled"}},
    }))
    .await;
    face.until_end(&session).await;
    assert_eq!(face.answers_heard(), [json!({"action": "accept", "content": {"question_0": "OAuth"}})]);
    assert_eq!(face.heard_of("initialize")[0]["clientCapabilities"]["elicitation"]["form"], json!({}));
}

#[tokio::test]
async fn s116_a_question_is_declined_cancelled_or_answered_as_if_it_were_a_permission() {
    let mut face = Face::new().await;
    let session = face.new_session().await;
    for answer in ["decline", "cancel", "option", "null"] {
        face.prompts(&session, &question(), "r").await;
        let request = face.next("elicitation_request").await;
        match answer {
            "option" => face.answers(&session, &request, Some("question_0#1")).await,
            "null" => face.answers(&session, &request, None).await,
            action => {
                face.sends(json!({
                    "op": "answer_elicitation", "session": session, "request_id": request["request_id"],
                    "answer": {"action": action},
                }))
                .await;
            }
        }
        face.until_end(&session).await;
    }
    assert_eq!(
        face.answers_heard(),
        [
            json!({"action": "decline"}),
            json!({"action": "cancel"}),
            json!({"action": "accept", "content": {"question_0": "API key"}}),
            json!({"action": "cancel"}),
        ]
    );
}

#[tokio::test]
async fn an_address_to_open_is_a_question_without_fields_and_either_op_answers_it() {
    let mut face = Face::new().await;
    let session = face.new_session().await;
    let params =
        json!({"mode": "url", "elicitationId": "e", "url": "https://x.test/login", "message": "Log in"});
    let script = format!("send-request elicitation/create {params}");
    for option in [None, Some("__elicitation_open")] {
        face.prompts(&session, &script, "r").await;
        let request = face.next("elicitation_request").await;
        assert_eq!(
            request["form"],
            json!({"message": "Log in", "fields": [], "url": "https://x.test/login"})
        );
        match option {
            Some(option) => face.answers(&session, &request, Some(option)).await,
            None => {
                face.sends(json!({
                    "op": "answer_elicitation", "session": session, "request_id": request["request_id"],
                    "answer": {"action": "accept"},
                }))
                .await;
            }
        }
        face.until_end(&session).await;
    }
    let accepted = json!({"action": "accept", "content": {}});
    assert_eq!(face.answers_heard(), [accepted.clone(), accepted]);
    assert_eq!(face.heard_of("initialize")[0]["clientCapabilities"]["elicitation"]["url"], json!({}));
}

#[tokio::test]
async fn a_question_that_still_waits_when_the_turn_ends_is_cancelled() {
    let mut face = Face::new().await;
    let session = face.new_session().await;
    let script = question().replace("send-request", "send-unheard");
    face.prompts(&session, &format!("{script}\nsleep 300"), "r").await;
    face.until_end(&session).await;
    face.turn(&session, "say next").await;
    assert_eq!(face.answers_heard(), [json!({"action": "cancel"})]);
}

#[tokio::test]
async fn s117_files_are_not_served() {
    let mut face = Face::new().await;
    let session = face.new_session().await;
    let heard = face.turn(&session, "send-request fs/read_text_file {\"path\":\"/etc/hostname\"}").await;
    let said = said(&heard);
    assert!(said.contains("failed with") && said.contains("-32601"), "{said}");
    let capabilities = &face.heard_of("initialize")[0]["clientCapabilities"];
    assert!(capabilities["fs"]["readTextFile"] != true && capabilities["terminal"] != true, "{capabilities}");
}

#[tokio::test]
async fn s118_launches_of_agents_are_told_by_a_few_bounded_fields() {
    let mut face = Face::new().await;
    let session = face.new_session().await;
    let call = |id: &str, title: &str, input: Value| {
        let update = json!({"sessionUpdate": "tool_call", "toolCallId": id, "title": title, "kind": "execute",
            "status": "in_progress", "rawInput": input});
        format!("send-update {update}\n")
    };
    let launch = json!({"arguments": {"agent_type": "explorer", "task_name": "look", "message": "m".repeat(3000),
        "command": "rm", "secret": "s", "cwd": "/"}});
    let done = |id: &str| {
        let update = json!({"sessionUpdate": "tool_call_update", "toolCallId": id, "status": "completed"});
        format!("send-update {update}\n")
    };
    let script = [
        call("launch", "functions.spawn_agent", launch),
        call("plain", "ls", json!({"command": "ls", "description": "List."})),
        done("launch"),
        done("plain"),
    ];
    let heard = face.turn(&session, &script.concat()).await;
    let calls = only(&heard, "tool_call");
    let of = |id: &str| calls.iter().filter(|event| event["id"] == id).collect::<Vec<_>>();
    let fields = json!({"agent_type": "explorer", "task_name": "look", "message": "m".repeat(2048)});
    assert_eq!(of("launch")[0]["agent_input"], fields);
    assert!(of("plain").iter().all(|event| event.get("agent_input").is_none()));
    let last = of("launch").last().unwrap().to_owned();
    assert_eq!((&last["status"], &last["title"]), (&json!("completed"), &json!("functions.spawn_agent")));
}
