//! From the configuration to the providers of a server, the built-in one among them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use signalbox_engine::{
    Catalog, ForAll, McpEntry, McpReach, ProviderEntry, base_environment, offered_variables,
};
use signalbox_facts::Provider;
use signalbox_home::{Config, Home, HomeError, McpServerConfig, McpTransport, ProviderConfig};

/// The provider that is built in.
pub const REHEARSAL: &str = "rehearsal";
/// The argument with which this program is the guard of a server's agents.
pub const GUARD: &str = "guard";
/// Where the rehearsal agent keeps conversations, so that they go on in another process.
const REHEARSAL_STATE: &str = "SIGNALBOX_REHEARSAL_STATE";

/// The rule file that an agent reads itself if its `reads_rules` is true.
const RULES: &str = "AGENTS.md";

/// The providers cannot be put together.
#[derive(Debug, thiserror::Error)]
pub enum ProvidersError {
    /// A provider that is not known needs a command.
    #[error("[providers.{name}] in config.toml needs a `command`: signalbox knows no agent of this name")]
    NoCommand {
        /// Its name.
        name: String,
    },
    /// The built-in agent has no place for its conversations.
    #[error(transparent)]
    State(#[from] HomeError),
}

/// The known providers, the built-in one, which is started with the command line `rehearsal`, and those of the
/// configuration. Agents get a fixed base of this process's environment and, where they ask for more, of `env`.
///
/// # Errors
/// If a provider of the configuration lacks its command, or the home refuses a folder.
pub fn catalog(
    home: &Home,
    config: &Config,
    rehearsal: Vec<String>,
    env: BTreeMap<String, String>,
) -> Result<Catalog, ProvidersError> {
    let mut built_in = ProviderEntry::custom(REHEARSAL, "Rehearsal (built in)", rehearsal);
    // It has no use for rules, and a line of them might be one of its directives.
    built_in.reads_rules = vec![RULES.to_owned()];
    let state = home.agent_state(REHEARSAL)?;
    built_in.env.insert(REHEARSAL_STATE.to_owned(), state.display().to_string());

    let mut entries = BTreeMap::from([(REHEARSAL.to_owned(), built_in)]);
    for (name, configured) in &config.providers {
        let provider = Provider::new(name);
        let known = entries.remove(provider.as_str()).or_else(|| ProviderEntry::known(provider.as_str()));
        let entry = entry(&provider, known, configured)?;
        entries.insert(provider.to_string(), entry);
    }
    let default = Provider::new(&config.default_provider);
    let catalog = Catalog::new(entries.into_values().collect(), default, base_environment(), env);
    let log_traffic = config.agents.log_traffic;
    Ok(catalog.with(ForAll {
        log_traffic,
        // Also when nothing is logged now: what was logged goes with its thread.
        traffic_logs: Some(traffic_logs(home)),
        downloads: config.agents.downloads,
        pass_env: config.agents.pass_env.clone(),
        mcp_servers: config.mcp_servers.iter().filter_map(mcp_entry).collect(),
    }))
}

/// The folder of traffic logs. One that cannot be used keeps nothing from working: each thread that is to be logged
/// there is told.
fn traffic_logs(home: &Home) -> PathBuf {
    home.agent_logs().unwrap_or_else(|error| {
        let path = home.folder().join("logs/agents");
        let why = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
        tracing::warn!(path = %path.display(), why, "what passes between the server and agents cannot be logged");
        path
    })
}

/// What does not fit together in a configuration, for people; everything at once.
#[must_use]
pub fn check_catalog(config: &Config) -> Vec<String> {
    let is_known = |name: &str| name == REHEARSAL || ProviderEntry::known(name).is_some();
    let exists =
        |name: &str| is_known(name) || config.providers.keys().any(|own| Provider::new(own).as_str() == name);
    let mut faults: Vec<String> = config
        .providers
        .iter()
        .filter(|(name, provider)| provider.command.is_none() && !is_known(Provider::new(name).as_str()))
        .map(|(name, _)| ProvidersError::NoCommand { name: name.clone() }.to_string())
        .collect();
    let default = Provider::new(&config.default_provider);
    if !exists(default.as_str()) {
        faults.push(format!("`default_provider`: there is no provider {default}"));
    } else if config.providers.get(default.as_str()).is_some_and(|own| own.enabled == Some(false)) {
        faults.push(format!("`default_provider`: {default} is turned off"));
    }
    for (name, server) in &config.mcp_servers {
        for provider in server.providers.iter().filter(|provider| !exists(Provider::new(provider).as_str())) {
            faults.push(format!("`mcp_servers.{name}.providers`: there is no provider {provider}"));
        }
    }
    faults
}

/// Names of the variables that some agent or MCP server of this configuration may be given of whoever starts it.
#[must_use]
pub fn offered_names(config: &Config) -> BTreeSet<String> {
    let known = offered_variables().map(str::to_owned);
    let for_all = config.agents.pass_env.iter().cloned();
    let of_providers = config.providers.values().flat_map(|provider| provider.pass_env.iter().cloned());
    let of_servers = config.mcp_servers.values().flat_map(|server| server.variables());
    known.chain(for_all).chain(of_providers).chain(of_servers.map(str::to_owned)).collect()
}

/// An MCP server of the configuration, if it is turned on.
fn mcp_entry((name, configured): (&String, &McpServerConfig)) -> Option<McpEntry> {
    let McpServerConfig { command, args, env, env_vars, url, transport, .. } = configured;
    let reach = match (command, url) {
        (Some(command), _) => McpReach::Stdio {
            command: command.clone(),
            args: args.clone(),
            env: env.clone(),
            env_vars: env_vars.clone(),
        },
        (None, Some(url)) => McpReach::Url {
            url: url.clone(),
            sse: *transport == McpTransport::Sse,
            headers: configured.http_headers.clone(),
            env_headers: configured.env_http_headers.clone(),
            bearer: configured.bearer_token_env_var.clone(),
        },
        // Not there without a fault of the file, which is told where it is read.
        (None, None) => return None,
    };
    let providers = configured.providers.iter().map(|name| Provider::new(name)).collect();
    configured.enabled.then(|| McpEntry { name: name.clone(), providers, reach })
}

fn entry(
    provider: &Provider,
    known: Option<ProviderEntry>,
    configured: &ProviderConfig,
) -> Result<ProviderEntry, ProvidersError> {
    let name = provider.as_str();
    let mut entry = match (known, &configured.command) {
        (Some(known), _) => known,
        (None, Some(_)) => ProviderEntry::custom(name, name, Vec::new()),
        (None, None) => return Err(ProvidersError::NoCommand { name: name.to_owned() }),
    };
    if let Some(command) = &configured.command {
        entry.set_command(command);
        entry.hint = Some(format!("it is set in config.toml, [providers.{name}]"));
    }
    if let Some(args) = &configured.args {
        entry.set_args(args);
    }
    entry.env.extend(configured.env.iter().map(|(name, value)| (name.clone(), value.clone())));
    entry.allow_env.extend(configured.pass_env.iter().cloned());
    if let Some(title) = &configured.title {
        entry.title.clone_from(title);
    }
    entry.disabled = configured.enabled == Some(false);
    entry.may_download = configured.download;
    entry.log_traffic = configured.log_traffic;
    if let Some(mediated) = configured.mediated {
        entry.mediated = mediated;
    }
    if let Some(hint) = &configured.login_hint {
        entry.login_hint = Some(hint.clone());
    }
    if let Some(cwd) = &configured.cwd {
        entry.cwd = Some(cwd.clone());
    }
    if let Some(mode) = &configured.ask_mode {
        entry.ask_modes = vec![mode.clone()];
        entry.edit_modes.clear();
    }
    if let Some(mode) = &configured.edit_mode {
        entry.edit_modes = vec![mode.clone()];
    }
    if let Some(mode) = &configured.yolo_mode {
        entry.yolo_modes = vec![mode.clone()];
    }
    if let Some(reads) = configured.reads_rules {
        entry.reads_rules = if reads { vec![RULES.to_owned()] } else { Vec::new() };
    }
    if let Some(protocol) = configured.protocol {
        entry.protocol = protocol;
    }
    Ok(entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configured(toml: &str) -> (Home, Result<Catalog, ProvidersError>, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::locate(Some(folder.path().join("home")), &|_| None).unwrap();
        let config = Config::parse(toml, "config.toml").unwrap();
        let catalog = catalog(&home, &config, vec!["/bin/true".into(), "rehearsal".into()], BTreeMap::new());
        (home, catalog, folder)
    }

    #[test]
    fn the_built_in_one_is_there_without_a_configuration() {
        let (home, catalog, _folder) = configured("");
        let catalog = catalog.unwrap();
        assert_eq!(catalog.default_provider().as_str(), "rehearsal");
        let entry = catalog.entry(&Provider::new("rehearsal")).unwrap();
        assert_eq!(entry.commands, [["/bin/true", "rehearsal"]]);
        assert_eq!(entry.env[REHEARSAL_STATE], home.folder().join("agents/rehearsal").display().to_string());
        assert!(catalog.entry(&Provider::new("opencode")).is_ok());
    }

    #[test]
    fn a_custom_one_is_started_as_configured() {
        let (_, catalog, _folder) = configured(
            "default_provider = \"mine\"\n[providers.mine]\ncommand = \"my-agent\"\nargs = [\"acp\"]\n\
             env = { KEY = \"v\" }\ncwd = \"/srv\"\nask_mode = \"default\"\nyolo_mode = \"bypass\"\nprotocol = 2\n",
        );
        let catalog = catalog.unwrap();
        assert_eq!(catalog.default_provider().as_str(), "mine");
        let entry = catalog.entry(&Provider::new("mine")).unwrap();
        assert_eq!(entry.commands, [["my-agent", "acp"]]);
        assert_eq!(entry.env["KEY"], "v");
        assert_eq!(entry.cwd.as_deref(), Some(std::path::Path::new("/srv")));
        assert_eq!(
            (entry.ask_modes.as_slice(), entry.yolo_modes.as_slice()),
            (&["default".to_owned()][..], &["bypass".to_owned()][..])
        );
        assert_eq!(entry.protocol, 2);
        assert!(entry.reads_rules.is_empty());
    }

    #[test]
    fn a_mode_that_is_named_holds_for_edits_too_unless_they_have_their_own() {
        let (_, catalog, _folder) = configured("[providers.codex]\nask_mode = \"careful\"\n");
        let entry = catalog.unwrap().entry(&Provider::new("codex")).unwrap().clone();
        assert_eq!((entry.ask_modes, entry.edit_modes), (vec!["careful".to_owned()], vec![]));
        let (_, catalog, _folder) = configured("[providers.codex]\nedit_mode = \"quick\"\n");
        let entry = catalog.unwrap().entry(&Provider::new("codex")).unwrap().clone();
        assert_eq!(
            (entry.ask_modes, entry.edit_modes),
            (vec!["read-only".to_owned()], vec!["quick".to_owned()])
        );
    }

    #[test]
    fn everything_a_provider_has_can_be_set() {
        let (_, catalog, _folder) = configured(
            "[agents]\ndownloads = true\npass_env = [\"SSH_AUTH_SOCK\"]\n[providers.kimi]\ntitle = \"Mine\"\n\
             enabled = false\nmediated = false\ndownload = false\npass_env = [\"KIMI_LOG\"]\nlogin_hint = \"ask Jo\"\n",
        );
        let catalog = catalog.unwrap();
        let entry = catalog.entry(&Provider::new("kimi")).unwrap();
        assert!(entry.disabled && !entry.mediated && entry.may_download == Some(false));
        assert_eq!((entry.title.as_str(), entry.login_hint.as_deref()), ("Mine", Some("ask Jo")));
        assert!(entry.allow_env.iter().any(|name| name == "KIMI_LOG"));
        assert!(catalog.for_all().downloads);
        assert_eq!(catalog.for_all().pass_env, ["SSH_AUTH_SOCK"]);
    }

    #[test]
    fn what_does_not_fit_together_is_found_at_once() {
        let toml = "default_provider = 'nobody'\n[providers.mine]\nargs = []\n[mcp_servers.m]\ncommand = 'x'\n\
                    providers = ['kimi', 'who']\n";
        assert_eq!(
            check_catalog(&Config::parse(toml, "config.toml").unwrap()),
            [
                "[providers.mine] in config.toml needs a `command`: signalbox knows no agent of this name",
                "`default_provider`: there is no provider nobody",
                "`mcp_servers.m.providers`: there is no provider who",
            ]
        );
        assert!(check_catalog(&Config::default()).is_empty());
    }

    #[test]
    fn what_a_configuration_passes_on_is_offered() {
        let toml = "agents.pass_env = ['A']\nproviders.kimi.pass_env = ['B']\n[mcp_servers.m]\nurl = 'http://h'\n\
                    bearer_token_env_var = 'C'\n";
        let names = offered_names(&Config::parse(toml, "config.toml").unwrap());
        for name in ["A", "B", "C", "PATH", "HTTPS_PROXY", "ANTHROPIC_API_KEY"] {
            assert!(names.contains(name), "{name}");
        }
        assert!(!names.contains("SSH_AUTH_SOCK"));
    }

    #[test]
    fn mcp_servers_that_are_turned_off_are_not_there() {
        let toml = "[mcp_servers.a]\ncommand = 'x'\n[mcp_servers.b]\nurl = 'http://h'\nenabled = false\n";
        let catalog = configured(toml).1.unwrap();
        let names: Vec<_> = catalog.for_all().mcp_servers.iter().map(|entry| entry.name.as_str()).collect();
        assert_eq!(names, ["a"]);
    }

    #[test]
    fn traffic_is_logged_where_it_is_configured() {
        let session = signalbox_facts::SessionId::generate();
        let logs =
            |toml: &str, name: &str| configured(toml).1.unwrap().traffic_log(&Provider::new(name), session);
        assert_eq!(logs("", "grok"), None);
        let all = "[agents]\nlog_traffic = true\n[providers.grok]\nlog_traffic = false\n";
        assert_eq!(logs(all, "grok"), None);
        let file = logs(all, "codex").unwrap();
        assert!(file.ends_with(format!("logs/agents/{session}.jsonl")), "{}", file.display());
        let one = "[providers.grok]\nlog_traffic = true\n";
        assert_eq!((logs(one, "codex"), logs(one, "grok").is_some()), (None, true));
    }

    #[test]
    fn a_folder_of_logs_that_cannot_be_used_keeps_no_server_from_starting() {
        let (home, _, _folder) = configured("");
        std::fs::remove_dir(home.folder().join("logs/agents")).unwrap();
        std::fs::write(home.folder().join("logs/agents"), "a file").unwrap();
        let config = Config::parse("agents.log_traffic = true", "config.toml").unwrap();
        let catalog = catalog(&home, &config, vec!["rehearsal".to_owned()], BTreeMap::new()).unwrap();
        let session = signalbox_facts::SessionId::generate();
        assert!(catalog.traffic_log(&Provider::new("codex"), session).is_some());
    }

    #[test]
    fn whether_an_agent_reads_rules_itself_can_be_said() {
        let (_, catalog, _folder) =
            configured("[providers.codex]\nreads_rules = false\n[providers.grok]\nreads_rules = true\n");
        let catalog = catalog.unwrap();
        let rules = |name: &str| catalog.entry(&Provider::new(name)).unwrap().reads_rules.clone();
        assert!(rules("codex").is_empty());
        assert_eq!((rules("grok"), rules("rehearsal")), (vec![RULES.to_owned()], vec![RULES.to_owned()]));
        assert_eq!(rules("gemini"), ["GEMINI.md"]);
    }

    #[test]
    fn a_known_one_keeps_what_is_not_configured() {
        let (_, catalog, _folder) = configured("[providers.open_code]\nargs = [\"acp\", \"--verbose\"]\n");
        let catalog = catalog.unwrap();
        let known = ProviderEntry::known("opencode").unwrap();
        let entry = catalog.entry(&Provider::new("opencode")).unwrap();
        assert_eq!(entry.title, known.title);
        assert_eq!(entry.commands[0], [known.commands[0][0].as_str(), "acp", "--verbose"]);
        let built_in = configured("[providers.rehearsal]\nenv = { SIGNALBOX_REHEARSAL_START = \"hang\" }\n");
        let built_in = built_in.1.unwrap();
        let entry = built_in.entry(&Provider::new("rehearsal")).unwrap();
        assert_eq!(entry.commands, [["/bin/true", "rehearsal"]]);
        assert!(entry.env.contains_key(REHEARSAL_STATE) && entry.env["SIGNALBOX_REHEARSAL_START"] == "hang");
    }

    #[test]
    fn a_custom_one_without_a_command_is_refused() {
        let (_, catalog, _folder) = configured("[providers.mine]\nargs = [\"acp\"]\n");
        assert!(
            catalog.unwrap_err().to_string().contains("[providers.mine] in config.toml needs a `command`")
        );
    }
}
