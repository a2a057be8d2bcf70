//! The Op/Event projections: a fact or signal as an `Event`, a fact as a transcript entry. Pure.

use signalbox_facts::{
    AgentText, Committed, ConfigValue, Fact, FactBody, Failure, PlanEntry, SettingsChanged, Signal,
    SignalBody, ToolCall, TurnEnded, TurnStatus,
};
use signalbox_protocol::ops::{self, Event, Part, Role, TranscriptEntry};

use crate::convert;

/// Bytes of the end of an agent's stderr in the message of an error.
const MAX_LAST_WORDS: usize = 1 << 10;

/// What the Op/Event protocol tells of something committed; `None` for what it does not know (command output, the
/// agent's session id).
#[must_use]
pub fn event(committed: &Committed) -> Option<Event> {
    match committed {
        Committed::Fact(fact) => fact_event(fact),
        Committed::Signal(signal) => signal_event(signal),
    }
}

fn fact_event(fact: &Fact) -> Option<Event> {
    let session = fact.session.to_string();
    let transcript_seq = Some(fact.seq);
    let turn_id = fact.turn.map(|turn| turn.to_string());
    Some(match &fact.body {
        FactBody::SessionCreated(created) => Event::SessionCreated {
            session,
            cwd: created.cwd.display().to_string(),
            project_path: Some(created.project_path.display().to_string()),
            worktree_path: created.worktree.as_ref().map(|worktree| worktree.path.display().to_string()),
            worktree_baseline: created
                .worktree
                .as_ref()
                .map(|worktree| convert::baseline_out(&worktree.baseline)),
            forked_from: created.forked_from.map(|session| session.to_string()),
            fork_context: created.fork_context.map(convert::fork_context_out),
            request_id: created.request_id.clone(),
        },
        FactBody::TitleChanged(changed) => {
            Event::SessionTitleChanged { session, title: changed.title.clone() }
        }
        FactBody::Activity(activity) => {
            Event::SessionActivityChanged { session, activity: convert::activity_out(activity) }
        }
        FactBody::Prompt(prompt) if prompt.opens.is_some() => {
            Event::TurnStarted { session, request_id: prompt.request_id.clone(), transcript_seq }
        }
        FactBody::Prompt(prompt) => {
            Event::PromptSteered { session, turn_id, request_id: prompt.request_id.clone(), transcript_seq }
        }
        FactBody::AgentText(AgentText { message_id, text }) => {
            Event::AgentText { session, message_id: message_id.clone(), text: text.clone(), transcript_seq }
        }
        FactBody::AgentThought(AgentText { text, .. }) => {
            Event::AgentThought { session, text: text.clone(), transcript_seq }
        }
        FactBody::ToolCall(call) => Event::ToolCall {
            session,
            id: call.id.clone(),
            title: call.title.clone(),
            status: call.status.as_str().to_owned(),
            kind: call.kind.clone(),
            agent_input: call.agent_input.clone(),
            transcript_seq,
        },
        FactBody::Plan(plan) => Event::Plan { session, entries: plan_lines(&plan.entries), transcript_seq },
        FactBody::PermissionRequested(input) => match &input.form {
            Some(form) => Event::ElicitationRequest {
                session,
                request_id: input.id.to_string(),
                form: convert::form_out(form, input.tool_call.clone()),
            },
            None => Event::PermissionRequest {
                session,
                request_id: input.id.to_string(),
                title: input.title.clone(),
                options: convert::option_pairs(&input.options),
                option_kinds: convert::option_kinds(&input.options),
                tool_call_id: input.tool_call.clone(),
            },
        },
        FactBody::PermissionResolved(resolved) => Event::PermissionResolved {
            session,
            request_id: resolved.input.to_string(),
            option_id: resolved.option_id.clone(),
            by: convert::resolver_out(&resolved.by),
            rule: resolved.rule.clone(),
            action: None,
            title: Some(resolved.title.clone()),
            tool_call_id: resolved.tool_call.clone(),
            kept_rule: resolved.kept_rule.as_ref().map(convert::rule_out),
        },
        FactBody::RuleRemoved { rule } => Event::RuleRemoved { session, rule: convert::rule_out(rule) },
        FactBody::PolicyChanged(changed) => Event::ExecutionPolicyChanged {
            session,
            policy: convert::policy_out(changed.policy),
            request_id: changed.request_id.clone(),
        },
        FactBody::SettingsChanged(changed) => settings_changed(session, changed),
        FactBody::TurnDiff(diff) => Event::TurnDiff {
            session,
            diff: diff.diff.clone(),
            truncated: diff.truncated,
            partial: diff.partial,
            turn_id,
            transcript_seq,
        },
        FactBody::Usage(usage) => Event::Usage {
            session,
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
            rate_limits: Vec::new(),
        },
        FactBody::TurnEnded(ended) => turn_ended(session, ended),
        FactBody::Warning(warning) => Event::Error {
            session: Some(session),
            message: warning.message.clone(),
            terminal: warning.terminal,
            request_id: warning.request_id.clone(),
            reason: Some(warning.reason.clone()),
        },
        FactBody::Reverted(reverted) => Event::SessionReverted {
            session,
            before_turn: reverted.before_turn.to_string(),
            through_seq: fact.seq,
            request_id: reverted.request_id.clone(),
        },
        FactBody::Archived { archived } => Event::SessionArchived { session, archived: *archived },
        FactBody::QueueChanged(queue) => Event::QueueChanged {
            session,
            queue: convert::queue_out(queue),
            paused: queue.paused,
            request_id: queue.request_id.clone(),
        },
        FactBody::WorktreeDiscarded(discarded) => Event::WorktreeDiscarded {
            session,
            worktree_path: discarded.path.display().to_string(),
            removed_checkout: discarded.removed_checkout,
            deleted_branch: discarded.deleted_branch.clone(),
        },
        FactBody::ToolOutput(_) | FactBody::AgentSession { .. } | FactBody::ContextCompaction(_) => {
            return None;
        }
    })
}

