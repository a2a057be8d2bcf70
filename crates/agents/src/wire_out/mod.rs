//! Every message that is sent to an agent, in the types of the schema crate. Nothing else names that crate.
//!
//! Here is what a message is framed in and how it waits; what it says is in one file a version of ACP.

mod v1;
mod v2;

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Map, Value};
use signalbox_facts::ConfigValue;

use crate::handle::{Answer, ElicitationAnswer, PromptBlock};
use crate::spec::McpServer;

/// A message that could not be put into JSON (a path that is no UTF-8). Nothing of it was written.
#[derive(Debug, thiserror::Error)]
#[error("a message for the agent cannot be written as JSON")]
pub(crate) struct Unwritable(#[source] serde_json::Error);

/// What a request says besides the frame: its method and params.
#[derive(Debug, Serialize)]
struct Frame<'a, P> {
    jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
    method: &'a str,
    params: P,
}

#[derive(Serialize)]
struct Reply<'a, R> {
    jsonrpc: &'static str,
    id: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<R>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Refusal<'a>>,
}

#[derive(Serialize)]
struct Refusal<'a> {
    code: i32,
    message: &'a str,
}

/// The session to open, as every one of the three ways needs it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Opening {
    pub(crate) cwd: PathBuf,
    pub(crate) roots: Vec<PathBuf>,
    pub(crate) mcp_servers: Vec<McpServer>,
    pub(crate) instructions: Option<String>,
    pub(crate) meta: Map<String, Value>,
}

/// The version of ACP that is spoken with an agent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Version {
    #[default]
    V1,
    V2,
}

impl Version {
    /// The highest one that is spoken here and that `offered` allows.
    pub(crate) fn up_to(offered: u16) -> Self {
        if offered < 2 { Self::V1 } else { Self::V2 }
    }

    pub(crate) fn number(self) -> u16 {
        match self {
            Self::V1 => 1,
            Self::V2 => 2,
        }
    }
}

/// Bytes on their way to the agent's stdin. Each message is one line.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    /// Decides what the messages look like.
    pub(crate) version: Version,
    /// Not yet written from `written` on.
    bytes: Vec<u8>,
    written: usize,
    /// Of them, answers to the agent: an agent that asks without reading is not read either.
    replies: usize,
    /// The agent reads no more.
    closed: bool,
}

/// Larger emptied buffers are given back.
const KEEP_BYTES: usize = 256 << 10;

impl Outbox {
    pub(crate) fn new(version: Version) -> Self {
        Self { version, ..Self::default() }
    }

    /// Offers the version of this outbox.
    pub(crate) fn initialize(&mut self, id: u64) -> Result<(), Unwritable> {
        let version = self.version.number();
        match self.version {
            Version::V1 => self.request(id, "initialize", v1::initialize(version)),
            Version::V2 => self.request(id, "initialize", v2::initialize(version, v1::about_us())),
        }
    }

    pub(crate) fn authenticate(&mut self, id: u64, method: &str) -> Result<(), Unwritable> {
        match self.version {
            Version::V1 => self.request(id, "authenticate", v1::authenticate(method)),
            Version::V2 => self.request(id, "auth/login", v2::authenticate(method)),
        }
    }

    pub(crate) fn new_session(&mut self, id: u64, opening: Opening) -> Result<(), Unwritable> {
        match self.version {
            Version::V1 => self.request(id, "session/new", v1::new_session(opening)),
            Version::V2 => self.request(id, "session/new", v2::new_session(opening)),
        }
    }

    pub(crate) fn load_session(
        &mut self,
        id: u64,
        session: &str,
        opening: Opening,
    ) -> Result<(), Unwritable> {
        match self.version {
            Version::V1 => self.request(id, "session/load", v1::load_session(session, opening)),
            // One call does both.
            Version::V2 => self.request(id, "session/resume", v2::resume_session(session, opening, true)),
        }
    }

    pub(crate) fn resume_session(
        &mut self,
        id: u64,
        session: &str,
        opening: Opening,
    ) -> Result<(), Unwritable> {
        match self.version {
            Version::V1 => self.request(id, "session/resume", v1::resume_session(session, opening)),
            Version::V2 => self.request(id, "session/resume", v2::resume_session(session, opening, false)),
        }
    }

