//! Where a call's answer goes: straight into the outbox, or into the array of its batch.

use std::sync::Arc;

use bytes::Bytes;
use jsonrpsee::server::MethodResponse;
use parking_lot::Mutex;

use crate::context::CallInfo;
use crate::error::RpcError;
use crate::outgoing::{Frame, splice_id};
use crate::peer::Peer;

/// Where an answer goes.
#[derive(Debug, Clone)]
pub(crate) enum ReplyTo {
    /// A frame of its own.
    Frame,
    /// The given place in a batch's array.
    Batch(Arc<BatchReply>, usize),
}

/// The array of one batch while its entries are being answered.
#[derive(Debug)]
pub(crate) struct BatchReply {
    state: Mutex<BatchState>,
    max_bytes: usize,
}

#[derive(Debug)]
struct BatchState {
    answers: Vec<Option<Bytes>>,
    missing: usize,
    bytes: usize,
    /// The calls whose kept values are released when the array has been queued.
    calls: Vec<Arc<CallInfo>>,
}

impl BatchReply {
    /// An array of `entries` answers. Together they take at most `max_bytes`; an entry that would exceed it is
    /// answered `result_too_large`.
    pub(crate) fn new(entries: usize, max_bytes: usize) -> Arc<Self> {
        let state =
            BatchState { answers: vec![None; entries], missing: entries, bytes: 0, calls: Vec::new() };
        Arc::new(Self { state: Mutex::new(state), max_bytes })
    }

    /// Puts one answer in; queues the array if it was the last.
    fn put(&self, peer: &Peer, at: usize, raw_id: &str, mut answer: Bytes, call: Option<&Arc<CallInfo>>) {
        let finished = {
            let mut state = self.state.lock();
            if state.bytes + answer.len() > self.max_bytes {
                answer = RpcError::result_too_large(self.max_bytes).response(raw_id).into();
            }
            state.bytes += answer.len();
            state.calls.extend(call.cloned());
            if state.answers[at].replace(answer).is_none() {
                state.missing -= 1;
            }
            (state.missing == 0)
                .then(|| (std::mem::take(&mut state.answers), std::mem::take(&mut state.calls), state.bytes))
        };
        let Some((answers, calls, bytes)) = finished else { return };
        let mut array = Vec::with_capacity(bytes + answers.len() + 2);
        array.push(b'[');
        for answer in answers.into_iter().flatten() {
            if array.len() > 1 {
                array.push(b',');
            }
            array.extend_from_slice(&answer);
        }
        array.push(b']');
        send(peer, array.into());
        for call in calls {
            call.release();
        }
    }
}

impl ReplyTo {
    /// Answers a call with what its handler made.
    pub(crate) fn respond(&self, peer: &Peer, call: &Arc<CallInfo>, response: MethodResponse) {
        let success = response.is_success();
        let (json, notify, _) = response.into_parts();
        let raw_id = call.raw_id.as_deref().unwrap_or("null");
        self.put(peer, raw_id, splice_id(&json, raw_id).into(), Some(call));
        if let Some(notify) = notify {
            notify.notify(success);
        }
    }

    /// Answers a call that got no further, or a frame that was none.
    pub(crate) fn refuse(&self, peer: &Peer, raw_id: Option<&str>, error: &RpcError) {
        let raw_id = raw_id.unwrap_or("null");
        self.put(peer, raw_id, error.response(raw_id).into(), None);
    }

    fn put(&self, peer: &Peer, raw_id: &str, answer: Bytes, call: Option<&Arc<CallInfo>>) {
        match self {
            Self::Frame => {
                send(peer, answer);
                if let Some(call) = call {
                    call.release();
                }
            }
            Self::Batch(batch, at) => batch.put(peer, *at, raw_id, answer, call),
        }
    }
}

fn send(peer: &Peer, answer: Bytes) {
    // Answers are never dropped or refused; if the connection has ended there is nobody to tell.
    let _ = peer.push(Frame::answer(answer));
}
