//! What existing clients send, as it was seen: every frame here must be understood.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests are test code too")]

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use signalbox_protocol::app::*;
use signalbox_protocol::ops::{ContextKind, PermissionMode};

fn read<T: DeserializeOwned>(json: Value) -> T {
    let text = json.to_string();
    serde_json::from_value(json).unwrap_or_else(|error| panic!("{error} in {text}"))
}

#[test]
fn a_client_introduces_itself() {
    let sdk: InitializeParams = read(json!({
        "clientInfo": {"name": "codex_python_sdk", "title": "Codex Python SDK", "version": "0.163.0"},
        "capabilities": {"experimentalApi": true},
    }));
    assert!(sdk.capabilities.experimental_api);
    assert_eq!(sdk.capabilities.op_events, OpEvents::Off);

    let bare: InitializeParams =
        read(json!({"clientInfo": {"name": "x", "title": null, "version": ""}, "capabilities": null}));
    assert_eq!(bare.capabilities, ClientCapabilities::default());

    let full: ClientCapabilities = read(json!({
        "experimentalApi": null, "requestAttestation": false, "optOutNotificationMethods": null, "extensions": {"x": {}},
        "opEvents": "all", "deltaIntervalMs": 50, "resync": true,
    }));
    assert_eq!((full.op_events, full.delta_interval_ms, full.resync), (OpEvents::All, Some(50), true));
    assert_eq!(read::<ClientCapabilities>(json!({"opEvents": true})).op_events, OpEvents::Subscribed);
    assert_eq!(read::<ClientCapabilities>(json!({"opEvents": null})).op_events, OpEvents::Off);
    assert!(serde_json::from_value::<ClientCapabilities>(json!({"opEvents": "some"})).is_err());
}

#[test]
fn a_client_starts_and_resumes_a_thread() {
    assert_eq!(read::<ThreadStartParams>(json!({})), ThreadStartParams::default());
    // The Python SDK asks for its automatic reviewer.
    let start: ThreadStartParams = read(json!({
        "approvalPolicy": "on-request", "approvalsReviewer": "auto_review", "sandbox": "workspace-write", "model": "gpt-5",
        "config": {"model_reasoning_effort": "low"}, "ephemeral": null, "personality": "pragmatic", "threadSource": "user",
    }));
    assert_eq!(start.approval_policy, Some(AskForApproval::OnRequest));
    assert_eq!(start.sandbox, Some(SandboxMode::WorkspaceWrite));
    // A terminal client sends nulls for everything it does not care about.
    let resume: ThreadResumeParams = read(json!({
        "threadId": "s", "model": null, "cwd": null, "approvalPolicy": null, "sandbox": null, "config": null, "history": null,
        "path": null, "excludeTurns": null,
    }));
    assert_eq!(resume, ThreadResumeParams { thread_id: "s".into(), ..ThreadResumeParams::default() });
    let granular: ThreadStartParams = read(json!({"approvalPolicy": {"granular": {
        "sandbox_approval": true, "rules": false, "mcp_elicitations": true, "skill_approval": null}}}));
    assert!(matches!(
        granular.approval_policy,
        Some(AskForApproval::Granular(GranularApproval { sandbox_approval: true, .. }))
    ));
    assert_eq!(read::<AskForApproval>(json!("on-failure")), AskForApproval::OnRequest);
}

#[test]
fn a_client_starts_a_turn() {
    let turn: TurnStartParams = read(json!({
        "threadId": "s", "input": [
            {"type": "text", "text": "Hi"},
            {"type": "text", "text": "Hi", "text_elements": null},
            {"type": "image", "url": "https://x/y.png", "detail": null},
            {"type": "image", "fileId": "f"},
            {"type": "localImage", "path": "/a.png"},
            {"type": "skill", "name": "reviewer", "path": "/s/SKILL.md"},
            {"type": "mention", "name": "a", "path": "app://a"},
            {"type": "localAudio", "path": "/a.wav"},
            {"type": "chat", "threadId": "s2"},
            {"type": "resource", "uri": "file:///a", "text": "t"},
        ],
        "sandboxPolicy": {"type": "workspaceWrite"}, "approvalPolicy": null, "model": null, "effort": "high", "summary": "auto",
        "outputSchema": {"type": "object"}, "collaborationMode": {"mode": "default", "settings": {
            "model": "m", "reasoning_effort": null, "developer_instructions": null}},
        "additionalContext": {"editor": {"value": "a.rs", "kind": "application"}, "web": {"value": "x"}},
        "responsesapiClientMetadata": {"k": "v"}, "environments": [{"environmentId": "local", "cwd": "/w"}],
        "mode": "queue", "policy": {"mode": "yolo"}, "someNewField": [1],
    }));
    assert_eq!(turn.input.len(), 10);
    assert_eq!(turn.mode, Some(TurnStartMode::Queue));
    assert_eq!(turn.additional_context["web"].kind, ContextKind::Untrusted);
    assert_eq!(turn.policy.unwrap().mode, Some(PermissionMode::Yolo));
    assert!(matches!(turn.sandbox_policy, Some(SandboxPolicy::WorkspaceWrite { network_access: false, .. })));
    let sandbox: SandboxPolicy =
        read(json!({"type": "workspaceWrite", "writableRoots": null, "networkAccess": null}));
    assert_eq!(Some(sandbox), turn.sandbox_policy);
}

