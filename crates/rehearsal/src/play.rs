//! Plays a script, step by step.

use std::io::Write as _;

use futures_util::future::try_join_all;
use serde_json::{Value, json};

use crate::{
    command::execute,
    files,
    script::{Status, Step, Style, Wait},
    stream,
    turn::{Call, Step as Played, Stop, Turn, content},
};

/// Lines that no client may trip over: no JSON, scalars, a batch of nothing, an object that is no message, an
/// answer to nobody, invalid UTF-8, nothing.
const GARBAGE: &[&[u8]] = &[
    b"this line is not JSON",
    b"{\"jsonrpc\":\"2.0\",\"method\":\"session/upd",
    b"42",
    b"\"a string\"",
    b"null",
    b"true",
    b"[]",
    b"{\"level\":\"info\",\"msg\":\"a line of a log\"}",
    b"{\"jsonrpc\":\"2.0\",\"id\":\"nobody\",\"result\":null}",
    b"\xff\xfe\x00 not UTF-8",
    b"",
];

/// Plays all steps, unless one of them or the client ends the turn.
pub(crate) async fn play(turn: &Turn, steps: &[Step]) -> Played {
    for step in steps {
        if let Step::Hang { polite: false } = step {
            turn.busy.kill.cancelled().await;
            return Err(Stop::Cancelled);
        }
        turn.unless_cancelled(one(turn, step)).await?;
    }
    Ok(())
}

async fn one(turn: &Turn, step: &Step) -> Played {
    match step {
        Step::Say(text) => turn.say(text).await,
        Step::Think(text) => turn.think(text).await,
        Step::Plan(entries) => {
            turn.plan(entries.iter().map(|(status, text)| (status_name(*status), text.as_str()))).await
        }
        Step::Run { command, style } => execute(turn, command, *style).await.map(drop),
        Step::Big { bytes } => {
            let lines = bytes.div_ceil(16);
            let command = format!("seq -f %015.0f 1 {lines} | head -c {bytes}");
            execute(turn, &command, Style::Proper).await.map(drop)
        }
        Step::Parallel(commands) => {
            let all = commands.iter().map(|command| execute(turn, command, Style::Proper));
            try_join_all(all).await.map(drop)
        }
        Step::Write { path, text } => match files::write(turn, path, text).await? {
            files::Change::Nothing => turn.say(&format!("`{path}` already has this text.")).await,
            _ => Ok(()),
        },
        Step::Read(path) => files::read(turn, path).await.map(drop),
        Step::Delete(path) => files::delete(turn, path).await.map(drop),
        Step::Ask { question, options } => ask(turn, question, options).await,
        Step::Stream { count, bytes, delay } => stream::numbered(turn, *count, *bytes, *delay).await,
        Step::Stamp { count, delay } => stream::stamped(turn, *count, *delay).await,
        Step::Usage { used, size } => {
            turn.update(json!({"sessionUpdate": "usage_update", "used": used, "size": size})).await
        }
        Step::Sleep(time) => {
            tokio::time::sleep(*time).await;
            Ok(())
        }
        Step::Title(title) => turn.title(title).await,
        Step::Fail(text) => Err(Stop::Failed(text.clone())),
        Step::Crash(code) => Err(Stop::Crash(*code)),
        // The impolite kind is met in `play`, where no cancel is heard.
        Step::Hang { .. } => std::future::pending().await,
        Step::Garble => garble(turn).await,
        Step::Late(text) => late(turn, text).await,
        Step::NoClose(title) => {
            let call = Call::new(turn.id("call"), title, Some("other"));
            turn.announce_as(&call, "in_progress").await?;
            turn.abandon(&call.id);
            Ok(())
        }
        Step::SameId => same_id(turn).await,
        Step::Mcp { server, tool } => mcp(turn, server, tool).await,
        Step::EchoEnv(name) => {
            let text = match std::env::var_os(name) {
                Some(value) => format!("{name}={}", value.to_string_lossy()),
                None => format!("{name} is not set"),
            };
            turn.say(&text).await
        }
        Step::EchoPrompt => turn.say(&turn.prompt.iter().map(shown).collect::<Vec<_>>().join("\n")).await,
        Step::Stderr(text) => {
            let line = format!("{text}\n");
            std::io::stderr()
                .write_all(line.as_bytes())
                .map_err(|error| Stop::Failed(format!("stderr cannot be written: {error}")))
        }
        Step::Update { session, update } => match session {
            Some(session) => Ok(turn.peer.update(session, update).await?),
            None => turn.update(update.clone()).await,
        },
        Step::Notification { method, params } => Ok(turn.peer.notify(method, params).await?),
        Step::Request { method, params, wait } => requests(turn, method, params, *wait).await,
        Step::EndWith(reason) => Err(Stop::Reason(reason.clone())),
        Step::Misspelt { line, form } => {
            turn.say(&format!("Not understood, so skipped: `{line}`. The form is `{form}`.")).await
        }
    }
}

/// A content block of a prompt, its kind first.
fn shown(block: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    match block["type"].as_str().unwrap_or_default() {
        "text" => format!("[text]\n{}", text(&block["text"])),
        "resource" => {
            format!("[resource {}]\n{}", text(&block["resource"]["uri"]), text(&block["resource"]["text"]))
        }
        "resource_link" => format!("[resource_link {}]", text(&block["uri"])),
        "image" => format!("[image {}, {} characters]", text(&block["mimeType"]), text(&block["data"]).len()),
        other => format!("[{other}]"),
    }
}

