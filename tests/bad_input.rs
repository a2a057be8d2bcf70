//! Whatever comes in gets the answer it should, and the server goes on.
#![allow(clippy::disallowed_methods)]

use serde_json::{Value, json};
use signalbox_testkit::{App, Client, Refusal};

const BINARY: &str = env!("CARGO_BIN_EXE_signalbox");

/// A normal turn, which works after everything that is done here.
fn works(app: &App, client: &mut Client) {
    let thread = client.starts_thread(app);
    let turn = client.runs(&thread, "say All is well.");
    assert_eq!(turn["status"], "completed");
    assert_eq!(client.model().thread(&thread).newest().said(), "All is well.");
    client.knows_what_is_stored(&thread);
}

fn check(refusal: &Refusal, code: i64, reason: &str) {
    assert_eq!(refusal.short(), (code, reason), "{refusal:?}");
}

#[test]
fn malformed_json() {
    let mut app = App::new(BINARY).over_stdio();
    let mut client = app.client();
    for line in ["{", "nonsense", r#"{"jsonrpc":"2.0","id":1,"method":"server/health""#, "[1,", "\"", "}"] {
        client.sends_line(line.as_bytes());
        let rebuke = client.is_rebuked();
        check(&rebuke, -32700, "parse_error");
        assert!(!rebuke.data["retryable"].as_bool().unwrap());
    }
    works(&app, &mut client);
}

#[test]
fn json_that_is_no_frame() {
    let mut app = App::new(BINARY).over_stdio();
    let mut client = app.client();
    for line in ["1", "\"text\"", "null", "true", "{}", r#"{"jsonrpc":"1.0","method":"x"}"#] {
        client.sends_line(line.as_bytes());
        check(&client.is_rebuked(), -32600, "invalid_request");
    }
    client.expects_answer(json!(77), "nothing");
    client.sends_line(br#"{"id":77}"#);
    check(&client.answer(77).unwrap_err(), -32600, "invalid_request");
    // Blank lines are none at all.
    client.sends_line(b"");
    client.sends_line(b"   ");
    works(&app, &mut client);
}

#[test]
fn invalid_utf8() {
    let mut app = App::new(BINARY).over_stdio();
    let mut client = app.client();
    for line in [&b"\xff\xfe"[..], b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xc3\x28\"}", b"\x80"] {
        client.sends_line(line);
        check(&client.is_rebuked(), -32700, "parse_error");
    }
    works(&app, &mut client);
}

#[test]
fn unknown_method() {
    let mut app = App::new(BINARY).over_stdio();
    let mut client = app.client();
    for method in ["thread/explode", "", "thread/shellCommand", "turn/completed"] {
        let refusal = client.is_refused(method, json!({}));
        check(&refusal, -32601, "method_not_found");
        assert_eq!(refusal.data["method"], method);
    }
    // A notification nobody knows is answered by nobody.
    client.sends(&json!({ "jsonrpc": "2.0", "method": "thread/explode" }));
    works(&app, &mut client);
}

#[test]
fn wrong_params() {
    let mut app = App::new(BINARY).over_stdio();
    let mut client = app.client();
    let thread = client.starts_thread(&app);
    let input = |input: Value| json!({ "threadId": thread, "input": input });
    for (method, params, path) in [
        ("thread/read", json!({ "threadId": 7 }), "threadId"),
        ("thread/read", json!({}), ""),
        ("thread/read", json!(null), ""),
        ("thread/start", json!({ "cwd": false }), "cwd"),
        ("thread/start", json!({ "policy": { "mode": "perhaps" } }), "policy.mode"),
        ("turn/start", input(json!("text")), "input"),
        ("turn/start", input(json!([])), "input"),
        ("turn/start", input(json!([{ "type": "hologram" }])), "input[0]"),
    ] {
        let refusal = client.is_refused(method, params.clone());
        check(&refusal, -32602, "invalid_params");
        let told = refusal.data["path"].as_str().unwrap();
        assert!(told.starts_with(path), "{method} {params}: {refusal:?}");
    }
    // Params are named.
    check(&client.is_refused("thread/read", json!([thread])), -32602, "invalid_params");
    let nobody = "0190a0a0-0000-7000-8000-000000000000";
    let refusal = client.is_refused("thread/read", json!({ "threadId": nobody }));
    check(&refusal, -32600, "thread_not_found");
    assert_eq!(refusal.message, format!("thread not found: {nobody}"));
    check(&client.is_refused("thread/resume", json!({ "threadId": "no uuid" })), -32600, "thread_not_found");
    works(&app, &mut client);
}

#[test]
fn ids_of_all_kinds() {
    let mut app = App::new(BINARY).over_stdio();
    let mut client = app.client();
    for id in
        ["null", "1.5", "-0.5", "1e3", "9223372036854775808", "-9223372036854775809", "true", "{}", "[]"]
    {
        client.sends_line(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"server/health"}}"#).as_bytes());
        check(&client.is_rebuked(), -32600, "invalid_request");
    }
    let texts = [json!(""), json!("7"), json!("🚂 \"quoted\" \\ \n"), json!("x".repeat(1000))];
    let numbers = [json!(0), json!(-7), json!(i64::MIN), json!(i64::MAX)];
    for id in texts.into_iter().chain(numbers) {
        client.sends(&json!({ "jsonrpc": "2.0", "id": id, "method": "server/health" }));
        client.answer(id).unwrap();
    }
    works(&app, &mut client);
}

