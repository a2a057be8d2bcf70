//! One client: frames out, frames in, each of which is checked on its way; and bounded waits for what must come.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::frame::Frame;
use crate::model::Model;
use crate::process::Stderr;
use crate::schema::Schemas;
use crate::wire::{Came, Wire};
use crate::{PATIENCE, verbs};

/// Frames that are shown when something fails, and how much of each.
const SHOWN_FRAMES: usize = 30;
const SHOWN_CHARS: usize = 400;

/// A client of the server. Its place in what it received moves on with each wait, so that waits happen in the order of
/// the story.
#[derive(Debug)]
pub struct Client {
    name: String,
    wire: Wire,
    stderr: Stderr,
    received: Vec<Frame>,
    /// What comes next for the story.
    at: usize,
    next_id: i64,
    /// Requests that have not been answered, by id.
    open: HashMap<Value, Value>,
    /// Answers nobody has asked for yet, by id.
    answers: HashMap<Value, Value>,
    model: Model,
    ended: bool,
}

/// An error that the server answered with.
#[derive(Debug, Clone, PartialEq)]
pub struct Refusal {
    /// JSON-RPC code.
    pub code: i64,
    /// `data.reason`.
    pub reason: String,
    /// For people.
    pub message: String,
    /// All of `data`.
    pub data: Value,
    /// The id it was answered under.
    pub id: Value,
}

impl Refusal {
    pub(crate) fn of(answer: &Value) -> Self {
        let error = &answer["error"];
        Self {
            code: error["code"].as_i64().unwrap_or_default(),
            reason: error["data"]["reason"].as_str().unwrap_or_default().to_owned(),
            message: error["message"].as_str().unwrap_or_default().to_owned(),
            data: error["data"].clone(),
            id: answer["id"].clone(),
        }
    }

    /// Code and reason, for comparing.
    #[must_use]
    pub fn short(&self) -> (i64, &str) {
        (self.code, &self.reason)
    }
}

impl Client {
    pub(crate) fn new(name: &str, wire: Wire, stderr: Stderr) -> Self {
        Self {
            name: name.to_owned(),
            wire,
            stderr,
            received: Vec::new(),
            at: 0,
            next_id: 1,
            open: HashMap::new(),
            answers: HashMap::new(),
            model: Model::default(),
            ended: false,
        }
    }

    /// Servers may come and go under this client.
    pub(crate) fn is_bridged(&mut self) {
        self.model.other_lives = true;
    }

    /// What the client knows of its threads.
    #[must_use]
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// All frames so far, in order.
    #[must_use]
    pub fn received(&self) -> &[Frame] {
        &self.received
    }

    /// Sends a frame, whatever it is.
    pub fn sends(&mut self, frame: &Value) {
        let one = std::slice::from_ref(frame);
        for request in frame.as_array().map_or(one, Vec::as_slice) {
            if let (Some(id), true) = (request.get("id"), request.get("method").is_some()) {
                // An id may be used again once it was answered.
                self.answers.remove(id);
                self.open.insert(id.clone(), request.clone());
            }
        }
        self.sends_line(frame.to_string().as_bytes());
    }

    /// Sends bytes as one frame.
    pub fn sends_line(&mut self, line: &[u8]) {
        if let Err(error) = self.wire.send(line) {
            self.fail(&format!("cannot send: {error}"));
        }
    }

    /// Sends bytes that may be part of a line. That the server is gone is no failure here.
    pub fn sends_bytes(&mut self, bytes: &[u8]) -> bool {
        self.wire.write(bytes).is_ok()
    }

    /// Notes a request that was sent as bytes, so that its answer is known.
    pub fn expects_answer(&mut self, id: Value, method: &str) {
        self.open.insert(id.clone(), json!({ "jsonrpc": "2.0", "id": id, "method": method }));
    }

