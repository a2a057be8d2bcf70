//! The keys: which there are, what they take, where their values go. One table for file and `-c`.

use std::path::PathBuf;
use std::time::Duration;

use toml::Value;

use super::{Config, ProviderConfig};

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

/// A key, its `*` standing for a provider's name.
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
        let command = text(value)?;
        if command.trim().is_empty() {
            return Err(Wrong::Value("a program must be named".to_owned()));
        }
        provider(config, name)?.command = Some(command);
        Ok(())
    }),
    key(&["providers", "*", "args"], |config, name, value| {
        provider(config, name)?.args = Some(texts(value)?);
        Ok(())
    }),
    key(&["providers", "*", "env"], |config, name, value| {
        let expected = "a table of strings, such as { KEY = \"value\" }";
        let Value::Table(table) = value else { return Err(Wrong::Type { expected }) };
        let provider = provider(config, name)?;
        for (variable, value) in table {
            let Value::String(value) = value else { return Err(Wrong::Type { expected }) };
            if variable.is_empty() || variable.contains(['=', '\0']) || value.contains('\0') {
                return Err(Wrong::Value(format!("{variable:?} cannot be an environment variable")));
            }
            provider.env.insert(variable, value);
        }
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
        let Value::Boolean(reads) = value else { return Err(Wrong::Type { expected: "true or false" }) };
        provider(config, name)?.reads_rules = Some(reads);
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
