//! What of a session's agent is started otherwise than its provider says: what is taken of a wish, and its secret values, which
//! are in memory only.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use signalbox_facts::{Launch, McpLaunch, SessionId};
use signalbox_protocol::ops;

use crate::submission::OpError;

/// Most bytes of one session's launch, values included.
const BYTES: usize = 256 << 10;
/// Sessions whose values are remembered; beyond that the oldest sessions lose theirs, as at a restart.
const SESSIONS: usize = 4096;

type Values = BTreeMap<String, String>;

/// The values of one session's variables and headers. `Debug` shows none of them.
#[derive(Clone, PartialEq, Eq, Default)]
pub(crate) struct Secrets {
    /// Variables of the agent.
    pub(crate) env: Values,
    /// By MCP server its variables or headers.
    pub(crate) mcp: BTreeMap<String, Values>,
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Secrets").field("env", &self.env.keys()).finish_non_exhaustive()
    }
}

impl Secrets {
    fn is_empty(&self) -> bool {
        self.env.is_empty() && self.mcp.is_empty()
    }

    /// The agent's variables whose values are not here.
    pub(crate) fn lost_env<'a>(&self, launch: &'a Launch) -> Vec<&'a str> {
        launch.env_names.iter().filter(|name| !self.env.contains_key(*name)).map(String::as_str).collect()
    }

    /// The variables or headers of an MCP server whose values are not here.
    pub(crate) fn lost_mcp<'a>(&self, name: &str, server: &'a McpLaunch) -> Vec<&'a str> {
        let known = self.mcp.get(name);
        let lost = |name: &&String| !known.is_some_and(|known| known.contains_key(*name));
        server.secret_names().iter().filter(lost).map(String::as_str).collect()
    }
}

/// The values of all sessions, as long as the server runs.
#[derive(Debug, Default)]
pub(crate) struct AllSecrets(Mutex<BTreeMap<SessionId, Arc<Secrets>>>);

impl AllSecrets {
    pub(crate) fn of(&self, session: SessionId) -> Arc<Secrets> {
        self.0.lock().get(&session).cloned().unwrap_or_default()
    }

    pub(crate) fn keep(&self, session: SessionId, secrets: Arc<Secrets>) {
        if secrets.is_empty() {
            return;
        }
        let mut all = self.0.lock();
        all.insert(session, secrets);
        while all.len() > SESSIONS {
            all.pop_first();
        }
    }

    pub(crate) fn forget(&self, session: SessionId) {
        self.0.lock().remove(&session);
    }

    /// Takes values of what the session was started with; gives what it was not started with, for people.
    pub(crate) fn give(&self, session: SessionId, launch: Option<&Launch>, wish: ops::Launch) -> Vec<String> {
        let none = Launch::default();
        let launch = launch.unwrap_or(&none);
        let mut secrets = (*self.of(session)).clone();
        let mut unknown = Vec::new();
        for (name, value) in wish.env {
            match launch.env_names.contains(&name) {
                true => drop(secrets.env.insert(name, value)),
                false => unknown.push(name),
            }
        }
        for (server, given) in wish.mcp_servers {
            let names = launch.mcp_servers.get(&server).map(McpLaunch::secret_names).unwrap_or_default();
            for (name, value) in given.env.into_iter().chain(given.http_headers) {
                match names.contains(&name) {
                    true => drop(secrets.mcp.entry(server.clone()).or_default().insert(name, value)),
                    false => unknown.push(format!("{server}.{name}")),
                }
            }
        }
        self.keep(session, Arc::new(secrets));
        unknown
    }
}