#[test]
fn batches() {
    let mut app = App::new(BINARY).over_stdio();
    let mut client = app.client();
    let health = |id: i64| json!({ "jsonrpc": "2.0", "id": id, "method": "server/health" });

    client.sends(&json!([]));
    check(&client.is_rebuked(), -32600, "invalid_request");

    client.sends(&json!([health(101), { "jsonrpc": "2.0", "method": "initialized" }, 7, health(102)]));
    let answers = client.is_answered_in_one();
    assert_eq!(answers.len(), 3, "one for each request, and one for what is none: {answers:?}");
    let of = |id: Value| answers.iter().find(|answer| answer["id"] == id).unwrap();
    assert!(of(json!(101))["result"].is_object() && of(json!(102))["result"].is_object());
    assert_eq!(of(Value::Null)["error"]["code"], -32600);

    client.sends(&(1000..1064).map(health).collect::<Value>());
    assert_eq!(client.is_answered_in_one().len(), 64);

    client.sends_line((0..65).map(health).collect::<Value>().to_string().as_bytes());
    check(&client.is_rebuked(), -32600, "invalid_request");

    // A batch of notifications is answered by nothing; the next answer is that of the next request.
    client.sends(&json!([{ "jsonrpc": "2.0", "method": "initialized" }]));
    works(&app, &mut client);
}

#[test]
fn a_line_of_20_mib() {
    let mut app = App::new(BINARY).over_stdio();
    let mut client = app.client();
    let text = "x".repeat(20 * 1024 * 1024);
    client.sends_line(
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"server/health","params":"{text}"}}"#).as_bytes(),
    );
    check(&client.is_rebuked(), -32600, "frame_too_large");
    works(&app, &mut client);
    let peak = app.process().peak_rss_bytes();
    assert!(peak < 256 * 1024 * 1024, "{peak} bytes for a line that was thrown away");
}

#[test]
fn a_line_in_many_pieces() {
    let mut app = App::new(BINARY).over_unix();
    let mut client = app.client();
    client.expects_answer(json!("in pieces"), "nowhere");
    for byte in br#"{"jsonrpc":"2.0","id":"in pieces","method":"nowhere"}"# {
        assert!(client.sends_bytes(&[*byte]));
    }
    client.sends_line(b"");
    check(&client.answer(json!("in pieces")).unwrap_err(), -32601, "method_not_found");
    works(&app, &mut client);
}

#[test]
fn requests_before_initialize_and_a_second_initialize() {
    let mut app = App::new(BINARY).over_stdio();
    let mut client = app.stranger();
    for method in ["thread/list", "thread/start", "turn/start", "model/list"] {
        let refusal = client.is_refused(method, json!({}));
        check(&refusal, -32600, "not_initialized");
        assert_eq!(refusal.message, "Not initialized");
    }
    client.call("server/health", json!({}));
    let hello = client.initializes_with("late", json!({}));
    assert!(hello["userAgent"].as_str().unwrap().starts_with("late/"));
    let info = json!({ "clientInfo": { "name": "again", "version": "1" } });
    let refusal = client.is_refused("initialize", info);
    check(&refusal, -32600, "already_initialized");
    assert_eq!(refusal.message, "Already initialized");
    works(&app, &mut client);
}

