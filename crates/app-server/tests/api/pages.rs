//! Pages of turns and items, and texts that are too long for them, as clients read them.

use serde_json::{Value, json};

use crate::stage::{Client, Stage};

/// Bytes of a frame that carries a page: the page, and what an answer takes around it.
const FRAME: usize = 512 * 1024 + 1024;
const ITEM: usize = 128 * 1024;

async fn thread_of(client: &mut Client, prompts: &[&str]) -> String {
    let thread = client.thread(json!({"policy": {"mode": "yolo", "sandbox": "danger_full_access"}})).await;
    for prompt in prompts {
        client.turn(&thread, prompt).await;
        client.until("turn/completed").await;
    }
    thread
}

async fn history(client: &mut Client, thread: &str) -> Vec<Value> {
    let read = client.ok("thread/read", json!({"threadId": thread, "includeTurns": true})).await;
    read["thread"]["turns"].as_array().unwrap().clone()
}

/// All pages of a list from one end to the other.
async fn walk(client: &mut Client, method: &str, mut params: Value) -> Vec<Value> {
    let mut all = Vec::new();
    loop {
        let page = client.ok(method, params.clone()).await;
        assert!(page.to_string().len() <= FRAME);
        all.extend(page["data"].as_array().unwrap().iter().cloned());
        if page["nextCursor"].is_null() {
            return all;
        }
        params["cursor"] = page["nextCursor"].clone();
    }
}

/// A text of an item, range by range.
async fn text_of(client: &mut Client, thread: &str, item: &Value, field: &str, step: u64) -> String {
    let mut text = String::new();
    loop {
        let params = json!({"threadId": thread, "itemId": item, "field": field, "offset": text.len(), "maxBytes": step});
        let range = client.ok("item/output/read", params).await;
        assert_eq!(range["offset"], text.len());
        text.push_str(range["text"].as_str().unwrap());
        assert_eq!(range["nextOffset"], text.len());
        if range["eof"] == true {
            assert_eq!(range["totalBytes"], text.len());
            return text;
        }
    }
}

/// The numbers of a mark, and what lies on both sides of it.
fn marked(text: &str) -> (&str, usize, &str) {
    let (head, after) = text.split_once("\n[… ").unwrap();
    let (number, tail) = after.split_once(" bytes left out …]\n").unwrap();
    (head, number.parse().unwrap(), tail)
}

