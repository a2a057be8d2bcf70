//! Values of the app-server API as clients would see them, with everything optional and with nothing.

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use signalbox_protocol::app::*;

/// A value from its JSON; the samples below are written as clients would see them.
pub fn from<T: DeserializeOwned>(json: Value) -> T {
    let text = json.to_string();
    serde_json::from_value(json).unwrap_or_else(|error| panic!("{error} in {text}"))
}

pub fn items() -> Vec<ThreadItem> {
    [
        json!({"id": "i1", "type": "userMessage", "clientId": "c", "content": [
            {"type": "text", "text": "Look at #1", "text_elements": [{"byteRange": {"start": 8, "end": 10}, "placeholder": "issue"}]},
            {"type": "image", "url": "data:image/png;base64,AA==", "detail": "high"},
            {"type": "localImage", "path": "/w/a.png"},
            {"type": "skill", "name": "reviewer", "path": "/s/SKILL.md"},
            {"type": "mention", "name": "a.rs", "path": "/w/a.rs"},
        ]}),
        json!({"id": "i2", "type": "agentMessage", "text": "Hello", "startedAtMs": 1, "completedAtMs": 2}),
        json!({"id": "i3", "type": "agentMessage", "text": "Hello", "phase": "final_answer", "late": true}),
        json!({"id": "i4", "type": "reasoning", "summary": ["Hm"], "content": []}),
        json!({"id": "i5", "type": "plan", "text": "- one"}),
        json!({"id": "i6", "type": "commandExecution", "command": "ls", "cwd": "/w", "status": "inProgress", "commandActions": [
            {"type": "listFiles", "command": "ls"}]}),
        json!({"id": "i7", "type": "commandExecution", "command": "cat a; rg b; x", "cwd": "/w", "status": "declined", "source": "userShell",
            "processId": "7", "aggregatedOutput": "out", "exitCode": 1, "durationMs": 12, "outputTruncated": true, "commandActions": [
            {"type": "read", "command": "cat a", "name": "a", "path": "/w/a"},
            {"type": "search", "command": "rg b", "query": "b", "path": null},
            {"type": "unknown", "command": "x"}],
            "toolCall": {"id": "call", "title": "Run", "kind": "execute", "locations": [{"path": "/w/a", "line": 3}]}}),
        json!({"id": "i8", "type": "fileChange", "status": "completed", "changes": [
            {"path": "/w/a", "kind": {"type": "add"}, "diff": "+a"},
            {"path": "/w/b", "kind": {"type": "delete"}, "diff": "-b"},
            {"path": "/w/c", "kind": {"type": "update", "move_path": "/w/d"}, "diff": "@@"}]}),
        json!({"id": "i9", "type": "mcpToolCall", "server": "s", "tool": "t", "status": "completed", "arguments": {"a": 1},
            "result": {"content": [{"type": "text", "text": "x"}], "structuredContent": null}, "durationMs": 3}),
        json!({"id": "i10", "type": "mcpToolCall", "server": "s", "tool": "t", "status": "failed", "arguments": null,
            "error": {"message": "declined"}, "declined": true}),
        json!({"id": "i11", "type": "dynamicToolCall", "tool": "Fetch", "status": "failed", "arguments": {}, "success": false,
            "contentItems": [{"type": "inputText", "text": "x"}, {"type": "inputImage", "imageUrl": "u"}]}),
        json!({"id": "i12", "type": "contextCompaction"}),
    ]
    .map(from)
    .into()
}

pub fn turn() -> Turn {
    Turn {
        id: "t".into(),
        status: TurnStatus::Completed,
        items: items(),
        items_view: TurnItemsView::Full,
        error: None,
        started_at: Some(1),
        completed_at: Some(2),
        duration_ms: Some(1000),
        root_turn_id: None,
        plan: Some(vec![TurnPlanStep { step: "one".into(), status: TurnPlanStepStatus::InProgress }]),
        diff: Some("--- a".into()),
        diff_truncated: true,
        token_usage: Some(ThreadTokenUsage::default()),
        items_backwards_cursor: Some("c".into()),
        context: Some(from(
            json!({"cwd": "/w", "roots": [], "policy": {"mode": "ask", "sandbox": "workspace_write"}}),
        )),
        approvals: Vec::new(),
    }
}

/// A turn that failed in the middle, with an error of each shape.
pub fn failed_turns() -> Vec<Turn> {
    [
        json!("usageLimitExceeded"),
        json!("other"),
        json!({"httpConnectionFailed": {"httpStatusCode": 502}}),
        json!({"responseStreamDisconnected": {"httpStatusCode": null}}),
        json!({"activeTurnNotSteerable": {"turnKind": "compact"}}),
    ]
    .map(|info| {
        from(json!({"id": "t", "status": "failed", "items": [], "itemsView": "notLoaded", "error": {
            "message": "m", "codexErrorInfo": info, "code": -32021, "reason": "agent_failed", "retryable": true,
            "data": {"exitStatus": 1}}}))
    })
    .into()
}

