//! Every message that is sent to an agent, in the types of the schema crate. Nothing else names that crate.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use agent_client_protocol_schema::ProtocolVersion;
use agent_client_protocol_schema::v1 as acp;
use serde::Serialize;
use serde_json::{Map, Value};
use signalbox_facts::ConfigValue;

use crate::handle::{Answer, ElicitationAnswer, PromptBlock};
use crate::spec::{McpServer, McpTransport};

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

/// Bytes on their way to the agent's stdin. Each message is one line.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
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
    pub(crate) fn initialize(&mut self, id: u64, version: u16) -> Result<(), Unwritable> {
        // Neither files nor terminals of the client: agents do both better themselves.
        let session = acp::ClientSessionCapabilities::new()
            .compaction(acp::CompactionCapabilities::new())
            .notices(acp::NoticeCapabilities::new())
            .config_options(
                acp::SessionConfigOptionsCapabilities::new()
                    .boolean(acp::BooleanConfigOptionCapabilities::new()),
            );
        let capabilities = acp::ClientCapabilities::new()
            .session(session)
            .plan(acp::PlanCapabilities::new())
            .elicitation(acp::ElicitationCapabilities::new().form(acp::ElicitationFormCapabilities::new()));
        let info =
            acp::Implementation::new("signalbox", env!("CARGO_PKG_VERSION")).title("signalbox".to_owned());
        let params = acp::InitializeRequest::new(ProtocolVersion::from(version))
            .client_capabilities(capabilities)
            .client_info(info);
        self.request(id, "initialize", params)
    }

    pub(crate) fn authenticate(&mut self, id: u64, method: &str) -> Result<(), Unwritable> {
        self.request(id, "authenticate", acp::AuthenticateRequest::new(method.to_owned()))
    }

    pub(crate) fn new_session(&mut self, id: u64, opening: Opening) -> Result<(), Unwritable> {
        let params = acp::NewSessionRequest::new(opening.cwd)
            .additional_directories(opening.roots)
            .mcp_servers(mcp_servers(opening.mcp_servers))
            .system_prompt(system_prompt(opening.instructions))
            .meta(some(opening.meta));
        self.request(id, "session/new", params)
    }

    pub(crate) fn load_session(
        &mut self,
        id: u64,
        session: &str,
        opening: Opening,
    ) -> Result<(), Unwritable> {
        let params = acp::LoadSessionRequest::new(session.to_owned(), opening.cwd)
            .additional_directories(opening.roots)
            .mcp_servers(mcp_servers(opening.mcp_servers))
            .system_prompt(system_prompt(opening.instructions))
            .meta(some(opening.meta));
        self.request(id, "session/load", params)
    }

    pub(crate) fn resume_session(
        &mut self,
        id: u64,
        session: &str,
        opening: Opening,
    ) -> Result<(), Unwritable> {
        let params = acp::ResumeSessionRequest::new(session.to_owned(), opening.cwd)
            .additional_directories(opening.roots)
            .mcp_servers(mcp_servers(opening.mcp_servers))
            .system_prompt(system_prompt(opening.instructions))
            .meta(some(opening.meta));
        self.request(id, "session/resume", params)
    }

    /// Not stable in the protocol, so without a type in the crate as it is used here.
    pub(crate) fn fork_session(
        &mut self,
        id: u64,
        session: &str,
        cwd: &Path,
        roots: &[PathBuf],
        servers: Vec<McpServer>,
    ) -> Result<(), Unwritable> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Fork<'a> {
            session_id: &'a str,
            cwd: &'a Path,
            #[serde(skip_serializing_if = "<[_]>::is_empty")]
            additional_directories: &'a [PathBuf],
            mcp_servers: Vec<acp::McpServer>,
        }
        let params = Fork {
            session_id: session,
            cwd,
            additional_directories: roots,
            mcp_servers: mcp_servers(servers),
        };
        self.request(id, "session/fork", params)
    }

    pub(crate) fn close_session(&mut self, id: u64, session: &str) -> Result<(), Unwritable> {
        self.request(id, "session/close", acp::CloseSessionRequest::new(session.to_owned()))
    }

    pub(crate) fn set_option(
        &mut self,
        id: u64,
        session: &str,
        option: &str,
        value: &ConfigValue,
    ) -> Result<(), Unwritable> {
        let value = match value {
            ConfigValue::Flag(flag) => acp::SessionConfigOptionValue::boolean(*flag),
            ConfigValue::Choice(choice) => acp::SessionConfigOptionValue::value_id(choice.clone()),
        };
        let params = acp::SetSessionConfigOptionRequest::new(session.to_owned(), option.to_owned(), value);
        self.request(id, "session/set_config_option", params)
    }

    pub(crate) fn set_mode(&mut self, id: u64, session: &str, mode: &str) -> Result<(), Unwritable> {
        self.request(
            id,
            "session/set_mode",
            acp::SetSessionModeRequest::new(session.to_owned(), mode.to_owned()),
        )
    }

    /// Taken out of the protocol before it was stable, and still the only way with some agents.
    pub(crate) fn set_model(&mut self, id: u64, session: &str, model: &str) -> Result<(), Unwritable> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct SetModel<'a> {
            session_id: &'a str,
            model_id: &'a str,
        }
        self.request(id, "session/set_model", SetModel { session_id: session, model_id: model })
    }

    pub(crate) fn prompt(
        &mut self,
        id: u64,
        session: &str,
        blocks: Vec<PromptBlock>,
        meta: Map<String, Value>,
    ) -> Result<(), Unwritable> {
        let blocks = blocks.into_iter().map(block).collect();
        self.request(
            id,
            "session/prompt",
            acp::PromptRequest::new(session.to_owned(), blocks).meta(some(meta)),
        )
    }

    pub(crate) fn cancel(&mut self, session: &str) -> Result<(), Unwritable> {
        let params = acp::CancelNotification::new(session.to_owned());
        self.put(&Frame { jsonrpc: "2.0", id: None, method: "session/cancel", params })
    }

    pub(crate) fn permission(&mut self, id: &Value, answer: Answer) {
        let outcome = match answer {
            Answer::Selected(option) => {
                acp::RequestPermissionOutcome::Selected(acp::SelectedPermissionOutcome::new(option))
            }
            Answer::Cancelled => acp::RequestPermissionOutcome::Cancelled,
        };
        self.reply(id, acp::RequestPermissionResponse::new(outcome));
    }

    pub(crate) fn elicitation(&mut self, id: &Value, answer: ElicitationAnswer) {
        let action = match answer {
            ElicitationAnswer::Accept(values) => {
                let content: BTreeMap<_, _> =
                    values.into_iter().filter_map(|(key, value)| Some((key, form_value(value)?))).collect();
                acp::ElicitationAction::Accept(acp::ElicitationAcceptAction::new().content(content))
            }
            ElicitationAnswer::Decline => acp::ElicitationAction::Decline,
            ElicitationAnswer::Cancel => acp::ElicitationAction::Cancel,
        };
        self.reply(id, acp::CreateElicitationResponse::new(action));
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

fn system_prompt(instructions: Option<String>) -> Option<acp::SystemPrompt> {
    Some(acp::SystemPrompt::new(vec![block(PromptBlock::Text(instructions?))]))
}

fn block(block: PromptBlock) -> acp::ContentBlock {
    match block {
        PromptBlock::Text(text) => acp::ContentBlock::Text(acp::TextContent::new(text)),
        PromptBlock::Context(text) => {
            let annotations = acp::Annotations::new().audience(vec![acp::Role::Assistant]);
            acp::ContentBlock::Text(acp::TextContent::new(text).annotations(annotations))
        }
        PromptBlock::Image { mime, data, uri } => {
            acp::ContentBlock::Image(acp::ImageContent::new(data, mime).uri(uri))
        }
        PromptBlock::Link { uri, name, mime } => {
            acp::ContentBlock::ResourceLink(acp::ResourceLink::new(name, uri).mime_type(mime))
        }
        PromptBlock::Resource { uri, text, mime } => {
            let contents = acp::TextResourceContents::new(text, uri).mime_type(mime);
            let resource = acp::EmbeddedResourceResource::TextResourceContents(contents);
            acp::ContentBlock::Resource(acp::EmbeddedResource::new(resource))
        }
    }
}

fn form_value(value: Value) -> Option<acp::ElicitationContentValue> {
    Some(match value {
        Value::String(text) => acp::ElicitationContentValue::String(text),
        Value::Bool(flag) => acp::ElicitationContentValue::Boolean(flag),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => acp::ElicitationContentValue::Integer(whole),
            None => acp::ElicitationContentValue::Number(number.as_f64()?),
        },
        Value::Array(list) => acp::ElicitationContentValue::StringArray(
            list.into_iter().filter_map(|value| Some(value.as_str()?.to_owned())).collect(),
        ),
        Value::Null | Value::Object(_) => return None,
    })
}

