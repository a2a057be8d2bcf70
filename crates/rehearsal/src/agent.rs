//! The agent: reads the client's lines in order, answers its requests, and runs at most one turn a session.

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
    time::Duration,
};

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    heard::Heard,
    lines::{Line, Lines, MAX_LINE_BYTES},
    memory::Memory,
    options::{Options, Start},
    outbox::Outbox,
    peer::{
        Answer, INTERNAL, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR, Peer, RpcError, answer_frame,
        update_frame,
    },
    play, script,
    session::{Busy, Session},
    turn::{ClientAbilities, Stop, Turn, tokens},
    visit,
};

/// The version of ACP that is spoken.
const PROTOCOL_VERSION: u64 = 1;
/// How long the end may wait for turns, and then for the client to read the last lines.
const LAST_MOMENTS: Duration = Duration::from_secs(1);

/// Why [`crate::serve`] returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// The input ended, or the client's end of the output is closed.
    ClientLeft,
    /// The directive `crash` asked for this exit code.
    Crash(u8),
    /// This signal asked the process to end.
    Signal(u8),
}

impl Exit {
    /// The exit code of a process that ends for this reason.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::ClientLeft => 0,
            Self::Crash(code) => code,
            Self::Signal(number) => 128 + number,
        }
    }
}

/// Serves one client; `stop` ends it early, with the number of a signal.
pub(crate) async fn serve_until<R, W>(
    input: R,
    output: W,
    options: Options,
    stop: impl Future<Output = u8>,
) -> Exit
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let (outbox, write) = Outbox::new(output);
    let writers = TaskTracker::new();
    let broken = CancellationToken::new();
    let writer = writers.spawn({
        let broken = broken.clone();
        async move {
            if let Err(error) = write.await {
                tracing::debug!(%error, "the output is broken");
            }
            broken.cancel();
        }
    });
    let agent = Agent {
        peer: Peer::new(outbox.clone()),
        memory: Memory::new(options.state_dir),
        start: options.start,
        heard: options.heard.and_then(Heard::open),
        client: OnceLock::new(),
        sessions: Mutex::default(),
        turns: TaskTracker::new(),
        closing: CancellationToken::new(),
        crashed: CancellationToken::new(),
        crash_code: OnceLock::new(),
    };
    let agent = Arc::new(agent);
    if agent.start == Start::Garbage {
        agent.garbage().await;
    }

    let mut lines = Lines::new(input, MAX_LINE_BYTES);
    let reading = async {
        loop {
            match lines.next().await {
                Ok(Some(line)) => agent.handle(line).await,
                Ok(None) => return,
                Err(error) => return tracing::warn!(%error, "the input cannot be read"),
            }
        }
    };
    let exit = tokio::select! {
        biased;
        () = agent.crashed.cancelled() => Exit::Crash(agent.crash_code.get().copied().unwrap_or(1)),
        () = broken.cancelled() => Exit::ClientLeft,
        number = stop => Exit::Signal(number),
        () = reading => Exit::ClientLeft,
    };

    // A crash says what was said before it and nothing more; any other end lets the turns say that they end.
    if matches!(exit, Exit::Crash(_)) {
        outbox.flush(LAST_MOMENTS).await;
        writer.abort();
    }
    agent.closing.cancel();
    agent.turns.close();
    if tokio::time::timeout(LAST_MOMENTS, agent.turns.wait()).await.is_err() {
        tracing::warn!("a turn did not end in time");
    }
    if !matches!(exit, Exit::Crash(_)) {
        outbox.flush(LAST_MOMENTS).await;
        writer.abort();
    }
    exit
}

/// One agent process's state.
pub(crate) struct Agent {
    pub(crate) peer: Peer,
    pub(crate) memory: Memory,
    pub(crate) start: Start,
    /// Where each line of the client is noted.
    heard: Option<Heard>,
    /// Set by `initialize`.
    client: OnceLock<ClientAbilities>,
    pub(crate) sessions: Mutex<HashMap<String, Session>>,
    pub(crate) turns: TaskTracker,
    /// Ends everything.
    pub(crate) closing: CancellationToken,
    crashed: CancellationToken,
    crash_code: OnceLock<u8>,
}

/// What a request is answered with, now or by a task of its own.
pub(crate) enum Reply {
    Now(Value),
    /// Answered, then followed by updates of the session.
    Then(Value, Vec<(String, Value)>),
    Later,
}

pub(crate) type Handled = Result<Reply, RpcError>;

