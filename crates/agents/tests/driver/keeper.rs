//! Parts of the scripted agent that are about sessions which it keeps: listed, told again, deleted.

use std::process::exit;

use serde_json::{Value, json};

use crate::fake::{SESSION, answer, end_turn, expect, idle, receive, refuse, say, send, update};

/// What the conversation is, in most parts.
fn history() {
    user("old question");
    say("old answer");
    update(json!({"sessionUpdate":"usage_update","used":10,"size":100}));
    update(
        json!({"sessionUpdate":"tool_call","toolCallId":"t","title":"ls","kind":"execute","status":"completed",
        "rawInput":{"command":"ls"},"content":[{"type":"content","content":{"type":"text","text":"one two"}}]}),
    );
    user("second question");
    update(
        json!({"sessionUpdate":"available_commands_update","availableCommands":[{"name":"go","description":""}]}),
    );
    // The same id again, for another call, which stays open.
    update(
        json!({"sessionUpdate":"tool_call","toolCallId":"t","title":"rm x","kind":"execute","status":"in_progress",
        "rawInput":{"command":"rm x"}}),
    );
    update(json!({"sessionUpdate":"session_info_update","title":"The old one"}));
}

fn user(text: &str) {
    update(json!({"sessionUpdate":"user_message_chunk","content":{"type":"text","text":text}}));
}

/// Answers `initialize`; every keeper can list and says so.
fn introduce(load: bool, more: Value) {
    let request = expect("initialize");
    let mut session = json!({"list":{}});
    session.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
    answer(
        &request,
        json!({"protocolVersion":1,"agentInfo":{"name":"keeper","version":"2"},
            "agentCapabilities":{"loadSession":load,"sessionCapabilities":session}}),
    );
}

fn page(cursor: Option<&str>) {
    let request = expect("session/list");
    assert_eq!(request["params"].get("cursor").and_then(Value::as_str), cursor);
    let (id, next) = if cursor.is_none() { ("a", json!("two")) } else { ("b", Value::Null) };
    let session = json!({"sessionId":id,"cwd":"/w","title":id,"updatedAt":"2026-11-30T17:55:57.673Z"});
    answer(&request, json!({"sessions":[session],"nextCursor":next}));
}

/// Asks the user, and goes on only once there is an answer.
fn ask(id: &str, session: Value) {
    let mut params = json!({"mode":"form","message":"Which?",
        "requestedSchema":{"type":"object","properties":{"colour":{"type":"string"}}}});
    match session {
        Value::Null => params["requestId"] = json!(1),
        session => params["sessionId"] = session,
    }
    send(&json!({"jsonrpc":"2.0","id":id,"method":"elicitation/create","params":params}));
    while receive()["id"] != id {}
}

pub(crate) fn play(part: &str) {
    match part {
        "keeper-pages" => {
            introduce(true, json!({"delete":{}}));
            page(None);
            page(Some("two"));
            refuse(&expect("session/list"), -32603, "out of order");
            let request = expect("session/delete");
            assert_eq!(request["params"], json!({"sessionId":"a"}));
            answer(&request, json!({}));
            idle()
        }
        "keeper-wants-login" => {
            let request = expect("initialize");
            answer(
                &request,
                json!({"protocolVersion":1,"authMethods":[{"id":"key","name":"API key"}],
                "agentCapabilities":{"sessionCapabilities":{"list":{}}}}),
            );
            refuse(&expect("session/list"), -32000, "Authentication required");
            idle()
        }
        "keeper-lists-nothing" => {
            let request = expect("initialize");
            answer(&request, json!({"protocolVersion":1,"agentCapabilities":{"loadSession":true}}));
            idle()
        }
        "keeper-replays-before" | "keeper-replays-after" | "keeper-replays-around" => {
            introduce(true, json!({"resume":{}}));
            let request = expect("session/load");
            assert_eq!(request["params"]["cwd"], "/w");
            match part {
                "keeper-replays-before" => {
                    history();
                    answer(&request, Value::Null);
                }
                "keeper-replays-after" => {
                    answer(&request, json!({}));
                    history();
                }
                _ => {
                    user("old question");
                    user("<note>It is Tuesday.</note>");
                    answer(&request, json!({}));
                    say("old answer");
                    update(
                        json!({"sessionUpdate":"tool_call","toolCallId":"p","title":"1 todo","kind":"other",
                        "status":"pending","rawInput":{"todos":[{"content":"Look","status":"pending"}]}}),
                    );
                }
            }
            let prompt = expect("session/prompt");
            say("new answer");
            end_turn(&prompt);
            idle()
        }
        "keeper-only-resumes" => {
            introduce(false, json!({"resume":{}}));
            let request = expect("session/resume");
            answer(&request, json!({}));
            idle()
        }
        "keeper-has-lost-it" => {
            introduce(true, json!({"resume":{}}));
            refuse(&expect("session/load"), -32603, "no such session");
            idle()
        }
        "keeper-asks" => {
            introduce(true, json!({}));
            let list = expect("session/list");
            ask("q-1", Value::Null);
            answer(&list, json!({"sessions":[{"sessionId":SESSION,"cwd":"/w"}]}));
            let load = expect("session/load");
            ask("q-2", json!(SESSION));
            answer(&load, json!({}));
            idle()
        }
        "keeper-dies-in-replay" => {
            introduce(true, json!({}));
            expect("session/load");
            user("old question");
            eprintln!("keeper: out of memory");
            exit(9)
        }
        "keeper-cannot-open" => {
            introduce(false, json!({}));
            idle()
        }
        "closes" => {
            introduce(true, json!({"close":{}}));
            let request = expect("session/new");
            answer(&request, json!({"sessionId":SESSION}));
            let request = expect("session/close");
            assert_eq!(request["params"], json!({"sessionId":SESSION}));
            // Heard by the client although it is stopping.
            say("put away");
            answer(&request, json!({}));
            idle()
        }
        other => panic!("no such part: {other}"),
    }
}
