//! Between the wire types of Op/Event and the domain's facts: both directions, side by side.

use std::collections::BTreeMap;

use signalbox_facts as facts;
use signalbox_protocol::ops;

/// Policy, from the wire.
#[must_use]
pub fn policy_in(policy: ops::Policy) -> facts::Policy {
    let mode = if policy.never_ask { facts::Mode::NeverAsk } else { mode_in(policy.mode) };
    facts::Policy { mode, sandbox: sandbox_in(policy.sandbox) }
}

/// Policy, to the wire. Op/Event has no word for asking nobody, so that is told beside the mode that comes nearest.
#[must_use]
pub fn policy_out(policy: facts::Policy) -> ops::Policy {
    ops::Policy {
        mode: match policy.mode {
            facts::Mode::Ask => ops::PermissionMode::Ask,
            facts::Mode::AcceptEdits => ops::PermissionMode::AcceptEdits,
            facts::Mode::Yolo => ops::PermissionMode::Yolo,
            facts::Mode::NeverAsk if policy.lets_agents_loose() => ops::PermissionMode::Yolo,
            facts::Mode::NeverAsk => ops::PermissionMode::AcceptEdits,
        },
        sandbox: match policy.sandbox {
            facts::Sandbox::ReadOnly => ops::SandboxLevel::ReadOnly,
            facts::Sandbox::WorkspaceWrite => ops::SandboxLevel::WorkspaceWrite,
            facts::Sandbox::DangerFullAccess => ops::SandboxLevel::DangerFullAccess,
        },
        never_ask: policy.mode == facts::Mode::NeverAsk,
    }
}

/// One axis, from the wire.
#[must_use]
pub fn mode_in(mode: ops::PermissionMode) -> facts::Mode {
    match mode {
        ops::PermissionMode::Ask => facts::Mode::Ask,
        ops::PermissionMode::AcceptEdits => facts::Mode::AcceptEdits,
        ops::PermissionMode::Yolo => facts::Mode::Yolo,
    }
}

/// The other axis, from the wire.
#[must_use]
pub fn sandbox_in(sandbox: ops::SandboxLevel) -> facts::Sandbox {
    match sandbox {
        ops::SandboxLevel::ReadOnly => facts::Sandbox::ReadOnly,
        ops::SandboxLevel::WorkspaceWrite => facts::Sandbox::WorkspaceWrite,
        ops::SandboxLevel::DangerFullAccess => facts::Sandbox::DangerFullAccess,
    }
}

/// A change of either axis over the policy in force.
#[must_use]
pub fn policy_patch_in(patch: ops::PolicyPatch, now: facts::Policy) -> facts::Policy {
    policy_in(patch.over(policy_out(now)))
}

/// A prompt's blocks, from the wire.
#[must_use]
pub fn doc_in(doc: Vec<ops::DocBlock>) -> Vec<facts::DocBlock> {
    doc.into_iter().map(block_in).collect()
}

fn block_in(block: ops::DocBlock) -> facts::DocBlock {
    match block {
        ops::DocBlock::Text { text, elements } => facts::DocBlock::Text {
            text,
            elements: elements
                .into_iter()
                .map(|span| facts::TextSpan {
                    start: span.start,
                    end: span.end,
                    placeholder: span.placeholder,
                })
                .collect(),
        },
        ops::DocBlock::Skill { skill_id, params, path } => facts::DocBlock::Skill { skill_id, params, path },
        ops::DocBlock::File { path, name } => facts::DocBlock::File { path, name },
        ops::DocBlock::Image { path, detail } => facts::DocBlock::Image { path, detail },
        ops::DocBlock::ImageUrl { url, detail } => facts::DocBlock::ImageUrl { url, detail },
        ops::DocBlock::Session { session_id } => facts::DocBlock::Session { session_id },
        ops::DocBlock::Issue { source, id, title, url, body } => {
            facts::DocBlock::Issue { source, id, title, url, body }
        }
        ops::DocBlock::Resource { uri, text, path, mime_type } => {
            facts::DocBlock::Resource { uri, text, path, mime_type }
        }
        ops::DocBlock::Context { source, value, kind } => {
            facts::DocBlock::Context { source, value, untrusted: kind == ops::ContextKind::Untrusted }
        }
    }
}

