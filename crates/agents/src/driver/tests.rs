//! Deadlines and promises of a conversation, with time made up.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde_json::{Value, json};
use signalbox_facts::Provider;
use tokio::time::Instant;

use super::conversation::{Conversation, End};
use crate::event::{AgentEvent, AgentFailure, FailureReason, RefusedSetting};
use crate::handle::{ForkRequest, PromptBlock, PromptRequest, Request, Token};
use crate::spec::{Environment, LaunchSpec, Limits, OpenSession};
use crate::update::Update;
use crate::vendors::Quirks;

pub(super) const SECOND: Duration = Duration::from_secs(1);

pub(super) struct Talk {
    pub(super) talk: Conversation,
    now: Instant,
}

impl Talk {
    pub(super) fn new(open: OpenSession) -> Self {
        Self::offering(1, open)
    }

    /// At its first word, which offers this version.
    pub(super) fn offering(protocol: u16, open: OpenSession) -> Self {
        let spec = LaunchSpec {
            provider: Provider::new("made-up"),
            command: String::new(),
            args: vec![],
            env: Environment::default(),
            cwd: PathBuf::new(),
            ask_modes: vec![],
            edit_modes: vec![],
            yolo_modes: vec![],
            protocol,
            quirks: Quirks::NONE,
            install_hint: None,
            login_hint: None,
            downloads: false,
        };
        let limits = Limits {
            initialize: 60 * SECOND,
            session: 120 * SECOND,
            cancel: 10 * SECOND,
            stall: 30 * SECOND,
            replay_quiet: SECOND,
            ..Limits::default()
        };
        let now = Instant::now();
        Self { talk: Conversation::new(&spec, open, limits, Arc::new(AtomicBool::new(false)), now), now }
    }

    /// Open and ready, with nothing left to take.
    pub(super) fn ready() -> Self {
        let mut this = Self::new(OpenSession { cwd: "/w".into(), ..OpenSession::default() });
        this.hears(json!({"id":1,"result":{"protocolVersion":1}}));
        this.hears(json!({"id":2,"result":{"sessionId":"s","models":{"currentModelId":"a","availableModels":[{"modelId":"a"},{"modelId":"b"}]}}}));
        assert!(this.talk.is_ready());
        this.events();
        this.sent();
        this
    }

    pub(super) fn hears(&mut self, message: Value) {
        self.talk.line(message.to_string().as_bytes(), self.now);
    }

    pub(super) fn says(&mut self, text: &str) {
        let update = json!({"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":text}});
        self.hears(json!({"method":"session/update","params":{"sessionId":"s","update":update}}));
    }

    pub(super) fn asks(&mut self, request: Request) {
        self.talk.request(request, self.now);
    }

    pub(super) fn prompts(&mut self) {
        let blocks = vec![PromptBlock::Text("go".into())];
        self.asks(Request::Prompt(PromptRequest { blocks, ..PromptRequest::default() }));
    }

    /// Time passes; every deadline on the way is kept.
    pub(super) fn waits(&mut self, time: Duration) {
        let until = self.now + time;
        while let Some(deadline) = self.talk.next_deadline().filter(|deadline| *deadline <= until) {
            self.now = self.now.max(deadline);
            self.talk.tick(self.now);
        }
        self.now = until;
    }

    pub(super) fn events(&mut self) -> Vec<AgentEvent> {
        self.talk.out.drain(..).map(|(event, _)| event).collect()
    }

    /// Methods of what was sent since the last call, answers by their id.
    pub(super) fn sent(&mut self) -> Vec<String> {
        let bytes = self.talk.wire.pending().to_vec();
        self.talk.wire.wrote(bytes.len());
        let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let messages = lines.map(|line| serde_json::from_slice::<Value>(line).unwrap());
        messages
            .map(|message| {
                message["method"].as_str().map_or_else(|| message["id"].to_string(), str::to_owned)
            })
            .collect()
    }

    pub(super) fn end(&self) -> Option<(FailureReason, bool)> {
        self.talk.end.as_ref().map(|end| (end.failure.reason, end.kill))
    }
}

