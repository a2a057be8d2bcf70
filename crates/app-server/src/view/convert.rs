//! Between the app-server's wire types and the core's: both directions, side by side. Pure. What client answers become
//! is in `answer.rs`.

use std::path::Path;

use serde_json::{Value, json};
use signalbox_engine::convert as core;
use signalbox_facts as facts;
use signalbox_protocol::{app, ops};

/// What is said of a call that its turn's end has closed.
pub(super) const UNFINISHED: &str = "The turn ended before the call did.";

/// An item's id on the wire.
#[must_use]
pub fn item_id(seq: facts::Seq) -> String {
    format!("i{seq}")
}

/// The first seq of the item with this wire id.
#[must_use]
pub fn item_seq(id: &str) -> Option<facts::Seq> {
    id.strip_prefix('i')?.parse().ok()
}

/// A path on the wire.
pub(super) fn path(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Milliseconds as the Unix seconds of threads and turns.
fn seconds(at_ms: i64) -> i64 {
    at_ms.div_euclid(1000)
}

// ---- Policy ----

/// The pair behind an existing client's approval policy and sandbox; what is absent stays as it is.
///
/// `untrusted` and `granular` ask, `on-request` accepts edits, `never` asks nobody.
#[must_use]
pub fn policy_in(
    approval: Option<app::AskForApproval>,
    sandbox: Option<facts::Sandbox>,
    now: facts::Policy,
) -> facts::Policy {
    let sandbox = sandbox.unwrap_or(now.sandbox);
    let mode = match approval {
        None => now.mode,
        Some(app::AskForApproval::Untrusted | app::AskForApproval::Granular(_)) => facts::Mode::Ask,
        Some(app::AskForApproval::OnRequest) => facts::Mode::AcceptEdits,
        // What allows everything is told to existing clients as "never"; said back, it changes nothing.
        Some(app::AskForApproval::Never) if now.mode == facts::Mode::Yolo => facts::Mode::Yolo,
        Some(app::AskForApproval::Never) => facts::Mode::NeverAsk,
    };
    facts::Policy { mode, sandbox }
}

/// The approval policy that an existing client would call it.
#[must_use]
pub fn approval_policy_out(policy: facts::Policy) -> app::AskForApproval {
    match policy.mode {
        facts::Mode::Ask => app::AskForApproval::Untrusted,
        facts::Mode::AcceptEdits => app::AskForApproval::OnRequest,
        facts::Mode::Yolo | facts::Mode::NeverAsk => app::AskForApproval::Never,
    }
}

/// A sandbox by name, from the wire.
#[must_use]
pub fn sandbox_mode_in(mode: app::SandboxMode) -> facts::Sandbox {
    match mode {
        app::SandboxMode::ReadOnly => facts::Sandbox::ReadOnly,
        app::SandboxMode::WorkspaceWrite => facts::Sandbox::WorkspaceWrite,
        app::SandboxMode::DangerFullAccess => facts::Sandbox::DangerFullAccess,
    }
}

/// A sandbox in detail, from the wire. A client that brings its own containment wants no ceiling from us.
#[must_use]
pub fn sandbox_policy_in(policy: &app::SandboxPolicy) -> facts::Sandbox {
    match policy {
        app::SandboxPolicy::ReadOnly { .. } => facts::Sandbox::ReadOnly,
        app::SandboxPolicy::WorkspaceWrite { .. } => facts::Sandbox::WorkspaceWrite,
        app::SandboxPolicy::DangerFullAccess | app::SandboxPolicy::ExternalSandbox { .. } => {
            facts::Sandbox::DangerFullAccess
        }
    }
}

/// A sandbox in detail, to the wire. The network is open, because nothing here closes it.
#[must_use]
pub fn sandbox_policy_out(sandbox: facts::Sandbox, roots: &[std::path::PathBuf]) -> app::SandboxPolicy {
    match sandbox {
        facts::Sandbox::ReadOnly => app::SandboxPolicy::ReadOnly { network_access: true },
        facts::Sandbox::WorkspaceWrite => app::SandboxPolicy::WorkspaceWrite {
            writable_roots: roots.iter().map(|root| path(root)).collect(),
            network_access: true,
            exclude_tmpdir_env_var: true,
            exclude_slash_tmp: true,
        },
        facts::Sandbox::DangerFullAccess => app::SandboxPolicy::DangerFullAccess,
    }
}

// ---- Input ----

/// Why a turn's input cannot be taken.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum InputError {
    /// There is nothing in it.
    #[error("the input is empty")]
    Empty,
    /// A block of it is of a kind that agents cannot be given.
    #[error("input[{index}]: {what}")]
    Block {
        /// Its place.
        index: usize,
        /// What is wrong with it.
        what: &'static str,
    },
}

