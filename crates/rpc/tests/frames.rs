//! What each kind of frame is answered, row by row, and that no bytes whatsoever upset the parser.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{client, client_of, options, refusal, service, within};
use proptest::prelude::*;
use serde_json::{Value, json};
use signalbox_rpc::frame::{Inbound, Message, parse};
use signalbox_rpc::{ConnOptions, Role};

#[tokio::test]
async fn malformed_frames_are_answered_and_the_connection_goes_on() {
    let rows: &[(&[u8], &str, i64, &str)] = &[
        (b"{", "null", -32700, "parse_error"),
        (b"nonsense", "null", -32700, "parse_error"),
        (b"{\"id\":1,\"method\":\"echo\"} x", "null", -32700, "parse_error"),
        (b"{\"id\":1,\"method\":\"\xff\xfe\"}", "null", -32700, "parse_error"),
        (b"[1,", "null", -32700, "parse_error"),
        (b"[]", "null", -32600, "invalid_request"),
        (b" [ ] ", "null", -32600, "invalid_request"),
        (b"7", "null", -32600, "invalid_request"),
        (b"null", "null", -32600, "invalid_request"),
        (b"\"text\"", "null", -32600, "invalid_request"),
        (b"{}", "null", -32600, "invalid_request"),
        (b"{\"id\":3}", "3", -32600, "invalid_request"),
        (b"{\"id\":3,\"method\":7}", "3", -32600, "invalid_request"),
        (b"{\"id\":3,\"method\":\"\\ud800\"}", "3", -32600, "invalid_request"),
        (b"{\"jsonrpc\":\"1.0\",\"id\":3,\"method\":\"echo\"}", "3", -32600, "invalid_request"),
        (b"{\"jsonrpc\":null,\"id\":3,\"method\":\"echo\"}", "3", -32600, "invalid_request"),
        (b"{\"jsonrpc\":2.0,\"id\":3,\"method\":\"echo\"}", "3", -32600, "invalid_request"),
        (b"{\"id\":null,\"method\":\"echo\"}", "null", -32600, "invalid_request"),
        (b"{\"id\":1.5,\"method\":\"echo\"}", "null", -32600, "invalid_request"),
        (b"{\"id\":1e2,\"method\":\"echo\"}", "null", -32600, "invalid_request"),
        (b"{\"id\":9223372036854775808,\"method\":\"echo\"}", "null", -32600, "invalid_request"),
        (b"{\"id\":true,\"method\":\"echo\"}", "null", -32600, "invalid_request"),
        (b"{\"id\":[1],\"method\":\"echo\"}", "null", -32600, "invalid_request"),
        (b"{\"id\":1,\"id\":2,\"method\":\"echo\"}", "null", -32600, "invalid_request"),
        (b"{\"id\":1,\"method\":\"echo\",\"method\":\"put\"}", "1", -32600, "invalid_request"),
        (b"{\"id\":1,\"method\":\"echo\",\"params\":[1]}", "1", -32602, "invalid_params"),
        (b"{\"id\":1,\"method\":\"echo\",\"params\":\"x\"}", "1", -32602, "invalid_params"),
        (b"{\"id\":1,\"method\":\"echo\"}", "1", -32602, "invalid_params"),
        (b"{\"id\":1,\"method\":\"echo\",\"params\":{\"text\":4}}", "1", -32602, "invalid_params"),
        (b"{\"id\":1,\"method\":\"no/such\"}", "1", -32601, "method_not_found"),
        (b"{\"id\":1,\"method\":\"note\"}", "1", -32601, "method_not_found"),
        (b"{\"id\":1,\"method\":\"rpc.\\u0000\"}", "1", -32601, "method_not_found"),
        (b"{\"id\":1,\"method\":\"unserializable\"}", "1", -32603, "internal"),
        (b"{\"id\":1,\"method\":\"large\",\"params\":{\"n\":20000000}}", "1", -32602, "result_too_large"),
    ];
    let mut client = client();
    for (frame, id, code, reason) in rows {
        client.send_raw(frame.to_vec()).await;
        let answer = client.recv().await;
        let frame = String::from_utf8_lossy(frame);
        assert_eq!(refusal(&answer), (*code, *reason), "{frame} was answered {answer}");
        assert_eq!(answer["id"].to_string(), *id, "{frame} was answered {answer}");
        assert_eq!(answer["jsonrpc"], "2.0");
    }
    client.expect_echo().await;
}

