//! Transcripts: pages and live rows become one history, without gap and without repetition.

use serde_json::{Value, json};

use super::*;
use crate::ops::{BUFFERED_MAX, Older, Phase, Want};

pub(super) fn page_of(
    request: &ClientRequest,
    entries: Value,
    next: Option<u64>,
    through: Option<u64>,
) -> ServerFrame {
    let ClientRequest::Transcript { session, request_id, .. } = request else { panic!("not a page") };
    frame(json!({"kind": "transcript", "session": session, "request_id": request_id, "entries": entries,
        "next_before": next, "snapshot_through": through}))
}

fn prompt(seq: u64, text: &str) -> Value {
    json!({"seq": seq, "role": "user", "part": {"kind": "prompt", "text": text, "display": text}})
}

fn says(seq: u64, text: &str) -> Value {
    json!({"seq": seq, "role": "agent", "part": {"kind": "text", "text": text}})
}

fn live(state: &mut State, seq: u64, text: &str) {
    tells(
        state,
        json!({"event": "agent_text", "session": "s", "message_id": "m", "text": text, "transcript_seq": seq}),
    );
}

fn transcript(state: &State) -> &crate::ops::Transcript {
    state.sessions["s"].transcript.as_ref().unwrap()
}

/// A state whose transcript of `s` is this page.
fn opened(entries: Value, next: Option<u64>, through: Option<u64>) -> State {
    let mut state = State::default();
    lists(&mut state, &[("s", idle(0))]);
    let page = state.ask_transcript("s", None, "page-1");
    state.apply(page_of(&page, entries, next, through));
    assert_eq!(transcript(&state).phase, Phase::Live);
    state
}

#[test]
fn rows_of_a_history_nobody_asked_for_are_not_kept() {
    let mut state = State::default();
    live(&mut state, 1, "a");
    assert_eq!(state.sessions["s"].transcript, None);
}

#[test]
fn live_rows_are_held_back_until_the_page_is_there_and_only_newer_ones_are_applied() {
    let mut state = State::default();
    let page = state.ask_transcript("s", None, "page-1");
    assert_eq!(
        page,
        ClientRequest::Transcript {
            session: "s".into(),
            before: None,
            limit: None,
            request_id: Some("page-1".into())
        }
    );
    live(&mut state, 2, "b");
    live(&mut state, 3, "c");
    live(&mut state, 4, "d");
    assert!(transcript(&state).turns.is_empty());
    state.apply(page_of(
        &page,
        json!([prompt(0, "go"), says(1, "a"), says(2, "b"), says(3, "c")]),
        None,
        Some(3),
    ));
    live(&mut state, 4, "d");
    live(&mut state, 5, "e");
    assert_eq!(story(&state, "s"), ["| go", "says abcde"]);
    assert_eq!((transcript(&state).through, transcript(&state).older), (Some(5), Older::End));
}

#[test]
fn rows_without_a_sequence_are_taken_as_they_come() {
    let mut state = opened(json!([prompt(0, "go")]), None, Some(0));
    let text = json!({"event": "agent_text", "session": "s", "message_id": "", "text": "x"});
    tells(&mut state, text.clone());
    tells(&mut state, text);
    live(&mut state, 1, "y");
    assert_eq!(story(&state, "s"), ["| go", "says xxy"]);
}

#[test]
fn older_pages_are_put_before_the_others_by_their_cursor() {
    let mut state = opened(json!([prompt(20, "c")]), Some(20), Some(21));
    let older = state.ask_older("s", Some(5), "page-2").unwrap();
    assert_eq!(
        older,
        ClientRequest::Transcript {
            session: "s".into(),
            before: Some(20),
            limit: Some(5),
            request_id: Some("page-2".into())
        }
    );
    assert_eq!(state.ask_older("s", Some(5), "page-3"), None, "one at a time");
    live(&mut state, 22, "new");
    // The reader of the older page may have seen more than has arrived here; that says nothing about the end.
    state.apply(page_of(&older, json!([prompt(10, "b"), says(11, "b!")]), Some(10), Some(40)));
    live(&mut state, 23, "er");
    assert_eq!(story(&state, "s"), ["| b", "says b!", "| c", "says newer"]);
    let older = state.ask_older("s", None, "page-4").unwrap();
    state.apply(page_of(&older, json!([says(0, "hi"), prompt(1, "a")]), None, Some(40)));
    assert_eq!(story(&state, "s"), ["| says hi", "| a", "| b", "says b!", "| c", "says newer"]);
    assert_eq!(state.ask_older("s", None, "page-5"), None, "there is no more");
}