/// Sends requests as written, with this session's id unless they name one.
async fn requests(turn: &Turn, method: &str, params: &[Value], wait: Wait) -> Played {
    let params = params.iter().map(|one| {
        let mut one = one.clone();
        if one["sessionId"].is_null() {
            one["sessionId"] = json!(&*turn.session.id);
        }
        one
    });
    match wait {
        Wait::Now => {
            let ask = |params: Value| async move {
                let answer = turn.peer.request(method, &params).await?;
                turn.whole(&answered(method, &answer)).await
            };
            try_join_all(params.map(ask)).await.map(drop)
        }
        Wait::Never => {
            for params in params {
                turn.peer.tell(method, &params).await?;
            }
            Ok(())
        }
        Wait::Late => {
            params.for_each(|params| turn.request_later(method.to_owned(), params));
            Ok(())
        }
    }
}

/// What is said of an answer.
pub(crate) fn answered(method: &str, answer: &Result<Value, Value>) -> String {
    match answer {
        Ok(result) => format!("{method} got {result}"),
        Err(error) => format!("{method} failed with {error}"),
    }
}

fn status_name(status: Status) -> &'static str {
    match status {
        Status::Todo => "pending",
        Status::Doing => "in_progress",
        Status::Done => "completed",
    }
}

/// Asks a question as a form where the client shows forms, else as a permission request, and says the answer.
async fn ask(turn: &Turn, question: &str, options: &[String]) -> Played {
    let answer = if turn.abilities.forms {
        let choices: Vec<_> =
            options.iter().map(|option| json!({"const": option, "title": option})).collect();
        let params = json!({
            "mode": "form",
            "sessionId": &*turn.session.id,
            "message": question,
            "requestedSchema": {
                "type": "object",
                "properties": {"answer": {"type": "string", "title": "Answer", "oneOf": choices}},
                "required": ["answer"],
            },
        });
        let result = turn.peer.request("elicitation/create", &params).await?.unwrap_or_default();
        (result["action"] == "accept")
            .then(|| result["content"]["answer"].as_str().map(str::to_owned))
            .flatten()
    } else {
        let call = Call::new(turn.id("call"), question, Some("other"));
        turn.announce(&call).await?;
        let choices: Vec<_> = options
            .iter()
            .enumerate()
            .map(|(n, option)| {
                json!({"optionId": format!("option-{}", n + 1), "name": option, "kind": "allow_once"})
            })
            .collect();
        let chosen = turn.choose(&call, &json!(choices)).await?;
        let answer = chosen
            .and_then(|id| id.strip_prefix("option-")?.parse::<usize>().ok()?.checked_sub(1))
            .and_then(|n| options.get(n).cloned());
        match &answer {
            Some(answer) => {
                let fields = json!({"content": [content(answer)], "rawOutput": {"answer": answer}});
                turn.finish(&call.id, "completed", fields).await?;
            }
            None => turn.declined(&call.id, "Not answered.").await?,
        }
        answer
    };
    match answer {
        Some(answer) => turn.say(&format!("The answer to `{question}` is: {answer}")).await,
        None => turn.say(&format!("There was no answer to `{question}`.")).await,
    }
}

async fn garble(turn: &Turn) -> Played {
    for line in GARBAGE {
        let mut line = line.to_vec();
        line.push(b'\n');
        turn.peer.outbox.send(line).await?;
    }
    Ok(())
}

/// Opens a call that, like a message, goes on only after the prompt has been answered.
async fn late(turn: &Turn, text: &str) -> Played {
    let call = Call::new(turn.id("call"), "Late work", Some("other"));
    turn.announce_as(&call, "in_progress").await?;
    turn.abandon(&call.id);
    turn.later(json!({
        "sessionUpdate": "agent_message_chunk",
        "messageId": turn.id("msg"),
        "content": {"type": "text", "text": text},
    }));
    turn.later(json!({
        "sessionUpdate": "tool_call_update",
        "toolCallId": call.id,
        "status": "completed",
        "content": [content(text)],
    }));
    Ok(())
}

/// A call whose id every turn uses again.
async fn same_id(turn: &Turn) -> Played {
    let title = format!("The same call in turn {}", turn.number);
    let call = Call::new("call-same".to_owned(), title, Some("other"));
    turn.announce_as(&call, "in_progress").await?;
    let fields = json!({"content": [content(&format!("Done in turn {}.", turn.number))]});
    turn.finish(&call.id, "completed", fields).await
}

async fn mcp(turn: &Turn, server: &str, tool: &str) -> Played {
    let name = format!("mcp__{server}__{tool}");
    let mut call = Call::new(turn.id("call"), &name, Some("other"));
    call.name = Some(name);
    call.raw_input = json!({"server": server, "tool": tool, "arguments": {}});
    turn.announce_as(&call, "in_progress").await?;
    let words = format!("A rehearsal of `{tool}` of the MCP server `{server}`: nothing was called.");
    turn.finish(&call.id, "completed", json!({"content": [content(&words)]})).await
}
