//! The other side: a scripted agent. The test program starts itself again with a part to play in its environment.

use std::io::{BufRead, Write};
use std::process::{Command, exit};

use serde_json::{Value, json};

/// Names the part.
pub(crate) const PART: &str = "FAKE_AGENT";

/// Session id of all fakes.
pub(crate) const SESSION: &str = "fake-session";

/// Does nothing in a test run; in a process started as an agent it plays its part and leaves.
#[test]
fn plays_its_part() {
    let Ok(part) = std::env::var(PART) else { return };
    let mut fake = Fake { capabilities: json!({}), opened: json!({}) };
    play(&part, &mut fake);
    exit(0)
}

struct Fake {
    capabilities: Value,
    opened: Value,
}

fn write(text: &str) {
    let mut out = std::io::stdout().lock();
    // The test may have stopped us; then there is nobody to tell.
    if out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_err() {
        exit(1)
    }
}

pub(crate) fn send(message: &Value) {
    write(&format!("{message}\n"));
}

pub(crate) fn update(update: Value) {
    send(&json!({"jsonrpc":"2.0","method":"session/update","params":{"sessionId":SESSION,"update":update}}));
}

pub(crate) fn say(text: &str) {
    update(
        json!({"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":text}}),
    );
}

/// The next line from the client; leaves at the end of the input.
pub(crate) fn receive() -> Value {
    let mut line = String::new();
    if std::io::stdin().lock().read_line(&mut line).unwrap_or(0) == 0 {
        exit(0)
    }
    serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

pub(crate) fn expect(method: &str) -> Value {
    let message = receive();
    assert_eq!(message["method"], method, "{message}");
    message
}

pub(crate) fn answer(request: &Value, result: Value) {
    send(&json!({"jsonrpc":"2.0","id":request["id"],"result":result}));
}

pub(crate) fn refuse(request: &Value, code: i64, message: &str) {
    send(&json!({"jsonrpc":"2.0","id":request["id"],"error":{"code":code,"message":message}}));
}

/// Shows what the client sent, for the test to look at.
pub(crate) fn show(message: &Value) {
    say(&format!("{message}\n"));
}

impl Fake {
    fn initialize(&self) {
        let request = expect("initialize");
        answer(
            &request,
            json!({"protocolVersion":1,"agentInfo":{"name":"fake","version":"0.1"},"agentCapabilities":self.capabilities}),
        );
    }

    fn open(&self) {
        self.initialize();
        let request = expect("session/new");
        let mut opened = self.opened.clone();
        opened["sessionId"] = json!(SESSION);
        answer(&request, opened);
    }

    /// Opens, and gives the first prompt.
    fn prompt(&self) -> Value {
        self.open();
        expect("session/prompt")
    }
}

pub(crate) fn end_turn(prompt: &Value) {
    answer(prompt, json!({"stopReason":"end_turn"}));
}

/// Nothing more to do: wait for the end of the input.
pub(crate) fn idle() -> ! {
    loop {
        receive();
    }
}

fn ask_permission(id: Value) {
    send(
        &json!({"jsonrpc":"2.0","id":id,"method":"session/request_permission","params":{"sessionId":SESSION,
        "toolCall":{"toolCallId":"call-1","kind":"execute","title":"ls","rawInput":{"command":"ls"}},
        "options":[{"optionId":"yes","name":"Yes","kind":"allow_once"},{"optionId":"no","name":"No","kind":"reject_once"}]}}),
    );
}

fn mode_options(mode: &str, model: &str) -> Value {
    json!([
        {"id":"m1","name":"Mode","category":"mode","type":"select","currentValue":mode,
            "options":[{"value":"auto","name":"Auto"},{"value":"careful","name":"Careful"}]},
        {"id":"m2","name":"Model","category":"model","type":"select","currentValue":model,
            "options":[{"value":"small","name":"Small"},{"value":"large","name":"Large"}]},
    ])
}

fn play(part: &str, fake: &mut Fake) {
    match part {
        "turn" => {
            let prompt = fake.prompt();
            update(json!({"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"hm"}}));
            say("Hello");
            say(" there");
            update(
                json!({"sessionUpdate":"tool_call","toolCallId":"c","title":"look","kind":"read","status":"in_progress"}),
            );
            update(json!({"sessionUpdate":"tool_call_update","toolCallId":"c","status":"completed"}));
            update(json!({"sessionUpdate":"usage_update","used":10,"size":100}));
            answer(
                &prompt,
                json!({"stopReason":"end_turn","usage":{"inputTokens":8,"outputTokens":2,"totalTokens":10}}),
            );
            update(json!({"sessionUpdate":"session_info_update","title":"A title"}));
            say("afterthought");
            idle()
        }
        "permission" => {
            let prompt = fake.prompt();
            // The first mention of the call, and the id is a valid one.
            ask_permission(json!(0));
            let outcome = receive();
            show(&outcome);
            end_turn(&prompt);
            idle()
        }
        "question" => {
            let prompt = fake.prompt();
            send(
                &json!({"id":"q","method":"elicitation/create","params":{"mode":"form","sessionId":SESSION,"toolCallId":"c",
                "message":"Which?","requestedSchema":{"type":"object","properties":{"colour":{"type":"string","enum":["red","blue"]}}}}}),
            );
            show(&receive());
            end_turn(&prompt);
            idle()
        }
        "withdraws" => {
            let prompt = fake.prompt();
            ask_permission(json!("p-1"));
            send(&json!({"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"p-1"}}));
            show(&receive());
            end_turn(&prompt);
            idle()
        }
        "cancellable" => {
            let prompt = fake.prompt();
            say("working");
            ask_permission(json!(1));
            let (mut cancelled, mut answered) = (false, false);
            while !(cancelled && answered) {
                let message = receive();
                cancelled |= message["method"] == "session/cancel";
                if message["id"] == 1 {
                    answered = true;
                    show(&message);
                }
            }
            // What is asked after a cancel is answered too.
            ask_permission(json!(2));
            show(&receive());
            refuse(&prompt, -32800, "Request cancelled");
            let prompt = expect("session/prompt");
            say("again");
            end_turn(&prompt);
            idle()
        }
        "ignores-cancel" => {
            fake.prompt();
            say("working");
            idle()
        }
        "exits-at-once" => {
            eprintln!("fake: no configuration found");
            write("this is not ACP\n");
            exit(3)
        }
        "exits-in-turn" => {
            fake.prompt();
            say("the last words");
            eprintln!("fake: out of luck");
            exit(7)
        }
        "tells-its-secrets" => {
            let key = std::env::var("API_KEY").unwrap_or_default();
            let prompt = fake.prompt();
            write(&format!("banner: {key}\n"));
            eprintln!("fake: the environment is {}", json!({ "API_KEY": key }));
            refuse(&prompt, -32603, &format!("cannot log in with {key}"));
            exit(9)
        }
        "refuses-at-length" => {
            refuse(&fake.prompt(), -32603, &"E".repeat(18_000_000));
            idle()
        }
        "silent" => idle(),
        "silent-in-prompt" => {
            let prompt = fake.prompt();
            let cancel = expect("session/cancel");
            assert!(cancel.get("id").is_none());
            say("well");
            answer(&prompt, json!({"stopReason":"cancelled"}));
            idle()
        }
        "garbage" => {
            write(
                "loading…\n\n{\"level\":\"info\",\"id\":1}\n42\n[1,2]\n{\"jsonrpc\":\"2.0\",\"id\":999,\"result\":{}}\n\u{0}\u{1}\n",
            );
            let request = expect("initialize");
            // Neither a version of JSON-RPC nor one of ACP.
            send(&json!({"id":request["id"],"result":{}}));
            let request = expect("session/new");
            send(&json!({"id":request["id"],"result":{"sessionId":SESSION}}));
            let prompt = expect("session/prompt");
            write(
                "{\"method\":\"session/update\",\"params\":{\"sessionId\":\"fake-session\",\"update\":{\"sessionUpdate\":\"agent_message_chunk\"",
            );
            write("\n");
            send(
                &json!({"method":"session/update","params":{"sessionId":SESSION,"update":{"sessionUpdate":"never_heard_of","x":1}}}),
            );
            send(
                &json!({"method":"session/update","params":{"sessionId":"somebody-else","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"not ours"}}}}),
            );
            say("still here");
            send(&json!({"id":prompt["id"],"result":{"stopReason":"because"}}));
            // Nothing of that was answered, or it would come before the next prompt.
            let prompt = expect("session/prompt");
            end_turn(&prompt);
            idle()
        }
        "asks-unknown" => {
            let prompt = fake.prompt();
            send(&json!({"id":0,"method":"craft/drainMidTurnQueue","params":{}}));
            show(&receive());
            send(
                &json!({"id":1,"method":"fs/write_text_file","params":{"sessionId":SESSION,"path":"/x","content":""}}),
            );
            show(&receive());
            end_turn(&prompt);
            idle()
        }
        "replays-before" | "replays-after" => {
            fake.capabilities = json!({"loadSession":true});
            fake.initialize();
            let request = expect("session/load");
            assert_eq!(request["params"]["sessionId"], SESSION);
            let history = || {
                update(
                    json!({"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"old question"}}),
                );
                say("old answer");
                update(
                    json!({"sessionUpdate":"tool_call","toolCallId":"old","title":"old","kind":"read","status":"completed"}),
                );
                update(
                    json!({"sessionUpdate":"available_commands_update","availableCommands":[{"name":"go","description":""}]}),
                );
            };
            if part == "replays-before" {
                history();
                send(&json!({"id":request["id"],"result":null}));
            } else {
                answer(&request, json!({}));
                history();
            }
            let prompt = expect("session/prompt");
            say("new answer");
            end_turn(&prompt);
            idle()
        }
        "resumes" => {
            fake.capabilities = json!({"loadSession":true,"sessionCapabilities":{"resume":{}}});
            fake.initialize();
            let request = expect("session/resume");
            answer(&request, json!({}));
            idle()
        }
        "forgot" => {
            fake.capabilities = json!({"loadSession":true,"sessionCapabilities":{"resume":{}}});
            fake.initialize();
            refuse(&expect("session/resume"), -32602, "unknown session");
            refuse(&expect("session/load"), -32603, "unknown session");
            let request = expect("session/new");
            answer(&request, json!({"sessionId":SESSION}));
            idle()
        }
        "wants-login" => {
            let request = expect("initialize");
            answer(&request, json!({"protocolVersion":1,"authMethods":[{"id":"key","name":"API key"}]}));
            refuse(&expect("session/new"), -32000, "Authentication required");
            idle()
        }
        "speaks-two" => {
            let request = expect("initialize");
            answer(&request, json!({"protocolVersion":2}));
            idle()
        }
        "huge-line" => {
            fake.prompt();
            let part = "x".repeat(64 << 10);
            loop {
                write(&part);
            }
        }
        "many-values" => {
            fake.prompt();
            let values = "1,".repeat(600_000);
            write(&format!("{{\"method\":\"session/update\",\"params\":{{\"all\":[{values}1]}}}}\n"));
            idle()
        }
        "giant" => {
            let prompt = fake.prompt();
            for text in ["y", "z"] {
                say(&text.repeat(8 << 20));
            }
            end_turn(&prompt);
            idle()
        }
        "giant-begun" => {
            fake.prompt();
            write(&"x".repeat(2 << 20));
            idle()
        }
        "long-line" => {
            let prompt = fake.prompt();
            say(&"y".repeat(3 << 20));
            end_turn(&prompt);
            idle()
        }
        "early" => {
            fake.initialize();
            let request = expect("session/new");
            update(
                json!({"sessionUpdate":"available_commands_update","availableCommands":[{"name":"go","description":"d","input":{"hint":"where"}}]}),
            );
            answer(&request, json!({"sessionId":SESSION}));
            idle()
        }
        "modes" => {
            fake.opened = json!({"configOptions":mode_options("auto", "small")});
            fake.open();
            let request = expect("session/set_config_option");
            assert_eq!(request["params"]["configId"], "m1");
            assert_eq!(request["params"]["value"], "careful");
            update(
                json!({"sessionUpdate":"config_option_update","configOptions":mode_options("careful", "small")}),
            );
            answer(&request, json!({"configOptions":mode_options("careful", "small")}));
            let request = expect("session/set_config_option");
            assert_eq!(request["params"]["value"], "large");
            answer(&request, json!({"configOptions":mode_options("careful", "large")}));
            // At run time: one is taken, one refused.
            let request = expect("session/set_config_option");
            answer(&request, json!({"configOptions":mode_options("careful", "small")}));
            refuse(&expect("session/set_config_option"), -32603, "not now");
            let prompt = expect("session/prompt");
            end_turn(&prompt);
            idle()
        }
        "old-modes" => {
            fake.opened = json!({
                "modes":{"currentModeId":"default","availableModes":[{"id":"default","name":"Default"},{"id":"yolo","name":"YOLO"}]},
                "models":{"currentModelId":"a","availableModels":[{"modelId":"a","name":"A"},{"modelId":"b","name":"B"}]}});
            fake.open();
            let request = expect("session/set_mode");
            assert_eq!(request["params"]["modeId"], "yolo");
            answer(&request, json!({}));
            let request = expect("session/set_model");
            assert_eq!(request["params"], json!({"sessionId":SESSION,"modelId":"b"}));
            answer(&request, json!({}));
            update(json!({"sessionUpdate":"current_mode_update","currentModeId":"default"}));
            idle()
        }
        "floods" => {
            let prompt = fake.prompt();
            for n in 0..300 {
                // Ids that change keep chunks from merging.
                let line = |n: u32| {
                    let update = json!({"sessionUpdate":"agent_message_chunk","messageId":format!("m{}", n % 7),
                        "content":{"type":"text","text":format!("{n} ")}});
                    json!({"method":"session/update","params":{"sessionId":SESSION,"update":update}})
                        .to_string()
                        + "\n"
                };
                write(&(n * 100..n * 100 + 100).map(line).collect::<String>());
            }
            expect("session/cancel");
            answer(&prompt, json!({"stopReason":"cancelled"}));
            idle()
        }
        "brood" => {
            let prompt = fake.prompt();
            let child = |own_group: bool| {
                use std::os::unix::process::CommandExt;
                let mut command = Command::new("sleep");
                command.arg("1000").stdin(std::process::Stdio::null());
                if own_group {
                    command.process_group(0);
                }
                command.spawn().unwrap_or_else(|error| panic!("{error}")).id()
            };
            say(&format!("{} {} {}", std::process::id(), child(false), child(true)));
            end_turn(&prompt);
            idle()
        }
        "environment" => {
            let prompt = fake.prompt();
            let names: Vec<String> = std::env::vars().map(|(name, _)| name).collect();
            say(&format!("{} in {}", names.join(","), std::env::current_dir().unwrap_or_default().display()));
            end_turn(&prompt);
            idle()
        }
        other if other.starts_with("two-") => crate::second::play(other),
        other => crate::keeper::play(other),
    }
}
