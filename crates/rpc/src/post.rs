//! One request, one answer: for transports on which the server cannot send by itself, such as HTTP POST.

use std::any::Any;
use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use jsonrpsee::core::middleware::{Batch, BatchEntry, BatchEntryErr, Notification, Request, RpcServiceT};
use jsonrpsee::server::Extensions;
use jsonrpsee::types::{ErrorObjectOwned, Id};
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

use crate::context::CallInfo;
use crate::dispatch::Service;
use crate::entry::Role;
use crate::error::RpcError;
use crate::frame::{self, Inbound, Message, TraceContext};
use crate::outgoing::splice_id;
use crate::peer::{ConnectionId, Gate, Origin};

/// Who posts.
#[derive(Debug, Clone)]
pub struct PostOptions {
    /// What the caller may do.
    pub role: Role,
    /// Where the call comes from, for people.
    pub label: Arc<str>,
    /// The application's own state of this caller, for [`Ctx::state`](crate::Ctx::state).
    pub state: Option<Arc<dyn Any + Send + Sync>>,
}

impl Service {
    /// Answers one frame: a single message or a batch, whose entries run one after the other. There is no handshake,
    /// and no [`Peer`](crate::Peer). `None` when there is nothing to answer (notifications, blank frames).
    ///
    /// Dropping the future drops the running handler. The caller bounds the frame's size and the time.
    pub async fn post(&self, frame: &[u8], options: PostOptions) -> Option<Bytes> {
        let state = OnceLock::new();
        if let Some(given) = options.state {
            // The cell was made in the line above.
            let _ = state.set(given);
        }
        let origin = Arc::new(Origin {
            connection: ConnectionId::next(),
            role: options.role,
            label: options.label,
            gate: Gate::new(true),
            state,
        });
        let call = Post { origin };
        match frame::parse(frame) {
            Inbound::Blank => None,
            Inbound::One(message) => self.post_one(&call, message).await,
            Inbound::Batch(messages) => self.post_batch(&call, messages).await,
        }
    }

    async fn post_one(&self, post: &Post, message: Message<'_>) -> Option<Bytes> {
        match message {
            Message::Call(call) => {
                let info = post.info(Some(call.raw_id), call.trace);
                let mut request = Request::borrowed(&call.method, call.params, Id::Number(0));
                request.extensions = extensions(&info);
                let response = self.call(request).await;
                let answer = splice_id(&response.into_json(), call.raw_id);
                info.release();
                Some(answer.into())
            }
            Message::Notification(notice) => {
                let info = post.info(None, notice.trace);
                let mut notification = Notification::new(notice.method, notice.params.map(Cow::Borrowed));
                notification.extensions = extensions(&info);
                self.notification(notification).await;
                info.release();
                None
            }
            Message::Response(_) => None,
            Message::Invalid(invalid) => {
                Some(invalid.error.response(invalid.raw_id.unwrap_or("null")).into())
            }
        }
    }

    async fn post_batch(&self, post: &Post, messages: Vec<Message<'_>>) -> Option<Bytes> {
        let mut raw_ids = Vec::new();
        let mut infos = Vec::new();
        let mut entries = Vec::new();
        for message in messages {
            let number = Id::Number(raw_ids.len() as u64);
            match message {
                Message::Call(call) => {
                    let info = post.info(Some(call.raw_id), call.trace);
                    let mut request = match call.method {
                        Cow::Borrowed(method) => Request::borrowed(method, call.params, number),
                        Cow::Owned(method) => {
                            Request::owned(method, call.params.map(RawValue::to_owned), number)
                        }
                    };
                    request.extensions = extensions(&info);
                    raw_ids.push(call.raw_id);
                    infos.push(info);
                    entries.push(Ok(BatchEntry::Call(request)));
                }
                Message::Notification(notice) => {
                    let info = post.info(None, notice.trace);
                    let mut notification = Notification::new(notice.method, notice.params.map(Cow::Borrowed));
                    notification.extensions = extensions(&info);
                    infos.push(info);
                    entries.push(Ok(BatchEntry::Notification(notification)));
                }
                Message::Response(_) => {}
                Message::Invalid(invalid) => {
                    raw_ids.push(invalid.raw_id.unwrap_or("null"));
                    let error = ErrorObjectOwned::from(&invalid.error);
                    entries.push(Err(BatchEntryErr::new(number, error)));
                }
            }
        }
        if entries.is_empty() {
            return None;
        }
        let response = self.batch(Batch::from(entries)).await;
        let answer =
            (!raw_ids.is_empty()).then(|| joined(response.as_json(), &raw_ids, self.max_result_bytes()));
        for info in infos {
            info.release();
        }
        answer.map(Bytes::from)
    }
}

/// The array with each client's id back in its place, bounded as a whole.
fn joined(array: &RawValue, raw_ids: &[&str], max_bytes: usize) -> Vec<u8> {
    let Ok(answers) = serde_json::from_str::<Vec<&RawValue>>(array.get()) else {
        return RpcError::internal("a batch answer that is no array").response("null");
    };
    let mut joined = vec![b'['];
    for (answer, raw_id) in answers.into_iter().zip(raw_ids) {
        if joined.len() > 1 {
            joined.push(b',');
        }
        let answer = splice_id(answer, raw_id);
        if joined.len() + answer.len() > max_bytes {
            joined.extend(RpcError::result_too_large(max_bytes).response(raw_id));
        } else {
            joined.extend(answer);
        }
    }
    joined.push(b']');
    joined
}

struct Post {
    origin: Arc<Origin>,
}

impl Post {
    fn info(&self, raw_id: Option<&str>, trace: Option<TraceContext>) -> Arc<CallInfo> {
        CallInfo::new(self.origin.clone(), None, raw_id, trace, CancellationToken::new())
    }
}

fn extensions(info: &Arc<CallInfo>) -> Extensions {
    let mut extensions = Extensions::new();
    extensions.insert(info.clone());
    extensions
}