#[test]
fn replies_nobody_waits_for_are_no_part_of_the_history() {
    let mut state = State::default();
    let first = state.ask_transcript("s", None, "page-1");
    let second = state.ask_transcript("s", None, "page-2");
    assert_eq!(state.apply(page_of(&first, json!([prompt(0, "old")]), None, Some(0))), []);
    state.apply(page_of(&second, json!([prompt(0, "go")]), None, Some(0)));
    state.apply(page_of(&second, json!([prompt(0, "again")]), None, Some(0)));
    state.apply(frame(json!({"kind": "transcript", "session": "s", "entries": [], "next_before": null, "snapshot_through": null})));
    state.apply(frame(json!({"kind": "transcript", "session": "else", "request_id": "page-2", "entries": [], "next_before": null, "snapshot_through": null})));
    assert_eq!(story(&state, "s"), ["| go"]);
}

#[test]
fn calls_are_merged_by_id_within_a_turn_and_keep_what_was_seen_before() {
    let mut state = opened(json!([prompt(0, "go")]), None, Some(0));
    let call = |seq: u64, mut fields: Value| {
        fields["event"] = json!("tool_call");
        fields["session"] = json!("s");
        fields["id"] = json!("c");
        fields["transcript_seq"] = json!(seq);
        fields
    };
    tells(
        &mut state,
        call(
            1,
            json!({"title": "Explore", "status": "pending", "kind": "agent", "agent_input": {"agent_type": "explorer"}}),
        ),
    );
    tells(&mut state, call(2, json!({"title": "", "status": "in_progress"})));
    tells(&mut state, call(3, json!({"title": "  ", "status": "completed"})));
    let Item::ToolCall { seq, title, status, kind, agent_input, .. } = &transcript(&state).turns[0].items[1]
    else {
        panic!()
    };
    assert_eq!(
        (*seq, title.as_str(), status.as_str(), kind.as_deref()),
        (Some(1), "Explore", "completed", Some("agent"))
    );
    assert_eq!(agent_input.as_ref().unwrap()["agent_type"], "explorer");

    tells(
        &mut state,
        call(
            4,
            json!({"title": "Explore more", "status": "failed", "kind": "other", "agent_input": {"role": "x"}}),
        ),
    );
    assert_eq!(story(&state, "s"), ["| go", "Explore more failed other"]);

    tells(&mut state, json!({"event": "turn_started", "session": "s", "transcript_seq": 5}));
    tells(&mut state, call(6, json!({"title": "Again", "status": "pending"})));
    assert_eq!(
        story(&state, "s")[2..],
        ["| (unknown)", "Again pending -"],
        "in another turn the id is another call's"
    );
}

#[test]
fn rows_of_a_page_and_live_rows_of_one_call_are_one_call() {
    let entries = json!([prompt(0, "go"), {"seq": 1, "role": "agent", "part": {"kind": "tool_call", "id": "c", "title": "Edit", "status": "pending", "tool_kind": "edit"}}]);
    let mut state = opened(entries, None, Some(1));
    tells(
        &mut state,
        json!({"event": "tool_call", "session": "s", "id": "c", "title": "", "status": "completed", "transcript_seq": 2}),
    );
    assert_eq!(story(&state, "s"), ["| go", "Edit completed edit"]);
}

#[test]
fn chunks_join_over_updates_of_calls_and_end_at_the_next_item() {
    let mut state = opened(json!([prompt(0, "go")]), None, Some(0));
    let event = |seq: u64, mut fields: Value| {
        fields["session"] = json!("s");
        fields["transcript_seq"] = json!(seq);
        fields
    };
    for (seq, fields) in [
        json!({"event": "agent_thought", "text": "h"}),
        json!({"event": "agent_thought", "text": "m"}),
        json!({"event": "tool_call", "id": "c", "title": "Run", "status": "pending"}),
        json!({"event": "agent_text", "message_id": "m1", "text": "Hel"}),
        json!({"event": "tool_call", "id": "c", "title": "", "status": "completed"}),
        json!({"event": "agent_text", "message_id": "m1", "text": "lo"}),
        json!({"event": "agent_text", "message_id": "m2", "text": "Bye"}),
        json!({"event": "plan", "entries": ["one"]}),
        json!({"event": "agent_text", "message_id": "m3", "text": "!"}),
        json!({"event": "plan", "entries": ["one", "two"]}),
    ]
    .into_iter()
    .enumerate()
    {
        tells(&mut state, event(seq as u64 + 1, fields));
    }
    assert_eq!(
        story(&state, "s"),
        ["| go", "thinks hm", "Run completed -", "says Hello", "says Bye", "plans one, two", "says !"]
    );
}

