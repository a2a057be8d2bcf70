//! Which Op of a session goes where: one line each. What they do is in the files beside this one.

use signalbox_facts::{Policy as FactPolicy, SubmissionId};
use signalbox_protocol::ops::{Op, Policy, TurnInput, TurnMode};

use super::actor::Actor;
use super::approvals::Choice;
use crate::convert;
use crate::submission::{Accepted, OpError, Submission};

/// Whether an Op is taken before all work. Such an Op never waits for an agent.
pub(crate) fn is_control(op: &Op) -> bool {
    matches!(
        op,
        Op::Cancel { .. }
            | Op::AnswerPermission { .. }
            | Op::AnswerElicitation { .. }
            | Op::SetExecutionPolicy { .. }
            | Op::SetPermissionMode { .. }
            | Op::SetSandbox { .. }
            | Op::Delete { .. }
    )
}

impl Actor {
    pub(super) async fn control(&mut self, submission: Box<Submission>) {
        let Submission { id, op, origin, interrupt, reply, .. } = *submission;
        let interrupt = interrupt.then_some(id);
        if origin.env.is_some() {
            self.env.clone_from(&origin.env);
        }
        let decision = match op {
            Op::Cancel { turn, .. } => self.cancel_all(id, turn).await,
            Op::AnswerPermission { request_id, option_id, for_session, message, decline, .. } => {
                let by = origin.resolved_by();
                let choice = Choice { option_id, for_session, message, decline };
                self.answer_permission(&request_id, choice, interrupt, by).await
            }
            Op::AnswerElicitation { request_id, answer, .. } => {
                self.answer_elicitation(&request_id, answer, interrupt, origin.resolved_by()).await
            }
            Op::SetExecutionPolicy { mode, sandbox, request_id, .. } => {
                self.set_policy(convert::policy_in(Policy { mode, sandbox, never_ask: false }), request_id)
                    .await
            }
            Op::SetPermissionMode { mode, .. } => {
                let policy = FactPolicy { mode: convert::mode_in(mode), ..self.row.policy };
                self.set_policy(policy, None).await
            }
            Op::SetSandbox { sandbox, .. } => {
                let policy = FactPolicy { sandbox: convert::sandbox_in(sandbox), ..self.row.policy };
                self.set_policy(policy, None).await
            }
            Op::Delete { .. } => return self.delete(reply).await,
            other => Err(OpError::Unsupported(other.name())),
        };
        self.decided(reply, decision);
    }

    /// Interrupts the turn and takes back what was submitted before and is not accepted yet.
    async fn cancel_all(&mut self, id: SubmissionId, turn: Option<String>) -> Result<Accepted, OpError> {
        match self.cancel(turn).await? {
            // What was interrupted had not even begun; that is no less than was asked.
            Accepted::Interrupting { turn: None } if self.drop_waiting_prompts(id) > 0 => {
                Ok(Accepted::Applied)
            }
            accepted => {
                self.drop_waiting_prompts(id);
                Ok(accepted)
            }
        }
    }

    pub(super) async fn work(&mut self, submission: Box<Submission>) {
        if self.waits_for_end(&submission.op) {
            // What comes after it waits behind it, so that the order holds.
            self.kept.push_front(submission);
            return;
        }
        let Submission { op, origin, session, reply, .. } = *submission;
        if origin.env.is_some() {
            self.env.clone_from(&origin.env);
        }
        let decision = match op {
            // These answer for themselves: sooner than they are done, or much later.
            Op::Prompt { session, doc, request_id } => {
                let input = TurnInput { mode: TurnMode::Start, request_id, ..TurnInput::new(session, doc) };
                return self.turn_input(input, origin, reply).await;
            }
            Op::TurnInput(input) => return self.turn_input(input, origin, reply).await,
            Op::Compact { request_id, .. } => return self.compact(request_id, origin, reply).await,
            Op::SetModel { model, .. } => return self.set_model(model, reply).await,
            Op::SetConfigOption { config_id, value, .. } => {
                return self.set_option(config_id, value, reply).await;
            }
            Op::Fork { .. } => return self.fork(op, &origin, session, reply).await,
            Op::DiscardWorktree { force, .. } => return self.discard_worktree(force, reply),
            Op::ThreadSettings { settings, request_id, .. } => {
                self.thread_settings(settings, request_id).await
            }
            Op::RemoveRule { rule, .. } => self.remove_rule(rule).await,
            Op::QueueAdd { session, doc, client_message_id, client_metadata, request_id } => {
                let input = TurnInput {
                    client_message_id,
                    client_metadata,
                    request_id,
                    ..TurnInput::new(session, doc)
                };
                self.queue_add(input, &origin).await
            }
            Op::QueueEdit { queued, doc, client_metadata, request_id, .. } => {
                self.queue_edit(&queued, convert::doc_in(doc), client_metadata, request_id).await
            }
            Op::QueueRemove { queued, request_id, .. } => self.queue_remove(&queued, request_id).await,
            Op::QueueMove { order, request_id, .. } => self.queue_move(&order, request_id).await,
            Op::Revert { before_turn, request_id, .. } => self.revert(&before_turn, request_id).await,
            Op::Rename { title, .. } => self.rename(title).await,
            Op::Archive { .. } => self.archive(true).await,
            Op::Unarchive { .. } => self.archive(false).await,
            other => Err(OpError::Unsupported(other.name())),
        };
        self.decided(reply, decision);
    }
}
