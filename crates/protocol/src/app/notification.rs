//! Everything the server says unasked: notifications, and requests to clients.

use schemars::JsonSchema;
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};

use super::agent_command::AgentCommand;
use super::approval::{
    Approval, ApprovalDecision, CommandExecutionRequestApprovalParams,
    CommandExecutionRequestApprovalResponse, FileChangeRequestApprovalParams,
    FileChangeRequestApprovalResponse, ToolRequestUserInputParams, ToolRequestUserInputResponse,
};
use super::elicitation::{McpServerElicitationRequestParams, McpServerElicitationRequestResponse};
use super::item::{FileUpdateChange, ThreadItem};
use super::message::{Place, RequestId, messages};
use super::method;
use super::model::Model;
use super::provider::ProviderLoginProgressNotification;
use super::settings::ThreadSettings;
use super::thread::{Thread, ThreadStatus};
use super::turn::{Turn, TurnError, TurnPlanStep};
use super::usage::{AccountRateLimitsUpdatedNotification, ThreadTokenUsage};
use crate::lenient::null_as_default;
use crate::ops::{Activity, ConfigOption, Event, Resolver};

messages! {
    /// A notification to clients. Serializes as its params.
    ServerNotification as server_notification {
        Thread ThreadStarted(ThreadStartedNotification) = method::THREAD_STARTED,
        Thread ThreadStatusChanged(ThreadStatusChangedNotification) = method::THREAD_STATUS_CHANGED,
        Thread ThreadActivityChanged(ThreadActivityChangedNotification) = method::THREAD_ACTIVITY_CHANGED,
        Thread ThreadNameUpdated(ThreadNameUpdatedNotification) = method::THREAD_NAME_UPDATED,
        Thread ThreadArchived(ThreadArchivedNotification) = method::THREAD_ARCHIVED,
        Thread ThreadUnarchived(ThreadUnarchivedNotification) = method::THREAD_UNARCHIVED,
        Thread ThreadDeleted(ThreadDeletedNotification) = method::THREAD_DELETED,
        Thread ThreadClosed(ThreadClosedNotification) = method::THREAD_CLOSED,
        Thread ThreadReverted(ThreadRevertedNotification) = method::THREAD_REVERTED,
        Thread ThreadQueueChanged(ThreadQueueChangedNotification) = method::THREAD_QUEUE_CHANGED,
        Thread ThreadWorktreeDiscarded(ThreadWorktreeDiscardedNotification) = method::THREAD_WORKTREE_DISCARDED,
        Thread ThreadSettingsUpdated(ThreadSettingsUpdatedNotification) = method::THREAD_SETTINGS_UPDATED,
        Thread ThreadModelsUpdated(ThreadModelsUpdatedNotification) = method::THREAD_MODELS_UPDATED,
        Thread ThreadConfigOptionsUpdated(ThreadConfigOptionsUpdatedNotification) = method::THREAD_CONFIG_OPTIONS_UPDATED,
        Thread ThreadCommandsUpdated(ThreadCommandsUpdatedNotification) = method::THREAD_COMMANDS_UPDATED,
        Thread ThreadTokenUsageUpdated(ThreadTokenUsageUpdatedNotification) = method::THREAD_TOKEN_USAGE_UPDATED,
        Thread ThreadResyncRequired(ThreadResyncRequiredNotification) = method::THREAD_RESYNC_REQUIRED,
        Thread TurnStarted(TurnStartedNotification) = method::TURN_STARTED,
        Thread TurnCompleted(TurnCompletedNotification) = method::TURN_COMPLETED,
        Thread TurnPlanUpdated(TurnPlanUpdatedNotification) = method::TURN_PLAN_UPDATED,
        Thread TurnDiffUpdated(TurnDiffUpdatedNotification) = method::TURN_DIFF_UPDATED,
        Thread ItemStarted(ItemStartedNotification) = method::ITEM_STARTED,
        Thread ItemCompleted(ItemCompletedNotification) = method::ITEM_COMPLETED,
        Thread AgentMessageDelta(AgentMessageDeltaNotification) = method::ITEM_AGENT_MESSAGE_DELTA,
        Thread PlanDelta(PlanDeltaNotification) = method::ITEM_PLAN_DELTA,
        Thread ReasoningSummaryPartAdded(ReasoningSummaryPartAddedNotification) = method::ITEM_REASONING_SUMMARY_PART_ADDED,
        Thread ReasoningSummaryTextDelta(ReasoningSummaryTextDeltaNotification) = method::ITEM_REASONING_SUMMARY_TEXT_DELTA,
        Thread CommandExecutionOutputDelta(CommandExecutionOutputDeltaNotification) = method::ITEM_COMMAND_EXECUTION_OUTPUT_DELTA,
        Thread FileChangePatchUpdated(FileChangePatchUpdatedNotification) = method::ITEM_FILE_CHANGE_PATCH_UPDATED,
        Thread Error(ErrorNotification) = method::ERROR,
        Thread Warning(WarningNotification) = method::WARNING,
        Thread ServerRequestResolved(ServerRequestResolvedNotification) = method::SERVER_REQUEST_RESOLVED,
        Thread ApprovalRequested(ApprovalRequestedNotification) = method::APPROVAL_REQUESTED,
        Thread AccountRateLimitsUpdated(AccountRateLimitsUpdatedNotification) = method::ACCOUNT_RATE_LIMITS_UPDATED,
        Connection ProviderLoginProgress(ProviderLoginProgressNotification) = method::PROVIDER_LOGIN_PROGRESS,
        Connection CoreEvent(CoreEventNotification) = method::EVENT,
    }
}

