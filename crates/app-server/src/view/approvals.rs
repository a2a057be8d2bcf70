//! Approvals: what a parked request is to clients, as a record and as a server request.

use std::collections::BTreeSet;

use signalbox_engine::convert as core;
use signalbox_facts::{InputKind, OptionKind, PendingInput, PermissionOption, SessionRow, TurnId};
use signalbox_protocol::app::{
    Approval, ApprovalDecision, ApprovalKind, ApprovalRequestInfo, CommandAction,
    CommandExecutionApprovalKind, CommandExecutionRequestApprovalParams, FileChangeRequestApprovalParams,
    FileUpdateChange, ItemBody, McpElicitation, McpServerElicitationRequestParams, ServerRequest,
    ToolRequestUserInputOption, ToolRequestUserInputParams, ToolRequestUserInputQuestion,
};

use super::convert;
use super::items;

/// A parked request in its surroundings.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<'a> {
    pub(super) session: &'a SessionRow,
    pub(super) turn: TurnId,
    pub(super) input: &'a PendingInput,
    /// The item it holds up, as far as it is shown.
    pub(super) body: Option<&'a ItemBody>,
}

impl Asked<'_> {
    /// What it is about: by the tool's kind, unless the call is one of an MCP server.
    pub(super) fn kind(self) -> ApprovalKind {
        if self.input.kind == InputKind::Elicitation {
            return ApprovalKind::Elicitation;
        }
        if matches!(self.body, Some(ItemBody::McpToolCall { .. })) {
            return ApprovalKind::Tool;
        }
        match self.input.tool_kind.as_deref() {
            Some("execute") => ApprovalKind::Command,
            Some("edit" | "delete" | "move") => ApprovalKind::FileChange,
            _ => ApprovalKind::Tool,
        }
    }

    /// The record that any entitled client may answer.
    pub(super) fn approval(self) -> Approval {
        let kind = self.kind();
        let input = self.input;
        let of_command = kind == ApprovalKind::Command;
        Approval {
            approval_id: input.id.to_string(),
            thread_id: self.session.id.to_string(),
            turn_id: self.turn.to_string(),
            item_id: input.item_seq.map(convert::item_id),
            kind,
            title: input.title.clone(),
            options: convert::options_out(&input.options),
            form: input.form.as_ref().map(|form| core::form_out(form, input.tool_call.clone())),
            sequence: input.sequence,
            requested_at_ms: input.requested_at_ms,
            command: input.command.clone().filter(|_| of_command),
            cwd: input.cwd.as_deref().map(convert::path).filter(|_| of_command),
            changes: self.changes(),
            available_decisions: available_decisions(kind, &input.options),
        }
    }

    /// The request to the clients that watch.
    pub(super) fn server_request(self) -> ServerRequest {
        let kind = self.kind();
        let input = self.input;
        let thread_id = self.session.id.to_string();
        let turn_id = self.turn.to_string();
        let item_id = input.item_seq.map(convert::item_id).unwrap_or_default();
        let info = ApprovalRequestInfo {
            approval_id: input.id.to_string(),
            title: input.title.clone(),
            options: convert::options_out(&input.options),
            available_decisions: available_decisions(kind, &input.options),
        };
        match kind {
            ApprovalKind::Command => CommandExecutionRequestApprovalParams {
                thread_id,
                turn_id,
                item_id,
                started_at_ms: input.requested_at_ms,
                kind: CommandExecutionApprovalKind::Command,
                reason: input.reason.clone(),
                command: input.command.clone(),
                cwd: input.cwd.as_deref().map(convert::path),
                command_actions: input
                    .command
                    .as_ref()
                    .map(|command| vec![CommandAction::Unknown { command: command.clone() }]),
                info,
            }
            .into(),
            ApprovalKind::FileChange => FileChangeRequestApprovalParams {
                thread_id,
                turn_id,
                item_id,
                started_at_ms: input.requested_at_ms,
                reason: input.reason.clone(),
                grant_root: None,
                info,
                changes: self.changes(),
            }
            .into(),
            ApprovalKind::Tool => ToolRequestUserInputParams {
                thread_id,
                turn_id,
                item_id,
                questions: vec![question(input)],
                is_blocking: true,
                auto_resolution_ms: None,
                info,
            }
            .into(),
            ApprovalKind::Elicitation => McpServerElicitationRequestParams {
                thread_id,
                turn_id: Some(turn_id),
                server_name: self.session.provider.to_string(),
                question: elicitation(input),
                info,
            }
            .into(),
        }
    }

    fn changes(self) -> Vec<FileUpdateChange> {
        self.body.map(items::changes).unwrap_or_default().to_vec()
    }
}

/// The decisions that will be understood. `accept` needs an option that allows once: an *always* is never chosen for
/// somebody who did not name it.
fn available_decisions(kind: ApprovalKind, options: &[PermissionOption]) -> Vec<ApprovalDecision> {
    let mut decisions = Vec::with_capacity(4);
    if kind == ApprovalKind::Elicitation || options.iter().any(|option| option.kind == OptionKind::AllowOnce)
    {
        decisions.push(ApprovalDecision::Accept);
        if matches!(kind, ApprovalKind::Command | ApprovalKind::FileChange) {
            decisions.push(ApprovalDecision::AcceptForSession);
        }
    }
    decisions.extend([ApprovalDecision::Decline, ApprovalDecision::Cancel]);
    decisions
}

/// What a question asks: fields, or an address to open.
fn elicitation(input: &PendingInput) -> McpElicitation {
    let message = input.form.as_ref().map_or(&input.title, |form| &form.message).clone();
    match input.form.as_ref().and_then(|form| form.link.as_ref()) {
        Some(link) => McpElicitation::Url { message, elicitation_id: link.id.clone(), url: link.url.clone() },
        None => {
            McpElicitation::Form { message, requested_schema: convert::form_schema_out(input.form.as_ref()) }
        }
    }
}

/// The one question that a permission request of any other kind is.
fn question(input: &PendingInput) -> ToolRequestUserInputQuestion {
    let options = unique_labels(&input.options).into_iter().map(|(label, option)| {
        ToolRequestUserInputOption { label, description: core::option_kind(&option.kind).replace('_', " ") }
    });
    ToolRequestUserInputQuestion {
        id: input.id.to_string(),
        header: input.tool_kind.clone().unwrap_or_else(|| "tool".to_owned()),
        question: input.title.clone(),
        is_other: true,
        is_secret: false,
        options: Some(options.collect()),
    }
}

/// The options by labels that tell them apart: a label that comes again gets a number.
pub(super) fn unique_labels(options: &[PermissionOption]) -> Vec<(String, &PermissionOption)> {
    let mut taken = BTreeSet::new();
    let mut labels = Vec::with_capacity(options.len());
    for option in options {
        let mut label = option.label.clone();
        let mut number = 2_usize;
        while taken.contains(&label) {
            label = format!("{} ({number})", option.label);
            number += 1;
        }
        taken.insert(label.clone());
        labels.push((label, option));
    }
    labels
}
