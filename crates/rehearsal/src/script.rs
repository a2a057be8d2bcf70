//! The directives of a prompt: pure text in, steps out. `docs/rehearsal.md` is the reader's side of this file.

use std::time::Duration;

use serde_json::Value;

/// One thing to do, in the order of the prompt's lines.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    Say(String),
    Think(String),
    Plan(Vec<(Status, String)>),
    Run {
        command: String,
        style: Style,
    },
    Big {
        bytes: u64,
    },
    Parallel(Vec<String>),
    Write {
        path: String,
        text: String,
    },
    Read(String),
    Delete(String),
    Ask {
        question: String,
        options: Vec<String>,
    },
    Stream {
        count: u64,
        bytes: usize,
        delay: Duration,
    },
    Stamp {
        count: u64,
        delay: Duration,
    },
    Usage {
        used: u64,
        size: u64,
    },
    Sleep(Duration),
    Title(String),
    Fail(String),
    Crash(u8),
    Hang {
        polite: bool,
    },
    Garble,
    Late(String),
    NoClose(String),
    SameId,
    Mcp {
        server: String,
        tool: String,
    },
    EchoEnv(String),
    EchoPrompt,
    Stderr(String),
    /// An update exactly as written, for this session or for another one.
    Update {
        session: Option<String>,
        update: Value,
    },
    /// A notification exactly as written.
    Notification {
        method: String,
        params: Value,
    },
    /// Requests exactly as written, all open at once.
    Request {
        method: String,
        params: Vec<Value>,
        wait: Wait,
    },
    /// The rest is not played; the prompt is answered with this stop reason.
    EndWith(String),
    /// A line that begins with a directive's word but does not have its form.
    Misspelt {
        line: String,
        form: &'static str,
    },
}

/// How a command's tool call is announced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// As it should be: kind `execute`, the call before the permission.
    Proper,
    /// Neither the call nor the permission has a kind.
    Unkinded,
    /// The permission comes first; the call is announced only once it is granted.
    PermitFirst,
    /// The permission comes first, and then there are only updates.
    Unannounced,
}

/// When the answer to a request is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// At once; it is said as a message.
    Now,
    /// Never: the script goes on, and the answer is read by nobody.
    Never,
    /// The request is sent when the prompt has been answered; its answer is said as a late message.
    Late,
}

/// How far an entry of a plan is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Todo,
    Doing,
    Done,
}

/// Chunks of `stream` are numbered with eight digits.
const MAX_CHUNKS: u64 = 100_000_000;
const MAX_CHUNK_BYTES: usize = 1024 * 1024;
const MAX_BIG_BYTES: u64 = 1024 * 1024 * 1024;

/// The steps of a prompt, or `None` if no line of it is a directive.
pub(crate) fn parse(prompt: &str) -> Option<Vec<Step>> {
    let mut steps = Vec::new();
    let mut lines = prompt.lines();
    while let Some(line) = lines.next() {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let rest = rest.trim();
        if let ("write", Some((path, end))) = (word, rest.split_once("<<")) {
            let (path, end) = (path.trim(), end.trim());
            if !path.is_empty() && !end.contains(char::is_whitespace) {
                let end = if end.is_empty() { "<<" } else { end };
                let mut text = String::new();
                for line in lines.by_ref().take_while(|line| *line != end) {
                    text.push_str(line);
                    text.push('\n');
                }
                steps.push(Step::Write { path: path.to_owned(), text });
                continue;
            }
        }
        match directive(word, rest) {
            Some(Ok(step)) => steps.push(step),
            Some(Err(form)) => steps.push(Step::Misspelt { line: line.to_owned(), form }),
            None => {}
        }
    }
    steps.iter().any(|step| !matches!(step, Step::Misspelt { .. })).then_some(steps)
}

