//! The statement of each derived change.

use serde::Serialize;
use signalbox_facts::{SessionId, TurnStatus};

use crate::derive::Change;
use crate::sql::Statement;

/// The statement of a derived change, and whether its first part must change exactly one row.
pub(crate) fn statement(session: SessionId, change: &Change<'_>) -> (Statement, bool) {
    let id = session.0;
    match change {
        Change::Created { at_ms, created } => (create(id, *at_ms, created), true),
        Change::Title(title) => (
            Statement::new("update sessions set title = ?2, title_origin = ?3 where id = ?1")
                .id(id)
                .bind(title.title.as_str())
                .bind(word(&title.origin)),
            true,
        ),
        Change::Activity { first, last } => (
            Statement::new(
                "update sessions set activity = ?2, activity_revision = ?3, state = ?2 ->> '$.state.kind' \
                 where id = ?1 and activity_revision = ?4 - 1",
            )
            .id(id)
            .json(last)
            .int(last.revision)
            .int(*first),
            true,
        ),
        Change::Prompted { at_ms, preview } => (
            Statement::new(
                "update sessions set updated_at_ms = max(?2, created_at_ms), preview = case when preview = '' then ?3 else preview end \
                 where id = ?1",
            )
            .id(id)
            .bind(*at_ms)
            .bind(preview.as_str()),
            true,
        ),
        Change::TurnOpened { turn, first_seq, at_ms, context } => (
            Statement::new(
                "insert into turns (session, first_seq, id, status, reverted, compacted, started_at_ms, context) \
                 values (?1, ?2, ?3, ?4, 0, 0, ?5, ?6)",
            )
            .id(id)
            .int(*first_seq)
            .id(turn.0)
            .bind(word(&TurnStatus::InProgress))
            .bind(*at_ms)
            .json(context),
            true,
        ),
        Change::TurnEnded { turn, seq, at_ms, ended } => (
            Statement::new(
                "update turns set end_seq = ?3, status = ?4, failure = ?5, ended_at_ms = ?6 \
                 where session = ?1 and id = ?2; \
                 update sessions set updated_at_ms = max(?6, created_at_ms) where id = ?1; \
                 delete from pending_inputs where session = ?1 and turn = ?2",
            )
            .id(id)
            .id(turn.0)
            .int(*seq)
            .bind(word(&ended.status))
            .bind(ended.failure.as_ref().and_then(|failure| serde_json::to_string(failure).ok()))
            .bind(*at_ms),
            true,
        ),
        Change::Policy(policy) => {
            (Statement::new("update sessions set policy = ?2 where id = ?1").id(id).json(policy), true)
        }
        Change::Settings(settings) => (
            Statement::new(
                "update sessions set model = coalesce(?2, model), effort = coalesce(?3, effort), \
                 cwd = coalesce(?4, cwd) where id = ?1; \
                 update session_details set roots = coalesce(?5, roots), options = json_patch(options, ?6) \
                 where session = ?1",
            )
            .id(id)
            .bind(settings.model.as_deref())
            .bind(settings.effort.as_deref())
            .bind(settings.cwd.as_ref().map(|cwd| cwd.to_string_lossy().into_owned()))
            .bind(settings.roots.as_ref().and_then(|roots| serde_json::to_string(roots).ok()))
            .json(&settings.options),
            true,
        ),
        Change::AgentSession(agent) => (
            Statement::new("update sessions set agent_session = ?2 where id = ?1").id(id).bind(*agent),
            true,
        ),
        Change::Usage(usage) => {
            (Statement::new("update sessions set usage = ?2 where id = ?1").id(id).json(usage), true)
        }
        Change::Queue(queue) => (
            Statement::new("update session_details set queue = ?2 where session = ?1")
                .id(id)
                .bind((!queue.is_plain()).then(|| serde_json::to_string(queue).ok()).flatten()),
            true,
        ),
        Change::Archived(archived) => (
            Statement::new("update sessions set archived = ?2 where id = ?1").id(id).bind(*archived),
            true,
        ),
        Change::WorktreeDiscarded => {
            (Statement::new("update sessions set worktree_discarded = 1 where id = ?1").id(id), true)
        }
        Change::Rule(rule) => (
            Statement::new(
                "update session_details set rules = json_insert(rules, '$[#]', json(?2)) where session = ?1 \
                 and not exists (select 1 from json_each(rules) where value = json(?2))",
            )
            .id(id)
            .json(rule),
            false,
        ),
        Change::RuleRemoved(rule) => (
            Statement::new(
                "update session_details set rules = (select coalesce(json_group_array(json(value)), '[]') \
                 from json_each(rules) where value <> json(?2)) where session = ?1",
            )
            .id(id)
            .json(rule),
            false,
        ),
        Change::Reverted { from_seq } => (
            Statement::new(
                "update turns set reverted = 1 where session = ?1 and first_seq >= ?2; \
                 update sessions set agent_session = null where id = ?1",
            )
                .id(id)
                .int(*from_seq),
            false,
        ),
        Change::Parked { turn, input } => (
            Statement::new(
                "insert into pending_inputs (id, session, turn, sequence, requested_at_ms, body) \
                 values (?1, ?2, ?3, ?4, ?5, ?6); \
                 update counters set value = max(value, ?4) where name = 'pending_sequence'",
            )
            .id(input.id.0)
            .id(id)
            .maybe_id(turn.map(|turn| turn.0))
            .int(input.sequence)
            .bind(input.requested_at_ms)
            .json(input),
            true,
        ),
        // An automatic decision resolves an input that was never parked.
        Change::Resolved(input) => {
            (Statement::new("delete from pending_inputs where id = ?1").id(input.0), false)
        }
        Change::Receipt { client_message_id, turn, seq } => (
            Statement::new(
                "insert into receipts (session, kind, id, turn, seq) values (?1, 'message', ?2, ?3, ?4)",
            )
            .id(id)
            .bind(*client_message_id)
            .maybe_id(turn.map(|turn| turn.0))
            .int(*seq),
            true,
        ),
    }
}

fn create(id: uuid::Uuid, at_ms: i64, created: &signalbox_facts::SessionCreated) -> Statement {
    Statement::new(
        "insert into sessions (id, last_seq, activity_revision, state, updated_at_ms, created_at_ms, archived, \
         worktree_discarded, ephemeral, provider, source, title_origin, title, preview, cwd, project_path, policy, \
         activity, model, effort, worktree, forked_from) \
         values (?1, 0, 0, 'idle', ?2, ?2, 0, 0, ?3, ?4, ?5, 'default', '', '', ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13); \
         insert into session_details (session, roots, options, rules, instructions) values (?1, ?14, '{}', '[]', ?15)",
    )
    .id(id)
    .bind(at_ms)
    .bind(created.ephemeral)
    .bind(created.provider.as_str())
    .bind(word(&created.source))
    .bind(created.cwd.to_string_lossy().into_owned())
    .bind(created.project_path.to_string_lossy().into_owned())
    .json(&created.policy)
    .json(&signalbox_facts::Activity::default())
    .bind(created.model.as_deref())
    .bind(created.effort.as_deref())
    .bind(created.worktree.as_ref().and_then(|worktree| serde_json::to_string(worktree).ok()))
    .maybe_id(created.forked_from.map(|from| from.0))
    .json(&created.roots)
    .bind(created.instructions.as_deref())
}

/// The one word that a plain enum is in JSON.
pub(crate) fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}
