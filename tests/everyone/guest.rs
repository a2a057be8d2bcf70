//! One client of a random case: what it sends, the state that the reducer makes of what it receives, and the laws of its
//! stream.

use std::collections::HashMap;

use serde_json::{Value, json};
use signalbox_client::threads::{Change, Phase, ThreadState, Want};
use signalbox_protocol::app::{Place, ServerNotification, ServerRequest};
use signalbox_testkit::{App, Client, Frame};

use crate::laws::Laws;

/// What a client wants of its connection.
#[derive(Debug, Clone, Default)]
pub(crate) struct Profile {
    pub(crate) opt_out: Vec<&'static str>,
    pub(crate) delta_interval_ms: u32,
    pub(crate) resync: bool,
}

impl Profile {
    fn capabilities(&self) -> Value {
        let mut capabilities = json!({"optOutNotificationMethods": self.opt_out, "resync": self.resync});
        if self.delta_interval_ms > 0 {
            capabilities["deltaIntervalMs"] = json!(self.delta_interval_ms);
        }
        capabilities
    }

    /// Whether what it knows of an open text may lag behind.
    fn lags(&self) -> bool {
        self.delta_interval_ms > 0 || !self.opt_out.is_empty()
    }
}

/// What a request was for, so that its answer can be understood.
#[derive(Debug, Clone)]
enum Call {
    Start,
    Resume { outline: bool },
    Unsubscribe,
    Fork,
    Prompt { word: String },
    Other,
}

/// How it joins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Joining {
    Whole,
    Outline,
    /// Behind the last cursor, if it has one.
    After,
}

/// A client with its state.
pub(crate) struct Guest {
    pub(crate) name: String,
    pub(crate) client: Client,
    pub(crate) state: Option<ThreadState>,
    /// Copies of the thread that it has made over this connection.
    pub(crate) forks: Vec<ThreadState>,
    pub(crate) profile: Profile,
    pub(crate) reads: bool,
    /// It once let the server wait, so ends of open texts may be missing.
    pub(crate) lagged: bool,
    /// It answered something in a form that nobody understands.
    pub(crate) unable: bool,
    calls: HashMap<i64, Call>,
    read: usize,
    syncs: usize,
    laws: Laws,
}

impl Guest {
    pub(crate) fn new(app: &mut App, name: &str, profile: Profile) -> Self {
        let mut client = app.stranger();
        client.initializes_with(name, profile.capabilities());
        Self {
            name: name.to_owned(),
            client,
            state: None,
            forks: Vec::new(),
            profile,
            reads: true,
            lagged: false,
            unable: false,
            calls: HashMap::new(),
            read: 0,
            syncs: 0,
            laws: Laws::default(),
        }
    }

    /// The same client over a new connection.
    pub(crate) fn reconnects(self, app: &mut App) -> Self {
        let state = self.state;
        Self { state, ..Self::new(app, &self.name, self.profile) }
    }

    /// Ends the connection; the state is kept.
    pub(crate) fn leaves(&mut self) {
        self.client.stops_sending();
        self.client.is_disconnected();
        self.lost();
    }

    /// The connection has ended.
    pub(crate) fn lost(&mut self) {
        self.catches_up();
        self.calls.clear();
        if let Some(state) = &mut self.state {
            state.disconnected();
        }
    }

    pub(crate) fn starts_thread(&mut self, params: Value) -> String {
        let id = self.client.requests("thread/start", params);
        self.calls.insert(id, Call::Start);
        let result = self.client.answer(id).expect("a thread can be started");
        self.catches_up();
        result["thread"]["id"].as_str().unwrap().to_owned()
    }

    pub(crate) fn joins(&mut self, thread: &str, how: Joining) {
        let mut params = json!({"threadId": thread});
        match (how, &self.state) {
            (Joining::Outline, _) => params["excludeTurns"] = json!(true),
            (Joining::After, Some(state)) => params = serde_json::to_value(state.resume_params()).unwrap(),
            _ => {}
        }
        let id = self.client.requests("thread/resume", params);
        self.calls.insert(id, Call::Resume { outline: how == Joining::Outline });
        self.client.answer(id).expect("a thread can be resumed");
        self.catches_up();
    }

