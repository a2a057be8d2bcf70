//! Transcript pages over a real store. A session's facts are numbered from 1, and the first one is `session_created`, so
//! its first prompt is never fact 0.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail by panicking"
)]

// The histories that the store's own tests are made of.
#[path = "../../store/tests/common/mod.rs"]
mod common;

use common::history::{History, Step, step, tool};
use common::{Session, chunk, prompt, running};
use proptest::prelude::*;
use signalbox_engine::project;
use signalbox_engine::transcript::{
    TranscriptError, TranscriptPage, of_facts, page, page_of_items, superseded,
};
use signalbox_facts::{Committed, Fact, FactBody, Seq, SessionId, compact};
use signalbox_protocol::ops::{Event, Part, Role, TranscriptEntry};
use signalbox_store::{PageRequest, Store};

/// A session of so many turns, each a prompt and an answer.
async fn turns(store: &Store, count: usize) -> History {
    let steps = (0..count).flat_map(|turn| {
        [
            Step::Prompt(format!("prompt {turn}")),
            Step::Say { item: 0, text: format!("answer {turn}") },
            Step::End { failed: false },
        ]
    });
    History::play(store, &[], &steps.collect::<Vec<_>>()).await
}

async fn get(store: &Store, session: SessionId, before: Option<Seq>, limit: Option<u32>) -> TranscriptPage {
    page(&store.reader, &session.to_string(), before, limit).await.unwrap()
}

async fn refused(store: &Store, session: &str, before: Seq) -> Seq {
    match page(&store.reader, session, Some(before), None).await {
        Err(TranscriptError::InvalidCursor { value }) => value,
        other => panic!("{other:?}"),
    }
}

/// Text of each entry.
fn texts(page: &TranscriptPage) -> Vec<String> {
    page.entries.iter().map(text).collect()
}

fn text(entry: &TranscriptEntry) -> String {
    match &entry.part {
        Part::Prompt { text, .. } | Part::Text { text, .. } | Part::Reasoning { text } => text.clone(),
        Part::ToolCall { id, status, .. } => format!("{id} {status}"),
        Part::Plan { entries } => entries.join("\n"),
    }
}

fn words(turns: std::ops::RangeInclusive<usize>) -> Vec<String> {
    turns.flat_map(|turn| [format!("prompt {turn}"), format!("answer {turn}")]).collect()
}

fn seqs(page: &TranscriptPage) -> Vec<Seq> {
    page.entries.iter().map(|entry| entry.seq).collect()
}

