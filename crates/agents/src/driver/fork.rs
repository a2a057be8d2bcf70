//! A copy of the conversation, which the agent makes for another process to go on with.

use serde_json::Value;
use tokio::time::Instant;

use super::conversation::{Call, Conversation};
use crate::decode;
use crate::decode::RpcError;
use crate::event::{AgentEvent, RefusedSetting};
use crate::handle::{ForkRequest, Token};

impl Conversation {
    /// Asks for a copy.
    pub(super) fn start_fork(&mut self, token: Token, wish: ForkRequest, now: Instant) {
        if !self.hello.fork {
            return self
                .forked(token, Err(RefusedSetting::NotOffered("a copy of its conversation".to_owned())));
        }
        let until = now + self.limits.fork;
        let session = self.session.clone().unwrap_or_default();
        let roots = if self.hello.roots { wish.roots } else { Vec::new() };
        let servers = self.open.mcp_servers.clone();
        self.call(Call::Fork { token, until }, |wire, id| {
            wire.fork_session(id, &session, &wish.cwd, &roots, servers)
        });
    }

    pub(super) fn fork_answered(&mut self, token: Token, until: Instant, result: Result<Value, RpcError>) {
        let copy = match result {
            Ok(result) => result["sessionId"]
                .as_str()
                .filter(|id| !id.is_empty() && id.len() <= decode::ID_BYTES)
                .map(str::to_owned),
            Err(error) => return self.forked(token, Err(RefusedSetting::Refused(error.message))),
        };
        match copy.filter(|copy| self.session.as_ref() != Some(copy)) {
            // Some agents let one process at a time write to a conversation, and this one has the copy open.
            Some(copy) if self.hello.close => {
                let close = Call::CloseCopy { token, copy: copy.clone(), until };
                self.call(close, |wire, id| wire.close_session(id, &copy));
            }
            Some(copy) => self.forked(token, Ok(copy)),
            None => {
                let message = "it told no id of the copy".to_owned();
                self.forked(token, Err(RefusedSetting::Refused(message)));
            }
        }
    }

    pub(super) fn forked(&mut self, token: Token, result: Result<String, RefusedSetting>) {
        self.out.push((AgentEvent::Forked { token, result }, 0));
    }

    /// Gives up what the agent does not answer. A copy that could not be closed is a copy all the same.
    pub(super) fn expire_forks(&mut self, now: Instant) {
        let over = |call: &Call| match call {
            Call::Fork { until, .. } | Call::CloseCopy { until, .. } => now >= *until,
            _ => false,
        };
        let ids: Vec<u64> = self.calls.iter().filter(|(_, call)| over(call)).map(|(id, _)| *id).collect();
        for call in ids.into_iter().filter_map(|id| self.calls.remove(&id)).collect::<Vec<_>>() {
            self.fork_lost(call, RefusedSetting::NoAnswer);
        }
    }

    /// There will be no answer to this call.
    pub(super) fn fork_lost(&mut self, call: Call, why: RefusedSetting) {
        match call {
            Call::Fork { token, .. } => self.forked(token, Err(why)),
            Call::CloseCopy { token, copy, .. } => self.forked(token, Ok(copy)),
            _ => {}
        }
    }
}
