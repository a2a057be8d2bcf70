//! How a thread's agent is started otherwise than its provider: from the wire, who may say so, and as it is shown.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use signalbox_facts::SessionRow;
use signalbox_protocol::app::{LaunchParams, ThreadLaunch};
use signalbox_protocol::ops::{Launch, McpServer};
use signalbox_rpc::{Ctx, Role, RpcError};

use super::settings::not_used;
use crate::app::AppServer;
use crate::errors::{self, Error};

/// The key of `config` with MCP servers by name.
const MCP_SERVERS: &str = "mcp_servers";
/// What existing clients say of an MCP server and no agent is told.
const UNUSED: [&str; 9] = [
    "cwd",
    "disabled_tools",
    "enabled_tools",
    "required",
    "scopes",
    "startup_timeout_ms",
    "startup_timeout_sec",
    "tool_timeout_sec",
    "tools",
];

/// The MCP servers of a client's `config`, and the keys of them that have no meaning here.
#[derive(Debug, Default)]
struct Given {
    servers: BTreeMap<String, McpServer>,
    unused: Vec<String>,
}

/// What is refused of whoever does not own the server. `what` is the field that was given.
pub(super) fn only_owner(ctx: &Ctx<AppServer>, what: &str) -> Result<(), Error> {
    if ctx.role() >= Role::Owner {
        return Ok(());
    }
    let refused = RpcError::unauthorized(Role::Owner);
    let message = format!("{}: `{what}` says which programs the server starts", refused.message);
    Err(RpcError { message: message.into(), ..refused }.with("path", what).into())
}

/// What `thread/start` says of the launch, if anything; adds to the warnings.
pub(super) fn wish(
    ctx: &Ctx<AppServer>,
    launch: Option<LaunchParams>,
    config: Option<&Map<String, Value>>,
    warnings: &mut Vec<String>,
) -> Result<Option<Box<Launch>>, Error> {
    if launch.is_some() {
        only_owner(ctx, "launch")?;
    }
    let own = mcp_servers(config)?;
    if own.is_some() {
        only_owner(ctx, "config.mcp_servers")?;
    }
    if launch.is_none() && own.is_none() {
        return Ok(None);
    }
    let own = own.unwrap_or_default();
    let unused: Vec<_> = own.unused.iter().map(|key| (key.as_str(), true)).collect();
    warnings.extend(not_used(&unused));
    let launch = Launch { mcp_servers: own.servers, ..launch_in(launch.unwrap_or_default()) };
    Ok(Some(Box::new(launch)))
}

fn launch_in(params: LaunchParams) -> Launch {
    let LaunchParams { command, args, env, cwd, ask_mode, edit_mode, yolo_mode, protocol } = params;
    Launch {
        command,
        args,
        env: env.unwrap_or_default(),
        cwd,
        ask_mode,
        edit_mode,
        yolo_mode,
        protocol,
        mcp_servers: BTreeMap::new(),
    }
}

/// Gives the values again that a thread was started with. What else a resume says of the launch is not used, which the
/// warnings say.
pub(super) fn give_again(
    ctx: &Ctx<AppServer>,
    row: &SessionRow,
    launch: Option<&LaunchParams>,
    config: Option<&Map<String, Value>>,
) -> Result<Vec<String>, Error> {
    if launch.is_some() {
        only_owner(ctx, "launch")?;
    }
    let mut warnings = Vec::new();
    let known = row.launch.as_deref();
    let own_servers = known.is_some_and(|launch| !launch.mcp_servers.is_empty());
    // Existing clients send their whole configuration again; it matters where the thread has servers of its own.
    let servers = match own_servers && ctx.role() >= Role::Owner {
        true => mcp_servers(config)?.unwrap_or_default().servers,
        false => BTreeMap::new(),
    };
    if servers.is_empty() && config.is_some_and(|config| config.keys().any(|key| is_of_mcp(key))) {
        warnings.push("Not used by this server: config.mcp_servers of a resume.".to_owned());
    }
    let env = launch.and_then(|launch| launch.env.clone()).unwrap_or_default();
    if let Some(launch) = launch
        && *launch != (LaunchParams { env: launch.env.clone(), ..LaunchParams::default() })
    {
        let message = "A thread keeps the launch that it was started with: of the `launch` of this resume only `env` is used.";
        warnings.push(message.to_owned());
    }
    if env.is_empty() && servers.is_empty() {
        return Ok(warnings);
    }
    let wish = Launch { env, mcp_servers: servers, ..Launch::default() };
    let unknown = ctx.app().engine().give_launch_values(row.id, known, wish);
    if !unknown.is_empty() {
        warnings.push(format!(
            "Left out, because the thread was not started with them: the variables {}.",
            unknown.join(", ")
        ));
    }
    Ok(warnings)
}

/// As a thread's launch is shown; none if it is that of its provider.
pub(super) fn shown(app: &AppServer, row: &SessionRow) -> Option<ThreadLaunch> {
    let launch = row.launch.as_deref()?;
    Some(ThreadLaunch {
        command: launch.command.clone(),
        args: launch.args.clone(),
        env_names: launch.env_names.clone(),
        env_lost: app.engine().lost_launch_values(row.id, launch),
        cwd: launch.cwd.as_ref().map(|cwd| cwd.display().to_string()),
        ask_mode: launch.ask_mode.clone(),
        edit_mode: launch.edit_mode.clone(),
        yolo_mode: launch.yolo_mode.clone(),
        protocol: launch.protocol,
        mcp_servers: launch.mcp_servers.keys().cloned().collect(),
    })
}

/// Whether a key of `config` is about MCP servers.
pub(super) fn is_of_mcp(key: &str) -> bool {
    key == MCP_SERVERS || key.strip_prefix(MCP_SERVERS).is_some_and(|rest| rest.starts_with('.'))
}

