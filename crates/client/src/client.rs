//! The connection: calls go out under numbers of ours, one task sorts what comes in.

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use serde::Serialize;
use serde::de::DeserializeOwned;
use signalbox_home::Home;
use signalbox_protocol::app::RequestId;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::error::CallError;
use crate::event::{Events, Waiting};
use crate::frames::{FrameReceiver, FrameSender, QUEUED_FRAMES, Queued, frames};
use crate::incoming::{Incoming, tell};
use crate::pending::Pending;
use crate::websocket::{self, ConnectError, WebSocketOptions};
use crate::{lengths, lines};

/// Calls that wait at the same time; further ones wait for a place.
const CALLS: usize = 1024;
/// Requests of the server that are refused because they cannot be read, and wait for that.
const REFUSALS: usize = 64;
/// The request is of a kind that this client does not know.
const METHOD_NOT_FOUND: i32 = -32601;

/// How a client treats its calls.
#[derive(Debug, Clone, Copy)]
pub struct CallOptions {
    /// How long a call may wait while its answer cannot be reached because no event is read.
    pub patience: Duration,
}

impl Default for CallOptions {
    fn default() -> Self {
        Self { patience: Duration::from_secs(30) }
    }
}

/// A connection to a server. Cheap to clone; the connection ends when all clones are dropped, or when the server ends
/// it.
#[derive(Debug, Clone)]
pub struct Client(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    outgoing: FrameSender,
    pending: Arc<Pending>,
    places: Semaphore,
    ended: CancellationToken,
    note: CloseNote,
}

/// What a server says when it ends a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Goodbye {
    /// Close code of the WebSocket: 1001 the server leaves, 1008 this client is not let in any more, 1013 it read too
    /// slowly, and those of RFC 6455.
    pub code: u16,
    /// One sentence for people.
    pub reason: String,
}

/// Where what the server says at the end is kept.
#[derive(Debug, Clone, Default)]
pub(crate) struct CloseNote(Arc<OnceLock<Goodbye>>);

impl CloseNote {
    /// The first one counts.
    pub(crate) fn set(&self, code: u16, reason: &str) {
        self.0.get_or_init(|| Goodbye { code, reason: reason.to_owned() });
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.ended.cancel();
    }
}

impl Client {
    /// A connection over two queues of frames, which somebody carries to and from the server. To be called within a
    /// runtime, as all constructors.
    #[must_use]
    pub fn connect(incoming: FrameReceiver, outgoing: FrameSender) -> (Self, Events) {
        Self::connect_with(incoming, outgoing, CallOptions::default(), &TaskTracker::new())
    }

    /// A connection over two streams of lines, such as a child's stdout and stdin.
    pub fn over_lines(
        reader: impl AsyncRead + Unpin + Send + 'static,
        writer: impl AsyncWrite + Unpin + Send + 'static,
    ) -> (Self, Events) {
        Self::over(|received| lines::read(reader, received), |sent| lines::write(writer, sent))
    }

    /// A connection over two streams of frames with `Content-Length` headers, as servers of the Language Server Protocol
    /// speak them.
    pub fn over_content_length(
        reader: impl AsyncRead + Unpin + Send + 'static,
        writer: impl AsyncWrite + Unpin + Send + 'static,
    ) -> (Self, Events) {
        Self::over(|received| lengths::read(reader, received), |sent| lengths::write(writer, sent))
    }

    /// A connection whose frames these two futures carry, each on a task of its own.
    fn over<R, W>(
        read: impl FnOnce(FrameSender) -> R,
        write: impl FnOnce(FrameReceiver) -> W,
    ) -> (Self, Events)
    where
        R: Future<Output: Send> + Send + 'static,
        W: Future<Output: Send> + Send + 'static,
    {
        let tasks = TaskTracker::new();
        let (received, incoming) = frames();
        let (outgoing, sent) = frames();
        tasks.spawn(read(received));
        tasks.spawn(write(sent));
        Self::connect_with(incoming, outgoing, CallOptions::default(), &tasks)
    }

    /// A connection over WebSocket, to an address such as `ws://127.0.0.1:4517/rpc`.
    ///
    /// # Errors
    /// If nobody listens there, or this client is not let in.
    pub async fn websocket(url: &str, options: &WebSocketOptions) -> Result<(Self, Events), ConnectError> {
        let stream = websocket::connect(url, options).await?;
        Self::over_websocket(stream, url, options).await
    }

