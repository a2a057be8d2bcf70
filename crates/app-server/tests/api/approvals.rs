//! Approvals: asked of all who may answer, answered once, never left hanging.

use serde_json::{Value, json};
use signalbox_rpc::Role;

use crate::stage::{Client, Stage};

const COMMAND: &str = "item/commandExecution/requestApproval";
const RUN: &str = "run echo done";

async fn command(client: &mut Client) -> Value {
    client.until(COMMAND).await
}

/// How the command of the newest turn ended.
async fn end_of_command(client: &mut Client) -> Value {
    let completed =
        client.until_that("item/completed", |told| told["item"]["type"] == "commandExecution").await;
    completed["params"]["item"].clone()
}

#[tokio::test]
async fn the_first_answer_wins_and_the_late_one_is_told() {
    let stage = Stage::new().await;
    let [mut first, mut second] = stage.clients().await;
    let thread = first.thread(json!({})).await;
    second.ok("thread/resume", json!({"threadId": thread})).await;
    first.turn(&thread, RUN).await;
    let (mine, theirs) = (command(&mut first).await, command(&mut second).await);
    assert_eq!(mine, theirs);
    assert_eq!(mine["id"], mine["params"]["approvalId"]);
    assert_eq!(mine["params"]["command"], "echo done");
    let decisions = mine["params"]["availableDecisions"].as_array().unwrap();
    assert!(decisions.contains(&json!("decline")) && decisions.contains(&json!("cancel")));

    second.respond(&theirs, json!({"decision": "accept"})).await;
    for client in [&mut first, &mut second] {
        let resolved = client.until("serverRequest/resolved").await;
        assert_eq!(resolved["params"]["requestId"], mine["id"]);
        assert_eq!(resolved["params"]["decision"], "accept");
        assert_eq!(resolved["params"]["by"], json!({"kind": "client", "name": "second"}));
        let item = end_of_command(client).await;
        assert_eq!((&item["status"], &item["aggregatedOutput"]), (&json!("completed"), &json!("done\n")));
    }
    first.until("turn/completed").await;
    first.respond(&mine, json!({"decision": "decline"})).await;
    let warning = first.until("warning").await;
    let message = warning["params"]["message"].as_str().unwrap();
    assert!(
        message.contains("too late") && message.contains("second") && message.contains("accept"),
        "{message}"
    );
    let params = json!({"approvalId": mine["id"], "decision": "decline"});
    let error = first.refusal("approval/respond", params).await;
    assert_eq!((&error["code"], &error["data"]["reason"]), (&json!(-32023), &json!("approval_resolved")));
    assert_eq!(error["data"]["by"]["name"], "second");
    assert_eq!(error["data"]["decision"], "accept");
}

#[tokio::test]
async fn who_waits_for_an_agent_is_asked_what_the_agent_waits_for() {
    let stage = Stage::new().await;
    let mut client = stage.client("first").await;
    let thread = client.thread(json!({"modelProvider": "late"})).await;
    client.turn(&thread, "run echo one\nrun echo two").await;
    let one = command(&mut client).await;
    // The agent answers this when its turn has ended.
    let option = json!({"threadId": thread, "configId": "mode", "value": "look"});
    let setting = client.ask("thread/configOption/set", option).await;
    client.respond(&one, json!({"decision": "accept"})).await;
    let two = command(&mut client).await;
    assert_eq!(two["params"]["command"], "echo two");
    assert!(client.log.iter().all(|frame| frame["id"] != setting), "{:#?}", client.log);
    client.respond(&two, json!({"decision": "accept"})).await;
    client.until("turn/completed").await;
    let set = client.answer(setting).await;
    assert!(set["result"]["options"].is_array(), "{set}");
}

