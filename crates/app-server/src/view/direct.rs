//! The direct mappings, one fact or signal to one notification, as a table; and which facts say nothing new.
//!
//! What needs memory of what came before (turns, items, approvals, usage) is in the other modules.

use signalbox_facts::{FactBody, SessionRow, Signal, SignalBody};
use signalbox_protocol::app::{
    ErrorNotification, ServerNotification, ThreadArchivedNotification, ThreadClosedNotification,
    ThreadCommandsUpdatedNotification, ThreadConfigOptionsUpdatedNotification, ThreadDeletedNotification,
    ThreadModelsUpdatedNotification, ThreadNameUpdatedNotification, ThreadQueueChangedNotification,
    ThreadRevertedNotification, ThreadSettingsUpdatedNotification, ThreadStartedNotification,
    ThreadUnarchivedNotification, ThreadWorktreeDiscardedNotification, TurnError, WarningNotification,
};

use super::convert;
use super::effects::Scope;

/// What a fact says all by itself. `row` is the session with the fact taken in, `running` whether a turn is open.
pub(super) fn of_fact(
    body: &FactBody,
    row: &SessionRow,
    running: bool,
) -> Option<(Scope, ServerNotification)> {
    let thread_id = row.id.to_string();
    Some(match body {
        FactBody::SessionCreated(created) => {
            let thread = convert::thread_out(row, convert::status_out(&row.activity));
            (Scope::All, ThreadStartedNotification { thread, request_id: created.request_id.clone() }.into())
        }
        FactBody::TitleChanged(_) => (
            Scope::All,
            ThreadNameUpdatedNotification { thread_id, thread_name: convert::name_out(row) }.into(),
        ),
        FactBody::Archived { archived: true } => {
            (Scope::All, ThreadArchivedNotification { thread_id }.into())
        }
        FactBody::Archived { archived: false } => {
            (Scope::All, ThreadUnarchivedNotification { thread_id }.into())
        }
        FactBody::PolicyChanged(_) | FactBody::SettingsChanged(_) => {
            let thread_settings = convert::settings_out(row);
            (Scope::Subscribers, ThreadSettingsUpdatedNotification { thread_id, thread_settings }.into())
        }
        FactBody::Reverted(reverted) => {
            let before_turn_id = Some(reverted.before_turn.to_string());
            (Scope::Subscribers, ThreadRevertedNotification { thread_id, before_turn_id }.into())
        }
        FactBody::QueueChanged(_) => {
            (Scope::Subscribers, ThreadQueueChangedNotification { thread_id }.into())
        }
        FactBody::WorktreeDiscarded(discarded) => {
            let gone = ThreadWorktreeDiscardedNotification {
                thread_id,
                path: discarded.path.display().to_string(),
                removed_checkout: discarded.removed_checkout,
                deleted_branch: discarded.deleted_branch.clone(),
            };
            (Scope::All, gone.into())
        }
        // Existing clients take an `error` that will not be retried for the end of the turn they are watching.
        FactBody::Warning(warning) if warning.terminal && !running => {
            let error = TurnError {
                message: warning.message.clone(),
                code: convert::error_code(&warning.reason),
                reason: Some(warning.reason.clone()),
                ..TurnError::default()
            };
            let request_id = warning.request_id.clone();
            let turn_id = String::new();
            let error = ErrorNotification { thread_id, turn_id, error, will_retry: false, request_id };
            (Scope::Subscribers, error.into())
        }
        FactBody::Warning(warning) => {
            let (message, request_id) = (warning.message.clone(), warning.request_id.clone());
            let reason = Some(warning.reason.clone()).filter(|reason| !reason.is_empty());
            let thread_id = Some(thread_id);
            (Scope::Subscribers, WarningNotification { thread_id, message, request_id, reason }.into())
        }
        _ => return None,
    })
}

/// What a signal says all by itself.
pub(super) fn of_signal(signal: &Signal, row: &SessionRow) -> Option<(Scope, ServerNotification)> {
    let thread_id = row.id.to_string();
    Some(match &signal.body {
        SignalBody::Models { available, current } => {
            let data = available.iter().map(|model| convert::model_out(model, current, &row.provider));
            let (data, current) = (data.collect(), current.clone());
            (Scope::Subscribers, ThreadModelsUpdatedNotification { thread_id, data, current }.into())
        }
        SignalBody::ConfigOptions(options) => {
            let options = options.iter().map(signalbox_engine::project::config_option).collect();
            (Scope::Subscribers, ThreadConfigOptionsUpdatedNotification { thread_id, options }.into())
        }
        SignalBody::Commands(commands) => {
            let commands = commands.iter().map(convert::command_out).collect();
            (Scope::Subscribers, ThreadCommandsUpdatedNotification { thread_id, commands }.into())
        }
        SignalBody::RateLimits { limits, .. } => {
            (Scope::All, convert::rate_limits_out(thread_id, &row.provider, limits).into())
        }
        SignalBody::Stalled { since_ms: Some(_) } => {
            let message = "The agent has been silent for a while; the turn goes on.".to_owned();
            let thread_id = Some(thread_id);
            let reason = Some("agent_silent".to_owned());
            (Scope::Subscribers, WarningNotification { thread_id, message, request_id: None, reason }.into())
        }
        SignalBody::Deleted => (Scope::All, ThreadDeletedNotification { thread_id }.into()),
        SignalBody::Unloaded => (Scope::All, ThreadClosedNotification { thread_id }.into()),
        SignalBody::Stalled { since_ms: None } | SignalBody::ContextWindow(_) => return None,
    })
}

/// Whether a fact repeats what is known of the session; then nobody is told. `row` is the session before it.
pub(super) fn is_echo(body: &FactBody, row: &SessionRow) -> bool {
    match body {
        FactBody::TitleChanged(changed) => changed.title == row.title,
        FactBody::Activity(activity) => *activity == row.activity,
        FactBody::PolicyChanged(changed) => changed.policy == row.policy,
        FactBody::SettingsChanged(changed) => {
            let same = |new: &Option<String>, old: &Option<String>| new.is_none() || new == old;
            same(&changed.model, &row.model)
                && same(&changed.effort, &row.effort)
                && changed.cwd.as_ref().is_none_or(|cwd| *cwd == row.cwd)
                && changed.roots.as_ref().is_none_or(|roots| *roots == row.roots)
                && changed.options.iter().all(|(id, value)| row.options.get(id) == Some(value))
        }
        FactBody::Archived { archived } => *archived == row.archived,
        FactBody::QueueChanged(queue) => row.queue.as_ref() == Some(queue),
        _ => false,
    }
}
