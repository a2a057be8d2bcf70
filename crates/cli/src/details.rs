//! What stands beside the message of a failure: what the agent wrote before it, and what would help.

use serde_json::{Map, Value};

/// Lines shown of what an agent wrote.
const LINES: usize = 12;

/// The message with what the agent wrote and what would help, each on lines of their own.
pub(crate) fn with_details(message: &str, data: &Map<String, Value>) -> String {
    let word = |key: &str| data.get(key).and_then(Value::as_str);
    detailed(message, word("stderrTail"), word("stdoutTail"), word("hint"))
}

/// The same from its parts.
pub(crate) fn detailed(
    message: &str,
    stderr: Option<&str>,
    stdout: Option<&str>,
    hint: Option<&str>,
) -> String {
    let mut text = message.to_owned();
    for line in [stderr, stdout].into_iter().flatten().flat_map(last_lines) {
        text.push_str("\n  │ ");
        text.push_str(&line);
    }
    if let Some(hint) = hint {
        text.push_str(&format!("\n  {hint}"));
    }
    text
}

/// The last lines that say something, without what steers a terminal.
pub(crate) fn last_lines(text: &str) -> Vec<String> {
    let text = crate::run::clean::clean(text);
    let lines: Vec<_> = text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect();
    let from = lines.len().saturating_sub(LINES);
    lines.into_iter().skip(from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_agent_wrote_stands_between_the_message_and_the_hint() {
        let data = serde_json::json!({ "hint": "mend it", "stderrTail": "no \u{1b}[31mkey\n\n", "stdoutTail": "usage" });
        let said = with_details("It ended.", data.as_object().unwrap());
        assert_eq!(said, "It ended.\n  │ no key\n  │ usage\n  mend it");
        assert_eq!(with_details("No.", &Map::new()), "No.");
        let many: String = (0..20).map(|n| format!("{n}\n")).collect();
        assert_eq!(last_lines(&many).first().unwrap(), "8");
    }
}
