//! Reading: from `config.toml`, where an unknown key is an error, and from `-c key=value`, where it is a warning.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};
use toml::{Spanned, Table, Value};

use super::Config;
use super::keys::{self, Place, Wrong};

/// The configuration cannot be used. Every message says where: file and line, or the `-c` argument.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is not TOML.
    #[error("{at} is not TOML: {message}")]
    Syntax {
        /// File and line.
        at: String,
        /// What the parser says.
        message: String,
    },
    /// A key does not exist.
    #[error("{at}: unknown key `{key}`{}", hint(key, near.as_deref()))]
    UnknownKey {
        /// File and line.
        at: String,
        /// The key, dotted.
        key: String,
        /// The nearest key that exists.
        near: Option<String>,
    },
    /// A value has the wrong type.
    #[error("{at}: `{key}` must be {expected}, not {found}")]
    WrongType {
        /// File and line, or the argument.
        at: String,
        /// The key, dotted.
        key: String,
        /// What it takes.
        expected: &'static str,
        /// What is there.
        found: &'static str,
    },
    /// A value of the right type makes no sense.
    #[error("{at}: `{key}`: {reason}")]
    WrongValue {
        /// File and line, or the argument.
        at: String,
        /// The key, dotted.
        key: String,
        /// Why.
        reason: String,
    },
    /// Keys of one table that do not fit together.
    #[error("{at}: `{key}` {reason}")]
    Unfit {
        /// File and line.
        at: String,
        /// The table, dotted.
        key: String,
        /// Why.
        reason: &'static str,
    },
    /// A `-c` argument without `=` or without a key.
    #[error("-c {argument}: must be KEY=VALUE")]
    Argument {
        /// The argument.
        argument: String,
    },
}

impl ConfigError {
    /// Whether it is about a key of this table.
    fn is_below(&self, path: &[String]) -> bool {
        let table = format!("{}.", path.join("."));
        match self {
            Self::UnknownKey { key, .. } | Self::WrongType { key, .. } | Self::WrongValue { key, .. } => {
                key.starts_with(&table)
            }
            _ => false,
        }
    }
}

fn hint(key: &str, near: Option<&str>) -> String {
    match near {
        // The very word, but below a table that it does not belong to.
        Some(near) if key.rsplit_once('.').is_some_and(|(_, last)| last == near) => {
            format!("; `{near}` belongs before the first [table]")
        }
        Some(near) => format!("; did you mean `{near}`?"),
        None => String::new(),
    }
}

/// What became of the `-c` arguments.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Overridden {
    /// For people: arguments whose key is not ours. Other clients pass keys of their own.
    pub warnings: Vec<String>,
}

impl Config {
    /// Reads the file; without one, the defaults.
    ///
    /// # Errors
    /// If it cannot be read, is not TOML, has an unknown key, or a value that cannot be.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        match fs::read_to_string(path) {
            Ok(_) if fs::metadata(path).is_ok_and(|meta| meta.mode() & 0o022 != 0) => {
                let why = format!("other users can write it: chmod 600 {}", path.display());
                let source = io::Error::new(io::ErrorKind::PermissionDenied, why);
                Err(ConfigError::File { path: path.to_path_buf(), source })
            }
            Ok(text) => Self::parse(&text, &path.display().to_string()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(source) => Err(ConfigError::File { path: path.to_path_buf(), source }),
        }
    }

    /// Reads the text of a file; `name` is what messages call it.
    ///
    /// # Errors
    /// As [`Config::load`]; the first fault there is.
    pub fn parse(text: &str, name: &str) -> Result<Self, ConfigError> {
        let (config, mut faults) = Self::examine(text, name)?;
        if faults.is_empty() { Ok(config) } else { Err(faults.swap_remove(0)) }
    }

    /// Reads the text of a file as far as it makes sense: what it sets, and everything that is wrong with the rest.
    ///
    /// # Errors
    /// It is not TOML.
    pub fn examine(text: &str, name: &str) -> Result<(Self, Vec<ConfigError>), ConfigError> {
        let syntax = |error: toml::de::Error| {
            let line = error.span().map_or(1, |span| line(text, span.start));
            ConfigError::Syntax { at: format!("{name}:{line}"), message: error.message().to_owned() }
        };
        let table: Table = toml::from_str(text).map_err(syntax)?;
        let spans = DeTable::parse(text).map_err(syntax)?;
        let at =
            |path: &[String]| format!("{name}:{}", line(text, key_start(spans.get_ref(), path).unwrap_or(0)));
        let mut config = Self::default();
        let mut faults = Vec::new();
        walk(&mut config, &mut Vec::new(), table, &at, &mut faults);
        for (name, server) in &config.mcp_servers {
            let path = ["mcp_servers".to_owned(), name.clone()];
            if let Some(fault) = server.fault() {
                let fault = ConfigError::Unfit { at: at(&path), key: path.join("."), reason: fault };
                // A server whose command could not be read does not lack one.
                if !faults.iter().any(|known| known.is_below(&path)) {
                    faults.push(fault);
                }
            }
        }
        Ok((config, faults))
    }

    /// Applies `-c key=value` arguments in order: a dotted key; a TOML value, or else the bare text.
    ///
    /// # Errors
    /// If an argument is no `KEY=VALUE`, or the value of a known key cannot be. Unknown keys are only warnings.
    pub fn apply_overrides(&mut self, arguments: &[String]) -> Result<Overridden, ConfigError> {
        let mut result = Overridden::default();
        for argument in arguments {
            let malformed = || ConfigError::Argument { argument: argument.clone() };
            let (key, raw) = argument.split_once('=').ok_or_else(malformed)?;
            let path = dotted(key.trim()).ok_or_else(malformed)?;
            let raw = raw.trim();
            let at = |path: &[String]| format!("-c {}", path.join("."));
            let value = match keys::place(&path) {
                Place::Key(key, _) if key.text => text_value(raw),
                _ => value(raw),
            };
            let mut faults = Vec::new();
            walk_value(self, &mut path.clone(), value, &at, &mut faults);
            for fault in faults {
                match fault {
                    // A table of ours with a key of somebody else's in it counts as unknown as well.
                    ConfigError::UnknownKey { key, near, .. } => {
                        let hint = hint(&key, near.as_deref());
                        result.warnings.push(format!("-c {key}: unknown key, ignored{hint}"));
                    }
                    other => return Err(other),
                }
            }
        }
        Ok(result)
    }
}

