//! Providers: what is known of them, checking them, and logging in with their agents.

use serde_json::{Value, json};

use crate::stage::{Client, Stage, within};

async fn info(client: &mut Client, provider: &str) -> Value {
    let listed = client.ok("provider/list", json!({})).await;
    listed["data"].as_array().unwrap().iter().find(|one| one["id"] == provider).unwrap().clone()
}

#[tokio::test]
async fn what_a_check_has_learnt_is_listed() {
    let stage = Stage::new().await;
    let mut client = stage.client("looker").await;
    let before = info(&mut client, "gate").await;
    assert_eq!((before.get("version"), &before["login"]["required"]), (None, &json!("unknown")));

    let checked = client.ok("provider/check", json!({"provider": "gate"})).await;
    assert_eq!(checked["ok"], true, "{checked}");
    assert_eq!((&checked["agent"]["name"], &checked["agent"]["version"]), (&json!("Gate"), &json!("1.2.3")));
    assert_eq!(checked["agent"]["capabilities"]["mcpHttp"], true);
    let method = &checked["login"]["methods"][0];
    assert_eq!((&method["id"], &method["kind"]), (&json!("tty"), &json!("terminal")));
    assert_eq!(method["command"][1], "--login");
    assert_eq!(method["env"], json!({"LOGIN_WORD": "please"}));
    assert_eq!(info(&mut client, "gate").await["version"], "1.2.3");

    let checked = client.ok("provider/check", json!({"provider": "gate", "session": true})).await;
    assert_eq!(
        (&checked["ok"], &checked["failure"]["reason"]),
        (&json!(false), &json!("agent_auth_required"))
    );
    assert_eq!(checked["failure"]["hint"], "run `signalbox login gate`");
    assert_eq!(checked["agent"]["version"], "1.2.3", "what it said before it failed");
    let after = info(&mut client, "gate").await;
    assert_eq!(after["login"]["required"], "yes");
    assert_eq!(after["lastFailure"]["reason"], "agent_auth_required");
    assert!(after["lastFailure"]["at"].as_i64().unwrap() > 0);
}

#[tokio::test]
async fn an_agent_logs_in_by_itself_or_a_command_is_given() {
    let stage = Stage::new().await;
    let mut client = stage.client("user").await;
    let told = client.ok("provider/login", json!({"provider": "gate", "methodId": "tty"})).await;
    assert_eq!((&told["type"], &told["method"]["command"][1]), (&json!("terminal"), &json!("--login")));
    let refused = client.refusal("provider/login", json!({"provider": "gate"})).await;
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("gate has several login methods, name one: tty, web, code"), "{message}");
    let refused = client.refusal("provider/login", json!({"provider": "gate", "methodId": "no"})).await;
    assert_eq!(refused["data"]["path"], "methodId");

    let checked = client.ok("provider/check", json!({"provider": "gate", "session": true})).await;
    assert_eq!(checked["login"]["required"], "yes");
    let done = client.ok("provider/login", json!({"provider": "gate", "methodId": "web"})).await;
    assert_eq!((&done["type"], &done["method"]["id"]), (&json!("done"), &json!("web")));
    let after = info(&mut client, "gate").await;
    assert_eq!((&after["login"]["required"], after.get("lastFailure")), (&json!("no"), None));
    assert_eq!(after["login"].get("hint"), None, "who is logged in needs none");
    let checked = client.ok("provider/check", json!({"provider": "gate", "session": true})).await;
    assert_eq!(checked["ok"], true, "{checked}");
}

/// Begins a login with a code, and answers the address it asks for.
async fn with_a_code(client: &mut Client, accept: bool) -> Value {
    let id = client.ask("provider/login", json!({"provider": "gate", "methodId": "code"})).await;
    let (mut said, mut address) = (String::new(), Value::Null);
    while address.is_null() || !said.ends_with("Waiting") {
        let told = client.until("provider/login/progress").await["params"].clone();
        match told["type"].as_str() {
            Some("output") => said.push_str(told["text"].as_str().unwrap()),
            _ => address = told,
        }
    }
    assert!(said.ends_with("Your code: \u{1b}[1mAB-12\u{1b}[0m\nWaiting"), "{said:?}");
    let request = &address["requestId"];
    assert_eq!(
        address,
        json!({"provider": "gate", "type": "address", "requestId": request, "message": "Open this and type the code",
            "url": "https://login.example/device"})
    );
    let answer = json!({"provider": "gate", "requestId": request, "accept": accept});
    client.ok("provider/login/answer", answer).await;
    client.answer(id).await
}

