//! From `initialize` to an open session: negotiation, login where needed, and new, resumed or loaded sessions.

use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::conversation::{AUTH_REQUIRED, Call, Conversation, HELD_BYTES, Phase};
use super::settings::Origin;
use crate::decode::{self, Hello, RpcError};
use crate::event::{AgentEvent, FailureReason};
use crate::spec::McpTransport;
use crate::update::Update;
use crate::wire_out::{Opening, Version};

/// Longest wait for the greeting of an agent that greets; it comes within some milliseconds.
const GREETING_LONGEST: Duration = Duration::from_millis(200);

/// How a session is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    New,
    Resume,
    Load,
}

/// A loaded session's history is coming, and must not be taken for live output: it is left out, or told as such
/// ([`crate::OpenSession::replay`]).
#[derive(Debug)]
pub(super) struct Replay {
    /// When something of it last came.
    pub(super) last: Instant,
    /// What came last was said by the user.
    pub(super) asked: bool,
}

/// An update that came before the session's id was known.
#[derive(Debug)]
pub(super) struct EarlyUpdate {
    pub(super) session: String,
    pub(super) params: serde_json::Map<String, Value>,
    pub(super) bytes: usize,
}

impl Conversation {
    pub(super) fn initialized(&mut self, result: Result<Value, RpcError>, now: Instant) {
        let offered = self.wire.version;
        let hello = match result {
            Ok(result) => decode::hello(result, &self.command_line),
            // Agents that look at the number refuse it, older ones that look at the shape only refuse that.
            Err(error) if offered != Version::V1 && error.code != AUTH_REQUIRED => {
                tracing::debug!(code = error.code, "the agent refuses version 2; version 1 is offered");
                self.wire.version = Version::V1;
                return self.call(Call::Initialize, |wire, id| wire.initialize(id));
            }
            Err(error) => {
                let failure = self.failure_of("initialize", error);
                return self.fail_with(failure);
            }
        };
        match hello.protocol {
            Some(1) => self.wire.version = Version::V1,
            Some(2) if offered == Version::V2 => {}
            // Before there was a first version, and agents that leave it out: they speak something close to it.
            None | Some(0) => {
                self.wire.version = Version::V1;
                self.warn("protocol_version", "the agent names no ACP version; version 1 is assumed");
            }
            Some(other) => {
                let offered = offered.number();
                let message = format!(
                    "{} answered with ACP version {other}, and signalbox had offered version {offered}",
                    self.info.name
                );
                return self.fail(FailureReason::AgentFailed, message);
            }
        }
        self.introduce(&hello);
        self.hello = hello;
        self.out.push((AgentEvent::Introduced(Box::new(self.info.clone())), 1024));
        let offered = |method: &&str| self.hello.auth_methods.iter().any(|offered| offered.id == *method);
        let wished = self.open.authenticate.take();
        if let Some(method) = wished.as_deref().filter(|method| !offered(method)) {
            let message = format!("{} offers no login method {method:?}", self.info.name);
            return self.fail(FailureReason::AgentFailed, message);
        }
        match wished.as_deref().or(self.quirks.authenticate.filter(offered)) {
            Some(method) => {
                self.phase = Phase::Authenticating;
                self.call(Call::Authenticate, |wire, id| wire.authenticate(id, method));
            }
            None => self.go_on(now),
        }
    }

    fn introduce(&mut self, hello: &Hello) {
        let info = &mut self.info;
        if let Some(name) = &hello.name {
            info.name.clone_from(name);
        }
        info.version.clone_from(&hello.version);
        info.protocol = self.wire.version.number();
        (info.takes_images, info.takes_audio, info.takes_resources) =
            (hello.images, hello.audio, hello.resources);
        (info.mcp_http, info.mcp_sse) = (hello.mcp_http, hello.mcp_sse);
        (info.can_load, info.can_resume) = (hello.load, hello.resume);
        (info.can_fork, info.can_list) = (hello.fork, hello.list);
        (info.can_close, info.can_delete) = (hello.close, hello.delete);
        info.auth_methods.clone_from(&hello.auth_methods);
        info.takes_roots = hello.roots;
        info.takes_instructions = hello.system_prompt;
    }

    pub(super) fn authenticated(&mut self, result: Result<Value, RpcError>) {
        match result {
            Ok(_) => self.go_on(self.last_heard),
            Err(mut error) => {
                // Whatever code it has, this is a failed login.
                let code = std::mem::replace(&mut error.code, AUTH_REQUIRED);
                let mut failure = self.failure_of("authenticate", error);
                failure.code = Some(code);
                self.fail_with(failure);
            }
        }
    }

    /// The agent is there and logged in.
    fn go_on(&mut self, now: Instant) {
        if self.visiting { self.met(now) } else { self.open_session(now) }
    }

    pub(super) fn open_session(&mut self, now: Instant) {
        let way = match (&self.open.resume, self.hello.resume, self.hello.load) {
            (Some(_), _, true) if self.open.replay => Way::Load,
            (Some(_), false, false) if self.open.replay => {
                let message = format!("{} cannot open its earlier sessions", self.info.name);
                return self.fail(FailureReason::AgentFailed, message);
            }
            (Some(_), true, _) => Way::Resume,
            (Some(_), false, true) => Way::Load,
            (Some(_), false, false) => {
                self.info.context_lost = true;
                Way::New
            }
            (None, ..) => Way::New,
        };
        self.filter_mcp_servers();
        self.send_open(way, now);
    }