/// What a user sends, from the wire.
///
/// # Errors
/// If it is empty or blank, or holds something that agents cannot be given.
pub fn input_in(input: Vec<app::UserInput>) -> Result<Vec<ops::DocBlock>, InputError> {
    let is_blank =
        |block: &app::UserInput| matches!(block, app::UserInput::Text { text, .. } if text.trim().is_empty());
    if input.iter().all(is_blank) {
        return Err(InputError::Empty);
    }
    input
        .into_iter()
        .enumerate()
        .map(|(index, block)| block_in(block).map_err(|what| InputError::Block { index, what }))
        .collect()
}

fn block_in(block: app::UserInput) -> Result<ops::DocBlock, &'static str> {
    Ok(match block {
        app::UserInput::Text { text, text_elements } => {
            let span = |element: app::TextElement| ops::TextSpan {
                start: element.byte_range.start,
                end: element.byte_range.end,
                placeholder: element.placeholder,
            };
            ops::DocBlock::Text { text, elements: text_elements.into_iter().map(span).collect() }
        }
        app::UserInput::Image { url: Some(url), detail, .. } => {
            ops::DocBlock::ImageUrl { url, detail: detail.map(|detail| detail_out(detail).to_owned()) }
        }
        app::UserInput::Image { url: None, .. } => {
            return Err("an image needs a url; there is no file store");
        }
        app::UserInput::LocalImage { path, detail } => {
            ops::DocBlock::Image { path, detail: detail.map(|detail| detail_out(detail).to_owned()) }
        }
        app::UserInput::Audio { .. } | app::UserInput::LocalAudio { .. } => {
            return Err("agents take no audio");
        }
        app::UserInput::Skill { name, path } => ops::DocBlock::Skill {
            skill_id: name,
            params: std::collections::BTreeMap::new(),
            path: (!path.is_empty()).then_some(path),
        },
        app::UserInput::Mention { name, path } => ops::DocBlock::File { path, name: Some(name) },
        app::UserInput::Chat { thread_id } => ops::DocBlock::Session { session_id: thread_id },
        app::UserInput::Resource { uri, text, path, mime_type } => {
            ops::DocBlock::Resource { uri, text, path, mime_type }
        }
    })
}

/// What a user sent, to the wire. Context that a client added beside it is not part of it.
#[must_use]
pub fn input_out(blocks: &[facts::DocBlock]) -> Vec<app::UserInput> {
    blocks.iter().filter_map(block_out).collect()
}

