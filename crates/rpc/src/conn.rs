//! One connection: reads, sorts calls into lanes, resolves the client's answers, and ends in an orderly way.
//!
//! The reader never waits for a handler. It stops reading for two reasons only:
//!
//! - The client's own unread answers exceed their bound. Only the client can change that.
//! - The work of this connection has met its bound. Pausing then turns a burst into back pressure, so that a client
//!   which pipelines any number of requests gets a result for each. But what ends that work may itself be something
//!   this client has yet to send: the answer to a request of ours, or a call. So the reader goes on as soon as a
//!   request of ours waits for this client, or no call has ended for [`ConnOptions::patience`]; while the work is
//!   still at its bound, calls are then answered `server_overloaded` at once and everything else is handled.
//!
//! So neither can wait for the other for longer than the patience, and memory stays bounded in every case.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use jsonrpsee::core::middleware::{Request, RpcServiceT};
use jsonrpsee::server::Extensions;
use jsonrpsee::types::Id;
use serde_json::value::RawValue;

use crate::context::CallInfo;
use crate::dispatch::Service;
use crate::entry::{CANCEL_REQUEST, Lane};
use crate::error::RpcError;
use crate::frame::{self, Call, Inbound, Message, Notice};
use crate::hooks::CloseReason;
use crate::lanes::{BREATH, Job, Lanes, Work};
use crate::options::ConnOptions;
use crate::outbox::{Outbox, OutboxReader};
use crate::peer::{ConnectionId, Gate, Origin, Peer, PeerParts};
use crate::reply::{BatchReply, ReplyTo};
use crate::transport::{Received, Source, Transport, TransportLimits};

/// A connection that has not begun to read.
#[derive(Debug)]
pub struct Connection {
    ending: Ending,
    service: Service,
    options: ConnOptions,
    outbox: OutboxReader,
}

/// Serves one connection until it ends; [`Connection::new`] and [`Connection::serve`] in one.
pub async fn serve<T: Transport>(transport: T, service: Service, options: ConnOptions) -> CloseReason {
    Connection::new(service, options).serve(transport).await
}

/// What ends the first phase of a connection.
enum Turn {
    /// Nothing more comes in; what is under way may end.
    Drain(CloseReason),
    /// Nothing more is read, by the client's fault; it may still read what has been queued for it.
    Refused(CloseReason),
    /// Somebody on our side has shut the connection: the writer may still say goodbye.
    Killed,
    /// The client is out of reach.
    Lost(CloseReason),
}

impl Connection {
    /// Makes the connection's peer, to which frames can be pushed from now on.
    pub fn new(service: Service, options: ConnOptions) -> Self {
        let (outbox, reader) = Outbox::new(options.outbox);
        let origin = Arc::new(Origin {
            connection: ConnectionId::next(),
            role: options.role,
            label: options.label.clone(),
            gate: Gate::new(options.initialized),
            state: OnceLock::new(),
        });
        let peer = Peer::new(PeerParts {
            origin,
            outbox,
            overflow: options.overflow,
            max_pending: options.max_server_requests,
            hooks: options.hooks.clone(),
        });
        let lanes = Lanes::new(service.clone(), peer.clone(), options.tasks.clone(), options.work);
        Self { ending: Ending { peer, lanes }, service, options, outbox: reader }
    }

    /// The handle on this connection.
    pub fn peer(&self) -> &Peer {
        &self.ending.peer
    }