    pub(crate) fn fork_session(
        &mut self,
        id: u64,
        session: &str,
        cwd: &Path,
        roots: &[PathBuf],
        servers: Vec<McpServer>,
    ) -> Result<(), Unwritable> {
        match self.version {
            Version::V1 => self.request(id, "session/fork", v1::fork_session(session, cwd, roots, servers)),
            Version::V2 => self.request(id, "session/fork", v2::fork_session(session, cwd, roots, servers)),
        }
    }

    pub(crate) fn close_session(&mut self, id: u64, session: &str) -> Result<(), Unwritable> {
        match self.version {
            Version::V1 => self.request(id, "session/close", v1::close_session(session)),
            Version::V2 => self.request(id, "session/close", v2::close_session(session)),
        }
    }

    pub(crate) fn delete_session(&mut self, id: u64, session: &str) -> Result<(), Unwritable> {
        match self.version {
            Version::V1 => self.request(id, "session/delete", v1::delete_session(session)),
            Version::V2 => self.request(id, "session/delete", v2::delete_session(session)),
        }
    }

    pub(crate) fn list_sessions(
        &mut self,
        id: u64,
        cwd: Option<&Path>,
        cursor: Option<&str>,
    ) -> Result<(), Unwritable> {
        match self.version {
            Version::V1 => self.request(id, "session/list", v1::list_sessions(cwd, cursor)),
            Version::V2 => self.request(id, "session/list", v2::list_sessions(cwd, cursor)),
        }
    }

    pub(crate) fn set_option(
        &mut self,
        id: u64,
        session: &str,
        option: &str,
        value: &ConfigValue,
    ) -> Result<(), Unwritable> {
        match self.version {
            Version::V1 => {
                self.request(id, "session/set_config_option", v1::set_option(session, option, value))
            }
            Version::V2 => {
                self.request(id, "session/set_config_option", v2::set_option(session, option, value))
            }
        }
    }

    /// Modes are options in version 2, and no agent that speaks it has this call.
    pub(crate) fn set_mode(&mut self, id: u64, session: &str, mode: &str) -> Result<(), Unwritable> {
        self.request(id, "session/set_mode", v1::set_mode(session, mode))
    }

    pub(crate) fn set_model(&mut self, id: u64, session: &str, model: &str) -> Result<(), Unwritable> {
        self.request(id, "session/set_model", v1::set_model(session, model))
    }

    pub(crate) fn prompt(
        &mut self,
        id: u64,
        session: &str,
        blocks: Vec<PromptBlock>,
        meta: Map<String, Value>,
    ) -> Result<(), Unwritable> {
        match self.version {
            Version::V1 => self.request(id, "session/prompt", v1::prompt(session, blocks, meta)),
            Version::V2 => self.request(id, "session/prompt", v2::prompt(session, blocks, meta)),
        }
    }

    pub(crate) fn cancel(&mut self, session: &str) -> Result<(), Unwritable> {
        let method = "session/cancel";
        match self.version {
            Version::V1 => self.put(&Frame { jsonrpc: "2.0", id: None, method, params: v1::cancel(session) }),
            Version::V2 => self.put(&Frame { jsonrpc: "2.0", id: None, method, params: v2::cancel(session) }),
        }
    }

    /// Nobody waits for the answer to this request any more. An agent may ignore that.
    pub(crate) fn give_up(&mut self, id: u64) -> Result<(), Unwritable> {
        let params = serde_json::json!({"requestId": id});
        self.put(&Frame { jsonrpc: "2.0", id: None, method: "$/cancel_request", params })
    }

    /// Answers to the agent look the same in both versions.
    pub(crate) fn permission(&mut self, id: &Value, answer: Answer) {
        self.reply(id, v1::permission(answer));
    }

    pub(crate) fn elicitation(&mut self, id: &Value, answer: ElicitationAnswer) {
        self.reply(id, v1::elicitation(answer));
    }

