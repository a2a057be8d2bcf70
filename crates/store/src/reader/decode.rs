//! Rows back into data. A row that does not decode says why, and hurts nobody else.

use serde::de::DeserializeOwned;
use serde::de::IntoDeserializer;
use serde::de::value::{Error as WordError, StrDeserializer};
use signalbox_facts::{
    Activity, Fact, FactBody, PendingInput, Provider, SessionId, SessionRow, TurnId, TurnRow, Warning,
};
use sqlx::Row;
use sqlx::sqlite::SqliteRow;
use uuid::Uuid;

/// What is wrong with a row.
pub(super) type Reason = String;

/// Columns of a session, in the order in which [`session`] reads them; tables `s` and `d`.
pub(super) const SESSION: &str = "s.id, s.provider, s.cwd, s.project_path, s.worktree, s.worktree_discarded, s.policy, \
     s.model, s.effort, s.title, s.title_origin, s.preview, s.source, s.forked_from, s.ephemeral, s.archived, \
     s.agent_session, s.activity, s.usage, s.created_at_ms, s.updated_at_ms, s.last_seq, \
     d.roots, d.options, d.instructions, d.queue, d.rules, \
     (select case when instr(f.body, '\"launch\":') and json_valid(f.body) then f.body -> '$.launch' end \
      from facts f where f.session = s.id and f.seq = 1) as launch";

/// The session of a row of [`SESSION`].
pub(super) fn session(row: &SqliteRow) -> Result<SessionRow, Reason> {
    // A session of before there was activity is at revision 0, idle.
    let activity: Option<Option<Activity>> = maybe_json(row, "activity")?;
    Ok(SessionRow {
        id: SessionId(id(row, "id")?),
        provider: Provider(text(row, "provider")?),
        cwd: text(row, "cwd")?.into(),
        project_path: text(row, "project_path")?.into(),
        worktree: maybe_json(row, "worktree")?,
        worktree_discarded: flag(row, "worktree_discarded")?,
        policy: json(row, "policy")?,
        model: maybe_text(row, "model")?,
        effort: maybe_text(row, "effort")?,
        title: text(row, "title")?,
        title_origin: word(row, "title_origin")?,
        preview: text(row, "preview")?,
        source: word(row, "source")?,
        forked_from: maybe_id(row, "forked_from")?.map(SessionId),
        ephemeral: flag(row, "ephemeral")?,
        launch: maybe_json(row, "launch")?,
        archived: flag(row, "archived")?,
        agent_session: maybe_text(row, "agent_session")?,
        activity: activity.flatten().unwrap_or_default(),
        usage: maybe_json(row, "usage")?,
        created_at_ms: int(row, "created_at_ms")?,
        updated_at_ms: int(row, "updated_at_ms")?,
        last_seq: int(row, "last_seq")?.unsigned_abs(),
        roots: json(row, "roots")?,
        options: json(row, "options")?,
        instructions: maybe_text(row, "instructions")?,
        queue: maybe_json(row, "queue")?,
        rules: json(row, "rules")?,
    })
}

/// Columns of a turn, in the order in which [`turn`] reads them.
pub(super) const TURN: &str =
    "id, session, first_seq, end_seq, status, failure, context, reverted, started_at_ms, ended_at_ms";

/// The turn of a row of [`TURN`].
pub(super) fn turn(row: &SqliteRow) -> Result<TurnRow, Reason> {
    Ok(TurnRow {
        id: TurnId(id(row, "id")?),
        session: SessionId(id(row, "session")?),
        first_seq: int(row, "first_seq")?.unsigned_abs(),
        end_seq: get::<Option<i64>>(row, "end_seq")?.map(i64::unsigned_abs),
        status: word(row, "status")?,
        failure: maybe_json(row, "failure")?,
        context: json(row, "context")?,
        reverted: flag(row, "reverted")?,
        started_at_ms: int(row, "started_at_ms")?,
        ended_at_ms: get(row, "ended_at_ms")?,
    })
}

/// Columns of a fact, in the order in which [`fact`] reads them.
pub(crate) const FACT: &str = "seq, through_seq, turn, item_seq, at_ms, body";

/// The fact of a row of [`FACT`]. One that does not decode is shown as a warning in its place; an item it may have
/// belonged to goes on without it.
pub(crate) fn fact(session: SessionId, row: &SqliteRow) -> Result<Fact, sqlx::Error> {
    let body: Result<FactBody, Reason> = match row.try_get::<Option<&str>, _>(5) {
        Ok(Some(body)) => serde_json::from_str(body).map_err(|error| error.to_string()),
        // A reader of chunks alone leaves out the bodies of all others.
        Ok(None) => Ok(left_out()),
        Err(error) => Err(error.to_string()),
    };
    with_body(session, row, body)
}

/// As [`fact`], of a row that has the column `kind` behind those of [`FACT`].
pub(super) fn fact_of_kind(session: SessionId, row: &SqliteRow) -> Result<Fact, sqlx::Error> {
    with_body(session, row, body_of_kind(row, 6, 5).map(|(body, _)| body))
}