fn settings_changed(session: String, changed: &SettingsChanged) -> Event {
    let word = |value: &serde_json::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    Event::SettingsChanged {
        session,
        model: changed.model.clone(),
        effort: changed.effort.clone(),
        cwd: changed.cwd.as_ref().map(|cwd| cwd.display().to_string()),
        roots: changed
            .roots
            .as_ref()
            .map(|roots| roots.iter().map(|root| root.display().to_string()).collect()),
        config_options: changed.options.iter().map(|(id, value)| (id.clone(), word(value))).collect(),
        request_id: changed.request_id.clone(),
    }
}

/// A turn that failed ends with a terminal error; every other one with its stop reason.
fn turn_ended(session: String, ended: &TurnEnded) -> Event {
    match &ended.failure {
        Some(failure) if ended.status != TurnStatus::Completed => Event::Error {
            session: Some(session),
            message: told(failure),
            terminal: true,
            request_id: ended.request_id.clone(),
            reason: Some(failure.reason.clone()),
        },
        _ => {
            let fallback = if ended.status == TurnStatus::Interrupted { "cancelled" } else { "end_turn" };
            let stop_reason = ended.stop_reason.clone().unwrap_or_else(|| fallback.to_owned());
            Event::TurnEnded { session, stop_reason }
        }
    }
}

/// What went wrong, with the last words of the agent: the event has no other place for them.
fn told(failure: &Failure) -> String {
    let tail =
        failure.data.get("stderrTail").and_then(serde_json::Value::as_str).unwrap_or_default().trim_end();
    let from = tail.floor_char_boundary(tail.len().saturating_sub(MAX_LAST_WORDS));
    match tail.get(from..).filter(|words| !words.is_empty()) {
        Some(words) => format!("{}\n{words}", failure.message),
        None => failure.message.clone(),
    }
}