#[tokio::test]
async fn an_approval_waits_for_whoever_joins() {
    let stage = Stage::new().await;
    let mut first = stage.client("first").await;
    let thread = first.thread(json!({})).await;
    first.turn(&thread, RUN).await;
    let asked = command(&mut first).await;
    drop(first);

    let mut observer = stage.client_with("observer", Role::Observer, json!({})).await;
    observer.ok("thread/resume", json!({"threadId": thread})).await;
    let mut second = stage.client("second").await;
    let before = second.log.len();
    let resumed = second.ok("thread/resume", json!({"threadId": thread})).await;
    let items = resumed["thread"]["turns"][0]["items"].as_array().unwrap();
    let open = items.iter().find(|item| item["id"] == asked["params"]["itemId"]).unwrap();
    assert_eq!(open["status"], "inProgress");
    assert_eq!(resumed["thread"]["status"]["activeFlags"], json!(["waitingOnApproval"]));
    let again = command(&mut second).await;
    assert_eq!(again, asked);
    assert_eq!(second.methods()[before..][..2], ["answer", COMMAND]);

    let listed = second.ok("approval/list", json!({"threadId": thread})).await;
    assert_eq!(listed["data"][0]["approvalId"], asked["id"]);
    assert_eq!(listed["data"][0]["kind"], "command");
    let accept = json!({"approvalId": asked["id"], "decision": "accept"});
    let outcome = second.ok("approval/respond", accept).await;
    assert_eq!(outcome["outcome"]["decision"], "accept");
    assert_eq!(end_of_command(&mut second).await["status"], "completed");
    second.until("turn/completed").await;
    assert_eq!(second.ok("approval/list", json!({})).await["data"], json!([]));
    observer.until("serverRequest/resolved").await;
    assert_eq!(observer.count(COMMAND), 0);
}

#[tokio::test]
async fn a_decline_goes_on_and_a_cancel_interrupts() {
    let stage = Stage::new().await;
    let mut client = stage.client("decider").await;
    let thread = client.thread(json!({})).await;
    client.turn(&thread, RUN).await;
    let asked = command(&mut client).await;
    client.respond(&asked, json!({"decision": "decline"})).await;
    assert_eq!(end_of_command(&mut client).await["status"], "declined");
    assert_eq!(client.until("turn/completed").await["params"]["turn"]["status"], "completed");

    client.turn(&thread, RUN).await;
    let asked = command(&mut client).await;
    client.respond(&asked, json!({"decision": "cancel"})).await;
    let resolved = client.until("serverRequest/resolved").await;
    assert_eq!(resolved["params"]["decision"], "cancel");
    assert_eq!(client.until("turn/completed").await["params"]["turn"]["status"], "interrupted");
}

#[tokio::test]
async fn of_two_answers_right_behind_each_other_the_first_one_counts() {
    let stage = Stage::new().await;
    let mut client = stage.client("hasty").await;
    let thread = client.thread(json!({})).await;
    for round in 0..20 {
        let (first, second) = if round % 2 == 0 { ("decline", "accept") } else { ("accept", "decline") };
        client.turn(&thread, RUN).await;
        let asked = command(&mut client).await;
        client.respond(&asked, json!({"decision": first})).await;
        client.respond(&asked, json!({"decision": second})).await;
        let resolved = client.until("serverRequest/resolved").await;
        assert_eq!(resolved["params"]["decision"], first, "round {round}");
        client.until("turn/completed").await;
    }
}

#[tokio::test]
async fn an_array_is_no_answer() {
    let stage = Stage::new().await;
    let mut client = stage.client("odd").await;
    let thread = client.thread(json!({})).await;
    client.turn(&thread, RUN).await;
    let asked = command(&mut client).await;
    client.respond(&asked, json!(["accept"])).await;
    let resolved = client.until("serverRequest/resolved").await;
    assert_eq!(resolved["params"]["by"]["kind"], "unattended", "the only client cannot answer");
    assert_eq!(end_of_command(&mut client).await["status"], "declined");
}

#[tokio::test]
async fn what_is_allowed_for_the_session_is_not_asked_again() {
    let stage = Stage::new().await;
    let mut client = stage.client("decider").await;
    let thread = client.thread(json!({})).await;
    client.turn(&thread, RUN).await;
    let asked = command(&mut client).await;
    client.respond(&asked, json!({"decision": "acceptForSession"})).await;
    let resolved = client.until("serverRequest/resolved").await;
    assert_eq!(resolved["params"]["decision"], "acceptForSession");
    client.until("turn/completed").await;
    client.turn(&thread, RUN).await;
    assert_eq!(end_of_command(&mut client).await["status"], "completed");
    client.until("turn/completed").await;
    assert_eq!(client.count(COMMAND), 1);
}

