//! The keys: which there are, what they take, where their values go. One table for file and `-c`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use toml::Value;

use super::{Config, McpServerConfig, McpTransport, ProviderConfig};

/// Sets one value.
pub(super) type Set = fn(&mut Config, provider: &str, Value) -> Result<(), Wrong>;

/// What is wrong with a value.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Wrong {
    /// Another type is expected.
    Type { expected: &'static str },
    /// The type is right, the value is not.
    Value(String),
}

/// A key, its `*` standing for the name of a provider or of an MCP server.
pub(super) struct Key {
    pub path: &'static [&'static str],
    pub set: Set,
    /// Takes text, so that a bare word of `-c` that looks like a number stays text.
    pub text: bool,
}

const fn key(path: &'static [&'static str], set: Set) -> Key {
    Key { path, set, text: false }
}

const fn text_key(path: &'static [&'static str], set: Set) -> Key {
    Key { path, set, text: true }
}

pub(super) const KEYS: &[Key] = &[
    text_key(&["default_provider"], |config, _, value| {
        let name = text(value)?;
        provider_name(&name)?;
        config.default_provider = name;
        Ok(())
    }),
    text_key(&["providers", "*", "command"], |config, name, value| {
        provider(config, name)?.command = Some(filled(value, "a program")?);
        Ok(())
    }),
    key(&["providers", "*", "args"], |config, name, value| {
        provider(config, name)?.args = Some(texts(value)?);
        Ok(())
    }),
    key(&["providers", "*", "env"], |config, name, value| {
        provider(config, name)?.env.extend(variables(value)?);
        Ok(())
    }),
    key(&["providers", "*", "pass_env"], |config, name, value| {
        provider(config, name)?.pass_env = variable_names(value)?;
        Ok(())
    }),
    text_key(&["providers", "*", "title"], |config, name, value| {
        provider(config, name)?.title = Some(filled(value, "a title")?);
        Ok(())
    }),
    key(&["providers", "*", "enabled"], |config, name, value| {
        provider(config, name)?.enabled = Some(flag(&value)?);
        Ok(())
    }),
    key(&["providers", "*", "mediated"], |config, name, value| {
        provider(config, name)?.mediated = Some(flag(&value)?);
        Ok(())
    }),
    key(&["providers", "*", "log_traffic"], |config, name, value| {
        provider(config, name)?.log_traffic = Some(flag(&value)?);
        Ok(())
    }),
    key(&["providers", "*", "download"], |config, name, value| {
        provider(config, name)?.download = Some(flag(&value)?);
        Ok(())
    }),
    text_key(&["providers", "*", "login_hint"], |config, name, value| {
        provider(config, name)?.login_hint = Some(filled(value, "a hint")?);
        Ok(())
    }),
    text_key(&["providers", "*", "cwd"], |config, name, value| {
        let path = PathBuf::from(text(value)?);
        if !path.is_absolute() {
            return Err(Wrong::Value(format!("{} is not an absolute path", path.display())));
        }
        provider(config, name)?.cwd = Some(path);
        Ok(())
    }),
    text_key(&["providers", "*", "ask_mode"], |config, name, value| {
        provider(config, name)?.ask_mode = Some(text(value)?);
        Ok(())
    }),
    text_key(&["providers", "*", "edit_mode"], |config, name, value| {
        provider(config, name)?.edit_mode = Some(text(value)?);
        Ok(())
    }),
    text_key(&["providers", "*", "yolo_mode"], |config, name, value| {
        provider(config, name)?.yolo_mode = Some(text(value)?);
        Ok(())
    }),
    key(&["providers", "*", "protocol"], |config, name, value| {
        let version = number(value, "an ACP version, 1 or 2", 1, 2)?;
        provider(config, name)?.protocol = u16::try_from(version).ok();
        Ok(())
    }),
    key(&["providers", "*", "reads_rules"], |config, name, value| {
        provider(config, name)?.reads_rules = Some(flag(&value)?);
        Ok(())
    }),
    key(&["agents", "log_traffic"], |config, _, value| {
        config.agents.log_traffic = flag(&value)?;
        Ok(())
    }),
    key(&["agents", "downloads"], |config, _, value| {
        config.agents.downloads = flag(&value)?;
        Ok(())
    }),
    key(&["agents", "pass_env"], |config, _, value| {
        config.agents.pass_env = variable_names(value)?;
        Ok(())
    }),
    key(&["mcp_servers", "*", "enabled"], |config, name, value| {
        mcp_server(config, name)?.enabled = flag(&value)?;
        Ok(())
    }),
    key(&["mcp_servers", "*", "providers"], |config, name, value| {
        let names = texts(value)?;
        names.iter().try_for_each(|name| provider_name(name))?;
        mcp_server(config, name)?.providers = names;
        Ok(())
    }),
    text_key(&["mcp_servers", "*", "command"], |config, name, value| {
        mcp_server(config, name)?.command = Some(filled(value, "a program")?);
        Ok(())
    }),
    key(&["mcp_servers", "*", "args"], |config, name, value| {
        mcp_server(config, name)?.args = texts(value)?;
        Ok(())
    }),
    key(&["mcp_servers", "*", "env"], |config, name, value| {
        mcp_server(config, name)?.env.extend(variables(value)?);
        Ok(())
    }),
    key(&["mcp_servers", "*", "env_vars"], |config, name, value| {
        mcp_server(config, name)?.env_vars = variable_names(value)?;
        Ok(())
    }),
    text_key(&["mcp_servers", "*", "url"], |config, name, value| {
        let url = text(value)?;
        if !(url.starts_with("http://") || url.starts_with("https://")) {
            return Err(Wrong::Value("must begin with http:// or https://".to_owned()));
        }
        mcp_server(config, name)?.url = Some(url);
        Ok(())
    }),
    text_key(&["mcp_servers", "*", "transport"], |config, name, value| {
        mcp_server(config, name)?.transport = match text(value)?.as_str() {
            "http" => McpTransport::Http,
            "sse" => McpTransport::Sse,
            other => return Err(Wrong::Value(format!("{other:?} is neither \"http\" nor \"sse\""))),
        };
        Ok(())
    }),
    key(&["mcp_servers", "*", "http_headers"], |config, name, value| {
        mcp_server(config, name)?.http_headers.extend(headers(value)?);
        Ok(())
    }),
    key(&["mcp_servers", "*", "env_http_headers"], |config, name, value| {
        let headers = headers(value)?;
        headers.values().try_for_each(|variable| variable_name(variable))?;
        mcp_server(config, name)?.env_http_headers.extend(headers);
        Ok(())
    }),
    text_key(&["mcp_servers", "*", "bearer_token_env_var"], |config, name, value| {
        let variable = text(value)?;
        variable_name(&variable)?;
        mcp_server(config, name)?.bearer_token_env_var = Some(variable);
        Ok(())
    }),
    key(&["skills", "roots"], |config, _, value| {
        config.skills.roots = paths(value)?;
        Ok(())
    }),
    key(&["rules", "files"], |config, _, value| {
        config.rules.files = paths(value)?;
        Ok(())
    }),
    key(&["limits", "frame_bytes"], |config, _, value| bytes(value, &mut config.limits.frame_bytes)),
    key(&["limits", "outbox_bytes"], |config, _, value| bytes(value, &mut config.limits.outbox_bytes)),
    key(&["limits", "agent_line_bytes"], |config, _, value| {
        bytes(value, &mut config.limits.agent_line_bytes)
    }),
    key(&["limits", "initialize_seconds"], |config, _, value| {
        seconds(value, 1, &mut config.limits.initialize)
    }),
    key(&["limits", "download_seconds"], |config, _, value| seconds(value, 1, &mut config.limits.download)),
    key(&["limits", "session_seconds"], |config, _, value| seconds(value, 1, &mut config.limits.session)),
    key(&["limits", "cancel_seconds"], |config, _, value| seconds(value, 1, &mut config.limits.cancel)),
    key(&["limits", "stall_seconds"], |config, _, value| seconds(value, 1, &mut config.limits.stall)),
    key(&["limits", "stop_seconds"], |config, _, value| seconds(value, 1, &mut config.limits.stop)),
    key(&["limits", "idle_agent_seconds"], |config, _, value| {
        seconds(value, 1, &mut config.limits.idle_agent)
    }),
    key(&["limits", "idle_thread_seconds"], |config, _, value| {
        seconds(value, 1, &mut config.limits.idle_thread)
    }),
    key(&["server", "idle_exit_seconds"], |config, _, value| seconds(value, 0, &mut config.server.idle_exit)),
    text_key(&["server", "unattended"], |config, _, value| {
        config.server.unattended = text(value)?.parse().map_err(Wrong::Value)?;
        Ok(())
    }),
];