#[test]
fn answers_to_nothing() {
    let mut app = App::new(BINARY).over_stdio();
    let mut client = app.client();
    client.sends(&json!({ "jsonrpc": "2.0", "id": "nobody asked", "result": {} }));
    client.sends(&json!({ "jsonrpc": "2.0", "id": 4, "error": { "code": 1, "message": "no" } }));
    client.sends(&json!({ "jsonrpc": "2.0", "method": "$/cancelRequest", "params": { "id": 99 } }));
    works(&app, &mut client);
}

#[test]
fn a_working_folder_that_is_none() {
    let mut app = App::new(BINARY).over_stdio();
    let mut client = app.client();
    let file = app.work().join("README.md");
    for cwd in [json!("/no/such/folder"), json!(file), json!("")] {
        let id = client.requests("thread/start", json!({ "cwd": cwd }));
        if cwd == "" {
            // An empty path is the base directory, or refused; it is never a thread without a folder.
            if let Ok(result) = client.answer(id) {
                assert_eq!(result["cwd"], json!(app.work()));
            }
            continue;
        }
        let refusal = client.answer(id).unwrap_err();
        check(&refusal, -32602, "invalid_params");
        assert_eq!(refusal.data["path"], "cwd");
    }
    // Left out and relative start from where the server was started.
    std::fs::create_dir(app.work().join("inside")).unwrap();
    for (params, cwd) in [
        (json!({}), app.work()),
        (json!({ "cwd": null }), app.work()),
        (json!({ "cwd": "inside" }), app.work().join("inside")),
    ] {
        assert_eq!(client.call("thread/start", params)["cwd"], json!(cwd));
    }
    works(&app, &mut client);
}

#[test]
fn a_provider_that_is_none() {
    let config = "[providers.gone]\ncommand = \"/no/such/agent\"\n[providers.unheard]\ncommand = \"no-such-agent-on-path\"\n";
    let mut app = App::new(BINARY).over_stdio().config(config);
    let mut client = app.client();
    let refusal = client.is_refused("thread/start", json!({ "cwd": app.work(), "modelProvider": "nobody" }));
    check(&refusal, -32021, "provider_not_found");
    for (provider, command) in [("gone", "/no/such/agent"), ("unheard", "no-such-agent-on-path")] {
        let refusal =
            client.is_refused("thread/start", json!({ "cwd": app.work(), "modelProvider": provider }));
        check(&refusal, -32021, "provider_unavailable");
        assert_eq!(refusal.data["command"], command);
    }
    works(&app, &mut client);
}

/// A turn with an agent that cannot take it: accepted, then failed, with the reason in the turn.
fn fails_to_start(app: &App, client: &mut Client, provider: &str) -> Value {
    let thread = client.starts_thread_with(json!({ "cwd": app.work(), "modelProvider": provider }));
    let turn = client.prompts(&thread, "say Nobody hears this.");
    let told = client.until("error");
    assert_eq!((&told["turnId"], &told["willRetry"]), (&json!(turn), &json!(false)));
    let ended = client.finishes(&turn);
    assert_eq!(ended["status"], "failed");
    assert_eq!(ended["error"], told["error"]);
    assert_eq!(client.model().thread(&thread).status["type"], "systemError");
    client.knows_what_is_stored(&thread);
    ended["error"].clone()
}

#[test]
fn an_agent_that_exits_at_once() {
    let mut app = App::new(BINARY).over_stdio().bad_agents(&[("exits", "exit:7")]);
    let mut client = app.client();
    let error = fails_to_start(&app, &mut client, "exits");
    assert_eq!((&error["code"], &error["reason"]), (&json!(-32021), &json!("agent_failed")), "{error}");
    assert!(error["data"]["exitStatus"].to_string().contains('7'), "{error}");
    assert!(!error["data"]["stderrTail"].as_str().unwrap().is_empty(), "{error}");
    works(&app, &mut client);
}

