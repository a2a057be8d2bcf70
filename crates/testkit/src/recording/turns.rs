//! What a client has to do so that a recording is played, and what must come of it.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Line, method};

/// What the client does next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// A turn.
    Turn(Turn),
    /// Sets an option: its id (`mode` and `model` for the older methods) and the value.
    Set(String, Value),
    /// Nothing: the agent says this by itself, after its turn and behind a setting.
    Hears(String),
}

/// How the client answered what it was asked, in the recording.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// With this option.
    Option(String),
    /// With something that no good client says, which agents take for a rejection.
    Rejected,
    /// With the content of a form.
    Form(Value),
    /// Not at all: the turn was cancelled with the request open.
    Cancelled,
}

/// A turn as it was recorded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Turn {
    /// Text of the prompt.
    pub prompt: String,
    /// Answers to permission requests and forms, in the order of the requests.
    pub answers: Vec<Answer>,
    /// The turn was cancelled, after so much text had come.
    pub cancelled_behind: Option<String>,
    /// All text of the answer, late text included.
    pub text: String,
    /// All text of thoughts.
    pub thoughts: String,
    /// Ids of the tool calls that were told of, by calls, updates or requests.
    pub calls: BTreeSet<String>,
    /// `None`: the agent left in the turn.
    pub end: Option<Result<String, Value>>,
}

/// The steps of one process of a recording.
#[must_use]
pub fn steps(process: &[Line]) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut prompt_id = Value::Null;
    let mut requests: Vec<(Value, Option<Answer>)> = Vec::new();
    let mut state = State::default();
    for line in process {
        match line {
            Line::Client(message) => match method(message) {
                Some("session/prompt") => {
                    state.finish(&mut requests, &mut steps);
                    prompt_id = message["id"].clone();
                    state.session = message["params"]["sessionId"].clone();
                    let text =
                        message.pointer("/params/prompt/0/text").and_then(Value::as_str).unwrap_or_default();
                    state.turn = Some(Turn { prompt: text.to_owned(), ..Turn::default() });
                    state.running = true;
                }
                Some("session/cancel") => {
                    if let Some(turn) = &mut state.turn {
                        turn.cancelled_behind.get_or_insert(turn.text.clone());
                    }
                }
                Some(name) => {
                    if let Some(step) = setting(name, &message["params"]) {
                        state.finish(&mut requests, &mut steps);
                        steps.push(step);
                    }
                }
                None => {
                    if let Some((_, answer)) = requests.iter_mut().find(|(id, _)| *id == message["id"]) {
                        *answer = Some(answer_of(message));
                    }
                }
            },
            Line::Agent(message) => match method(message) {
                // Those of other sessions are not of this turn.
                Some("session/update") if message["params"]["sessionId"] == state.session => {
                    let update = &message["params"]["update"];
                    state.update(update);
                    if state.turn.is_none() && update["sessionUpdate"] == "agent_message_chunk" {
                        steps.push(Step::Hears(
                            update["content"]["text"].as_str().unwrap_or_default().to_owned(),
                        ));
                    }
                }
                Some("session/request_permission") => {
                    requests.push((message["id"].clone(), None));
                    if let Some(id) = message.pointer("/params/toolCall/toolCallId").and_then(Value::as_str) {
                        state.calls(id);
                    }
                }
                Some("elicitation/create") => requests.push((message["id"].clone(), None)),
                Some(_) => {}
                None if message["id"] == prompt_id => state.answered(message),
                None => {}
            },
            Line::Raw(_) | Line::Stderr(_) | Line::Stay | Line::Exit(_) => {}
        }
    }
    state.finish(&mut requests, &mut steps);
    steps
}

#[derive(Default)]
struct State {
    /// The session that is prompted.
    session: Value,
    turn: Option<Turn>,
    running: bool,
    /// Calls of earlier turns.
    earlier: BTreeSet<String>,
}

impl State {
    /// The agent answered the prompt: at its end, or, in version 2, when it took it.
    fn answered(&mut self, message: &Value) {
        match (message.get("error"), message["result"]["stopReason"].as_str()) {
            (Some(error), _) => self.ends(Err(error.clone())),
            (None, Some(reason)) => self.ends(Ok(reason.to_owned())),
            (None, None) => {}
        }
    }

    fn ends(&mut self, end: Result<String, Value>) {
        if let Some(turn) = self.turn.as_mut().filter(|_| self.running) {
            turn.end = Some(end);
            self.running = false;
        }
    }

    fn finish(&mut self, requests: &mut Vec<(Value, Option<Answer>)>, steps: &mut Vec<Step>) {
        let answers = requests.drain(..).map(|(_, answer)| answer.unwrap_or(Answer::Cancelled));
        if let Some(mut turn) = self.turn.take() {
            turn.answers = answers.collect();
            if turn.cancelled_behind.is_none() {
                // Nobody cancels a request alone.
                turn.answers
                    .iter_mut()
                    .filter(|one| **one == Answer::Cancelled)
                    .for_each(|one| *one = Answer::Rejected);
            }
            self.earlier.extend(turn.calls.iter().cloned());
            steps.push(Step::Turn(turn));
        }
    }

    fn update(&mut self, update: &Value) {
        let text = || update.pointer("/content/text").and_then(Value::as_str).unwrap_or_default();
        match update["sessionUpdate"].as_str() {
            Some("state_update") if update["state"] == "idle" => {
                self.ends(Ok(update["stopReason"].as_str().unwrap_or("end_turn").to_owned()));
            }
            Some("agent_message_chunk") => {
                if let Some(turn) = &mut self.turn {
                    turn.text.push_str(text());
                }
            }
            Some("agent_thought_chunk") => {
                if let Some(turn) = &mut self.turn {
                    turn.thoughts.push_str(text());
                }
            }
            // What is still told of a call of an earlier turn makes none in this one.
            Some("tool_call_update")
                if update["toolCallId"].as_str().is_some_and(|id| self.earlier.contains(id)) => {}
            // Each agent of the agent's own is shown as a call, once it has a title.
            Some("subagent_update") if update.get("title").is_some() => {
                let id = format!("subagent/{}", update["sessionId"].as_str().unwrap_or_default());
                if !self.earlier.contains(&id) {
                    self.calls(&id);
                }
            }
            Some("tool_call" | "tool_call_update") => {
                if let Some(id) = update["toolCallId"].as_str() {
                    self.calls(id);
                }
            }
            _ => {}
        }
    }

    fn calls(&mut self, id: &str) {
        if let Some(turn) = &mut self.turn {
            turn.calls.insert(id.to_owned());
        }
    }
}

fn setting(method: &str, params: &Value) -> Option<Step> {
    let (id, value) = match method {
        "session/set_mode" => ("mode", &params["modeId"]),
        "session/set_model" => ("model", &params["modelId"]),
        "session/set_config_option" => (params["configId"].as_str()?, &params["value"]),
        _ => return None,
    };
    Some(Step::Set(id.to_owned(), value.clone()))
}

fn answer_of(message: &Value) -> Answer {
    let result = &message["result"];
    if let Some(option) = result.pointer("/outcome/optionId").and_then(Value::as_str) {
        return Answer::Option(option.to_owned());
    }
    match result["action"].as_str() {
        Some("accept") => Answer::Form(result["content"].clone()),
        Some("cancel") => Answer::Cancelled,
        _ if result["outcome"]["outcome"] == "cancelled" => Answer::Cancelled,
        _ => Answer::Rejected,
    }
}