fn mcp_servers(servers: Vec<McpServer>) -> Vec<acp::McpServer> {
    let headers = |headers: BTreeMap<String, String>| {
        headers.into_iter().map(|(name, value)| acp::HttpHeader::new(name, value)).collect::<Vec<_>>()
    };
    let servers = servers.into_iter().map(|McpServer { name, transport }| match transport {
        McpTransport::Stdio { command, args, env } => {
            let env = env.into_iter().map(|(name, value)| acp::EnvVariable::new(name, value)).collect();
            acp::McpServer::Stdio(acp::McpServerStdio::new(name, command).args(args).env(env))
        }
        McpTransport::Http { url, headers: given } => {
            acp::McpServer::Http(acp::McpServerHttp::new(name, url).headers(headers(given)))
        }
        McpTransport::Sse { url, headers: given } => {
            acp::McpServer::Sse(acp::McpServerSse::new(name, url).headers(headers(given)))
        }
    });
    servers.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn written(outbox: &Outbox) -> Value {
        assert_eq!(outbox.pending().last(), Some(&b'\n'));
        serde_json::from_slice(outbox.pending()).unwrap()
    }

    #[test]
    fn initialize_advertises_what_is_shown_and_neither_files_nor_terminals() {
        let mut outbox = Outbox::default();
        outbox.initialize(1, 1).unwrap();
        let message = written(&outbox);
        let params = &message["params"];
        assert_eq!(params["protocolVersion"], 1);
        assert_eq!(params["clientInfo"]["name"], "signalbox");
        let capabilities = &params["clientCapabilities"];
        assert_eq!(
            capabilities["session"],
            json!({"compaction":{},"configOptions":{"boolean":{}},"notices":{}})
        );
        assert_eq!((&capabilities["plan"], &capabilities["elicitation"]), (&json!({}), &json!({"form":{}})));
        assert_ne!(capabilities["terminal"], json!(true));
        assert_ne!(capabilities["fs"]["readTextFile"], json!(true));
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
