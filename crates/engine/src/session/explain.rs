//! A loaded session explains itself, from what its actor holds.

use tokio::sync::oneshot;

use super::actor::{Actor, LiveAgent, OpenTurn};
use crate::explain::{AgentReport, Explanation, Why};

impl Actor {
    /// Answers why the session moves or not. Whoever has stopped waiting is told nothing.
    pub(super) fn explain(&self, reply: oneshot::Sender<Explanation>, stalled: Option<Why>) {
        let explanation = Explanation {
            agent: self.agent.as_ref().map(|live| self.report(live)),
            waiting: (self.inbox.control.len(), self.inbox.work.len() + self.kept.len()),
            ..Explanation::of_row(&self.row, stalled.unwrap_or_else(|| self.why()))
        };
        reply.send(explanation).ok();
    }

    fn report(&self, live: &LiveAgent) -> AgentReport {
        AgentReport {
            pid: live.agent.pid(),
            provider: self.row.provider.clone(),
            started_at_ms: live.started_at_ms,
            heard_at_ms: live.heard_at_ms,
            ready: live.ready,
            stopping: live.agent.is_stopping(),
        }
    }

    fn why(&self) -> Why {
        if !self.checkout.is_free() {
            return Why::DiscardingWorktree;
        }
        match &self.turn {
            Some(turn) => self.why_of_turn(turn),
            None => match (&self.settling, &self.forking, &self.agent) {
                (Some(settling), _, _) => Why::Settling { since_ms: settling.since_ms },
                (None, Some(forking), _) => Why::Forking { since_ms: forking.since_ms },
                (None, None, Some(live)) if live.agent.is_stopping() => Why::StoppingAgent,
                (None, None, _) => Why::Idle,
            },
        }
    }

    fn why_of_turn(&self, turn: &OpenTurn) -> Why {
        let pending = self.row.activity.pending();
        if !pending.is_empty() {
            return Why::AwaitingInput { pending: pending.to_vec() };
        }
        if turn.cancelled {
            return Why::Interrupting;
        }
        let Some(live) = &self.agent else {
            return match self.restarts.waiting_until_ms {
                Some(at_ms) => Why::RestartingAgent { at_ms: Some(at_ms) },
                None => Why::Preparing,
            };
        };
        if live.agent.is_gone() {
            return Why::RestartingAgent { at_ms: None };
        }
        if !live.ready {
            return Why::StartingAgent {
                since_ms: live.started_at_ms,
                stage: live.agent.stage(),
                fetching: live.fetching.clone(),
                mcp_servers: live.mcp_servers.clone(),
            };
        }
        if !turn.prompting {
            return Why::Preparing;
        }
        if let Some(tool) = self.items.open_tool() {
            return Why::RunningTool {
                item_seq: tool.item,
                title: tool.title.to_owned(),
                kind: tool.kind.map(str::to_owned),
                since_ms: tool.since_ms,
                heard_at_ms: live.heard_at_ms,
            };
        }
        if turn.stopping {
            return Why::Steering;
        }
        Why::AwaitingAgent { since_ms: live.heard_at_ms }
    }
}