    /// A connection over WebSocket, over a stream that leads to the server already: a unix socket, or TLS. Of `url`, the
    /// host and the path are told to the server.
    ///
    /// # Errors
    /// If this client is not let in.
    pub async fn over_websocket<S>(
        stream: S,
        url: &str,
        options: &WebSocketOptions,
    ) -> Result<(Self, Events), ConnectError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (sink, source) = websocket::handshake(stream, url, options).await?.split();
        let tasks = TaskTracker::new();
        let (received, incoming) = frames();
        let (outgoing, sent) = frames();
        let note = CloseNote::default();
        tasks.spawn(websocket::read(source, received, note.clone()));
        tasks.spawn(websocket::write(sink, sent));
        Ok(Self::carried(incoming, outgoing, CallOptions::default(), &tasks, note))
    }

    /// A connection to the server of a home, over its unix socket.
    ///
    /// # Errors
    /// If nobody listens there, or the socket's folder is not this user's alone.
    pub async fn of_home(home: &Home) -> std::io::Result<(Self, Events)> {
        home.prepare_socket().map_err(std::io::Error::other)?;
        Self::unix(home.socket()).await
    }

    /// A connection to a server's unix socket.
    ///
    /// # Errors
    /// If nobody listens there.
    pub async fn unix(path: &Path) -> std::io::Result<(Self, Events)> {
        let (reader, writer) = UnixStream::connect(path).await?.into_split();
        Ok(Self::over_lines(reader, writer))
    }

    /// [`Client::connect`] with options; its tasks belong to `tasks`.
    #[must_use]
    pub fn connect_with(
        incoming: FrameReceiver,
        outgoing: FrameSender,
        options: CallOptions,
        tasks: &TaskTracker,
    ) -> (Self, Events) {
        Self::carried(incoming, outgoing, options, tasks, CloseNote::default())
    }

    fn carried(
        incoming: FrameReceiver,
        outgoing: FrameSender,
        options: CallOptions,
        tasks: &TaskTracker,
        note: CloseNote,
    ) -> (Self, Events) {
        let pending = Arc::new(Pending::default());
        let ended = CancellationToken::new();
        let (events, waiting) = mpsc::channel(QUEUED_FRAMES);
        let (refuse, refused) = mpsc::channel(REFUSALS);
        let sorter =
            Sorter { pending: pending.clone(), events: Some(events), refuse: refuse.clone(), options };
        let leave = ended.clone();
        tasks.spawn(async move {
            leave.run_until_cancelled(sorter.run(incoming)).await;
            leave.cancel();
        });
        tasks.spawn(refuse_all(refused, outgoing.clone(), ended.clone()));
        let inner = Inner { outgoing, pending, places: Semaphore::new(CALLS), ended, note };
        (Self(Arc::new(inner)), Events::new(waiting, refuse))
    }

    /// Calls a method. Dropping the future forgets the answer, not the call.
    ///
    /// # Errors
    /// The server declined, the connection ended, or params or result cannot be written or read.
    pub async fn call<P, R>(&self, method: &str, params: &P) -> Result<R, CallError>
    where
        P: Serialize + ?Sized + Sync,
        R: DeserializeOwned,
    {
        let result = self.call_raw(method, params).await?;
        serde_json::from_slice(&result)
            .map_err(|source| CallError::Unreadable { method: method.to_owned(), source })
    }

    /// [`Client::call`], with the result as the JSON text that came.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub async fn call_raw<P>(&self, method: &str, params: &P) -> Result<Bytes, CallError>
    where
        P: Serialize + ?Sized + Sync,
    {
        #[derive(Serialize)]
        struct Call<'a, P: ?Sized> {
            jsonrpc: &'static str,
            id: i64,
            method: &'a str,
            params: &'a P,
        }
        let _turn = self.0.places.acquire().await.map_err(|_closed| CallError::Closed)?;
        let place = self.0.pending.place()?;
        let frame = serde_json::to_vec(&Call { jsonrpc: "2.0", id: place.id, method, params })
            .map_err(|source| CallError::Unwritable { method: method.to_owned(), source })?;
        self.send(frame).await?;
        place.answer().await
    }

    /// Tells the server something that is not answered.
    ///
    /// # Errors
    /// The connection has ended, or the params cannot be written.
    pub async fn notify<P: Serialize + ?Sized + Sync>(
        &self,
        method: &str,
        params: &P,
    ) -> Result<(), CallError> {
        #[derive(Serialize)]
        struct Notice<'a, P: ?Sized> {
            jsonrpc: &'static str,
            method: &'a str,
            params: &'a P,
        }
        let frame = serde_json::to_vec(&Notice { jsonrpc: "2.0", method, params })
            .map_err(|source| CallError::Unwritable { method: method.to_owned(), source })?;
        self.send(frame).await
    }

    /// Answers a request of the server.
    ///
    /// # Errors
    /// The connection has ended, or the answer cannot be written. Whether the answer was taken is told by
    /// notifications.
    pub async fn respond<R: Serialize + ?Sized + Sync>(
        &self,
        id: &RequestId,
        result: &R,
    ) -> Result<(), CallError> {
        #[derive(Serialize)]
        struct Answer<'a, R: ?Sized> {
            jsonrpc: &'static str,
            id: &'a RequestId,
            result: &'a R,
        }
        let frame = serde_json::to_vec(&Answer { jsonrpc: "2.0", id, result })
            .map_err(|source| CallError::Unwritable { method: "an answer".to_owned(), source })?;
        self.send(frame).await
    }

    /// Answers a request of the server with an error: this client cannot answer it, others may.
    ///
    /// # Errors
    /// The connection has ended.
    pub async fn refuse(&self, id: &RequestId, code: i32, message: &str) -> Result<(), CallError> {
        self.send(refusal(id, code, message)?).await
    }

    /// Whether the connection has ended.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.0.ended.is_cancelled()
    }

    /// Waits until the connection has ended.
    pub async fn closed(&self) {
        self.0.ended.cancelled().await;
    }

    /// What the server said when it ended the connection, where the transport has a place for it (WebSocket).
    #[must_use]
    pub fn goodbye(&self) -> Option<&Goodbye> {
        self.0.note.0.get()
    }

    async fn send(&self, frame: Vec<u8>) -> Result<(), CallError> {
        tokio::select! {
            sent = self.0.outgoing.send(frame) => sent.map_err(|_closed| CallError::Closed),
            () = self.0.ended.cancelled() => Err(CallError::Closed),
        }
    }
}

