//! What is hidden in a traffic log: values of the agent's environment, what MCP servers are given, bearer tokens, and
//! whatever stands under a key that names a secret.

use serde_json::Value;

use crate::spec::{LaunchSpec, McpTransport, OpenSession};

/// Stands for what is hidden.
const MASK: &str = "[masked]";
/// Values of variables that are shorter are words such as `warn`, which would be hidden in every sentence.
const MIN_BYTES: usize = 8;
/// Variables that say nothing secret: the fixed base of every agent, and where programs are.
const OPEN: [&str; 12] =
    ["HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "TERM", "TZ", "PATH", "PWD"];
/// A key whose name contains one of these, whatever its case and hyphens, has a secret for its value.
const SECRET: [&str; 10] = [
    "authorization",
    "apikey",
    "accesstoken",
    "refreshtoken",
    "authtoken",
    "secret",
    "password",
    "credential",
    "cookie",
    "bearer",
];
/// Words of the protocol; a variable may happen to have one for its value.
const WORDS: [&str; 3] = ["method", "sessionUpdate", "jsonrpc"];
/// Under these keys are variables and headers, of which only names are shown.
const TABLES: [&str; 3] = ["env", "headers", "http_headers"];

/// The secrets of one session.
#[derive(Debug, Default)]
pub(super) struct Masks {
    /// Longest first: one may be part of another.
    values: Vec<String>,
}

impl Masks {
    pub(super) fn of(spec: &LaunchSpec, open: &OpenSession) -> Self {
        let variables = spec.env.0.iter().filter(|(name, _)| !OPEN.contains(&name.as_str()));
        let mut values: Vec<String> = variables.map(|(_, value)| value.clone()).collect();
        for server in &open.mcp_servers {
            let (McpTransport::Stdio { env: table, .. }
            | McpTransport::Http { headers: table, .. }
            | McpTransport::Sse { headers: table, .. }) = &server.transport;
            values.extend(table.values().cloned());
        }
        Self::hiding(values)
    }

    fn hiding(mut values: Vec<String>) -> Self {
        values.retain(|value| value.len() >= MIN_BYTES);
        values.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        values.dedup();
        Self { values }
    }

    /// A message without its secrets.
    pub(super) fn message(&self, value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(&text)),
            Value::Array(values) => values.into_iter().map(|value| self.message(value)).collect(),
            Value::Object(members) => {
                let members = members.into_iter().map(|(key, value)| {
                    let value = if TABLES.contains(&key.to_ascii_lowercase().as_str()) {
                        all_masked(value)
                    } else if is_secret(&key) && value.is_string() {
                        Value::from(MASK)
                    } else if WORDS.contains(&key.as_str()) && value.is_string() {
                        value
                    } else {
                        self.message(value)
                    };
                    (self.text(&key), value)
                });
                Value::Object(members.collect())
            }
            other => other,
        }
    }

    /// A text without its secrets.
    pub(super) fn text(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for value in &self.values {
            if text.contains(value.as_str()) {
                text = text.replace(value.as_str(), MASK);
            }
        }
        without_bearer(&text)
    }
}

fn is_secret(key: &str) -> bool {
    let plain: String =
        key.chars().filter(char::is_ascii_alphanumeric).map(|letter| letter.to_ascii_lowercase()).collect();
    plain == "token" || SECRET.iter().any(|name| plain.contains(name))
}

/// Variables or headers, as a table or as ACP's list of names and values: only the names stay.
fn all_masked(value: Value) -> Value {
    match value {
        Value::String(_) => Value::from(MASK),
        Value::Array(values) => values.into_iter().map(all_masked).collect(),
        Value::Object(members) => {
            let members = members.into_iter();
            members
                .map(|(key, value)| if key == "name" { (key, value) } else { (key, all_masked(value)) })
                .collect()
        }
        other => other,
    }
}

/// What follows the word `Bearer` is a token, if it is long enough to be one.
fn without_bearer(text: &str) -> String {
    const WORD: &str = "bearer ";
    let lower = text.to_ascii_lowercase();
    let (mut clean, mut from) = (String::with_capacity(text.len()), 0);
    while let Some(at) = lower[from..].find(WORD) {
        let begin = from + at + WORD.len();
        let of_token = |letter: char| letter.is_ascii_alphanumeric() || "-._~+/=".contains(letter);
        let end = text[begin..].find(|letter| !of_token(letter)).map_or(text.len(), |length| begin + length);
        clean.push_str(&text[from..begin]);
        clean.push_str(if end - begin >= MIN_BYTES { MASK } else { &text[begin..end] });
        from = end;
    }
    clean.push_str(&text[from..]);
    clean
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secrets_are_hidden_wherever_they_stand() {
        let masks = Masks::hiding(vec!["sk-12345678".into(), "sk-12345678-long".into(), "warn".into()]);
        let message = json!({
            "text": "use sk-12345678-long, not sk-12345678; warn me",
            "Authorization": "Basic abc", "api_key": "abc", "X-Api-Key": "abc", "clientSecret": "abc", "token": "t",
            "inputTokens": 5, "tokens": "few", "say": "Bearer abcdefgh.ijk and a bearer of news",
            "mcpServers": [{"name": "m", "env": [{"name": "A", "value": "short"}], "headers": {"X": "y"}}],
        });
        assert_eq!(
            masks.message(message),
            json!({
                "text": "use [masked], not [masked]; warn me",
                "Authorization": "[masked]", "api_key": "[masked]", "X-Api-Key": "[masked]",
                "clientSecret": "[masked]", "token": "[masked]",
                "inputTokens": 5, "tokens": "few", "say": "Bearer [masked] and a bearer of news",
                "mcpServers": [{"name": "m", "env": [{"name": "A", "value": "[masked]"}], "headers": {"X": "[masked]"}}],
            })
        );
    }
}