fn block_out(block: &facts::DocBlock) -> Option<app::UserInput> {
    Some(match block.clone() {
        facts::DocBlock::Text { text, elements } => {
            let element = |span: facts::TextSpan| app::TextElement {
                byte_range: app::ByteRange { start: span.start, end: span.end },
                placeholder: span.placeholder,
            };
            app::UserInput::Text { text, text_elements: elements.into_iter().map(element).collect() }
        }
        facts::DocBlock::Skill { skill_id, path, .. } => {
            app::UserInput::Skill { name: skill_id, path: path.unwrap_or_default() }
        }
        facts::DocBlock::File { path, name } => {
            app::UserInput::Mention { name: name.unwrap_or_else(|| path.clone()), path }
        }
        facts::DocBlock::Image { path, detail } => {
            app::UserInput::LocalImage { path, detail: detail.as_deref().and_then(detail_in) }
        }
        facts::DocBlock::ImageUrl { url, detail } => app::UserInput::Image {
            url: Some(url),
            file_id: None,
            detail: detail.as_deref().and_then(detail_in),
        },
        facts::DocBlock::Session { session_id } => app::UserInput::Chat { thread_id: session_id },
        // Only the Op/Event face has tickets; here they are shown by what the prompt's text says of them.
        issue @ facts::DocBlock::Issue { .. } => {
            app::UserInput::Text { text: facts::canonical_text(&[issue]), text_elements: Vec::new() }
        }
        facts::DocBlock::Resource { uri, text, path, mime_type } => {
            app::UserInput::Resource { uri, text, path, mime_type }
        }
        facts::DocBlock::Context { .. } => return None,
    })
}

fn detail_in(word: &str) -> Option<app::ImageDetail> {
    match word {
        "auto" => Some(app::ImageDetail::Auto),
        "low" => Some(app::ImageDetail::Low),
        "high" => Some(app::ImageDetail::High),
        "original" => Some(app::ImageDetail::Original),
        _ => None,
    }
}

fn detail_out(detail: app::ImageDetail) -> &'static str {
    match detail {
        app::ImageDetail::Auto => "auto",
        app::ImageDetail::Low => "low",
        app::ImageDetail::High => "high",
        app::ImageDetail::Original => "original",
    }
}

// ---- Threads, to the wire only ----

/// A thread as lists and notifications have it, without turns. `status` is `notLoaded` for one that is not in memory.
#[must_use]
pub fn thread_out(row: &facts::SessionRow, status: app::ThreadStatus) -> app::Thread {
    let worktree = row.worktree.as_ref().filter(|_| !row.worktree_discarded);
    app::Thread {
        id: row.id.to_string(),
        session_id: row.id.to_string(),
        preview: row.preview.clone(),
        name: name_out(row),
        status,
        created_at: seconds(row.created_at_ms),
        updated_at: seconds(row.updated_at_ms),
        recency_at: Some(seconds(row.updated_at_ms)),
        cwd: path(&row.cwd),
        model_provider: row.provider.to_string(),
        model: row.model.clone(),
        reasoning_effort: row.effort.clone(),
        source: match row.source {
            facts::SessionSource::Cli => app::SessionSource::Cli,
            facts::SessionSource::App => app::SessionSource::Vscode,
        },
        thread_source: None,
        originator: None,
        cli_version: env!("CARGO_PKG_VERSION").to_owned(),
        ephemeral: row.ephemeral,
        history_mode: app::ThreadHistoryMode::Legacy,
        forked_from_id: row.forked_from.map(|session| session.to_string()),
        parent_thread_id: None,
        path: None,
        project_id: None,
        git_info: worktree.map(|worktree| app::GitInfo {
            sha: Some(worktree.baseline.sha.clone()),
            branch: Some(worktree.branch.clone()),
            origin_url: None,
        }),
        turns: Vec::new(),
        project_path: Some(path(&row.project_path)),
        worktree: worktree.map(|worktree| app::ThreadWorktree {
            path: path(&worktree.path),
            branch: Some(worktree.branch.clone()),
            baseline: Some(core::baseline_out(&worktree.baseline)),
        }),
        policy: core::policy_out(row.policy),
        activity: core::activity_out(&row.activity),
        roots: row.all_roots().iter().map(|root| path(root)).collect(),
        archived: row.archived,
    }
}

/// A thread's title, once it has one.
#[must_use]
pub fn name_out(row: &facts::SessionRow) -> Option<String> {
    (!row.title.is_empty()).then(|| row.title.clone())
}

