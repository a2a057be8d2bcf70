//! What this server writes, checked against the recorded structure of the API its existing clients were built for.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests are test code too")]

mod common;

use std::collections::BTreeSet;
use std::fmt::Debug;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use signalbox_protocol::app::*;
use signalbox_protocol::ops;

use common::app::*;

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

#[test]
fn the_recorded_structure_refuses_what_it_should() {
    let api = Conformance::load();
    let mut thread = serde_json::to_value(thread()).unwrap();
    let valid = |thread: &Value| {
        let schema =
            json!({ "definitions": api.0["definitions"], "allOf": [{ "$ref": "#/definitions/Thread" }] });
        jsonschema::draft7::is_valid(&schema, thread)
    };
    assert!(valid(&thread));
    thread["turns"][0]["items"][0]["type"] = json!("hologram");
    assert!(!valid(&thread));
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
            server_info: ServerInfo {
                name: "signalbox".into(),
                version: "1.0.0".into(),
                bridge_version: None,
            },
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
        api.result(
            method::THREAD_READ,
            &ThreadReadResult { thread: thread.clone(), snapshot_seq: 1, launch: None },
        );
        let list =
            ThreadListResult { data: vec![thread], next_cursor: Some("n".into()), backwards_cursor: None };
        api.result(method::THREAD_LIST, &list);
    }
    let turns =
        ThreadTurnsListResult { data: vec![turn()], next_cursor: Some("n".into()), backwards_cursor: None };
    api.result(method::THREAD_TURNS_LIST, &turns);
    let entry =
        |item| ThreadItemEntry { turn_id: "t".into(), item, started_at_ms: Some(1), completed_at_ms: None };
    let items = ThreadItemsListResult {
        data: items().into_iter().map(entry).collect(),
        next_cursor: None,
        backwards_cursor: Some("b".into()),
    };
    api.result(method::THREAD_ITEMS_LIST, &items);
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
fn results_about_histories_queues_and_skills_have_the_shape_existing_clients_read() {
    let api = Conformance::load();
    for thread in [thread(), bare_thread()] {
        for context in [ops::ForkContext::Agent, ops::ForkContext::History] {
            let opened = opened(thread.clone());
            let forked = ThreadForkResult { opened, turns_backwards_cursor: Some("c".into()), context };
            api.result(method::THREAD_FORK, &forked);
        }
        let reverted = ThreadRevertResult {
            thread: thread.clone(),
            turns_backwards_cursor: None,
            items_backwards_cursor: None,
            snapshot_seq: 1,
        };
        api.result(method::THREAD_REVERT, &reverted);
        api.result(method::THREAD_UNARCHIVE, &ThreadUnarchiveResult { thread });
    }
    for done in [
        method::THREAD_ARCHIVE,
        method::THREAD_DELETE,
        method::THREAD_COMPACT_START,
        method::THREAD_QUEUE_REORDER,
    ] {
        api.result(done, &EmptyResult {});
    }
    let queued = QueuedSubmission {
        id: "q".into(),
        client_user_message_id: "c".into(),
        input: vec![UserInput::Text { text: "Hi".into(), text_elements: vec![] }],
        responsesapi_client_metadata: Some([("k".to_owned(), "v".to_owned())].into()),
    };
    api.result(method::THREAD_QUEUE_ADD, &ThreadQueueAddResult { queued_submission: queued.clone() });
    api.result(method::THREAD_QUEUE_UPDATE, &ThreadQueueUpdateResult { queued_submission: queued.clone() });
    let list = ThreadQueueListResult { data: vec![queued], next_cursor: Some("n".into()), paused: true };
    api.result(method::THREAD_QUEUE_LIST, &list);
    api.result(method::THREAD_QUEUE_DELETE, &ThreadQueueDeleteResult { deleted: false });
    let skill = |scope, interface| SkillMetadata {
        name: "s".into(),
        description: String::new(),
        short_description: None,
        path: "/s/SKILL.md".into(),
        scope,
        enabled: true,
        interface,
    };
    let entry = SkillsListEntry {
        cwd: "/w".into(),
        skills: vec![
            skill(SkillScope::Repo, None),
            skill(SkillScope::User, Some(SkillInterface { display_name: Some("S".into()) })),
            skill(SkillScope::Admin, None),
        ],
        errors: vec![SkillErrorInfo { path: "/w/b".into(), message: "no".into() }],
    };
    api.result(method::SKILLS_LIST, &SkillsListResult { data: vec![entry] });
    let empty = EmptyListResult::default();
    for list in [
        method::HOOKS_LIST,
        method::COLLABORATION_MODE_LIST,
        method::EXPERIMENTAL_FEATURE_LIST,
        method::MCP_SERVER_STATUS_LIST,
    ] {
        api.result(list, &empty);
    }
    api.result(method::PLUGIN_INSTALLED, &PluginInstalledResult::default());
    let profile = PermissionProfileSummary { id: "ask:read_only".into(), allowed: true, description: None };
    let profiles = PermissionProfileListResult { data: vec![profile], next_cursor: None };
    api.result(method::PERMISSION_PROFILE_LIST, &profiles);
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
    let turns = ThreadTurnsListParams {
        thread_id: "s".into(),
        cursor: Some("c".into()),
        limit: Some(10),
        sort_direction: Some(SortDirection::Asc),
        items_view: Some(TurnItemsView::NotLoaded),
    };
    api.params(method::THREAD_TURNS_LIST, &turns);
    let anchor = ThreadItemsListAnchor { kind: ThreadItemsListAnchorKind::Item, item_id: "i1".into() };
    for cursor in [ThreadItemsListCursor::Place("c".into()), ThreadItemsListCursor::Anchor(anchor)] {
        let items = ThreadItemsListParams {
            thread_id: "s".into(),
            turn_id: Some("t".into()),
            cursor: Some(cursor),
            defer_output: Some(ThreadItemOutputDeferral {}),
            ..ThreadItemsListParams::default()
        };
        api.params(method::THREAD_ITEMS_LIST, &items);
    }
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
    let fork = ThreadForkParams { thread_id: "s".into(), ephemeral: true, ..ThreadForkParams::default() };
    api.params(method::THREAD_FORK, &fork);
    let revert = ThreadRevertParams { thread_id: "s".into(), before_turn_id: "t".into() };
    api.params(method::THREAD_REVERT, &revert);
    api.params(method::THREAD_QUEUE_ADD, &ThreadQueueAddParams::default());
    api.params(method::THREAD_QUEUE_LIST, &ThreadQueueListParams { limit: Some(1), ..Default::default() });
    api.params(method::THREAD_QUEUE_UPDATE, &ThreadQueueUpdateParams::default());
    api.params(method::THREAD_QUEUE_DELETE, &ThreadQueueDeleteParams::default());
    api.params(method::THREAD_QUEUE_REORDER, &ThreadQueueReorderParams::default());
    api.params(method::SKILLS_LIST, &SkillsListParams { cwds: vec!["/w".into()], force_reload: true });
    api.params(method::ACCOUNT_READ, &AccountReadParams::default());
    api.params(method::CONFIG_READ, &ConfigReadParams::default());
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
        (
            method::MCP_SERVER_ELICITATION_REQUEST,
            with(json!({"serverName": "codex", "mode": "url", "message": "Log in", "elicitationId": "e",
                "url": "https://x.test/"})),
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
