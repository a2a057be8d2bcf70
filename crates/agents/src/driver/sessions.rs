//! The agent's own sessions: listed, deleted, opened by an agent that was started without one, closed before it stops.

use serde_json::Value;
use tokio::time::Instant;

use super::conversation::{Call, Conversation, Phase};
use crate::decode::{self, RpcError};
use crate::event::{AgentEvent, AgentFailure, FailureReason};
use crate::handle::{Request, Token};
use crate::spec::OpenSession;

impl Conversation {
    /// The agent has introduced itself and was asked for no session.
    pub(super) fn met(&mut self, now: Instant) {
        self.phase = Phase::Met;
        self.out.push((AgentEvent::Met(Box::new(self.info.clone())), 1024));
        self.pump(now);
    }

    /// Whether the next request can be done without a session.
    pub(super) fn needs_no_session(&self) -> bool {
        matches!(self.phase, Phase::Met)
            && matches!(
                self.queue.front(),
                Some(Request::List(..) | Request::DeleteSession(..) | Request::Open(_))
            )
    }

    /// Opens a session for an agent that has none.
    pub(super) fn open_now(&mut self, open: OpenSession, now: Instant) {
        if matches!(self.phase, Phase::Met) {
            self.masks.add_servers(&open);
            self.open = open;
            self.open_session(now);
        }
    }

    pub(super) fn start_listing(
        &mut self,
        token: Token,
        cwd: Option<&std::path::Path>,
        cursor: Option<&str>,
        now: Instant,
    ) {
        if !self.hello.list {
            let failure = self.cannot("list its sessions");
            return self.listed(token, Err(failure));
        }
        let until = now + self.limits.session;
        self.call(Call::List { token, until }, |wire, id| wire.list_sessions(id, cwd, cursor));
    }

    pub(super) fn start_deletion(&mut self, token: Token, session: &str, now: Instant) {
        if !self.hello.delete {
            let failure = self.cannot("delete its sessions");
            return self.session_deleted(token, Err(failure));
        }
        let until = now + self.limits.session;
        self.call(Call::DeleteSession { token, until }, |wire, id| wire.delete_session(id, session));
    }

    pub(super) fn listing_answered(&mut self, token: Token, result: Result<Value, RpcError>) {
        let result = match result {
            Ok(page) => Ok(decode::session_page(page)),
            Err(error) => Err(Box::new(self.failure_of("session/list", error))),
        };
        self.listed(token, result);
    }

    pub(super) fn deletion_answered(&mut self, token: Token, result: Result<Value, RpcError>) {
        let result = match result {
            Ok(_) => Ok(()),
            Err(error) => Err(Box::new(self.failure_of("session/delete", error))),
        };
        self.session_deleted(token, result);
    }

    fn cannot(&self, what: &str) -> Box<AgentFailure> {
        let message = format!("{} cannot {what}", self.info.name);
        Box::new(AgentFailure::new(FailureReason::AgentFailed, message))
    }

    pub(super) fn listed(
        &mut self,
        token: Token,
        result: Result<crate::listed::SessionPage, Box<AgentFailure>>,
    ) {
        self.out.push((AgentEvent::Listed { token, result }, 1024));
    }

    pub(super) fn session_deleted(&mut self, token: Token, result: Result<(), Box<AgentFailure>>) {
        self.out.push((AgentEvent::SessionDeleted { token, result }, 0));
    }

    /// Gives up what the agent does not answer.
    pub(super) fn expire_listings(&mut self, now: Instant) {
        let over = |call: &Call| match call {
            Call::List { until, .. } | Call::DeleteSession { until, .. } => now >= *until,
            _ => false,
        };
        let ids: Vec<u64> = self.calls.iter().filter(|(_, call)| over(call)).map(|(id, _)| *id).collect();
        for call in ids.into_iter().filter_map(|id| self.calls.remove(&id)).collect::<Vec<_>>() {
            let seconds = self.limits.session.as_secs_f32();
            let message = format!("{} did not answer within {seconds} s", self.info.name);
            self.listing_lost(&call, &AgentFailure::new(FailureReason::AgentTimeout, message));
        }
    }

    /// There will be no answer to this call.
    pub(super) fn listing_lost(&mut self, call: &Call, why: &AgentFailure) {
        match call {
            Call::List { token, .. } => self.listed(*token, Err(Box::new(why.clone()))),
            Call::DeleteSession { token, .. } => self.session_deleted(*token, Err(Box::new(why.clone()))),
            _ => {}
        }
    }

    /// This request is not made.
    pub(super) fn request_lost(&mut self, request: Request, why: &AgentFailure) {
        match request {
            Request::List(token, _) => self.listed(token, Err(Box::new(why.clone()))),
            Request::DeleteSession(token, _) => self.session_deleted(token, Err(Box::new(why.clone()))),
            _ => {}
        }
    }

    /// Tells an agent that is about to be stopped in good order that its session is not used any more, so that it can put
    /// away what it holds of it.
    pub(super) fn close_session(&mut self) {
        if let Some(session) = self.session.clone().filter(|_| self.hello.close && self.is_ready()) {
            self.call(Call::CloseOwn, |wire, id| wire.close_session(id, &session));
        }
    }

    /// Whether the agent still puts its session away.
    pub(super) fn is_closing_session(&self) -> bool {
        self.calls.values().any(|call| matches!(call, Call::CloseOwn))
    }
}