#[test]
fn a_client_asks_for_lists() {
    let list: ThreadListParams = read(json!({
        "cwd": "/w", "sortKey": "updated_at", "sourceKinds": ["cli", "vscode", "aKindOfTomorrow"], "modelProviders": null,
        "useStateDbOnly": true, "archived": false, "limit": 25, "cursor": null,
    }));
    assert_eq!(list.cwd, Some(CwdFilter(vec!["/w".into()])));
    assert_eq!(list.source_kinds.unwrap().len(), 3);
    assert_eq!(read::<CwdFilter>(json!(["/a", "/b"])), CwdFilter(vec!["/a".into(), "/b".into()]));
    read::<ModelListParams>(json!({"includeHidden": false}));
    read::<AccountReadParams>(json!({"refreshToken": false}));
    read::<ConfigReadParams>(json!({"includeLayers": false, "cwd": null}));
}

#[test]
fn an_answer_to_a_command_is_understood_in_each_form() {
    let decided = |json: Value| {
        let answer: CommandExecutionRequestApprovalResponse = read(json);
        ApprovalDecision::from(answer.decision.unwrap())
    };
    assert_eq!(decided(json!({"decision": "accept"})), ApprovalDecision::Accept);
    assert_eq!(decided(json!({"decision": "acceptForSession"})), ApprovalDecision::AcceptForSession);
    assert_eq!(decided(json!({"decision": "decline", "more": 1})), ApprovalDecision::Decline);
    assert_eq!(decided(json!({"decision": "cancel"})), ApprovalDecision::Cancel);
    assert_eq!(
        decided(json!({"decision": {"acceptWithExecpolicyAmendment": {"execpolicy_amendment": ["ls"]}}})),
        ApprovalDecision::AcceptForSession
    );
    let network = |action: &str| {
        decided(json!({"decision": {"applyNetworkPolicyAmendment": {
            "network_policy_amendment": {"host": "x", "action": action}}}}))
    };
    assert_eq!(network("allow"), ApprovalDecision::AcceptForSession);
    assert_eq!(network("deny"), ApprovalDecision::Decline);
    // Words of older clients.
    assert_eq!(decided(json!({"decision": "approved"})), ApprovalDecision::Accept);
    assert_eq!(decided(json!({"decision": "denied"})), ApprovalDecision::Decline);
    assert_eq!(decided(json!({"decision": "abort"})), ApprovalDecision::Cancel);
    assert!(
        serde_json::from_value::<CommandExecutionRequestApprovalResponse>(json!({"decision": "banana"}))
            .is_err()
    );
    // The SDK's default for what it does not know: no answer at all.
    assert_eq!(read::<ToolRequestUserInputResponse>(json!({})), ToolRequestUserInputResponse::default());
}

#[test]
fn a_file_or_a_question_is_answered() {
    let answer: FileChangeRequestApprovalResponse =
        read(json!({"decision": "decline", "message": "Use tabs."}));
    assert_eq!(answer.decision.map(ApprovalDecision::from), Some(ApprovalDecision::Decline));
    assert_eq!(answer.message.as_deref(), Some("Use tabs."));
    let answer: FileChangeRequestApprovalResponse = read(json!({"optionId": "o"}));
    assert_eq!((answer.decision, answer.option_id.as_deref()), (None, Some("o")));
    let answer: ToolRequestUserInputResponse = read(json!({"answers": {"q": {"answers": ["Allow"]}}}));
    assert_eq!(answer.answers.unwrap()["q"].answers, ["Allow"]);
    let answer: McpServerElicitationRequestResponse =
        read(json!({"action": "decline", "content": null, "_meta": null}));
    assert_eq!(ApprovalDecision::from(answer.action), ApprovalDecision::Decline);
}

#[test]
fn request_ids_are_strings_or_whole_numbers() {
    assert_eq!(read::<RequestId>(json!("a")), RequestId::from("a"));
    assert_eq!(read::<RequestId>(json!(-7)), RequestId::Integer(-7));
    for id in [json!(1.5), json!(null), json!(u64::MAX), json!([1])] {
        assert!(serde_json::from_value::<RequestId>(id.clone()).is_err(), "{id}");
    }
}