/// A prompt's blocks, to the wire.
#[must_use]
pub fn doc_out(doc: &[facts::DocBlock]) -> Vec<ops::DocBlock> {
    doc.iter().cloned().map(block_out).collect()
}

fn block_out(block: facts::DocBlock) -> ops::DocBlock {
    match block {
        facts::DocBlock::Text { text, elements } => ops::DocBlock::Text {
            text,
            elements: elements
                .into_iter()
                .map(|span| ops::TextSpan { start: span.start, end: span.end, placeholder: span.placeholder })
                .collect(),
        },
        facts::DocBlock::Skill { skill_id, params, path } => ops::DocBlock::Skill { skill_id, params, path },
        facts::DocBlock::File { path, name } => ops::DocBlock::File { path, name },
        facts::DocBlock::Image { path, detail } => ops::DocBlock::Image { path, detail },
        facts::DocBlock::ImageUrl { url, detail } => ops::DocBlock::ImageUrl { url, detail },
        facts::DocBlock::Session { session_id } => ops::DocBlock::Session { session_id },
        facts::DocBlock::Issue { source, id, title, url, body } => {
            ops::DocBlock::Issue { source, id, title, url, body }
        }
        facts::DocBlock::Resource { uri, text, path, mime_type } => {
            ops::DocBlock::Resource { uri, text, path, mime_type }
        }
        facts::DocBlock::Context { source, value, untrusted } => {
            let kind = if untrusted { ops::ContextKind::Untrusted } else { ops::ContextKind::Application };
            ops::DocBlock::Context { source, value, kind }
        }
    }
}

/// Additional context of a turn, from the wire.
#[must_use]
pub fn context_in(
    entries: BTreeMap<String, ops::ContextEntry>,
) -> BTreeMap<String, facts::AdditionalContext> {
    let context = |entry: ops::ContextEntry| facts::AdditionalContext {
        value: entry.value,
        untrusted: entry.kind == ops::ContextKind::Untrusted,
    };
    entries.into_iter().map(|(source, entry)| (source, context(entry))).collect()
}

/// Additional context of a turn, to the wire.
#[must_use]
pub fn context_out(
    entries: BTreeMap<String, facts::AdditionalContext>,
) -> BTreeMap<String, ops::ContextEntry> {
    let entry = |context: facts::AdditionalContext| ops::ContextEntry {
        value: context.value,
        kind: if context.untrusted { ops::ContextKind::Untrusted } else { ops::ContextKind::Application },
    };
    entries.into_iter().map(|(source, context)| (source, entry(context))).collect()
}

/// Activity, to the wire.
#[must_use]
pub fn activity_out(activity: &facts::Activity) -> ops::Activity {
    let state = match &activity.state {
        facts::ActivityState::Idle => ops::ActivityState::Idle,
        facts::ActivityState::Running { turn_id, prompt_request_id } => ops::ActivityState::Running {
            turn_id: turn_id.to_string(),
            prompt_request_id: prompt_request_id.clone(),
        },
        facts::ActivityState::AwaitingInput { turn_id, prompt_request_id, pending } => {
            ops::ActivityState::AwaitingInput {
                turn_id: turn_id.to_string(),
                prompt_request_id: prompt_request_id.clone(),
                pending: pending.iter().map(pending_out).collect(),
            }
        }
        facts::ActivityState::Failed { turn_id, reason, message } => ops::ActivityState::Failed {
            turn_id: turn_id.map(|turn| turn.to_string()),
            reason: match reason {
                facts::FailedReason::Interrupted => ops::FailureReason::Interrupted,
                facts::FailedReason::ProviderError => ops::FailureReason::ProviderError,
            },
            message: message.clone(),
        },
    };
    ops::Activity { revision: activity.revision, state }
}

fn pending_out(input: &facts::PendingInput) -> ops::PendingInput {
    ops::PendingInput {
        input_id: input.id.to_string(),
        kind: match input.kind {
            facts::InputKind::Permission => ops::PendingKind::Permission,
            facts::InputKind::Elicitation => ops::PendingKind::Elicitation,
        },
        title: input.title.clone(),
        options: option_pairs(&input.options),
        option_kinds: option_kinds(&input.options),
        sequence: input.sequence,
        form: input.form.as_ref().map(|form| form_out(form, input.tool_call.clone())),
    }
}

