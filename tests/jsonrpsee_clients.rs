//! jsonrpsee's own WebSocket and HTTP clients: a turn with an approval, which they answer by `approval/respond`.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::expect_used)]

use std::future::Future;
use std::time::Duration;

use jsonrpsee::core::client::{ClientT, Error, Subscription, SubscriptionClientT};
use jsonrpsee::core::params::ObjectParams;
use jsonrpsee_http_client::HttpClientBuilder;
use jsonrpsee_ws_client::WsClientBuilder;
use serde_json::{Value, json};
use signalbox_testkit::{App, PATIENCE};

const SCRIPT: &str = "run git log --oneline\nsay Done.";

async fn within<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what).await.expect("it should have happened by now")
}

fn params(value: Value) -> ObjectParams {
    let mut params = ObjectParams::new();
    for (name, value) in value.as_object().unwrap() {
        params.insert(name, value).unwrap();
    }
    params
}

async fn call(client: &impl ClientT, method: &str, given: Value) -> Value {
    within(client.request(method, params(given))).await.unwrap()
}

async fn next(events: &mut Subscription<Value>) -> Value {
    within(events.next()).await.expect("the subscription has ended").unwrap()
}

/// Starts a thread and a turn in it, and gives the thread's id.
async fn begins(client: &impl ClientT, app: &App) -> String {
    let started = call(client, "thread/start", json!({ "cwd": app.work() })).await;
    let thread = started["thread"]["id"].as_str().unwrap().to_owned();
    let input = json!([{ "type": "text", "text": SCRIPT }]);
    call(client, "turn/start", json!({ "threadId": thread, "input": input })).await;
    thread
}

/// The command ran, and the turn has ended well.
async fn finished(client: &impl ClientT, thread: &str) {
    let read = call(client, "thread/read", json!({ "threadId": thread, "includeTurns": true })).await;
    let turn = &read["thread"]["turns"][0];
    assert_eq!(turn["status"], "completed", "{turn}");
    let items = turn["items"].as_array().unwrap();
    let command = items.iter().find(|item| item["type"] == "commandExecution").unwrap();
    assert_eq!(command["status"], "completed");
    assert!(command["aggregatedOutput"].as_str().unwrap().contains("The first commit"), "{command}");
}

#[tokio::test]
async fn its_websocket_client_makes_a_turn() {
    let mut app = App::new(env!("CARGO_BIN_EXE_signalbox")).over_tcp();
    let address = app.address();
    let client = within(WsClientBuilder::default().build(format!("ws://{address}/rpc"))).await.unwrap();
    let mut asked: Subscription<Value> = client.subscribe_to_method("approval/requested").await.unwrap();
    let mut ended: Subscription<Value> = client.subscribe_to_method("turn/completed").await.unwrap();
    let info = json!({ "name": "jsonrpsee", "version": "0.26.1" });
    let hello = call(&client, "initialize", json!({ "clientInfo": info })).await;
    assert_eq!(hello["role"], "operator");

    let thread = begins(&client, &app).await;
    let approval = next(&mut asked).await["approval"].clone();
    assert_eq!(approval["title"], "git log --oneline");
    call(&client, "approval/respond", json!({ "approvalId": approval["approvalId"], "decision": "accept" }))
        .await;
    assert_eq!(next(&mut ended).await["turn"]["status"], "completed");
    finished(&client, &thread).await;

    let refused: Result<Value, Error> = within(client.request("nowhere", ObjectParams::new())).await;
    assert!(matches!(refused, Err(Error::Call(error)) if error.code() == -32601));
}

#[tokio::test]
async fn its_http_client_makes_a_turn() {
    let mut app = App::new(env!("CARGO_BIN_EXE_signalbox")).over_tcp();
    let address = app.address();
    let client = HttpClientBuilder::default().build(format!("http://{address}/rpc")).unwrap();
    let thread = begins(&client, &app).await;
    let approval = until(async || {
        let listed = call(&client, "approval/list", json!({ "threadId": thread })).await;
        listed["data"].get(0).cloned()
    })
    .await;
    assert_eq!(approval["title"], "git log --oneline");
    call(&client, "approval/respond", json!({ "approvalId": approval["approvalId"], "decision": "accept" }))
        .await;
    until(async || {
        let read = call(&client, "thread/read", json!({ "threadId": thread, "includeTurns": true })).await;
        (read["thread"]["turns"][0]["status"] != "inProgress").then_some(())
    })
    .await;
    finished(&client, &thread).await;

    let refused: Result<Value, Error> = within(client.request("nowhere", ObjectParams::new())).await;
    assert!(matches!(refused, Err(Error::Call(error)) if error.code() == -32601));
}

/// Asks again until there is something: nobody tells a client that only posts.
async fn until<T>(asks: impl AsyncFn() -> Option<T>) -> T {
    within(async {
        loop {
            if let Some(found) = asks().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
}