/// Takes a wish apart: what is stored with the session, and what is kept in memory. A wish for nothing is none.
///
/// # Errors
/// [`OpError::InvalidParams`] that names the field.
pub(crate) fn taken(wish: ops::Launch) -> Result<(Option<Box<Launch>>, Secrets), OpError> {
    let invalid = |path: &'static str, message: String| OpError::InvalidParams { path, message };
    let bytes = serde_json::to_vec(&wish).map_or(usize::MAX, |json| json.len());
    if bytes > BYTES {
        return Err(invalid("launch", format!("the launch takes {bytes} bytes; at most {BYTES} are taken")));
    }
    let ops::Launch { command, args, env, cwd, ask_mode, edit_mode, yolo_mode, protocol, mcp_servers } = wish;
    if command.as_deref().is_some_and(|command| command.trim().is_empty()) {
        return Err(invalid(
            "launch.command",
            "a command must name a program; leave it out for the provider's own".into(),
        ));
    }
    let words = command.iter().chain(args.iter().flatten());
    if words.clone().any(|word| word.contains('\0')) {
        return Err(invalid("launch.command", "a command line cannot contain NUL".into()));
    }
    variables(&env).map_err(|message| invalid("launch.env", message))?;
    if let Some(cwd) = &cwd {
        let path = Path::new(cwd);
        if !path.is_absolute() {
            return Err(invalid("launch.cwd", format!("{cwd:?} is not an absolute path")));
        }
        if !path.is_dir() {
            return Err(invalid("launch.cwd", format!("there is no directory {cwd:?}")));
        }
    }
    let modes =
        [("launch.ask_mode", &ask_mode), ("launch.edit_mode", &edit_mode), ("launch.yolo_mode", &yolo_mode)];
    for (path, mode) in modes {
        if mode.as_deref().is_some_and(|mode| mode.trim().is_empty()) {
            return Err(invalid(path, "a mode must have a name; leave it out for the provider's own".into()));
        }
    }
    if protocol.is_some_and(|version| !(1..=2).contains(&version)) {
        return Err(invalid("launch.protocol", "there are the ACP versions 1 and 2".into()));
    }
    let mut secrets = Secrets { env, mcp: BTreeMap::new() };
    let mut servers = BTreeMap::new();
    for (name, server) in mcp_servers {
        if name.is_empty() || name.len() > 64 || name.chars().any(char::is_control) {
            let message = format!("{name:?} cannot be an MCP server's name: 1 to 64 bytes of text");
            return Err(invalid("launch.mcp_servers", message));
        }
        let (server, values) =
            mcp_server(server).map_err(|why| invalid("launch.mcp_servers", format!("{name}: {why}")))?;
        if !values.is_empty() {
            secrets.mcp.insert(name.clone(), values);
        }
        servers.insert(name, server);
    }
    let launch = Launch {
        command,
        args,
        env_names: secrets.env.keys().cloned().collect(),
        cwd: cwd.map(Into::into),
        ask_mode,
        edit_mode,
        yolo_mode,
        protocol,
        mcp_servers: servers,
    };
    Ok(((launch != Launch::default()).then(|| Box::new(launch)), secrets))
}

fn mcp_server(wish: ops::McpServer) -> Result<(McpLaunch, Values), String> {
    let ops::McpServer { command, args, env, env_vars, url, sse, .. } = wish;
    if !wish.enabled {
        return Ok((McpLaunch::Off, Values::new()));
    }
    variables(&env)?;
    let headers = wish.http_headers;
    let of_url = sse
        || !headers.is_empty()
        || !wish.env_http_headers.is_empty()
        || wish.bearer_token_env_var.is_some();
    let of_command = !args.is_empty() || !env.is_empty() || !env_vars.is_empty();
    match (command, url) {
        (None, None) => Err("needs a `command` or a `url`".to_owned()),
        (Some(_), Some(_)) => Err("has both a `command` and a `url`; leave one out".to_owned()),
        (Some(command), None) if command.trim().is_empty() => Err("`command` must name a program".to_owned()),
        (Some(_), None) if of_url => {
            Err("has a `command`, so it takes no headers, token or transport".to_owned())
        }
        (None, Some(_)) if of_command => {
            Err("has a `url`, so it takes no `args`, `env` or `env_vars`".to_owned())
        }
        (None, Some(url)) if !(url.starts_with("http://") || url.starts_with("https://")) => {
            Err("`url` must begin with http:// or https://".to_owned())
        }
        (Some(command), None) => {
            let env_names = env.keys().cloned().collect();
            Ok((McpLaunch::Stdio { command, args, env_names, env_vars }, env))
        }
        (None, Some(url)) => {
            let header_names = headers.keys().cloned().collect();
            let (env_headers, bearer) = (wish.env_http_headers, wish.bearer_token_env_var);
            Ok((McpLaunch::Url { url, sse, header_names, env_headers, bearer }, headers))
        }
    }
}