/// What an activity is to existing clients.
#[must_use]
pub fn status_out(activity: &facts::Activity) -> app::ThreadStatus {
    match &activity.state {
        facts::ActivityState::Idle => app::ThreadStatus::Idle,
        facts::ActivityState::Failed { .. } => app::ThreadStatus::SystemError,
        facts::ActivityState::Running { .. } | facts::ActivityState::AwaitingInput { .. } => {
            let waits = |kind| activity.pending().iter().any(|input| input.kind == kind);
            let mut active_flags = Vec::new();
            if waits(facts::InputKind::Permission) {
                active_flags.push(app::ThreadActiveFlag::WaitingOnApproval);
            }
            if waits(facts::InputKind::Elicitation) {
                active_flags.push(app::ThreadActiveFlag::WaitingOnUserInput);
            }
            app::ThreadStatus::Active { active_flags }
        }
    }
}

/// What a thread's model is called while it is left to the agent.
pub const DEFAULT_MODEL: &str = "default";

/// The settings of a thread as they stand.
#[must_use]
pub fn settings_out(row: &facts::SessionRow) -> app::ThreadSettings {
    let model = row.model.clone().unwrap_or_else(|| DEFAULT_MODEL.to_owned());
    app::ThreadSettings {
        cwd: path(&row.cwd),
        model: model.clone(),
        model_provider: row.provider.to_string(),
        effort: row.effort.clone(),
        summary: None,
        service_tier: None,
        personality: None,
        approval_policy: approval_policy_out(row.policy),
        approvals_reviewer: app::ApprovalsReviewer::User,
        sandbox_policy: sandbox_policy_out(row.policy.sandbox, &row.all_roots()),
        collaboration_mode: app::CollaborationMode {
            mode: app::ModeKind::Default,
            settings: app::CollaborationSettings {
                model,
                reasoning_effort: row.effort.clone(),
                developer_instructions: row.instructions.clone(),
            },
        },
        policy: core::policy_out(row.policy),
    }
}

/// A slash command an agent offers.
#[must_use]
pub fn command_out(command: &facts::Command) -> app::AgentCommand {
    app::AgentCommand {
        name: command.name.clone(),
        description: command.description.clone(),
        hint: command.hint.clone(),
    }
}

/// A model an agent offers.
#[must_use]
pub fn model_out(model: &facts::Model, current: &str, provider: &facts::Provider) -> app::Model {
    app::Model {
        id: model.id.clone(),
        model: model.id.clone(),
        display_name: model.name.clone(),
        description: model.description.clone().unwrap_or_default(),
        hidden: false,
        is_default: model.id == current,
        supported_reasoning_efforts: Vec::new(),
        default_reasoning_effort: "medium".to_owned(),
        input_modalities: vec![app::InputModality::Text, app::InputModality::Image],
        supports_personality: false,
        upgrade: None,
        model_provider: Some(provider.to_string()),
    }
}

// ---- Turns, to the wire only ----

/// How far a turn is.
#[must_use]
pub fn turn_status_out(status: facts::TurnStatus) -> app::TurnStatus {
    match status {
        facts::TurnStatus::InProgress => app::TurnStatus::InProgress,
        facts::TurnStatus::Completed => app::TurnStatus::Completed,
        facts::TurnStatus::Interrupted => app::TurnStatus::Interrupted,
        facts::TurnStatus::Failed => app::TurnStatus::Failed,
    }
}

/// A turn before anything has happened in it, or as lists have it: without items.
#[must_use]
pub fn turn_out(
    id: facts::TurnId,
    status: facts::TurnStatus,
    started_at_ms: Option<i64>,
    ended_at_ms: Option<i64>,
) -> app::Turn {
    app::Turn {
        id: id.to_string(),
        status: turn_status_out(status),
        items: Vec::new(),
        items_view: app::TurnItemsView::NotLoaded,
        error: None,
        started_at: started_at_ms.map(seconds),
        completed_at: ended_at_ms.map(seconds),
        duration_ms: started_at_ms.zip(ended_at_ms).map(|(from, to)| (to - from).max(0)),
        root_turn_id: None,
        plan: None,
        diff: None,
        diff_truncated: false,
        token_usage: None,
        context: None,
        approvals: Vec::new(),
        items_backwards_cursor: None,
    }
}

