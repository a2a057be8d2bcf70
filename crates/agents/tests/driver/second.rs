//! Parts of the scripted agent that speak version 2 of ACP.

use std::process::exit;

use serde_json::{Value, json};

use crate::fake::{SESSION, answer, end_turn, expect, idle, receive, refuse, say, send, show, update};

/// Answers `initialize` in version 2.
fn introduce() {
    let request = expect("initialize");
    assert_eq!(request["params"]["protocolVersion"], 2);
    assert_eq!(request["params"]["info"]["name"], "signalbox");
    answer(
        &request,
        json!({"protocolVersion":2,"info":{"name":"fake","version":"0.2"},
        "capabilities":{"session":{"prompt":{"image":{}},"mcp":{"stdio":{}}}}}),
    );
}

fn open() {
    introduce();
    let request = expect("session/new");
    answer(
        &request,
        json!({"sessionId":SESSION,"availableCommands":[{"type":"command","name":"go","description":""}]}),
    );
}

/// Opens, and takes the first prompt as the message of this id.
fn take(id: &str) {
    open();
    let prompt = expect("session/prompt");
    echo(id);
    answer(&prompt, json!({"messageId":id}));
    state("running");
}

fn echo(id: &str) {
    update(json!({"sessionUpdate":"user_message","messageId":id,"content":[{"type":"text","text":"go"}]}));
}

fn state(state: &str) {
    update(json!({"sessionUpdate":"state_update","state":state}));
}

fn rest(reason: &str) {
    update(json!({"sessionUpdate":"state_update","state":"idle","stopReason":reason,
        "usage":{"inputTokens":8,"outputTokens":2,"totalTokens":10}}));
}

fn whole(id: &str, content: Value) {
    update(json!({"sessionUpdate":"agent_message","messageId":id,"content":content}));
}

fn text(text: &str) -> Value {
    json!({"type":"text","text":text})
}

fn ask_permission(id: u64) {
    send(
        &json!({"jsonrpc":"2.0","id":id,"method":"session/request_permission","params":{"sessionId":SESSION,
        "title":"Run it?","description":"It is needed.",
        "subject":{"type":"tool_call","toolCall":{"toolCallId":"c","status":"pending"}},
        "options":[{"optionId":"yes","name":"Yes","kind":"allow_once"},{"optionId":"no","name":"No","kind":"reject_once"}]}}),
    );
}

