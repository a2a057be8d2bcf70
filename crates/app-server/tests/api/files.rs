//! Search for files.

use serde_json::{Value, json};
use signalbox_rpc::Role;

use crate::stage::Stage;

#[tokio::test]
async fn files_are_found_in_the_shape_that_clients_know() {
    let stage = Stage::new().await;
    let project = stage.folder.path().join("project");
    std::fs::create_dir_all(project.join("src/deep")).unwrap();
    std::fs::write(project.join("src/deep/main.rs"), "").unwrap();
    let mut client = stage.client("finder").await;
    let root = project.display().to_string();
    let found = client.ok("fuzzyFileSearch", json!({"query": "main", "roots": [root]})).await;
    let file = &found["files"][0];
    assert_eq!(file["root"], root);
    assert_eq!(file["path"], "src/deep/main.rs");
    assert_eq!(file["file_name"], "main.rs");
    assert_eq!(file["match_type"], "file");
    assert_eq!(file["indices"], json!([9, 10, 11, 12]));
    assert!(file["score"].as_u64().unwrap() > 0);
    assert_eq!(found["complete"], true);

    // From the base directory, which is the project.
    let found = client.ok("fuzzyFileSearch", json!({"query": "deep", "roots": ["src"]})).await;
    assert_eq!(
        (&found["files"][0]["root"], &found["files"][0]["match_type"]),
        (&json!("src"), &json!("directory"))
    );
    assert_eq!(client.ok("fuzzyFileSearch", json!({"query": "", "roots": [root]})).await["files"], json!([]));
    assert_eq!(client.ok("fuzzyFileSearch", json!({"query": "x", "roots": []})).await["files"], json!([]));
}

#[tokio::test]
async fn bad_searches_and_observers_are_refused() {
    let stage = Stage::new().await;
    let mut client = stage.client("finder").await;
    let many: Vec<&str> = vec!["."; 17];
    let error = client.refusal("fuzzyFileSearch", json!({"query": "x", "roots": many})).await;
    assert_eq!((&error["code"], &error["data"]["path"]), (&json!(-32602), &json!("roots")));
    let error = client.refusal("fuzzyFileSearch", json!({"query": "x".repeat(257), "roots": ["."]})).await;
    assert_eq!(error["data"]["path"], "query");
    std::fs::write(stage.folder.path().join("project/file"), "").unwrap();
    for root in ["none", "file", "/no/such/folder", "file/below"] {
        let error = client.refusal("fuzzyFileSearch", json!({"query": "x", "roots": [".", root]})).await;
        assert_eq!((&error["code"], &error["data"]["path"]), (&json!(-32602), &json!("roots")), "{root}");
        assert!(error["message"].as_str().unwrap().contains(root), "{error}");
    }
    let mut observer = stage.client_with("observer", Role::Observer, json!({})).await;
    let refused = observer.refused("fuzzyFileSearch", json!({"query": "x", "roots": ["."]})).await;
    assert_eq!(refused, (-32020, "unauthorized".to_owned()));
}

#[tokio::test]
async fn every_search_of_one_token_is_answered_and_the_last_one_finds() {
    let stage = Stage::new().await;
    let project = stage.folder.path().join("project");
    for number in 0..500 {
        std::fs::write(project.join(format!("file{number}.txt")), "").unwrap();
    }
    let mut client = stage.client("typist").await;
    let mut asked = Vec::new();
    for query in ["f", "fi", "fil", "file", "file4", "file49", "file499"] {
        let params = json!({"query": query, "roots": ["."], "cancellationToken": "typing"});
        asked.push(client.ask("fuzzyFileSearch", params).await);
    }
    let mut last = Value::Null;
    for id in asked {
        last = client.answer(id).await["result"].clone();
        assert!(last["files"].is_array(), "{last}");
    }
    assert_eq!(last["files"][0]["path"], "file499.txt");
}

#[tokio::test]
async fn a_search_that_is_cancelled_is_answered_as_cancelled() {
    let stage = Stage::new().await;
    let project = stage.folder.path().join("project");
    for number in 0..2_000 {
        std::fs::write(project.join(format!("file{number}.txt")), "").unwrap();
    }
    let mut client = stage.client("typist").await;
    let mut cancelled = 0;
    // Some may have been answered before the cancellation is read; none is answered with nothing found.
    for steps in 0..40 {
        let id = client.ask("fuzzyFileSearch", json!({"query": "file", "roots": ["."]})).await;
        for _ in 0..steps {
            tokio::task::yield_now().await;
        }
        client.send(json!({"method": "$/cancelRequest", "params": {"id": id}})).await;
        let answer = client.answer(id).await;
        if answer["error"].is_null() {
            assert_eq!(answer["result"]["files"].as_array().unwrap().len(), 50, "{answer}");
        } else {
            assert_eq!(answer["error"]["code"], -32800, "{answer}");
            assert_eq!(answer["error"]["data"]["reason"], "request_cancelled", "{answer}");
            cancelled += 1;
        }
    }
    assert!(cancelled > 0);
}
