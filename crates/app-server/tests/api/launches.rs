//! Threads whose agent is started otherwise than their provider says: who may say so, what is shown, what is stored.

use serde_json::{Value, json};
use signalbox_rpc::Role;

use crate::stage::{Client, Stage, input};

const SECRET: &str = "a-value-that-is-nowhere-on-disk";

/// A program that notes how it was started, and becomes the agent.
fn launch(stage: &Stage) -> Value {
    let mut agent = std::env::current_exe().unwrap();
    agent.pop();
    agent.pop();
    agent.push("examples/app-server-agent");
    let notes = stage.folder.path().join("starts");
    let script = format!("echo \"${{KEY-none}}\" >> {}; exec {}", notes.display(), agent.display());
    json!({"command": "sh", "args": ["-c", script], "env": {"KEY": SECRET}, "cwd": "/"})
}

fn starts(stage: &Stage) -> Vec<String> {
    let notes = std::fs::read_to_string(stage.folder.path().join("starts")).unwrap_or_default();
    notes.lines().map(str::to_owned).collect()
}

async fn turn(client: &mut Client, thread: &str) {
    client.ok("turn/start", input(thread, "say Done.")).await;
    client.until("turn/completed").await;
}

fn warned(client: &Client, part: &str) -> bool {
    let of = |frame: &&Value| frame["method"] == "warning";
    let says = |frame: &Value| frame["params"]["message"].as_str().is_some_and(|text| text.contains(part));
    client.log.iter().filter(of).any(says)
}

#[tokio::test]
async fn a_thread_with_a_launch_of_its_own_shows_names_and_stores_no_value() {
    let stage = Stage::new().await;
    let mut client = stage.client("owner").await;
    let params = json!({"launch": launch(&stage), "config": {"mcp_servers.files.command": "sh",
        "mcp_servers.files.env.TOKEN": SECRET, "mcp_servers.files.tool_timeout_sec": 5}});
    let started = client.ok("thread/start", params).await;
    let thread = started["thread"]["id"].as_str().unwrap().to_owned();
    let shown = &started["launch"];
    assert_eq!((&shown["command"], &shown["envNames"]), (&json!("sh"), &json!(["KEY"])));
    assert_eq!((&shown["mcpServers"], shown.get("envLost")), (&json!(["files"]), None));
    turn(&mut client, &thread).await;
    assert_eq!(starts(&stage), [SECRET]);
    assert!(warned(&client, "Not used by this server: config.mcp_servers.files.tool_timeout_sec."));
    assert!(!warned(&client, "is left out"));
    let fork = client.ok("thread/fork", json!({"threadId": thread})).await;
    assert_eq!(fork["launch"], *shown);
    client.settle().await;
    let heard = serde_json::to_string(&client.log).unwrap();
    assert!(!heard.contains(SECRET), "no client is told a value");

    let folder = stage.close().await;
    let database: Vec<u8> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.display().to_string().contains("test.db"))
        .flat_map(|path| std::fs::read(path).unwrap())
        .collect();
    let holds = |text: &str| database.windows(text.len()).any(|part| part == text.as_bytes());
    assert!(holds("envNames") || holds("env_names"), "the names are stored");
    assert!(!holds(SECRET), "a value is stored");

    // Another server knows the program and not the values.
    let stage = Stage::open(folder).await;
    let mut client = stage.client("owner").await;
    let read = client.ok("thread/read", json!({"threadId": thread})).await;
    assert_eq!(read["launch"]["envLost"], json!(["KEY", "files.TOKEN"]));
    client.ok("thread/resume", json!({"threadId": thread})).await;
    turn(&mut client, &thread).await;
    assert_eq!(starts(&stage), [SECRET, "none"]);
    assert!(warned(&client, "The agent is started without KEY:"));
    assert!(warned(
        &client,
        "The MCP server files is left out: this server no longer has the values of TOKEN"
    ));
}