    /// An agent must not be given servers whose transport it lacks: some fail the whole session over it.
    fn filter_mcp_servers(&mut self) {
        let (http, sse) = (self.hello.mcp_http, self.hello.mcp_sse);
        let fits = |transport: &McpTransport| match transport {
            McpTransport::Stdio { .. } => true,
            McpTransport::Http { .. } => http,
            McpTransport::Sse { .. } => sse,
        };
        let servers = std::mem::take(&mut self.open.mcp_servers);
        let (taken, left): (Vec<_>, Vec<_>) = servers.into_iter().partition(|server| fits(&server.transport));
        self.open.mcp_servers = taken;
        for server in left {
            let message = format!(
                "{} cannot reach the MCP server {}: it lacks the transport",
                self.info.name, server.name
            );
            self.warn("mcp_server_left_out", message);
        }
    }

    fn send_open(&mut self, way: Way, now: Instant) {
        let opening = Opening {
            cwd: self.open.cwd.clone(),
            roots: if self.hello.roots { self.open.roots.clone() } else { Vec::new() },
            mcp_servers: self.open.mcp_servers.clone(),
            instructions: self.open.instructions.clone().filter(|_| self.hello.system_prompt),
            meta: self.open.meta.clone(),
        };
        let resume = self.open.resume.clone().unwrap_or_default();
        self.phase = Phase::Opening;
        self.last_heard = now;
        self.session = (way != Way::New).then(|| resume.clone());
        self.replay = (way == Way::Load).then_some(Replay { last: now, asked: false });
        self.call(Call::Open(way), |wire, id| match way {
            Way::New => wire.new_session(id, opening),
            Way::Resume => wire.resume_session(id, &resume, opening),
            Way::Load => wire.load_session(id, &resume, opening),
        });
    }

    pub(super) fn opened(&mut self, way: Way, result: Result<Value, RpcError>, now: Instant) {
        let result = match result {
            // Older agents answer `session/load` with null.
            Ok(result) => result,
            Err(error) if way == Way::New || error.code == AUTH_REQUIRED || self.open.replay => {
                let failure = self.failure_of("opening a session", error);
                return self.fail_with(failure);
            }
            // The codes for a session that is gone differ everywhere, so any error means it.
            Err(error) => {
                tracing::debug!(code = error.code, ?way, "an earlier session cannot be opened");
                // In version 2 both are one call.
                let another = way == Way::Resume && self.hello.load && self.wire.version == Version::V1;
                let next = if another { Way::Load } else { Way::New };
                self.info.context_lost = next == Way::New;
                return self.send_open(next, now);
            }
        };
        let mut result = match result {
            Value::Object(result) => result,
            _ => serde_json::Map::new(),
        };
        if let Some(id) = decode::take_id(&mut result, "sessionId") {
            self.session = Some(id);
        }
        let Some(session) = self.session.clone() else {
            let message = format!(
                "{} opened a session without telling its id, or one of a usual length",
                self.info.name
            );
            return self.fail(FailureReason::AgentFailed, message);
        };
        self.info.acp_session_id = session;
        self.info.resumed = way != Way::New;
        self.info.replayed = way == Way::Load && self.open.replay;
        for early in std::mem::take(&mut self.early) {
            if Some(&early.session) == self.session.as_ref() || early.session.is_empty() {
                self.session_update(early.params, early.bytes, now);
            }
        }
        self.settings.opened(&mut result);
        if result.contains_key("availableCommands") {
            let commands = decode::commands(&mut result);
            self.emit(AgentEvent::Update(Update::Commands(commands)), 1024);
        }
        // Most agents have told all of the history before they answer, others a part of it or nothing; in version 2
        // nothing follows.
        if self.wire.version == Version::V2 {
            self.replay = None;
        } else if let Some(replay) = &mut self.replay {
            replay.last = now;
        }
        self.greeting = (self.quirks.greets && way == Way::New).then(|| now + GREETING_LONGEST);
        // Whoever only looks at a session changes nothing in it.
        let wanted = if self.open.replay { Default::default() } else { self.arrangement() };
        self.phase = Phase::Arranging(wanted);
        self.arrange(now);
    }

    /// Keeps an update whose session is not known yet.
    pub(super) fn keep_early(
        &mut self,
        session: String,
        params: serde_json::Map<String, Value>,
        bytes: usize,
    ) {
        if self.early_bytes + bytes > HELD_BYTES {
            tracing::debug!(bytes, "an update before the session was open is dropped: too many");
            return;
        }
        self.early_bytes += bytes;
        self.early.push(EarlyUpdate { session, params, bytes });
    }

    /// When a session of which all is set is taken to be open, if something may still come that belongs to the opening.
    pub(super) fn settled_at(&self) -> Option<Instant> {
        let replayed = self.replay.as_ref().map(|replay| replay.last + self.limits.replay_quiet);
        replayed.max(self.greeting)
    }

    /// Sends the next setting of a session that was just opened; after the last one the session is ready.
    pub(super) fn arrange(&mut self, now: Instant) {
        while let Phase::Arranging(wanted) = &mut self.phase {
            match wanted.pop_front() {
                Some(wanted) => {
                    if self.set(Origin::Opening, wanted, now) {
                        return;
                    }
                }
                None if self.settled_at().is_some() => self.phase = Phase::Settling,
                None => self.ready(now),
            }
        }
    }

    pub(super) fn ready(&mut self, now: Instant) {
        self.replay = None;
        self.settings.describe(&mut self.info);
        self.phase = Phase::Ready;
        self.out.push((AgentEvent::Ready(Box::new(self.info.clone())), 1024));
        self.release_held();
        self.pump(now);
    }
}