/// What a path leads to.
pub(super) enum Place {
    /// A key, with the provider's name if there is one in the path.
    Key(&'static Key, String),
    /// A table on the way to keys.
    Table,
    /// Nothing; with the nearest that there is, as it would be written in its table.
    Nothing(Option<String>),
}

/// Looks a path up.
pub(super) fn place(path: &[String]) -> Place {
    let fits = |pattern: &[&str], path: &[String]| {
        pattern.iter().zip(path).all(|(part, name)| *part == "*" || part == name)
    };
    for key in KEYS {
        if path.len() == key.path.len() && fits(key.path, path) {
            let name = key.path.iter().zip(path).find(|(part, _)| **part == "*");
            return Place::Key(key, name.map(|(_, name)| name.clone()).unwrap_or_default());
        }
        if path.len() < key.path.len() && fits(&key.path[..path.len()], path) {
            return Place::Table;
        }
    }
    let Some((name, before)) = path.split_last() else { return Place::Table };
    let siblings = KEYS
        .iter()
        .filter(|key| key.path.len() > before.len() && fits(&key.path[..before.len()], before))
        .map(|key| key.path[before.len()])
        .filter(|sibling| *sibling != "*");
    // A key that exists in another table is a likely slip too.
    let elsewhere = KEYS.iter().filter(|key| key.path.last() == Some(&name.as_str()));
    let near = siblings
        .map(|sibling| (distance(name, sibling), sibling))
        .filter(|(distance, sibling)| *distance <= 1 + sibling.len() / 3)
        .min()
        .map(|(_, sibling)| sibling.to_owned());
    Place::Nothing(near.or_else(|| elsewhere.map(|key| key.path.join(".")).next()))
}

/// A table begins, which may have no key at all: a provider or an MCP server exists from here on.
pub(super) fn begin(config: &mut Config, path: &[String]) -> Result<(), Wrong> {
    let [table, name] = path else { return Ok(()) };
    match table.as_str() {
        "providers" => provider(config, name).map(drop),
        "mcp_servers" => mcp_server(config, name).map(drop),
        _ => Ok(()),
    }
}

/// Levenshtein distance.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[other.len()]
}