impl Agent {
    async fn handle(self: &Arc<Self>, line: Line) {
        if let (Some(heard), Line::Text(line)) = (&self.heard, &line) {
            heard.note(line);
        }
        match &self.start {
            Start::Hang => return,
            Start::Garbage => return self.garbage().await,
            _ => {}
        }
        let message = match line {
            Line::TooLong => Err(RpcError::new(INVALID_REQUEST, "the line is longer than 64 MiB")),
            Line::Text(line) if line.trim_ascii().is_empty() => return,
            Line::Text(line) => serde_json::from_slice::<Value>(&line)
                .map_err(|error| RpcError::new(PARSE_ERROR, format!("not JSON: {error}"))),
        };
        let message = match message {
            Ok(message) => message,
            Err(error) => return self.answer(&Value::Null, Err(error)).await,
        };
        let method = message["method"].as_str();
        let id = message.get("id");
        match (method, id) {
            (Some(method), Some(id)) if id.is_string() || id.is_number() => {
                let params = message.get("params").unwrap_or(&Value::Null);
                self.reply(id, self.request(method, id, params).await).await;
            }
            (Some(method), None) => self.notification(method, &message["params"]),
            (None, Some(id)) if message.get("result").is_some() || message.get("error").is_some() => {
                self.peer.resolve(id, answer_of(&message));
            }
            _ => {
                let error = RpcError::new(INVALID_REQUEST, "neither a request, a notification nor an answer");
                self.answer(&Value::Null, Err(error)).await;
            }
        }
    }

    pub(crate) async fn reply(&self, id: &Value, handled: Handled) {
        match handled {
            Ok(Reply::Now(result)) => self.answer(id, Ok(result)).await,
            Ok(Reply::Then(result, updates)) => {
                self.answer(id, Ok(result)).await;
                for (session, update) in updates {
                    // As in `answer`.
                    let _ = self.peer.outbox.answer(update_frame(&session, &update)).await;
                }
            }
            Ok(Reply::Later) => {}
            Err(error) => self.answer(id, Err(error)).await,
        }
    }

    async fn request(self: &Arc<Self>, method: &str, id: &Value, params: &Value) -> Handled {
        if method == "initialize" {
            return self.initialize(id, params);
        }
        let Some(abilities) = self.client.get().copied() else {
            return Err(RpcError::new(INVALID_REQUEST, format!("`{method}` before `initialize`")));
        };
        match method {
            "authenticate" => Err(RpcError::params("there is nothing to log in to: no auth methods")),
            "session/new" | "session/load" | "session/resume" if self.start == Start::HangNew => {
                Ok(Reply::Later)
            }
            "session/load" | "session/resume" if self.start == Start::HangLoad => Ok(Reply::Later),
            "session/fork" if self.start == Start::HangFork => Ok(Reply::Later),
            "session/fork" if self.can_fork() => self.fork(params),
            "session/new" => self.new_session(params),
            "session/load" if self.start.can_load() => self.load(id, params),
            "session/resume" if self.start.can_resume() => self.resume(params),
            "session/list" if self.start.can_list() => self.list(params),
            "session/delete" => self.delete(params),
            "session/close" => self.close(id, params),
            "session/prompt" => self.prompt(id, params, abilities),
            "session/set_mode" => self.set_mode(params),
            "session/set_config_option" if self.start == Start::LateChoices => self.choose_late(id, params),
            "session/set_config_option" => self.set_config_option(params),
            _ => Err(RpcError::new(METHOD_NOT_FOUND, format!("method not found: {method}"))),
        }
    }

    fn notification(&self, method: &str, params: &Value) {
        let cancelled = match method {
            "session/cancel" => params["sessionId"].as_str().and_then(|id| self.known(id)?.busy()),
            "$/cancel_request" => {
                let sessions: Vec<Session> = self.sessions.lock().values().cloned().collect();
                sessions.iter().filter_map(Session::busy).find(|busy| busy.request == params["requestId"])
            }
            _ => {
                tracing::debug!(method, "an unknown notification");
                None
            }
        };
        if let Some(busy) = cancelled {
            busy.cancel.cancel();
        }
    }

    fn initialize(self: &Arc<Self>, id: &Value, params: &Value) -> Handled {
        if !params["protocolVersion"].is_u64() {
            return Err(RpcError::params("`protocolVersion` must be an integer"));
        }
        let forms = params["clientCapabilities"]["elicitation"]["form"].is_object();
        // A second `initialize` changes nothing; the answer is the same.
        self.client.get_or_init(|| ClientAbilities { forms });
        let mut sessions = json!({"close": {}, "delete": {}});
        if self.start.can_list() {
            sessions["list"] = json!({});
        }
        if self.start.can_resume() {
            sessions["resume"] = json!({});
        }
        if self.can_fork() {
            sessions["fork"] = json!({});
        }
        let result = json!({
            "protocolVersion": PROTOCOL_VERSION,
            "agentCapabilities": {
                "loadSession": self.start.can_load(),
                "promptCapabilities": {"image": true, "audio": false, "embeddedContext": true},
                "sessionCapabilities": sessions,
            },
            "agentInfo": {
                "name": "signalbox-rehearsal",
                "title": "Rehearsal",
                "version": env!("CARGO_PKG_VERSION"),
            },
            "authMethods": [],
        });
        let Start::Slow(time) = self.start else { return Ok(Reply::Now(result)) };
        let (agent, id) = (self.clone(), id.clone());
        self.turns.spawn(async move {
            tokio::select! {
                () = agent.closing.cancelled() => {}
                () = tokio::time::sleep(time) => agent.answer(&id, Ok(result)).await,
            }
        });
        Ok(Reply::Later)
    }