    /// Refuses a request that is none of ours.
    pub(crate) fn method_not_found(&mut self, id: &Value) {
        let error = Some(Refusal { code: -32601, message: "Method not found" });
        self.put_reply(&Reply::<()> { jsonrpc: "2.0", id, result: None, error });
    }

    fn request(&mut self, id: u64, method: &str, params: impl Serialize) -> Result<(), Unwritable> {
        self.put(&Frame { jsonrpc: "2.0", id: Some(id), method, params })
    }

    fn reply(&mut self, id: &Value, result: impl Serialize) {
        self.put_reply(&Reply { jsonrpc: "2.0", id, result: Some(result), error: None });
    }

    fn put_reply(&mut self, message: &impl Serialize) {
        let before = self.bytes.len();
        // Answers hold texts only, which are always writable.
        if self.put(message).is_ok() {
            self.replies += self.bytes.len() - before;
        }
    }

    fn put(&mut self, message: &impl Serialize) -> Result<(), Unwritable> {
        if self.closed {
            return Ok(());
        }
        let before = self.bytes.len();
        serde_json::to_writer(&mut self.bytes, message).map_err(|error| {
            self.bytes.truncate(before);
            Unwritable(error)
        })?;
        self.bytes.push(b'\n');
        Ok(())
    }

    /// What waits to be written.
    pub(crate) fn pending(&self) -> &[u8] {
        self.bytes.get(self.written..).unwrap_or_default()
    }

    /// Bytes of answers that wait.
    pub(crate) fn waiting_replies(&self) -> usize {
        self.replies
    }

    /// The first `count` pending bytes are written.
    pub(crate) fn wrote(&mut self, count: usize) {
        self.written += count;
        if self.written >= self.bytes.len() {
            self.clear();
        }
    }

    /// Drops everything, and what comes later: there is no agent to read it.
    pub(crate) fn close(&mut self) {
        self.closed = true;
        self.clear();
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEEP_BYTES);
        (self.written, self.replies) = (0, 0);
    }
}

