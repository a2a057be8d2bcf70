//! Search in what was said.

use serde_json::{Value, json};

use crate::stage::{Client, Stage};

/// Searches until everything is indexed, which happens by itself.
async fn finds(client: &mut Client, params: Value) -> Value {
    loop {
        let page = client.ok("thread/search", params.clone()).await;
        if page["complete"] == true {
            return page;
        }
    }
}

async fn said(client: &mut Client, thread: &str, script: &str) -> String {
    let turn = client.turn(thread, script).await;
    client.until_that("turn/completed", |told| told["turn"]["id"] == turn).await;
    turn
}

#[tokio::test]
async fn a_thread_is_found_by_what_was_asked_and_answered() {
    let stage = Stage::new().await;
    let mut client = stage.client("searcher").await;
    let thread = client.thread(json!({})).await;
    let turn = said(&mut client, &thread, "say The Quokka sleeps.\nthink of numbats").await;

    let page = finds(&mut client, json!({"searchTerm": "quok"})).await;
    assert_eq!(page["data"].as_array().unwrap().len(), 1, "{page}");
    let found = &page["data"][0];
    assert_eq!(found["thread"]["id"], thread);
    assert_eq!(found["turnId"], turn);
    assert!(found["snippet"].as_str().unwrap().contains("Quokka"), "{found}");
    assert_eq!(page["nextCursor"], Value::Null);

    // Only the prompt has all of these words.
    let prompt = finds(&mut client, json!({"searchTerm": "quokka numbats"})).await;
    let read = client.ok("thread/read", json!({"threadId": thread, "includeTurns": true})).await;
    let items = read["thread"]["turns"][0]["items"].as_array().unwrap().clone();
    assert!(items.iter().any(|item| item["id"] == found["itemId"]), "{found} is none of {items:?}");
    assert_eq!(prompt["data"][0]["itemId"], items[0]["id"]);
    assert_eq!(items[0]["type"], "userMessage");

    assert_eq!(finds(&mut client, json!({"searchTerm": "wombat"})).await["data"], json!([]));
    assert_eq!(
        finds(&mut client, json!({"searchTerm": "quokka", "archived": true})).await["data"],
        json!([])
    );
    let exec = json!({"searchTerm": "quokka", "sourceKinds": ["exec"]});
    assert_eq!(finds(&mut client, exec).await["data"], json!([]));
}

#[tokio::test]
async fn what_was_taken_back_or_deleted_is_not_found() {
    let stage = Stage::new().await;
    let mut client = stage.client("searcher").await;
    let thread = client.thread(json!({})).await;
    said(&mut client, &thread, "say alpha").await;
    let second = said(&mut client, &thread, "say beta").await;
    assert_eq!(finds(&mut client, json!({"searchTerm": "beta"})).await["data"][0]["turnId"], second);
    let op = json!({"op": "revert", "session": thread, "before_turn": second});
    client.ok("op/submit", json!({"op": op})).await;
    client.until("thread/reverted").await;
    assert_eq!(finds(&mut client, json!({"searchTerm": "beta"})).await["data"], json!([]));
    assert_eq!(finds(&mut client, json!({"searchTerm": "alpha"})).await["data"][0]["thread"]["id"], thread);
    client.ok("op/submit", json!({"op": {"op": "delete", "session": thread}})).await;
    client.until("thread/deleted").await;
    assert_eq!(finds(&mut client, json!({"searchTerm": "alpha"})).await["data"], json!([]));
}

#[tokio::test]
async fn pages_of_found_threads_lead_both_ways() {
    let stage = Stage::new().await;
    let mut client = stage.client("searcher").await;
    let mut threads = Vec::new();
    for _ in 0..5 {
        let thread = client.thread(json!({})).await;
        said(&mut client, &thread, "say ok\nthe needle").await;
        threads.push(thread);
    }
    let ids = |page: &Value| -> Vec<Value> {
        page["data"].as_array().unwrap().iter().map(|found| found["thread"]["id"].clone()).collect()
    };
    let ask = |more: Value| {
        let mut params =
            json!({"searchTerm": "needle", "limit": 2, "sortKey": "created_at", "sortDirection": "asc"});
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        params
    };
    let first = finds(&mut client, ask(json!({}))).await;
    assert_eq!(ids(&first), threads[..2]);
    let second = finds(&mut client, ask(json!({"cursor": first["nextCursor"]}))).await;
    assert_eq!(ids(&second), threads[2..4]);
    let third = finds(&mut client, ask(json!({"cursor": second["nextCursor"]}))).await;
    assert_eq!((ids(&third), &third["nextCursor"]), (vec![json!(threads[4])], &Value::Null));
    let back = ask(json!({"cursor": second["backwardsCursor"], "sortDirection": "desc"}));
    assert_eq!(ids(&finds(&mut client, back).await), [threads[1].clone(), threads[0].clone()]);
}

#[tokio::test]
async fn terms_that_cannot_be_searched_for_are_refused_with_a_reason() {
    let stage = Stage::new().await;
    let mut client = stage.client("searcher").await;
    for term in ["", "  ", "->", &"x".repeat(1001)] {
        let error = client.refusal("thread/search", json!({"searchTerm": term})).await;
        assert_eq!((&error["code"], &error["data"]["reason"]), (&json!(-32602), &json!("invalid_params")));
        assert_eq!(error["data"]["path"], "searchTerm");
    }
    let stale = json!({"searchTerm": "x", "cursor": "nonsense"});
    assert_eq!(client.refused("thread/search", stale).await.1, "stale_cursor");
    for term in ["a\"b", "NEAR(", "x*y", "col:x", "AND", "{a b}", "- -x"] {
        client.ok("thread/search", json!({"searchTerm": term})).await;
    }
}
