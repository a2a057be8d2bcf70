//! The server's inside, and its description of itself.

use serde_json::{Value, json};
use signalbox_rpc::Role;

use crate::stage::{Stage, input};

#[tokio::test]
async fn threads_agents_connections_and_storage_are_told() {
    let stage = Stage::new().await;
    let mut client = stage.client("looker").await;
    let thread = client.thread(json!({})).await;
    client.thread(json!({})).await;
    client.ok("turn/start", input(&thread, "say A secret word.\nrun true")).await;
    client.until("item/commandExecution/requestApproval").await;
    let told = client.ok("server/diagnostics", json!({})).await;
    assert_eq!(told["threads"]["loaded"], 2);
    assert_eq!((&told["threads"]["waitingForApproval"], &told["threads"]["idle"]), (&json!(1), &json!(1)));
    assert_eq!(told["threads"]["approvals"], 1);
    let agent = &told["agents"][0];
    assert_eq!((&agent["threadId"], &agent["provider"]), (&json!(thread), &json!("rehearsal")));
    assert!(agent["pid"].as_u64().unwrap() > 1 && agent["ready"] == true, "{agent}");
    assert_eq!(agent["state"]["type"], "waitingForApproval");
    if cfg!(target_os = "linux") {
        assert!(agent["memoryBytes"].as_u64().unwrap() > 0, "{agent}");
    }
    let connection = &told["connections"][0];
    assert_eq!((&connection["client"], &connection["role"]), (&json!("looker"), &json!("owner")));
    assert_eq!(connection["subscriptions"], 2);
    assert!(told["storage"]["commits"].as_u64().unwrap() > 2, "{told}");
    assert!(told["storage"]["databaseBytes"].as_u64().unwrap() > 0);
    assert!(told["storage"]["flushes"].as_u64().unwrap() > 0);
    assert!(!told.to_string().contains("secret"), "{told}");
}

#[tokio::test]
async fn observers_do_not_look_inside() {
    let stage = Stage::new().await;
    let mut observer = stage.client_with("observer", Role::Observer, json!({})).await;
    assert_eq!(observer.refused("server/diagnostics", json!({})).await.1, "unauthorized");
}

/// What the meta schema of OpenRPC demands of a method.
fn check_method(method: &Value) {
    let name = method["name"].as_str().unwrap();
    let mut optional = false;
    for param in method["params"].as_array().unwrap_or_else(|| panic!("{name} has no params")) {
        assert!(param["name"].is_string() && param["schema"].is_object(), "{name}: {param}");
        assert!(!(optional && param["required"] == true), "{name}: required ones come first");
        optional |= param["required"] != true;
    }
    if let Some(result) = method.get("result") {
        assert!(result["name"].is_string() && result["schema"].is_object(), "{name}: {result}");
    }
    assert!(
        ["by-name", "by-position", "either"].contains(&method["paramStructure"].as_str().unwrap()),
        "{name}"
    );
}

fn check_references(value: &Value, document: &Value) {
    match value {
        Value::Object(object) => {
            if let Some(target) = object.get("$ref").and_then(Value::as_str) {
                let found = document.pointer(target.strip_prefix('#').unwrap());
                assert!(
                    found.is_some_and(|found| found.is_object() || found.is_boolean()),
                    "{target} is not there"
                );
            }
            object.values().for_each(|value| check_references(value, document));
        }
        Value::Array(values) => values.iter().for_each(|value| check_references(value, document)),
        _ => {}
    }
}

#[tokio::test]
async fn the_server_describes_itself_before_the_handshake() {
    let stage = Stage::new().await;
    let mut client = stage.connect(Role::Observer);
    let document = client.ok("rpc.discover", json!({})).await;
    assert!(document["openrpc"].as_str().unwrap().starts_with("1."));
    assert!(document["info"]["title"].is_string() && document["info"]["version"].is_string());
    let methods = document["methods"].as_array().unwrap();
    let mut names: Vec<&str> = methods.iter().map(|method| method["name"].as_str().unwrap()).collect();
    methods.iter().for_each(check_method);
    for said in ["x-server-requests", "x-server-notifications"] {
        document[said].as_array().unwrap().iter().for_each(check_method);
    }
    for name in ["initialize", "turn/start", "thread/search", "fuzzyFileSearch", "rpc.discover"] {
        let method = methods.iter().find(|method| method["name"] == name);
        assert!(method.is_some_and(|method| method.get("result").is_some()), "{name}");
    }
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count, "each name once");
    check_references(&document, &document);
    // The second time it is the same.
    assert_eq!(client.ok("rpc.discover", json!({})).await, document);
    assert_eq!(client.refused("thread/list", json!({})).await.1, "not_initialized");
}
