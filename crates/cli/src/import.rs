//! `signalbox import`: an agent's own sessions, listed and adopted as threads. The home's server does it; this asks and prints.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;
use serde_json::Value;
use signalbox_client::{CallError, Client};
use signalbox_protocol::app::{
    ProviderSession, ProviderSessionsListParams, ProviderSessionsListResult, ThreadImportParams,
    ThreadImportResult,
};

use crate::args::{Global, ImportArgs};
use crate::details::with_details;
use crate::devices::span;
use crate::setup::{self, Prepared, SetupError, complain, told};
use crate::{EXIT_USAGE, connect, logs};

/// Pages of a list that are asked for; who has more sessions names a directory.
const PAGES: usize = 20;
/// Columns of a title.
const TITLE: usize = 48;

/// Why a command did not do what it should.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error(transparent)]
    Setup(#[from] SetupError),
    #[error("{} is no directory", path.display())]
    Cwd { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Call(#[from] CallError),
    #[error("{provider} has no session to adopt{place}")]
    None { provider: String, place: String },
    #[error("the output cannot be written")]
    Output(#[from] io::Error),
    #[error("the output cannot be written")]
    Json(#[from] serde_json::Error),
}

/// Runs the subcommand.
pub(crate) fn main(global: &Global, args: ImportArgs) -> ExitCode {
    logs::init("off");
    match run(global, args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Trouble::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            complain(&explained(&error));
            match error {
                Trouble::Setup(_) | Trouble::Cwd { .. } => ExitCode::from(EXIT_USAGE),
                _ => ExitCode::FAILURE,
            }
        }
    }
}

fn run(global: &Global, args: ImportArgs) -> Result<(), Trouble> {
    let named = args.cwd.as_deref().map(directory).transpose()?;
    let prepared = setup::prepare(global, "import")?;
    let runtime = setup::runtime()?;
    let done = runtime.block_on(serve(prepared, args, named, &global.config));
    runtime.shutdown_background();
    done
}

async fn serve(
    prepared: Prepared,
    args: ImportArgs,
    named: Option<PathBuf>,
    sets: &[String],
) -> Result<(), Trouble> {
    let Prepared { setup, warnings } = prepared;
    warnings.iter().for_each(|warning| complain(warning));
    // It is said to the server where this command runs and with which PATH; agents are looked for there.
    let connected = connect::to_server(&setup, "import", sets).await?;
    let (reader, writer) = connected.stream.into_split();
    let (client, events) = Client::over_lines(reader, writer);
    // Nothing that is told matters here.
    drop(events);
    client.initialize("signalbox", env!("CARGO_PKG_VERSION")).await?;
    let place = if args.all { None } else { Some(named.clone().unwrap_or(setup.base_dir.clone())) };
    let (session, cwd) = match args.session {
        Some(session) => (session, named),
        None if args.last => {
            let found = list(&client, &args.provider, place.as_deref()).await?;
            let newest = newest(&found.data).ok_or_else(|| Trouble::None {
                provider: args.provider.clone(),
                place: in_place(place.as_deref()),
            })?;
            (newest.session_id.clone(), None)
        }
        None => {
            let found = list(&client, &args.provider, place.as_deref()).await?;
            return match args.json {
                true => print_json(&found),
                false => show_list(&args.provider, &found, place.as_deref()),
            };
        }
    };
    let params = ThreadImportParams {
        provider: args.provider,
        session_id: session,
        cwd: cwd.map(|cwd| cwd.display().to_string()),
        ..ThreadImportParams::default()
    };
    let imported = client.thread_import(&params).await?;
    if args.json { print_json(&imported) } else { show_thread(&imported) }
}

async fn list(
    client: &Client,
    provider: &str,
    cwd: Option<&Path>,
) -> Result<ProviderSessionsListResult, Trouble> {
    let mut all = ProviderSessionsListResult::default();
    for _ in 0..PAGES {
        let params = ProviderSessionsListParams {
            provider: provider.to_owned(),
            cwd: cwd.map(|cwd| cwd.display().to_string()),
            cursor: all.next_cursor.take(),
        };
        let page = client.provider_sessions_list(&params).await?;
        all.data.extend(page.data);
        all.next_cursor = page.next_cursor;
        if all.next_cursor.is_none() {
            break;
        }
    }
    Ok(all)
}

/// The session that was used last and is no thread yet; where the agent tells no times, the first of its list.
fn newest(sessions: &[ProviderSession]) -> Option<&ProviderSession> {
    let mut best: Option<&ProviderSession> = None;
    for session in sessions.iter().filter(|session| session.thread_id.is_none()) {
        if best.is_none_or(|best| session.updated_at > best.updated_at) {
            best = Some(session);
        }
    }
    best
}

fn show_list(
    provider: &str,
    found: &ProviderSessionsListResult,
    place: Option<&Path>,
) -> Result<(), Trouble> {
    let mut out = anstream::stdout().lock();
    if found.data.is_empty() {
        let more = if place.is_some() { "; --all shows those of other directories" } else { "" };
        writeln!(out, "{provider} has no sessions{}{more}.", in_place(place))?;
        return Ok(out.flush()?);
    }
    for line in table(&found.data, now()) {
        writeln!(out, "{line}")?;
    }
    if found.next_cursor.is_some() {
        writeln!(out, "There are more; --cwd DIR shows those of one directory.")?;
    }
    writeln!(out, "\nAdopt one: signalbox import --provider {provider} ID")?;
    Ok(out.flush()?)
}

fn table(sessions: &[ProviderSession], now: i64) -> Vec<String> {
    let row = |session: &ProviderSession| {
        let when = session.updated_at.map_or_else(String::new, |at| format!("{} ago", span(now - at)));
        let title: String = plain(session.title.as_deref().unwrap_or("")).chars().take(TITLE).collect();
        let adopted =
            session.thread_id.as_ref().map_or_else(String::new, |thread| format!("thread {thread}"));
        [plain(&session.session_id), title, when, plain(session.cwd.as_deref().unwrap_or("")), adopted]
    };
    let head = ["ID", "TITLE", "LAST USED", "DIRECTORY", ""].map(str::to_owned);
    let rows: Vec<[String; 5]> = std::iter::once(head).chain(sessions.iter().map(row)).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..5).map(width).collect();
    let line = |row: &[String; 5]| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

/// What an agent says, on one line and without what steers a terminal.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn show_thread(imported: &ThreadImportResult) -> Result<(), Trouble> {
    for warning in &imported.warnings {
        complain(warning);
    }
    let thread = &imported.opened.thread;
    let mut out = anstream::stdout().lock();
    writeln!(out, "thread  {}", thread.id)?;
    if let Some(name) = thread.name.as_deref().filter(|name| !name.is_empty()) {
        writeln!(out, "title   {}", plain(name))?;
    }
    writeln!(out, "cwd     {}", imported.opened.cwd)?;
    writeln!(out, "\nGo on: signalbox run --thread {} \"…\"", thread.id)?;
    Ok(out.flush()?)
}

fn print_json(value: &impl Serialize) -> Result<(), Trouble> {
    let mut out = anstream::stdout().lock();
    writeln!(out, "{}", serde_json::to_string(value)?)?;
    Ok(out.flush()?)
}

fn in_place(place: Option<&Path>) -> String {
    place.map_or_else(String::new, |place| format!(" in {}", place.display()))
}

fn directory(path: &Path) -> Result<PathBuf, Trouble> {
    let failed = |source| Trouble::Cwd { path: path.to_owned(), source };
    let real = path.canonicalize().map_err(failed)?;
    if real.is_dir() { Ok(real) } else { Err(failed(io::ErrorKind::NotADirectory.into())) }
}

/// An error with what would help.
fn explained(error: &Trouble) -> String {
    let mut text = told(error);
    let Trouble::Call(CallError::Refused(failure)) = error else { return text };
    let word = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    let methods = failure.data.get("methods").and_then(Value::as_array).into_iter().flatten();
    for method in methods {
        let words = method.get("command").and_then(Value::as_array).into_iter().flatten();
        let command: Vec<&str> = words.filter_map(Value::as_str).collect();
        let name = word(method, "name").unwrap_or_default();
        match command.is_empty() {
            true => text.push_str(&format!("\n  {}", plain(&name))),
            false => text.push_str(&format!("\n  {}: {}", plain(&name), plain(&command.join(" ")))),
        }
    }
    text = with_details(&text, &failure.data);
    match failure.reason.as_str() {
        "already_imported" => {
            if let Some(thread) = failure.data.get("threadId").and_then(Value::as_str) {
                text.push_str(&format!("\n  signalbox run --thread {thread} \"…\""));
            }
        }
        "invalid_params" if failure.data.get("path").and_then(Value::as_str) == Some("cwd") => {
            text.push_str("\n  --cwd DIR names it");
        }
        "agent_session_not_found" => text.push_str("\n  --cwd DIR names it"),
        "provider_not_found" => text.push_str("\n  `signalbox doctor` says which of them are installed"),
        _ => {}
    }
    text
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(id: &str, updated_at: Option<i64>, thread: Option<&str>) -> ProviderSession {
        ProviderSession {
            session_id: id.to_owned(),
            cwd: Some("/w".to_owned()),
            title: Some(format!("Title\n{id}")),
            updated_at,
            thread_id: thread.map(str::to_owned),
        }
    }

    #[test]
    fn the_newest_is_the_one_that_was_used_last_and_is_no_thread_yet() {
        let sessions =
            [session("a", Some(1), None), session("b", Some(3), Some("t")), session("c", Some(2), None)];
        assert_eq!(newest(&sessions).unwrap().session_id, "c");
        let timeless = [session("a", None, None), session("b", None, None)];
        assert_eq!(newest(&timeless).unwrap().session_id, "a");
        assert_eq!(newest(&[session("b", None, Some("t"))]), None);
    }

    #[test]
    fn a_session_is_a_row_and_its_title_steers_nothing() {
        let rows = table(&[session("a", Some(0), None), session("long-id", None, Some("t-1"))], 7200);
        assert_eq!(
            rows,
            [
                "ID       TITLE          LAST USED  DIRECTORY",
                "a        Title a        2 h ago    /w",
                "long-id  Title long-id             /w         thread t-1",
            ]
        );
    }
}
