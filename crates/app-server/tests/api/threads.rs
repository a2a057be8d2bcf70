//! Threads without an agent: started, read, listed, named, left, found again after a restart.

use serde_json::{Value, json};

use crate::stage::Stage;

#[tokio::test]
async fn the_answer_precedes_what_it_caused() {
    let stage = Stage::new().await;
    let [mut first, mut second] = stage.clients().await;
    let before = first.log.len();
    let started = first.ok("thread/start", json!({"requestId": "mine"})).await;
    first.until("thread/started").await;
    assert_eq!(first.methods()[before..], ["answer", "thread/started"]);
    let told = second.until("thread/started").await;
    assert_eq!(told["params"]["thread"]["id"], started["thread"]["id"]);
    assert_eq!(told["params"]["requestId"], "mine");
    assert!(told["emittedAtMs"].is_u64(), "{told}");
    assert_eq!(told["params"]["seq"], 1);
    assert!(told["params"]["cursor"].as_str().unwrap().contains('-'));
}

#[tokio::test]
async fn a_thread_tells_the_settings_it_began_with() {
    let stage = Stage::new().await;
    let mut client = stage.client("starter").await;
    let project = stage.folder.path().join("project");
    std::fs::create_dir(project.join("inner")).unwrap();
    let real = project.canonicalize().unwrap();

    let plain = client.ok("thread/start", json!({})).await;
    assert_eq!(plain["cwd"], real.display().to_string());
    assert_eq!(plain["approvalPolicy"], "untrusted");
    assert_eq!(plain["sandbox"]["type"], "workspaceWrite");
    assert_eq!(plain["approvalsReviewer"], "user");
    assert_eq!(plain["model"], "default");
    assert_eq!(plain["modelProvider"], "rehearsal");
    assert_eq!(plain["thread"]["status"], json!({"type": "idle"}));
    assert_eq!(plain["thread"]["turns"], json!([]));
    assert_eq!(plain["thread"]["source"], "vscode");
    assert_eq!(plain["snapshotSeq"], 1);

    let given = json!({
        "cwd": "inner", "approvalPolicy": "on-request", "sandbox": "read-only", "model": "m1",
        "approvalsReviewer": "auto_review", "threadSource": "cli",
    });
    let given = client.ok("thread/start", given).await;
    assert_eq!(given["cwd"], real.join("inner").display().to_string());
    assert_eq!(given["approvalPolicy"], "on-request");
    assert_eq!(given["sandbox"]["type"], "readOnly");
    assert_eq!(given["model"], "m1");
    assert_eq!(given["thread"]["source"], "cli");

    let ours = json!({"approvalPolicy": "never", "policy": {"mode": "ask", "sandbox": "danger_full_access"}});
    let ours = client.ok("thread/start", ours).await;
    assert_eq!(ours["thread"]["policy"], json!({"mode": "ask", "sandbox": "danger_full_access"}));
}

#[tokio::test]
async fn what_has_no_meaning_here_is_said_once() {
    let stage = Stage::new().await;
    let mut client = stage.client("starter").await;
    let thread =
        client.thread(json!({"serviceTier": "fast", "personality": "friendly", "config": {"x": 1}})).await;
    let warning = client.until("warning").await;
    assert_eq!(warning["params"]["threadId"], thread);
    assert_eq!(warning["params"]["message"], "Not used by this server: serviceTier, personality, config.");
    client.settle().await;
    assert_eq!(client.count("warning"), 1);
}

#[tokio::test]
async fn a_thread_is_read_listed_and_named() {
    let stage = Stage::new().await;
    let mut client = stage.client("reader").await;
    let thread = client.thread(json!({})).await;
    let read = client.ok("thread/read", json!({"threadId": thread, "includeTurns": true})).await;
    assert_eq!(read["thread"]["turns"], json!([]));
    assert_eq!(read["snapshotSeq"], 1);
    assert_eq!(client.ok("thread/loaded/list", json!({})).await["data"], json!([thread]));

    client.ok("thread/name/set", json!({"threadId": thread, "name": "  A name "})).await;
    let listed =
        client.ok("thread/list", json!({"useStateDbOnly": true, "modelProviders": ["openai"]})).await;
    assert_eq!(listed["data"][0]["id"], thread);
    assert_eq!(listed["data"][0]["name"], "A name");
    assert_eq!(listed["nextCursor"], Value::Null);
    assert_eq!(client.refused("thread/name/set", json!({"threadId": thread, "name": " "})).await.0, -32602);

    client
        .ok(
            "thread/settings/update",
            json!({"threadId": thread, "model": "m2", "approvalPolicy": "on-request"}),
        )
        .await;
    let updated =
        client.until_that("thread/settings/updated", |told| told["threadSettings"]["model"] == "m2").await;
    assert_eq!(updated["params"]["threadSettings"]["approvalPolicy"], "on-request");
}

