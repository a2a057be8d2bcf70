//! Every refusal has its code and its word, and the server goes on.

use serde_json::{Value, json};

use crate::stage::{Stage, input};

#[tokio::test]
async fn what_names_no_thread_is_told_so() {
    let stage = Stage::new().await;
    let mut client = stage.client("lost").await;
    let unknown = "0198c0de-0000-7000-8000-000000000000";
    for id in [unknown, "no id at all", ""] {
        for (method, params) in [
            ("thread/read", json!({"threadId": id})),
            ("thread/resume", json!({"threadId": id})),
            ("turn/start", input(id, "hello")),
            ("turn/steer", json!({"threadId": id, "expectedTurnId": "t", "input": input(id, "x")["input"]})),
            ("turn/interrupt", json!({"threadId": id, "turnId": "t"})),
            ("thread/name/set", json!({"threadId": id, "name": "n"})),
            ("thread/settings/update", json!({"threadId": id, "model": "m"})),
            ("thread/fork", json!({"threadId": id})),
            ("thread/revert", json!({"threadId": id, "beforeTurnId": "t"})),
            ("thread/archive", json!({"threadId": id})),
            ("thread/unarchive", json!({"threadId": id})),
            ("thread/delete", json!({"threadId": id})),
            ("thread/compact/start", json!({"threadId": id})),
            ("thread/configOption/set", json!({"threadId": id, "configId": "c", "value": true})),
            (
                "thread/queue/add",
                json!({"threadId": id, "clientUserMessageId": "m", "input": input("", "x")["input"]}),
            ),
            ("thread/queue/list", json!({"threadId": id})),
            (
                "thread/queue/update",
                json!({"threadId": id, "queuedSubmissionId": "q", "input": input("", "x")["input"]}),
            ),
            ("thread/queue/delete", json!({"threadId": id, "queuedSubmissionId": "q"})),
            ("thread/queue/reorder", json!({"threadId": id, "queuedSubmissionIds": []})),
            ("permissionRule/list", json!({"threadId": id})),
            ("permissionRule/remove", json!({"threadId": id, "rule": {"type": "command", "command": "ls"}})),
        ] {
            let error = client.refusal(method, params).await;
            assert_eq!(error["code"], -32600, "{method}");
            assert_eq!(error["data"]["reason"], "thread_not_found", "{method}");
            assert_eq!(error["message"], format!("thread not found: {id}"), "{method}");
        }
    }
    assert_eq!(client.ok("thread/loaded/list", json!({})).await["data"], json!([]));
}

#[tokio::test]
async fn a_thread_that_cannot_be_started_is_refused() {
    let stage = Stage::new().await;
    let mut client = stage.client("starter").await;
    let refused = client.refused("thread/start", json!({"modelProvider": "nobody"})).await;
    assert_eq!(refused, (-32021, "provider_not_found".to_owned()));
    let error = client.refusal("thread/start", json!({"modelProvider": "missing"})).await;
    assert_eq!(error["data"]["reason"], "provider_unavailable");
    assert_eq!(error["data"]["command"], "/no/such/agent");
    let error = client.refusal("thread/start", json!({"cwd": "not there"})).await;
    assert_eq!((&error["code"], &error["data"]["path"]), (&json!(-32602), &json!("cwd")));
    let elsewhere = json!({"environments": [{"environmentId": "cloud"}]});
    let refused = client.refused("thread/start", elsewhere).await;
    assert_eq!(refused, (-32602, "unsupported_field".to_owned()));
    let refused = client.refused("thread/start", json!({"permissions": "no:such"})).await;
    assert_eq!(refused, (-32602, "invalid_params".to_owned()));
    assert_eq!(client.count("thread/started"), 0);
    assert_eq!(client.ok("thread/list", json!({})).await["data"], json!([]));
}

#[tokio::test]
async fn an_input_that_says_nothing_is_refused() {
    let stage = Stage::new().await;
    let mut client = stage.client("writer").await;
    let thread = client.thread(json!({})).await;
    for empty in [json!([]), json!([{"type": "text", "text": " \n"}])] {
        let error = client.refusal("turn/start", json!({"threadId": thread, "input": empty})).await;
        assert_eq!((&error["code"], &error["data"]["path"]), (&json!(-32602), &json!("input")));
    }
    let audio = json!([{"type": "text", "text": "hear"}, {"type": "localAudio", "path": "a.wav"}]);
    let error = client.refusal("turn/start", json!({"threadId": thread, "input": audio})).await;
    assert_eq!(error["data"]["reason"], "unsupported_field");
    assert_eq!(error["data"]["path"], "input[1]");
    let error = client.refusal("turn/start", json!({"threadId": thread, "input": "text"})).await;
    assert_eq!((&error["code"], &error["data"]["path"]), (&json!(-32602), &json!("input")));
}

#[tokio::test]
async fn without_a_turn_there_is_nothing_to_steer_or_interrupt() {
    let stage = Stage::new().await;
    let mut client = stage.client("idler").await;
    let thread = client.thread(json!({})).await;
    let error = client.refusal("turn/interrupt", json!({"threadId": thread, "turnId": ""})).await;
    assert_eq!((&error["code"], &error["message"]), (&json!(-32600), &json!("no active turn to interrupt")));
    let steer = json!({"threadId": thread, "expectedTurnId": "t", "input": input(&thread, "go")["input"]});
    let error = client.refusal("turn/steer", steer).await;
    assert_eq!(error["message"], "no active turn to steer");
    let mut only = input(&thread, "say x");
    only["mode"] = json!("steer");
    assert_eq!(client.refused("turn/start", only).await, (-32600, "no_active_turn".to_owned()));
}

#[tokio::test]
async fn cursors_and_ids_that_lead_nowhere_are_refused() {
    let stage = Stage::new().await;
    let mut client = stage.client("wanderer").await;
    for (method, params) in [
        ("thread/list", json!({"cursor": "nonsense"})),
        ("thread/loaded/list", json!({"cursor": "nonsense"})),
        ("model/list", json!({"cursor": "nonsense"})),
    ] {
        assert_eq!(client.refused(method, params).await, (-32602, "stale_cursor".to_owned()), "{method}");
    }
    for id in ["nonsense", "0198c0de-0000-7000-8000-000000000000"] {
        let params = json!({"approvalId": id, "decision": "accept"});
        let refused = client.refused("approval/respond", params).await;
        assert_eq!(refused, (-32023, "approval_not_found".to_owned()));
    }
    let gone = client.thread(json!({})).await;
    assert_eq!(client.ok("approval/list", json!({"threadId": gone})).await["data"], json!([]));
    client.ok("thread/delete", json!({"threadId": gone})).await;
    for id in ["nonsense", "0198c0de-0000-7000-8000-000000000000", &gone] {
        let refused = client.refused("approval/list", json!({"threadId": id})).await;
        assert_eq!(refused, (-32600, "thread_not_found".to_owned()), "{id}");
    }
    let refused = client.refused("model/list", json!({"modelProvider": "nobody"})).await;
    assert_eq!(refused, (-32021, "provider_not_found".to_owned()));
    let refused = client.refused("no/such/method", Value::Null).await;
    assert_eq!(refused, (-32601, "method_not_found".to_owned()));
}
