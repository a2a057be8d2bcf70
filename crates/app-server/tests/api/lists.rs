//! Skills, and what existing clients ask for at their start: answered truthfully, in the shape that they read.

use serde_json::{Value, json};

use crate::stage::Stage;

#[tokio::test]
async fn skills_are_listed_for_each_directory() {
    let stage = Stage::new().await;
    let mut client = stage.client("reader").await;
    let project = stage.folder.path().join("project").canonicalize().unwrap();
    for (folder, text) in [
        ("review", "---\nname: review\ndescription: Looks twice\n---\nLook twice."),
        ("broken", "---\nname: broken\n"),
    ] {
        let folder = project.join(".signalbox/skills").join(folder);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("SKILL.md"), text).unwrap();
    }
    let listed =
        client.ok("skills/list", json!({"cwds": [project, "/no/such/folder"], "forceReload": true})).await;
    let entries = listed["data"].as_array().unwrap();
    assert_eq!(entries.len(), 2);
    assert_eq!(entries[0]["cwd"], project.display().to_string());
    let skills = entries[0]["skills"].as_array().unwrap();
    let review = skills.iter().find(|skill| skill["name"] == "review").unwrap();
    assert_eq!(review["description"], "Looks twice");
    assert_eq!((&review["scope"], &review["enabled"]), (&json!("repo"), &json!(true)));
    assert!(review["path"].as_str().unwrap().ends_with("review/SKILL.md"), "{review}");
    let errors = entries[0]["errors"].as_array().unwrap();
    assert!(errors.iter().any(|error| error["path"].as_str().unwrap().contains("broken")), "{errors:?}");
    assert_eq!((&entries[1]["cwd"], &entries[1]["skills"]), (&json!("/no/such/folder"), &json!([])));
    assert_eq!(entries[1]["errors"][0]["path"], "/no/such/folder");
    let own = client.ok("skills/list", json!({})).await;
    assert_eq!(own["data"][0]["skills"], entries[0]["skills"], "without a directory it is the server's");
    let many = client.refusal("skills/list", json!({"cwds": vec!["."; 65]})).await;
    assert_eq!((&many["code"], &many["data"]["path"]), (&json!(-32602), &json!("cwds")));
}

#[tokio::test]
async fn what_existing_clients_ask_for_at_their_start_is_answered() {
    let stage = Stage::new().await;
    let mut client = stage.client("starter").await;
    assert_eq!(
        client.ok("account/read", json!({"refreshToken": false})).await,
        json!({"account": null, "requiresOpenaiAuth": false, "userId": null})
    );
    let config = client.ok("config/read", json!({"includeLayers": false, "cwd": "/"})).await;
    assert_eq!((&config["config"]["model_provider"], &config["origins"]), (&json!("rehearsal"), &json!({})));
    assert_eq!(client.ok("configRequirements/read", Value::Null).await["requirements"], Value::Null);
    for method in ["hooks/list", "collaborationMode/list", "experimentalFeature/list"] {
        assert_eq!(client.ok(method, json!({})).await["data"], json!([]), "{method}");
    }
    assert_eq!(client.ok("plugin/installed", json!({"cwds": ["/"]})).await["marketplaces"], json!([]));
    let profiles = client.ok("permissionProfile/list", json!({})).await;
    assert_eq!(profiles["data"].as_array().unwrap().len(), 12);
    let providers = client.ok("modelProvider/list", json!({})).await;
    assert_eq!(providers["defaultProviderId"], "rehearsal");
    let ids = providers["data"].as_array().unwrap().iter().map(|provider| &provider["id"]);
    assert!(ids.clone().any(|id| id == "rehearsal") && ids.clone().any(|id| id == "opencode"));
    let models = client.ok("model/list", json!({"limit": 0, "includeHidden": true})).await;
    assert_eq!(models["data"][0]["id"], "default", "never empty");
    assert_eq!((&models["data"][0]["isDefault"], &models["nextCursor"]), (&json!(true), &Value::Null));
    let beyond = client.refused("model/list", json!({"cursor": "1"})).await;
    assert_eq!(beyond, (-32602, "stale_cursor".to_owned()));
    let none = client.refused("thread/shellCommand", json!({"threadId": "x", "command": "ls"})).await;
    assert_eq!(none, (-32601, "method_not_found".to_owned()));
}