    /// Sends a request without waiting, and gives its id.
    pub fn requests(&mut self, method: &str, params: Value) -> i64 {
        let id = self.next_id;
        self.next_id += 1;
        self.sends(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    /// Waits for the answer to a request.
    ///
    /// # Errors
    /// The error it was answered with.
    pub fn answer(&mut self, id: impl Into<Value>) -> Result<Value, Box<Refusal>> {
        let id = id.into();
        let answer = self.wait(&format!("the answer to {id}"), |client| client.answers.remove(&id));
        match answer.get("result") {
            Some(result) => Ok(result.clone()),
            None => Err(Box::new(Refusal::of(&answer))),
        }
    }

    /// Waits for the answer to a request; none if the connection ends before.
    pub fn answer_or_end(&mut self, id: impl Into<Value>) -> Option<Result<Value, Box<Refusal>>> {
        let id = id.into();
        let answer = self.wait(&format!("the answer to {id}, or the end"), |client| {
            client.answers.remove(&id).map(Some).or_else(|| client.ended.then_some(None))
        })?;
        Some(answer.get("result").cloned().ok_or_else(|| Box::new(Refusal::of(&answer))))
    }

    /// Calls a method that must succeed.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.requests(method, params);
        match self.answer(id) {
            Ok(result) => result,
            Err(refusal) => self.fail(&format!("{method} was refused: {refusal:?}")),
        }
    }

    /// Calls a method that must be refused.
    pub fn is_refused(&mut self, method: &str, params: Value) -> Refusal {
        let id = self.requests(method, params);
        match self.answer(id) {
            Ok(result) => self.fail(&format!("{method} was not refused: {result}")),
            Err(refusal) => *refusal,
        }
    }

    /// The next frame of any kind.
    pub fn next_frame(&mut self) -> Frame {
        self.wait("a frame", |client| client.step(|_| true))
    }

    /// The next frame that is an error without a request: what is answered under `id: null`.
    pub fn is_rebuked(&mut self) -> Refusal {
        let frame = self.wait("an error under id null", |client| {
            client.step(|frame| matches!(frame, Frame::Response(answer) if answer["id"].is_null()))
        });
        Refusal::of(&frame.value())
    }

    /// The answer to a batch.
    pub fn is_answered_in_one(&mut self) -> Vec<Value> {
        let frame = self
            .wait("the answer to a batch", |client| client.step(|frame| matches!(frame, Frame::Batch(_))));
        match frame {
            Frame::Batch(answers) => answers,
            other => self.fail(&format!("no batch: {other:?}")),
        }
    }

    /// Waits for the next notification of this method and gives its params.
    pub fn until(&mut self, method: &str) -> Value {
        self.until_where(method, |_| true)
    }

    /// Waits for the next notification of this method that fits.
    pub fn until_where(&mut self, method: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let frame =
            self.wait(method, |client| client.step(|frame| frame.notification(method).is_some_and(&fits)));
        frame.value()["params"].clone()
    }

    /// Waits until the client knows something; the place in what it received stays.
    pub fn learns(&mut self, what: &str, known: impl Fn(&Model) -> bool) {
        self.wait(what, |client| known(&client.model).then_some(()));
    }

    /// Waits for the next request of the server.
    pub fn is_asked(&mut self) -> verbs::Asked {
        let frame = self.wait("a request of the server", |client| {
            client.step(|frame| matches!(frame, Frame::Request(_)))
        });
        verbs::Asked::of(&frame.value())
    }

    /// What came since the last wait's place, without waiting: the methods of notifications and requests.
    #[must_use]
    pub fn methods_since(&self, place: usize) -> Vec<String> {
        self.received[place..].iter().filter_map(|frame| frame.method().map(str::to_owned)).collect()
    }

    /// Where the story stands in [`Client::received`].
    #[must_use]
    pub fn place(&self) -> usize {
        self.at
    }

    /// Moves the place behind everything that is there.
    pub fn skips_what_came(&mut self) {
        self.at = self.received.len();
    }

    /// Waits until the server has closed the connection.
    pub fn is_disconnected(&mut self) {
        self.wait("the end of the connection", |client| client.ended.then_some(()));
    }

    /// Sees nothing more: the connection must end, and nothing but this may still come.
    pub fn leaves(mut self) {
        self.wire.close();
        self.is_disconnected();
    }

    /// Ends sending, as a client does at its end, but goes on reading.
    pub fn stops_sending(&mut self) {
        self.wire.close();
    }

    /// Opens the event stream that it follows once more, behind the first event: what follows must be the same.
    pub(crate) fn comes_back_to_its_events(&self) {
        let thread = self.model.followed().into_iter().next();
        if let (Some(http), Some(thread)) = (self.wire.http(), thread) {
            http.comes_back(&thread);
        }
    }

    /// It will be sent so much that it may fall behind, and then misses ends of texts until their items are completed.
    pub fn may_fall_behind(&mut self) {
        self.model.lags = true;
    }

    /// Reads nothing from now on.
    pub fn stops_reading(&mut self) {
        self.model.lags = true;
        self.wire.stop_reading();
    }

    /// Reads again.
    pub fn goes_on_reading(&mut self) {
        self.wire.go_on_reading();
    }

    /// Takes in frames until `found` gives something.
    fn wait<T>(&mut self, what: &str, mut found: impl FnMut(&mut Self) -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(found) = found(self) {
                return found;
            }
            if self.ended {
                self.fail(&format!("the server closed the connection; waited for {what}"));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            match self.wire.next(left) {
                Came::Line(line) => self.take(&line),
                Came::End => self.ended = true,
                Came::Nothing => self.fail(&format!("nothing more comes; waited for {what}")),
            }
        }
    }

    /// Moves on to the next frame that fits, among those that are there.
    fn step(&mut self, fits: impl Fn(&Frame) -> bool) -> Option<Frame> {
        let offset = self.received[self.at..].iter().position(fits);
        match offset {
            Some(offset) => {
                self.at += offset + 1;
                Some(self.received[self.at - 1].clone())
            }
            // What did not fit would not fit the next time either.
            None => {
                self.at = self.received.len();
                None
            }
        }
    }

    /// Takes in a line: reads, checks, remembers.
    fn take(&mut self, line: &[u8]) {
        let frame = Frame::read(line);
        let checked = self.check(&frame);
        self.received.push(frame);
        if let Err(wrong) = checked {
            self.fail(&wrong);
        }
    }

    /// Looks at what has come and nobody has waited for, so that no frame goes unchecked.
    fn checks_the_rest(&mut self) {
        while let Came::Line(line) = self.wire.next(Duration::ZERO) {
            self.take(&line);
        }
    }

    fn check(&mut self, frame: &Frame) -> Result<(), String> {
        match frame {
            Frame::Notification(frame) => {
                Schemas::get().notification(frame)?;
                self.model.told(frame["method"].as_str().unwrap_or_default(), &frame["params"])
            }
            Frame::Request(frame) => {
                Schemas::get().server_request(frame)?;
                self.model.asked(frame["id"].as_str().unwrap_or_default(), &frame["params"])
            }
            Frame::Response(answer) => self.answered(answer),
            Frame::Batch(answers) => answers.iter().try_for_each(|answer| self.answered(answer)),
        }
    }

    fn answered(&mut self, answer: &Value) -> Result<(), String> {
        if answer["jsonrpc"] != "2.0" {
            return Err(format!("no \"jsonrpc\":\"2.0\" in {answer}"));
        }
        let id = &answer["id"];
        if id.is_null() {
            return Schemas::get().error(answer);
        }
        let Some(request) = self.open.remove(id) else {
            return Err(format!("an answer to no open request: {answer}"));
        };
        Schemas::get().response(&request, answer)?;
        let opted_out = &request["params"]["capabilities"]["optOutNotificationMethods"];
        if opted_out.as_array().is_some_and(|methods| !methods.is_empty()) {
            (self.model.opted_out, self.model.lags) = (true, true);
        }
        if let (Some("thread/start" | "thread/resume" | "thread/fork"), Some(result)) =
            (request["method"].as_str(), answer.get("result"))
        {
            self.model.opened(&request["params"], result)?;
            if request["params"]["excludeTurns"] == true {
                self.model.is_outline(result["thread"]["id"].as_str().unwrap_or_default());
            }
        }
        self.answers.insert(id.clone(), answer.clone());
        Ok(())
    }

    /// Fails the test, with what was received last.
    pub(crate) fn fail(&self, what: &str) -> ! {
        let from = self.received.len().saturating_sub(SHOWN_FRAMES);
        let frames: Vec<String> = self.received[from..]
            .iter()
            .map(|frame| {
                let text = frame.value().to_string();
                let end = text.char_indices().nth(SHOWN_CHARS).map_or(text.len(), |(at, _)| at);
                format!("  ← {}", &text[..end])
            })
            .collect();
        panic!(
            "{}: {what}\nreceived last, of {}:\n{}\n{}",
            self.name,
            self.received.len(),
            frames.join("\n"),
            self.stderr.tail()
        );
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.checks_the_rest();
        }
    }
}
