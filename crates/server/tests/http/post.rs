//! JSON-RPC by POST.

use std::time::Duration;

use serde_json::{Value, json};
use signalbox_server::http::HttpLimits;

use crate::stage::{JSON, Set, Stage, within};

#[tokio::test]
async fn one_message_is_answered_with_one() {
    let stage = Stage::open().await;
    for path in ["/rpc", "/"] {
        let answer =
            stage.asks("POST", path, JSON, r#"{"jsonrpc":"2.0","id":"a","method":"server/health"}"#).await;
        assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
        let body = answer.json();
        assert_eq!((&body["id"], &body["result"]["status"]), (&json!("a"), &json!("ok")));
    }
    let answer = stage.asks("POST", "/rpc", JSON, r#"{"id":1,"method":"nope"}"#).await;
    assert_eq!((answer.status, answer.reason().as_str()), (200, "method_not_found"));
    let answer = stage.asks("POST", "/rpc", JSON, "{").await;
    assert_eq!((answer.status, answer.reason().as_str()), (200, "parse_error"));
    let answer = stage
        .asks("POST", "/rpc", JSON, r#"{"id":1,"method":"thread/unsubscribe","params":{"threadId":"x"}}"#)
        .await;
    assert_eq!(answer.reason(), "needs_bidirectional_transport");
}

#[tokio::test]
async fn a_batch_is_answered_as_one_and_notifications_with_202() {
    let stage = Stage::open().await;
    let batch = r#"[{"id":1,"method":"server/health"},{"method":"initialized"},{"id":2,"method":"nope"},7]"#;
    let answer = stage.asks("POST", "/rpc", JSON, batch).await;
    let Value::Array(answers) = answer.json() else { panic!("{answer:?}") };
    let ids: Vec<_> = answers.iter().map(|answer| answer["id"].clone()).collect();
    assert_eq!(ids, [json!(1), json!(2), Value::Null]);
    for quiet in [r#"{"method":"initialized"}"#, r#"[{"method":"initialized"},{"method":"unknown"}]"#] {
        let answer = stage.asks("POST", "/rpc", JSON, quiet).await;
        assert_eq!((answer.status, answer.body.len()), (202, 0), "{quiet}");
    }
}

#[tokio::test]
async fn what_is_no_post_of_json_is_refused_by_what_it_lacks() {
    let stage = Stage::open().await;
    let health = r#"{"id":1,"method":"server/health"}"#;
    for kind in [
        "",
        "content-type: text/plain\r\n",
        "content-type: application/json2\r\n",
        "content-type: multipart/form-data\r\n",
    ] {
        let answer = stage.asks("POST", "/rpc", &format!("host: localhost\r\n{kind}"), health).await;
        assert_eq!((answer.status, answer.reason().as_str()), (415, "unsupported_media_type"), "{kind}");
    }
    let parameters = "host: localhost\r\ncontent-type: Application/JSON; charset=utf-8\r\n";
    assert_eq!(stage.asks("POST", "/rpc", parameters, health).await.status, 200);
    for (method, path, allow) in [
        ("GET", "/rpc", "POST, OPTIONS"),
        ("PUT", "/", "POST, OPTIONS"),
        ("DELETE", "/threads/x/events", "GET"),
        ("POST", "/metrics", "GET"),
        ("POST", "/healthz", "GET, HEAD"),
    ] {
        let answer = stage.asks(method, path, JSON, "").await;
        assert_eq!((answer.status, answer.reason().as_str()), (405, "method_not_allowed"), "{method} {path}");
        assert_eq!(answer.header("allow"), Some(allow));
    }
    for path in ["/nope", "/threads//events", "/threads/a/b/events", "/rpc/"] {
        let answer = stage.asks("GET", path, JSON, "").await;
        assert_eq!((answer.status, answer.reason().as_str()), (404, "not_found"), "{path}");
    }
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused_whether_its_length_is_told_or_not() {
    let limits = HttpLimits { body_bytes: 1024, ..HttpLimits::default() };
    let stage = Stage::with(Set { limits, ..Set::default() }).await;
    let large = format!(r#"{{"id":1,"method":"server/health","params":{{"x":"{}"}}}}"#, "x".repeat(200_000));
    let mut client = stage.connect().await;
    let answer = client.asks("POST", "/rpc", JSON, &large).await;
    assert_eq!((answer.status, answer.reason().as_str()), (413, "frame_too_large"));
    assert_eq!(answer.json()["error"]["data"]["limitBytes"], 1024);

    let mut client = stage.connect().await;
    client.writes(format!("POST /rpc HTTP/1.1\r\n{JSON}transfer-encoding: chunked\r\n\r\n")).await;
    for _ in 0..200 {
        client.writes(format!("400\r\n{}\r\n", "x".repeat(1024))).await;
    }
    client.writes("0\r\n\r\n").await;
    let answer = client.answer().await.unwrap();
    assert_eq!((answer.status, answer.reason().as_str()), (413, "frame_too_large"));

    let mut client = stage.connect().await;
    client.writes(format!("POST /rpc HTTP/1.1\r\n{JSON}transfer-encoding: chunked\r\n\r\n")).await;
    for piece in [r#"{"id":1,"#, r#""method":"#, r#""server/health"}"#] {
        client.writes(format!("{:x}\r\n{piece}\r\n", piece.len())).await;
    }
    client.writes("0\r\n\r\n").await;
    assert_eq!(client.answer().await.unwrap().status, 200, "in pieces it is as good as whole");
}

#[tokio::test]
async fn all_bodies_together_have_a_bound() {
    let limits = HttpLimits { bodies_bytes: 64 << 10, ..HttpLimits::default() };
    let stage = Stage::with(Set { limits, ..Set::default() }).await;
    let mut slow = stage.connect().await;
    slow.writes(format!("POST /rpc HTTP/1.1\r\n{JSON}content-length: 60000\r\n\r\n{}", " ".repeat(59_000)))
        .await;
    let blank = " ".repeat(50_000);
    // The other one is refused as soon as what the first has sent is there.
    let refused = within(async {
        loop {
            let answer = stage.asks("POST", "/rpc", JSON, &blank).await;
            if answer.status != 202 {
                return answer;
            }
        }
    })
    .await;
    assert_eq!((refused.status, refused.reason().as_str()), (503, "server_overloaded"));
    assert_eq!(refused.header("retry-after"), Some("1"));
    slow.writes(" ".repeat(1000)).await;
    assert_eq!(slow.answer().await.unwrap().status, 202, "nothing but blanks");
    within(async { while stage.asks("POST", "/rpc", JSON, &blank).await.status != 202 {} }).await;
}

#[tokio::test]
async fn a_body_that_does_not_come_is_not_waited_for() {
    let limits = HttpLimits { body_pause: Duration::from_millis(50), ..HttpLimits::default() };
    let stage = Stage::with(Set { limits, ..Set::default() }).await;
    let mut client = stage.connect().await;
    client.writes(format!("POST /rpc HTTP/1.1\r\n{JSON}content-length: 100\r\n\r\n{{")).await;
    let answer = client.answer().await.unwrap();
    assert_eq!((answer.status, answer.reason().as_str()), (408, "body_too_slow"));
}

#[tokio::test]
async fn a_turn_with_an_approval_needs_nothing_but_posts() {
    let stage = Stage::open().await;
    let thread = stage.thread().await;
    let turn = stage.prompts(&thread, "run echo hello").await;
    let approval = within(async {
        loop {
            let list = stage.calls("approval/list", json!({"threadId": thread})).await;
            if let Some(approval) = list["data"].get(0) {
                return approval["approvalId"].as_str().unwrap().to_owned();
            }
        }
    })
    .await;
    let answer = json!({"approvalId": approval, "decision": "accept"});
    let outcome = stage.calls("approval/respond", answer).await;
    assert_eq!(outcome["outcome"]["decision"], "accept");
    within(async {
        loop {
            let read = stage.calls("thread/read", json!({"threadId": thread, "includeTurns": true})).await;
            let newest = read["thread"]["turns"].as_array().unwrap().last().unwrap().clone();
            assert_eq!(newest["id"], turn.as_str());
            if newest["status"] == "completed" {
                return;
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_client_that_leaves_while_it_is_answered_leaves_nothing_behind() {
    let stage = Stage::open().await;
    for _ in 0..20 {
        let mut client = stage.connect().await;
        let body = json!({"id": 1, "method": "fuzzyFileSearch", "params": {"query": "a", "roots": ["/usr"]}});
        client.sends("POST", "/rpc", JSON, &body.to_string()).await;
    }
    // The connection that asks is one.
    stage.falls_to(r#"signalbox_connections{transport="http"}"#, 1).await;
}