    /// Reads, answers and writes until the connection ends, and says why it did.
    ///
    /// When the client closes its side or [`ConnOptions::shutdown`] is cancelled: stops reading, ends requests of
    /// ours, lets calls end, answers `shutting_down` to those that take longer than [`ConnOptions::drain`], and
    /// closes after everything is written. Any other end is immediate. Dropping the future ends the connection too.
    pub async fn serve<T: Transport>(self, transport: T) -> CloseReason {
        let Self { ending, service, options, outbox } = self;
        let (peer, lanes) = (&ending.peer, &ending.lanes);
        let limits =
            TransportLimits { max_frame_bytes: options.max_frame_bytes, stall_grace: options.stall_grace };
        peer.hooks().opened(peer);
        let (source, writer) = transport.open(outbox, limits);
        let reader = Reader { peer, lanes, service: &service, options: &options, number: 0, stuck_at: None };
        let mut reader = std::pin::pin!(reader.run(source));
        let mut ordered = std::pin::pin!(lanes.run_ordered());
        let mut writer = std::pin::pin!(writer);
        // Whatever kills it, a revocation included.
        let killed = || async {
            tokio::select! {
                biased;
                () = peer.kill_token().cancelled() => {}
                () = options.revoked.cancelled() => peer.shut(CloseReason::Revoked(options.revoked_because)),
            }
        };

        // Polled in this order: what the reader and the ordered lane produce in one go is written in one burst.
        let turn = tokio::select! {
            biased;
            () = killed() => Turn::Killed,
            () = options.shutdown.cancelled() => Turn::Drain(CloseReason::Shutdown),
            reason = &mut reader => match reason {
                CloseReason::Eof => Turn::Drain(CloseReason::Eof),
                // Who answers no pings may still hear; then it knows why.
                reason @ (CloseReason::Violation(..) | CloseReason::Silent) => Turn::Refused(reason),
                reason => Turn::Lost(reason),
            },
            () = &mut ordered => Turn::Killed,
            result = &mut writer => Turn::Lost(gone(result)),
        };
        let reason = match turn {
            Turn::Drain(reason) => reason,
            Turn::Killed => {
                // Everything else is over already; only a farewell such as a close code may still go out.
                let _ = tokio::time::timeout(FAREWELL, &mut writer).await;
                return peer.reason();
            }
            Turn::Refused(reason) => {
                peer.end_requests();
                peer.outbox().finish(reason.clone());
                // However that ends, the client's fault is the reason.
                let _ = tokio::time::timeout(FAREWELL, &mut writer).await;
                return ending.with(reason);
            }
            Turn::Lost(reason) => return ending.with(reason),
        };

        // The client can answer nothing any more; handlers that wait for it would use up the whole deadline.
        peer.end_requests();
        let drain = async {
            if tokio::time::timeout(options.drain, lanes.idle()).await.is_err() {
                lanes.expire();
                // A handler that does not even yield is left behind.
                let _ = tokio::time::timeout(options.drain, lanes.idle()).await;
            }
        };
        tokio::select! {
            biased;
            () = killed() => return peer.reason(),
            () = &mut ordered => {}
            result = &mut writer => return ending.with(gone(result)),
            () = drain => {}
        }
        if let (CloseReason::Eof, Some(told)) = (&reason, &options.input_ended) {
            // The client says nothing more, but may still listen to how things end.
            told.cancel();
            tokio::select! {
                biased;
                () = killed() => return peer.reason(),
                () = options.shutdown.cancelled() => {}
                result = &mut writer => return ending.with(gone(result)),
            }
        }
        peer.outbox().finish(reason.clone());
        let written = tokio::select! {
            biased;
            () = killed() => return peer.reason(),
            result = tokio::time::timeout(options.drain, &mut writer) => result,
        };
        ending.with(match written {
            Ok(Ok(())) => reason,
            Ok(Err(failed)) => failed,
            Err(_elapsed) => CloseReason::Stalled,
        })
    }
}

/// How long a connection that we have shut may take to say goodbye.
const FAREWELL: Duration = Duration::from_secs(1);

/// Why a writer ended before it was told to.
fn gone(result: Result<(), CloseReason>) -> CloseReason {
    result.err().unwrap_or(CloseReason::Eof)
}

/// Cleans up however the connection ends, also if its future is dropped.
#[derive(Debug)]
struct Ending {
    peer: Peer,
    lanes: Arc<Lanes>,
}

impl Ending {
    /// Ends the connection; an earlier reason holds.
    fn with(&self, reason: CloseReason) -> CloseReason {
        self.peer.shut(reason);
        self.peer.reason()
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        let reason = self.with(CloseReason::Dropped);
        self.lanes.abandon();
        tracing::debug!(connection = self.peer.id().0, %reason, "a connection ended");
        self.peer.hooks().closed(&self.peer, &reason);
    }
}

/// Whether calls are taken from the next frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Admission {
    Open,
    Overloaded,
}

struct Reader<'a> {
    peer: &'a Peer,
    lanes: &'a Arc<Lanes>,
    service: &'a Service,
    options: &'a ConnOptions,
    /// The internal number under which the last inline call was dispatched.
    number: u64,
    /// How many calls had ended when none ended for the whole patience.
    stuck_at: Option<u64>,
}

