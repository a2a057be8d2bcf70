//! Approvals: as records that any entitled client may answer, and as server requests to the clients that watch.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::item::{CommandAction, FileUpdateChange};
use crate::lenient::null_as_default;
use crate::ops::Form;

/// Ext: a pending approval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Approval {
    /// Also the JSON-RPC id of its server requests, on every connection.
    pub approval_id: String,
    pub thread_id: String,
    pub turn_id: String,
    /// The item it holds up; `null` for a question that belongs to none.
    #[serde(default)]
    pub item_id: Option<String>,
    pub kind: ApprovalKind,
    pub title: String,
    /// The agent's own options.
    pub options: Vec<ApprovalOption>,
    /// The question's fields, when `kind` is `elicitation`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub form: Option<Form>,
    /// Place in the one order of all approvals of all threads.
    pub sequence: u64,
    pub requested_at_ms: i64,
    /// What would run, when `kind` is `command`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// What would change, when `kind` is `fileChange`.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<FileUpdateChange>,
    pub available_decisions: Vec<ApprovalDecision>,
}

/// What an approval is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ApprovalKind {
    Command,
    FileChange,
    /// Any other tool call.
    Tool,
    /// A question with fields.
    Elicitation,
}

/// An option of the agent that asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalOption {
    pub option_id: String,
    pub name: String,
    /// ACP's word: allow_once, allow_always, reject_once, reject_always.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
}

/// What was decided, in the words that need no list of options.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ApprovalDecision {
    Accept,
    /// Also for what is the same later in this session; the rule is kept here, not by the agent.
    AcceptForSession,
    /// The turn goes on without it.
    Decline,
    /// The turn is interrupted.
    Cancel,
}

/// Ext fields of every approval's server request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalRequestInfo {
    pub approval_id: String,
    pub title: String,
    pub options: Vec<ApprovalOption>,
    /// Always with `decline` and `cancel`.
    pub available_decisions: Vec<ApprovalDecision>,
}

/// Params of `item/commandExecution/requestApproval`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommandExecutionRequestApprovalParams {
    pub thread_id: String,
    pub turn_id: String,
    pub item_id: String,
    pub started_at_ms: i64,
    #[serde(default)]
    pub kind: CommandExecutionApprovalKind,
    #[serde(default)]
    pub reason: Option<String>,
    #[serde(default)]
    pub command: Option<String>,
    #[serde(default)]
    pub cwd: Option<String>,
    #[serde(default)]
    pub command_actions: Option<Vec<CommandAction>>,
    #[serde(flatten)]
    pub info: ApprovalRequestInfo,
}

/// What about a command is to be approved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum CommandExecutionApprovalKind {
    #[default]
    Command,
    WriteStdin,
    HumanCommand,
}

/// Answer to `item/commandExecution/requestApproval`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommandExecutionRequestApprovalResponse {
    /// Needed unless `optionId` is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<CommandExecutionApprovalDecision>,
    /// Ext: one of the advertised options; wins over `decision`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub option_id: Option<String>,
    /// Ext: with a decline, what the agent is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// A decision about a command. The two with an amendment come from clients of a server that has rules for commands; here
/// the first counts as `acceptForSession`, the second as that or `decline`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum CommandExecutionApprovalDecision {
    #[serde(alias = "approved")]
    Accept,
    #[serde(alias = "approved_for_session")]
    AcceptForSession,
    AcceptWithExecpolicyAmendment {
        execpolicy_amendment: Vec<String>,
    },
    ApplyNetworkPolicyAmendment {
        network_policy_amendment: NetworkPolicyAmendment,
    },
    #[serde(alias = "denied")]
    Decline,
    #[serde(alias = "abort")]
    Cancel,
}

/// A rule about one host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NetworkPolicyAmendment {
    pub host: String,
    pub action: NetworkPolicyRuleAction,
}

/// What a rule about a host says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum NetworkPolicyRuleAction {
    Allow,
    Deny,
}

impl From<CommandExecutionApprovalDecision> for ApprovalDecision {
    fn from(decision: CommandExecutionApprovalDecision) -> Self {
        use CommandExecutionApprovalDecision as Command;
        match decision {
            Command::Accept => Self::Accept,
            Command::AcceptForSession | Command::AcceptWithExecpolicyAmendment { .. } => {
                Self::AcceptForSession
            }
            Command::ApplyNetworkPolicyAmendment { network_policy_amendment } => {
                match network_policy_amendment.action {
                    NetworkPolicyRuleAction::Allow => Self::AcceptForSession,
                    NetworkPolicyRuleAction::Deny => Self::Decline,
                }
            }
            Command::Decline => Self::Decline,
            Command::Cancel => Self::Cancel,
        }
    }
}