#[tokio::test]
async fn a_resume_gives_the_values_again() {
    let stage = Stage::new().await;
    let mut client = stage.client("owner").await;
    let config = json!({"mcp_servers": {"files": {"command": "sh", "env": {"TOKEN": SECRET}}}});
    let thread = client.thread(json!({"launch": launch(&stage), "config": config})).await;
    let stage = Stage::open(stage.close().await).await;
    let mut client = stage.client("owner").await;
    let again = json!({"threadId": thread, "config": config,
        "launch": {"command": "other", "env": {"KEY": SECRET, "MORE": "x"}}});
    let resumed = client.ok("thread/resume", again).await;
    assert_eq!((&resumed["launch"]["command"], resumed["launch"].get("envLost")), (&json!("sh"), None));
    turn(&mut client, &thread).await;
    assert_eq!(starts(&stage), [SECRET]);
    assert!(warned(&client, "of the `launch` of this resume only `env` is used"));
    assert!(warned(&client, "the thread was not started with them: the variables MORE."));
    assert!(!warned(&client, "is started without") && !warned(&client, "is left out"));
}

#[tokio::test]
async fn only_an_owner_says_what_is_started() {
    let stage = Stage::new().await;
    let mut owner = stage.client("owner").await;
    let thread = owner.thread(json!({"launch": launch(&stage)})).await;
    for role in [Role::Observer, Role::Operator] {
        let mut client = stage.client_with("other", role, json!({})).await;
        let op = json!({"op": "new_session", "provider": "rehearsal", "cwd": "/", "use_worktree": false,
            "launch": {"command": "sh"}});
        for (method, params) in [
            ("thread/start", json!({"launch": {"env": {"KEY": SECRET}}})),
            ("thread/start", json!({"config": {"mcp_servers.m.command": "sh"}})),
            ("thread/resume", json!({"threadId": thread, "launch": {"env": {"KEY": "x"}}})),
            ("op/submit", json!({"op": op})),
        ] {
            let refused = client.refusal(method, params).await;
            assert_eq!(
                (&refused["data"]["reason"], refused["code"].as_i64()),
                (&json!("unauthorized"), Some(-32020))
            );
            let needs = &refused["data"]["needs"];
            assert!(needs == "owner" || (role == Role::Observer && needs == "operator"), "{refused}");
        }
    }
    let mut operator = stage.client_with("operator", Role::Operator, json!({})).await;
    let refused = operator.refusal("thread/start", json!({"launch": {"command": "sh"}})).await;
    let message = refused["message"].as_str().unwrap();
    assert_eq!(message, "This needs the role owner: `launch` says which programs the server starts");
    // What an owner has started others use.
    operator.ok("thread/resume", json!({"threadId": thread})).await;
    turn(&mut operator, &thread).await;
    assert_eq!(starts(&stage), [SECRET]);
}

#[tokio::test]
async fn a_launch_that_cannot_be_is_refused_by_its_field() {
    let stage = Stage::new().await;
    let mut client = stage.client("owner").await;
    for (params, path) in [
        (json!({"launch": {"command": ""}}), "launch.command"),
        (json!({"launch": {"cwd": "work"}}), "launch.cwd"),
        (json!({"launch": {"askMode": ""}}), "launch.askMode"),
        (json!({"config": {"mcp_servers.m.args": "x"}}), "config.mcp_servers.m.args"),
        (json!({"config": {"mcp_servers": {"m": {}}}}), "config.mcp_servers"),
    ] {
        let refused = client.refusal("thread/start", params).await;
        assert_eq!(
            (refused["code"].as_i64(), &refused["data"]["path"]),
            (Some(-32602), &json!(path)),
            "{refused}"
        );
    }
    let params = json!({"launch": {"command": "/no/such/agent"}});
    assert_eq!(client.refused("thread/start", params).await, (-32021, "provider_unavailable".to_owned()));
    assert_eq!(client.ok("thread/list", json!({})).await["data"], json!([]));
}
