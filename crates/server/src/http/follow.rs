//! A thread as a series of events: a client within the process that resumes the thread, and again when it must.
//!
//! It is a connection like any other, so all rules of joining, order and slow clients hold for it. It can answer nothing, so
//! it joins as an observer, and learns of open approvals by asking for their list.

use std::borrow::Cow;
use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};
use signalbox_rpc::{MemoryClient, RpcError};
use tokio::time::timeout;

/// The event that gives the whole thread.
pub(super) const SNAPSHOT: &str = "thread/snapshot";
/// The event behind which a follower has to begin again.
const RESYNC: &str = "thread/resyncRequired";
/// How long a method of the server may take here.
const ANSWER: Duration = Duration::from_secs(60);

/// What a follower of a thread is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Event {
    /// The cursor behind it, where it has one.
    pub(super) id: Option<String>,
    pub(super) method: String,
    /// The notification, as JSON without line ends.
    pub(super) data: Bytes,
}

/// Follows one thread.
#[derive(Debug)]
pub(super) struct Follower {
    client: MemoryClient,
    thread: String,
    calls: u64,
    /// What has been read and not yet been given out.
    ready: VecDeque<Event>,
    over: bool,
}

/// The thread cannot be followed.
#[derive(Debug)]
pub(super) enum FollowError {
    /// As the method said.
    Refused { reason: String, error: Box<RawValue> },
    /// The server leaves, or the connection was ended.
    Gone,
    /// No answer came.
    Late,
}

#[derive(Deserialize)]
struct Incoming<'a> {
    #[serde(default)]
    id: Option<u64>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

/// What there may be in params by which a notification is placed.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct Place {
    #[serde(default)]
    thread_id: Option<String>,
    #[serde(default)]
    cursor: Option<String>,
    #[serde(default)]
    thread: Option<Named>,
    #[serde(default)]
    approval: Option<Approval>,
}

#[derive(Deserialize)]
struct Named {
    id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Approval {
    approval_id: String,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Resumed {
    snapshot_seq: u64,
    cursor: Option<String>,
    continued: bool,
}

#[derive(Deserialize)]
struct Approvals<'a> {
    #[serde(borrow)]
    data: Vec<&'a RawValue>,
}

impl Follower {
    /// Joins a thread: behind this cursor if all that followed is still known, else with a snapshot.
    ///
    /// # Errors
    /// If the thread is not there, or the server leaves.
    pub(super) async fn join(
        client: MemoryClient,
        thread: &str,
        after: Option<&str>,
    ) -> Result<Self, FollowError> {
        let mut follower =
            Self { client, thread: thread.to_owned(), calls: 0, ready: VecDeque::new(), over: false };
        let hello = json!({
            "clientInfo": {"name": "events", "version": env!("CARGO_PKG_VERSION")},
            "capabilities": {"resync": true},
        });
        follower.call("initialize", &hello).await?;
        follower.resume(after).await?;
        Ok(follower)
    }

    /// The next event; none when there will be no more. Not cancel-safe: it may be resuming.
    pub(super) async fn next(&mut self) -> Option<Event> {
        loop {
            match self.ready.pop_front() {
                Some(event) if event.method == RESYNC => {
                    if let Err(error) = self.resume(None).await {
                        tracing::info!(?error, thread = self.thread, "a follower cannot go on");
                        self.over = true;
                    }
                }
                Some(event) => {
                    self.over |= event.method == "thread/deleted";
                    return Some(event);
                }
                None if self.over => return None,
                None => {
                    let frame = self.client.recv().await?;
                    self.take(&frame);
                }
            }
        }
    }

    /// Whether the thread is deleted, or could not be joined again.
    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    /// The next event, if it is there already.
    pub(super) fn at_hand(&mut self) -> Option<Event> {
        while self.ready.is_empty() && !self.over {
            let frame = self.client.recv().now_or_never()??;
            self.take(&frame);
        }
        if self.ready.front()?.method == RESYNC { None } else { self.next().now_or_never()? }
    }