/// `[id, label]` pairs in the agent's order.
#[must_use]
pub fn option_pairs(options: &[facts::PermissionOption]) -> Vec<(String, String)> {
    options.iter().map(|option| (option.id.clone(), option.label.clone())).collect()
}

/// ACP kinds by option id.
#[must_use]
pub fn option_kinds(options: &[facts::PermissionOption]) -> BTreeMap<String, String> {
    options.iter().map(|option| (option.id.clone(), option_kind(&option.kind).to_owned())).collect()
}

/// ACP's word for an option kind.
#[must_use]
pub fn option_kind(kind: &facts::OptionKind) -> &str {
    match kind {
        facts::OptionKind::AllowOnce => "allow_once",
        facts::OptionKind::AllowAlways => "allow_always",
        facts::OptionKind::RejectOnce => "reject_once",
        facts::OptionKind::RejectAlways => "reject_always",
        facts::OptionKind::Other(other) => other,
    }
}

/// A question's form, to the wire.
#[must_use]
pub fn form_out(form: &facts::Form, tool_call_id: Option<String>) -> ops::Form {
    let field = |field: &facts::FormField| ops::FormField {
        key: field.key.clone(),
        kind: match field.kind {
            facts::FieldKind::Text => ops::FormFieldKind::Text,
            facts::FieldKind::Number => ops::FormFieldKind::Number,
            facts::FieldKind::Integer => ops::FormFieldKind::Integer,
            facts::FieldKind::Boolean => ops::FormFieldKind::Boolean,
            facts::FieldKind::Select => ops::FormFieldKind::Select,
            facts::FieldKind::MultiSelect => ops::FormFieldKind::MultiSelect,
        },
        title: field.title.clone(),
        description: field.description.clone(),
        required: field.required,
        options: field
            .options
            .iter()
            .map(|option| ops::FormOption {
                value: option.value.clone(),
                label: option.label.clone(),
                description: option.description.clone(),
                preview: None,
            })
            .collect(),
        custom_answer_for: field.other_of.clone(),
        default: field.default.clone(),
        min: field.min.clone(),
        max: field.max.clone(),
        pattern: field.pattern.clone(),
        format: field.format.clone(),
    };
    ops::Form {
        message: form.message.clone(),
        tool_call_id,
        fields: form.fields.iter().map(field).collect(),
        url: form.link.as_ref().map(|link| link.url.clone()),
    }
}

/// Instructions for an agent, from the wire: both kinds in one text.
#[must_use]
pub fn instructions_in(base: Option<String>, developer: Option<String>) -> Option<String> {
    let texts: Vec<_> = [base, developer].into_iter().flatten().collect();
    (!texts.is_empty()).then(|| texts.join("\n\n"))
}

/// What made a session, from the wire.
#[must_use]
pub fn source_in(source: &str) -> facts::SessionSource {
    if source == "cli" { facts::SessionSource::Cli } else { facts::SessionSource::App }
}

/// A worktree's baseline, to the wire.
#[must_use]
pub fn baseline_out(baseline: &facts::WorktreeBaseline) -> ops::WorktreeBaseline {
    ops::WorktreeBaseline {
        kind: match baseline.kind.as_str() {
            "origin_default" => ops::BaselineKind::OriginDefault,
            _ => ops::BaselineKind::Current,
        },
        reference: baseline.reference.clone(),
        sha: baseline.sha.clone(),
        display: baseline.display.clone(),
    }
}

/// How the agent of a fork knows what was said before, to the wire.
#[must_use]
pub fn fork_context_out(context: facts::ForkContext) -> ops::ForkContext {
    match context {
        facts::ForkContext::Agent => ops::ForkContext::Agent,
        facts::ForkContext::History => ops::ForkContext::History,
    }
}

/// A session rule, to the wire.
#[must_use]
pub fn rule_out(rule: &facts::SessionRule) -> ops::SessionRule {
    match rule {
        facts::SessionRule::Command { command } => ops::SessionRule::Command { command: command.clone() },
        facts::SessionRule::Edits { root } => ops::SessionRule::Edits { root: root.display().to_string() },
    }
}

/// A session rule, from the wire.
#[must_use]
pub fn rule_in(rule: ops::SessionRule) -> facts::SessionRule {
    match rule {
        ops::SessionRule::Command { command } => facts::SessionRule::Command { command },
        ops::SessionRule::Edits { root } => facts::SessionRule::Edits { root: root.into() },
    }
}

