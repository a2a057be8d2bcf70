//! One connection at work: order, waiting, cancelling, overload, bursts, and its end.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{Client, Told, client, client_of, client_with, options, refusal, service, within};
use serde_json::{Value, json};
use signalbox_rpc::{
    CloseReason, ConnOptions, Frame, OutboxLimits, Overflow, Pushed, RequestEnd, WorkLimits, memory, serve,
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

#[tokio::test]
async fn ordered_calls_run_in_the_order_in_which_they_were_sent() {
    let mut client = client();
    for n in 0..120 {
        client.send(json!({"id": n, "method": "put", "params": {"n": n}})).await;
    }
    for n in 0..120 {
        assert_eq!(client.recv().await, json!({"jsonrpc": "2.0", "id": n, "result": n}));
    }
    assert_eq!(*client.app.log.lock(), (0..120).collect::<Vec<u64>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_handlers_wait_for_the_client_and_an_echo_is_still_answered() {
    let mut client = client();
    for n in 0..100 {
        client.send(json!({"id": n, "method": "ask", "params": {"id": format!("q{n}")}})).await;
    }
    let mut questions = Vec::new();
    for _ in 0..100 {
        let question = client.recv().await;
        assert_eq!(question["method"], "ask/client");
        questions.push(question["id"].clone());
    }
    for method in ["echo", "echo/async"] {
        let answer = client.call(method, json!({"text": "meanwhile"})).await;
        assert_eq!(answer["result"]["text"], "meanwhile");
    }
    for question in questions.iter().rev() {
        client.send(json!({"id": question, "result": {"to": question}})).await;
    }
    let mut answered = Vec::new();
    for _ in 0..100 {
        let answer = client.recv().await;
        let id = answer["id"].as_u64().unwrap();
        assert_eq!(answer["result"]["to"], format!("q{id}"));
        answered.push(id);
    }
    answered.sort_unstable();
    assert_eq!(answered, (0..100).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_thousand_pipelined_calls_all_get_a_result() {
    for method in ["echo", "echo/async", "put"] {
        let mut client = client();
        let wire = &client.wire;
        let send = async {
            for n in 0..20_000_u64 {
                let call = json!({"id": n, "method": method, "params": {"text": "x", "n": n}});
                wire.send(call.to_string()).await.unwrap();
            }
        };
        // Nothing is read until everything is sent.
        within(send).await;
        let mut seen = vec![false; 20_000];
        for _ in 0..20_000 {
            let answer = client.recv().await;
            assert!(answer.get("result").is_some(), "{method}: {answer}");
            seen[usize::try_from(answer["id"].as_u64().unwrap()).unwrap()] = true;
        }
        assert!(seen.into_iter().all(|seen| seen), "{method}");
    }
}

/// A connection with room for four calls, all of them held.
async fn full() -> Client {
    let work = WorkLimits { calls: 4, ..WorkLimits::default() };
    let client = client_with(ConnOptions { work, patience: Duration::from_millis(20), ..options() });
    for n in 0..4 {
        client.send(json!({"id": n, "method": "hold", "params": {"text": "held"}})).await;
    }
    client.until_held(4).await;
    client
}

#[tokio::test]
async fn a_full_connection_refuses_calls_and_still_does_everything_else() {
    let mut client = full().await;
    for n in 10..200 {
        client.send(json!({"id": n, "method": "put", "params": {"n": n}})).await;
        let answer = client.recv().await;
        assert_eq!((refusal(&answer), &answer["id"]), ((-32001, "server_overloaded"), &json!(n)));
        assert_eq!(answer["error"]["data"]["retryAfterMs"], 200);
        assert_eq!(answer["error"]["data"]["retryable"], true);
    }
    client.expect_echo().await;
    client
        .send(json!([{"id": 1, "method": "put"}, {"id": 2, "method": "echo", "params": {"text": "b"}}]))
        .await;
    let answers = client.recv().await;
    assert_eq!(refusal(&answers[0]), (-32001, "server_overloaded"));
    assert_eq!(answers[1]["result"]["text"], "b");
    client.app.gate.notify_waiters();
    for _ in 0..4 {
        assert_eq!(client.recv().await["result"]["text"], "held");
    }
    assert_eq!(client.call("put", json!({"n": 1})).await["result"], 1);
}

#[tokio::test]
async fn a_full_connection_hears_the_answer_that_makes_it_less_full() {
    let work = WorkLimits { calls: 1, ..WorkLimits::default() };
    // With this patience the test would run out of time if it were ever used.
    let patience = Duration::from_secs(3600);
    let mut client = client_with(ConnOptions { work, patience, ..options() });
    client.send(json!({"id": 1, "method": "ask", "params": {"id": "q"}})).await;
    assert_eq!(client.recv().await["id"], "q");
    client.send(json!({"id": 2, "method": "put", "params": {"n": 2}})).await;
    assert_eq!(refusal(&client.recv().await), (-32001, "server_overloaded"));
    client.send(json!({"id": "q", "result": null})).await;
    assert_eq!(client.recv().await, json!({"jsonrpc": "2.0", "id": 1, "result": null}));
    assert_eq!(client.call("put", json!({"n": 3})).await["result"], 3);
}

#[tokio::test]
async fn more_concurrent_calls_than_places_wait_for_one() {
    let work = WorkLimits { concurrent: 2, ..WorkLimits::default() };
    let mut client = client_with(ConnOptions { work, ..options() });
    for n in 0..50 {
        client.send(json!({"id": n, "method": "echo/async", "params": {"text": "x"}})).await;
    }
    for n in 0..3 {
        client.send(json!({"id": 100 + n, "method": "hold", "params": {"text": "held"}})).await;
    }
    for _ in 0..50 {
        assert_eq!(client.recv().await["result"]["text"], "x");
    }
    client.until_held(2).await;
    assert_eq!(client.call("put", json!({"n": 3})).await["result"], 3);
    assert_eq!(client.app.held.lock().len(), 2, "the third waits");
    client.app.gate.notify_waiters();
    client.until_held(3).await;
    client.app.gate.notify_waiters();
    for _ in 0..3 {
        assert_eq!(client.recv().await["result"]["text"], "held");
    }
}

#[tokio::test]
async fn a_running_call_is_cancelled_by_its_id_however_that_is_written() {
    let mut client = client();
    for (id, cancelled_as) in [(r#""a/b""#, r#""\u0061\/b""#), ("-7", "-7"), ("1", "1")] {
        client.send_raw(format!(r#"{{"id":{id},"method":"hold","params":{{"text":"x"}}}}"#)).await;
        client.until_held(1).await;
        client.send(json!({"method": "$/cancelRequest", "params": {"id": "another"}})).await;
        client.send_raw(format!(r#"{{"method":"$/cancelRequest","params":{{"id":{cancelled_as}}}}}"#)).await;
        let answer = client.recv().await;
        assert_eq!(refusal(&answer), (-32800, "request_cancelled"));
        assert_eq!(answer["id"].to_string(), id);
        assert_eq!(std::mem::take(&mut *client.app.held.lock()), ["begun", "dropped"]);
    }
}

#[tokio::test]
async fn a_waiting_call_is_cancelled_before_it_starts() {
    let mut client = client();
    client.send(json!({"id": 1, "method": "hold/ordered", "params": {"text": "first"}})).await;
    client.until_held(1).await;
    client.send(json!({"id": 2, "method": "put", "params": {"n": 2}})).await;
    client.send(json!({"id": 3, "method": "put", "params": {"n": 3}})).await;
    client.send(json!({"method": "$/cancelRequest", "params": {"id": 2}})).await;
    let answer = client.recv().await;
    assert_eq!((refusal(&answer), &answer["id"]), ((-32800, "request_cancelled"), &json!(2)));
    client.app.gate.notify_waiters();
    assert_eq!(client.recv().await["id"], 1);
    assert_eq!(client.recv().await["id"], 3);
    assert_eq!(*client.app.log.lock(), [3]);
}

#[tokio::test]
async fn what_a_call_caused_comes_after_its_answer() {
    let mut client = client();
    for text in ["fine", "fail"] {
        client.send(json!({"id": 1, "method": "caused", "params": {"text": text}})).await;
        assert_eq!(client.recv().await["id"], 1);
        assert_eq!(client.recv().await["method"], "caused");
    }
    client
        .send(json!([
            {"id": 1, "method": "caused", "params": {"text": "one"}},
            {"id": 2, "method": "caused", "params": {"text": "two"}},
            {"id": 3, "method": "put", "params": {"n": 1}},
        ]))
        .await;
    assert_eq!(client.recv().await.as_array().unwrap().len(), 3);
    for _ in 0..2 {
        assert_eq!(client.recv().await["method"], "caused");
    }
}

#[tokio::test]
async fn the_client_answers_refuses_or_is_too_late() {
    let (hooks, mut told) = mpsc::channel(16);
    let mut client = client_with(ConnOptions { hooks: Arc::new(Told(hooks)), ..options() });
    assert_eq!(within(told.recv()).await.unwrap(), "opened");

    let asked = client.peer.request("q1", "ask/client", &json!({})).unwrap();
    assert_eq!(
        client.recv().await,
        json!({"jsonrpc": "2.0", "id": "q1", "method": "ask/client", "params": {}})
    );
    client.send(json!({"id": "q1", "result": null})).await;
    assert_eq!(within(asked).await.unwrap().get(), "null");
    client.send(json!({"id": "q1", "result": 2})).await;
    assert_eq!(within(told.recv()).await.unwrap(), "stray q1 2");

    let asked = client.peer.request("q2", "ask/client", &json!({})).unwrap();
    client.send(json!({"id": "q2", "error": {"code": 5, "message": "no"}})).await;
    assert!(matches!(within(asked).await, Err(RequestEnd::Rejected(error)) if error.code == 5));

    let asked = client.peer.request("q3", "ask/client", &json!({})).unwrap();
    assert!(client.peer.withdraw("q3"));
    assert!(!client.peer.withdraw("q3"));
    assert_eq!(within(asked).await.unwrap_err(), RequestEnd::Withdrawn);
    client.send(json!({"id": "q3", "result": 3})).await;
    assert_eq!(within(told.recv()).await.unwrap(), "stray q3 3");

    let first = client.peer.request("q4", "ask/client", &json!({})).unwrap();
    let second = client.peer.request("q4", "ask/client", &json!({})).unwrap();
    assert_eq!(within(first).await.unwrap_err(), RequestEnd::Superseded);
    client.send(json!({"id": "q4", "result": 4})).await;
    assert_eq!(within(second).await.unwrap().get(), "4");

    drop(client.peer.request("q5", "ask/client", &json!({})).unwrap());
    client.send(json!({"id": "q5", "result": 5})).await;
    assert_eq!(within(told.recv()).await.unwrap(), "stray q5 5");

    let asked = client.peer.request("q6", "ask/client", &json!({})).unwrap();
    client.peer.close("revoked");
    assert_eq!(within(asked).await.unwrap_err(), RequestEnd::Closed);
    let late = client.peer.request("q7", "ask/client", &json!({})).unwrap();
    assert_eq!(within(late).await.unwrap_err(), RequestEnd::Closed);
    assert_eq!(within(&mut client.served).await.unwrap(), CloseReason::Closed("revoked"));
    assert_eq!(within(told.recv()).await.unwrap(), "closed: revoked");
    assert!(client.peer.is_closed());
}

#[tokio::test]
async fn only_so_many_requests_wait_for_one_client() {
    let client = client_with(ConnOptions { max_server_requests: 2, ..options() });
    let ask = |id: &str| client.peer.request(id, "ask/client", &json!({})).unwrap();
    let (one, _two, three) = (ask("1"), ask("2"), ask("3"));
    assert_eq!(within(three).await.unwrap_err(), RequestEnd::TooMany);
    drop(one);
    client.peer.withdraw("2");
    let mut four = Box::pin(ask("4"));
    assert!(futures_util::poll!(&mut four).is_pending());
}

#[tokio::test]
async fn a_client_that_stops_sending_still_gets_its_answers() {
    let mut client = client();
    client.send(json!({"id": 1, "method": "put", "params": {"n": 1}})).await;
    client.send(json!({"id": 2, "method": "hold", "params": {"text": "slow"}})).await;
    client.send(json!({"id": 3, "method": "ask", "params": {"id": "q"}})).await;
    client.wire.finish();
    client.until_held(1).await;
    client.app.gate.notify_one();
    let mut answers = Vec::new();
    while let Some(frame) = within(client.wire.recv()).await {
        answers.push(serde_json::from_slice::<Value>(&frame).unwrap());
    }
    let of = |id: u64| answers.iter().find(|answer| answer["id"] == id).unwrap();
    assert_eq!(of(1)["result"], 1);
    assert_eq!(of(2)["result"]["text"], "slow");
    assert_eq!(refusal_reason(of(3)), "no_answer", "nobody can answer the question any more");
    assert_eq!(within(client.served).await.unwrap(), CloseReason::Eof);
}

fn refusal_reason(answer: &Value) -> &str {
    answer["error"]["data"]["reason"].as_str().unwrap()
}

#[tokio::test]
async fn a_client_that_vanishes_takes_its_handlers_along() {
    let mut client = client();
    client.send(json!({"id": 1, "method": "hold", "params": {"text": "x"}})).await;
    client.send(json!({"id": 2, "method": "hold/ordered", "params": {"text": "x"}})).await;
    client.send(json!({"id": 3, "method": "put", "params": {"n": 1}})).await;
    client.until_held(2).await;
    drop(std::mem::replace(&mut client.wire, memory().1));
    assert_eq!(within(&mut client.served).await.unwrap(), CloseReason::Eof);
    client.until_held(4).await;
    assert_eq!(*client.app.held.lock(), ["begun", "begun", "dropped", "dropped"]);
    assert!(client.app.log.lock().is_empty());
}

#[tokio::test]
async fn a_shutdown_lets_calls_end_and_says_so_to_those_that_do_not() {
    let shutdown = CancellationToken::new();
    let drain = Duration::from_millis(50);
    let mut client = client_with(ConnOptions { shutdown: shutdown.clone(), drain, ..options() });
    client.send(json!({"id": 1, "method": "hold", "params": {"text": "never"}})).await;
    client.send(json!({"id": 2, "method": "ask", "params": {"id": "q"}})).await;
    assert_eq!(client.recv().await["id"], "q");
    client.send(json!({"id": 3, "method": "hold/ordered", "params": {"text": "never"}})).await;
    client.send(json!({"id": 4, "method": "put", "params": {"n": 1}})).await;
    client.until_held(2).await;
    client.expect_echo().await;
    shutdown.cancel();
    let first = client.recv().await;
    assert_eq!(
        (&first["id"], refusal_reason(&first)),
        (&json!(2), "no_answer"),
        "pending questions end first"
    );
    let mut refused = Vec::new();
    for _ in 0..3 {
        let answer = client.recv().await;
        assert_eq!(refusal(&answer), (-32026, "shutting_down"));
        refused.push(answer["id"].as_u64().unwrap());
    }
    refused.sort_unstable();
    assert_eq!(refused, [1, 3, 4]);
    assert_eq!(within(client.wire.recv()).await, None);
    assert_eq!(within(client.served).await.unwrap(), CloseReason::Shutdown);
    assert!(client.app.log.lock().is_empty());
}

#[tokio::test]
async fn an_idle_connection_shuts_down_at_once() {
    let shutdown = CancellationToken::new();
    let drain = Duration::from_secs(3600);
    let mut client = client_with(ConnOptions { shutdown: shutdown.clone(), drain, ..options() });
    client.expect_echo().await;
    shutdown.cancel();
    assert_eq!(within(client.wire.recv()).await, None);
    assert_eq!(within(client.served).await.unwrap(), CloseReason::Shutdown);
}

#[tokio::test]
async fn dropping_the_server_side_ends_the_connection_properly() {
    let (hooks, mut told) = mpsc::channel(16);
    let client = client_with(ConnOptions { hooks: Arc::new(Told(hooks)), ..options() });
    client.send(json!({"id": 1, "method": "hold", "params": {"text": "x"}})).await;
    client.until_held(1).await;
    client.served.abort();
    assert_eq!(within(told.recv()).await.unwrap(), "opened");
    assert_eq!(within(told.recv()).await.unwrap(), "closed: the connection was dropped");
    client.until_held(2).await;
    within(client.peer.closed().cancelled()).await;
}

#[tokio::test]
async fn a_client_gets_only_the_notifications_it_wants() {
    let mut client = client();
    assert!(client.peer.opt_out(["noisy".to_owned()]));
    assert!(!client.peer.opt_out(["quiet".to_owned()]), "only once");
    let frame = |method| Frame::notification(method, &json!({})).unwrap();
    assert_eq!(client.peer.notify(frame("noisy")), Pushed::OptedOut);
    assert_eq!(client.peer.notify(frame("quiet")), Pushed::Queued);
    assert_eq!(client.recv().await["method"], "quiet");
}

#[tokio::test]
async fn a_connection_keeps_one_state_of_the_application() {
    let client = client();
    assert!(client.peer.set_state(Arc::new(7_u32)));
    assert!(!client.peer.set_state(Arc::new(8_u32)));
    assert_eq!(client.peer.state::<u32>().as_deref(), Some(&7));
    assert_eq!(client.peer.state::<String>(), None);
}

#[tokio::test]
async fn a_client_that_never_reads_is_closed_at_the_hard_bound_and_costs_no_more() {
    let mut client = client();
    let frame = Frame::notification("n", &json!({"text": "x".repeat(100_000)})).unwrap();
    let bound = 8 * 1024 * 1024 + frame.bytes().len() + 64;
    let mut queued = 0;
    while client.peer.notify(frame.clone()) == Pushed::Queued {
        queued += 1;
        assert!(client.peer.backlog().bytes <= bound);
    }
    assert!((70..=85).contains(&queued), "{queued}");
    assert_eq!(client.peer.close_reason(), Some(&CloseReason::Overflow));
    assert_eq!(client.peer.backlog().bytes, 0);
    assert_eq!(within(&mut client.served).await.unwrap(), CloseReason::Overflow);
}

#[tokio::test]
async fn where_overflow_is_refused_the_application_is_told_once_and_can_go_on_later() {
    let (hooks, mut told) = mpsc::channel(16);
    let options = ConnOptions { hooks: Arc::new(Told(hooks)), overflow: Overflow::Refuse, ..options() };
    let mut client = client_with(options);
    assert_eq!(within(told.recv()).await.unwrap(), "opened");
    let frame = Frame::notification("n", &json!({"text": "x".repeat(100_000)})).unwrap();
    let mut queued = 0;
    while client.peer.notify(frame.clone()) == Pushed::Queued {
        queued += 1;
    }
    assert_eq!(client.peer.notify(frame.clone()), Pushed::Refused);
    let last_word = Frame::notification("resync", &json!({})).unwrap().essential();
    assert_eq!(client.peer.notify(last_word), Pushed::Queued);
    assert_eq!(within(told.recv()).await.unwrap(), "overflowed");
    for _ in 0..queued {
        assert_eq!(client.recv().await["method"], "n");
    }
    assert_eq!(client.recv().await["method"], "resync");
    within(client.peer.drained()).await;
    assert_eq!(client.peer.notify(frame), Pushed::Queued);
    assert!(told.try_recv().is_err(), "told once");
}

#[tokio::test]
async fn a_client_that_does_not_read_its_answers_is_not_read() {
    let outbox = OutboxLimits { answer_bytes: 40_000, ..OutboxLimits::default() };
    let mut client = client_with(ConnOptions { outbox, ..options() });
    let call = json!({"id": 1, "method": "large", "params": {"n": 10_000}}).to_string();
    let sent = std::cell::Cell::new(0);
    let send_for_ever = async {
        loop {
            client.wire.send(call.clone()).await.unwrap();
            sent.set(sent.get() + 1);
        }
    };
    let until_nothing_moves = async {
        while client.peer.backlog().answer_bytes < 40_000 {
            tokio::task::yield_now().await;
        }
        // All tasks share this thread: after so many turns each has done all it can.
        for _ in 0..10_000 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        () = send_for_ever => {}
        () = within(until_nothing_moves) => {}
    }
    let backlog = client.peer.backlog();
    assert!((40_000..60_000).contains(&backlog.answer_bytes), "{backlog:?}");
    for _ in 0..sent.get() {
        assert_eq!(client.recv().await["result"].as_str().unwrap().len(), 10_000);
    }
}

#[tokio::test]
async fn one_service_serves_many_connections_apart() {
    let (service, app) = service();
    let mut first = client_of(service.clone(), app.clone(), options());
    let mut second = client_of(service, app, options());
    assert_ne!(first.peer.id(), second.peer.id());
    first.send(json!({"id": 1, "method": "hold/ordered", "params": {"text": "x"}})).await;
    first.until_held(1).await;
    assert_eq!(second.call("put", json!({"n": 1})).await["result"], 1);
    second.expect_echo().await;
    first.app.gate.notify_waiters();
    assert_eq!(first.recv().await["id"], 1);
}

#[tokio::test]
async fn serving_a_client_that_is_gone_ends_at_once() {
    let (service, _) = service();
    let (server, wire) = memory();
    drop(wire);
    assert_eq!(within(serve(server, service, options())).await, CloseReason::Eof);
}