#[tokio::test]
async fn fifty_five_turns_are_three_pages_without_a_gap() {
    let store = Store::in_memory().await.unwrap();
    let history = turns(&store, 55).await;
    let session = history.session.id;

    let newest = get(&store, session, None, None).await;
    assert_eq!(texts(&newest), words(35..=54));
    assert_eq!(newest.entries.len(), 40);
    assert_eq!(newest.snapshot_through, Some(history.session.last));
    assert_eq!(newest.next_before, Some(history.turns[35].prompt));

    let middle = get(&store, session, newest.next_before, Some(20)).await;
    assert_eq!(texts(&middle), words(15..=34));
    let oldest = get(&store, session, middle.next_before, Some(20)).await;
    assert_eq!(texts(&oldest), words(0..=14));
    assert_eq!((oldest.entries.len(), oldest.next_before), (30, None));

    let all: Vec<Seq> = [oldest, middle, newest].iter().flat_map(seqs).collect();
    assert_eq!(all, history.transcript().iter().map(|fact| fact.seq).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_limit_outside_one_to_fifty_is_brought_inside() {
    let store = Store::in_memory().await.unwrap();
    let history = turns(&store, 55).await;
    let one = get(&store, history.session.id, None, Some(0)).await;
    assert_eq!(texts(&one), words(54..=54));
    let fifty = get(&store, history.session.id, None, Some(u32::MAX)).await;
    assert_eq!(texts(&fifty), words(5..=54));
    assert_eq!(fifty.next_before, Some(history.turns[5].prompt));
}

#[tokio::test]
async fn only_a_prompt_that_opened_a_kept_turn_of_this_session_is_a_cursor() {
    let store = Store::in_memory().await.unwrap();
    let other = turns(&store, 9).await;
    let steps = [
        Step::Prompt("first".into()),
        Step::Say { item: 0, text: "answer".into() },
        Step::Prompt("steer".into()),
        Step::End { failed: false },
        Step::Prompt("second".into()),
        Step::End { failed: false },
    ];
    let mut history = History::play(&store, &[], &steps).await;
    let session = history.session.id;
    let id = session.to_string();
    let [first, second] = history.turns[..] else { panic!() };

    let mut wrong: Vec<Seq> = (0..=history.session.last).collect();
    wrong.retain(|seq| ![first.prompt, second.prompt].contains(seq));
    wrong.extend([999, Seq::MAX, other.turns[8].prompt]);
    for value in wrong {
        assert_eq!(refused(&store, &id, value).await, value);
    }
    assert_eq!(texts(&get(&store, session, Some(second.prompt), None).await), ["first", "answer", "steer"]);

    history.play_more(&store, &[Step::Revert(1)]).await;
    assert_eq!(refused(&store, &id, second.prompt).await, second.prompt);
    assert_eq!(texts(&get(&store, session, None, None).await), ["first", "answer", "steer"]);
}

#[tokio::test]
async fn an_unknown_session_is_empty_and_has_no_cursor() {
    let store = Store::in_memory().await.unwrap();
    for unknown in ["none".to_owned(), SessionId::generate().to_string()] {
        let empty = page(&store.reader, &unknown, None, Some(20)).await.unwrap();
        assert_eq!(empty, TranscriptPage::default());
        assert_eq!(refused(&store, &unknown, 4).await, 4);
    }
}

#[tokio::test]
async fn a_session_without_a_turn_has_an_empty_page_of_a_known_moment() {
    let store = Store::in_memory().await.unwrap();
    let history = History::play(&store, &[], &[]).await;
    let empty = get(&store, history.session.id, None, None).await;
    assert_eq!((empty.entries.len(), empty.next_before, empty.snapshot_through), (0, None, Some(1)));
}

#[tokio::test]
async fn what_the_agent_said_before_the_first_turn_comes_once_with_the_oldest() {
    let store = Store::in_memory().await.unwrap();
    let steps = [
        Step::Prompt("one".into()),
        Step::End { failed: false },
        Step::Prompt("two".into()),
        Step::End { failed: false },
    ];
    let history = History::play(&store, &["Wel", "come."], &steps).await;
    let newest = get(&store, history.session.id, None, Some(1)).await;
    assert_eq!(texts(&newest), ["two"]);
    let oldest = get(&store, history.session.id, newest.next_before, Some(1)).await;
    assert_eq!(texts(&oldest), ["Welcome.", "one"]);
    assert_eq!(oldest.next_before, None);
    assert_eq!(texts(&get(&store, history.session.id, None, None).await), ["Welcome.", "one", "two"]);
}

#[tokio::test]
async fn a_transcript_without_a_user_is_one_page_whatever_the_limit() {
    let store = Store::in_memory().await.unwrap();
    let mut session = Session::new();
    store.writer.commit(session.created()).await.unwrap();
    let said = ["a", "b", "c"].map(|text| (None, chunk("m", text)));
    store.writer.commit(session.commit_of(said)).await.unwrap();
    let only = get(&store, session.id, None, Some(1)).await;
    assert_eq!(texts(&only), ["a", "b", "c"]);
    assert_eq!((only.next_before, only.snapshot_through), (None, Some(4)));
}

#[tokio::test]
async fn a_prompt_of_which_only_the_text_is_known_is_a_users_text_and_opens_its_turn() {
    let store = Store::in_memory().await.unwrap();
    let mut session = Session::new();
    store.writer.commit(session.created()).await.unwrap();
    store.writer.commit(session.commit([chunk("old", "Hello.")])).await.unwrap();
    for text in ["old words", "newer words"] {
        let mut commit = session.prompt(text);
        for entry in &mut commit.entries {
            let Committed::Fact(fact) = entry else { continue };
            let mut known = (**fact).clone();
            if let FactBody::Prompt(prompt) = &mut known.body {
                prompt.display.clear();
            }
            *fact = known.into();
        }
        store.writer.commit(commit).await.unwrap();
        store.writer.commit(session.chunk("yes")).await.unwrap();
        store.writer.commit(session.ended()).await.unwrap();
    }
    let whole = get(&store, session.id, None, None).await;
    assert_eq!(texts(&whole), ["Hello.", "old words", "yes", "newer words", "yes"]);
    let old = &whole.entries[1];
    assert_eq!((old.role, old.continues), (Role::User, false));
    assert_eq!(old.part, Part::Text { text: "old words".into(), message_id: None });
    let newest = get(&store, session.id, None, Some(1)).await;
    assert_eq!(texts(&newest), ["newer words", "yes"]);
    assert_eq!(newest.next_before, Some(newest.entries[0].seq));
}

#[tokio::test]
async fn what_is_appended_meanwhile_changes_no_older_page() {
    let store = Store::in_memory().await.unwrap();
    let mut history = turns(&store, 20).await;
    history.play_more(&store, &[Step::Prompt("prompt 20".into())]).await;
    let session = history.session.id;
    let first = get(&store, session, None, None).await;
    let before = history.session.last;
    assert_eq!(first.snapshot_through, Some(before));

    history.play_more(&store, &[Step::Say { item: 0, text: "live".into() }]).await;
    let older = get(&store, session, first.next_before, None).await;
    assert_eq!(texts(&older), words(0..=0));
    let refreshed = get(&store, session, None, None).await;
    assert_eq!(refreshed.snapshot_through, Some(before + 1));
    assert_eq!(refreshed.entries.last().unwrap().seq, before + 1);
    assert_eq!(refreshed.entries[..refreshed.entries.len() - 1], first.entries);
}

#[tokio::test]
async fn chunks_of_a_message_are_one_entry_and_messages_stay_apart() {
    let store = Store::in_memory().await.unwrap();
    let say = |item, text: &str| Step::Say { item, text: text.into() };
    let steps = [
        Step::Prompt("go".into()),
        say(0, "Hel"),
        Step::Tool { id: 0, title: "Read", status: 2 },
        say(0, "lo"),
        say(1, "Bye"),
    ];
    let mut history = History::play(&store, &[], &steps).await;
    let id = history.session.id.to_string();
    let items = page_of_items(&store.reader, &id, None, None).await.unwrap();
    let [_, (hello, joined), (tool, _), (bye, _)] = &items.entries[..] else { panic!("{items:?}") };
    assert_eq!(text(joined), "Hello");
    assert_eq!(joined.through_seq, Some(joined.seq + 2));
    assert!(hello.is_some() && hello != tool && hello != bye);

    // Whether the background has joined them yet makes no difference.
    history.play_more(&store, &[Step::End { failed: false }]).await;
    let mut before = page_of_items(&store.reader, &id, None, None).await.unwrap();
    history.play_more(&store, &[Step::Compact(0)]).await;
    let after = page_of_items(&store.reader, &id, None, None).await.unwrap();
    assert_eq!(before, after);
    before.entries.truncate(items.entries.len());
    assert_eq!(before.entries, items.entries);
}

#[tokio::test]
async fn steps_of_a_call_that_ended_are_left_out_of_pages_and_told_live() {
    let store = Store::in_memory().await.unwrap();
    let mut session = running(&store).await;
    let steps = [("Spawn", 0), ("", 1), ("", 2), ("", 1)].map(|(title, status)| tool("t", title, status));
    store.writer.commit(session.commit(steps)).await.unwrap();
    store.writer.commit(session.ended()).await.unwrap();
    store.writer.commit(session.prompt("again")).await.unwrap();
    store.writer.commit(session.commit([tool("t", "", 3)])).await.unwrap();

    let whole = get(&store, session.id, None, None).await;
    assert_eq!(texts(&whole), ["do it", "t completed", "t in_progress", "again", "t failed"]);
    let Part::ToolCall { title, tool_kind, .. } = &whole.entries[1].part else { panic!() };
    assert_eq!((title.as_str(), tool_kind.as_deref()), ("Spawn", Some("read")));

    let told = session.facts.iter().filter_map(|fact| project::event(&Committed::Fact(fact.clone().into())));
    let told: Vec<Seq> = told
        .filter_map(|event| match event {
            Event::ToolCall { transcript_seq, .. } => transcript_seq,
            _ => None,
        })
        .collect();
    let stored = session.facts.iter().filter(|fact| matches!(fact.body, FactBody::ToolCall(_)));
    assert_eq!(told, stored.map(|fact| fact.seq).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_steering_prompt_neither_starts_a_page_nor_ends_what_belongs_together() {
    let store = Store::in_memory().await.unwrap();
    let mut session = running(&store).await;
    store.writer.commit(session.commit([tool("t", "Look", 0)])).await.unwrap();
    store.writer.commit(session.commit([prompt("rather this", false, None)])).await.unwrap();
    store.writer.commit(session.commit([tool("t", "", 2)])).await.unwrap();
    let newest = get(&store, session.id, None, Some(1)).await;
    assert_eq!(texts(&newest), ["do it", "rather this", "t completed"]);
    assert_eq!(newest.entries.iter().map(|entry| entry.continues).collect::<Vec<_>>(), [false, true, false]);
    assert_eq!(newest.next_before, None);
}

#[tokio::test]
async fn a_page_holds_half_a_mebibyte_but_a_whole_turn_at_least() {
    let store = Store::in_memory().await.unwrap();
    let large = |text: &str| Step::Say { item: 0, text: text.repeat(300_000) };
    let mut steps = Vec::new();
    for letter in ["a", "b", "c"] {
        steps.extend([Step::Prompt(letter.into()), large(letter), Step::End { failed: false }]);
    }
    steps.extend([Step::Prompt("d".into()), large("d"), large("d"), large("d")]);
    let history = History::play(&store, &["before"], &steps).await;
    let mut before = None;
    let mut pages = Vec::new();
    loop {
        let page = get(&store, history.session.id, before, None).await;
        pages.push(page.entries.iter().map(|entry| text(entry).len()).collect::<Vec<_>>());
        before = page.next_before;
        if before.is_none() {
            break;
        }
    }
    assert_eq!(pages, [vec![1, 900_000], vec![1, 300_000], vec![1, 300_000], vec![6, 1, 300_000]]);
}

/// All pages of these bounds, from the newest to the oldest, put together.
async fn concatenated(
    store: &Store,
    history: &History,
    turns: u32,
    max_bytes: usize,
) -> Vec<TranscriptEntry> {
    let mut all = Vec::new();
    let mut before = None;
    loop {
        let request = PageRequest { before, turns, max_bytes };
        let read = store.reader.transcript(history.session.id, request).await.unwrap();
        let bytes: usize = read.facts.iter().map(|fact| body_bytes(&fact.body)).sum();
        let page = of_facts(read);
        let opening = page.entries.iter().filter(|(_, entry)| opens(history, entry)).count();
        assert!(opening <= turns as usize);
        assert!(opening <= 1 || bytes <= max_bytes, "{bytes} bytes in {opening} turns");
        assert_eq!(page.snapshot_through, Some(history.session.last));
        if let Some(next) = page.next_before {
            assert_eq!(page.entries[0].1.seq, next);
            assert!(opens(history, &page.entries[0].1));
        }
        let entries = page.entries.into_iter().map(|(_, entry)| entry);
        all.splice(0..0, entries);
        before = page.next_before;
        if before.is_none() {
            return all;
        }
    }
}

fn body_bytes(body: &FactBody) -> usize {
    serde_json::to_string(body).unwrap().len()
}

fn opens(history: &History, entry: &TranscriptEntry) -> bool {
    history.turns.iter().any(|turn| turn.prompt == entry.seq)
}

#[test]
fn pages_of_any_size_make_the_whole_transcript() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let store = runtime.block_on(Store::in_memory()).unwrap();
    let config = ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() };
    let preamble = prop_oneof![Just(&[][..]), Just(&["Hi", " there"][..])];
    let bounds = (1..6_u32, prop_oneof![Just(0), 0..2000_usize, Just(usize::MAX)]);
    proptest!(config, |(preamble in preamble, steps in prop::collection::vec(step(), 0..60), bounds in bounds)| {
        runtime.block_on(async {
            let history = History::play(&store, preamble, &steps).await;
            let facts: Vec<Fact> = compact(&history.transcript());
            let whole = superseded(facts.iter().filter_map(project::entry).collect());
            assert_eq!(concatenated(&store, &history, bounds.0, bounds.1).await, whole);
            assert_eq!(concatenated(&store, &history, 50, usize::MAX).await, whole);
        });
    });
}