/// The settings that held when a turn began.
#[must_use]
pub fn context_out(context: &facts::TurnContext) -> app::TurnContext {
    let word = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    app::TurnContext {
        cwd: path(&context.cwd),
        roots: context.roots.iter().map(|root| path(root)).collect(),
        policy: core::policy_out(context.policy),
        model: context.model.clone(),
        effort: context.effort.clone(),
        config_options: context.options.iter().map(|(id, value)| (id.clone(), word(value))).collect(),
        client_metadata: context.client_metadata.clone(),
        parent_turn_id: context.parent_turn.map(|turn| turn.to_string()),
    }
}

/// The steps of a plan.
#[must_use]
pub fn plan_out(entries: &[facts::PlanEntry]) -> Vec<app::TurnPlanStep> {
    let step = |entry: &facts::PlanEntry| app::TurnPlanStep {
        step: entry.content.clone(),
        status: match entry.status {
            facts::PlanStatus::Pending => app::TurnPlanStepStatus::Pending,
            facts::PlanStatus::InProgress => app::TurnPlanStepStatus::InProgress,
            facts::PlanStatus::Completed => app::TurnPlanStepStatus::Completed,
        },
    };
    entries.iter().map(step).collect()
}

/// The session's tokens and the fill of its context, as one.
#[must_use]
pub fn usage_out(usage: Option<facts::Usage>, window: Option<facts::ContextWindow>) -> app::ThreadTokenUsage {
    let count = |tokens: u64| i64::try_from(tokens).unwrap_or(i64::MAX);
    let sum = usage.unwrap_or_default();
    let filled = count(window.map_or(sum.last_total_tokens, |window| window.used_tokens));
    app::ThreadTokenUsage {
        total: app::TokenUsageBreakdown {
            total_tokens: count(sum.input_tokens.saturating_add(sum.output_tokens)),
            input_tokens: count(sum.input_tokens),
            cached_input_tokens: count(sum.cached_input_tokens),
            cache_write_input_tokens: 0,
            output_tokens: count(sum.output_tokens),
            reasoning_output_tokens: count(sum.reasoning_output_tokens),
        },
        last: app::TokenUsageBreakdown {
            total_tokens: filled,
            input_tokens: filled,
            ..app::TokenUsageBreakdown::default()
        },
        model_context_window: window.map(|window| count(window.size_tokens)),
        cost_usd: window.and_then(|window| window.cost_usd),
    }
}

/// The limits of an agent's account.
#[must_use]
pub fn rate_limits_out(
    thread_id: String,
    provider: &facts::Provider,
    limits: &[facts::RateLimit],
) -> app::AccountRateLimitsUpdatedNotification {
    let mut windows: Vec<&facts::RateLimit> = limits.iter().collect();
    windows.sort_by_key(|limit| limit.window_minutes.unwrap_or(u64::MAX));
    let window = |limit: &&facts::RateLimit| app::RateLimitWindow {
        #[allow(clippy::cast_possible_truncation, reason = "a percentage")]
        used_percent: limit.used_percent.round() as i32,
        window_duration_mins: limit.window_minutes,
        resets_at: limit.resets_at,
    };
    let limit = |limit: &facts::RateLimit| app::AccountRateLimit {
        name: limit.name.clone(),
        used_percent: limit.used_percent,
        window_minutes: limit.window_minutes,
        resets_at: limit.resets_at,
    };
    app::AccountRateLimitsUpdatedNotification {
        rate_limits: app::RateLimitSnapshot {
            primary: windows.first().map(window),
            secondary: windows.get(1).map(window),
        },
        thread_id,
        model_provider: provider.to_string(),
        limits: limits.iter().map(limit).collect(),
    }
}