#[tokio::test]
async fn a_client_that_cannot_answer_does_not_hang_the_turn() {
    let stage = Stage::new().await;
    for useless in [json!({}), json!({"decision": "banana"}), json!("yes"), Value::Null] {
        let mut client = stage.client("helpless").await;
        let thread = client.thread(json!({})).await;
        client.turn(&thread, RUN).await;
        let asked = command(&mut client).await;
        client.respond(&asked, useless.clone()).await;
        let told = client.until("warning").await;
        assert!(told["params"]["message"].as_str().unwrap().contains(COMMAND), "{told}");
        let resolved = client.until("serverRequest/resolved").await;
        assert_eq!(resolved["params"]["decision"], "decline", "{useless}");
        assert_eq!(resolved["params"]["by"]["kind"], "unattended");
        assert_eq!(end_of_command(&mut client).await["status"], "declined");
        assert_eq!(client.until("turn/completed").await["params"]["turn"]["status"], "completed");
    }
}

#[tokio::test]
async fn an_answer_that_cannot_be_used_leaves_it_to_the_others() {
    let stage = Stage::new().await;
    let [mut first, mut second] = stage.clients().await;
    let thread = first.thread(json!({})).await;
    second.ok("thread/resume", json!({"threadId": thread})).await;
    first.turn(&thread, RUN).await;
    let asked = command(&mut first).await;
    command(&mut second).await;
    first.send(json!({"id": asked["id"], "error": {"code": -32601, "message": "no such method"}})).await;
    let told = first.until("warning").await;
    assert!(told["params"]["message"].as_str().unwrap().contains("no such method"), "{told}");
    // The same client may still answer, and so may the other.
    first.respond(&asked, json!({"optionId": "no such option"})).await;
    first.until_that("warning", |told| told["message"].as_str().unwrap().contains("no such option")).await;
    second.respond(&asked, json!({"decision": "accept"})).await;
    let resolved = first.until("serverRequest/resolved").await;
    assert_eq!(resolved["params"]["by"]["name"], "second");
    assert_eq!(end_of_command(&mut first).await["status"], "completed");
    first.until("turn/completed").await;
}

#[tokio::test]
async fn an_approval_is_rejected_when_only_those_remain_that_could_not_answer() {
    let stage = Stage::new().await;
    let [mut first, mut second] = stage.clients().await;
    let thread = first.thread(json!({})).await;
    second.ok("thread/resume", json!({"threadId": thread})).await;
    first.turn(&thread, RUN).await;
    let asked = command(&mut first).await;
    first.respond(&asked, json!({})).await;
    first.until("warning").await;
    command(&mut second).await;
    drop(second);
    let resolved = first.until("serverRequest/resolved").await;
    assert_eq!(resolved["params"]["decision"], "decline");
    first.until("turn/completed").await;
}

#[tokio::test]
async fn who_said_never_ask_is_not_asked() {
    let stage = Stage::new().await;
    let mut client = stage.client("never").await;
    let thread = client.thread(json!({"approvalPolicy": "never", "sandbox": "workspace-write"})).await;
    client.turn(&thread, "run echo no\nwrite note.txt <<\nkept\n<<").await;
    assert_eq!(end_of_command(&mut client).await["status"], "declined");
    let completed = client.until("turn/completed").await;
    assert_eq!(completed["params"]["turn"]["status"], "completed");
    assert_eq!(client.count(COMMAND), 0);
    let resolved = client.log.iter().find(|frame| frame["method"] == "serverRequest/resolved").unwrap();
    assert_eq!(resolved["params"]["by"], json!({"kind": "policy", "name": "never_ask"}));
    let change = client
        .log
        .iter()
        .find(|frame| frame["method"] == "item/completed" && frame["params"]["item"]["type"] == "fileChange");
    assert_eq!(change.unwrap()["params"]["item"]["status"], "completed");
    client.ok("thread/settings/update", json!({"threadId": thread, "approvalPolicy": "untrusted"})).await;
    client.turn(&thread, RUN).await;
    let asked = command(&mut client).await;
    client.respond(&asked, json!({"decision": "accept"})).await;
    client.until("turn/completed").await;
}