messages! {
    /// A request to clients, which waits for an answer. Serializes as its params.
    ServerRequest as server_request {
        Thread CommandExecutionApproval(CommandExecutionRequestApprovalParams) -> CommandExecutionRequestApprovalResponse = method::ITEM_COMMAND_EXECUTION_REQUEST_APPROVAL,
        Thread FileChangeApproval(FileChangeRequestApprovalParams) -> FileChangeRequestApprovalResponse = method::ITEM_FILE_CHANGE_REQUEST_APPROVAL,
        Thread ToolUserInput(ToolRequestUserInputParams) -> ToolRequestUserInputResponse = method::ITEM_TOOL_REQUEST_USER_INPUT,
        Thread Elicitation(McpServerElicitationRequestParams) -> McpServerElicitationRequestResponse = method::MCP_SERVER_ELICITATION_REQUEST,
    }
}

impl ServerRequest {
    /// The approval it asks about; also its JSON-RPC id.
    #[must_use]
    pub fn approval_id(&self) -> &str {
        match self {
            Self::CommandExecutionApproval(params) => &params.info.approval_id,
            Self::FileChangeApproval(params) => &params.info.approval_id,
            Self::ToolUserInput(params) => &params.info.approval_id,
            Self::Elicitation(params) => &params.info.approval_id,
        }
    }
}

/// A notification as it goes out: with its place in the thread, and the time beside the method.
#[derive(Debug, Clone, Copy)]
pub struct NotificationFrame<'a> {
    pub notification: &'a ServerNotification,
    /// Of thread-scoped notifications.
    pub place: Option<&'a Place>,
    pub emitted_at_ms: i64,
}

impl Serialize for NotificationFrame<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Params<'a> {
            #[serde(flatten)]
            notification: &'a ServerNotification,
            #[serde(flatten)]
            place: Option<&'a Place>,
        }
        let mut frame = serializer.serialize_map(Some(4))?;
        frame.serialize_entry("jsonrpc", "2.0")?;
        frame.serialize_entry("method", self.notification.method())?;
        let params = Params { notification: self.notification, place: self.place };
        frame.serialize_entry("params", &params)?;
        frame.serialize_entry("emittedAtMs", &self.emitted_at_ms)?;
        frame.end()
    }
}

/// A request to a client as it goes out. Its id is the approval's, on every connection and in every delivery.
#[derive(Debug, Clone, Copy)]
pub struct ServerRequestFrame<'a> {
    pub request: &'a ServerRequest,
}

impl Serialize for ServerRequestFrame<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut frame = serializer.serialize_map(Some(4))?;
        frame.serialize_entry("jsonrpc", "2.0")?;
        frame.serialize_entry("id", self.request.approval_id())?;
        frame.serialize_entry("method", self.request.method())?;
        frame.serialize_entry("params", self.request)?;
        frame.end()
    }
}

/// A thread exists.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadStartedNotification {
    pub thread: Thread,
    /// Ext: the `requestId` of the `thread/start` that made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// A thread began or ceased to work or to wait.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadStatusChangedNotification {
    pub thread_id: String,
    pub status: ThreadStatus,
}

/// Ext: the core's activity of a thread; of two, the one with the higher revision is the truth.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadActivityChangedNotification {
    pub thread_id: String,
    pub activity: Activity,
}

/// A thread has a new title.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadNameUpdatedNotification {
    pub thread_id: String,
    #[serde(default)]
    pub thread_name: Option<String>,
}

/// A thread was archived.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadArchivedNotification {
    pub thread_id: String,
}

/// A thread is back in the list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadUnarchivedNotification {
    pub thread_id: String,
}

/// A thread and its history are gone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadDeletedNotification {
    pub thread_id: String,
}

/// A thread is no longer in memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadClosedNotification {
    pub thread_id: String,
}

/// The end of a thread's history was taken back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadRevertedNotification {
    pub thread_id: String,
    /// Ext: the first turn that was taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before_turn_id: Option<String>,
}

/// A thread's queue of follow-ups is another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadQueueChangedNotification {
    pub thread_id: String,
}

/// Ext: a thread's worktree is gone; its history stays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadWorktreeDiscardedNotification {
    pub thread_id: String,
    /// Where it was.
    pub path: String,
    /// Whether there was still a checkout to remove.
    pub removed_checkout: bool,
    /// The branch that was deleted with it; absent if it was gone, or is checked out elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted_branch: Option<String>,
}

