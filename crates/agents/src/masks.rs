//! What is hidden in failures, warnings and traffic logs: values of the agent's environment, what MCP servers are given,
//! bearer tokens, and in a traffic log whatever stands under a key that names a secret.

use serde_json::Value;

use crate::decode::ELLIPSIS;
use crate::event::{AgentEvent, AgentFailure, RefusedSetting};
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

/// The secrets of one agent.
#[derive(Default)]
pub(crate) struct Masks {
    /// Longest first: one may be part of another.
    values: Vec<String>,
}

impl Masks {
    /// `open`: the session that it has, which MCP servers come with.
    pub(crate) fn of(spec: &LaunchSpec, open: Option<&OpenSession>) -> Self {
        let variables = spec.env.0.iter().filter(|(name, _)| !OPEN.contains(&name.as_str()));
        let mut masks = Self::hiding(variables.map(|(_, value)| value.as_str()));
        if let Some(open) = open {
            masks.add_servers(open);
        }
        masks
    }

    /// Also hides what the MCP servers of a session are given.
    pub(crate) fn add_servers(&mut self, open: &OpenSession) {
        for server in &open.mcp_servers {
            let (McpTransport::Stdio { env: table, .. }
            | McpTransport::Http { headers: table, .. }
            | McpTransport::Sse { headers: table, .. }) = &server.transport;
            for value in table.values() {
                self.add(value);
                // After the scheme of an `Authorization` header.
                if let Some((_, token)) = value.split_once(' ') {
                    self.add(token);
                }
            }
        }
        self.order();
    }

    fn hiding<'a>(values: impl Iterator<Item = &'a str>) -> Self {
        let mut masks = Self::default();
        for value in values {
            masks.add(value);
        }
        masks.order();
        masks
    }

    /// A value as it is, its lines one by one, and each as it stands in JSON.
    fn add(&mut self, value: &str) {
        for form in std::iter::once(value).chain(value.lines().map(str::trim)) {
            if form.len() < MIN_BYTES {
                continue;
            }
            let quoted = Value::from(form).to_string();
            let escaped = quoted.get(1..quoted.len() - 1).unwrap_or_default();
            if escaped != form {
                self.values.push(escaped.to_owned());
            }
            self.values.push(form.to_owned());
        }
    }

    fn order(&mut self) {
        self.values.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        self.values.dedup();
    }

    /// Hides the secrets of what an event says about a failure. What the agent tells its user is left as it is.
    pub(crate) fn event(&self, event: &mut AgentEvent) {
        match event {
            AgentEvent::StartFailed(failure)
            | AgentEvent::Exited(failure)
            | AgentEvent::PromptEnded(Err(failure))
            | AgentEvent::Listed { result: Err(failure), .. }
            | AgentEvent::SessionDeleted { result: Err(failure), .. } => self.failure(failure),
            AgentEvent::OptionSet { result: Err(refused), .. }
            | AgentEvent::Forked { result: Err(refused), .. } => {
                if let RefusedSetting::NotOffered(text) | RefusedSetting::Refused(text) = refused {
                    *text = self.head(text);
                }
            }
            AgentEvent::Warning { message: text, .. } | AgentEvent::Said(text) => *text = self.head(text),
            AgentEvent::Introduced(info) | AgentEvent::Met(info) | AgentEvent::Ready(info) => {
                info.name = self.head(&info.name);
                info.version = info.version.take().map(|version| self.head(&version));
            }
            _ => {}
        }
    }

    fn failure(&self, failure: &mut AgentFailure) {
        failure.message = self.head(&failure.message);
        for text in [&mut failure.stderr_tail, &mut failure.stdout_tail] {
            *text = self.tail(text);
        }
        for text in [&mut failure.command, &mut failure.hint].into_iter().flatten() {
            *text = self.head(text);
        }
        for method in &mut failure.methods {
            method.name = self.head(&method.name);
            method.description = method.description.take().map(|text| self.head(&text));
            for word in method.command.iter_mut().flatten() {
                *word = self.head(word);
            }
        }
    }

    /// A text that may have been cut, which an ellipsis tells: without its secrets and without what is left of one.
    fn head(&self, text: &str) -> String {
        let mut text = self.text(text);
        let Some(ends) = text.strip_suffix(ELLIPSIS).map(str::len) else { return text };
        for value in &self.values {
            let begins = value.char_indices().filter_map(|(at, _)| value.get(..at));
            let begin = begins.rev().take_while(|begin| begin.len() >= MIN_BYTES);
            if let Some(begin) = begin.into_iter().find(|begin| text[..ends].ends_with(begin)) {
                text.replace_range(ends - begin.len()..ends, MASK);
                break;
            }
        }
        text
    }

    /// The end of a text, without its secrets and without the end of one that it may begin with.
    fn tail(&self, text: &str) -> String {
        let mut text = self.text(text);
        for value in &self.values {
            let ends = value.char_indices().filter_map(|(at, _)| value.get(at..));
            let mut ends = ends.take_while(|end| end.len() >= MIN_BYTES);
            if let Some(end) = ends.find(|end| text.starts_with(end)) {
                text.replace_range(..end.len(), MASK);
                break;
            }
        }
        text
    }

    /// A message without its secrets.
    pub(crate) fn message(&self, value: Value) -> Value {
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
    pub(crate) fn text(&self, text: &str) -> String {
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

/// Says how many, and not which.
impl std::fmt::Debug for Masks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Masks({})", self.values.len())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secrets_are_hidden_wherever_they_stand() {
        let masks = Masks::hiding(["sk-12345678", "sk-12345678-long", "warn"].into_iter());
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
    #[test]
    fn a_secret_is_known_by_its_lines_and_as_json() {
        let masks = Masks::hiding(["-----BEGIN\nQUJDREVGR0g\nshort", "quo\"te\\slash"].into_iter());
        for (text, clean) in [
            ("key:\nQUJDREVGR0g\n", "key:\n[masked]\n"),
            (r"a -----BEGIN\nQUJDREVGR0g\nshort b", "a [masked] b"),
            (r#"{"a":"quo\"te\\slash"}"#, r#"{"a":"[masked]"}"#),
            (r#"quo"te\slash"#, "[masked]"),
            ("short", "short"),
        ] {
            assert_eq!(masks.text(text), clean, "{text}");
        }
    }

    #[test]
    fn what_a_cut_leaves_of_a_secret_is_hidden() {
        let masks = Masks::hiding(["abcdefghijklmnop"].into_iter());
        for (text, clean) in [
            ("is abcdefghijk\u{2026}", "is [masked]\u{2026}"),
            ("is abcdefg\u{2026}", "is abcdefg\u{2026}"),
            ("is abcdefghijk", "is abcdefghijk"),
        ] {
            assert_eq!(masks.head(text), clean, "{text}");
        }
        assert_eq!(masks.tail("defghijklmnop is it"), "[masked] is it");
        assert_eq!(masks.tail("it is defghijklmnop"), "it is defghijklmnop");
    }
}