fn fork(token: u64) -> Request {
    Request::Fork(Token(token), ForkRequest { cwd: "/f".into(), roots: vec![] })
}

#[test]
fn a_copy_is_told_when_it_is_closed_here() {
    let mut talk = Talk::new(OpenSession { cwd: "/w".into(), ..OpenSession::default() });
    let can = json!({"sessionCapabilities": {"fork": {}, "close": {}}});
    talk.hears(json!({"id":1,"result":{"protocolVersion":1,"agentCapabilities":can}}));
    talk.hears(json!({"id":2,"result":{"sessionId":"s"}}));
    talk.events();
    talk.sent();
    talk.asks(fork(7));
    assert_eq!(talk.sent(), ["session/fork"]);
    talk.hears(json!({"id":3,"result":{"sessionId":"copy"}}));
    assert_eq!(talk.sent(), ["session/close"]);
    assert!(talk.events().is_empty());
    talk.hears(json!({"id":4,"error":{"code":-32603,"message":"not now"}}));
    assert_eq!(talk.events(), [AgentEvent::Forked { token: Token(7), result: Ok("copy".into()) }]);

    // What is not answered in time is given up: the copy, or only its closing.
    talk.asks(fork(8));
    talk.waits(15 * SECOND);
    assert_eq!(
        talk.events(),
        [AgentEvent::Forked { token: Token(8), result: Err(RefusedSetting::NoAnswer) }]
    );
    talk.asks(fork(9));
    talk.hears(json!({"id":6,"result":{"sessionId":"other"}}));
    talk.waits(15 * SECOND);
    assert_eq!(talk.events(), [AgentEvent::Forked { token: Token(9), result: Ok("other".into()) }]);

    // An error is one, and so is the conversation itself.
    talk.asks(fork(10));
    talk.hears(json!({"id":8,"error":{"code":-32603,"message":"no room"}}));
    let refused = Err(RefusedSetting::Refused("no room".into()));
    assert_eq!(talk.events(), [AgentEvent::Forked { token: Token(10), result: refused }]);
    talk.asks(fork(11));
    talk.hears(json!({"id":9,"result":{"sessionId":"s"}}));
    assert!(matches!(
        talk.events()[..],
        [AgentEvent::Forked { result: Err(RefusedSetting::Refused(_)), .. }]
    ));
    assert_eq!(talk.end(), None);
}

#[test]
fn an_agent_that_makes_no_copies_is_not_asked_and_a_dying_one_owes_none() {
    let mut talk = Talk::ready();
    talk.asks(fork(7));
    assert!(talk.sent().is_empty());
    assert!(matches!(
        talk.events()[..],
        [AgentEvent::Forked { result: Err(RefusedSetting::NotOffered(_)), .. }]
    ));

    talk.talk.hello.fork = true;
    talk.asks(fork(8));
    assert_eq!(talk.sent(), ["session/fork"]);
    talk.talk.finish(AgentFailure::new(FailureReason::AgentFailed, "died"));
    let events = talk.events();
    assert_eq!(events[0], AgentEvent::Forked { token: Token(8), result: Err(RefusedSetting::AgentGone) });
    assert!(matches!(events[1], AgentEvent::Exited(_)));
}

#[test]
fn initialize_has_a_fixed_deadline() {
    let mut talk = Talk::new(OpenSession::default());
    talk.waits(59 * SECOND);
    // Talk on stdout that is no answer does not help.
    talk.talk.line(b"loading", talk.now);
    assert_eq!(talk.end(), None);
    talk.waits(SECOND);
    assert_eq!(talk.end(), Some((FailureReason::AgentTimeout, true)));
}

#[test]
fn opening_a_session_may_take_long_as_long_as_the_agent_says_something() {
    let mut talk = Talk::new(OpenSession::default());
    talk.hears(json!({"id":1,"result":{"protocolVersion":1}}));
    for _ in 0..5 {
        talk.waits(119 * SECOND);
        talk.hears(json!({"method":"_vendor/progress"}));
    }
    assert_eq!(talk.end(), None);
    talk.waits(120 * SECOND);
    assert_eq!(talk.end(), Some((FailureReason::AgentTimeout, true)));
}

