//! What this server writes, checked against the recorded structure of the API its existing clients were built for.

use std::collections::BTreeSet;
use std::fmt::Debug;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use signalbox_protocol::app::*;
use signalbox_protocol::ops;

/// The recorded structure: params and result of each method, and the definitions they refer to.
struct Conformance(Value);

impl Conformance {
    fn load() -> Self {
        let text = include_str!("../../../tests/conformance/codex-v2.schema.json");
        Self(serde_json::from_str(text).unwrap())
    }

    fn check(&self, schema: &Value, value: &Value, what: &str) {
        let document = json!({
            "$schema": "http://json-schema.org/draft-07/schema#",
            "definitions": self.0["definitions"],
            "allOf": [schema],
        });
        let validator = jsonschema::validator_for(&document).unwrap();
        let errors: Vec<String> = validator
            .iter_errors(value)
            .map(|error| format!("{error} at {}", error.instance_path()))
            .collect();
        assert!(errors.is_empty(), "{what}: {errors:#?}\n{value:#}");
    }

    fn result<T: Serialize + DeserializeOwned + PartialEq + Debug>(&self, method: &str, result: &T) {
        self.check(&self.0["requests"][method]["result"], &roundtrip(result), method);
    }

    fn params<T: Serialize + DeserializeOwned + PartialEq + Debug>(&self, method: &str, params: &T) {
        self.check(&self.0["requests"][method]["params"], &roundtrip(params), method);
    }
}

/// Writes and reads back; reading must lose nothing.
fn roundtrip<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) -> Value {
    let json = serde_json::to_value(value).unwrap();
    assert_eq!(&serde_json::from_value::<T>(json.clone()).unwrap(), value);
    json
}

/// A value from its JSON; the samples below are written as clients would see them.
fn from<T: DeserializeOwned>(json: Value) -> T {
    let text = json.to_string();
    serde_json::from_value(json).unwrap_or_else(|error| panic!("{error} in {text}"))
}

fn items() -> Vec<ThreadItem> {
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

fn turn() -> Turn {
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
        token_usage: Some(ThreadTokenUsage::default()),
        context: Some(from(
            json!({"cwd": "/w", "roots": [], "policy": {"mode": "ask", "sandbox": "workspace_write"}}),
        )),
    }
}

