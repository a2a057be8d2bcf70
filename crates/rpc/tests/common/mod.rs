//! What the tests share: a small application, a client that speaks JSON, and bounded waiting.
#![allow(
    unreachable_pub,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use signalbox_rpc::{
    CloseReason, ConnOptions, Connection, Ctx, Frame, Hooks, Lane, MemoryClient, MessageSpec, MethodSpec,
    NoParams, Peer, Registry, Role, RpcError, Service, StrayResponse, memory,
};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;

/// No test waits longer than this for anything.
pub const LIMIT: Duration = Duration::from_secs(60);

pub async fn within<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, what).await.expect("it should have happened by now")
}

/// The application of the tests.
#[derive(Clone, Default)]
pub struct App(Arc<AppState>);

#[derive(Default)]
pub struct AppState {
    /// Opens the calls of `hold`.
    pub gate: Notify,
    /// What `put` was called with, in order.
    pub log: Mutex<Vec<u64>>,
    /// Calls of `hold` that have begun, and that were dropped before their end.
    pub held: Mutex<Vec<String>>,
}

impl std::ops::Deref for App {
    type Target = AppState;
    fn deref(&self) -> &AppState {
        &self.0
    }
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Text {
    pub text: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Number {
    pub n: u64,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Ask {
    pub id: String,
}

/// Passed-through JSON.
#[derive(Serialize)]
pub struct Raw(Box<RawValue>);

impl JsonSchema for Raw {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Raw".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        true.into()
    }
}

struct Dropped<'a>(&'a App, &'static str);

impl Drop for Dropped<'_> {
    fn drop(&mut self) {
        self.0.held.lock().push(self.1.to_owned());
    }
}

async fn hold(ctx: Ctx<App>, params: Text) -> Result<Text, RpcError> {
    let end = Dropped(ctx.app(), "dropped");
    ctx.app().held.lock().push("begun".to_owned());
    ctx.app().gate.notified().await;
    std::mem::forget(end);
    Ok(params)
}

async fn ask(ctx: Ctx<App>, params: Ask) -> Result<Value, RpcError> {
    let asked =
        ctx.peer()?.request(&params.id, "ask/client", &json!({"q": 1})).map_err(RpcError::internal)?;
    match asked.await {
        Ok(answer) => serde_json::from_str(answer.get()).map_err(RpcError::internal),
        Err(end) => Err(RpcError::new(-1, "no_answer", end.to_string())),
    }
}

/// Sends a notification, held back until the answer has been sent.
struct Later(Peer, &'static str);

impl Drop for Later {
    fn drop(&mut self) {
        let _ = self.0.notify(Frame::notification(self.1, &json!({})).unwrap());
    }
}

async fn caused(ctx: Ctx<App>, params: Text) -> Result<Text, RpcError> {
    ctx.keep_until_sent(Box::new(Later(ctx.peer()?.clone(), "caused")));
    tokio::task::yield_now().await;
    if params.text == "fail" { Err(RpcError::invalid_request("asked to fail")) } else { Ok(params) }
}

pub fn registry() -> Registry<App> {
    let mut r = Registry::new();
    let open = |name, lane| MethodSpec::new(name, lane, "A method of the tests.");
    r.method(
        open("initialize", Lane::Ordered).before_initialize(),
        |ctx: Ctx<App>, _: NoParams| async move {
            ctx.mark_initialized()?;
            Ok::<_, RpcError>(json!({"role": ctx.role()}))
        },
    );
    r.method_sync(open("echo", Lane::Inline), |_: Ctx<App>, p: Text| Ok::<_, RpcError>(p));
    r.method_sync(open("id", Lane::Inline), |ctx: Ctx<App>, _: NoParams| {
        Ok::<_, RpcError>(json!({
            "id": ctx.request_id(),
            "traceparent": ctx.trace().map(|trace| trace.traceparent.clone()),
        }))
    });
    r.method(
        open("echo/async", Lane::Concurrent),
        |_: Ctx<App>, p: Text| async move { Ok::<_, RpcError>(p) },
    );
    r.method(open("put", Lane::Ordered), |ctx: Ctx<App>, p: Number| async move {
        // Some take longer than others; their order must not show it.
        for _ in 0..(p.n * 7) % 5 {
            tokio::task::yield_now().await;
        }
        ctx.app().log.lock().push(p.n);
        Ok::<_, RpcError>(p.n)
    });
    r.method(open("put/concurrent", Lane::Concurrent), |ctx: Ctx<App>, p: Number| async move {
        ctx.app().log.lock().push(p.n);
        tokio::task::yield_now().await;
        Ok::<_, RpcError>(p.n)
    });
    r.method(open("hold", Lane::Concurrent), hold);
    r.method(open("hold/ordered", Lane::Ordered), hold);
    r.method(open("ask", Lane::Concurrent), ask);
    r.method(open("caused", Lane::Ordered), caused);
    r.method(open("boom", Lane::Concurrent), |_: Ctx<App>, p: Text| async move {
        tokio::task::yield_now().await;
        if !p.text.is_empty() {
            panic!("the secret is {}", p.text);
        }
        Ok::<_, RpcError>(p)
    });
    r.method_sync(open("boom/sync", Lane::Inline), |_: Ctx<App>, p: Text| -> Result<Text, RpcError> {
        panic!("the secret is {}", p.text)
    });
    r.method_sync(open("raw", Lane::Inline), |_: Ctx<App>, _: NoParams| {
        // As it may have been read from somewhere else and passed through.
        serde_json::from_str::<Box<RawValue>>("{\n\"a\":\r\n[1,\n2]}").map_err(RpcError::internal).map(Raw)
    });
    r.method_sync(open("owners", Lane::Inline).role(Role::Owner), |_: Ctx<App>, p: Text| {
        Ok::<_, RpcError>(p)
    });
    r.method_sync(open("large", Lane::Inline), |_: Ctx<App>, p: Number| {
        Ok::<_, RpcError>("x".repeat(usize::try_from(p.n).unwrap()))
    });
    r.method_sync(open("unserializable", Lane::Inline), |_: Ctx<App>, _: NoParams| {
        Ok::<_, RpcError>(HashMap::from([(vec![1_u8], 1)]))
    });
    r.on_notification(MessageSpec::new("note", "Notes a number."), |ctx: Ctx<App>, p: Number| async move {
        ctx.app().log.lock().push(p.n);
        Ok::<_, RpcError>(())
    });
    r.on_notification(MessageSpec::new("note/boom", "Panics."), |_: Ctx<App>, p: Number| async move {
        if p.n < u64::MAX {
            panic!("in a notification");
        }
        Ok::<_, RpcError>(())
    });
    r.server_notification::<Text>(MessageSpec::new("caused", "Was caused by a call."));
    r.server_request::<Ask, Text>(MessageSpec::new("ask/client", "Asks the client."));
    r
}

pub fn service() -> (Service, App) {
    let app = App::default();
    (registry().build(app.clone()).unwrap(), app)
}

/// Options for tests: no handshake needed.
pub fn options() -> ConnOptions {
    ConnOptions { initialized: true, ..ConnOptions::default() }
}

/// Hooks that tell a channel.
pub struct Told(pub mpsc::Sender<String>);

impl Hooks for Told {
    fn opened(&self, _peer: &Peer) {
        let _ = self.0.try_send("opened".to_owned());
    }
    fn stray_response(&self, _peer: &Peer, response: StrayResponse<'_>) {
        let outcome = match response.outcome {
            Ok(result) => result.get().to_owned(),
            Err(error) => error.to_string(),
        };
        let _ = self.0.try_send(format!("stray {} {outcome}", response.id.unwrap_or("-")));
    }
    fn overflowed(&self, _peer: &Peer) {
        let _ = self.0.try_send("overflowed".to_owned());
    }
    fn closed(&self, _peer: &Peer, reason: &CloseReason) {
        let _ = self.0.try_send(format!("closed: {reason}"));
    }
}

/// A client over the in-memory connection.
pub struct Client {
    pub wire: MemoryClient,
    pub peer: Peer,
    pub app: App,
    pub served: JoinHandle<CloseReason>,
}

pub fn client() -> Client {
    client_with(options())
}

pub fn client_with(options: ConnOptions) -> Client {
    let (service, app) = service();
    client_of(service, app, options)
}

pub fn client_of(service: Service, app: App, options: ConnOptions) -> Client {
    let (server, wire) = memory();
    let connection = Connection::new(service, options);
    let peer = connection.peer().clone();
    Client { wire, peer, app, served: tokio::spawn(connection.serve(server)) }
}

impl Client {
    pub async fn send(&self, message: Value) {
        self.send_raw(message.to_string()).await;
    }

    pub async fn send_raw(&self, frame: impl Into<bytes::Bytes>) {
        within(self.wire.send(frame)).await.unwrap();
    }

    pub async fn recv_raw(&mut self) -> String {
        let frame = within(self.wire.recv()).await.expect("the connection has ended");
        assert!(!frame.contains(&b'\n'), "a frame with a line break");
        String::from_utf8(frame.to_vec()).unwrap()
    }

    pub async fn recv(&mut self) -> Value {
        serde_json::from_str(&self.recv_raw().await).unwrap()
    }

    pub async fn call(&mut self, method: &str, params: Value) -> Value {
        self.send(json!({"id": 1, "method": method, "params": params})).await;
        self.recv().await
    }

    /// The server still works.
    pub async fn expect_echo(&mut self) {
        let answer = self.call("echo", json!({"text": "still here"})).await;
        assert_eq!(answer["result"]["text"], "still here");
    }

    /// Waits until `hold` has noted this many things.
    pub async fn until_held(&self, count: usize) {
        within(async {
            while self.app.held.lock().len() < count {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }
}

/// Code and reason of an error answer.
pub fn refusal(answer: &Value) -> (i64, &str) {
    let error = &answer["error"];
    assert!(error["data"]["retryable"].is_boolean(), "{answer}");
    (error["code"].as_i64().unwrap(), error["data"]["reason"].as_str().unwrap())
}