/// Why a turn failed, or an operation outside a turn did.
#[must_use]
pub fn error_out(failure: &facts::Failure) -> app::TurnError {
    let stderr = match failure.data.get("stderrTail") {
        Some(Value::String(text)) => Some(text.clone()),
        Some(Value::Array(lines)) => {
            Some(lines.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("\n"))
        }
        _ => None,
    };
    app::TurnError {
        message: failure.message.clone(),
        codex_error_info: Some(match failure.reason.as_str() {
            "agent_auth_required" => app::CodexErrorInfo::Unauthorized,
            "server_overloaded" => app::CodexErrorInfo::ServerOverloaded,
            "storage_failed" | "internal" => app::CodexErrorInfo::InternalServerError,
            "invalid_params" | "unsupported_field" => app::CodexErrorInfo::BadRequest,
            _ => app::CodexErrorInfo::Other,
        }),
        additional_details: stderr.filter(|text| !text.is_empty()),
        code: error_code(&failure.reason),
        reason: Some(failure.reason.clone()),
        retryable: Some(failure.retryable),
        data: (!failure.data.is_empty()).then(|| Value::Object(failure.data.clone())),
    }
}

/// The JSON-RPC code that a failure with this reason has as an answer.
#[must_use]
pub fn error_code(reason: &str) -> Option<i32> {
    Some(match reason {
        "provider_not_found"
        | "provider_unavailable"
        | "agent_failed"
        | "agent_timeout"
        | "agent_auth_required"
        | "unsupported_by_agent" => -32021,
        "cancelled"
        | "turn_active"
        | "thread_archived"
        | "worktree_moved"
        | "worktree_unavailable"
        | "worktree_dirty"
        | "worktree_present" => -32022,
        "storage_failed" => -32024,
        "shutting_down" | "server_restarted" | "server_stopped" => -32026,
        "server_overloaded" => -32001,
        "internal" => -32603,
        _ => return None,
    })
}

/// Why a call failed, for people: what the agent said, else what we know.
pub(super) fn failed_call_message(call: &facts::ToolCall) -> String {
    let known = || {
        match call.outcome {
            Some(facts::ToolOutcome::Declined) => "The call was declined.",
            Some(facts::ToolOutcome::Interrupted) => "The turn was interrupted.",
            Some(facts::ToolOutcome::AgentGone) => "The agent stopped before the call did.",
            Some(facts::ToolOutcome::Unfinished) => UNFINISHED,
            None => "The call failed.",
        }
        .to_owned()
    };
    call.error.clone().unwrap_or_else(known)
}

/// The lines with this mark (`+` or `-`) of a diff's hunks, as the content of a new or deleted file; `None` for a note
/// in place of hunks.
pub(super) fn content_of(unified: &str, mark: char) -> Option<String> {
    let mut content = String::with_capacity(unified.len());
    let mut hunks = 0;
    for line in unified.split_inclusive('\n') {
        if let Some(text) = line.strip_prefix(mark) {
            content.push_str(text);
        } else if line.starts_with("\\ ") {
            // "No newline at end of file": the newline before belongs to the diff.
            if content.ends_with('\n') {
                content.pop();
            }
        } else if line.starts_with("@@ -") {
            hunks += 1;
        }
    }
    (hunks > 0 || unified.is_empty()).then_some(content)
}

// ---- Approvals, to the wire only ----

/// The agent's own options.
#[must_use]
pub fn options_out(options: &[facts::PermissionOption]) -> Vec<app::ApprovalOption> {
    let option = |option: &facts::PermissionOption| app::ApprovalOption {
        option_id: option.id.clone(),
        name: option.label.clone(),
        kind: Some(core::option_kind(&option.kind).to_owned()),
    };
    options.iter().map(option).collect()
}