#[tokio::test]
async fn what_an_agent_says_while_it_logs_in_is_told_at_once_and_its_address_is_answered() {
    let stage = Stage::new().await;
    let mut client = stage.client("user").await;
    let refused = with_a_code(&mut client, false).await["error"].clone();
    assert_eq!(refused["data"]["addresses"], json!(["https://login.example/device"]), "{refused}");
    assert!(refused["data"]["stderrTail"].as_str().unwrap().ends_with("Waiting in vain"), "{refused}");
    let done = with_a_code(&mut client, true).await["result"].clone();
    assert_eq!(
        (&done["type"], &done["addresses"][0]),
        (&json!("done"), &json!("https://login.example/device"))
    );
    assert!(done["stderrTail"].as_str().unwrap().contains("AB-12"), "{done}");
    let late = json!({"provider": "gate", "requestId": 1, "accept": true});
    let refused = client.refusal("provider/login/answer", late).await;
    assert_eq!(refused["data"]["path"], "provider", "{refused}");
}

#[tokio::test]
async fn a_turn_that_needs_a_login_says_how() {
    let stage = Stage::new().await;
    let mut client = stage.client("user").await;
    let thread = client.thread(json!({"modelProvider": "gate"})).await;
    client.turn(&thread, "go").await;
    let ended = client.until("turn/completed").await;
    let error = &ended["params"]["turn"]["error"];
    assert!(error.to_string().contains("signalbox login gate"), "{error}");
    assert!(error.to_string().contains("\"tty\""), "{error}");
    assert_eq!(info(&mut client, "gate").await["login"]["required"], "yes");
}

#[tokio::test]
async fn what_cannot_be_started_is_refused_with_what_would_help() {
    let stage = Stage::new().await;
    let mut client = stage.client("user").await;
    let refused = client.refusal("provider/check", json!({"provider": "missing"})).await;
    assert_eq!(refused["data"]["reason"], "provider_unavailable");
    let refused = client.refusal("provider/check", json!({"provider": "nobody"})).await;
    assert_eq!(refused["data"]["reason"], "provider_not_found");
    let listed = info(&mut client, "missing").await;
    assert_eq!((&listed["available"], &listed["downloads"]), (&json!(false), &json!(false)));
}

#[tokio::test]
async fn mcp_servers_of_the_configuration_are_listed_with_what_is_wrong() {
    let stage = Stage::new().await;
    let mut client = stage.client("user").await;
    let listed = client.ok("mcpServerStatus/list", json!({})).await;
    let servers = listed["data"].as_array().unwrap();
    let problems: Vec<_> =
        servers.iter().map(|one| (&one["name"], &one["transport"], &one["problem"])).collect();
    assert_eq!(
        problems,
        [
            (&json!("broken"), &json!("stdio"), &json!("its command \"/no/such/server\" was not found")),
            (&json!("remote"), &json!("sse"), &Value::Null),
        ]
    );
    // The agent lacks the transport of one, and is not told of the other.
    let thread = client.thread(json!({"modelProvider": "with_servers"})).await;
    client.turn(&thread, "say Done.").await;
    client.until("turn/completed").await;
    let warned: Vec<_> = client.log.iter().filter(|frame| frame["method"] == "warning").collect();
    let told =
        |part: &str| warned.iter().any(|frame| frame["params"]["message"].as_str().unwrap().contains(part));
    assert!(
        told("The MCP server broken is left out: its command") && told("MCP server remote"),
        "{warned:?}"
    );
}

#[tokio::test]
async fn what_passed_between_a_thread_and_its_agent_is_deleted_with_the_thread() {
    let stage = Stage::new().await;
    let mut client = stage.client("user").await;
    for fails in [false, true] {
        let thread = client.thread(json!({"modelProvider": "late"})).await;
        client.turn(&thread, "say Done.").await;
        client.until("turn/completed").await;
        let file = |end: &str| stage.folder.path().join(format!("logs/{thread}{end}"));
        let (new, old) = (file(".jsonl"), file(".1.jsonl"));
        within(async {
            while !new.exists() {
                tokio::task::yield_now().await;
            }
        })
        .await;
        if fails {
            std::fs::create_dir(&old).unwrap();
            let refused = client.refusal("thread/delete", json!({"threadId": thread})).await;
            assert_eq!(refused["data"]["reason"], "traffic_log_kept", "{refused}");
            assert_eq!(refused["data"]["path"], json!(old), "{refused}");
        } else {
            std::fs::write(&old, "{}").unwrap();
            client.ok("thread/delete", json!({"threadId": thread})).await;
            assert!(!old.exists());
        }
        assert!(!new.exists());
        let refused = client.refusal("thread/read", json!({"threadId": thread})).await;
        assert_eq!(refused["data"]["reason"], "thread_not_found", "it is gone in any case");
    }
}
