//! `signalbox config`: where the configuration lies, what is wrong with it, and what holds.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use serde_json::{Map, Value, json};
use signalbox_home::{Config, ConfigError, Home, McpServerConfig, McpTransport};
use signalbox_server::{Catalog, ProviderEntry, ProviderStatus, catalog, check_catalog};

use crate::EXIT_USAGE;
use crate::args::{ConfigArgs, ConfigCommand, Global};
use crate::setup::{self, complain, told};

/// What stands for a value that is secret.
const MASK: &str = "***";

/// Runs the subcommand.
pub(crate) fn main(global: &Global, args: &ConfigArgs) -> ExitCode {
    let home = match Home::locate(global.home.clone(), &|name| std::env::var_os(name)) {
        Ok(home) => home,
        Err(error) => {
            complain(&told(&error));
            return ExitCode::from(EXIT_USAGE);
        }
    };
    match args.command {
        ConfigCommand::Path => say(&format!("{}\n", home.config_file().display()), ExitCode::SUCCESS),
        ConfigCommand::Check { json } => check(global, &home, json),
        ConfigCommand::Show { json } => show(global, &home, json),
    }
}

fn say(text: &str, code: ExitCode) -> ExitCode {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            complain(&told(&error));
            ExitCode::FAILURE
        }
        _ => code,
    }
}

/// What is wrong with a configuration, and what may be.
#[derive(Debug, Default)]
struct Findings {
    errors: Vec<String>,
    warnings: Vec<String>,
}

fn check(global: &Global, home: &Home, json: bool) -> ExitCode {
    let file = home.config_file();
    let (config, mut findings) = examine(&file);
    if let Some(mut config) = config {
        match config.apply_overrides(&global.config) {
            Ok(overridden) => findings.warnings.extend(overridden.warnings),
            Err(error) => findings.errors.push(told(&error)),
        }
        look_closer(home, &config, &mut findings);
    }
    let Findings { errors, warnings } = findings;
    let code = if errors.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    if json {
        let report = json!({ "file": file, "ok": errors.is_empty(), "errors": errors, "warnings": warnings });
        return say(&format!("{report:#}\n"), code);
    }
    let mut text = String::new();
    for (mark, lines) in [("error", &errors), ("warning", &warnings)] {
        for line in lines {
            writeln!(text, "{mark}: {line}").ok();
        }
    }
    let verdict = match (errors.len(), file.exists()) {
        (0, true) => format!(
            "{} is good. A server that runs reads it when it starts again: signalbox stop",
            file.display()
        ),
        (0, false) => format!("{} does not exist; the defaults hold", file.display()),
        (1, _) => "1 error".to_owned(),
        (many, _) => format!("{many} errors"),
    };
    writeln!(text, "{verdict}").ok();
    say(&text, code)
}

/// Reads the file, with everything that is wrong with it; nothing of it if it makes no sense at all.
fn examine(file: &Path) -> (Option<Config>, Findings) {
    let mut findings = Findings::default();
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return (Some(Config::default()), findings),
        Err(error) => {
            findings.errors.push(format!("cannot read {}: {error}", file.display()));
            return (None, findings);
        }
    };
    match Config::examine(&text, &file.display().to_string()) {
        Ok((config, faults)) => {
            findings.errors.extend(faults.iter().map(ToString::to_string));
            // A file that others may write is refused when a server starts.
            if let Err(error @ ConfigError::File { .. }) = Config::load(file) {
                findings.errors.push(told(&error));
            }
            (Some(config), findings)
        }
        Err(error) => {
            findings.errors.push(error.to_string());
            (None, findings)
        }
    }
}

/// What can be said of a configuration whose keys are right, with the programs of this machine.
fn look_closer(home: &Home, config: &Config, findings: &mut Findings) {
    findings.errors.extend(check_catalog(config));
    let Some((catalog, offered)) = catalog_of(home, config, findings) else { return };
    let named = |status: &&ProviderStatus| {
        config.providers.contains_key(status.provider.as_str())
            || status.provider == *catalog.default_provider()
    };
    for status in catalog.list(&offered).iter().filter(named).filter(|status| !status.disabled) {
        if let Some(reason) = &status.reason {
            let hint = status.hint.as_deref().map(|hint| format!("; {hint}")).unwrap_or_default();
            findings.warnings.push(format!("provider {}: {reason}{hint}", status.provider));
        }
    }
    for (server, warning) in catalog.mcp_trouble(&offered) {
        findings.warnings.push(format!("mcp_servers.{server}: {warning}"));
    }
}

fn catalog_of(
    home: &Home,
    config: &Config,
    findings: &mut Findings,
) -> Option<(Catalog, BTreeMap<String, String>)> {
    let offered = setup::environment();
    let made = setup::rehearsal().map_err(|error| told(&error)).and_then(|rehearsal| {
        catalog(home, config, rehearsal, offered.clone()).map_err(|error| told(&error))
    });
    match made {
        Ok(catalog) => Some((catalog, offered)),
        Err(error) => {
            // Told already where it is a provider without a command.
            if findings.errors.is_empty() {
                findings.errors.push(error);
            }
            None
        }
    }
}