/// What was decided. `None` if the answer was an option that means none of the four.
#[must_use]
pub fn decision_out(decision: facts::Decision, is_question: bool) -> Option<app::ApprovalDecision> {
    match decision {
        facts::Decision::Accept => Some(app::ApprovalDecision::Accept),
        facts::Decision::AcceptForSession => Some(app::ApprovalDecision::AcceptForSession),
        facts::Decision::Decline => Some(app::ApprovalDecision::Decline),
        facts::Decision::Cancel => Some(app::ApprovalDecision::Cancel),
        facts::Decision::Answered => is_question.then_some(app::ApprovalDecision::Accept),
    }
}

/// How it is told that an approval needs no answer any more.
#[must_use]
pub fn resolved_out(
    session: facts::SessionId,
    resolved: &facts::PermissionResolved,
    is_question: bool,
) -> app::ServerRequestResolvedNotification {
    app::ServerRequestResolvedNotification {
        thread_id: session.to_string(),
        request_id: app::RequestId::String(resolved.input.to_string()),
        approval_id: resolved.input.to_string(),
        decision: decision_out(resolved.decision, is_question),
        option_id: resolved.option_id.clone(),
        by: core::resolver_out(&resolved.by),
    }
}

/// What became of an approval, for the history.
#[must_use]
pub fn approval_out(fact: &facts::Fact, resolved: &facts::PermissionResolved) -> app::TurnApproval {
    app::TurnApproval {
        approval_id: resolved.input.to_string(),
        item_id: fact.item_seq.map(item_id),
        title: resolved.title.clone(),
        decision: decision_out(resolved.decision, resolved.option_id.is_none()),
        option_id: resolved.option_id.clone(),
        by: core::resolver_out(&resolved.by),
        message: resolved.message.clone(),
        resolved_at_ms: fact.at_ms,
    }
}

/// The formats of texts that existing clients know; they refuse any other.
const KNOWN_FORMATS: [&str; 4] = ["email", "uri", "date", "date-time"];

/// A question's form as the JSON Schema that existing clients render. It is made from the normalised fields, never the
/// agent's own: those clients refuse a schema with any keyword beyond these.
#[must_use]
pub fn form_schema_out(form: Option<&facts::Form>) -> Value {
    let mut properties = serde_json::Map::new();
    let fields = form.map(|form| form.fields.as_slice()).unwrap_or_default();
    for field in fields {
        let choices = || -> Vec<Value> {
            let options = field.options.iter();
            options.map(|option| json!({ "const": option.value, "title": option.label })).collect()
        };
        let mut schema = match field.kind {
            facts::FieldKind::Text => json!({ "type": "string" }),
            facts::FieldKind::Number => json!({ "type": "number" }),
            facts::FieldKind::Integer => json!({ "type": "integer" }),
            facts::FieldKind::Boolean => json!({ "type": "boolean" }),
            facts::FieldKind::Select => json!({ "type": "string", "oneOf": choices() }),
            facts::FieldKind::MultiSelect => json!({ "type": "array", "items": { "anyOf": choices() } }),
        };
        let mut put = |key: &str, value: Option<Value>| {
            if let Some(value) = value {
                schema[key] = value;
            }
        };
        let (least, most) = match field.kind {
            facts::FieldKind::Text => ("minLength", "maxLength"),
            facts::FieldKind::MultiSelect => ("minItems", "maxItems"),
            _ => ("minimum", "maximum"),
        };
        put(least, field.min.clone().map(Value::Number));
        put(most, field.max.clone().map(Value::Number));
        put("default", field.default.clone());
        let format = field.format.as_deref().filter(|format| KNOWN_FORMATS.contains(format));
        put("format", format.map(Value::from));
        if let Some(title) = &field.title {
            schema["title"] = json!(title);
        }
        if let Some(description) = &field.description {
            schema["description"] = json!(description);
        }
        properties.insert(field.key.clone(), schema);
    }
    let required = fields.iter().filter(|field| field.required);
    let required: Vec<&str> = required.map(|field| field.key.as_str()).collect();
    json!({ "type": "object", "properties": properties, "required": required })
}