/// One line: a step, the form it should have had, or nothing if the word is no directive.
fn directive(word: &str, rest: &str) -> Option<Result<Step, &'static str>> {
    let (form, step): (&'static str, Option<Step>) = match word {
        "say" => ("say TEXT", words(rest).map(|text| Step::Say(unescape(&text)))),
        "think" => ("think TEXT", words(rest).map(|text| Step::Think(unescape(&text)))),
        "plan" => ("plan done: A | doing: B | todo: C", plan(rest).map(Step::Plan)),
        "run" => ("run COMMAND", run(rest, Style::Proper)),
        "unkinded" => ("unkinded COMMAND", run(rest, Style::Unkinded)),
        "permit-first" => ("permit-first COMMAND", run(rest, Style::PermitFirst)),
        "unannounced" => ("unannounced COMMAND", run(rest, Style::Unannounced)),
        "big" => {
            let bytes = rest.parse().ok().filter(|bytes| *bytes <= MAX_BIG_BYTES);
            ("big BYTES", bytes.map(|bytes| Step::Big { bytes }))
        }
        "parallel" => {
            let commands: Vec<String> = rest.split("||").filter_map(|part| words(part.trim())).collect();
            ("parallel COMMAND || COMMAND", (commands.len() > 1).then_some(Step::Parallel(commands)))
        }
        "write" => ("write PATH <<END", None),
        "read" => ("read PATH", words(rest).map(Step::Read)),
        "delete" => ("delete PATH", words(rest).map(Step::Delete)),
        "ask" => ("ask QUESTION | OPTION | OPTION", ask(rest)),
        "stream" => ("stream COUNT BYTES DELAY_MS", stream(rest)),
        "stamp" => ("stamp COUNT DELAY_MS", stamp(rest)),
        "usage" => ("usage USED SIZE", usage(rest)),
        "sleep" => ("sleep MS", rest.parse().ok().map(|ms| Step::Sleep(Duration::from_millis(ms)))),
        "title" => ("title TEXT", words(rest).map(Step::Title)),
        "fail" => ("fail TEXT", words(rest).map(Step::Fail)),
        "crash" => {
            let code = if rest.is_empty() { Some(1) } else { rest.parse().ok() };
            ("crash [CODE]", code.map(Step::Crash))
        }
        "hang" => {
            let step = match rest {
                "" => Some(Step::Hang { polite: false }),
                "polite" => Some(Step::Hang { polite: true }),
                _ => None,
            };
            ("hang [polite]", step)
        }
        "garble" => ("garble", rest.is_empty().then_some(Step::Garble)),
        "late" => ("late TEXT", words(rest).map(|text| Step::Late(unescape(&text)))),
        "no-close" => {
            let title = if rest.is_empty() { "A call that is never closed" } else { rest };
            ("no-close [TITLE]", Some(Step::NoClose(title.to_owned())))
        }
        "same-id" => ("same-id", rest.is_empty().then_some(Step::SameId)),
        "mcp" => {
            let step = two(rest)
                .map(|(server, tool)| Step::Mcp { server: server.to_owned(), tool: tool.to_owned() });
            ("mcp SERVER TOOL", step)
        }
        "echo-env" => {
            let name = words(rest).filter(|name| !name.contains([' ', '=']));
            ("echo-env NAME", name.map(Step::EchoEnv))
        }
        "echo-prompt" => ("echo-prompt", rest.is_empty().then_some(Step::EchoPrompt)),
        "stderr" => ("stderr TEXT", words(rest).map(Step::Stderr)),
        "send-update" => {
            let step = json(rest).map(|update| Step::Update { session: None, update });
            ("send-update JSON", step)
        }
        "send-update-as" => {
            let step = rest.split_once(' ').and_then(|(session, update)| {
                Some(Step::Update { session: Some(session.to_owned()), update: json(update)? })
            });
            ("send-update-as SESSION JSON", step)
        }
        "send-request" => ("send-request METHOD JSON", request(rest, Wait::Now)),
        "send-unheard" => ("send-unheard METHOD JSON", request(rest, Wait::Never)),
        "send-late" => ("send-late METHOD JSON", request(rest, Wait::Late)),
        "send-notification" => {
            let step = rest.split_once(' ').and_then(|(method, params)| {
                Some(Step::Notification { method: method.to_owned(), params: json(params)? })
            });
            ("send-notification METHOD JSON", step)
        }
        "end-with" => ("end-with REASON", words(rest).map(Step::EndWith)),
        _ => return None,
    };
    Some(step.ok_or(form))
}

fn words(rest: &str) -> Option<String> {
    (!rest.is_empty()).then(|| rest.to_owned())
}

fn run(rest: &str, style: Style) -> Option<Step> {
    words(rest).map(|command| Step::Run { command, style })
}

/// A JSON object.
fn json(rest: &str) -> Option<Value> {
    serde_json::from_str(rest).ok().filter(Value::is_object)
}

/// A method and its params; a list of params makes as many requests.
fn request(rest: &str, wait: Wait) -> Option<Step> {
    let (method, params) = rest.split_once(' ')?;
    let params = match serde_json::from_str(params).ok()? {
        Value::Array(all) if !all.is_empty() && all.iter().all(Value::is_object) => all,
        one @ Value::Object(_) => vec![one],
        _ => return None,
    };
    Some(Step::Request { method: method.to_owned(), params, wait })
}

/// Exactly two words.
fn two(rest: &str) -> Option<(&str, &str)> {
    let mut parts = rest.split_whitespace();
    let pair = (parts.next()?, parts.next()?);
    parts.next().is_none().then_some(pair)
}

fn plan(rest: &str) -> Option<Vec<(Status, String)>> {
    rest.split('|')
        .map(|entry| {
            let (status, text) = entry.split_once(':')?;
            let status = match status.trim() {
                "todo" => Status::Todo,
                "doing" => Status::Doing,
                "done" => Status::Done,
                _ => return None,
            };
            words(text.trim()).map(|text| (status, text))
        })
        .collect()
}

fn ask(rest: &str) -> Option<Step> {
    let mut parts = rest.split('|').map(str::trim);
    let question = parts.next().and_then(words)?;
    let options: Vec<String> = parts.map(words).collect::<Option<_>>()?;
    (!options.is_empty()).then_some(Step::Ask { question, options })
}