fn signal_event(signal: &Signal) -> Option<Event> {
    let session = signal.session.to_string();
    Some(match &signal.body {
        SignalBody::Models { available, current } => Event::Models {
            session,
            available: available
                .iter()
                .map(|model| ops::ModelChoice {
                    id: model.id.clone(),
                    name: model.name.clone(),
                    description: model.description.clone(),
                })
                .collect(),
            current: current.clone(),
        },
        SignalBody::ConfigOptions(options) => {
            Event::ConfigOptions { session, options: options.iter().map(config_option).collect() }
        }
        // The Op/Event protocol has no word for them.
        SignalBody::Commands(_) => return None,
        SignalBody::ContextWindow(window) => Event::ContextWindow {
            session,
            used_tokens: window.used_tokens,
            context_window: window.size_tokens,
            cost_usd: window.cost_usd,
        },
        SignalBody::RateLimits { limits, usage } => Event::Usage {
            session,
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
            rate_limits: limits
                .iter()
                .map(|limit| ops::RateLimit {
                    name: limit.name.clone(),
                    used_percent: limit.used_percent,
                    window_minutes: limit.window_minutes,
                    resets_at: limit.resets_at,
                })
                .collect(),
        },
        SignalBody::Stalled { since_ms: Some(_) } => Event::Error {
            session: Some(session),
            message: "The agent has been silent for a while; the turn goes on.".to_owned(),
            terminal: false,
            request_id: None,
            reason: Some("agent_silent".to_owned()),
        },
        SignalBody::Stalled { since_ms: None } => return None,
        SignalBody::Deleted => Event::SessionClosed { session, reason: ops::CloseReason::Deleted },
        SignalBody::Unloaded => Event::SessionClosed { session, reason: ops::CloseReason::Unloaded },
    })
}

/// An agent option on the wire; booleans become a choice between `true` and `false`.
#[must_use]
pub fn config_option(option: &signalbox_facts::ConfigOption) -> ops::ConfigOption {
    let switch = |id: &str, name: &str| ops::ConfigChoice {
        id: id.to_owned(),
        name: name.to_owned(),
        description: None,
        group: None,
    };
    let choice = |one: &signalbox_facts::Choice| ops::ConfigChoice {
        id: one.id.clone(),
        name: one.name.clone(),
        description: one.description.clone(),
        group: one.group.clone(),
    };
    let (current, choices) = match &option.current {
        ConfigValue::Flag(flag) => (flag.to_string(), vec![switch("true", "On"), switch("false", "Off")]),
        ConfigValue::Choice(current) => (current.clone(), option.choices.iter().map(choice).collect()),
    };
    ops::ConfigOption {
        id: option.id.clone(),
        name: option.name.clone(),
        category: option.category.clone(),
        current,
        choices,
        description: option.description.clone(),
        fixed: option.fixed,
    }
}

/// A fact as an entry of the transcript; `None` for facts that are not part of it.
#[must_use]
pub fn entry(fact: &Fact) -> Option<TranscriptEntry> {
    let (role, continues, part) = match &fact.body {
        FactBody::Prompt(prompt) if prompt.is_legacy() => {
            (Role::User, false, Part::Text { text: prompt.text.clone(), message_id: None })
        }
        FactBody::Prompt(prompt) => (
            Role::User,
            prompt.opens.is_none(),
            Part::Prompt { text: prompt.text.clone(), display: prompt.display.clone() },
        ),
        FactBody::AgentText(AgentText { message_id, text }) => {
            let message_id = Some(message_id.clone()).filter(|id| !id.is_empty());
            (Role::Agent, false, Part::Text { text: text.clone(), message_id })
        }
        FactBody::AgentThought(text) => (Role::Agent, false, Part::Reasoning { text: text.text.clone() }),
        FactBody::ToolCall(call) => (Role::Agent, false, tool_part(call)),
        FactBody::Plan(plan) => (Role::Agent, false, Part::Plan { entries: plan_lines(&plan.entries) }),
        _ => return None,
    };
    let through_seq = (fact.through_seq > fact.seq).then_some(fact.through_seq);
    Some(TranscriptEntry { seq: fact.seq, role, part, through_seq, continues })
}

fn tool_part(call: &ToolCall) -> Part {
    Part::ToolCall {
        id: call.id.clone(),
        title: call.title.clone(),
        status: call.status.as_str().to_owned(),
        tool_kind: call.kind.clone(),
        agent_input: call.agent_input.clone(),
    }
}

fn plan_lines(entries: &[PlanEntry]) -> Vec<String> {
    entries.iter().map(|entry| entry.content.clone()).collect()
}