#[tokio::test]
async fn pages_of_turns_go_both_ways_and_no_thread_is_loaded_for_them() {
    let stage = Stage::new().await;
    let mut client = stage.client("pages").await;
    let thread = thread_of(&mut client, &["say 1", "say 2", "say 3", "say 4", "say 5"]).await;
    let other = thread_of(&mut client, &["say other"]).await;
    let turns = history(&mut client, &thread).await;
    drop(client);
    let stage = Stage::open(stage.close().await).await;
    let mut client = stage.client("later").await;
    for limit in [1, 2, 5, 1000] {
        let mut params =
            json!({"threadId": thread, "limit": limit, "itemsView": "full", "sortDirection": "asc"});
        assert_eq!(walk(&mut client, "thread/turns/list", params.clone()).await, turns);
        params["sortDirection"] = json!("desc");
        let mut newest_first = walk(&mut client, "thread/turns/list", params).await;
        newest_first.reverse();
        assert_eq!(newest_first, turns);
        let mut items = json!({"threadId": thread, "limit": limit, "sortDirection": "asc"});
        let entries = walk(&mut client, "thread/items/list", items.clone()).await;
        let of_turns: Vec<&Value> = turns.iter().flat_map(|turn| turn["items"].as_array().unwrap()).collect();
        assert_eq!(entries.iter().map(|entry| &entry["item"]).collect::<Vec<_>>(), of_turns);
        items["turnId"] = turns[2]["id"].clone();
        let of_one = walk(&mut client, "thread/items/list", items).await;
        assert!(of_one.iter().all(|entry| entry["turnId"] == turns[2]["id"]));
        assert_eq!(of_one.len(), turns[2]["items"].as_array().unwrap().len());
    }

    // From the middle back: the turn at the turning point comes again.
    let middle = client.ok("thread/turns/list", json!({"threadId": thread, "limit": 2})).await;
    let next = json!({"threadId": thread, "limit": 2, "cursor": middle["nextCursor"]});
    let next = client.ok("thread/turns/list", next).await;
    let back = json!({"threadId": thread, "sortDirection": "asc", "cursor": next["backwardsCursor"]});
    let back = client.ok("thread/turns/list", back).await;
    let ids: Vec<&Value> = back["data"].as_array().unwrap().iter().map(|turn| &turn["id"]).collect();
    assert_eq!(ids, [&turns[2]["id"], &turns[3]["id"], &turns[4]["id"]]);

    // What the views hold.
    let brief = &next["data"][0];
    assert_eq!((&brief["itemsView"], brief["items"].as_array().unwrap().len()), (&json!("summary"), 2));
    assert_eq!(brief["items"][1]["text"], "3");
    let bare = json!({"threadId": thread, "itemsView": "notLoaded", "limit": 1});
    let bare = client.ok("thread/turns/list", bare).await;
    assert_eq!((&bare["data"][0]["itemsView"], &bare["data"][0]["items"]), (&json!("notLoaded"), &json!([])));
    assert_eq!(bare["data"][0]["tokenUsage"], turns[4]["tokenUsage"]);
    let anchor = json!({"type": "item", "itemId": turns[3]["items"][1]["id"]});
    let from = json!({"threadId": thread, "cursor": anchor, "limit": 2});
    let from = client.ok("thread/items/list", from).await;
    assert_eq!(from["data"][0]["item"], turns[3]["items"][1]);
    assert_eq!(from["data"][1]["item"], turns[3]["items"][0]);

    // What leads nowhere.
    for method in ["thread/turns/list", "thread/items/list"] {
        let foreign = client.ok(method, json!({"threadId": thread, "limit": 1})).await["nextCursor"].clone();
        for cursor in [foreign, json!("x"), json!("t.x.1"), json!("i..0"), json!("")] {
            let refused = client.refused(method, json!({"threadId": other, "cursor": cursor})).await;
            assert_eq!(refused, (-32602, "stale_cursor".to_owned()), "{cursor}");
        }
        let nobody = "01890000-0000-7000-8000-000000000000";
        assert_eq!(client.refused(method, json!({"threadId": nobody})).await.1, "thread_not_found");
    }
    let foreign = json!({"threadId": other, "turnId": turns[0]["id"]});
    assert_eq!(client.refused("thread/items/list", foreign).await, (-32600, "turn_not_found".to_owned()));
    let missing = json!({"threadId": thread, "cursor": {"type": "item", "itemId": "i99999"}});
    assert_eq!(client.refused("thread/items/list", missing).await, (-32023, "item_not_found".to_owned()));
    let missing = json!({"threadId": thread, "itemId": "i99999"});
    assert_eq!(client.refused("item/output/read", missing).await, (-32023, "item_not_found".to_owned()));
    let field = json!({"threadId": thread, "itemId": turns[0]["items"][1]["id"], "field": "/nothing"});
    assert_eq!(client.refused("item/output/read", field).await, (-32602, "invalid_params".to_owned()));

    assert_eq!(client.ok("thread/loaded/list", json!({})).await["data"], json!([]));
}