fn with_body(
    session: SessionId,
    row: &SqliteRow,
    body: Result<FactBody, Reason>,
) -> Result<Fact, sqlx::Error> {
    let seq = row.try_get::<i64, _>(0)?.unsigned_abs();
    let turn: Option<&[u8]> = row.try_get(2)?;
    let item_seq: Option<i64> = row.try_get(3)?;
    let (item_seq, body) = match body {
        Ok(body) => (item_seq, body),
        Err(reason) => {
            let kind = row.try_get::<&str, _>(5).ok().and_then(tag);
            tracing::error!(%session, seq, kind, reason, "fact is unreadable");
            (None, unreadable(seq, kind))
        }
    };
    Ok(Fact {
        session,
        turn: turn.and_then(|bytes| Uuid::from_slice(bytes).ok()).map(TurnId),
        seq,
        through_seq: row.try_get::<i64, _>(1)?.unsigned_abs(),
        item_seq: item_seq.map(i64::unsigned_abs),
        at_ms: row.try_get(4)?,
        body,
    })
}

fn left_out() -> FactBody {
    warning("left_out", String::new())
}

/// What a body calls itself, if it is JSON at all.
fn tag(body: &str) -> Option<&str> {
    #[derive(serde::Deserialize)]
    struct Tag<'a> {
        r#type: &'a str,
    }
    serde_json::from_str::<Tag<'_>>(body).ok().map(|tag| tag.r#type)
}

/// A body that is JSON was probably written by a newer version, whose facts have more to say.
fn unreadable(seq: u64, kind: Option<&str>) -> FactBody {
    let message = match kind {
        Some(kind) => {
            format!(
                "Fact {seq} of this session ({kind}) cannot be read; a newer signalbox may have written it."
            )
        }
        None => format!("Fact {seq} of this session is damaged and cannot be read."),
    };
    warning("unreadable", message)
}

fn warning(reason: &str, message: String) -> FactBody {
    FactBody::Warning(Warning { message, reason: reason.to_owned(), terminal: false, request_id: None })
}

/// A body by its kind, and how many bytes it takes. The column `kind` says what it is, which is several
/// times as fast as looking for the tag in the body.
pub(super) fn body_of_kind(row: &SqliteRow, kind: usize, body: usize) -> Result<(FactBody, usize), Reason> {
    let text = |column| row.try_get::<&str, _>(column).map_err(|error| error.to_string());
    let (kind, body) = (text(kind)?, text(body)?);
    fn inner<T: DeserializeOwned>(body: &str) -> Result<T, Reason> {
        serde_json::from_str(body).map_err(|error| error.to_string())
    }
    let decoded = match kind {
        "prompt" => FactBody::Prompt(inner(body)?),
        "agent_text" => FactBody::AgentText(inner(body)?),
        "agent_thought" => FactBody::AgentThought(inner(body)?),
        "tool_call" => FactBody::ToolCall(inner(body)?),
        "tool_output" => FactBody::ToolOutput(inner(body)?),
        "plan" => FactBody::Plan(inner(body)?),
        "turn_diff" => FactBody::TurnDiff(inner(body)?),
        "usage" => FactBody::Usage(inner(body)?),
        "context_compaction" => FactBody::ContextCompaction(inner(body)?),
        "turn_ended" => FactBody::TurnEnded(inner(body)?),
        _ => inner(body)?,
    };
    Ok((decoded, body.len()))
}

/// The input of a row with the column `body`.
pub(super) fn pending(row: &SqliteRow) -> Result<PendingInput, Reason> {
    json(row, "body")
}

pub(super) fn id(row: &SqliteRow, column: &'static str) -> Result<Uuid, Reason> {
    Uuid::from_slice(get::<&[u8]>(row, column)?).map_err(|error| format!("{column}: {error}"))
}

pub(super) fn maybe_id(row: &SqliteRow, column: &'static str) -> Result<Option<Uuid>, Reason> {
    let bytes: Option<&[u8]> = get(row, column)?;
    bytes.map(Uuid::from_slice).transpose().map_err(|error| format!("{column}: {error}"))
}

fn text(row: &SqliteRow, column: &'static str) -> Result<String, Reason> {
    get(row, column)
}

fn maybe_text(row: &SqliteRow, column: &'static str) -> Result<Option<String>, Reason> {
    get(row, column)
}

fn flag(row: &SqliteRow, column: &'static str) -> Result<bool, Reason> {
    Ok(int(row, column)? != 0)
}

pub(super) fn int(row: &SqliteRow, column: &'static str) -> Result<i64, Reason> {
    get(row, column)
}

fn word<T: DeserializeOwned>(row: &SqliteRow, column: &'static str) -> Result<T, Reason> {
    let word: &str = get(row, column)?;
    let source: StrDeserializer<'_, WordError> = word.into_deserializer();
    T::deserialize(source).map_err(|error| format!("{column}: {error}"))
}

fn json<T: DeserializeOwned>(row: &SqliteRow, column: &'static str) -> Result<T, Reason> {
    serde_json::from_str(get(row, column)?).map_err(|error| format!("{column}: {error}"))
}

fn maybe_json<T: DeserializeOwned>(row: &SqliteRow, column: &'static str) -> Result<Option<T>, Reason> {
    let text: Option<&str> = get(row, column)?;
    text.map(serde_json::from_str).transpose().map_err(|error| format!("{column}: {error}"))
}

fn get<'r, T>(row: &'r SqliteRow, column: &'static str) -> Result<T, Reason>
where
    T: sqlx::Decode<'r, sqlx::Sqlite> + sqlx::Type<sqlx::Sqlite>,
{
    row.try_get(column).map_err(|error| format!("{column}: {error}"))
}