fn provider<'a>(config: &'a mut Config, name: &str) -> Result<&'a mut ProviderConfig, Wrong> {
    provider_name(name)?;
    Ok(config.providers.entry(name.to_owned()).or_default())
}

fn mcp_server<'a>(config: &'a mut Config, name: &str) -> Result<&'a mut McpServerConfig, Wrong> {
    if name.is_empty() || name.len() > 64 || name.chars().any(char::is_control) {
        return Err(Wrong::Value(format!("{name:?} cannot be an MCP server's name: 1 to 64 bytes of text")));
    }
    Ok(config.mcp_servers.entry(name.to_owned()).or_default())
}

fn flag(value: &Value) -> Result<bool, Wrong> {
    value.as_bool().ok_or(Wrong::Type { expected: "true or false" })
}

/// Text that is more than white space; `what` says what it must name.
fn filled(value: Value, what: &str) -> Result<String, Wrong> {
    let text = text(value)?;
    match text.trim().is_empty() {
        true => Err(Wrong::Value(format!("{what} must be named"))),
        false => Ok(text),
    }
}

fn variable_name(name: &str) -> Result<(), Wrong> {
    match name.is_empty() || name.contains(['=', '\0', ' ']) {
        true => Err(Wrong::Value(format!("{name:?} cannot be an environment variable"))),
        false => Ok(()),
    }
}