fn refusal(id: &RequestId, code: i32, message: &str) -> Result<Vec<u8>, CallError> {
    let frame =
        serde_json::json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } });
    serde_json::to_vec(&frame)
        .map_err(|source| CallError::Unwritable { method: "an answer".to_owned(), source })
}

async fn refuse_all(mut refused: mpsc::Receiver<RequestId>, outgoing: FrameSender, ended: CancellationToken) {
    while let Some(Some(id)) = ended.run_until_cancelled(refused.recv()).await {
        let Ok(frame) = refusal(&id, METHOD_NOT_FOUND, "this client does not know such requests") else {
            continue;
        };
        if outgoing.send(frame).await.is_err() {
            return;
        }
    }
}

/// Sorts what comes in.
struct Sorter {
    pending: Arc<Pending>,
    /// None when nobody wants events.
    events: Option<mpsc::Sender<Waiting>>,
    refuse: mpsc::Sender<RequestId>,
    options: CallOptions,
}

impl Drop for Sorter {
    fn drop(&mut self) {
        self.pending.close();
    }
}

impl Sorter {
    async fn run(mut self, mut incoming: FrameReceiver) {
        while let Some(Queued { frame, room }) = incoming.next().await {
            match tell(&frame) {
                Incoming::Answer { id, answer } => self.pending.answer(id, answer),
                Incoming::Notification => self.put(Waiting { frame, id: None, _room: room }).await,
                Incoming::Request { id, method } => {
                    tracing::trace!(%method, "a request of the server");
                    self.put(Waiting { frame, id: Some(id), _room: room }).await;
                }
                Incoming::Stray(what) => tracing::warn!(what, "something unexpected came from the server"),
            }
        }
    }

    /// Lets an event wait to be read. While there is no room nothing more is taken from the server, which slows it
    /// down; calls that wait meanwhile are ended when no event is read for too long.
    async fn put(&mut self, mut event: Waiting) {
        let Some(events) = self.events.clone() else { return self.discard(event) };
        match events.try_send(event) {
            Ok(()) => return,
            Err(mpsc::error::TrySendError::Full(back) | mpsc::error::TrySendError::Closed(back)) => {
                event = back
            }
        }
        let room = loop {
            tokio::select! {
                room = events.reserve() => break room,
                () = self.starving() => self.pending.fail(|| CallError::EventsUnread),
            }
        };
        match room {
            Ok(room) => room.send(event),
            Err(_unwanted) => {
                self.events = None;
                self.discard(event);
            }
        }
    }

    /// Resolves when calls have waited for the whole patience.
    async fn starving(&self) {
        while self.pending.is_empty() {
            self.pending.asked.notified().await;
        }
        tokio::time::sleep(self.options.patience).await;
    }

    fn discard(&self, event: Waiting) {
        if let Some(id) = event.id
            && self.refuse.try_send(id).is_err()
        {
            tracing::debug!("a request that nobody reads was not refused: too many of them");
        }
    }
}