/// The MCP servers of a client's `config`: nested objects, or keys with dots.
fn mcp_servers(config: Option<&Map<String, Value>>) -> Result<Option<Given>, Error> {
    let Given { mut servers, mut unused } = Given::default();
    let given = config.into_iter().flatten().filter(|(key, _)| is_of_mcp(key));
    let mut any = false;
    for (key, value) in given {
        any = true;
        let mut path = key.split('.').skip(1).map(str::to_owned).collect();
        set(&mut servers, &mut unused, &mut path, value)?;
    }
    Ok(any.then_some(Given { servers, unused }))
}

/// Puts a value where its path leads: of the name of a server, a key of it, and of a table the key in that.
fn set(
    servers: &mut BTreeMap<String, McpServer>,
    unused: &mut Vec<String>,
    path: &mut Vec<String>,
    value: &Value,
) -> Result<(), Error> {
    let whole =
        || format!("config.{MCP_SERVERS}{}", path.iter().map(|part| format!(".{part}")).collect::<String>());
    let wrong = |expected: &str| Err(errors::invalid(&whole(), format!("{} must be {expected}", whole())));
    let tables = ["env", "http_headers", "env_http_headers"];
    let is_table = path.len() < 2 || (path.len() == 2 && tables.contains(&path[1].as_str()));
    if is_table {
        let Value::Object(members) = value else { return wrong("an object") };
        if let [name] = path.as_slice() {
            servers.entry(name.clone()).or_default();
        }
        for (key, value) in members {
            path.push(key.clone());
            set(servers, unused, path, value)?;
            path.pop();
        }
        return Ok(());
    }
    if path.len() == 2 && UNUSED.contains(&path[1].as_str()) {
        unused.push(whole());
        return Ok(());
    }
    let text = || value.as_str().map(str::to_owned);
    let texts = || -> Option<Vec<String>> {
        value.as_array()?.iter().map(|value| value.as_str().map(str::to_owned)).collect()
    };
    let server = servers.entry(path[0].clone()).or_default();
    let rest: Vec<&str> = path[1..].iter().map(String::as_str).collect();
    match rest.as_slice() {
        ["enabled"] => match value.as_bool() {
            Some(enabled) => server.enabled = enabled,
            None => return wrong("true or false"),
        },
        ["transport"] => match value.as_str() {
            Some(word @ ("http" | "sse")) => server.sse = word == "sse",
            _ => return wrong("\"http\" or \"sse\""),
        },
        ["args" | "env_vars"] => match (texts(), rest[0]) {
            (Some(args), "args") => server.args = args,
            (Some(names), _) => server.env_vars = names,
            (None, _) => return wrong("an array of strings"),
        },
        ["command" | "url" | "bearer_token_env_var"] => match (text(), rest[0]) {
            (None, _) => return wrong("a string"),
            (command, "command") => server.command = command,
            (url, "url") => server.url = url,
            (name, _) => server.bearer_token_env_var = name,
        },
        [table @ ("env" | "http_headers" | "env_http_headers"), name] => {
            let Some(text) = text() else { return wrong("a string") };
            let place = match *table {
                "env" => &mut server.env,
                "http_headers" => &mut server.http_headers,
                _ => &mut server.env_http_headers,
            };
            place.insert((*name).to_owned(), text);
        }
        _ => {
            let message = format!(
                "{} is no key of an MCP server here; there are enabled, command, args, env, env_vars, url, transport, \
                 http_headers, env_http_headers and bearer_token_env_var",
                whole()
            );
            return Err(errors::invalid(&whole(), message));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use signalbox_rpc::RpcError;

    use super::*;

    fn servers(config: Value) -> Result<BTreeMap<String, McpServer>, String> {
        let Value::Object(config) = config else { panic!("an object") };
        match mcp_servers(Some(&config)) {
            Ok(given) => Ok(given.unwrap_or_default().servers),
            Err(error) => {
                let error = RpcError::from(error);
                Err(format!("{}: {}", error.data["path"].as_str().unwrap(), error.message))
            }
        }
    }

    #[test]
    fn nested_and_dotted_keys_say_the_same() {
        let nested = json!({"mcp_servers": {"m": {"command": "c", "args": ["a"], "env": {"K": "v"}},
                            "n": {"url": "https://h", "transport": "sse", "bearer_token_env_var": "T"}}});
        let dotted = json!({"mcp_servers.m.command": "c", "mcp_servers.m.args": ["a"], "mcp_servers.m.env.K": "v",
                            "mcp_servers.n": {"url": "https://h", "transport": "sse"},
                            "mcp_servers.n.bearer_token_env_var": "T", "model_reasoning_effort": "high"});
        let nested = servers(nested).unwrap();
        assert_eq!(nested["m"].env["K"], "v");
        assert!(nested["n"].sse && nested["m"].enabled);
        assert_eq!(servers(dotted).unwrap(), nested);
        assert_eq!(servers(json!({"mcp_serversx": 1})).unwrap(), BTreeMap::new());
    }

    #[test]
    fn what_is_wrong_is_named_without_its_value() {
        for (config, expected) in [
            (
                json!({"mcp_servers": 1}),
                "config.mcp_servers: Invalid params: config.mcp_servers must be an object",
            ),
            (json!({"mcp_servers": {"m": {"env": {"K": {"secret": 1}}}}}), "config.mcp_servers.m.env.K: "),
            (json!({"mcp_servers.m.args": "a"}), "config.mcp_servers.m.args: "),
            (json!({"mcp_servers.m.comand": "a"}), "config.mcp_servers.m.comand: "),
        ] {
            let why = servers(config).unwrap_err();
            assert!(why.starts_with(expected) && !why.contains("secret"), "{why}");
        }
    }
}