#[test]
fn compacted_rows_cover_what_they_stand_for() {
    let compacted =
        json!({"seq": 1, "role": "agent", "through_seq": 7, "part": {"kind": "text", "text": "abc"}});
    let mut state = State::default();
    let page = state.ask_transcript("s", None, "page-1");
    live(&mut state, 7, "c");
    live(&mut state, 8, "d");
    state.apply(page_of(&page, json!([prompt(0, "go"), compacted]), None, Some(7)));
    let [_, Item::Text { seq, through_seq, text, .. }] = &transcript(&state).turns[0].items[..] else {
        panic!()
    };
    assert_eq!((*seq, *through_seq, text.as_str()), (Some(1), Some(8), "abcd"));
}

#[test]
fn prompts_of_every_age_open_turns_and_steering_ones_continue_them() {
    let state = opened(
        json!([
            says(0, "preamble"),
            {"seq": 1, "role": "user", "part": {"kind": "text", "text": "legacy"}},
            says(2, "yes"),
            prompt(3, "go"),
            {"seq": 4, "role": "user", "part": {"kind": "prompt", "text": "left", "display": "left"}, "continues": true},
            says(5, "ok"),
        ]),
        None,
        Some(5),
    );
    assert_eq!(story(&state, "s"), ["| says preamble", "| legacy", "says yes", "| go", "> left", "says ok"]);
}

#[test]
fn a_steered_prompt_continues_the_live_turn() {
    let mut state = opened(json!([]), None, None);
    tells(&mut state, json!({"event": "turn_started", "session": "s", "transcript_seq": 1}));
    tells(
        &mut state,
        json!({"event": "prompt_steered", "session": "s", "turn_id": "t", "transcript_seq": 2}),
    );
    assert_eq!(story(&state, "s"), ["| (unknown)", "> (unknown)"]);
}

/// Two live turns, `t1` with sequences 2 and 3, `t2` with 5 and 6, after a page with one turn.
fn two_live_turns() -> State {
    let mut state = opened(json!([prompt(0, "old")]), Some(0), Some(1));
    for (turn, seq, revision) in [("t1", 2, 1), ("t2", 5, 3)] {
        does(&mut state, "s", running(revision, turn));
        tells(&mut state, json!({"event": "turn_started", "session": "s", "transcript_seq": seq}));
        live(&mut state, seq + 1, turn);
        does(&mut state, "s", idle(revision + 1));
    }
    state
}

#[test]
fn reverted_turns_are_no_longer_part_of_the_history() {
    let mut state = two_live_turns();
    tells(
        &mut state,
        json!({"event": "session_reverted", "session": "s", "before_turn": "t1", "through_seq": 8}),
    );
    assert_eq!(story(&state, "s"), ["| old"]);
    live(&mut state, 7, "late");
    tells(&mut state, json!({"event": "turn_started", "session": "s", "transcript_seq": 9}));
    assert_eq!(story(&state, "s"), ["| old", "| (unknown)"]);
    assert_eq!(state.wants(), []);
}

#[test]
fn a_revert_to_a_turn_whose_start_was_not_seen_asks_for_a_page() {
    let mut state = two_live_turns();
    tells(
        &mut state,
        json!({"event": "session_reverted", "session": "s", "before_turn": "t0", "through_seq": 8}),
    );
    assert_eq!(state.wants(), [Want::Transcript("s".into())]);
    tells(&mut state, json!({"event": "turn_started", "session": "s", "transcript_seq": 9}));
    let page = state.ask_transcript("s", None, "page-2");
    state.apply(page_of(&page, json!([]), None, Some(8)));
    assert_eq!(story(&state, "s"), ["| (unknown)"]);
}