#[tokio::test]
async fn lists_are_paged_and_filtered() {
    let stage = Stage::new().await;
    let mut client = stage.client("lister").await;
    let project = stage.folder.path().join("project");
    std::fs::create_dir(project.join("inner")).unwrap();
    let mut threads = Vec::new();
    for cwd in [".", ".", "inner", "inner", "inner"] {
        threads.push(client.thread(json!({"cwd": cwd})).await);
    }
    let mut seen = Vec::new();
    let mut cursor = Value::Null;
    loop {
        let params = json!({"limit": 2, "cursor": cursor, "sortKey": "created_at", "sortDirection": "asc"});
        let page = client.ok("thread/list", params).await;
        let ids =
            page["data"].as_array().unwrap().iter().map(|thread| thread["id"].as_str().unwrap().to_owned());
        seen.extend(ids);
        cursor = page["nextCursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(seen, threads);

    let count = async |client: &mut crate::stage::Client, params: Value| {
        client.ok("thread/list", params).await["data"].as_array().unwrap().len()
    };
    let inner = project.join("inner").display().to_string();
    assert_eq!(count(&mut client, json!({"cwd": inner})).await, 3);
    assert_eq!(count(&mut client, json!({"cwd": [inner, project.join("none")]})).await, 3);
    assert_eq!(count(&mut client, json!({"sourceKinds": ["cli"]})).await, 0);
    assert_eq!(count(&mut client, json!({"sourceKinds": ["cli", "vscode"]})).await, 5);
    assert_eq!(count(&mut client, json!({"sourceKinds": ["exec"]})).await, 0);
    assert_eq!(count(&mut client, json!({"modelProviders": ["codex"]})).await, 0);
    assert_eq!(count(&mut client, json!({"archived": true})).await, 0);
    assert_eq!(count(&mut client, json!({"includedThreadIds": [threads[1], "no id"]})).await, 1);
    assert_eq!(count(&mut client, json!({"excludedThreadIds": [threads[1]]})).await, 4);

    let mut loaded = Vec::new();
    let mut cursor = Value::Null;
    while loaded.len() < 5 {
        let page = client.ok("thread/loaded/list", json!({"limit": 3, "cursor": cursor})).await;
        loaded.extend(page["data"].as_array().unwrap().clone());
        cursor = page["nextCursor"].clone();
    }
    assert_eq!(cursor, Value::Null);
}

#[tokio::test]
async fn a_thread_is_left_and_joined_again() {
    let stage = Stage::new().await;
    let [mut first, mut second] = stage.clients().await;
    let thread = first.thread(json!({})).await;
    let leave = json!({"threadId": thread});
    assert_eq!(second.ok("thread/unsubscribe", leave.clone()).await["status"], "notSubscribed");
    assert_eq!(first.ok("thread/unsubscribe", leave.clone()).await["status"], "unsubscribed");
    assert_eq!(first.ok("thread/unsubscribe", leave).await["status"], "notSubscribed");
    let other = json!({"threadId": "0198c0de-0000-7000-8000-000000000000"});
    assert_eq!(first.ok("thread/unsubscribe", other).await["status"], "notLoaded");

    let before = second.log.len();
    let resumed = second.ok("thread/resume", json!({"threadId": thread})).await;
    assert_eq!(resumed["thread"]["id"], thread);
    assert_eq!(resumed["turnsBackwardsCursor"], Value::Null);
    let activity = second.until("thread/activity/changed").await;
    assert_eq!(activity["params"]["activity"]["state"]["kind"], "idle");
    assert_eq!(second.methods()[before..], ["answer", "thread/activity/changed"]);
}

#[tokio::test]
async fn settings_of_a_resume_are_left_out_where_others_follow() {
    let stage = Stage::new().await;
    let [mut first, mut second] = stage.clients().await;
    let thread = first.thread(json!({})).await;
    let wish = json!({"threadId": thread, "model": "m9", "modelProvider": "codex"});
    let resumed = second.ok("thread/resume", wish.clone()).await;
    assert_eq!(resumed["model"], "default");
    let told = second.until("warning").await;
    assert!(told["params"]["message"].as_str().unwrap().contains("others follow"), "{told}");
    let told = second.until("warning").await;
    assert!(told["params"]["message"].as_str().unwrap().contains("keeps its provider"), "{told}");
    first.ok("thread/unsubscribe", json!({"threadId": thread})).await;
    let resumed = second.ok("thread/resume", wish).await;
    assert_eq!(resumed["model"], "m9");
}

#[tokio::test]
async fn a_thread_is_there_after_a_restart() {
    let stage = Stage::new().await;
    let mut client = stage.client("before").await;
    let thread = client.thread(json!({})).await;
    client.ok("thread/name/set", json!({"threadId": thread, "name": "kept"})).await;
    drop(client);
    let stage = Stage::open(stage.close().await).await;
    let mut client = stage.client("after").await;
    assert_eq!(client.ok("thread/loaded/list", json!({})).await["data"], json!([]));
    let read = client.ok("thread/read", json!({"threadId": thread, "includeTurns": true})).await;
    assert_eq!(read["thread"]["name"], "kept");
    assert_eq!(read["thread"]["status"], json!({"type": "notLoaded"}));
    assert_eq!(client.ok("thread/loaded/list", json!({})).await["data"], json!([]));
    assert_eq!(client.ok("thread/list", json!({})).await["data"][0]["status"], json!({"type": "notLoaded"}));
    let resumed = client.ok("thread/resume", json!({"threadId": thread})).await;
    assert_eq!(resumed["thread"]["status"], json!({"type": "idle"}));
    assert_eq!(resumed["snapshotSeq"], 2);
    assert_eq!(client.ok("thread/loaded/list", json!({})).await["data"], json!([thread]));
}