#[tokio::test]
async fn unusual_but_valid_frames_get_their_result() {
    let rows: &[(&str, &str)] = &[
        (r#"{"id":1,"method":"echo","params":{"text":"a"}}"#, "1"),
        (r#"{"jsonrpc":"2.0","id":-1,"method":"echo","params":{"text":"a"}}"#, "-1"),
        (r#"{"jsonrpc":"2.0","id":0,"method":"echo","params":{"text":"a"}}"#, "0"),
        (r#"{"id":9223372036854775807,"method":"echo","params":{"text":"a"}}"#, "9223372036854775807"),
        (r#"{"id":-9223372036854775808,"method":"echo","params":{"text":"a"}}"#, "-9223372036854775808"),
        (r#"{"id":"","method":"echo","params":{"text":"a"}}"#, r#""""#),
        (r#"{"id":"a\n\u0041\/","method":"echo","params":{"text":"a"}}"#, r#""a\n\u0041\/""#),
        ("\u{feff}{\"id\":1,\"method\":\"echo\",\"params\":{\"text\":\"a\"}}\r", "1"),
        (
            "  {\t\"params\" : { \"text\":\"a\" , \"more\":[[]] } , \"method\":\"ech\\u006f\", \"id\" : 1 }  ",
            "1",
        ),
        (r#"{"id":1,"method":"echo","params":{"text":"a"},"trace":7,"other":{"x":[1]},"other":2}"#, "1"),
        (r#"{"id":1,"m\u0065thod":"echo","params":{"text":"a"}}"#, "1"),
    ];
    let mut client = client();
    for (frame, id) in rows {
        client.send_raw((*frame).to_owned()).await;
        let expected = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"text":"a"}}}}"#);
        assert_eq!(client.recv_raw().await, expected, "{frame}");
    }
}

#[tokio::test]
async fn slashes_may_be_escaped_and_trace_is_kept() {
    let mut client = client();
    client.send_raw(r#"{"id":1,"method":"echo\/async","params":{"text":"a"}}"#).await;
    assert_eq!(client.recv().await["result"]["text"], "a");
    client
        .send(
            json!({"id": "x", "method": "id", "trace": {"traceparent": "00-ab-cd-01", "tracestate": "v=1"}}),
        )
        .await;
    assert_eq!(client.recv().await["result"], json!({"id": "\"x\"", "traceparent": "00-ab-cd-01"}));
}

#[tokio::test]
async fn blank_frames_notifications_and_answers_are_not_answered() {
    let mut client = client();
    for silent in [
        "",
        "   ",
        "\r",
        r#"{"method":"no/such"}"#,
        r#"{"method":"echo","params":{"text":"as a notification"}}"#,
        r#"{"method":"note","params":{"n":7}}"#,
        r#"{"method":"note","params":{"n":"wrong"}}"#,
        r#"{"method":"note/boom","params":{"n":1}}"#,
        r#"{"method":"$/cancelRequest","params":{"id":"nobody"}}"#,
        r#"{"method":"$/cancelRequest"}"#,
        r#"{"id":"unknown","result":null}"#,
        r#"{"id":7,"result":1}"#,
        r#"{"id":null,"error":{"code":-32700,"message":"what?"}}"#,
        r#"{"error":7}"#,
        r#"[{"method":"note","params":{"n":8}},{"id":"x","result":1}]"#,
    ] {
        client.send_raw(silent).await;
    }
    // An ordered call comes after the notifications, so they have been handled.
    assert_eq!(client.call("put", json!({"n": 9})).await["result"], 9);
    assert_eq!(*client.app.log.lock(), [7, 8, 9]);
}

#[tokio::test]
async fn a_batch_is_answered_as_one_array_in_its_own_order() {
    let mut client = client();
    client
        .send(json!([
            {"id": 1, "method": "put", "params": {"n": 3}},
            {"id": -2, "method": "echo", "params": {"text": "inline"}},
            {"method": "note", "params": {"n": 4}},
            7,
            {"id": 1.5, "method": "echo"},
            {"id": "no", "method": "no/such"},
            {"id": "c", "method": "echo/async", "params": {"text": "concurrent"}},
        ]))
        .await;
    let answers = client.recv().await;
    let answers = answers.as_array().unwrap();
    let seen: Vec<_> = answers
        .iter()
        .map(|a| (a["id"].clone(), a.get("result").cloned().unwrap_or_else(|| json!(refusal(a).1))))
        .collect();
    assert_eq!(
        json!(seen),
        json!([
            [1, 3],
            [-2, {"text": "inline"}],
            [null, "invalid_request"],
            [null, "invalid_request"],
            ["no", "method_not_found"],
            ["c", {"text": "concurrent"}],
        ])
    );
    assert_eq!(client.call("put", json!({"n": 5})).await["result"], 5);
    assert_eq!(*client.app.log.lock(), [3, 4, 5]);
}

#[tokio::test]
async fn a_batch_may_have_64_entries_and_no_more() {
    let mut client = client();
    let batch = |n: u64| json!((0..n).map(|n| json!({"id": n, "method": "id"})).collect::<Vec<_>>());
    client.send(batch(64)).await;
    assert_eq!(client.recv().await.as_array().unwrap().len(), 64);
    client.send(batch(65)).await;
    let answer = client.recv().await;
    assert_eq!((refusal(&answer), &answer["id"]), ((-32600, "invalid_request"), &Value::Null));
    client.send_raw(format!("[{}0]", "0,".repeat(1_000_000))).await;
    assert_eq!(refusal(&client.recv().await), (-32600, "invalid_request"));
    client.expect_echo().await;
}

#[tokio::test]
async fn a_batch_is_bounded_as_a_whole() {
    let (service, app) = service();
    let mut client = client_of(service.with_max_result(1_000), app, options());
    let large = |id: u64| json!({"id": id, "method": "large", "params": {"n": 600}});
    client.send(json!([large(1), large(2)])).await;
    let answers = client.recv().await;
    assert_eq!(answers[0]["result"].as_str().unwrap().len(), 600);
    assert_eq!(refusal(&answers[1]), (-32602, "result_too_large"));
    assert_eq!(answers[1]["error"]["data"]["limitBytes"], 1_000);
}

#[tokio::test]
async fn nothing_but_the_handshake_passes_before_the_handshake() {
    let mut client = common::client_with(ConnOptions::default());
    for method in ["echo", "put", "no/such", "owners"] {
        let answer = client.call(method, json!({"text": "x", "n": 1})).await;
        assert_eq!(refusal(&answer), (-32600, "not_initialized"), "{method}");
        assert_eq!(answer["error"]["message"], "Not initialized");
    }
    client.send(json!({"method": "note", "params": {"n": 1}})).await;
    assert_eq!(client.call("initialize", json!({})).await["result"]["role"], "owner");
    assert!(client.peer.is_initialized());
    client.expect_echo().await;
    let again = client.call("initialize", json!({})).await;
    assert_eq!(refusal(&again), (-32600, "already_initialized"));
    assert_eq!(again["error"]["message"], "Already initialized");
    client.call("put", json!({"n": 2})).await;
    assert_eq!(*client.app.log.lock(), [2], "the early notification was ignored");
}

#[tokio::test]
async fn calls_sent_right_behind_the_handshake_find_it_done() {
    let mut client = common::client_with(ConnOptions::default());
    client.send(json!({"id": 1, "method": "initialize"})).await;
    client.send(json!({"id": 2, "method": "put", "params": {"n": 1}})).await;
    assert!(client.recv().await["result"].is_object());
    assert_eq!(client.recv().await["result"], 1);
}

#[tokio::test]
async fn a_role_that_does_not_suffice_is_told_which_does() {
    let mut client = common::client_with(ConnOptions { role: Role::Operator, ..options() });
    let answer = client.call("owners", json!({"text": "x"})).await;
    assert_eq!(refusal(&answer), (-32020, "unauthorized"));
    assert_eq!(answer["error"]["data"]["needs"], "owner");
    client.expect_echo().await;
}

#[tokio::test]
async fn a_panic_is_that_requests_error_with_an_incident_and_no_secrets() {
    let mut client = client();
    for method in ["boom", "boom/sync"] {
        let answer = client.call(method, json!({"text": "hunter2"})).await;
        assert_eq!(refusal(&answer), (-32603, "internal"), "{method}");
        let incident = answer["error"]["data"]["incident"].as_str().unwrap();
        assert!(answer["error"]["message"].as_str().unwrap().contains(incident));
        assert!(!answer.to_string().contains("hunter2"));
    }
    client.expect_echo().await;
}

#[tokio::test]
async fn a_post_is_answered_without_a_connection() {
    let (service, app) = service();
    let by = |role| signalbox_rpc::PostOptions { role, label: "post".into(), state: None };
    let post = async |frame: &str| {
        let answer = within(service.post(frame.as_bytes(), by(Role::Owner))).await;
        answer.map(|answer| serde_json::from_slice::<Value>(&answer).unwrap())
    };
    let answer = post(r#"{"id":-4,"method":"put","params":{"n":1}}"#).await.unwrap();
    assert_eq!(answer, json!({"jsonrpc": "2.0", "id": -4, "result": 1}));
    assert_eq!(post(r#"{"method":"note","params":{"n":2}}"#).await, None);
    assert_eq!(post("").await, None);
    assert_eq!(post(r#"[{"method":"note","params":{"n":3}}]"#).await, None);
    assert_eq!(*app.log.lock(), [1, 2, 3]);
    let answer = post(r#"{"id":1,"method":"ask","params":{"id":"x"}}"#).await.unwrap();
    assert_eq!(refusal(&answer), (-32025, "needs_bidirectional_transport"));
    let answer = post("{").await.unwrap();
    assert_eq!((refusal(&answer), &answer["id"]), ((-32700, "parse_error"), &Value::Null));
    let answers = post(
        r#"[{"id":-1,"method":"echo","params":{"text":"a"}},{"method":"note","params":{"n":4}},
           {"id":null,"method":"echo"},{"id":"\u0062","method":"boom","params":{"text":"x"}},
           {"id":5,"method":"no/such"}]"#,
    )
    .await
    .unwrap();
    assert_eq!(answers[0], json!({"jsonrpc": "2.0", "id": -1, "result": {"text": "a"}}));
    assert_eq!((refusal(&answers[1]), &answers[1]["id"]), ((-32600, "invalid_request"), &Value::Null));
    assert_eq!((refusal(&answers[2]), &answers[2]["id"]), ((-32603, "internal"), &json!("b")));
    assert_eq!((refusal(&answers[3]), &answers[3]["id"]), ((-32601, "method_not_found"), &json!(5)));
    let observer = service.post(br#"{"id":1,"method":"owners"}"#, by(Role::Observer)).await.unwrap();
    assert_eq!(refusal(&serde_json::from_slice(&observer).unwrap()), (-32020, "unauthorized"));
}

#[test]
fn nesting_of_any_depth_is_skipped_without_recursion() {
    let deep = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
    let frame = format!(r#"{{"id":1,"method":"m","x":{0},"params":{{"a":{0}}}}}"#, deep(1_000_000));
    assert!(matches!(parse(frame.as_bytes()), Inbound::One(Message::Call(_))));
    let batch = format!(r#"[{{"id":1,"method":"m","params":{}}}]"#, deep(1_000_000));
    assert!(matches!(parse(batch.as_bytes()), Inbound::Batch(entries) if entries.len() == 1));
    assert!(matches!(parse("[".repeat(1_000_000).as_bytes()), Inbound::One(Message::Invalid(_))));
}

#[test]
fn a_null_result_is_an_answer_and_a_null_error_none() {
    let outcome = |frame: &str| match parse(frame.as_bytes()) {
        Inbound::One(Message::Response(response)) => {
            (response.id.map(String::from), response.outcome.map(|raw| raw.get().to_owned()))
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(outcome(r#"{"id":"a","result":null}"#), (Some("a".into()), Ok("null".into())));
    assert_eq!(outcome(r#"{"id":"a","result":{},"error":null}"#), (Some("a".into()), Ok("{}".into())));
    let (id, error) = outcome(r#"{"id":"a","error":{"code":3,"message":"no","data":[1],"more":1}}"#);
    assert_eq!((id.as_deref(), error.unwrap_err().data), (Some("a"), Some(json!([1]))));
    assert_eq!(outcome(r#"{"id":"a","error":"odd"}"#).1.unwrap_err().code, 0);
}

fn any_id() -> impl Strategy<Value = Value> {
    prop_oneof![any::<i64>().prop_map(Value::from), any::<String>().prop_map(Value::from)]
}

/// JSON-like text, to get deeper into the parser than random bytes do.
fn jsonish() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        "\"",
        "\\",
        "\\u12",
        "\"id\"",
        "\"method\"",
        "\"result\"",
        "\"error\"",
        "\"jsonrpc\"",
        "\"2.0\"",
        "\"params\"",
        "\"trace\"",
        "null",
        "true",
        "1",
        "-",
        "1e9",
        " ",
        "\n",
        "\u{feff}",
        "é",
        "\"a\"",
    ]);
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat().into_bytes())
}

proptest! {
    #[test]
    fn no_bytes_upset_the_parser(frame in prop_oneof![prop::collection::vec(any::<u8>(), 0..200), jsonish()]) {
        let _ = parse(&frame);
    }

    #[test]
    fn what_is_json_is_never_a_parse_error(frame in jsonish()) {
        // One byte order mark before a frame is tolerated.
        let text = frame.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&frame);
        let is_json = serde_json::from_slice::<Value>(text).is_ok();
        if let Inbound::One(Message::Invalid(invalid)) = parse(&frame) {
            prop_assert_eq!(is_json, invalid.error.reason != "parse_error");
        }
    }

    #[test]
    fn ids_come_back_as_they_were(id in any_id(), pretty in any::<bool>()) {
        let message = json!({"id": id, "method": "id"});
        let frame = if pretty { serde_json::to_string_pretty(&message) } else { serde_json::to_string(&message) };
        let frame = frame.unwrap();
        let (service, _) = service();
        let options =
            signalbox_rpc::PostOptions { role: Role::Owner, label: "post".into(), state: None };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let answer = runtime.block_on(service.post(frame.as_bytes(), options)).unwrap();
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        prop_assert_eq!(&answer["id"], &id);
        prop_assert_eq!(answer["result"]["id"].as_str().unwrap(), id.to_string());
    }
}
