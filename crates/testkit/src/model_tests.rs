//! Each rule of the model refuses what breaks it.

use serde_json::{Value, json};

use super::Model;

/// A client that follows thread `t` with turn `u` and message `i1` open.
fn watching() -> (Model, u64) {
    let mut model = Model::default();
    let thread = json!({ "id": "t", "status": { "type": "idle" }, "turns": [] });
    model.opened(&json!({}), &json!({ "thread": thread, "snapshotSeq": 1, "cursor": "e-1" })).unwrap();
    let mut at = 1;
    tells(
        &mut model,
        &mut at,
        "turn/started",
        json!({ "turn": { "id": "u", "status": "inProgress", "items": [] } }),
    )
    .unwrap();
    let item = json!({ "id": "i1", "type": "agentMessage", "text": "" });
    tells(&mut model, &mut at, "item/started", json!({ "item": item })).unwrap();
    (model, at)
}

fn tells(model: &mut Model, at: &mut u64, method: &str, mut params: Value) -> Result<(), String> {
    *at += 1;
    params["threadId"] = json!("t");
    params["turnId"] = json!("u");
    params["seq"] = json!(*at);
    params["cursor"] = json!(format!("e-{at}"));
    model.told(method, &params)
}

fn refused(method: &str, params: Value) -> String {
    let (mut model, mut at) = watching();
    tells(&mut model, &mut at, method, params).unwrap_err()
}

fn message(text: &str) -> Value {
    json!({ "item": { "id": "i1", "type": "agentMessage", "text": text } })
}

#[test]
fn what_deltas_add_up_to_is_what_the_item_is() {
    for (whole, fits) in [("Hello", true), ("Hell", false), ("Hello!", false)] {
        let (mut model, mut at) = watching();
        for delta in ["Hel", "lo"] {
            tells(&mut model, &mut at, "item/agentMessage/delta", json!({ "itemId": "i1", "delta": delta }))
                .unwrap();
        }
        let completed = tells(&mut model, &mut at, "item/completed", message(whole));
        assert_eq!(completed.is_ok(), fits, "{whole}: {completed:?}");
        // Who falls behind may miss an end, but no beginning.
        let (mut model, mut at) = watching();
        model.lags = true;
        tells(&mut model, &mut at, "item/agentMessage/delta", json!({ "itemId": "i1", "delta": "Hello" }))
            .unwrap();
        let completed = tells(&mut model, &mut at, "item/completed", message(whole));
        assert_eq!(completed.is_ok(), whole.starts_with("Hello"), "{whole}: {completed:?}");
    }
}

#[test]
fn items_and_turns_have_one_beginning_and_one_end() {
    assert!(refused("item/started", message("")).contains("started twice"));
    assert!(refused("item/agentMessage/delta", json!({ "itemId": "i2", "delta": "x" })).contains("not open"));
    let other = json!({ "item": { "id": "i9", "type": "agentMessage", "text": "" } });
    assert!(refused("item/completed", other).contains("never started"));
    let turn = json!({ "turn": { "id": "v", "status": "inProgress", "items": [] } });
    assert!(refused("turn/started", turn).contains("while u runs"));
    let ended = json!({ "turn": { "id": "u", "status": "completed" } });
    assert!(refused("turn/completed", ended.clone()).contains("with item i1 open"));

    let (mut model, mut at) = watching();
    tells(&mut model, &mut at, "item/completed", message("")).unwrap();
    tells(&mut model, &mut at, "turn/completed", ended.clone()).unwrap();
    assert!(tells(&mut model, &mut at, "turn/completed", ended).unwrap_err().contains("ended twice"));
    let item = json!({ "item": { "id": "i2", "type": "agentMessage", "text": "" } });
    assert!(tells(&mut model, &mut at, "item/started", item).unwrap_err().contains("not late"));
}

#[test]
fn places_only_move_on() {
    let (mut model, at) = watching();
    let params =
        |seq: u64, cursor: &str| json!({ "threadId": "t", "seq": seq, "cursor": cursor, "status": {} });
    let same = model.told("thread/status/changed", &params(at, &format!("e-{at}")));
    assert!(same.unwrap_err().contains("follows"));
    let older = model.told("thread/status/changed", &params(at - 1, "e-100"));
    assert!(older.unwrap_err().contains("went back"));
    let other_life = model.told("thread/status/changed", &params(at, "f-100"));
    assert!(other_life.unwrap_err().contains("follows"));
}

#[test]
fn approvals_are_settled_before_what_they_hold_up_goes_on() {
    let (mut model, mut at) = watching();
    let offered = json!(["accept", "decline", "cancel"]);
    let asked = json!({ "approvalId": "a", "threadId": "t", "turnId": "u", "itemId": "i1", "availableDecisions": offered });
    assert!(model.asked("b", &asked).unwrap_err().contains("is its approvalId"));
    model.asked("a", &asked).unwrap();
    assert!(model.asked("a", &asked).unwrap_err().contains("asked twice"));
    assert!(
        tells(&mut model, &mut at, "item/completed", message("")).unwrap_err().contains("approval a open")
    );
    let resolved = |id: &str, by: &str| json!({ "requestId": id, "by": { "kind": by } });
    tells(&mut model, &mut at, "serverRequest/resolved", resolved("a", "client")).unwrap();
    assert!(tells(&mut model, &mut at, "serverRequest/resolved", resolved("a", "client")).is_err());
    tells(&mut model, &mut at, "serverRequest/resolved", resolved("c", "policy")).unwrap();
    tells(&mut model, &mut at, "item/completed", message("")).unwrap();
}