fn variable_names(value: Value) -> Result<Vec<String>, Wrong> {
    let names = texts(value).map_err(|_| Wrong::Type { expected: "an array of names of variables" })?;
    names.iter().try_for_each(|name| variable_name(name))?;
    Ok(names)
}

/// Names and texts; what is wrong with one never shows its value, which may be secret.
fn pairs(value: Value, expected: &'static str) -> Result<BTreeMap<String, String>, Wrong> {
    let Value::Table(table) = value else { return Err(Wrong::Type { expected }) };
    let pair = |(name, value)| Ok((name, text(value).map_err(|_| Wrong::Type { expected })?));
    table.into_iter().map(pair).collect()
}

fn variables(value: Value) -> Result<BTreeMap<String, String>, Wrong> {
    let variables = pairs(value, "a table of strings, such as { KEY = \"value\" }")?;
    for (name, value) in &variables {
        variable_name(name)?;
        if value.contains('\0') {
            return Err(Wrong::Value(format!("the value of {name:?} cannot be an environment variable's")));
        }
    }
    Ok(variables)
}

fn headers(value: Value) -> Result<BTreeMap<String, String>, Wrong> {
    let headers = pairs(value, "a table of strings, such as { Header = \"value\" }")?;
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    for (name, value) in &headers {
        if name.is_empty() || !name.chars().all(is_token) {
            return Err(Wrong::Value(format!("{name:?} cannot be a header's name")));
        }
        if value.contains(['\r', '\n', '\0']) {
            return Err(Wrong::Value(format!("the value of {name:?} cannot be a header's")));
        }
    }
    Ok(headers)
}

fn provider_name(name: &str) -> Result<(), Wrong> {
    let letter =
        |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || "_-".contains(letter);
    if !name.is_empty() && name.len() <= 64 && name.chars().all(letter) {
        return Ok(());
    }
    Err(Wrong::Value(format!(
        "{name:?} cannot be a provider's name: 1 to 64 of the letters a-z, digits, '_' and '-'"
    )))
}

fn text(value: Value) -> Result<String, Wrong> {
    match value {
        Value::String(text) => Ok(text),
        _ => Err(Wrong::Type { expected: "a string" }),
    }
}

fn texts(value: Value) -> Result<Vec<String>, Wrong> {
    let expected = "an array of strings";
    let Value::Array(values) = value else { return Err(Wrong::Type { expected }) };
    values.into_iter().map(|value| text(value).map_err(|_| Wrong::Type { expected })).collect()
}

/// Absolute paths; `~/` is not expanded, because nobody but a shell knows whose home is meant.
fn paths(value: Value) -> Result<Vec<PathBuf>, Wrong> {
    let paths = texts(value).map_err(|_| Wrong::Type { expected: "an array of absolute paths" })?;
    let paths = paths.into_iter().map(PathBuf::from);
    let absolute = |path: PathBuf| match path.is_absolute() {
        true => Ok(path),
        false => Err(Wrong::Value(format!("{} is not an absolute path", path.display()))),
    };
    paths.map(absolute).collect()
}

fn number(value: Value, expected: &'static str, least: u64, most: u64) -> Result<u64, Wrong> {
    let Value::Integer(number) = value else { return Err(Wrong::Type { expected }) };
    let fits = u64::try_from(number).ok().filter(|number| (least..=most).contains(number));
    fits.ok_or_else(|| Wrong::Value(format!("{number} is not between {least} and {most}")))
}

fn bytes(value: Value, place: &mut usize) -> Result<(), Wrong> {
    // Less could not carry a snapshot's page, more could not be allocated.
    let number = number(value, "a number of bytes", 1024 * 1024, 1024 * 1024 * 1024)?;
    *place = usize::try_from(number).unwrap_or(usize::MAX);
    Ok(())
}

fn seconds(value: Value, least: u64, place: &mut Duration) -> Result<(), Wrong> {
    *place = Duration::from_secs(number(value, "a whole number of seconds", least, 366 * 24 * 3600)?);
    Ok(())
}