    fn prompt(self: &Arc<Self>, id: &Value, params: &Value, abilities: ClientAbilities) -> Handled {
        let session = self.session(params)?;
        let blocks = params["prompt"].as_array().filter(|blocks| !blocks.is_empty());
        let blocks =
            blocks.ok_or_else(|| RpcError::params("`prompt` must be a list with a content block"))?;
        let text = text_of(blocks.iter().filter(|block| !is_context(block)));
        let busy = Busy::new(id.clone(), &self.closing);
        if !session.begin(busy.clone()) {
            return Err(is_busy());
        }
        let turn = Turn::new(self.peer.clone(), session, busy, abilities, blocks.clone());
        let (agent, id) = (self.clone(), id.clone());
        self.turns.spawn(async move { agent.run(turn, id, text).await });
        Ok(Reply::Later)
    }

    /// Runs a turn to its end and answers the prompt.
    async fn run(&self, turn: Turn, id: Value, prompt: String) {
        let session = turn.session.clone();
        let heard = format!("user-{}", turn.number);
        session.with(|kept| kept.history.append("user_message_chunk", &heard, &prompt));
        // Before the first step, so that a process that is killed in mid-turn uses no id twice.
        session.save(&self.memory);
        let ended = match script::parse(&prompt) {
            Some(steps) => play::play(&turn, &steps).await,
            None => turn.unless_cancelled(visit::visit(&turn)).await,
        };
        // What a cancelled step left open is closed before the answer; a client that left needs no closing.
        let closed = turn.close_open().await;
        let input = tokens(text_of(&turn.prompt).len() as u64);
        let output = tokens(turn.said_bytes());
        session.with(|kept| kept.tokens += input + output);
        session.save(&self.memory);
        let result = |reason: &str| {
            let usage = json!({"inputTokens": input, "outputTokens": output, "totalTokens": input + output});
            Ok(json!({"stopReason": reason, "usage": usage}))
        };
        let answer = match closed.and(ended) {
            Ok(()) => result("end_turn"),
            Err(Stop::Cancelled) => result("cancelled"),
            Err(Stop::Reason(reason)) => result(&reason),
            Err(Stop::Failed(message)) => Err(RpcError::new(INTERNAL, message)),
            Err(Stop::Crash(code)) => {
                self.crash_code.get_or_init(|| code);
                self.crashed.cancel();
                return;
            }
            Err(Stop::Gone(_)) => {
                session.end();
                turn.busy.done.cancel();
                return;
            }
        };
        let late = turn.take_late();
        let frame = answer_frame(&id, answer);
        // Free first, then answered: whoever has the answer may prompt again. Nothing comes between the two,
        // and the answer stays ahead of whatever the next turn says.
        let place = self.peer.outbox.place(frame.len()).await;
        session.end();
        let mut told = place.and_then(|place| place.put(frame));
        turn.busy.done.cancel();
        let requests = turn.take_late_requests();
        if late.is_empty() && requests.is_empty() {
            return;
        }
        for update in late {
            if told.is_err() {
                break;
            }
            session.with(|kept| kept.history.record(turn.number, &update));
            told = self.peer.update(&session.id, &update).await;
        }
        for (method, params) in requests {
            let Ok(answer) = self.peer.request(&method, &params).await else { break };
            let update = turn.message_of(&play::answered(&method, &answer));
            if self.peer.update(&session.id, &update).await.is_err() {
                break;
            }
        }
        session.save(&self.memory);
    }

    pub(crate) async fn answer(&self, id: &Value, answer: Result<Value, RpcError>) {
        // A client that has left cannot be answered; the writer's end is noticed where lines are read.
        let _ = self.peer.answer(id, answer).await;
    }

    async fn garbage(&self) {
        // As above.
        let _ = self.peer.outbox.answer(b"starting up, please wait ...\n".to_vec()).await;
    }
}

fn answer_of(message: &Value) -> Answer {
    match message.get("error") {
        Some(error) if !error.is_null() => Err(error.clone()),
        _ => Ok(message["result"].clone()),
    }
}

fn text_of<'a>(blocks: impl IntoIterator<Item = &'a Value>) -> String {
    let texts = blocks.into_iter().filter(|block| block["type"] == "text");
    texts.filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n")
}

/// Whether a block is not the user's but goes along for the agent to know. What was said before, for one, may hold scripts
/// that were played or stopped then; they are not to be played again.
fn is_context(block: &Value) -> bool {
    block["annotations"]["audience"] == json!(["assistant"])
}

pub(crate) fn is_busy() -> RpcError {
    RpcError::new(INVALID_REQUEST, "the session is busy: one prompt at a time")
}
