//! Much at once, and trouble that stays where it arises.
#![allow(clippy::disallowed_methods)]

use serde_json::json;
use signalbox_testkit::{App, open_files};

const BINARY: &str = env!("CARGO_BIN_EXE_signalbox");
const MIB: u64 = 1024 * 1024;

#[test]
fn twenty_thousand_pipelined_requests_all_get_a_result() {
    let mut app = App::new(BINARY).over_stdio();
    let mut client = app.client();
    let thread = client.starts_thread(&app);
    let before = app.process().rss_bytes();
    let ids: Vec<i64> = (0..20_000).map(|_| client.requests("thread/loaded/list", json!({}))).collect();
    for id in ids {
        let result = client.answer(id).expect("a result, never an error");
        assert_eq!(result["data"], json!([thread]));
    }
    let (after, peak) = (app.process().rss_bytes(), app.process().peak_rss_bytes());
    // A release build stays under 64 MiB; this one carries more code and slower, larger structures.
    assert!(peak < 128 * MIB, "{} MiB at the peak", peak / MIB);
    assert!(after < before + 32 * MIB, "{} MiB before, {} MiB after", before / MIB, after / MIB);
}

#[test]
fn a_burst_from_a_client_that_does_not_read_meanwhile() {
    let mut app = App::new(BINARY).over_unix();
    let [mut burst, mut other] = app.clients();
    burst.stops_reading();
    let ids: Vec<i64> = (0..2_000).map(|_| burst.requests("thread/loaded/list", json!({}))).collect();
    for _ in 0..50 {
        other.call("thread/loaded/list", json!({}));
    }
    burst.goes_on_reading();
    for id in ids {
        burst.answer(id).expect("a result, never an error");
    }
}

#[test]
fn of_ten_threads_one_crashes_and_one_hangs() {
    let mut app = App::new(BINARY).over_unix();
    let mut client = app.client();
    let mut turns = Vec::new();
    for number in 0..10 {
        let thread = client.starts_thread(&app);
        let script = match number {
            3 => "say Before.\ncrash 9".to_owned(),
            6 => "say Before.\nhang".to_owned(),
            _ => format!("say I am number {number}.\nstream 200 20 0\nread README.md\nsay Done."),
        };
        let turn = client.prompts(&thread, &script);
        turns.push((thread, turn));
    }
    for (number, (thread, turn)) in turns.iter().enumerate().filter(|(number, _)| *number != 6) {
        client.knows_the_end_of(thread, turn);
        let known = client.model().thread(thread).newest();
        if number == 3 {
            assert_eq!(known.status, "failed");
            assert_eq!(known.error["reason"], "agent_failed", "{}", known.error);
            assert_eq!(known.said(), "Before.", "what was said before the crash is kept");
        } else {
            assert_eq!(known.status, "completed", "thread {number}: {}", known.error);
            let said = known.said();
            assert!(said.starts_with(&format!("I am number {number}.")) && said.ends_with("Done."), "{said}");
            assert!(said.contains("00000199"));
        }
    }
    let (hanging, turn) = &turns[6];
    assert_eq!(client.model().thread(hanging).newest().status, "inProgress");

    // The thread whose agent crashed gets a new one; the one that hangs can be interrupted.
    assert_eq!(client.runs(&turns[3].0, "say Back.")["status"], "completed");
    client.interrupts(hanging, turn);
    assert_eq!(client.finishes(turn)["status"], "interrupted");
    for (thread, _) in &turns {
        client.knows_what_is_stored(thread);
    }
}

#[test]
fn a_client_that_does_not_read_does_not_hinder_another() {
    let mut app = App::new(BINARY).over_unix();
    let [mut quick, mut slow] = app.clients();
    quick.may_fall_behind();
    let thread = quick.starts_thread(&app);
    slow.joins(&thread);
    let before = app.process().rss_bytes();
    slow.stops_reading();
    let ended = quick.runs(&thread, "stream 2000 1000 0\nsay The end.");
    assert_eq!(ended["status"], "completed");
    let said = quick.model().thread(&thread).newest().said();
    assert!(said.contains("00001999") && said.ends_with("The end."));
    let after = app.process().peak_rss_bytes();
    assert!(after < before + 192 * MIB, "{} MiB before, {} MiB after", before / MIB, after / MIB);

    // When it reads again it has missed deltas at most: the items it gets are whole.
    slow.goes_on_reading();
    slow.until_where("turn/completed", |params| params["turn"]["id"] == ended["id"]);
    slow.knows_what_is_stored(&thread);
    quick.knows_what_is_stored(&thread);
}

