//! What is said to agents that speak version 2 of ACP: params of requests, and results of what they asked.

use std::path::{Path, PathBuf};

use agent_client_protocol_schema::ProtocolVersion;
use agent_client_protocol_schema::v2 as acp;
use serde::Serialize;
use serde_json::{Map, Value};
use signalbox_facts::ConfigValue;

use super::{Opening, some};
use crate::handle::PromptBlock;
use crate::spec::{McpServer, McpTransport};

/// The shape of this version, and beside it what `older` says in the one before: an agent that answers with that has heard
/// what it needs too, and must not be asked twice.
pub(super) fn initialize(version: u16, older: impl Serialize) -> impl Serialize {
    #[derive(Serialize)]
    struct Both<N, O> {
        #[serde(flatten)]
        newer: N,
        #[serde(flatten)]
        older: O,
    }
    // Notices, plans, compaction, subagents and boolean options need no word here: every client of this version takes them.
    let questions = acp::ElicitationCapabilities::new()
        .form(acp::ElicitationFormCapabilities::new())
        .url(acp::ElicitationUrlCapabilities::new());
    // `signalbox login` runs those that need a terminal.
    let logins = acp::ClientAuthCapabilities::new().terminal(acp::TerminalAuthCapabilities::new());
    let info = acp::Implementation::new("signalbox", env!("CARGO_PKG_VERSION")).title("signalbox".to_owned());
    let newer = acp::InitializeRequest::new(ProtocolVersion::from(version), info)
        .capabilities(acp::ClientCapabilities::new().elicitation(questions).auth(logins));
    Both { newer, older }
}

pub(super) fn authenticate(method: &str) -> impl Serialize + use<> {
    acp::LoginAuthRequest::new(method.to_owned())
}

pub(super) fn new_session(opening: Opening) -> impl Serialize {
    acp::NewSessionRequest::new(opening.cwd)
        .additional_directories(paths(opening.roots))
        .mcp_servers(mcp_servers(opening.mcp_servers))
        .system_prompt(system_prompt(opening.instructions))
        .meta(some(opening.meta))
}

/// With `replay` the agent tells the whole conversation again before it answers.
pub(super) fn resume_session(session: &str, opening: Opening, replay: bool) -> impl Serialize + use<> {
    acp::ResumeSessionRequest::new(session.to_owned(), opening.cwd)
        .additional_directories(paths(opening.roots))
        .mcp_servers(mcp_servers(opening.mcp_servers))
        .system_prompt(system_prompt(opening.instructions))
        .replay_from(replay.then(|| acp::ReplayFrom::Start(acp::ReplayFromStart::new())))
        .meta(some(opening.meta))
}

pub(super) fn fork_session(
    session: &str,
    cwd: &Path,
    roots: &[PathBuf],
    servers: Vec<McpServer>,
) -> impl Serialize + use<> {
    acp::ForkSessionRequest::new(session.to_owned(), cwd.to_owned())
        .additional_directories(paths(roots.to_vec()))
        .mcp_servers(mcp_servers(servers))
}

pub(super) fn delete_session(session: &str) -> impl Serialize + use<> {
    acp::DeleteSessionRequest::new(session.to_owned())
}

pub(super) fn list_sessions(cwd: Option<&Path>, cursor: Option<&str>) -> impl Serialize + use<> {
    acp::ListSessionsRequest::new()
        .cwd(cwd.map(Path::to_owned).map(acp::AbsolutePath::from))
        .cursor(cursor.map(|cursor| acp::SessionListCursor::new(cursor.to_owned())))
}

pub(super) fn close_session(session: &str) -> impl Serialize + use<> {
    acp::CloseSessionRequest::new(session.to_owned())
}

pub(super) fn set_option(session: &str, option: &str, value: &ConfigValue) -> impl Serialize + use<> {
    let value = match value {
        ConfigValue::Flag(value) => acp::SessionConfigOptionValue::Boolean { value: *value },
        ConfigValue::Choice(choice) => acp::SessionConfigOptionValue::Id { value: choice.clone().into() },
    };
    acp::SetSessionConfigOptionRequest::new(session.to_owned(), option.to_owned(), value)
}

pub(super) fn prompt(
    session: &str,
    blocks: Vec<PromptBlock>,
    meta: Map<String, Value>,
) -> impl Serialize + use<> {
    let blocks = blocks.into_iter().map(block).collect();
    acp::PromptRequest::new(session.to_owned(), blocks).meta(some(meta))
}

pub(super) fn cancel(session: &str) -> impl Serialize + use<> {
    acp::CancelSessionNotification::new(session.to_owned())
}

fn paths(paths: Vec<PathBuf>) -> Vec<acp::AbsolutePath> {
    paths.into_iter().map(acp::AbsolutePath::from).collect()
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
        PromptBlock::Link { uri, name, mime } => acp::ContentBlock::ResourceLink(
            acp::ResourceLink::new(name, uri).mime_type(mime.map(acp::MediaType::new)),
        ),
        PromptBlock::Resource { uri, text, mime } => {
            let contents = acp::TextResourceContents::new(text, uri).mime_type(mime.map(acp::MediaType::new));
            let resource = acp::EmbeddedResourceResource::TextResourceContents(contents);
            acp::ContentBlock::Resource(acp::EmbeddedResource::new(resource))
        }
    }
}

/// Servers that only speak the older HTTP with server-sent events are left out: this version has no word for them.
fn mcp_servers(servers: Vec<McpServer>) -> Vec<acp::McpServer> {
    let servers = servers.into_iter().filter_map(|McpServer { name, transport }| match transport {
        McpTransport::Stdio { command, args, env } => {
            let env = env.into_iter().map(|(name, value)| acp::EnvVariable::new(name, value)).collect();
            Some(acp::McpServer::Stdio(acp::McpServerStdio::new(name, command).args(args).env(env)))
        }
        McpTransport::Http { url, headers } => {
            let headers = headers.into_iter().map(|(name, value)| acp::HttpHeader::new(name, value));
            Some(acp::McpServer::Http(acp::McpServerHttp::new(name, url).headers(headers.collect())))
        }
        McpTransport::Sse { .. } => None,
    });
    servers.collect()
}