#[tokio::test]
async fn an_interrupt_takes_the_question_back() {
    let stage = Stage::new().await;
    let mut client = stage.client("asker").await;
    let thread = client.thread(json!({})).await;
    let turn = client.turn(&thread, RUN).await;
    let asked = command(&mut client).await;
    client.ok("turn/interrupt", json!({"threadId": thread, "turnId": turn})).await;
    let resolved = client.until("serverRequest/resolved").await;
    assert_eq!(resolved["params"]["by"]["kind"], "interrupt");
    client.until("turn/completed").await;
    let resolved = client.place(|frame| frame["method"] == "serverRequest/resolved");
    let closed = client.place(|frame| {
        frame["method"] == "item/completed" && frame["params"]["item"]["type"] == "commandExecution"
    });
    let completed = client.place(|frame| frame["method"] == "turn/completed");
    assert!(resolved < closed && closed < completed, "{:?}", client.methods());
    client.respond(&asked, json!({"decision": "accept"})).await;
    let told = client.until("warning").await;
    assert!(told["params"]["message"].as_str().unwrap().contains("too late"), "{told}");
}

#[tokio::test]
async fn other_tools_are_put_as_questions() {
    let stage = Stage::new().await;
    let mut client = stage.client("asker").await;
    let thread = client.thread(json!({})).await;
    client.turn(&thread, "unkinded echo done").await;
    let asked = client.until("item/tool/requestUserInput").await;
    let question = &asked["params"]["questions"][0];
    let (id, label) = (question["id"].as_str().unwrap(), &question["options"][0]["label"]);
    client.respond(&asked, json!({"answers": {id: {"answers": [label]}}})).await;
    let resolved = client.until("serverRequest/resolved").await;
    assert_eq!(resolved["params"]["optionId"], "allow");
    client.until("turn/completed").await;

    // Words of the user's own are a decline that tells the agent.
    client.turn(&thread, "unkinded echo again").await;
    let asked = client.until("item/tool/requestUserInput").await;
    let id = asked["params"]["questions"][0]["id"].as_str().unwrap();
    client.respond(&asked, json!({"answers": {id: {"answers": ["say rather not"]}}})).await;
    let resolved = client.until("serverRequest/resolved").await;
    assert_eq!(resolved["params"]["decision"], "decline");
    let said = |told: &Value| told["item"]["type"] == "agentMessage" && told["item"]["text"] == "rather not";
    client.until_that("item/completed", said).await;
    client.until("turn/completed").await;
}

#[tokio::test]
async fn a_question_with_fields_is_answered_with_values() {
    let stage = Stage::new().await;
    let mut client = stage.client("asker").await;
    let thread = client.thread(json!({})).await;
    client.turn(&thread, "ask Which one? | red | blue").await;
    let asked = client.until("mcpServer/elicitation/request").await;
    assert_eq!(asked["params"]["message"], "Which one?");
    assert_eq!(asked["params"]["serverName"], "rehearsal");
    let field = asked["params"]["requestedSchema"]["properties"].as_object().unwrap().keys().next().unwrap();
    let status =
        client.place(|frame| frame["params"]["status"]["activeFlags"] == json!(["waitingOnUserInput"]));
    assert!(status < client.log.len());
    client.respond(&asked, json!({"action": "accept", "content": {field: "blue"}})).await;
    let said = |told: &Value| {
        let text = told["item"]["text"].as_str().unwrap_or_default();
        told["item"]["type"] == "agentMessage" && text.contains("blue")
    };
    client.until_that("item/completed", said).await;
    client.until("turn/completed").await;
}