#[test]
fn a_revert_while_a_page_is_awaited_counts_only_if_the_page_is_older() {
    for (through, left) in [(7, vec!["| old"]), (8, vec!["| old", "| new"])] {
        let mut state = two_live_turns();
        let page = state.ask_transcript("s", None, "page-2");
        tells(
            &mut state,
            json!({"event": "session_reverted", "session": "s", "before_turn": "t1", "through_seq": 8}),
        );
        let entries = if through == 7 {
            json!([prompt(2, "a"), says(3, "t1"), prompt(5, "b")])
        } else {
            json!([prompt(0, "old"), prompt(9, "new")])
        };
        let through = if through == 7 { 7 } else { 9 };
        state.apply(page_of(&page, entries, Some(0), Some(through)));
        assert_eq!(story(&state, "s"), left);
    }
}

#[test]
fn a_page_that_does_not_reach_what_is_here_takes_its_place() {
    let mut state = opened(json!([prompt(0, "a")]), None, Some(1));
    state.apply(frame(json!({"kind": "lagged", "missed": 9})));
    let page = state.ask_transcript("s", Some(1), "page-2");
    state.apply(page_of(&page, json!([prompt(8, "c")]), Some(8), Some(9)));
    assert_eq!(story(&state, "s"), ["| c"], "the turn between the two is not known");
    assert_eq!(transcript(&state).older, Older::Before(8));
}

#[test]
fn a_page_that_reaches_what_is_here_goes_on_from_it() {
    let mut state = opened(json!([prompt(0, "a"), says(1, "half")]), None, Some(1));
    state.apply(frame(json!({"kind": "lagged", "missed": 9})));
    live(&mut state, 9, "!");
    assert_eq!(story(&state, "s"), ["| a", "says half"], "nothing is added to a history with a hole");
    let page = state.ask_transcript("s", Some(2), "page-2");
    state.apply(page_of(
        &page,
        json!([prompt(0, "a"), says(1, "half"), says(2, " whole"), prompt(5, "b")]),
        None,
        Some(8),
    ));
    assert_eq!(story(&state, "s"), ["| a", "says half whole", "| b", "says !"]);
}

#[test]
fn a_page_asked_for_before_a_lag_does_not_make_good_for_it() {
    let mut state = State::default();
    let page = state.ask_transcript("s", None, "page-1");
    state.apply(frame(json!({"kind": "lagged", "missed": 3})));
    state.apply(page_of(&page, json!([prompt(0, "a")]), None, Some(0)));
    assert!(transcript(&state).turns.is_empty());
    assert!(state.wants().contains(&Want::Transcript("s".into())));
}

#[test]
fn a_page_that_cannot_be_had_changes_nothing_and_is_not_asked_for_over_and_over() {
    let mut state = opened(json!([prompt(5, "a")]), Some(5), Some(5));
    let older = state.ask_older("s", None, "page-2").unwrap();
    let error = |id: &str| {
        frame(
            json!({"kind": "transcript_error", "session": "s", "request_id": id, "message": "no such cursor"}),
        )
    };
    let changes = state.apply(error(id_of(&older)));
    assert_eq!(changes, [Change::TranscriptFailed { session: "s".into(), message: "no such cursor".into() }]);
    live(&mut state, 6, "b");
    assert_eq!(story(&state, "s"), ["| a", "says b"]);
    assert!(state.ask_older("s", None, "page-3").is_some(), "it may be asked for again");

    let _ = state.ask_transcript("s", None, "page-4");
    live(&mut state, 7, "c");
    state.apply(error("page-4"));
    assert_eq!(state.wants(), []);
    assert_eq!(transcript(&state).error.as_deref(), Some("no such cursor"));
    assert_eq!(state.apply(error("page-4")), []);
}

#[test]
fn what_is_held_back_has_a_bound() {
    let mut state = State::default();
    lists(&mut state, &[]);
    let page = state.ask_transcript("s", None, "page-1");
    for seq in 0..=BUFFERED_MAX as u64 {
        live(&mut state, seq, "x");
    }
    assert_eq!(state.apply(page_of(&page, json!([]), None, None)), [], "its place in the stream is lost");
    assert_eq!(state.wants(), [Want::Transcript("s".into())]);
}