fn walk(
    config: &mut Config,
    path: &mut Vec<String>,
    table: Table,
    at: &dyn Fn(&[String]) -> String,
    faults: &mut Vec<ConfigError>,
) {
    for (name, value) in table {
        path.push(name);
        walk_value(config, path, value, at, faults);
        path.pop();
    }
}

fn walk_value(
    config: &mut Config,
    path: &mut Vec<String>,
    value: Value,
    at: &dyn Fn(&[String]) -> String,
    faults: &mut Vec<ConfigError>,
) {
    let found = found(&value);
    let wrong = match (keys::place(path), value) {
        (Place::Key(key, name), value) => match (key.set)(config, &name, value) {
            Ok(()) => return,
            Err(wrong) => wrong,
        },
        (Place::Table, Value::Table(table)) => match keys::begin(config, path) {
            Ok(()) => return walk(config, path, table, at, faults),
            Err(wrong) => wrong,
        },
        (Place::Table, _) => Wrong::Type { expected: "a table" },
        (Place::Nothing(near), _) => {
            return faults.push(ConfigError::UnknownKey { at: at(path), key: path.join("."), near });
        }
    };
    let (at, key) = (at(path), path.join("."));
    faults.push(match wrong {
        Wrong::Type { expected } => ConfigError::WrongType { at, key, expected, found },
        Wrong::Value(reason) => ConfigError::WrongValue { at, key, reason },
    });
}

fn found(value: &Value) -> &'static str {
    match value {
        Value::String(_) => "a string",
        Value::Integer(_) => "an integer",
        Value::Float(_) => "a number with a fraction",
        Value::Boolean(_) => "true or false",
        Value::Datetime(_) => "a date",
        Value::Array(_) => "an array",
        Value::Table(_) => "a table",
    }
}

/// Where the last key of the path is written.
fn key_start(table: &DeTable<'_>, path: &[String]) -> Option<usize> {
    let (first, rest) = path.split_first()?;
    let (key, value) = table.iter().find(|(key, _)| key.get_ref() == first.as_str())?;
    match value.get_ref() {
        DeValue::Table(inner) if !rest.is_empty() => key_start(inner, rest),
        _ => Some(Spanned::span(key).start),
    }
}

fn line(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count()
}

/// The parts of a dotted key, quoted parts included.
fn dotted(key: &str) -> Option<Vec<String>> {
    let mut table = toml::from_str::<Table>(&format!("{key} = 0")).ok()?;
    let mut path = Vec::new();
    loop {
        let (name, value) = table.into_iter().next()?;
        path.push(name);
        match value {
            Value::Table(inner) => table = inner,
            _ => return Some(path),
        }
    }
}

fn value(raw: &str) -> Value {
    let parsed = toml::from_str::<Table>(&format!("v = {raw}")).ok();
    // More than one key would mean that the text broke out of its line.
    let single = parsed.filter(|table| table.len() == 1).and_then(|mut table| table.remove("v"));
    single.unwrap_or_else(|| Value::String(raw.to_owned()))
}

/// For a key that takes text: quoted text is unquoted, anything else is taken as it is.
fn text_value(raw: &str) -> Value {
    match value(raw) {
        Value::String(text) => Value::String(text),
        _ => Value::String(raw.to_owned()),
    }
}