/// A line of a script that asks to open an address.
fn open_address(how: &str) -> String {
    let params =
        json!({"mode": "url", "elicitationId": "e1", "url": "https://x.test/login", "message": "Log in"});
    format!("{how} elicitation/create {params}\n")
}

#[tokio::test]
async fn an_address_to_open_is_shown_whole_and_answered_by_whoever_opened_it() {
    let stage = Stage::new().await;
    let [mut client, mut other] = stage.clients().await;
    let thread = client.thread(json!({})).await;
    client.turn(&thread, &open_address("send-request")).await;
    let asked = client.until("mcpServer/elicitation/request").await;
    let params = &asked["params"];
    assert_eq!((&params["mode"], &params["url"]), (&json!("url"), &json!("https://x.test/login")));
    assert_eq!((&params["elicitationId"], &params["message"]), (&json!("e1"), &json!("Log in")));
    assert_eq!(params.get("requestedSchema"), None);
    let listed = other.ok("approval/list", json!({"threadId": thread})).await;
    assert_eq!(listed["data"][0]["form"]["url"], "https://x.test/login");
    let id = listed["data"][0]["approvalId"].as_str().unwrap();
    other.ok("approval/respond", json!({"approvalId": id, "decision": "accept"})).await;
    let said = |told: &Value| told["item"]["text"].as_str().unwrap_or_default().contains("\"accept\"");
    client.until_that("item/completed", said).await;
    client.until("turn/completed").await;
}

#[tokio::test]
async fn an_address_needs_no_answer_when_the_agent_says_that_it_is_done() {
    let stage = Stage::new().await;
    let mut client = stage.client("asker").await;
    let thread = client.thread(json!({})).await;
    let done = "send-notification elicitation/complete {\"elicitationId\":\"e1\"}\nsleep 1";
    client.turn(&thread, &(open_address("send-unheard") + done)).await;
    let asked = client.until("mcpServer/elicitation/request").await;
    let resolved = client.until("serverRequest/resolved").await;
    assert_eq!(resolved["params"]["requestId"], asked["id"]);
    assert_eq!(resolved["params"]["by"]["kind"], "agent");
    assert_eq!(resolved["params"]["decision"], "accept");
    client.until("turn/completed").await;
}

#[tokio::test]
async fn an_answer_out_of_bounds_is_refused_with_the_bound_and_the_question_stays_open() {
    let stage = Stage::new().await;
    let mut client = stage.client("asker").await;
    let thread = client.thread(json!({})).await;
    let schema = json!({"type": "object", "required": ["code"],
        "properties": {"code": {"type": "string", "minLength": 4, "pattern": "^\\d+$"}}});
    let params = json!({"mode": "form", "message": "The code?", "requestedSchema": schema});
    client.turn(&thread, &format!("send-request elicitation/create {params}")).await;
    let asked = client.until("mcpServer/elicitation/request").await;
    assert_eq!(asked["params"]["requestedSchema"]["properties"]["code"]["minLength"], 4);
    let answer = |code: &str| json!({"approvalId": asked["params"]["approvalId"], "decision": "accept", "content": {"code": code}});
    for (code, bound) in [("12", "at least 4 characters"), ("12x4", "pattern")] {
        let error = client.refusal("approval/respond", answer(code)).await;
        assert_eq!(error["data"]["reason"], "invalid_params");
        assert!(error["message"].as_str().unwrap().contains(bound), "{error}");
    }
    // As an answer to the request itself it is refused too, and the client is told so.
    client.respond(&asked, json!({"action": "accept", "content": {"code": "1"}})).await;
    let warned = client.until("warning").await;
    assert!(warned["params"]["message"].as_str().unwrap().contains("at least 4 characters"), "{warned}");
    let open = client.ok("approval/list", json!({"threadId": thread})).await;
    assert_eq!(open["data"].as_array().unwrap().len(), 1);
    client.ok("approval/respond", answer("1234")).await;
    let said = |told: &Value| told["item"]["text"].as_str().unwrap_or_default().contains("1234");
    client.until_that("item/completed", said).await;
    client.until("turn/completed").await;
}