#[test]
fn an_agent_that_prints_garbage() {
    let app = App::new(BINARY).over_stdio().argument("--config").argument("limits.initialize_seconds=1");
    let mut app = app.bad_agents(&[("garbage", "garbage")]);
    let mut client = app.client();
    let error = fails_to_start(&app, &mut client, "garbage");
    assert_eq!(error["code"], -32021, "{error}");
    works(&app, &mut client);
}

#[test]
fn an_agent_that_garbles_between_good_lines() {
    let mut app = App::new(BINARY).over_stdio();
    let mut client = app.client();
    let thread = client.starts_thread(&app);
    let turn = client.runs(&thread, "say Before.\ngarble\nsay After.");
    assert_eq!(turn["status"], "completed");
    assert_eq!(client.model().thread(&thread).newest().said(), "Before.After.");
    client.knows_what_is_stored(&thread);
    works(&app, &mut client);
}

#[test]
fn agents_that_refuse_a_session() {
    let mut app = App::new(BINARY).over_stdio().bad_agents(&[("refuses", "no-new"), ("asks", "auth")]);
    let mut client = app.client();
    let error = fails_to_start(&app, &mut client, "refuses");
    assert_eq!(error["code"], -32021, "{error}");
    let error = fails_to_start(&app, &mut client, "asks");
    assert_eq!(
        (&error["code"], &error["reason"]),
        (&json!(-32021), &json!("agent_auth_required")),
        "{error}"
    );
    works(&app, &mut client);
}

#[test]
fn two_terminals_answer() {
    let mut app = App::new(BINARY).over_unix();
    let [mut first, mut second] = app.clients();
    let thread = first.starts_thread(&app);
    second.joins(&thread);
    let turn = first.prompts(&thread, "run echo once >> ran");
    let (asked, also) = (first.is_asked(), second.is_asked());
    assert_eq!(asked, also, "the same request, under the same id");

    second.approves(&also);
    let settled = first.sees_settled(&asked);
    assert_eq!(settled["decision"], "accept");
    assert_eq!((&settled["by"]["kind"], &settled["by"]["name"]), (&json!("client"), &json!("client2")));
    assert_eq!(second.sees_settled(&also)["by"], settled["by"]);

    // The other answer comes too late: nothing happens but that its sender is told.
    first.declines(&asked);
    assert!(first.until("warning")["message"].as_str().unwrap().len() > 10);
    let late = first.is_refused("approval/respond", json!({ "approvalId": asked.id, "decision": "decline" }));
    check(&late, -32023, "approval_resolved");
    assert_eq!(late.data["decision"], "accept");

    for client in [&mut first, &mut second] {
        let ended = client.finishes(&turn);
        assert_eq!(ended["status"], "completed");
        client.knows_what_is_stored(&thread);
    }
    assert_eq!(app.file("ran").as_deref(), Some("once\n"));
    works(&app, &mut first);
}

#[test]
fn answers_that_are_none() {
    let mut app = App::new(BINARY).over_unix();
    let [mut first, mut second] = app.clients();
    let thread = first.starts_thread(&app);
    second.joins(&thread);
    let turn = first.prompts(&thread, "run echo ran > ran");
    let (asked, also) = (first.is_asked(), second.is_asked());
    // A malformed answer settles nothing; the approval stays open for the other client.
    first.answers(&asked, &json!({ "decision": "perhaps" }));
    first.until("warning");
    second.approves(&also);
    assert_eq!(first.finishes(&turn)["status"], "completed");
    assert_eq!(app.file("ran").as_deref(), Some("ran\n"));

    // When nobody is left that can answer, it is rejected, visibly.
    let turn = first.prompts(&thread, "run echo again > again");
    let (asked, also) = (first.is_asked(), second.is_asked());
    first.answers(&asked, &json!(7));
    second.sends(
        &json!({ "jsonrpc": "2.0", "id": also.id, "error": { "code": -32601, "message": "no such method" } }),
    );
    assert_eq!(first.sees_settled(&asked)["by"]["kind"], "unattended");
    let ended = first.finishes(&turn);
    assert_eq!(ended["status"], "completed", "a decline ends the call, not the turn");
    assert_eq!(first.model().thread(&thread).newest().only("commandExecution")["status"], "declined");
    assert_eq!(app.file("again"), None);
    first.knows_what_is_stored(&thread);
    works(&app, &mut first);
}