    pub(crate) fn unsubscribes(&mut self, thread: &str) {
        let id = self.client.requests("thread/unsubscribe", json!({"threadId": thread}));
        self.calls.insert(id, Call::Unsubscribe);
        self.client.answer(id).expect("whoever follows may leave");
        self.catches_up();
    }

    /// A prompt under a word of its own; it may be refused.
    pub(crate) fn prompts(&mut self, thread: &str, script: &str, mode: Option<&str>, word: &str) -> i64 {
        let input = json!([{"type": "text", "text": script}]);
        let mut params = json!({"threadId": thread, "input": input, "clientUserMessageId": word});
        if let Some(mode) = mode {
            params["mode"] = json!(mode);
        }
        let id = self.client.requests("turn/start", params);
        self.calls.insert(id, Call::Prompt { word: word.to_owned() });
        id
    }

    /// Whether a request was accepted.
    pub(crate) fn is_accepted(&mut self, id: i64) -> bool {
        let answer = self.client.answer(id);
        self.catches_up();
        answer.is_ok()
    }

    /// Makes a copy of the thread, which it follows too.
    pub(crate) fn forks(&mut self, thread: &str, ephemeral: bool) {
        let id = self.client.requests("thread/fork", json!({"threadId": thread, "ephemeral": ephemeral}));
        self.calls.insert(id, Call::Fork);
    }

    /// A call whose outcome does not matter here.
    pub(crate) fn asks(&mut self, method: &str, params: Value) {
        let id = self.client.requests(method, params);
        self.calls.insert(id, Call::Other);
    }

    /// Whether all its requests are answered. While one about the thread is not, what the thread tells may be held back.
    pub(crate) fn is_answered(&self) -> bool {
        self.calls.is_empty()
    }

    pub(crate) fn follows(&self) -> bool {
        self.state.as_ref().is_some_and(|state| state.phase == Phase::Live)
    }

    pub(crate) fn wants_to_resume(&self) -> bool {
        self.state.as_ref().is_some_and(|state| state.wants().contains(&Want::Resume))
    }

    pub(crate) fn state(&self) -> &ThreadState {
        self.state.as_ref().expect("it has joined")
    }

    /// Everything that the server has queued for it by now has been taken in. False if the connection has ended.
    pub(crate) fn syncs(&mut self) -> bool {
        self.syncs += 1;
        let id = json!(format!("sync-{}", self.syncs));
        let request = json!({"jsonrpc": "2.0", "id": id, "method": "server/health", "params": {}});
        self.client.expects_answer(id.clone(), "server/health");
        let sent = self.client.sends_bytes(format!("{request}\n").as_bytes());
        let there = match sent {
            true => self.client.answer_or_end(id).is_some(),
            false => {
                self.client.is_disconnected();
                false
            }
        };
        self.catches_up();
        there
    }

    /// Waits for a frame more.
    pub(crate) fn waits(&mut self) {
        if self.client.received().len() == self.read {
            self.client.skips_what_came();
            self.client.next_frame();
        }
        self.catches_up();
    }

    /// Takes in what was received.
    pub(crate) fn catches_up(&mut self) {
        while let Some(frame) = self.client.received().get(self.read).cloned() {
            self.read += 1;
            if let Err(wrong) = self.takes(&frame) {
                panic!("{}: {wrong}\nin {}\nafter\n{}", self.name, frame.value(), self.story());
            }
        }
    }

    /// The frames before this one, shortened.
    pub(crate) fn story(&self) -> String {
        let from = self.read.saturating_sub(60);
        let lines = self.client.received()[from..self.read].iter().map(|frame| {
            let text: String = frame.value().to_string().chars().take(300).collect();
            format!("  {text}\n")
        });
        lines.collect()
    }