#[test]
fn a_client_that_takes_too_little_for_too_long_is_cut_and_comes_back() {
    let mut app = App::new(BINARY).over_unix();
    let [mut quick, mut slow] = app.clients();
    quick.may_fall_behind();
    let thread = quick.starts_thread(&app);
    slow.joins(&thread);
    slow.stops_reading();
    let script = "stream 1000 1000 0\nthink So far.\n".repeat(12);
    assert_eq!(quick.runs(&thread, &script)["status"], "completed");
    quick.knows_what_is_stored(&thread);
    slow.goes_on_reading();
    slow.is_disconnected();

    // So long a turn comes in part when the thread is joined; the rest is in the pages.
    let mut back = app.client();
    back.may_fall_behind();
    back.joins(&thread);
    let ended = back.runs(&thread, "say Here again.");
    assert_eq!(quick.finishes(ended["id"].as_str().unwrap())["status"], "completed");
}

#[test]
fn what_waits_for_the_client_on_stdio_comes_when_it_reads_again() {
    let mut app = App::new(BINARY).over_stdio();
    let mut client = app.client();
    let yolo = json!({ "mode": "yolo", "sandbox": "workspace_write" });
    let thread = client.starts_thread_with(json!({ "cwd": app.work(), "policy": yolo }));
    client.stops_reading();
    let text = format!("{}run echo done > done", "stream 1000 1000 0\nthink So far.\n".repeat(3));
    let input = json!([{ "type": "text", "text": text }]);
    let asked = client.requests("turn/start", json!({ "threadId": thread, "input": input }));
    assert_eq!(app.line_of("done"), "done");
    client.goes_on_reading();
    let turn = client.answer(asked).unwrap()["turn"]["id"].clone();
    assert_eq!(client.finishes(turn.as_str().unwrap())["status"], "completed");
    client.knows_what_is_stored(&thread);
}

#[test]
fn fast_chunks_arrive_whole_and_in_order() {
    let mut app = App::new(BINARY).over_stdio();
    let mut client = app.client();
    let thread = client.starts_thread(&app);
    let ended = client.runs(&thread, "stream 20000 8 0");
    assert_eq!(ended["status"], "completed");
    let said = client.model().thread(&thread).newest().said();
    let expected: String = (0..20_000).map(|n| format!("{n:08}")).collect();
    assert!(said == expected, "{} bytes instead of {}", said.len(), expected.len());
    client.knows_what_is_stored(&thread);
}

#[test]
fn large_output_is_bounded_and_equal_everywhere() {
    let mut app = App::new(BINARY).over_stdio();
    let mut client = app.client();
    let thread = client.starts_thread(&app);
    let turn = client.prompts(&thread, "big 3000000");
    let asked = client.is_asked();
    client.approves(&asked);
    assert_eq!(client.finishes(&turn)["status"], "completed");
    let command = client.model().thread(&thread).newest().only("commandExecution");
    let output = command["aggregatedOutput"].as_str().unwrap();
    assert!(output.contains("bytes of output left out"), "and says what it leaves out");
    assert!(output.len() <= 2 * 1024 * 1024, "{} bytes", output.len());
    assert!(output.starts_with("000000000000001\n"), "the head is there");
    assert!(output.trim_end().ends_with("187500"), "the tail is there: {:?}", &output[output.len() - 40..]);
    client.knows_what_is_stored(&thread);
}

#[test]
fn many_clients_come_and_go() {
    let mut app = App::new(BINARY).over_unix();
    let mut keeper = app.client();
    let thread = keeper.starts_thread(&app);
    let turn = keeper.prompts(&thread, "stream 100000 20 1");
    keeper.until("item/agentMessage/delta");
    let mut files = Vec::new();
    for _ in 0..30 {
        let mut client = app.client();
        client.joins(&thread);
        client.reads(&thread);
        client.until("item/agentMessage/delta");
        files.push(open_files(app.process().id()).len());
        client.leaves();
    }
    keeper.interrupts(&thread, &turn);
    assert_eq!(keeper.finishes(&turn)["status"], "interrupted");
    keeper.knows_what_is_stored(&thread);
    // Each client more costs nothing once it has left; a few may be on their way out.
    let (early, late) = (files[5], files[29]);
    assert!(late <= early + 3, "open descriptors: {files:?}");
}

#[test]
fn thirty_sessions_that_stream_at_once_all_finish() {
    let mut app = App::new(BINARY).over_unix();
    let mut client = app.client();
    client.may_fall_behind();
    let threads: Vec<String> = (0..30).map(|_| client.starts_thread(&app)).collect();
    let turns: Vec<String> = threads
        .iter()
        .enumerate()
        .map(|(n, thread)| client.prompts(thread, &format!("say I am {n}.\nstream 200 20 0\nsay Done.")))
        .collect();
    for (n, (thread, turn)) in threads.iter().zip(&turns).enumerate() {
        client.knows_the_end_of(thread, turn);
        let newest = client.model().thread(thread).newest();
        assert_eq!(newest.status, "completed", "{}", newest.error);
        let said = newest.said();
        assert!(said.starts_with(&format!("I am {n}.")) && said.ends_with("Done."), "{said}");
        assert!((0..200).all(|chunk| said.contains(&format!("{chunk:08}"))), "{said}");
    }
    for thread in &threads {
        client.knows_what_is_stored(thread);
    }
}
