//! The MCP servers of the configuration, and what of them an agent is told.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use signalbox_agents::{McpServer, McpTransport};
use signalbox_facts::{Launch, McpLaunch, Provider};

use super::entry::locate;
use crate::launch::Secrets;

/// An MCP server as configured.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct McpEntry {
    /// Its name.
    pub name: String,
    /// The providers whose agents are told of it; empty: all.
    pub providers: Vec<Provider>,
    /// How it is reached.
    pub reach: McpReach,
}

/// How a configured MCP server is reached.
#[derive(Clone, PartialEq, Eq)]
pub enum McpReach {
    /// A process on stdio.
    Stdio {
        /// Program: a path, or a name on the agent's `PATH`.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Variables set for it; values may be secret.
        env: BTreeMap<String, String>,
        /// Names of variables of whoever starts the agent.
        env_vars: Vec<String>,
    },
    /// A URL.
    Url {
        /// Where.
        url: String,
        /// The older transport with server-sent events.
        sse: bool,
        /// Headers; values may be secret.
        headers: BTreeMap<String, String>,
        /// Headers whose values are variables of whoever starts the agent: header to variable.
        env_headers: BTreeMap<String, String>,
        /// The variable with the bearer token.
        bearer: Option<String>,
    },
}

// Variables, headers and queries carry secrets: they are not shown.
impl fmt::Debug for McpReach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdio { command, .. } => {
                f.debug_struct("Stdio").field("command", command).finish_non_exhaustive()
            }
            Self::Url { sse, .. } => f.debug_struct("Url").field("sse", sse).finish_non_exhaustive(),
        }
    }
}

/// What an agent is told of, and why not of the rest.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told {
    pub(crate) servers: Vec<McpServer>,
    /// For people, one a server that is left out or lacks something.
    pub(crate) warnings: Vec<String>,
}

impl McpReach {
    /// `stdio`, `http` or `sse`.
    #[must_use]
    pub fn transport(&self) -> &'static str {
        match self {
            Self::Stdio { .. } => "stdio",
            Self::Url { sse: false, .. } => "http",
            Self::Url { sse: true, .. } => "sse",
        }
    }
}

impl McpEntry {
    /// Whether agents of this provider are told of it.
    #[must_use]
    pub fn is_for(&self, provider: &Provider) -> bool {
        self.providers.is_empty() || self.providers.contains(provider)
    }

    /// As the agent is told of it: `offered` are the variables of whoever starts the agent, `path` is the agent's.
    pub(super) fn told(
        &self,
        offered: &BTreeMap<String, String>,
        path: Option<&str>,
        cwd: &Path,
    ) -> Result<McpServer, String> {
        let variable = |name: &String| {
            let missing = || format!("the variable {name} is not set where the agent is started");
            offered.get(name).cloned().ok_or_else(missing)
        };
        let transport = match &self.reach {
            McpReach::Stdio { command, args, env, env_vars } => {
                let file = locate(command, path, cwd)
                    .ok_or_else(|| format!("its command {command:?} was not found"))?;
                let passed = env_vars.iter().map(|name| Ok((name.clone(), variable(name)?)));
                let mut all = passed.collect::<Result<BTreeMap<_, _>, String>>()?;
                all.extend(env.clone());
                McpTransport::Stdio { command: file, args: args.clone(), env: all }
            }
            McpReach::Url { url, sse, headers, env_headers, bearer } => {
                let mut headers = headers.clone();
                for (header, name) in env_headers {
                    headers.insert(header.clone(), variable(name)?);
                }
                if let Some(name) = bearer {
                    headers.insert("Authorization".to_owned(), format!("Bearer {}", variable(name)?));
                }
                match sse {
                    true => McpTransport::Sse { url: url.clone(), headers },
                    false => McpTransport::Http { url: url.clone(), headers },
                }
            }
        };
        Ok(McpServer { name: self.name.clone(), transport })
    }
}

/// The servers of the configuration and a session's own, which take the place of those with the same name. One of its own that
/// has lost values is left out, which is said.
pub(super) fn with_own(
    configured: &[McpEntry],
    launch: &Launch,
    secrets: &Secrets,
) -> (Vec<McpEntry>, Vec<String>) {
    let own = &launch.mcp_servers;
    let mut entries: Vec<_> =
        configured.iter().filter(|entry| !own.contains_key(&entry.name)).cloned().collect();
    let mut warnings = Vec::new();
    for (name, server) in own {
        let lost = secrets.lost_mcp(name, server);
        if !lost.is_empty() {
            warnings.push(format!(
                "The MCP server {name} is left out: this server no longer has the values of {}, which are kept in memory \
                 only; thread/resume with `config` gives them again.",
                lost.join(", ")
            ));
            continue;
        }
        let values = secrets.mcp.get(name).cloned().unwrap_or_default();
        let reach = match server.clone() {
            McpLaunch::Off => continue,
            McpLaunch::Stdio { command, args, env_vars, .. } => {
                McpReach::Stdio { command, args, env: values, env_vars }
            }
            McpLaunch::Url { url, sse, env_headers, bearer, .. } => {
                McpReach::Url { url, sse, headers: values, env_headers, bearer }
            }
        };
        entries.push(McpEntry { name: name.clone(), providers: Vec::new(), reach });
    }
    (entries, warnings)
}