    fn takes(&mut self, frame: &Frame) -> Result<(), String> {
        match frame {
            Frame::Notification(frame) => self.hears(frame),
            Frame::Request(frame) => {
                let method = frame["method"].as_str().unwrap_or_default();
                let request = ServerRequest::decode(method, frame["params"].clone());
                let request = request.ok_or("an unknown request")?.map_err(|error| error.to_string())?;
                self.laws.asked(request.approval_id())?;
                let state = self.state.as_mut().ok_or("asked without following")?;
                match state.asked(&request).map_err(|broken| broken.to_string())?[..] {
                    [Change::Asked { .. }] => Ok(()),
                    _ => Err("asked without following".to_owned()),
                }
            }
            Frame::Response(frame) => self.takes_answer(frame),
            Frame::Batch(_) => Err("nobody has sent a batch".to_owned()),
        }
    }

    fn hears(&mut self, frame: &Value) -> Result<(), String> {
        let method = frame["method"].as_str().unwrap_or_default();
        let told = ServerNotification::decode(method, frame["params"].clone());
        let told = told.ok_or("an unknown notification")?.map_err(|error| error.to_string())?;
        let place: Option<Place> = serde_json::from_value(frame["params"].clone()).ok();
        if self.profile.opt_out.contains(&method) {
            return Err("it has opted out of this".to_owned());
        }
        for fork in &mut self.forks {
            fork.notified(&told, place.as_ref()).map_err(|broken| broken.to_string())?;
        }
        let about = frame["params"]["threadId"].as_str().or(frame["params"]["thread"]["id"].as_str());
        if about.is_some_and(|about| self.state.as_ref().is_some_and(|state| state.thread.id != about)) {
            return Ok(());
        }
        let Some(state) = &mut self.state else { return Ok(()) };
        self.laws.hears(&told, state)?;
        let changes = state.notified(&told, place.as_ref()).map_err(|broken| broken.to_string())?;
        if changes.contains(&Change::Superseded) && method != "thread/started" {
            return Err("the result before it has this already".to_owned());
        }
        Ok(())
    }

    fn takes_answer(&mut self, frame: &Value) -> Result<(), String> {
        let Some(call) = frame["id"].as_i64().and_then(|id| self.calls.remove(&id)) else { return Ok(()) };
        let Some(result) = frame.get("result").cloned() else { return Ok(()) };
        let unreadable = |error: serde_json::Error| error.to_string();
        match call {
            Call::Start => {
                let result = serde_json::from_value(result).map_err(unreadable)?;
                self.state = Some(ThreadState::started(result));
                self.laws.joined();
            }
            Call::Resume { outline } => {
                let result: signalbox_protocol::app::ThreadResumeResult =
                    serde_json::from_value(result).map_err(unreadable)?;
                self.laws.joined();
                match &mut self.state {
                    Some(state) if !outline => state.rejoined(result),
                    state if outline => *state = Some(ThreadState::outline(result)),
                    state => *state = Some(ThreadState::resumed(result)),
                }
            }
            Call::Unsubscribe => {
                if let Some(state) = &mut self.state {
                    state.unsubscribed();
                }
            }
            Call::Fork => {
                let result = serde_json::from_value(result).map_err(unreadable)?;
                self.forks.push(ThreadState::forked(result));
            }
            Call::Other => {}
            Call::Prompt { word } => {
                let state = self.state.as_ref().filter(|state| state.phase == Phase::Live);
                if state.is_some_and(|state| crate::laws::has_prompt(&state.thread, &word)) {
                    return Err(format!("the prompt {word} is shown before it is answered"));
                }
            }
        }
        Ok(())
    }

    /// What it knows, as far as others have to know the same.
    pub(crate) fn knows(&self, as_well_as: &Self) -> Value {
        let lags = |guest: &Self| guest.lagged || guest.profile.lags();
        crate::laws::known(self.state(), lags(self) || lags(as_well_as), self.unable || as_well_as.unable)
    }
}
