//! The handshake, and what every connection may ask.

use serde_json::{Value, json};
use signalbox_rpc::Role;

use crate::stage::Stage;

#[tokio::test]
async fn nothing_but_health_is_answered_before_the_handshake() {
    let stage = Stage::new().await;
    let mut client = stage.connect(Role::Owner);
    let refused = client.refused("thread/loaded/list", json!({})).await;
    assert_eq!(refused, (-32600, "not_initialized".to_owned()));
    let health = client.ok("server/health", json!({})).await;
    assert_eq!((&health["status"], &health["version"]), (&json!("ok"), &json!("1.0.0")));

    let info = json!({"name": "tester", "version": "9"});
    let hello = client.ok("initialize", json!({"clientInfo": info})).await;
    assert!(hello["userAgent"].as_str().unwrap().starts_with("tester/1.0.0 ("), "{hello}");
    assert_eq!(hello["codexHome"], hello["home"]);
    assert_eq!(hello["home"], stage.folder.path().display().to_string());
    assert_eq!(hello["serverInfo"], json!({"name": "signalbox", "version": "1.0.0"}));
    assert_eq!(hello["role"], "owner");

    client.send(json!({"method": "initialized"})).await;
    let again = client.refusal("initialize", json!({"clientInfo": info})).await;
    assert_eq!((&again["code"], &again["message"]), (&json!(-32600), &json!("Already initialized")));
    assert_eq!(client.ok("thread/loaded/list", Value::Null).await["data"], json!([]));
}

#[tokio::test]
async fn what_is_sent_right_behind_initialize_is_answered() {
    let stage = Stage::new().await;
    let mut client = stage.connect(Role::Owner);
    let info = json!({"name": "hasty", "version": "1"});
    let first = client.ask("initialize", json!({"clientInfo": info})).await;
    let second = client.ask("thread/loaded/list", json!({})).await;
    assert!(client.answer(first).await.get("result").is_some());
    assert!(client.answer(second).await.get("result").is_some());
}

#[tokio::test]
async fn existing_clients_find_what_they_ask_for_at_their_start() {
    let stage = Stage::new().await;
    let mut client = stage.client("starter").await;
    assert_eq!(client.ok("account/read", json!({})).await["requiresOpenaiAuth"], false);
    let models = client.ok("model/list", json!({"includeHidden": false})).await;
    assert_eq!(models["data"][0]["id"], "default");
    assert_eq!(models["data"][0]["isDefault"], true);
    assert_eq!(models["data"][0]["modelProvider"], "rehearsal");
    let config = client.ok("config/read", json!({"includeLayers": true})).await;
    assert_eq!(config["config"]["model_provider"], "rehearsal");
    assert_eq!(config["layers"], json!([]));
    assert_eq!(client.ok("configRequirements/read", Value::Null).await["requirements"], Value::Null);
    for list in ["hooks/list", "collaborationMode/list", "experimentalFeature/list"] {
        assert_eq!(client.ok(list, json!({})).await["data"], json!([]), "{list}");
    }
    assert_eq!(client.ok("plugin/installed", json!({})).await["marketplaces"], json!([]));
    let profiles = client.ok("permissionProfile/list", json!({})).await;
    assert_eq!(profiles["data"].as_array().unwrap().len(), 12);
}

#[tokio::test]
async fn providers_say_whether_they_can_be_used() {
    let stage = Stage::new().await;
    let mut client = stage.client("looker").await;
    let providers = client.ok("provider/list", json!({})).await;
    let find = |id: &str| {
        let providers = providers["data"].as_array().unwrap();
        providers.iter().find(|provider| provider["id"] == id).unwrap().clone()
    };
    let (here, missing) = (find("rehearsal"), find("missing"));
    assert_eq!((&here["available"], &here["isDefault"]), (&json!(true), &json!(true)));
    assert_eq!(missing["available"], false);
    assert!(missing["reason"].as_str().unwrap().contains("/no/such/agent"), "{missing}");
    let known = client.ok("modelProvider/list", json!({})).await;
    assert_eq!(known["defaultProviderId"], "rehearsal");
}

#[tokio::test]
async fn a_client_gets_no_notification_that_it_opted_out_of() {
    let stage = Stage::new().await;
    let wants = json!({"optOutNotificationMethods": ["thread/started"]});
    let mut quiet = stage.client_with("quiet", Role::Owner, wants).await;
    let mut other = stage.client("other").await;
    let thread = other.thread(json!({})).await;
    other.ok("thread/name/set", json!({"threadId": thread, "name": "told"})).await;
    let renamed = quiet.until("thread/name/updated").await;
    assert_eq!(renamed["params"]["threadName"], "told");
    assert_eq!(quiet.count("thread/started"), 0);
    assert_eq!(other.count("thread/started"), 1);
}

#[tokio::test]
async fn an_observer_reads_and_does_nothing_else() {
    let stage = Stage::new().await;
    let mut owner = stage.client("owner").await;
    let thread = owner.thread(json!({})).await;
    let mut observer = stage.client_with("observer", Role::Observer, json!({})).await;
    observer.ok("thread/resume", json!({"threadId": thread})).await;
    observer.ok("thread/read", json!({"threadId": thread})).await;
    let error = observer.refusal("turn/start", crate::stage::input(&thread, "say no")).await;
    assert_eq!((&error["code"], &error["data"]["needs"]), (&json!(-32020), &json!("operator")));
}