#[test]
fn a_cancel_that_is_not_heeded_ends_the_agent_but_not_while_it_is_not_read() {
    let mut talk = Talk::ready();
    talk.prompts();
    talk.asks(Request::Cancel);
    assert_eq!(talk.sent(), ["session/prompt", "session/cancel"]);
    talk.waits(9 * SECOND);
    // Still streaming is not stopping.
    talk.says("more");
    talk.now += 100 * SECOND;
    talk.talk.postpone(100 * SECOND);
    talk.waits(SECOND / 2);
    assert_eq!(talk.end(), None);
    talk.waits(SECOND / 2);
    assert_eq!(talk.end(), Some((FailureReason::AgentTimeout, true)));
}

#[test]
fn an_answer_on_the_way_out_does_not_hide_that_the_agent_is_killed() {
    let mut talk = Talk::ready();
    talk.prompts();
    talk.asks(Request::Cancel);
    talk.waits(10 * SECOND);
    let end = talk.talk.end.take().unwrap();
    talk.talk.stopping(&end);
    talk.hears(json!({"id":3,"result":{"stopReason":"cancelled"}}));
    let events = talk.events();
    let [AgentEvent::PromptEnded(Err(failure))] = &events[..] else { panic!("{events:?}") };
    assert_eq!(failure.reason, FailureReason::AgentTimeout);
}

#[test]
fn silence_is_reported_once_and_not_while_the_user_is_asked() {
    let mut talk = Talk::ready();
    talk.prompts();
    talk.waits(300 * SECOND);
    assert_eq!(talk.events(), [AgentEvent::Stalled(Some(30 * SECOND))]);
    talk.hears(json!({"id":0,"method":"session/request_permission","params":{"toolCall":{},"options":[]}}));
    assert_eq!(talk.events()[0], AgentEvent::Stalled(None));
    talk.waits(3000 * SECOND);
    assert_eq!(talk.events(), []);
    assert_eq!(talk.end(), None);
}

#[test]
fn a_setting_without_answer_is_given_up_and_the_prompt_behind_it_goes_out() {
    let mut talk = Talk::ready();
    talk.asks(Request::Model(Token(7), "b".into()));
    talk.prompts();
    assert_eq!(talk.sent(), ["session/set_model"]);
    talk.waits(30 * SECOND);
    assert_eq!(talk.sent(), ["$/cancel_request", "session/prompt"]);
    assert_eq!(
        talk.events()[0],
        AgentEvent::OptionSet { token: Token(7), result: Err(RefusedSetting::NoAnswer) }
    );
}

