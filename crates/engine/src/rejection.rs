//! How a declined Op is told on the Op/Event face: which event, for which session, terminal or not. Pure.
//!
//! | Op | declined | terminal | session | `request_id` |
//! | --- | --- | --- | --- | --- |
//! | cancel, answers | nothing is told | | | |
//! | new_session, import | `error` | yes | null | echoed |
//! | prompt, turn_input | `error` | yes, unless a turn is open or it may be taken later | as given | echoed |
//! | turn_input, queue_add with a `client_message_id` that was accepted before | `error`, `already_accepted` | no | as given | echoed |
//! | all others | `error` | no | as given | echoed where the Op has one |

use signalbox_facts::TurnId;
use signalbox_protocol::ops::{Event, Op};

use crate::submission::OpError;

/// What must be kept of an Op to tell that it was declined.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Declinable {
    session: Option<String>,
    request_id: Option<String>,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// Whatever is wrong with it changes nothing and is told to nobody.
    Silent,
    /// Makes a session; there is none that the error could name.
    Creation,
    /// A prompt.
    Prompt,
    /// Does not touch whether a turn runs.
    Other,
}

impl Declinable {
    pub(crate) fn of(op: &Op) -> Self {
        let kind = match op {
            Op::Cancel { .. } | Op::AnswerPermission { .. } | Op::AnswerElicitation { .. } => Kind::Silent,
            Op::NewSession(_) | Op::Import(_) => Kind::Creation,
            Op::Prompt { .. } | Op::TurnInput(_) => Kind::Prompt,
            _ => Kind::Other,
        };
        Self {
            session: op.session().map(str::to_owned),
            request_id: op.request_id().map(str::to_owned),
            kind,
        }
    }

    /// The event, if there is one. `turn_open` says whether a turn runs that a terminal error would seem to end.
    pub(crate) fn event(&self, error: &OpError, turn_open: bool) -> Option<Event> {
        let terminal = match self.kind {
            Kind::Silent => return None,
            Kind::Creation => true,
            Kind::Prompt => !turn_open && ends_the_prompt(error),
            Kind::Other => false,
        };
        Some(Event::Error {
            session: self.session.clone(),
            message: error.to_string(),
            terminal,
            request_id: self.request_id.clone(),
            reason: Some(error.reason().to_owned()),
        })
    }

    /// The same input was accepted before: nothing happens again, and whoever waits for an answer to this one gets it.
    pub(crate) fn repeated(&self, turn: TurnId) -> Event {
        Event::Error {
            session: self.session.clone(),
            message: format!("accepted before, as a part of turn {turn}"),
            terminal: false,
            request_id: self.request_id.clone(),
            reason: Some("already_accepted".to_owned()),
        }
    }
}

/// Clients take a terminal error as the end of the session's turn, so what is declined because of a turn is not terminal.
fn ends_the_prompt(error: &OpError) -> bool {
    !matches!(
        error,
        OpError::TurnActive(_)
            | OpError::NoActiveTurn { .. }
            | OpError::ActiveTurnMismatch { .. }
            | OpError::NotSteerable { .. }
            | OpError::Overloaded
            | OpError::QueueFull { .. }
            | OpError::Cancelled
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn declined(op: Value, error: &OpError, turn_open: bool) -> Option<Value> {
        let op: Op = serde_json::from_value(op).unwrap();
        let event = Declinable::of(&op).event(error, turn_open)?;
        let mut event = serde_json::to_value(event).unwrap();
        event.as_object_mut().unwrap().remove("message");
        Some(event)
    }

    #[test]
    fn every_row_of_the_table() {
        let gone = OpError::SessionNotFound("s".into());
        let busy = OpError::TurnActive(TurnId::generate());
        let full = OpError::StorageFailed("full".into());
        let error = |session: Value, terminal: bool, request_id: Option<&str>, reason: &str| {
            let mut event =
                json!({"event": "error", "session": session, "terminal": terminal, "reason": reason});
            if let Some(id) = request_id {
                event["request_id"] = id.into();
            }
            Some(event)
        };
        let prompt = json!({"op": "prompt", "session": "s", "doc": [], "request_id": "r"});
        let input = json!({"op": "turn_input", "session": "s", "doc": [], "request_id": "r"});
        let new = json!({"op": "new_session", "provider": "grok", "cwd": "", "use_worktree": false, "request_id": "r"});
        let policy = json!({"op": "set_execution_policy", "session": "s", "mode": "ask", "sandbox": "read_only", "request_id": "r"});
        let mode = json!({"op": "set_permission_mode", "session": "s", "mode": "ask"});
        let sandbox = json!({"op": "set_sandbox", "session": "s", "sandbox": "read_only"});
        let model = json!({"op": "set_model", "session": "s", "model": "m"});
        let option = json!({"op": "set_config_option", "session": "s", "config_id": "c", "value": "v"});
        let fork = json!({"op": "fork", "session": "s", "request_id": "r"});
        for op in [&prompt, &input] {
            assert_eq!(
                declined(op.clone(), &gone, false),
                error("s".into(), true, Some("r"), "thread_not_found")
            );
            assert_eq!(declined(op.clone(), &busy, true), error("s".into(), false, Some("r"), "turn_active"));
            assert_eq!(
                declined(op.clone(), &full, false),
                error("s".into(), true, Some("r"), "storage_failed")
            );
            assert_eq!(
                declined(op.clone(), &full, true),
                error("s".into(), false, Some("r"), "storage_failed")
            );
            let later = declined(op.clone(), &OpError::Overloaded, false);
            assert_eq!(later, error("s".into(), false, Some("r"), "server_overloaded"));
            let full_queue = OpError::QueueFull { entries: 1, bytes: 1 };
            assert_eq!(declined(op.clone(), &full_queue, false), later);
            let taken_back = declined(op.clone(), &OpError::Cancelled, false);
            assert_eq!(taken_back, error("s".into(), false, Some("r"), "cancelled"));
        }
        assert_eq!(declined(new, &full, false), error(Value::Null, true, Some("r"), "storage_failed"));
        for op in [policy, fork] {
            assert_eq!(declined(op, &gone, false), error("s".into(), false, Some("r"), "thread_not_found"));
        }
        for op in [mode, sandbox, model, option] {
            assert_eq!(declined(op, &gone, false), error("s".into(), false, None, "thread_not_found"));
        }
        let silent = [
            json!({"op": "cancel", "session": "s"}),
            json!({"op": "answer_permission", "session": "s", "request_id": "i", "option_id": null}),
            json!({"op": "answer_elicitation", "session": "s", "request_id": "i", "answer": {"action": "cancel"}}),
        ];
        for op in silent {
            assert_eq!(declined(op, &gone, false), None);
        }
    }
}
