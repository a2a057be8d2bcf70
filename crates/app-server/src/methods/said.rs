//! What the server says unasked: notifications and requests, as lines of the table.

use signalbox_protocol::app::*;
use signalbox_rpc::{MessageSpec, Registry};

use crate::app::AppServer;

pub(super) fn register(registry: &mut Registry<AppServer>) {
    registry
        .server_notification::<ThreadStartedNotification>(said(method::THREAD_STARTED, "A thread exists."))
        .server_notification::<ThreadStatusChangedNotification>(said(method::THREAD_STATUS_CHANGED, "A thread began or ceased to work or to wait."))
        .server_notification::<ThreadActivityChangedNotification>(said(method::THREAD_ACTIVITY_CHANGED, "Ext: the core's activity of a thread; of two, the one with the higher revision is the truth."))
        .server_notification::<ThreadNameUpdatedNotification>(said(method::THREAD_NAME_UPDATED, "A thread has a new title."))
        .server_notification::<ThreadArchivedNotification>(said(method::THREAD_ARCHIVED, "A thread was archived."))
        .server_notification::<ThreadUnarchivedNotification>(said(method::THREAD_UNARCHIVED, "A thread is back in the list."))
        .server_notification::<ThreadDeletedNotification>(said(method::THREAD_DELETED, "A thread and its history are gone."))
        .server_notification::<ThreadClosedNotification>(said(method::THREAD_CLOSED, "A thread is no longer in memory."))
        .server_notification::<ThreadRevertedNotification>(said(method::THREAD_REVERTED, "The end of a thread's history was taken back."))
        .server_notification::<ThreadQueueChangedNotification>(said(method::THREAD_QUEUE_CHANGED, "A thread's queue of follow-ups is another."))
        .server_notification::<ThreadWorktreeDiscardedNotification>(said(method::THREAD_WORKTREE_DISCARDED, "Ext: a thread's worktree is gone; its history stays."))
        .server_notification::<ThreadSettingsUpdatedNotification>(said(method::THREAD_SETTINGS_UPDATED, "Settings of a thread changed; all of them are told."))
        .server_notification::<ThreadModelsUpdatedNotification>(said(method::THREAD_MODELS_UPDATED, "Ext: the agent told which models it offers."))
        .server_notification::<ThreadConfigOptionsUpdatedNotification>(said(method::THREAD_CONFIG_OPTIONS_UPDATED, "Ext: the agent told its options, all of them."))
        .server_notification::<ThreadCommandsUpdatedNotification>(said(method::THREAD_COMMANDS_UPDATED, "Ext: the agent told its slash commands, all of them."))
        .server_notification::<ThreadTokenUsageUpdatedNotification>(said(method::THREAD_TOKEN_USAGE_UPDATED, "Tokens of a thread at one moment."))
        .server_notification::<ThreadResyncRequiredNotification>(said(method::THREAD_RESYNC_REQUIRED, "Ext: this connection was too slow and has missed something; `thread/resume` brings it up to date."))
        .server_notification::<TurnStartedNotification>(said(method::TURN_STARTED, "A turn began."))
        .server_notification::<TurnCompletedNotification>(said(method::TURN_COMPLETED, "A turn ended. Every item of it has been completed before; only late ones come after it."))
        .server_notification::<TurnPlanUpdatedNotification>(said(method::TURN_PLAN_UPDATED, "The turn's plan, whole."))
        .server_notification::<TurnDiffUpdatedNotification>(said(method::TURN_DIFF_UPDATED, "What the turn has changed so far, as one unified diff."))
        .server_notification::<ItemStartedNotification>(said(method::ITEM_STARTED, "An item began."))
        .server_notification::<ItemCompletedNotification>(said(method::ITEM_COMPLETED, "An item is complete; it carries all that its deltas did."))
        .server_notification::<AgentMessageDeltaNotification>(said(method::ITEM_AGENT_MESSAGE_DELTA, "More of an agent message."))
        .server_notification::<PlanDeltaNotification>(said(method::ITEM_PLAN_DELTA, "More of a plan in prose."))
        .server_notification::<ReasoningSummaryPartAddedNotification>(said(method::ITEM_REASONING_SUMMARY_PART_ADDED, "A reasoning item goes on with a new part."))
        .server_notification::<ReasoningSummaryTextDeltaNotification>(said(method::ITEM_REASONING_SUMMARY_TEXT_DELTA, "More of a part of a reasoning item."))
        .server_notification::<CommandExecutionOutputDeltaNotification>(said(method::ITEM_COMMAND_EXECUTION_OUTPUT_DELTA, "More of a command's output."))
        .server_notification::<FileChangePatchUpdatedNotification>(said(method::ITEM_FILE_CHANGE_PATCH_UPDATED, "The changes of an open file change grew; all of them are told."))
        .server_notification::<ErrorNotification>(said(method::ERROR, "A turn fails, or an operation outside a turn did."))
        .server_notification::<WarningNotification>(said(method::WARNING, "Something worth knowing that stops nothing."))
        .server_notification::<ServerRequestResolvedNotification>(said(method::SERVER_REQUEST_RESOLVED, "A server request needs no answer any more."))
        .server_notification::<ApprovalRequestedNotification>(said(method::APPROVAL_REQUESTED, "Ext: an approval waits."))
        .server_notification::<ProviderLoginProgressNotification>(said(method::PROVIDER_LOGIN_PROGRESS, "Ext: what a user must see while an agent logs in; only for the connection that asked for it."))
        .server_notification::<CoreEventNotification>(said(method::EVENT, "Ext: a raw event of the core, for connections with the `opEvents` capability."))
        .server_request::<CommandExecutionRequestApprovalParams, CommandExecutionRequestApprovalResponse>(said(method::ITEM_COMMAND_EXECUTION_REQUEST_APPROVAL, "Asks whether a command may run."))
        .server_request::<FileChangeRequestApprovalParams, FileChangeRequestApprovalResponse>(said(method::ITEM_FILE_CHANGE_REQUEST_APPROVAL, "Asks whether files may be changed."))
        .server_request::<ToolRequestUserInputParams, ToolRequestUserInputResponse>(said(method::ITEM_TOOL_REQUEST_USER_INPUT, "Asks about any other tool call, as a question with the agent's own options."))
        .server_request::<McpServerElicitationRequestParams, McpServerElicitationRequestResponse>(said(method::MCP_SERVER_ELICITATION_REQUEST, "Puts a question of the agent, with fields."));
}

const fn said(name: &'static str, doc: &'static str) -> MessageSpec {
    MessageSpec::new(name, doc)
}
