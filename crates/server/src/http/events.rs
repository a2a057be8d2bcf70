//! A thread's events as `text/event-stream`: what a script follows with curl and a page with `EventSource`.
//!
//! Each event has the method of a notification as its name and the notification as its data. Its id is the thread's cursor,
//! so a client that comes back with `Last-Event-ID` goes on from there, if the server still has what followed; else, and at
//! the first time, it gets `thread/snapshot`. A client that reads too slowly is told a new snapshot instead of what it missed.

use std::fmt::Write;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::FutureExt;
use http_body_util::BodyExt;
use hyper::Response;
use hyper::body::{Body, Frame};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::http::request::Parts;
use signalbox_facts::SessionId;
use signalbox_rpc::{Role, memory};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::connection::ConnInfo;
use super::follow::{Event, Follower};
use super::metrics::Use;
use super::respond::{Answer, Refusal};
use super::site::Site;
use super::upgrade;
use crate::access::Caller;

/// How soon an `EventSource` tries again when a stream has ended.
const RETRY: &str = "retry: 1000\n\n";
/// What is sent when nothing happens.
const HEARTBEAT: &[u8] = b": still here\n\n";
/// What is written at once if so much is there.
const CHUNK_BYTES: usize = 64 * 1024;

/// Opens the stream of a thread. It ends when the thread is deleted, the client leaves or reads nothing, the credential ends,
/// or the server leaves. Who still listens is told why by a last event, `end`.
///
/// # Errors
/// 404 if there is no such thread, 429 if the device has too many streams.
pub(super) async fn open(
    site: &Site,
    conn: &Arc<ConnInfo>,
    caller: Caller,
    thread: &str,
    head: &Parts,
) -> Result<Answer, Refusal> {
    let place = upgrade::stream_place(site, &caller)?;
    let (transport, client) = memory();
    let options = signalbox_rpc::ConnOptions {
        // It is asked nothing, because it cannot answer here.
        role: Role::Observer,
        ..upgrade::options(site, conn, &caller)
    };
    site.tasks().spawn(upgrade::serve_caller(site.clone(), transport, options, caller.clone()));
    let mut follower = Follower::join(client, thread, after(head)).await?;
    let (chunks, body) = mpsc::channel(1);
    // Whoever follows may answer by `approval/respond`.
    let session = thread.parse::<SessionId>().ok().filter(|_| caller.role >= Role::Operator);
    let attending = session.map(|session| site.0.app.engine().attend(Some(session)));
    let (pumped, conn) = (site.clone(), conn.clone());
    site.tasks().spawn(async move {
        let _counted = pumped.0.counters.begin(Use::Events);
        if pump(&pumped, &mut follower, &chunks).await == Over::Told {
            let end = Bytes::from(end(&caller, &conn, follower.is_over()));
            // Who does not take it has gone.
            let _ = timeout(pumped.0.limits.write_pause, chunks.send(end)).await;
        }
        drop((attending, place, conn));
    });
    let mut answer = Response::new(Chunks(body).boxed_unsync());
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // Proxies that collect answers would hold back what happens.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(answer)
}

/// Where the client was.
fn after(head: &Parts) -> Option<&str> {
    let named = || {
        let pairs = head.uri.query()?.split('&');
        pairs.filter_map(|pair| pair.strip_prefix("after=")).next()
    };
    let last = head.headers.get("last-event-id").and_then(|id| id.to_str().ok());
    last.or_else(named).filter(|cursor| !cursor.is_empty())
}

/// Why no more events are written.
#[derive(Debug, PartialEq, Eq)]
enum Over {
    /// The client has gone.
    Gone,
    /// There is no more to tell.
    Told,
}

/// The last event: why there is no other.
fn end(caller: &Caller, conn: &ConnInfo, thread_is_over: bool) -> String {
    let (reason, message) = match caller.ended().now_or_never() {
        Some(why) => ("unauthorized", why),
        None if conn.closing.is_cancelled() => ("shutting_down", "the server is shutting down"),
        None if thread_is_over => ("thread_over", "the thread was deleted, or cannot be followed any more"),
        None => ("closed", "the server ended the stream"),
    };
    format!("event: end\ndata: {}\n\n", serde_json::json!({"reason": reason, "message": message}))
}

/// Writes events as they come, at the client's speed.
async fn pump(site: &Site, follower: &mut Follower, chunks: &mpsc::Sender<Bytes>) -> Over {
    let limits = &site.0.limits;
    let mut text = RETRY.to_owned();
    loop {
        match timeout(limits.write_pause, chunks.send(Bytes::from(std::mem::take(&mut text)))).await {
            Ok(Ok(())) => {}
            Ok(Err(_gone)) => return Over::Gone,
            Err(_elapsed) => {
                tracing::info!("a client of an event stream reads nothing any more; it ends");
                return Over::Gone;
            }
        }
        let Some(event) = next(site, follower, chunks).await else {
            return if chunks.is_closed() { Over::Gone } else { Over::Told };
        };
        write(&mut text, &event);
        // Whatever else is there goes along with it.
        while text.len() < CHUNK_BYTES
            && let Some(event) = follower.at_hand()
        {
            write(&mut text, &event);
        }
    }
}

/// The next event, with signs of life until it comes; none if there is none, or nobody to tell it to.
async fn next(site: &Site, follower: &mut Follower, chunks: &mpsc::Sender<Bytes>) -> Option<Event> {
    let mut next = pin!(follower.next());
    loop {
        tokio::select! {
            biased;
            () = chunks.closed() => return None,
            event = &mut next => return event,
            () = tokio::time::sleep(site.0.limits.heartbeat) => {
                // Full is as good: then something is on its way.
                let _ = chunks.try_send(Bytes::from_static(HEARTBEAT));
            }
        }
    }
}

fn write(text: &mut String, event: &Event) {
    if let Some(id) = &event.id {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "id: {id}");
    }
    let _ = writeln!(text, "event: {}", event.method);
    text.push_str("data: ");
    text.push_str(&String::from_utf8_lossy(&event.data));
    text.push_str("\n\n");
}

/// A body of chunks that somebody sends.
#[derive(Debug)]
struct Chunks(mpsc::Receiver<Bytes>);

impl Body for Chunks {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.0.poll_recv(context).map(|chunk| chunk.map(|chunk| Ok(Frame::data(chunk))))
    }
}