fn stream(rest: &str) -> Option<Step> {
    let mut parts = rest.split_whitespace();
    let count = parts.next()?.parse().ok().filter(|count| *count <= MAX_CHUNKS)?;
    let bytes = parts.next()?.parse().ok().filter(|bytes| (1..=MAX_CHUNK_BYTES).contains(bytes))?;
    let delay = Duration::from_millis(parts.next()?.parse().ok()?);
    parts.next().is_none().then_some(Step::Stream { count, bytes, delay })
}

fn stamp(rest: &str) -> Option<Step> {
    let (count, delay) = two(rest)?;
    let count = count.parse().ok().filter(|count| *count <= MAX_CHUNKS)?;
    Some(Step::Stamp { count, delay: Duration::from_millis(delay.parse().ok()?) })
}

fn usage(rest: &str) -> Option<Step> {
    let (used, size) = two(rest)?;
    Some(Step::Usage { used: used.parse().ok()?, size: size.parse().ok()? })
}

/// `\n`, `\t` and `\\`; any other backslash stays.
fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        let escaped = match (char, chars.peek()) {
            ('\\', Some('n')) => '\n',
            ('\\', Some('t')) => '\t',
            ('\\', Some('\\')) => '\\',
            _ => {
                plain.push(char);
                continue;
            }
        };
        chars.next();
        plain.push(escaped);
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_is_no_script() {
        for prose in [
            "Please say hello",
            "plan a small refactoring",
            "stream of thought",
            "crash course in Rust, please",
            "hang on a second",
            "ask me something",
            "  say indented",
            "write me a poem",
            "",
        ] {
            assert_eq!(parse(prose), None, "{prose}");
        }
    }

    #[test]
    fn other_lines_of_a_script_are_comments_and_misspelt_ones_are_kept() {
        let steps = parse("First a word.\nsay one\\ntwo \\\\n\nsleep soon\nsay").unwrap();
        assert_eq!(
            steps,
            [
                Step::Say("one\ntwo \\n".to_owned()),
                Step::Misspelt { line: "sleep soon".to_owned(), form: "sleep MS" },
                Step::Misspelt { line: "say".to_owned(), form: "say TEXT" },
            ]
        );
    }

    #[test]
    fn a_written_text_ends_at_its_mark_or_with_the_prompt() {
        let steps =
            parse("write a b.txt <<END\nsay no\n<<\nEND\nwrite c <<\none\r\n<<\nwrite d <<\nrest").unwrap();
        let write = |path: &str, text: &str| Step::Write { path: path.to_owned(), text: text.to_owned() };
        assert_eq!(steps, [write("a b.txt", "say no\n<<\n"), write("c", "one\n"), write("d", "rest\n")]);
    }

    #[test]
    fn raw_messages_need_their_json() {
        let steps = parse(
            "send-request a/b [{\"x\":1},{}]\nsend-late m {}\nsend-update-as s {\"y\":2}\nsend-update no\nsend-request a/b []\nsend-notification n\nsend-notification n {}",
        )
        .unwrap();
        let request = |method: &str, params, wait| Step::Request { method: method.to_owned(), params, wait };
        let empty = || serde_json::json!({});
        assert_eq!(steps[0], request("a/b", vec![serde_json::json!({"x": 1}), empty()], Wait::Now));
        assert_eq!(steps[1], request("m", vec![empty()], Wait::Late));
        let update = serde_json::json!({"y": 2});
        assert_eq!(steps[2], Step::Update { session: Some("s".to_owned()), update });
        assert!(steps[3..6].iter().all(|step| matches!(step, Step::Misspelt { .. })));
        assert_eq!(steps[6], Step::Notification { method: "n".to_owned(), params: empty() });
    }

    #[test]
    fn each_form_with_arguments_is_read() {
        let steps = parse(
            "plan done: a | doing: b: c | todo: d\nask Which? | red | blue\nstream 10 8 2\nusage 5 10\n\
             parallel echo a || echo b || echo c\ncrash\ncrash 3\nhang\nhang polite\nmcp files read\nno-close",
        )
        .unwrap();
        let text = str::to_owned;
        assert_eq!(
            steps,
            [
                Step::Plan(vec![
                    (Status::Done, text("a")),
                    (Status::Doing, text("b: c")),
                    (Status::Todo, text("d"))
                ]),
                Step::Ask { question: text("Which?"), options: vec![text("red"), text("blue")] },
                Step::Stream { count: 10, bytes: 8, delay: Duration::from_millis(2) },
                Step::Usage { used: 5, size: 10 },
                Step::Parallel(vec![text("echo a"), text("echo b"), text("echo c")]),
                Step::Crash(1),
                Step::Crash(3),
                Step::Hang { polite: false },
                Step::Hang { polite: true },
                Step::Mcp { server: text("files"), tool: text("read") },
                Step::NoClose(text("A call that is never closed")),
            ]
        );
    }
}