/// Who resolved an approval, to the wire.
#[must_use]
pub fn resolver_out(by: &facts::ResolvedBy) -> ops::Resolver {
    ops::Resolver {
        kind: match by.kind {
            facts::ResolverKind::Client => ops::ResolverKind::Client,
            facts::ResolverKind::Policy => ops::ResolverKind::Policy,
            facts::ResolverKind::Interrupt => ops::ResolverKind::Interrupt,
            facts::ResolverKind::Restart => ops::ResolverKind::Restart,
            facts::ResolverKind::Unattended => ops::ResolverKind::Unattended,
            facts::ResolverKind::Agent => ops::ResolverKind::Agent,
        },
        name: by.name.clone(),
    }
}

/// The queue, to the wire.
#[must_use]
pub fn queue_out(queue: &facts::QueueChanged) -> Vec<ops::QueuedPrompt> {
    let entry = |queued: &facts::QueuedPrompt| ops::QueuedPrompt {
        id: queued.turn.to_string(),
        doc: doc_out(&queued.blocks),
        client_message_id: queued.client_message_id.clone(),
        client_metadata: queued.client_metadata.clone(),
        request_id: queued.request_id.clone(),
    };
    queue.entries.iter().map(entry).collect()
}

/// A session as the Op/Event protocol lists it.
#[must_use]
pub fn snapshot_out(row: &facts::SessionRow) -> ops::SessionSnapshot {
    let policy = policy_out(row.policy);
    ops::SessionSnapshot {
        id: row.id.to_string(),
        title: if row.title.is_empty() { "Untitled session".to_owned() } else { row.title.clone() },
        title_origin: match row.title_origin {
            facts::TitleOrigin::Default => ops::TitleOrigin::Default,
            facts::TitleOrigin::Automatic | facts::TitleOrigin::Agent => ops::TitleOrigin::Automatic,
            facts::TitleOrigin::Manual => ops::TitleOrigin::Manual,
        },
        pinned: false,
        archived: row.archived,
        activity: activity_out(&row.activity),
        provider: ops::Provider::from_name(row.provider.as_str()),
        model: row.model.clone(),
        project_path: Some(row.project_path.display().to_string()),
        cwd: row.cwd.display().to_string(),
        roots: row.roots.iter().map(|root| root.display().to_string()).collect(),
        worktree_path: row.worktree.as_ref().map(|worktree| worktree.path.display().to_string()),
        worktree_baseline: row.worktree.as_ref().map(|worktree| baseline_out(&worktree.baseline)),
        worktree_discarded: row.worktree_discarded,
        permission_mode: policy.mode,
        sandbox_policy: policy.sandbox,
        never_ask: policy.never_ask,
        rules: row.rules.iter().map(rule_out).collect(),
        acp_session_id: row.agent_session.clone(),
        forked_from: row.forked_from.map(|session| session.to_string()),
        memory_read: ops::MemoryAccess::default(),
        memory_write: ops::MemoryAccess::default(),
        created_at: row.created_at_ms,
        updated_at: row.updated_at_ms,
    }
}

/// A session whose row cannot be read, so that nobody thinks it is gone.
#[must_use]
pub fn unreadable_out(id: facts::SessionId, reason: &str) -> ops::SessionSnapshot {
    let policy = ops::Policy::default();
    ops::SessionSnapshot {
        id: id.to_string(),
        title: "Unreadable session".to_owned(),
        title_origin: ops::TitleOrigin::Default,
        pinned: false,
        archived: false,
        activity: ops::Activity {
            revision: 0,
            state: ops::ActivityState::Failed {
                turn_id: None,
                reason: ops::FailureReason::Unreadable,
                message: format!("The session's row cannot be read: {reason}"),
            },
        },
        provider: ops::Provider::Custom("unknown".to_owned()),
        model: None,
        project_path: None,
        cwd: String::new(),
        roots: Vec::new(),
        worktree_path: None,
        worktree_baseline: None,
        worktree_discarded: false,
        permission_mode: policy.mode,
        sandbox_policy: policy.sandbox,
        never_ask: policy.never_ask,
        rules: Vec::new(),
        acp_session_id: None,
        forked_from: None,
        memory_read: ops::MemoryAccess::default(),
        memory_write: ops::MemoryAccess::default(),
        created_at: 0,
        updated_at: 0,
    }
}