/// Params of `item/fileChange/requestApproval`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileChangeRequestApprovalParams {
    pub thread_id: String,
    pub turn_id: String,
    pub item_id: String,
    pub started_at_ms: i64,
    #[serde(default)]
    pub reason: Option<String>,
    #[serde(default)]
    pub grant_root: Option<String>,
    #[serde(flatten)]
    pub info: ApprovalRequestInfo,
    /// Ext: the changes as known when the request was made, so that no earlier frame is needed to show them.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<FileUpdateChange>,
}

/// Answer to `item/fileChange/requestApproval`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileChangeRequestApprovalResponse {
    /// Needed unless `optionId` is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<FileChangeApprovalDecision>,
    /// Ext: one of the advertised options; wins over `decision`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub option_id: Option<String>,
    /// Ext: with a decline, what the agent is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// A decision about file changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum FileChangeApprovalDecision {
    #[serde(alias = "approved")]
    Accept,
    #[serde(alias = "approved_for_session")]
    AcceptForSession,
    #[serde(alias = "denied")]
    Decline,
    #[serde(alias = "abort")]
    Cancel,
}

impl From<FileChangeApprovalDecision> for ApprovalDecision {
    fn from(decision: FileChangeApprovalDecision) -> Self {
        match decision {
            FileChangeApprovalDecision::Accept => Self::Accept,
            FileChangeApprovalDecision::AcceptForSession => Self::AcceptForSession,
            FileChangeApprovalDecision::Decline => Self::Decline,
            FileChangeApprovalDecision::Cancel => Self::Cancel,
        }
    }
}

/// Params of `item/tool/requestUserInput`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolRequestUserInputParams {
    pub thread_id: String,
    pub turn_id: String,
    pub item_id: String,
    pub questions: Vec<ToolRequestUserInputQuestion>,
    /// Whether the agent waits for the answer.
    pub is_blocking: bool,
    #[serde(default)]
    pub auto_resolution_ms: Option<u64>,
    #[serde(flatten)]
    pub info: ApprovalRequestInfo,
}

/// One question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolRequestUserInputQuestion {
    pub id: String,
    pub header: String,
    pub question: String,
    /// Whether an answer of one's own is welcome; here it is a decline with that text as message.
    #[serde(default, deserialize_with = "null_as_default")]
    pub is_other: bool,
    #[serde(default, deserialize_with = "null_as_default")]
    pub is_secret: bool,
    #[serde(default)]
    pub options: Option<Vec<ToolRequestUserInputOption>>,
}

/// One answer that is offered. Labels are unique in their question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolRequestUserInputOption {
    pub label: String,
    pub description: String,
}

/// Answer to `item/tool/requestUserInput`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolRequestUserInputResponse {
    /// By question id. Needed unless `optionId` is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<BTreeMap<String, ToolRequestUserInputAnswer>>,
    /// Ext: one of the advertised options; wins over `answers`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub option_id: Option<String>,
    /// Ext: with a decline, what the agent is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// The answers to one question: labels, or words of the user's own.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ToolRequestUserInputAnswer {
    pub answers: Vec<String>,
}

/// Params of `approval/list`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalListParams {
    /// Absent: of all threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<String>,
}

/// Result of `approval/list`, by ascending `sequence`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalListResult {
    pub data: Vec<Approval>,
}

/// Params of `approval/respond`. One of `decision` and `optionId` is needed.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalRespondParams {
    pub approval_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<ApprovalDecision>,
    /// One of the advertised options; wins over `decision`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub option_id: Option<String>,
    /// Values by field key, with `accept` of a question with fields.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Map<String, Value>>,
    /// With a decline, what the agent is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Result of `approval/respond`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalRespondResult {
    pub outcome: ApprovalOutcome,
}

/// How an approval was settled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalOutcome {
    pub decision: ApprovalDecision,
    /// The agent's option that was taken; `null` if none was.
    #[serde(default)]
    pub option_id: Option<String>,
}