/// A turn that failed in the middle, with an error of each shape.
fn failed_turns() -> Vec<Turn> {
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

fn thread() -> Thread {
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

fn turn_json() -> Value {
    json!([serde_json::to_value(turn()).unwrap()])
}

fn bare_thread() -> Thread {
    from(json!({
        "id": "s", "sessionId": "s", "preview": "", "createdAt": 1, "updatedAt": 1, "status": {"type": "idle"}, "cwd": "/w",
        "modelProvider": "codex", "source": {"custom": "bench"}, "cliVersion": "1.0.0", "ephemeral": true, "turns": [],
    }))
}

fn opened(thread: Thread) -> OpenedThread {
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
    }
}

#[test]
fn results_have_the_shape_existing_clients_read() {
    let api = Conformance::load();
    api.result(
        method::INITIALIZE,
        &InitializeResult {
            user_agent: "client/1.0.0 (linux)".into(),
            codex_home: "/h".into(),
            platform_family: "unix".into(),
            platform_os: "linux".into(),
            server_info: ServerInfo { name: "signalbox".into(), version: "1.0.0".into() },
            protocol_version: 1,
            home: "/h".into(),
            role: ConnectionRole::Owner,
            capabilities: ServerCapabilities { steer: true, ..ServerCapabilities::default() },
        },
    );
    for thread in [thread(), bare_thread()] {
        api.result(method::THREAD_START, &ThreadStartResult { opened: opened(thread.clone()) });
        let resumed = ThreadResumeResult {
            opened: opened(thread.clone()),
            turns_backwards_cursor: Some("c".into()),
            items_backwards_cursor: None,
            continued: false,
        };
        api.result(method::THREAD_RESUME, &resumed);
        api.result(method::THREAD_READ, &ThreadReadResult { thread: thread.clone(), snapshot_seq: 1 });
        let list =
            ThreadListResult { data: vec![thread], next_cursor: Some("n".into()), backwards_cursor: None };
        api.result(method::THREAD_LIST, &list);
    }
    api.result(
        method::THREAD_LOADED_LIST,
        &ThreadLoadedListResult { data: vec!["s".into()], next_cursor: None },
    );
    for status in [
        ThreadUnsubscribeStatus::NotLoaded,
        ThreadUnsubscribeStatus::NotSubscribed,
        ThreadUnsubscribeStatus::Unsubscribed,
    ] {
        api.result(method::THREAD_UNSUBSCRIBE, &ThreadUnsubscribeResult { status });
    }
    let queued = QueuedSubmission {
        id: "q".into(),
        client_user_message_id: "c".into(),
        input: vec![],
        responsesapi_client_metadata: None,
    };
    api.result(method::TURN_START, &TurnStartResult { turn: turn(), queued_submission: Some(queued) });
    for turn in failed_turns() {
        api.result(method::TURN_START, &TurnStartResult { turn, queued_submission: None });
    }
    api.result(method::TURN_STEER, &TurnSteerResult { turn_id: "t".into() });
    api.result(method::TURN_INTERRUPT, &EmptyResult {});
    let model: Model = from(json!({
        "id": "default", "model": "default", "displayName": "Default", "description": "", "hidden": false, "isDefault": true,
        "supportedReasoningEfforts": [{"reasoningEffort": "medium", "description": ""}], "defaultReasoningEffort": "medium",
        "inputModalities": ["text", "image"], "modelProvider": "rehearsal",
    }));
    api.result(method::MODEL_LIST, &ModelListResult { data: vec![model], next_cursor: None });
    let provider = ModelProviderSummary {
        id: "codex".into(),
        name: "Codex".into(),
        base_url: None,
        can_edit: false,
        settings: ProviderSettings::Openai,
    };
    let providers = ModelProviderListResult {
        data: vec![provider],
        default_provider_id: "codex".into(),
        can_change_default: false,
    };
    api.result(method::MODEL_PROVIDER_LIST, &providers);
    api.result(method::ACCOUNT_READ, &AccountReadResult::default());
    api.result(method::CONFIG_READ, &ConfigReadResult::default());
    let metadata = ConfigLayerMetadata {
        name: ConfigLayerSource::User { file: "/h/config.toml".into(), profile: None },
        version: "1".into(),
    };
    let layer = ConfigLayer {
        name: ConfigLayerSource::SessionFlags,
        version: "1".into(),
        config: json!({"model": "m"}),
        disabled_reason: None,
    };
    let config = Config {
        model: Some("m".into()),
        approval_policy: Some(AskForApproval::OnRequest),
        approvals_reviewer: Some(ApprovalsReviewer::User),
        sandbox_mode: Some(SandboxMode::DangerFullAccess),
        model_context_window: Some(1),
        ..Config::default()
    };
    let read = ConfigReadResult {
        config,
        origins: [("model".to_owned(), metadata)].into(),
        layers: Some(vec![layer]),
    };
    api.result(method::CONFIG_READ, &read);
    api.result(method::CONFIG_REQUIREMENTS_READ, &ConfigRequirementsReadResult::default());
    let requirements = ConfigRequirements {
        allowed_approval_policies: Some(vec![AskForApproval::Never]),
        allowed_sandbox_modes: Some(vec![SandboxMode::ReadOnly]),
    };
    api.result(
        method::CONFIG_REQUIREMENTS_READ,
        &ConfigRequirementsReadResult { requirements: Some(requirements) },
    );
}

#[test]
fn our_own_client_sends_what_the_api_takes() {
    let api = Conformance::load();
    let client_info = ClientInfo { name: "c".into(), title: None, version: "1".into() };
    let capabilities =
        ClientCapabilities { op_events: OpEvents::All, resync: true, ..ClientCapabilities::default() };
    api.params(method::INITIALIZE, &InitializeParams { client_info, capabilities });
    api.params(method::THREAD_START, &ThreadStartParams::default());
    let start = ThreadStartParams {
        cwd: Some("/w".into()),
        approval_policy: Some(AskForApproval::Granular(GranularApproval::default())),
        sandbox: Some(SandboxMode::WorkspaceWrite),
        policy: Some(ops::Policy::default()),
        ephemeral: Some(true),
        ..ThreadStartParams::default()
    };
    api.params(method::THREAD_START, &start);
    api.params(method::THREAD_RESUME, &ThreadResumeParams { thread_id: "s".into(), ..Default::default() });
    api.params(method::THREAD_READ, &ThreadReadParams { thread_id: "s".into(), include_turns: true });
    let list = ThreadListParams {
        cwd: Some(CwdFilter(vec!["/w".into()])),
        sort_key: Some(ThreadSortKey::RecencyAt),
        sort_direction: Some(SortDirection::Desc),
        limit: Some(10),
        ..ThreadListParams::default()
    };
    api.params(method::THREAD_LIST, &list);
    api.params(method::THREAD_UNSUBSCRIBE, &ThreadUnsubscribeParams { thread_id: "s".into() });
    let turn = TurnStartParams {
        thread_id: "s".into(),
        input: vec![UserInput::Text { text: "Hi".into(), text_elements: vec![] }],
        sandbox_policy: Some(SandboxPolicy::ExternalSandbox { network_access: NetworkAccess::Enabled }),
        mode: Some(TurnStartMode::Steer),
        ..TurnStartParams::default()
    };
    api.params(method::TURN_START, &turn);
    let steer = TurnSteerParams { thread_id: "s".into(), expected_turn_id: "t".into(), ..Default::default() };
    api.params(method::TURN_STEER, &steer);
    api.params(method::TURN_INTERRUPT, &TurnInterruptParams { thread_id: "s".into(), turn_id: "t".into() });
    api.params(method::MODEL_LIST, &ModelListParams::default());
    api.params(method::ACCOUNT_READ, &AccountReadParams::default());
    api.params(method::CONFIG_READ, &ConfigReadParams::default());
}

/// One notification of each method, by its params.
fn notifications() -> Vec<(&'static str, Value)> {
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
            method::THREAD_SETTINGS_UPDATED,
            json!({"threadId": "s", "threadSettings": {
                "cwd": "/w", "model": "m", "modelProvider": "codex", "effort": "high", "summary": "none", "personality": "friendly",
                "approvalPolicy": "untrusted", "approvalsReviewer": "user", "sandboxPolicy": {"type": "readOnly"},
                "collaborationMode": {"mode": "default", "settings": {"model": "m"}}}}),
        ),
        (method::THREAD_MODELS_UPDATED, json!({"threadId": "s", "data": [], "current": ""})),
        (method::THREAD_CONFIG_OPTIONS_UPDATED, json!({"threadId": "s", "options": []})),
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

#[test]
fn notifications_have_the_shape_existing_clients_read() {
    let api = Conformance::load();
    let mut seen = BTreeSet::new();
    for (method, params) in notifications() {
        let notification = ServerNotification::decode(method, params).unwrap().unwrap();
        assert_eq!(notification.method(), method);
        let place = Place { seq: 12, cursor: "e-13".into() };
        let frame = NotificationFrame { notification: &notification, place: Some(&place), emitted_at_ms: 99 };
        let frame = serde_json::to_value(frame).unwrap();
        assert_eq!(frame["method"], method);
        assert_eq!(frame["emittedAtMs"], 99);
        if method != method::EVENT {
            assert_eq!((&frame["params"]["seq"], &frame["params"]["cursor"]), (&json!(12), &json!("e-13")));
        }
        let known = &api.0["notifications"][method]["params"];
        if !known.is_null() {
            api.check(known, &frame["params"], method);
        }
        let back = ServerNotification::decode(method, serde_json::to_value(&notification).unwrap());
        assert_eq!(back.unwrap().unwrap(), notification);
        seen.insert(method);
    }
    let all: BTreeSet<&str> = ServerNotification::METHODS.iter().copied().collect();
    assert_eq!(seen, all, "notifications without a sample");
    assert_eq!(all.len(), ServerNotification::METHODS.len(), "a method stands twice");
    assert!(ServerNotification::decode("thread/exploded", json!({})).is_none());
}

#[test]
fn server_requests_have_the_shape_existing_clients_read() {
    let api = Conformance::load();
    let info = json!({
        "approvalId": "a", "title": "Run ls", "options": [{"optionId": "o", "name": "Allow", "kind": "allow_once"}],
        "availableDecisions": ["accept", "acceptForSession", "decline", "cancel"],
    });
    let with = |extra: Value| {
        let mut params = info.as_object().unwrap().clone();
        params.extend(json!({"threadId": "s", "turnId": "t", "itemId": "i2"}).as_object().unwrap().clone());
        params.extend(extra.as_object().unwrap().clone());
        Value::Object(params)
    };
    let samples = [
        (
            method::ITEM_COMMAND_EXECUTION_REQUEST_APPROVAL,
            with(
                json!({"startedAtMs": 1, "command": "ls", "cwd": "/w", "reason": "look", "commandActions": [
                {"type": "unknown", "command": "ls"}]}),
            ),
        ),
        (method::ITEM_COMMAND_EXECUTION_REQUEST_APPROVAL, with(json!({"startedAtMs": 1}))),
        (
            method::ITEM_FILE_CHANGE_REQUEST_APPROVAL,
            with(json!({"startedAtMs": 1, "reason": "fix", "changes": [
                {"path": "/a", "kind": {"type": "delete"}, "diff": "-a"}]})),
        ),
        (
            method::ITEM_TOOL_REQUEST_USER_INPUT,
            with(
                json!({"isBlocking": true, "questions": [{"id": "q", "header": "H", "question": "Q?", "options": [
                {"label": "Allow", "description": ""}]}, {"id": "p", "header": "H", "question": "Q?", "isOther": true}]}),
            ),
        ),
        (
            method::MCP_SERVER_ELICITATION_REQUEST,
            with(json!({"serverName": "codex", "mode": "form", "message": "Which?", "requestedSchema": {
                "type": "object", "properties": {"k": {"type": "string"}}, "required": ["k"]}})),
        ),
    ];
    let mut seen = BTreeSet::new();
    for (method, params) in samples {
        let request = ServerRequest::decode(method, params).unwrap().unwrap();
        let frame = serde_json::to_value(ServerRequestFrame { request: &request }).unwrap();
        assert_eq!((&frame["id"], &frame["method"]), (&json!("a"), &json!(method)));
        api.check(&api.0["serverRequests"][method]["params"], &frame["params"], method);
        seen.insert(method);
    }
    assert_eq!(seen, ServerRequest::METHODS.iter().copied().collect());
}

#[test]
fn our_own_client_answers_server_requests_as_the_api_says() {
    let api = Conformance::load();
    let check =
        |method: &str, answer: Value| api.check(&api.0["serverRequests"][method]["result"], &answer, method);
    for decision in [
        CommandExecutionApprovalDecision::Accept,
        CommandExecutionApprovalDecision::AcceptForSession,
        CommandExecutionApprovalDecision::Decline,
        CommandExecutionApprovalDecision::Cancel,
    ] {
        let answer =
            CommandExecutionRequestApprovalResponse { decision: Some(decision), ..Default::default() };
        check(method::ITEM_COMMAND_EXECUTION_REQUEST_APPROVAL, roundtrip(&answer));
    }
    let decision = Some(FileChangeApprovalDecision::AcceptForSession);
    let answer = FileChangeRequestApprovalResponse { decision, ..Default::default() };
    check(method::ITEM_FILE_CHANGE_REQUEST_APPROVAL, roundtrip(&answer));
    let answers = [("q".to_owned(), ToolRequestUserInputAnswer { answers: vec!["Allow".into()] })].into();
    let answer = ToolRequestUserInputResponse { answers: Some(answers), ..Default::default() };
    check(method::ITEM_TOOL_REQUEST_USER_INPUT, roundtrip(&answer));
    let answer = McpServerElicitationRequestResponse {
        action: McpServerElicitationAction::Accept,
        content: Some(json!({"k": "v"})),
    };
    check(method::MCP_SERVER_ELICITATION_REQUEST, roundtrip(&answer));
}