#[tokio::test]
async fn cursors_hold_while_turns_come_and_are_reverted() {
    let stage = Stage::new().await;
    let mut client = stage.client("pages").await;
    let thread = thread_of(&mut client, &["say 1", "say 2", "say 3"]).await;
    let page = json!({"threadId": thread, "limit": 1});
    let newest = client.ok("thread/turns/list", page.clone()).await;
    let turns = history(&mut client, &thread).await;
    let op = json!({"op": "revert", "session": thread, "before_turn": turns[2]["id"]});
    client.ok("op/submit", json!({"op": op})).await;
    client.until("thread/reverted").await;
    client.turn(&thread, "say 4").await;
    client.until("turn/completed").await;
    // The turn that the cursor stands at is reverted; what is older is as it was, what is newer is found the other way.
    let next = json!({"threadId": thread, "limit": 1, "cursor": newest["nextCursor"]});
    assert_eq!(client.ok("thread/turns/list", next).await["data"][0]["id"], turns[1]["id"]);
    let newer = json!({"threadId": thread, "sortDirection": "asc", "cursor": newest["backwardsCursor"], "itemsView": "full"});
    let newer = client.ok("thread/turns/list", newer).await;
    assert_eq!(newer["data"].as_array().unwrap().len(), 1);
    // The agent was told what came before, and plays that too.
    assert_eq!(newer["data"][0]["items"].as_array().unwrap().last().unwrap()["text"], "4");
    let now = history(&mut client, &thread).await;
    let mut items = json!({"threadId": thread, "sortDirection": "asc", "limit": 1});
    let entries = walk(&mut client, "thread/items/list", items.clone()).await;
    assert_eq!(entries.len(), now.iter().map(|turn| turn["items"].as_array().unwrap().len()).sum::<usize>());
    items["turnId"] = turns[2]["id"].clone();
    assert_eq!(client.refused("thread/items/list", items).await.1, "turn_not_found");
    let reverted = json!({"threadId": thread, "itemId": turns[2]["items"][1]["id"]});
    assert_eq!(client.refused("item/output/read", reverted).await.1, "item_not_found");
}

#[tokio::test]
async fn a_message_longer_than_a_page_allows_is_cut_and_read_in_ranges() {
    let stage = Stage::new().await;
    let mut client = stage.client("first").await;
    let thread = thread_of(&mut client, &["stream 1500 1000 0"]).await;
    let completed = client.log.iter().rfind(|frame| {
        frame["method"] == "item/completed" && frame["params"]["item"]["type"] == "agentMessage"
    });
    let item = completed.unwrap()["params"]["item"].clone();
    let whole = item["text"].as_str().unwrap();
    assert!(whole.len() >= 1_500_000 && item.get("outputTruncated").is_none());
    assert_eq!(history(&mut client, &thread).await[0]["items"][1], item, "a read has it whole");
    for step in [1_000_000, 333_333] {
        assert_eq!(text_of(&mut client, &thread, &item["id"], "/text", step).await, whole);
    }
    let mut second = stage.client("second").await;
    let resumed = second.ok("thread/resume", json!({"threadId": thread})).await;
    let listed = client.ok("thread/items/list", json!({"threadId": thread, "limit": 1})).await;
    let turns = client.ok("thread/turns/list", json!({"threadId": thread, "itemsView": "full"})).await;
    let brief = client.ok("thread/turns/list", json!({"threadId": thread})).await;
    let shown = [
        &resumed["thread"]["turns"][0]["items"][1],
        &listed["data"][0]["item"],
        &turns["data"][0]["items"][1],
        &brief["data"][0]["items"][1],
    ];
    for cut in shown {
        assert_eq!(cut, shown[0]);
    }
    assert_eq!(shown[0]["outputTruncated"], true);
    assert_eq!(shown[0]["cutTexts"], json!([{"field": "/text", "totalBytes": whole.len()}]));
    assert!(shown[0].to_string().len() <= ITEM);
    let (head, left_out, tail) = marked(shown[0]["text"].as_str().unwrap());
    assert!(whole.starts_with(head) && whole.ends_with(tail));
    assert_eq!(head.len() + left_out + tail.len(), whole.len());
    assert_eq!(resumed["turnsBackwardsCursor"], Value::Null);
}