    async fn resume(&mut self, after: Option<&str>) -> Result<(), FollowError> {
        let result =
            self.call("thread/resume", &json!({"threadId": self.thread, "afterCursor": after})).await?;
        let Resumed { snapshot_seq, cursor, continued } =
            serde_json::from_str(result.get()).unwrap_or_default();
        // What was told before the answer is about the time before it.
        let before = std::mem::take(&mut self.ready);
        let list = self.call("approval/list", &json!({"threadId": self.thread})).await?;
        let since = std::mem::replace(&mut self.ready, before);
        if !continued {
            self.ready.push_back(notification(SNAPSHOT, &result, cursor.clone()));
        }
        let told: HashSet<String> = since.iter().filter_map(asked).collect();
        let open: Approvals<'_> = serde_json::from_str(list.get()).unwrap_or(Approvals { data: Vec::new() });
        for approval in open.data {
            let id = serde_json::from_str::<Approval>(approval.get()).map(|approval| approval.approval_id);
            let params = json!({
                "threadId": self.thread, "approval": approval, "seq": snapshot_seq, "cursor": cursor,
            });
            if id.is_ok_and(|id| !told.contains(&id))
                && let Ok(params) = to_raw_value(&params)
            {
                self.ready.push_back(notification("approval/requested", &params, cursor.clone()));
            }
        }
        self.ready.extend(since);
        Ok(())
    }

    /// Calls a method and gives its result; what is told meanwhile is kept.
    async fn call(&mut self, method: &str, params: &serde_json::Value) -> Result<Box<RawValue>, FollowError> {
        self.calls += 1;
        let id = self.calls;
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string();
        self.client.send(request).await.map_err(|_closed| FollowError::Gone)?;
        timeout(ANSWER, self.answer(id)).await.map_err(|_elapsed| FollowError::Late)?
    }

    async fn answer(&mut self, id: u64) -> Result<Box<RawValue>, FollowError> {
        #[derive(Deserialize)]
        struct Refused {
            data: Data,
        }
        #[derive(Deserialize)]
        struct Data {
            reason: String,
        }
        loop {
            let frame = self.client.recv().await.ok_or(FollowError::Gone)?;
            let Some(incoming) = self.take(&frame).filter(|incoming| incoming.id == Some(id)) else {
                continue;
            };
            if let Some(error) = incoming.error {
                let refused = serde_json::from_str::<Refused>(error.get());
                let reason = refused.map(|refused| refused.data.reason).unwrap_or_default();
                return Err(FollowError::Refused { reason, error: error.to_owned() });
            }
            return Ok(incoming.result.map_or_else(|| RawValue::NULL.to_owned(), RawValue::to_owned));
        }
    }

    /// Keeps a notification that is about the thread; gives anything else.
    fn take<'a>(&mut self, frame: &'a Bytes) -> Option<Incoming<'a>> {
        let incoming: Incoming<'a> = match serde_json::from_slice(frame) {
            Ok(incoming) => incoming,
            Err(error) => {
                tracing::error!(%error, "a frame of this server cannot be read");
                return None;
            }
        };
        let Some(method) = &incoming.method else { return Some(incoming) };
        let place = incoming.params.map(|params| serde_json::from_str::<Place>(params.get()));
        let place = place.and_then(Result::ok).unwrap_or_default();
        let about = place.thread_id.or(place.thread.map(|thread| thread.id));
        if about.is_none_or(|thread| thread == self.thread) {
            self.ready.push_back(Event { id: place.cursor, method: method.to_string(), data: frame.clone() });
        }
        None
    }
}

fn notification(method: &str, params: &RawValue, id: Option<String>) -> Event {
    let data = format!(
        r#"{{"jsonrpc":"2.0","method":"{method}","params":{},"emittedAtMs":{}}}"#,
        params.get(),
        signalbox_engine::wall_clock_ms()
    );
    Event { id, method: method.to_owned(), data: data.into() }
}

/// The approval that this asks for.
fn asked(event: &Event) -> Option<String> {
    if event.method != "approval/requested" {
        return None;
    }
    let params = serde_json::from_slice::<Incoming<'_>>(&event.data).ok()?.params?;
    serde_json::from_str::<Place>(params.get()).ok()?.approval.map(|approval| approval.approval_id)
}

impl From<FollowError> for super::respond::Refusal {
    fn from(error: FollowError) -> Self {
        use hyper::StatusCode;
        match error {
            FollowError::Refused { reason, error } => {
                let status = match reason.as_str() {
                    "thread_not_found" => StatusCode::NOT_FOUND,
                    "unauthorized" => StatusCode::FORBIDDEN,
                    "invalid_params" => StatusCode::BAD_REQUEST,
                    "shutting_down" | "server_overloaded" | "storage_failed" => {
                        StatusCode::SERVICE_UNAVAILABLE
                    }
                    _ => StatusCode::INTERNAL_SERVER_ERROR,
                };
                Self::written(status, error)
            }
            FollowError::Gone => Self::leaving(),
            FollowError::Late => {
                let error =
                    RpcError::new(signalbox_rpc::INTERNAL, "timed_out", "The thread did not answer in time");
                Self::new(StatusCode::GATEWAY_TIMEOUT, error.retryable())
            }
        }
    }
}
