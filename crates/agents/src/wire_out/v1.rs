//! What is said to agents that speak version 1 of ACP: params of requests, and results of what they asked.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use agent_client_protocol_schema::ProtocolVersion;
use agent_client_protocol_schema::v1 as acp;
use serde::Serialize;
use serde_json::{Map, Value};
use signalbox_facts::ConfigValue;

use super::{Opening, some};
use crate::handle::{Answer, ElicitationAnswer, PromptBlock};
use crate::spec::{McpServer, McpTransport};

pub(super) fn initialize(version: u16) -> impl Serialize {
    let (capabilities, info) = client();
    acp::InitializeRequest::new(ProtocolVersion::from(version))
        .client_capabilities(capabilities)
        .client_info(info)
}

/// What `initialize` says of the client, without the version.
pub(super) fn about_us() -> impl Serialize {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct AboutUs {
        client_capabilities: acp::ClientCapabilities,
        client_info: acp::Implementation,
    }
    let (client_capabilities, client_info) = client();
    AboutUs { client_capabilities, client_info }
}

fn client() -> (acp::ClientCapabilities, acp::Implementation) {
    // Neither files nor terminals of the client: agents do both better themselves.
    let session = acp::ClientSessionCapabilities::new()
        .compaction(acp::CompactionCapabilities::new())
        .notices(acp::NoticeCapabilities::new())
        .config_options(
            acp::SessionConfigOptionsCapabilities::new().boolean(acp::BooleanConfigOptionCapabilities::new()),
        );
    let capabilities = acp::ClientCapabilities::new()
        .session(session)
        // `signalbox login` runs them.
        .auth(acp::AuthCapabilities::new().terminal(true))
        .plan(acp::PlanCapabilities::new())
        // Children are shown with all they say, do and ask, so an agent may tell of them.
        .subagents(acp::SubagentCapabilities::new())
        .elicitation(
            acp::ElicitationCapabilities::new()
                .form(acp::ElicitationFormCapabilities::new())
                .url(acp::ElicitationUrlCapabilities::new()),
        );
    let info = acp::Implementation::new("signalbox", env!("CARGO_PKG_VERSION")).title("signalbox".to_owned());
    (capabilities, info)
}

pub(super) fn authenticate(method: &str) -> impl Serialize + use<> {
    acp::AuthenticateRequest::new(method.to_owned())
}

pub(super) fn new_session(opening: Opening) -> impl Serialize {
    acp::NewSessionRequest::new(opening.cwd)
        .additional_directories(opening.roots)
        .mcp_servers(mcp_servers(opening.mcp_servers))
        .system_prompt(system_prompt(opening.instructions))
        .meta(some(opening.meta))
}

pub(super) fn load_session(session: &str, opening: Opening) -> impl Serialize + use<> {
    acp::LoadSessionRequest::new(session.to_owned(), opening.cwd)
        .additional_directories(opening.roots)
        .mcp_servers(mcp_servers(opening.mcp_servers))
        .system_prompt(system_prompt(opening.instructions))
        .meta(some(opening.meta))
}

pub(super) fn resume_session(session: &str, opening: Opening) -> impl Serialize + use<> {
    acp::ResumeSessionRequest::new(session.to_owned(), opening.cwd)
        .additional_directories(opening.roots)
        .mcp_servers(mcp_servers(opening.mcp_servers))
        .system_prompt(system_prompt(opening.instructions))
        .meta(some(opening.meta))
}

/// The crate's own type would leave out an empty list of servers, without which most agents refuse.
pub(super) fn fork_session<'a>(
    session: &'a str,
    cwd: &'a Path,
    roots: &'a [PathBuf],
    servers: Vec<McpServer>,
) -> impl Serialize + 'a {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Fork<'a> {
        session_id: &'a str,
        cwd: &'a Path,
        #[serde(skip_serializing_if = "<[_]>::is_empty")]
        additional_directories: &'a [PathBuf],
        mcp_servers: Vec<acp::McpServer>,
    }
    Fork { session_id: session, cwd, additional_directories: roots, mcp_servers: mcp_servers(servers) }
}

pub(super) fn delete_session(session: &str) -> impl Serialize + use<> {
    acp::DeleteSessionRequest::new(session.to_owned())
}

pub(super) fn list_sessions(cwd: Option<&Path>, cursor: Option<&str>) -> impl Serialize + use<> {
    acp::ListSessionsRequest::new().cwd(cwd.map(Path::to_owned)).cursor(cursor.map(str::to_owned))
}

pub(super) fn close_session(session: &str) -> impl Serialize + use<> {
    acp::CloseSessionRequest::new(session.to_owned())
}

pub(super) fn set_option(session: &str, option: &str, value: &ConfigValue) -> impl Serialize + use<> {
    let value = match value {
        ConfigValue::Flag(flag) => acp::SessionConfigOptionValue::boolean(*flag),
        ConfigValue::Choice(choice) => acp::SessionConfigOptionValue::value_id(choice.clone()),
    };
    acp::SetSessionConfigOptionRequest::new(session.to_owned(), option.to_owned(), value)
}

pub(super) fn set_mode(session: &str, mode: &str) -> impl Serialize + use<> {
    acp::SetSessionModeRequest::new(session.to_owned(), mode.to_owned())
}

/// Taken out of the protocol before it was stable, and still the only way with some agents.
pub(super) fn set_model<'a>(session: &'a str, model: &'a str) -> impl Serialize + 'a {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct SetModel<'a> {
        session_id: &'a str,
        model_id: &'a str,
    }
    SetModel { session_id: session, model_id: model }
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
    acp::CancelNotification::new(session.to_owned())
}

pub(super) fn permission(answer: Answer) -> impl Serialize {
    acp::RequestPermissionResponse::new(match answer {
        Answer::Selected(option) => {
            acp::RequestPermissionOutcome::Selected(acp::SelectedPermissionOutcome::new(option))
        }
        Answer::Cancelled => acp::RequestPermissionOutcome::Cancelled,
    })
}

pub(super) fn elicitation(answer: ElicitationAnswer) -> impl Serialize {
    acp::CreateElicitationResponse::new(match answer {
        ElicitationAnswer::Accept(values) => {
            let content: BTreeMap<_, _> =
                values.into_iter().filter_map(|(key, value)| Some((key, form_value(value)?))).collect();
            acp::ElicitationAction::Accept(acp::ElicitationAcceptAction::new().content(content))
        }
        ElicitationAnswer::Decline => acp::ElicitationAction::Decline,
        ElicitationAnswer::Cancel => acp::ElicitationAction::Cancel,
    })
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