/// Settings of a thread changed; all of them are told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadSettingsUpdatedNotification {
    pub thread_id: String,
    pub thread_settings: ThreadSettings,
}

/// Ext: the agent told which models it offers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadModelsUpdatedNotification {
    pub thread_id: String,
    pub data: Vec<Model>,
    /// The id of the current one; may be empty.
    pub current: String,
}

/// Ext: the agent told its options, all of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadConfigOptionsUpdatedNotification {
    pub thread_id: String,
    pub options: Vec<ConfigOption>,
}

/// Ext: the agent told its slash commands, all of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadCommandsUpdatedNotification {
    pub thread_id: String,
    pub commands: Vec<AgentCommand>,
}

/// Tokens of a thread at one moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadTokenUsageUpdatedNotification {
    pub thread_id: String,
    pub turn_id: String,
    pub token_usage: ThreadTokenUsage,
}

/// Ext: this connection was too slow and has missed something; `thread/resume` brings it up to date.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadResyncRequiredNotification {
    pub thread_id: String,
    pub reason: String,
}

/// A turn began.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TurnStartedNotification {
    pub thread_id: String,
    pub turn: Turn,
}

/// A turn ended. Every item of it has been completed before; only late ones come after it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TurnCompletedNotification {
    pub thread_id: String,
    pub turn: Turn,
}

/// The turn's plan, whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TurnPlanUpdatedNotification {
    pub thread_id: String,
    pub turn_id: String,
    #[serde(default)]
    pub explanation: Option<String>,
    pub plan: Vec<TurnPlanStep>,
}

/// What the turn has changed so far, as one unified diff.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TurnDiffUpdatedNotification {
    pub thread_id: String,
    pub turn_id: String,
    pub diff: String,
    /// Ext: the diff was cut to its bound.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// Ext: the state before the turn could not be recorded completely.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
}

/// An item began.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ItemStartedNotification {
    pub thread_id: String,
    pub turn_id: String,
    pub item: ThreadItem,
    pub started_at_ms: i64,
}

/// An item is complete; it carries all that its deltas did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ItemCompletedNotification {
    pub thread_id: String,
    pub turn_id: String,
    pub item: ThreadItem,
    pub completed_at_ms: i64,
}

/// More of an agent message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentMessageDeltaNotification {
    pub thread_id: String,
    pub turn_id: String,
    pub item_id: String,
    pub delta: String,
}

/// More of a plan in prose.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanDeltaNotification {
    pub thread_id: String,
    pub turn_id: String,
    pub item_id: String,
    pub delta: String,
}

/// A reasoning item goes on with a new part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReasoningSummaryPartAddedNotification {
    pub thread_id: String,
    pub turn_id: String,
    pub item_id: String,
    pub summary_index: u64,
}

/// More of a part of a reasoning item.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReasoningSummaryTextDeltaNotification {
    pub thread_id: String,
    pub turn_id: String,
    pub item_id: String,
    pub summary_index: u64,
    pub delta: String,
}

/// More of a command's output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommandExecutionOutputDeltaNotification {
    pub thread_id: String,
    pub turn_id: String,
    pub item_id: String,
    pub delta: String,
}

/// The changes of an open file change grew; all of them are told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileChangePatchUpdatedNotification {
    pub thread_id: String,
    pub turn_id: String,
    pub item_id: String,
    pub changes: Vec<FileUpdateChange>,
}

/// A turn fails, or an operation outside a turn did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ErrorNotification {
    pub thread_id: String,
    /// Empty if it belongs to no turn.
    pub turn_id: String,
    pub error: TurnError,
    pub will_retry: bool,
    /// Ext: the request that caused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// Something worth knowing that stops nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WarningNotification {
    #[serde(default)]
    pub thread_id: Option<String>,
    pub message: String,
    /// Ext: the request that caused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// Ext: a stable word for what it is. What the agent itself wants known is `agent_notice`, `agent_warning` or
    /// `agent_error`, as bad as the agent says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A server request needs no answer any more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerRequestResolvedNotification {
    pub thread_id: String,
    /// The id of the server request; equal to `approvalId`.
    pub request_id: RequestId,
    /// Ext.
    pub approval_id: String,
    /// Ext: what was decided; absent if nothing was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<ApprovalDecision>,
    /// Ext: the agent's option that was taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub option_id: Option<String>,
    /// Ext: who settled it.
    pub by: Resolver,
}

/// Ext: an approval waits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalRequestedNotification {
    pub thread_id: String,
    pub approval: Approval,
}

/// Ext: a raw event of the core, for connections with the `opEvents` capability.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CoreEventNotification {
    /// The submission that caused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submission_id: Option<String>,
    /// The newest fact it reflects.
    pub seq: u64,
    pub event: Event,
}