#[tokio::test]
async fn who_joins_in_the_middle_of_a_long_message_goes_on_at_its_tail() {
    let stage = Stage::new().await;
    let mut client = stage.client("first").await;
    let thread = thread_of(&mut client, &[]).await;
    client.turn(&thread, "stream 400 1000 0\nsay second\nhang polite").await;
    client
        .until_that("item/agentMessage/delta", |told| told["delta"].as_str().unwrap().contains("second"))
        .await;
    let mut joiner = stage.client("joiner").await;
    let resumed = joiner.ok("thread/resume", json!({"threadId": thread})).await;
    let items = resumed["thread"]["turns"][0]["items"].as_array().unwrap();
    assert_eq!(items[1]["outputTruncated"], true);
    assert_eq!(items.last().unwrap()["text"], "second");
    let page = client.ok("thread/turns/list", json!({"threadId": thread, "itemsView": "full"})).await;
    assert_eq!(page["data"][0]["status"], "inProgress");
    assert_eq!(page["data"][0]["items"], resumed["thread"]["turns"][0]["items"]);
    let turn = resumed["thread"]["turns"][0]["id"].clone();
    client.ok("turn/interrupt", json!({"threadId": thread, "turnId": turn})).await;
    client.until("turn/completed").await;
}

#[tokio::test]
async fn a_command_of_ten_megabytes_is_the_same_live_stored_and_in_events() {
    let stage = Stage::new().await;
    let mut client = stage.client_with("big", signalbox_rpc::Role::Owner, json!({"opEvents": true})).await;
    let thread = thread_of(&mut client, &["big 10000000"]).await;
    let is_command = |item: &Value| item["type"] == "commandExecution";
    let of = |client: &Client, method: &str| -> Vec<Value> {
        let frames = client.log.iter().filter(|frame| frame["method"] == method);
        frames.map(|frame| frame["params"].clone()).collect()
    };
    let completed = of(&client, "item/completed").into_iter().find(|told| is_command(&told["item"])).unwrap();
    let item = completed["item"].clone();
    let output = item["aggregatedOutput"].as_str().unwrap();
    let deltas: String = of(&client, "item/commandExecution/outputDelta")
        .iter()
        .map(|told| told["delta"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(deltas, output, "the deltas are the output, from the first chunk on");
    assert!(output.len() < 1_200_000 && output.contains("bytes of output left out"), "{}", output.len());
    let events: String = of(&client, "event")
        .iter()
        .filter(|told| told["event"]["event"] == "tool_call")
        .flat_map(|told| told["event"]["outputs"].as_array().cloned().unwrap_or_default())
        .map(|output| output["text"].as_str().unwrap_or_default().to_owned())
        .collect();
    assert!(
        events.is_empty() || output.starts_with(&events) || events == output,
        "events tell another output"
    );
    assert_eq!(history(&mut client, &thread).await[0]["items"][1], item);
    let read = text_of(&mut client, &thread, &item["id"], "/aggregatedOutput", 1_000_000).await;
    assert_eq!(read, output);
    let deferred = json!({"threadId": thread, "deferOutput": {}, "limit": 1});
    let deferred = client.ok("thread/items/list", deferred).await["data"][0]["item"].clone();
    assert_eq!(deferred["aggregatedOutput"], Value::Null);
    assert_eq!(deferred["outputTruncated"], true);
    drop(client);
    let stage = Stage::open(stage.close().await).await;
    let mut client = stage.client("after").await;
    assert_eq!(history(&mut client, &thread).await[0]["items"][1], item, "after a restart too");
    let page = client.ok("thread/items/list", json!({"threadId": thread, "limit": 1})).await;
    let cut = &page["data"][0]["item"];
    assert!(cut.to_string().len() <= ITEM);
    assert_eq!(cut["cutTexts"], json!([{"field": "/aggregatedOutput", "totalBytes": output.len()}]));
}

#[tokio::test]
async fn a_turn_larger_than_a_page_is_joined_with_its_newest_items() {
    let stage = Stage::new().await;
    let mut client = stage.client("first").await;
    let script: String = (1..=12).map(|_| "stream 100 1000 0\nthink next\n").collect();
    let thread = thread_of(&mut client, &["say old", &script]).await;
    let turns = history(&mut client, &thread).await;
    let whole = turns[1]["items"].as_array().unwrap();
    let mut joiner = stage.client("joiner").await;
    let resumed = joiner.ok("thread/resume", json!({"threadId": thread})).await;
    assert!(resumed.to_string().len() <= FRAME + 8192);
    let joined = resumed["thread"]["turns"].as_array().unwrap();
    assert_eq!((joined.len(), &joined[0]["itemsView"]), (1, &json!("summary")));
    let newest = joined[0]["items"].as_array().unwrap();
    assert!(newest.len() < whole.len() && whole.ends_with(newest));
    assert_eq!(resumed["itemsBackwardsCursor"], joined[0]["itemsBackwardsCursor"]);
    let mut older = json!({"threadId": thread, "cursor": resumed["itemsBackwardsCursor"]});
    older["turnId"] = turns[1]["id"].clone();
    let older = walk(&mut joiner, "thread/items/list", older).await;
    let items: Vec<&Value> = older.iter().rev().map(|entry| &entry["item"]).chain(newest).collect();
    assert_eq!(items, whole.iter().collect::<Vec<_>>());
    let before = json!({"threadId": thread, "cursor": resumed["turnsBackwardsCursor"], "itemsView": "full"});
    let before = joiner.ok("thread/turns/list", before).await;
    assert_eq!(before["data"], json!([turns[0]]));
    // The same from the store, item by item.
    let listed = json!({"threadId": thread, "itemsView": "full", "limit": 1});
    let listed = joiner.ok("thread/turns/list", listed).await["data"][0].clone();
    assert_eq!(listed["itemsView"], "summary");
    assert!(whole.ends_with(listed["items"].as_array().unwrap()));
    let mut outline = listed.clone();
    for field in ["items", "itemsView", "itemsBackwardsCursor"] {
        outline[field] = turns[1][field].clone();
    }
    let mut expected = turns[1].clone();
    expected["itemsBackwardsCursor"] = Value::Null;
    assert_eq!(outline, expected, "all but the items is whole");
}

#[tokio::test]
async fn older_turns_keep_what_was_known_of_them() {
    let stage = Stage::new().await;
    let mut client = stage.client("first").await;
    let prompts =
        ["usage 1200 100000\nplan done: look | todo: test\nsay 1", "usage 2400 100000\nsay 2", "say 3"];
    let thread = thread_of(&mut client, &prompts).await;
    let told: Vec<Value> = client
        .log
        .iter()
        .filter(|frame| frame["method"] == "thread/tokenUsage/updated")
        .map(|frame| frame["params"].clone())
        .collect();
    let last =
        |turn: &Value| told.iter().rfind(|told| told["turnId"] == turn["id"]).map(|told| &told["tokenUsage"]);
    let turns = history(&mut client, &thread).await;
    for turn in &turns {
        assert_eq!(last(turn), Some(&turn["tokenUsage"]));
        assert!(turn["context"]["cwd"].is_string());
    }
    assert_eq!(turns[0]["tokenUsage"]["last"]["totalTokens"], 1200);
    assert_eq!(turns[1]["tokenUsage"]["modelContextWindow"], 100_000);
    assert_eq!(turns[0]["plan"].as_array().unwrap().len(), 2);
    drop(client);
    let stage = Stage::open(stage.close().await).await;
    let mut client = stage.client("after").await;
    assert_eq!(history(&mut client, &thread).await, turns);
    let resumed = client.ok("thread/resume", json!({"threadId": thread})).await;
    assert_eq!(resumed["thread"]["turns"], json!(turns));
}