fn show(global: &Global, home: &Home, json: bool) -> ExitCode {
    let shown = (|| {
        let mut config = Config::load(&home.config_file()).map_err(|error| told(&error))?;
        config.apply_overrides(&global.config).map_err(|error| told(&error))?;
        let rehearsal = setup::rehearsal().map_err(|error| told(&error))?;
        let catalog =
            catalog(home, &config, rehearsal, setup::environment()).map_err(|error| told(&error))?;
        Ok::<_, String>(effective(&config, &catalog))
    })();
    match shown {
        Ok(value) if json => say(&format!("{value:#}\n"), ExitCode::SUCCESS),
        Ok(value) => match toml::to_string(&value) {
            Ok(text) => {
                let head = format!(
                    "# What holds, {} included. Secret values are masked.\n",
                    home.config_file().display()
                );
                say(&format!("{head}{text}"), ExitCode::SUCCESS)
            }
            Err(error) => {
                complain(&told(&error));
                ExitCode::FAILURE
            }
        },
        Err(error) => {
            complain(&error);
            ExitCode::FAILURE
        }
    }
}

/// Everything that holds, in the words of `config.toml`.
fn effective(config: &Config, catalog: &Catalog) -> Value {
    let limits = &config.limits;
    let providers: Map<String, Value> = catalog
        .entries()
        .iter()
        .map(|entry| (entry.provider.to_string(), provider(entry, catalog)))
        .collect();
    let servers: Map<String, Value> =
        config.mcp_servers.iter().map(|(name, server)| (name.clone(), mcp_server(server))).collect();
    without_nulls(json!({
        "default_provider": config.default_provider,
        "agents": {
            "downloads": config.agents.downloads,
            "pass_env": config.agents.pass_env,
            "log_traffic": config.agents.log_traffic,
        },
        "providers": providers,
        "mcp_servers": servers,
        "skills": { "roots": config.skills.roots },
        "rules": { "files": config.rules.files },
        "limits": {
            "frame_bytes": limits.frame_bytes,
            "outbox_bytes": limits.outbox_bytes,
            "agent_line_bytes": limits.agent_line_bytes,
            "initialize_seconds": limits.initialize.as_secs(),
            "download_seconds": limits.download.as_secs(),
            "session_seconds": limits.session.as_secs(),
            "cancel_seconds": limits.cancel.as_secs(),
            "stall_seconds": limits.stall.as_secs(),
            "stop_seconds": limits.stop.as_secs(),
            "idle_agent_seconds": limits.idle_agent.as_secs(),
            "idle_thread_seconds": limits.idle_thread.as_secs(),
        },
        "server": {
            "idle_exit_seconds": config.server.idle_exit.as_secs(),
            "unattended": config.server.unattended.to_string(),
        },
    }))
}

fn provider(entry: &ProviderEntry, catalog: &Catalog) -> Value {
    let mut line = entry.commands.first().cloned().unwrap_or_default().into_iter();
    json!({
        "title": entry.title,
        "enabled": !entry.disabled,
        "command": line.next(),
        "args": line.collect::<Vec<_>>(),
        "env": masked(&entry.env),
        "pass_env": entry.allow_env,
        "cwd": entry.cwd,
        "ask_mode": entry.ask_modes.first(),
        "edit_mode": entry.edit_modes.first(),
        "yolo_mode": entry.yolo_modes.first(),
        "mediated": entry.mediated,
        "protocol": entry.protocol,
        "reads_rules": !entry.reads_rules.is_empty(),
        "download": entry.download.as_ref().map(|_| entry.may_download.unwrap_or(catalog.for_all().downloads)),
        "login_hint": entry.login_hint,
        "log_traffic": entry.log_traffic.unwrap_or(catalog.for_all().log_traffic),
    })
}

fn mcp_server(server: &McpServerConfig) -> Value {
    let over_url = server.url.is_some();
    json!({
        "enabled": server.enabled,
        "providers": (!server.providers.is_empty()).then_some(&server.providers),
        "command": server.command,
        "args": (!over_url).then_some(&server.args),
        "env": (!over_url).then(|| masked(&server.env)),
        "env_vars": (!over_url).then_some(&server.env_vars),
        "url": server.url.as_deref().map(masked_url),
        "transport": over_url.then_some(match server.transport {
            McpTransport::Http => "http",
            McpTransport::Sse => "sse",
        }),
        "http_headers": over_url.then(|| masked(&server.http_headers)),
        "env_http_headers": over_url.then_some(&server.env_http_headers),
        "bearer_token_env_var": server.bearer_token_env_var,
    })
}

/// A URL without what may be a secret in it: user and password, and the query.
fn masked_url(url: &str) -> String {
    let (place, query) = url.split_once('?').map_or((url, ""), |(place, _)| (place, "?"));
    let (scheme, rest) = place.split_once("://").unwrap_or(("http", place));
    let (host, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    let host = host.rsplit_once('@').map_or(host.to_owned(), |(_, host)| format!("{MASK}@{host}"));
    format!("{scheme}://{host}{path}{query}{}", if query.is_empty() { "" } else { MASK })
}

/// Names with what stands for their values.
fn masked(values: &BTreeMap<String, String>) -> BTreeMap<&String, &'static str> {
    values.keys().map(|name| (name, MASK)).collect()
}

/// TOML has no word for what is absent.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(name, value)| (name, without_nulls(value))).collect())
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_shown_without_secrets() {
        assert_eq!(masked_url("https://h:1/mcp?key=secret"), "https://h:1/mcp?***");
        assert_eq!(masked_url("https://user:secret@h/mcp"), "https://***@h/mcp");
        assert_eq!(masked_url("http://h"), "http://h");
    }
}