impl Reader<'_> {
    async fn run(mut self, mut source: impl Source) -> CloseReason {
        let mut in_a_row = 0_usize;
        loop {
            self.may_read().await;
            match source.next().await {
                Ok(Some(Received::Frame(frame))) => {
                    // Looked at only now: while the frame was awaited, calls may have ended.
                    let full = self.lanes.finished_if_full().is_some();
                    self.frame(&frame, if full { Admission::Overloaded } else { Admission::Open }).await;
                }
                Ok(Some(Received::TooLarge)) => {
                    let error = RpcError::frame_too_large(self.options.max_frame_bytes);
                    ReplyTo::Frame.refuse(self.peer, None, &error);
                }
                Ok(Some(Received::Malformed(error))) => ReplyTo::Frame.refuse(self.peer, None, &error),
                Ok(Some(Received::End(reason))) => return reason,
                Ok(None) => return CloseReason::Eof,
                Err(error) => return CloseReason::ReadFailed(error.to_string()),
            }
            in_a_row = in_a_row.wrapping_add(1);
            if in_a_row.is_multiple_of(BREATH) {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Waits until the next frame may be read, as the rules at the top of this file say.
    async fn may_read(&mut self) {
        self.peer.outbox().answer_room().await;
        while let Some(finished) = self.lanes.finished_if_full() {
            if self.peer.has_pending() || self.stuck_at == Some(finished) {
                return;
            }
            tokio::select! {
                () = self.lanes.room() => {}
                () = self.peer.asked() => {}
                () = tokio::time::sleep(self.options.patience) => {
                    self.stuck_at = self.lanes.finished_if_full().filter(|now| *now == finished);
                }
            }
        }
    }

    async fn frame(&mut self, frame: &[u8], admission: Admission) {
        match frame::parse(frame) {
            Inbound::Blank => {}
            Inbound::One(message) => self.message(message, frame.len(), admission, ReplyTo::Frame).await,
            Inbound::Batch(messages) => self.batch(messages, frame.len(), admission).await,
        }
    }

    async fn batch(&mut self, messages: Vec<Message<'_>>, bytes: usize, admission: Admission) {
        let answered = |message: &&Message<'_>| matches!(message, Message::Call(_) | Message::Invalid(_));
        let answers = messages.iter().filter(answered).count();
        let reply = BatchReply::new(answers, self.service.max_result_bytes());
        let (mut place, share) = (0, bytes / messages.len().max(1));
        for message in messages {
            let at = place;
            place += usize::from(answered(&&message));
            self.message(message, share, admission, ReplyTo::Batch(reply.clone(), at)).await;
        }
    }

    async fn message(&mut self, message: Message<'_>, bytes: usize, admission: Admission, reply: ReplyTo) {
        match message {
            Message::Call(call) => self.call(call, bytes, admission, reply).await,
            Message::Notification(notice) => self.notification(notice, bytes, admission),
            Message::Response(response) => self.peer.resolve(response),
            Message::Invalid(invalid) => reply.refuse(self.peer, invalid.raw_id, &invalid.error),
        }
    }

    async fn call(&mut self, call: Call<'_>, bytes: usize, admission: Admission, reply: ReplyTo) {
        let Call { raw_id, method, params, trace } = call;
        let lane = self.service.lane(&method);
        let closed = self.peer.kill_token();
        let token = if lane == Lane::Inline { closed.clone() } else { closed.child_token() };
        let origin = self.peer.origin().clone();
        let info = CallInfo::new(origin, Some(self.peer.clone()), Some(raw_id), trace, token);
        if lane != Lane::Inline {
            if admission == Admission::Overloaded {
                reply.refuse(self.peer, Some(raw_id), &RpcError::server_overloaded());
                return;
            }
            let params = params.map(RawValue::to_owned);
            let work = Work::Call(reply);
            self.lanes.take(lane, Job { info, method: method.into_owned(), params, work, bytes });
            return;
        }
        self.number += 1;
        let mut extensions = Extensions::new();
        extensions.insert(info.clone());
        let mut request = Request::borrowed(&method, params, Id::Number(self.number));
        request.extensions = extensions;
        // Inline handlers are sync and unknown methods are refused at once: this never waits.
        let response = self.service.call(request).await;
        reply.respond(self.peer, &info, response);
    }

    fn notification(&mut self, notice: Notice<'_>, bytes: usize, admission: Admission) {
        let Notice { method, params, trace } = notice;
        if method == CANCEL_REQUEST {
            self.cancel(params);
            return;
        }
        if !self.service.listens_to(&method) {
            tracing::debug!(method = %shown(&method), "a notification that nobody listens to");
            return;
        }
        if admission == Admission::Overloaded {
            tracing::warn!(%method, "a client's notification was dropped: too much work is waiting");
            return;
        }
        let token = self.peer.kill_token().child_token();
        let info = CallInfo::new(self.peer.origin().clone(), Some(self.peer.clone()), None, trace, token);
        let params = params.map(RawValue::to_owned);
        let work = Work::Notification;
        self.lanes.take(Lane::Ordered, Job { info, method: method.into_owned(), params, work, bytes });
    }

    fn cancel(&self, params: Option<&RawValue>) {
        #[derive(serde::Deserialize)]
        struct Cancel<'a> {
            #[serde(borrow)]
            id: &'a RawValue,
        }
        match params.map(|params| serde_json::from_str::<Cancel<'_>>(params.get())) {
            Some(Ok(cancel)) => self.lanes.cancel(cancel.id.get()),
            Some(Err(error)) => tracing::debug!(%error, "a cancellation that cannot be read"),
            None => tracing::debug!("a cancellation without an id"),
        }
    }
}

/// Client text cut to a length that is safe to log.
fn shown(method: &str) -> Cow<'_, str> {
    match method.char_indices().nth(100) {
        Some((end, _)) => Cow::Owned(format!("{}…", &method[..end])),
        None => Cow::Borrowed(method),
    }
}