pub fn thread() -> Thread {
    from(json!({
        "id": "s", "sessionId": "s", "preview": "Hello", "name": "Title", "createdAt": 1, "updatedAt": 2, "recencyAt": 2,
        "status": {"type": "active", "activeFlags": ["waitingOnApproval", "waitingOnUserInput"]},
        "cwd": "/w", "modelProvider": "rehearsal", "model": "default", "reasoningEffort": "medium", "source": "vscode",
        "threadSource": "user", "originator": "ide", "cliVersion": "1.0.0", "ephemeral": false, "historyMode": "legacy",
        "forkedFromId": "s0", "gitInfo": {"sha": "0123", "branch": "main", "originUrl": null}, "turns": turn_json(),
        "projectPath": "/p", "worktree": {"path": "/t", "branch": "b", "baseline": {
            "kind": "current", "ref": "main", "sha": "0123", "display": "main @ 0123"}},
        "policy": {"mode": "yolo", "sandbox": "read_only"}, "roots": ["/w", "/x"], "archived": true,
        "activity": {"revision": 3, "state": {"kind": "running", "turn_id": "t"}},
    }))
}

pub fn turn_json() -> Value {
    json!([serde_json::to_value(turn()).unwrap()])
}

pub fn bare_thread() -> Thread {
    from(json!({
        "id": "s", "sessionId": "s", "preview": "", "createdAt": 1, "updatedAt": 1, "status": {"type": "idle"}, "cwd": "/w",
        "modelProvider": "codex", "source": {"custom": "bench"}, "cliVersion": "1.0.0", "ephemeral": true, "turns": [],
    }))
}

pub fn opened(thread: Thread) -> OpenedThread {
    OpenedThread {
        thread,
        model: "default".into(),
        model_provider: "rehearsal".into(),
        cwd: "/w".into(),
        runtime_workspace_roots: vec!["/x".into()],
        approval_policy: AskForApproval::Granular(GranularApproval::default()),
        approvals_reviewer: ApprovalsReviewer::User,
        sandbox: SandboxPolicy::WorkspaceWrite {
            writable_roots: vec!["/w".into()],
            network_access: true,
            exclude_tmpdir_env_var: false,
            exclude_slash_tmp: false,
        },
        reasoning_effort: None,
        service_tier: None,
        instruction_sources: vec!["/w/AGENTS.md".into()],
        snapshot_seq: 12,
        cursor: Some("e-12".into()),
        launch: None,
    }
}

