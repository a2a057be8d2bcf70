//! Takes the messages of one connection, one after the other, and answers those that ask for something.

use signalbox_engine::{Attending, Engine, transcript};
use signalbox_protocol::ops::{ClientRequest, Incoming, Op, Problem, ServerFrame, Undecodable, decode};
use signalbox_rpc::Role;
use tokio_util::sync::CancellationToken;

use super::queue::QueueReceiver;
use super::{Inbound, OpsClient, OpsLimits, Outbox, list, tell};
use crate::access::AuditEvent;

pub(super) struct Worker {
    pub(super) engine: Engine,
    pub(super) outbox: Outbox,
    pub(super) limits: OpsLimits,
    pub(super) client: OpsClient,
    pub(super) _attending: Option<Attending>,
}

impl Worker {
    /// Runs until the input has ended, or the connection is over: the engine is gone, or nobody reads.
    pub(super) async fn run(self, mut inbox: QueueReceiver<Inbound>, over: CancellationToken) {
        loop {
            let next = tokio::select! {
                biased;
                () = over.cancelled() => return,
                next = inbox.recv() => next,
            };
            let Some(message) = next else { return };
            self.take(&message).await;
        }
    }

    async fn take(&self, message: &Inbound) {
        match self.read(message) {
            Ok(Incoming::Op(op)) => self.submit(op).await,
            Ok(Incoming::Request(request)) => {
                let frame = self.answer(request).await;
                tell(&self.outbox, &frame).await;
            }
            Err(undecodable) => {
                tracing::debug!(problem = %undecodable.problem, "a message of the event socket is neither op nor request");
                tell(&self.outbox, &undecodable.frame()).await;
            }
        }
    }

    fn read(&self, message: &Inbound) -> Result<Incoming, Undecodable> {
        let limit = self.limits.text_bytes;
        match message {
            Inbound::Text(text) if text.len() <= limit => decode(text),
            Inbound::Text(text) => Err(Problem::TooLarge { bytes: text.len(), limit }.into()),
            Inbound::TooLarge { bytes } => Err(Problem::TooLarge { bytes: *bytes, limit }.into()),
            Inbound::Binary => Err(Problem::NotText.into()),
        }
    }

    /// Hands an op to the core. What becomes of it is told by events, to everybody.
    async fn submit(&self, op: Op) {
        if self.client.role == Role::Observer {
            let request_id = op.request_id().map(str::to_owned);
            let message = format!("an observer reads; op `{}` needs an operator", op.name());
            return tell(&self.outbox, &ServerFrame::Error { message, request_id }).await;
        }
        if op.says_what_is_started() && self.client.role < Role::Owner {
            let request_id = op.request_id().map(str::to_owned);
            let message = "`launch` says which programs the server starts; it needs an owner".to_owned();
            return tell(&self.outbox, &ServerFrame::Error { message, request_id }).await;
        }
        self.note(&op);
        self.engine.dispatch_op(op, self.client.origin.clone()).await;
    }

    /// An answer to an approval is noted when it is handed on; whether it was the first is told by the event.
    fn note(&self, op: &Op) {
        let (approval, detail) = match op {
            Op::AnswerPermission { request_id, option_id, .. } => (request_id, option_id.as_deref()),
            Op::AnswerElicitation { request_id, .. } => (request_id, None),
            _ => return,
        };
        self.client.audit.note(&AuditEvent {
            event: "approval_answer_sent",
            who: self.client.origin.client.as_deref(),
            role: Some(self.client.role.name()),
            thread: op.session(),
            approval: Some(approval),
            detail,
            ..AuditEvent::default()
        });
    }

    async fn answer(&self, request: ClientRequest) -> ServerFrame {
        match request {
            ClientRequest::Sessions => list::frame(self.engine.reader(), self.limits.listed).await,
            ClientRequest::Transcript { session, before, limit, request_id } => {
                let reader = match session.parse() {
                    Ok(session) => self.engine.reader_of(session),
                    // It is in no store; which one says so makes no difference.
                    Err(_) => self.engine.reader().clone(),
                };
                match transcript::page(&reader, &session, before, limit).await {
                    Ok(page) => ServerFrame::Transcript {
                        session,
                        request_id,
                        entries: page.entries,
                        next_before: page.next_before,
                        snapshot_through: page.snapshot_through,
                    },
                    Err(error) => {
                        if !matches!(error, transcript::TranscriptError::InvalidCursor { .. }) {
                            tracing::error!(session, %error, "a page of a transcript cannot be read");
                        }
                        ServerFrame::TranscriptError { session, request_id, message: error.to_string() }
                    }
                }
            }
        }
    }
}