fn some(meta: Map<String, Value>) -> Option<Map<String, Value>> {
    (!meta.is_empty()).then_some(meta)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;
    use crate::spec::McpTransport;

    fn written(outbox: &Outbox) -> Value {
        assert_eq!(outbox.pending().last(), Some(&b'\n'));
        serde_json::from_slice(outbox.pending()).unwrap()
    }

    #[test]
    fn initialize_advertises_what_is_shown_and_neither_files_nor_terminals() {
        let mut outbox = Outbox::default();
        outbox.initialize(1).unwrap();
        let message = written(&outbox);
        let params = &message["params"];
        assert_eq!(params["protocolVersion"], 1);
        assert_eq!(params["clientInfo"]["name"], "signalbox");
        let capabilities = &params["clientCapabilities"];
        assert_eq!(
            capabilities["session"],
            json!({"compaction":{},"configOptions":{"boolean":{}},"notices":{}})
        );
        assert_eq!(
            (&capabilities["plan"], &capabilities["elicitation"], &capabilities["subagents"]),
            (&json!({}), &json!({"form":{},"url":{}}), &json!({}))
        );
        assert_ne!(capabilities["terminal"], json!(true));
        assert_ne!(capabilities["fs"]["readTextFile"], json!(true));
    }

    #[test]
    fn version_2_is_offered_in_its_own_shape() {
        let mut outbox = Outbox { version: Version::V2, ..Outbox::default() };
        outbox.initialize(1).unwrap();
        let message = written(&outbox);
        assert_eq!(message["params"]["protocolVersion"], 2);
        assert_eq!(message["params"]["info"]["name"], "signalbox");
        assert_eq!(message["params"]["capabilities"]["elicitation"]["form"], json!({}));
        assert_eq!(message["params"]["capabilities"]["auth"]["terminal"], json!({}));
        // And in the older one, for an agent that answers with version 1.
        assert_eq!(message["params"]["clientInfo"]["name"], "signalbox");
        assert_eq!(message["params"]["clientCapabilities"]["plan"], json!({}));
    }

    #[test]
    fn version_2_has_its_own_words() {
        let opening = || Opening { cwd: "/w".into(), roots: vec!["/r".into()], ..Opening::default() };
        let say = |write: &dyn Fn(&mut Outbox) -> Result<(), Unwritable>| {
            let mut outbox = Outbox { version: Version::V2, ..Outbox::default() };
            write(&mut outbox).unwrap();
            let message = written(&outbox);
            (message["method"].as_str().unwrap().to_owned(), message["params"].clone())
        };
        let (method, params) = say(&|outbox| outbox.load_session(1, "s", opening()));
        assert_eq!((method.as_str(), &params["replayFrom"]), ("session/resume", &json!({"type":"start"})));
        let (method, params) = say(&|outbox| outbox.resume_session(1, "s", opening()));
        assert_eq!((method.as_str(), params.get("replayFrom")), ("session/resume", None));
        assert_eq!(params["additionalDirectories"], json!(["/r"]));
        let (_, params) =
            say(&|outbox| outbox.set_option(1, "s", "mode", &ConfigValue::Choice("ask".into())));
        assert_eq!(params, json!({"sessionId":"s","configId":"mode","type":"id","value":"ask"}));
        let (_, params) = say(&|outbox| outbox.set_option(1, "s", "fast", &ConfigValue::Flag(true)));
        assert_eq!(params, json!({"sessionId":"s","configId":"fast","type":"boolean","value":true}));
        let (method, params) = say(&|outbox| outbox.authenticate(1, "key"));
        assert_eq!((method.as_str(), params), ("auth/login", json!({"methodId":"key"})));
        let stdio = McpServer {
            name: "m".into(),
            transport: McpTransport::Stdio { command: "/m".into(), args: vec![], env: BTreeMap::new() },
        };
        let sse = McpServer {
            name: "e".into(),
            transport: McpTransport::Sse { url: "u".into(), headers: BTreeMap::new() },
        };
        let servers = vec![stdio, sse];
        let (_, params) = say(&|outbox| outbox.fork_session(1, "s", Path::new("/w"), &[], servers.clone()));
        assert_eq!(params["mcpServers"], json!([{"type":"stdio","name":"m","command":"/m"}]));
    }

    #[test]
    fn a_new_session_always_lists_its_mcp_servers() {
        let mut outbox = Outbox::default();
        outbox.new_session(2, Opening { cwd: "/w".into(), ..Opening::default() }).unwrap();
        assert_eq!(written(&outbox)["params"]["mcpServers"], json!([]));
        let server = McpServer {
            name: "m".into(),
            transport: McpTransport::Stdio { command: "/m".into(), args: vec![], env: BTreeMap::new() },
        };
        let mut outbox = Outbox::default();
        let opening = Opening { cwd: "/w".into(), mcp_servers: vec![server], ..Opening::default() };
        outbox.new_session(2, opening).unwrap();
        let servers = &written(&outbox)["params"]["mcpServers"];
        assert_eq!(servers, &json!([{"name":"m","command":"/m","args":[],"env":[]}]));
    }

    #[test]
    fn answers_keep_the_id_as_it_came() {
        for id in [json!(0), json!("a"), json!(1.5), Value::Null] {
            let mut outbox = Outbox::default();
            outbox.permission(&id, Answer::Selected("once".into()));
            let outcome = json!({"outcome":{"outcome":"selected","optionId":"once"}});
            assert_eq!(written(&outbox), json!({"jsonrpc":"2.0","id":id,"result":outcome}));
        }
    }

    #[test]
    fn form_values_keep_their_types() {
        let mut outbox = Outbox::default();
        let values = BTreeMap::from([
            ("a".to_owned(), json!("x")),
            ("b".to_owned(), json!(2)),
            ("c".to_owned(), json!(true)),
            ("d".to_owned(), json!(["y"])),
            ("e".to_owned(), Value::Null),
        ]);
        outbox.elicitation(&json!(1), ElicitationAnswer::Accept(values));
        let content = json!({"a":"x","b":2,"c":true,"d":["y"]});
        assert_eq!(written(&outbox)["result"], json!({"action":"accept","content":content}));
    }
}
