//! Rules that answers have left, and the agent's own options.

use serde_json::json;

use crate::stage::Stage;

#[tokio::test]
async fn a_rule_is_listed_and_taken_back() {
    let stage = Stage::new().await;
    let mut client = stage.client("ruler").await;
    let thread = client.thread(json!({})).await;
    let list = json!({"threadId": thread});
    assert_eq!(client.ok("permissionRule/list", list.clone()).await["data"], json!([]));
    client.turn(&thread, "run echo hi").await;
    let asked = client.until("item/commandExecution/requestApproval").await;
    client.respond(&asked, json!({"decision": "acceptForSession"})).await;
    client.until("turn/completed").await;
    let rule = json!({"type": "command", "command": "echo hi"});
    assert_eq!(client.ok("permissionRule/list", list.clone()).await["data"], json!([rule]));
    let remove = json!({"threadId": thread, "rule": rule});
    assert_eq!(client.ok("permissionRule/remove", remove.clone()).await, json!({}));
    assert_eq!(client.ok("permissionRule/list", list).await["data"], json!([]));
    let error = client.refusal("permissionRule/remove", remove).await;
    assert_eq!((&error["code"], &error["data"]["path"]), (&json!(-32602), &json!("rule")));
    client.turn(&thread, "run echo hi").await;
    let asked = client.until("item/commandExecution/requestApproval").await;
    client.respond(&asked, json!({"decision": "decline"})).await;
    client.until("turn/completed").await;
}

#[tokio::test]
async fn an_option_is_set_before_the_agent_runs_and_in_the_running_one() {
    let stage = Stage::new().await;
    let mut client = stage.client("chooser").await;
    let thread = client.thread(json!({})).await;
    let set = |value: &str| json!({"threadId": thread, "configId": "mode", "value": value});
    let early = client.ok("thread/configOption/set", set("look")).await;
    assert_eq!(
        (&early["options"][0]["id"], &early["options"][0]["current"]),
        (&json!("mode"), &json!("look"))
    );
    client.turn(&thread, "say hi").await;
    client.until("turn/completed").await;
    let set_now = client.ok("thread/configOption/set", set("ask")).await;
    let options = set_now["options"].as_array().unwrap();
    let mode = options.iter().find(|option| option["id"] == "mode").unwrap();
    assert_eq!(mode["current"], "ask");
    assert!(mode["choices"].as_array().unwrap().len() > 1 && options.len() > 1, "all that the agent told");
    let told =
        client.until_that("thread/configOptions/updated", |told| told["options"] == set_now["options"]).await;
    assert_eq!(told["params"]["threadId"], thread);
    let refused = client.refused("thread/configOption/set", set("no such mode")).await;
    assert_eq!(refused, (-32021, "unsupported_by_agent".to_owned()));
}