/// One notification of each method, by its params.
pub fn notifications() -> Vec<(&'static str, Value)> {
    let place = json!({"threadId": "s", "turnId": "t", "itemId": "i2"});
    let with = |extra: Value| {
        let mut params = place.as_object().unwrap().clone();
        params.extend(extra.as_object().unwrap().clone());
        Value::Object(params)
    };
    let thread_only = json!({"threadId": "s"});
    let items = items();
    let approval = json!({
        "approvalId": "a", "threadId": "s", "turnId": "t", "itemId": "i2", "kind": "fileChange", "title": "Edit", "sequence": 3,
        "options": [{"optionId": "o", "name": "Allow", "kind": "allow_once"}], "requestedAtMs": 5,
        "changes": [{"path": "/a", "kind": {"type": "add"}, "diff": "+a"}], "availableDecisions": ["accept", "decline", "cancel"],
    });
    let mut all = vec![
        (method::THREAD_STARTED, json!({"thread": thread(), "requestId": "r"})),
        (method::THREAD_STATUS_CHANGED, json!({"threadId": "s", "status": {"type": "notLoaded"}})),
        (method::THREAD_STATUS_CHANGED, json!({"threadId": "s", "status": {"type": "systemError"}})),
        (
            method::THREAD_ACTIVITY_CHANGED,
            json!({"threadId": "s", "activity": {"revision": 1, "state": {"kind": "idle"}}}),
        ),
        (method::THREAD_NAME_UPDATED, json!({"threadId": "s", "threadName": "T"})),
        (method::THREAD_ARCHIVED, thread_only.clone()),
        (method::THREAD_UNARCHIVED, thread_only.clone()),
        (method::THREAD_DELETED, thread_only.clone()),
        (method::THREAD_CLOSED, thread_only.clone()),
        (method::THREAD_REVERTED, json!({"threadId": "s", "beforeTurnId": "t"})),
        (method::THREAD_QUEUE_CHANGED, thread_only),
        (
            method::THREAD_WORKTREE_DISCARDED,
            json!({"threadId": "s", "path": "/t", "removedCheckout": true, "deletedBranch": "b"}),
        ),
        (
            method::THREAD_SETTINGS_UPDATED,
            json!({"threadId": "s", "threadSettings": {
                "cwd": "/w", "model": "m", "modelProvider": "codex", "effort": "high", "summary": "none", "personality": "friendly",
                "approvalPolicy": "untrusted", "approvalsReviewer": "user", "sandboxPolicy": {"type": "readOnly"},
                "collaborationMode": {"mode": "default", "settings": {"model": "m"}}}}),
        ),
        (
            method::PROVIDER_LOGIN_PROGRESS,
            json!({"provider": "p", "type": "address", "requestId": 1, "message": "Log in", "url": "https://h/login"}),
        ),
        (method::THREAD_MODELS_UPDATED, json!({"threadId": "s", "data": [], "current": ""})),
        (method::THREAD_CONFIG_OPTIONS_UPDATED, json!({"threadId": "s", "options": []})),
        (
            method::THREAD_COMMANDS_UPDATED,
            json!({"threadId": "s", "commands": [{"name": "web", "description": "", "hint": "what"}]}),
        ),
        (
            method::THREAD_TOKEN_USAGE_UPDATED,
            json!({"threadId": "s", "turnId": "t", "tokenUsage": {"modelContextWindow": 200_000,
                "total": serde_json::to_value(TokenUsageBreakdown::default()).unwrap(),
                "last": serde_json::to_value(TokenUsageBreakdown::default()).unwrap()}}),
        ),
        (method::THREAD_RESYNC_REQUIRED, json!({"threadId": "s", "reason": "slow"})),
        (method::TURN_STARTED, json!({"threadId": "s", "turn": turn()})),
        (method::TURN_COMPLETED, json!({"threadId": "s", "turn": failed_turns()[0]})),
        (
            method::TURN_PLAN_UPDATED,
            with(
                json!({"plan": [{"step": "one", "status": "pending"}, {"step": "two", "status": "completed"}]}),
            ),
        ),
        (method::TURN_DIFF_UPDATED, with(json!({"diff": "--- a", "truncated": true, "partial": true}))),
        (method::ITEM_AGENT_MESSAGE_DELTA, with(json!({"delta": "Hi"}))),
        (method::ITEM_PLAN_DELTA, with(json!({"delta": "- one"}))),
        (method::ITEM_REASONING_SUMMARY_PART_ADDED, with(json!({"summaryIndex": 0}))),
        (method::ITEM_REASONING_SUMMARY_TEXT_DELTA, with(json!({"summaryIndex": 0, "delta": "Hm"}))),
        (method::ITEM_COMMAND_EXECUTION_OUTPUT_DELTA, with(json!({"delta": "out"}))),
        (
            method::ITEM_FILE_CHANGE_PATCH_UPDATED,
            with(json!({"changes": [{"path": "/a", "kind": {"type": "add"}, "diff": "+a"}]})),
        ),
        (
            method::ERROR,
            json!({"threadId": "s", "turnId": "t", "willRetry": false, "requestId": "r", "error": {"message": "m"}}),
        ),
        (
            method::ACCOUNT_RATE_LIMITS_UPDATED,
            json!({"threadId": "s", "modelProvider": "p", "rateLimits": {
                "primary": {"usedPercent": 12, "windowDurationMins": 300, "resetsAt": 1}, "secondary": null},
                "limits": [{"name": "five hours", "usedPercent": 12.5, "windowMinutes": 300}]}),
        ),
        (method::WARNING, json!({"threadId": "s", "message": "m", "requestId": "r"})),
        (method::WARNING, json!({"message": "m"})),
        (
            method::SERVER_REQUEST_RESOLVED,
            json!({"threadId": "s", "requestId": "a", "approvalId": "a", "decision": "acceptForSession", "optionId": "o",
                "by": {"kind": "client", "name": "phone"}}),
        ),
        (
            method::SERVER_REQUEST_RESOLVED,
            json!({"threadId": "s", "requestId": 7, "approvalId": "a", "by": {"kind": "interrupt"}}),
        ),
        (method::APPROVAL_REQUESTED, json!({"threadId": "s", "approval": approval})),
        (
            method::EVENT,
            json!({"seq": 1, "submissionId": "x", "event": {"event": "session_archived", "session": "s", "archived": true}}),
        ),
    ];
    for item in items {
        all.push((method::ITEM_STARTED, with(json!({"item": item, "startedAtMs": 1}))));
        all.push((method::ITEM_COMPLETED, with(json!({"item": item, "completedAtMs": 2}))));
    }
    all
}