/// What agents of a provider are told.
pub(crate) fn told(
    entries: &[McpEntry],
    provider: &Provider,
    offered: &BTreeMap<String, String>,
    path: Option<&str>,
    cwd: &Path,
) -> Told {
    let mut told = Told::default();
    for entry in entries.iter().filter(|entry| entry.is_for(provider)) {
        match entry.told(offered, path, cwd) {
            Ok(server) => told.servers.push(server),
            Err(why) => told.warnings.push(format!("The MCP server {} is left out: {why}.", entry.name)),
        }
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stdio(name: &str, command: &str) -> McpEntry {
        let reach = McpReach::Stdio {
            command: command.to_owned(),
            args: vec!["--quiet".to_owned()],
            env: BTreeMap::from([("LEVEL".to_owned(), "warn".to_owned())]),
            env_vars: vec!["TOKEN".to_owned()],
        };
        McpEntry { name: name.to_owned(), providers: Vec::new(), reach }
    }

    fn url(name: &str, sse: bool) -> McpEntry {
        let reach = McpReach::Url {
            url: "https://h/mcp".to_owned(),
            sse,
            headers: BTreeMap::from([("X-Team".to_owned(), "red".to_owned())]),
            env_headers: BTreeMap::from([("X-Key".to_owned(), "KEY".to_owned())]),
            bearer: Some("TOKEN".to_owned()),
        };
        McpEntry { name: name.to_owned(), providers: vec![Provider::new("codex")], reach }
    }

    fn told_of(entries: &[McpEntry], provider: &str, variables: &[&str]) -> Told {
        let offered = variables.iter().map(|name| ((*name).to_owned(), format!("value of {name}"))).collect();
        told(entries, &Provider::new(provider), &offered, Some("/bin:/usr/bin"), Path::new("/"))
    }

    #[test]
    fn commands_become_absolute_and_variables_are_filled_in() {
        let told = told_of(&[stdio("files", "sh"), url("tracker", false)], "codex", &["TOKEN", "KEY"]);
        assert!(told.warnings.is_empty(), "{:?}", told.warnings);
        let McpTransport::Stdio { command, env, .. } = &told.servers[0].transport else { panic!("stdio") };
        assert!(command.is_absolute() && command.ends_with("sh"));
        assert_eq!((env["LEVEL"].as_str(), env["TOKEN"].as_str()), ("warn", "value of TOKEN"));
        let McpTransport::Http { headers, .. } = &told.servers[1].transport else { panic!("http") };
        let headers: Vec<_> = headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        assert_eq!(headers, ["Authorization: Bearer value of TOKEN", "X-Key: value of KEY", "X-Team: red"]);
    }

    #[test]
    fn what_cannot_be_is_left_out_and_said() {
        let entries = [stdio("a", "no-such-program"), stdio("b", "sh"), url("c", true)];
        let told = told_of(&entries, "codex", &["KEY"]);
        assert!(told.servers.is_empty());
        assert_eq!(
            told.warnings,
            [
                "The MCP server a is left out: its command \"no-such-program\" was not found.",
                "The MCP server b is left out: the variable TOKEN is not set where the agent is started.",
                "The MCP server c is left out: the variable TOKEN is not set where the agent is started.",
            ]
        );
    }

    #[test]
    fn a_server_may_be_for_some_agents_only() {
        let told = told_of(&[url("tracker", false)], "opencode", &[]);
        assert!(told.servers.is_empty() && told.warnings.is_empty());
    }

    #[test]
    fn a_sessions_own_servers_take_the_place_of_configured_ones() {
        let configured = [stdio("a", "sh"), stdio("b", "sh"), stdio("c", "sh")];
        let own = |names: &[&str]| McpLaunch::Stdio {
            command: "true".to_owned(),
            args: Vec::new(),
            env_names: names.iter().map(|name| (*name).to_owned()).collect(),
            env_vars: Vec::new(),
        };
        let mcp_servers = BTreeMap::from([
            ("b".to_owned(), McpLaunch::Off),
            ("c".to_owned(), own(&["KEY"])),
            ("d".to_owned(), own(&["GONE"])),
        ]);
        let launch = Launch { mcp_servers, ..Launch::default() };
        let values = BTreeMap::from([("KEY".to_owned(), "k".to_owned())]);
        let secrets =
            Secrets { mcp: BTreeMap::from([("c".to_owned(), values.clone())]), ..Secrets::default() };
        let (entries, warnings) = with_own(&configured, &launch, &secrets);
        assert_eq!(entries.iter().map(|entry| entry.name.as_str()).collect::<Vec<_>>(), ["a", "c"]);
        let McpReach::Stdio { command, env, .. } = &entries[1].reach else { panic!("stdio") };
        assert_eq!((command.as_str(), env), ("true", &values));
        assert!(warnings.len() == 1 && warnings[0].contains("d is left out") && warnings[0].contains("GONE"));
    }

    #[test]
    fn secrets_are_not_shown() {
        let shown = format!("{:?} {:?}", stdio("a", "sh"), url("b", true));
        assert!(!shown.contains("warn") && !shown.contains("red") && !shown.contains("https"), "{shown}");
    }
}
