//! The activity state machine: pure decisions about a session's state and revision. No clock, no I/O.
//!
//! idle → running → (awaiting_input ⇄ running) → idle | failed. Every transition raises the revision by exactly one.

use signalbox_facts::{Activity, ActivityState, FailedReason, InputId, PendingInput, TurnId};

/// A turn opens. `None` while another one is open.
#[must_use]
pub fn open_turn(now: &Activity, turn_id: TurnId, prompt_request_id: Option<String>) -> Option<Activity> {
    (!now.is_open()).then(|| next(now, ActivityState::Running { turn_id, prompt_request_id }))
}

/// An input is parked. `None` when no turn is open: the agent must then be answered `cancelled`.
#[must_use]
pub fn park(now: &Activity, input: PendingInput) -> Option<Activity> {
    let (turn_id, prompt_request_id, mut pending) = open_parts(now)?;
    pending.push(input);
    pending.sort_by_key(|input| input.sequence);
    Some(next(now, ActivityState::AwaitingInput { turn_id, prompt_request_id, pending }))
}

/// An input has its answer. `None` when it is not pending.
#[must_use]
pub fn resolve(now: &Activity, input: InputId) -> Option<Activity> {
    let (turn_id, prompt_request_id, mut pending) = open_parts(now)?;
    let before = pending.len();
    pending.retain(|waiting| waiting.id != input);
    if pending.len() == before {
        return None;
    }
    Some(next(now, running_or_waiting(turn_id, prompt_request_id, pending)))
}

/// Everything that waits is cancelled at once. `None` when nothing waits.
#[must_use]
pub fn drain(now: &Activity) -> Option<Activity> {
    let (turn_id, prompt_request_id, pending) = open_parts(now)?;
    if pending.is_empty() {
        return None;
    }
    Some(next(now, ActivityState::Running { turn_id, prompt_request_id }))
}

/// The open turn ended well, or was interrupted by somebody. `None` when it is not this turn.
#[must_use]
pub fn finish(now: &Activity, turn: TurnId) -> Option<Activity> {
    (now.is_open() && now.turn() == Some(turn)).then(|| next(now, ActivityState::Idle))
}

/// The open turn failed. `None` when it is not this turn.
#[must_use]
pub fn fail(now: &Activity, turn: TurnId, reason: FailedReason, message: String) -> Option<Activity> {
    (now.is_open() && now.turn() == Some(turn))
        .then(|| next(now, ActivityState::Failed { turn_id: Some(turn), reason, message }))
}

fn next(now: &Activity, state: ActivityState) -> Activity {
    Activity { revision: now.revision + 1, state }
}

fn open_parts(now: &Activity) -> Option<(TurnId, Option<String>, Vec<PendingInput>)> {
    match &now.state {
        ActivityState::Running { turn_id, prompt_request_id } => {
            Some((*turn_id, prompt_request_id.clone(), Vec::new()))
        }
        ActivityState::AwaitingInput { turn_id, prompt_request_id, pending } => {
            Some((*turn_id, prompt_request_id.clone(), pending.clone()))
        }
        ActivityState::Idle | ActivityState::Failed { .. } => None,
    }
}

fn running_or_waiting(
    turn_id: TurnId,
    prompt_request_id: Option<String>,
    pending: Vec<PendingInput>,
) -> ActivityState {
    if pending.is_empty() {
        ActivityState::Running { turn_id, prompt_request_id }
    } else {
        ActivityState::AwaitingInput { turn_id, prompt_request_id, pending }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use signalbox_facts::InputKind;
    use uuid::Uuid;

    fn input(sequence: u64) -> PendingInput {
        PendingInput {
            id: InputId(Uuid::from_u128(u128::from(sequence))),
            kind: InputKind::Permission,
            title: "Run?".into(),
            options: Vec::new(),
            sequence,
            requested_at_ms: 0,
            item_seq: None,
            tool_call: None,
            tool_kind: None,
            command: None,
            cwd: None,
            locations: Vec::new(),
            reason: None,
            form: None,
        }
    }

    fn turn(n: u128) -> TurnId {
        TurnId(Uuid::from_u128(n))
    }

    #[test]
    fn two_inputs_answered_one_by_one() {
        let one = open_turn(&Activity::default(), turn(1), Some("r".into())).unwrap();
        let two = park(&one, input(1)).unwrap();
        let three = park(&two, input(2)).unwrap();
        let four = resolve(&three, input(1).id).unwrap();
        assert_eq!(four.pending(), [input(2)]);
        assert_eq!(resolve(&four, input(1).id), None, "a second answer changes nothing");
        let five = resolve(&four, input(2).id).unwrap();
        assert!(matches!(five.state, ActivityState::Running { .. }));
        let six = finish(&five, turn(1)).unwrap();
        assert_eq!((six.revision, six.state), (6, ActivityState::Idle));
    }

    #[test]
    fn cancelling_drains_everything_in_one_step() {
        let parked = park(&open_turn(&Activity::default(), turn(1), None).unwrap(), input(1)).unwrap();
        let parked = park(&parked, input(2)).unwrap();
        let running = drain(&parked).unwrap();
        assert_eq!((running.revision, running.pending().len()), (4, 0));
        assert_eq!(drain(&running), None);
    }

    #[test]
    fn an_old_turn_cannot_end_a_newer_one() {
        let first = finish(&open_turn(&Activity::default(), turn(1), None).unwrap(), turn(1)).unwrap();
        let second = open_turn(&first, turn(2), None).unwrap();
        assert_eq!(finish(&second, turn(1)), None);
        assert_eq!(fail(&second, turn(1), FailedReason::ProviderError, String::new()), None);
        assert_eq!(open_turn(&second, turn(3), None), None, "one open turn at most");
    }

    proptest! {
        /// Whatever happens, revisions rise by one and pending is empty unless the state is awaiting_input.
        #[test]
        fn revisions_never_skip_or_repeat(steps in prop::collection::vec((0u8..6, 0u64..4), 0..60)) {
            let mut now = Activity::default();
            for (step, n) in steps {
                let then = match step {
                    0 => open_turn(&now, turn(u128::from(n)), None),
                    1 => park(&now, input(n)),
                    2 => resolve(&now, input(n).id),
                    3 => drain(&now),
                    4 => finish(&now, turn(u128::from(n))),
                    _ => fail(&now, turn(u128::from(n)), FailedReason::ProviderError, "no".into()),
                };
                if let Some(then) = then {
                    prop_assert_eq!(then.revision, now.revision + 1);
                    let waiting = matches!(then.state, ActivityState::AwaitingInput { .. });
                    prop_assert_eq!(waiting, !then.pending().is_empty());
                    now = then;
                }
            }
        }
    }
}
