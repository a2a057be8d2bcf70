//! The traffic log: what passes is in it, in order, and no secret is.

use serde_json::Value;
use signalbox_agents::{AgentEvent, McpServer, McpTransport, OpenSession};

use crate::rig::{Rig, limits, open, prompt, spec};

fn logged(path: &std::path::Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn what_passes_is_logged_without_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("thread.jsonl");
    let mut launch = spec("permission");
    launch.env.0.insert("API_KEY".to_owned(), "sk-secret-in-env".to_owned());
    let server = McpServer {
        name: "files".to_owned(),
        transport: McpTransport::Stdio {
            command: "/bin/files".into(),
            args: vec![],
            env: [("FILES_TOKEN".to_owned(), "mcp-secret".to_owned())].into(),
        },
    };
    let wanted = OpenSession { traffic_log: Some(path.clone()), mcp_servers: vec![server], ..open() };
    let mut rig = Rig::with(launch, wanted, limits());
    rig.agent().prompt(prompt("the key is sk-secret-in-env, the header Bearer abcdefghijk")).unwrap();
    rig.until(|event| matches!(event, AgentEvent::Permission { .. }).then_some(())).await;
    rig.agent().cancel().unwrap();
    rig.prompt_ended().await.unwrap();
    rig.agent().stop();
    rig.exit().await;

    let text = std::fs::read_to_string(&path).unwrap();
    for secret in ["sk-secret-in-env", "mcp-secret", "abcdefghijk"] {
        assert!(!text.contains(secret), "{secret} is in {text}");
    }
    let lines = logged(&path);
    let methods: Vec<String> = lines
        .iter()
        .filter_map(|line| Some(format!("{} {}", line["dir"].as_str()?, line["msg"]["method"].as_str()?)))
        .collect();
    let start = ["c2a initialize", "c2a session/new", "c2a session/prompt", "a2c session/request_permission"];
    assert_eq!(&methods[..4], start, "{methods:?}");
    assert!(lines.iter().all(|line| line["t"].is_u64()), "{text}");
    assert_eq!((&lines[0]["note"], &lines.last().unwrap()["note"]), (&"started".into(), &"ended".into()));
    assert_eq!(lines.last().unwrap()["reason"], "agent_stopped");
    let new = lines.iter().find(|line| line["msg"]["method"] == "session/new").unwrap();
    let variable = &new["msg"]["params"]["mcpServers"][0]["env"][0];
    assert_eq!((&variable["name"], &variable["value"]), (&"FILES_TOKEN".into(), &"[masked]".into()));
}

#[tokio::test]
async fn noise_and_the_end_of_a_dying_agent_are_logged_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("thread.jsonl");
    let wanted = OpenSession { traffic_log: Some(path.clone()), ..open() };
    let mut rig = Rig::with(spec("exits-at-once"), wanted, limits());
    rig.start_failure().await;
    let lines = logged(&path);
    assert!(lines.iter().any(|line| line["dir"] == "a2c" && line["text"] == "this is not ACP"), "{lines:?}");
    let stderr = lines.iter().find(|line| line["note"] == "stderr").unwrap();
    assert_eq!(stderr["text"], "fake: no configuration found");
    assert_eq!(lines.last().unwrap()["exitStatus"], "exit status: 3");
}

#[tokio::test]
async fn a_log_that_cannot_be_written_is_told_and_the_agent_works() {
    let folder = tempfile::tempdir().unwrap();
    let no_folder = folder.path().join("agents");
    std::fs::write(&no_folder, "").unwrap();
    let wanted = OpenSession { traffic_log: Some(no_folder.join("thread.jsonl")), ..open() };
    let mut rig = Rig::with(spec("turn"), wanted, limits());
    let mut told = Vec::new();
    rig.agent().prompt(prompt("hello")).unwrap();
    while let Some(event) = rig.next().await {
        match event {
            AgentEvent::Warning { reason, message } => told.push((reason, message)),
            AgentEvent::PromptEnded(result) => {
                assert!(result.is_ok(), "{result:?}");
                rig.agent().stop();
            }
            _ => {}
        }
    }
    let [(reason, message)] = &told[..] else { panic!("{told:?}") };
    assert_eq!(*reason, "traffic_log_failed");
    assert!(message.contains("thread.jsonl: Not a directory"), "{message}");
}