/// Says what no process could be given, without the value.
fn variables(env: &Values) -> Result<(), String> {
    for (name, value) in env {
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(format!("{name:?} cannot be the name of a variable"));
        }
        if value.contains('\0') {
            return Err(format!("the value of {name} contains NUL"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(names: &[&str]) -> Values {
        names.iter().map(|name| ((*name).to_owned(), format!("value of {name}"))).collect()
    }

    fn refused(wish: ops::Launch) -> String {
        match taken(wish) {
            Err(OpError::InvalidParams { path, message }) => format!("{path}: {message}"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn values_are_parted_from_what_is_stored() {
        let server = ops::McpServer {
            command: Some("m".into()),
            env: values(&["TOKEN"]),
            ..ops::McpServer::default()
        };
        let wish = ops::Launch {
            command: Some("agent".into()),
            env: values(&["B", "A"]),
            mcp_servers: BTreeMap::from([("m".to_owned(), server)]),
            ..ops::Launch::default()
        };
        let (launch, secrets) = taken(wish).unwrap();
        let launch = launch.unwrap();
        let stored = serde_json::to_string(&launch).unwrap();
        assert!(!stored.contains("value of"), "{stored}");
        assert_eq!(launch.env_names, ["A", "B"]);
        assert_eq!(launch.mcp_servers["m"].secret_names(), ["TOKEN"]);
        assert!(secrets.lost_env(&launch).is_empty());
        assert!(secrets.lost_mcp("m", &launch.mcp_servers["m"]).is_empty());
        assert!(!format!("{secrets:?}").contains("value of"));
        let gone = Secrets::default();
        assert_eq!(gone.lost_env(&launch), ["A", "B"]);
        assert_eq!(gone.lost_mcp("m", &launch.mcp_servers["m"]), ["TOKEN"]);
    }

    #[test]
    fn a_wish_for_nothing_is_none() {
        assert_eq!(taken(ops::Launch::default()), Ok((None, Secrets::default())));
    }

    #[test]
    fn what_cannot_be_started_is_refused_by_its_field() {
        let wish = ops::Launch::default;
        let cases = [
            (ops::Launch { command: Some(" ".into()), ..wish() }, "launch.command: a command must name"),
            (ops::Launch { args: Some(vec!["a\0".into()]), ..wish() }, "launch.command: a command line"),
            (ops::Launch { env: values(&["A=B"]), ..wish() }, "launch.env: \"A=B\" cannot be"),
            (ops::Launch { cwd: Some("work".into()), ..wish() }, "launch.cwd: \"work\" is not an absolute"),
            (ops::Launch { cwd: Some("/no/such/one".into()), ..wish() }, "launch.cwd: there is no directory"),
            (ops::Launch { ask_mode: Some(String::new()), ..wish() }, "launch.ask_mode: "),
            (ops::Launch { protocol: Some(3), ..wish() }, "launch.protocol: "),
            (ops::Launch { args: Some(vec!["a".repeat(BYTES)]), ..wish() }, "launch: the launch takes"),
        ];
        for (wish, expected) in cases {
            let why = refused(wish);
            assert!(why.starts_with(expected), "{why}");
        }
    }

    #[test]
    fn an_mcp_server_has_a_command_or_a_url() {
        let (command, url) = (Some("m".to_owned()), Some("https://h".to_owned()));
        let plain = ops::McpServer::default;
        let cases = [
            (plain(), "needs a `command` or a `url`"),
            (ops::McpServer { command: command.clone(), url: url.clone(), ..plain() }, "has both"),
            (ops::McpServer { command, http_headers: values(&["X"]), ..plain() }, "takes no headers"),
            (ops::McpServer { url, env: values(&["X"]), ..plain() }, "takes no `args`"),
            (ops::McpServer { url: Some("ftp://h".into()), ..plain() }, "must begin with http"),
        ];
        for (server, expected) in cases {
            let why = mcp_server(server).unwrap_err();
            assert!(why.contains(expected), "{why}");
        }
        let off = ops::McpServer { enabled: false, ..plain() };
        assert_eq!(mcp_server(off), Ok((McpLaunch::Off, Values::new())));
    }

    #[test]
    fn only_what_a_session_was_started_with_is_taken_later() {
        let all = AllSecrets::default();
        let session = SessionId::generate();
        let launch = Launch { env_names: vec!["A".into()], ..Launch::default() };
        let wish = || ops::Launch { env: values(&["A", "B"]), ..ops::Launch::default() };
        assert_eq!(all.give(session, Some(&launch), wish()), ["B"]);
        assert_eq!(all.of(session).env, values(&["A"]));
        all.forget(session);
        assert_eq!(all.give(session, None, wish()), ["A", "B"]);
        assert!(all.of(session).is_empty());
    }

    #[test]
    fn the_oldest_sessions_lose_their_values_first() {
        let all = AllSecrets::default();
        let one = Arc::new(Secrets { env: values(&["A"]), ..Secrets::default() });
        let ids: Vec<_> = (0..=SESSIONS).map(|_| SessionId::generate()).collect();
        ids.iter().for_each(|id| all.keep(*id, Arc::clone(&one)));
        assert!(all.of(ids[0]).is_empty() && !all.of(ids[1]).is_empty());
    }
}