#[test]
fn a_replay_ends_when_it_has_been_quiet_for_a_while() {
    let mut talk = Talk::new(OpenSession { resume: Some("s".into()), ..OpenSession::default() });
    talk.hears(json!({"id":1,"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true}}}));
    talk.hears(json!({"id":2,"result":null}));
    for _ in 0..5 {
        talk.waits(SECOND * 9 / 10);
        talk.says("old");
    }
    assert!(!talk.talk.is_ready());
    talk.waits(SECOND);
    assert!(talk.talk.is_ready());
    talk.says("new");
    let texts = talk.events().iter().filter(|event| matches!(event, AgentEvent::Update(_))).count();
    assert_eq!(texts, 1);
}

#[test]
fn when_the_agent_is_gone_every_promise_is_kept() {
    let mut talk = Talk::ready();
    talk.prompts();
    talk.asks(Request::Model(Token(1), "b".into()));
    talk.asks(Request::Effort(Token(2), "high".into()));
    talk.hears(
        json!({"id":"p","method":"session/request_permission","params":{"toolCall":{"toolCallId":"c"}}}),
    );
    talk.events();
    talk.sent();
    talk.talk.stopping(&End::stopped());
    assert_eq!(talk.sent(), ["\"p\"", "session/cancel"]);
    talk.talk.finish(AgentFailure::new(FailureReason::Stopped, "stopped"));
    let mut names: Vec<_> = talk
        .events()
        .iter()
        .map(|event| match event {
            AgentEvent::Withdrawn { .. } => "withdrawn",
            AgentEvent::PromptEnded(Err(_)) => "prompt ended",
            AgentEvent::OptionSet { result: Err(RefusedSetting::AgentGone), .. } => "setting gone",
            AgentEvent::Exited(_) => "exited",
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(names.pop(), Some("exited"));
    names.sort_unstable();
    assert_eq!(names, ["prompt ended", "setting gone", "setting gone", "withdrawn"]);
}

#[test]
fn an_empty_window_after_a_cancel_does_not_overwrite_a_good_one() {
    let mut talk = Talk::ready();
    let window = |used: u64| {
        let update = json!({"sessionUpdate":"usage_update","used":used,"size":100});
        json!({"method":"session/update","params":{"sessionId":"s","update":update}})
    };
    talk.hears(window(40));
    talk.hears(window(0));
    talk.hears(window(50));
    assert_eq!(talk.events().len(), 2);
}

#[test]
fn an_agent_without_images_gets_a_mark_and_the_user_a_warning() {
    let mut talk = Talk::ready();
    let image = PromptBlock::Image { mime: "image/png".into(), data: "AA==".into(), uri: None };
    let resource =
        PromptBlock::Resource { uri: "file:///a".into(), text: "has ``` in it".into(), mime: None };
    talk.asks(Request::Prompt(PromptRequest { blocks: vec![image, resource], ..PromptRequest::default() }));
    assert!(matches!(talk.events()[0], AgentEvent::Warning { reason: "image_left_out", .. }));
    let message: Value = serde_json::from_slice(talk.talk.wire.pending()).unwrap();
    let blocks = message["params"]["prompt"].as_array().unwrap();
    assert!(blocks.iter().all(|block| block["type"] == "text"), "{message}");
    assert!(blocks[1]["text"].as_str().unwrap().contains("\n````\n"));
    // A resource that has become text is still no prompt of the user.
    assert_eq!(blocks[1]["annotations"], json!({"audience": ["assistant"]}));
}

#[test]
fn a_greeting_is_a_notice_and_no_part_of_the_first_answer() {
    for greets in [true, false] {
        let mut this = Talk::new(OpenSession { cwd: "/w".into(), ..OpenSession::default() });
        this.talk.quirks.greets = greets;
        this.prompts();
        this.hears(json!({"id":1,"result":{"protocolVersion":1}}));
        this.hears(json!({"id":2,"result":{"sessionId":"s"}}));
        this.waits(Duration::ZERO);
        // The prompt waits for the greeting, but not for ever.
        assert_eq!(this.talk.is_ready(), !greets);
        if greets {
            this.says("v1.2\n---\n");
            this.waits(Duration::ZERO);
        }
        assert!(this.talk.is_ready());
        this.says("an answer");
        let told: Vec<_> = this
            .events()
            .into_iter()
            .filter_map(|event| match event {
                AgentEvent::Update(Update::Notice { title, .. }) => Some(format!("notice {title}")),
                AgentEvent::Update(Update::Message(chunk)) => Some(chunk.text),
                _ => None,
            })
            .collect();
        assert_eq!(told, if greets { vec!["notice v1.2", "an answer"] } else { vec!["an answer"] });
    }
    let mut silent = Talk::new(OpenSession { cwd: "/w".into(), ..OpenSession::default() });
    silent.talk.quirks.greets = true;
    silent.hears(json!({"id":1,"result":{"protocolVersion":1}}));
    silent.hears(json!({"id":2,"result":{"sessionId":"s"}}));
    silent.waits(SECOND);
    assert!(silent.talk.is_ready());
    silent.says("unasked for");
    assert!(matches!(
        silent.events().as_slice(),
        [AgentEvent::Introduced(_), AgentEvent::Ready(_), AgentEvent::Update(Update::Notice { .. })]
    ));
}