pub(crate) fn play(part: &str) {
    match part {
        "two-turn" => {
            take("u");
            update(json!({"sessionUpdate":"agent_thought_chunk","messageId":"m","content":text("hm")}));
            say("Hello");
            whole("m", json!([text("Hello"), text(" there")]));
            update(json!({"sessionUpdate":"terminal_update","terminalId":"t","command":"ls"}));
            update(
                json!({"sessionUpdate":"tool_call_update","toolCallId":"c","kind":"execute","title":"ls","status":"pending",
                "content":[{"type":"terminal","terminalId":"t"}]}),
            );
            state("requires_action");
            ask_permission(0);
            let answered = receive();
            assert_eq!(
                answered["result"]["outcome"],
                json!({"outcome":"selected","optionId":"yes"}),
                "{answered}"
            );
            state("running");
            update(json!({"sessionUpdate":"terminal_output_chunk","terminalId":"t","data":"YS50eHQK"}));
            update(json!({"sessionUpdate":"terminal_update","terminalId":"t","exitStatus":{"exitCode":0}}));
            update(json!({"sessionUpdate":"tool_call_update","toolCallId":"c","status":"completed"}));
            rest("end_turn");
            // Later, on its own account.
            update(json!({"sessionUpdate":"session_info_update","title":"A title"}));
            state("running");
            update(
                json!({"sessionUpdate":"agent_message_chunk","messageId":"n","content":text("afterthought")}),
            );
            rest("end_turn");
            let prompt = expect("session/prompt");
            answer(&prompt, json!({"messageId":"v"}));
            state("running");
            rest("refusal");
            idle()
        }
        // Everything in the wrong order, and a message that shrinks.
        "two-hasty" => {
            open();
            let prompt = expect("session/prompt");
            state("running");
            echo("u");
            say("The answer is 41.");
            whole("m", json!([text("42")]));
            whole("m", json!([]));
            say("43");
            rest("end_turn");
            answer(&prompt, json!({"messageId":"u"}));
            idle()
        }
        "two-cancelled" => {
            take("u");
            say("working");
            expect("session/cancel");
            say(" still");
            rest("cancelled");
            // With a request open: it is answered, and what is asked after that too.
            let prompt = expect("session/prompt");
            answer(&prompt, json!({"messageId":"v"}));
            state("requires_action");
            ask_permission(1);
            let (mut cancelled, mut answered) = (false, false);
            while !(cancelled && answered) {
                let message = receive();
                cancelled |= message["method"] == "session/cancel";
                if message["id"] == 1 {
                    answered = true;
                    show(&message);
                }
            }
            ask_permission(2);
            show(&receive());
            rest("cancelled");
            // Cancelled while it waits.
            let prompt = expect("session/prompt");
            say("another thing");
            expect("session/cancel");
            refuse(&prompt, -32800, "Request cancelled");
            let prompt = expect("session/prompt");
            answer(&prompt, json!({"messageId":"w"}));
            state("running");
            rest("end_turn");
            idle()
        }
        "two-dies" => {
            take("u");
            say("the last words");
            exit(7)
        }
        "two-answers-one" => {
            let request = expect("initialize");
            // It heard what it needs in its own version.
            assert_eq!(request["params"]["clientInfo"]["name"], "signalbox");
            assert_eq!(request["params"]["clientCapabilities"]["plan"], json!({}));
            answer(&request, json!({"protocolVersion":1}));
            let request = expect("session/new");
            assert_eq!(request["params"]["mcpServers"], json!([]));
            answer(&request, json!({"sessionId":SESSION}));
            let prompt = expect("session/prompt");
            say("as before");
            end_turn(&prompt);
            idle()
        }
        "two-refused" => {
            let request = expect("initialize");
            refuse(&request, -32602, "Invalid params");
            let request = expect("initialize");
            assert_eq!(request["params"]["protocolVersion"], 1);
            assert_eq!(request["params"].get("info"), None);
            answer(&request, json!({"protocolVersion":1}));
            let request = expect("session/new");
            answer(&request, json!({"sessionId":SESSION}));
            idle()
        }
        "two-three" => {
            let request = expect("initialize");
            answer(&request, json!({"protocolVersion":3}));
            idle()
        }
        "two-resumes" => {
            introduce();
            let request = expect("session/resume");
            assert_eq!(request["params"].get("replayFrom"), None);
            state("idle");
            answer(
                &request,
                json!({"configOptions":[{"configId":"m1","name":"Mode","category":"mode","type":"select",
                "currentValue":"auto","options":[{"value":"auto","name":"Auto"},{"value":"careful","name":"Careful"}]}]}),
            );
            let request = expect("session/set_config_option");
            let wanted = json!({"sessionId":SESSION,"configId":"m1","type":"id","value":"careful"});
            assert_eq!(request["params"], wanted);
            answer(&request, json!({}));
            idle()
        }
        "two-replays" => {
            introduce();
            let request = expect("session/resume");
            assert_eq!(request["params"]["replayFrom"], json!({"type":"start"}));
            update(json!({"sessionUpdate":"user_message","messageId":"u","content":[]}));
            update(
                json!({"sessionUpdate":"user_message_chunk","messageId":"u","content":text("old question")}),
            );
            whole("m", json!([]));
            say("old answer");
            update(
                json!({"sessionUpdate":"terminal_update","terminalId":"t","command":"ls","output":{"data":"YS50eHQK"}}),
            );
            update(
                json!({"sessionUpdate":"tool_call_update","toolCallId":"c","kind":"execute","title":"ls","status":"completed",
                "content":[{"type":"terminal","terminalId":"t"}]}),
            );
            update(json!({"sessionUpdate":"replay_complete"}));
            state("idle");
            answer(&request, json!({}));
            let prompt = expect("session/prompt");
            answer(&prompt, json!({"messageId":"v"}));
            state("running");
            say(" and a new one");
            rest("end_turn");
            idle()
        }
        "two-forgot" => {
            introduce();
            refuse(&expect("session/resume"), -32603, "unknown session");
            let request = expect("session/new");
            answer(&request, json!({"sessionId":SESSION}));
            idle()
        }
        other => panic!("no such part: {other}"),
    }
}
