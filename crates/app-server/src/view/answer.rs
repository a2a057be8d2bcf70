//! What clients answer to approvals, and the Op that it becomes. Pure: which option is meant follows from the options'
//! kinds, never from their ids or places.

use serde_json::{Map, Value};
use signalbox_facts::{InputKind, OptionKind, PendingInput, PermissionOption, SessionId};
use signalbox_protocol::app::{
    ApprovalDecision, ApprovalRespondParams, CommandExecutionRequestApprovalResponse,
    FileChangeRequestApprovalResponse, McpServerElicitationRequestResponse, ToolRequestUserInputResponse,
};
use signalbox_protocol::ops::{ElicitationAnswer, Op};

use super::approvals::unique_labels;

/// A client's answer, whichever way it came.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Reply {
    /// In the words that need no list of options.
    pub decision: Option<ApprovalDecision>,
    /// One of the advertised options; wins over the decision.
    pub option_id: Option<String>,
    /// Values by field key, with `accept` of a question with fields.
    pub content: Option<Value>,
    /// With a decline, what the agent is told.
    pub message: Option<String>,
}

/// What the core is to do about an answer.
#[derive(Clone, PartialEq, Debug)]
pub struct Answer {
    /// Answers the approval. The first answer wins; for a later one the core says so, and nothing else may happen.
    pub op: Op,
    /// Once the core has taken it: the turn is to be interrupted.
    pub then_interrupt: bool,
}

/// Why an answer resolves nothing. The approval stays open for others.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AnswerError {
    /// Neither a decision nor an option.
    #[error("the answer has neither a decision nor an optionId")]
    Empty,
    /// Not one of the advertised options.
    #[error("{option_id:?} is not one of the options {}", known.join(", "))]
    UnknownOption {
        /// What was named.
        option_id: String,
        /// What was advertised.
        known: Vec<String>,
    },
    /// It was accepted without naming an option, and no option allows this one time.
    #[error("no option allows this once; name one of the options {} by optionId", known.join(", "))]
    NothingAllowsOnce {
        /// What was advertised.
        known: Vec<String>,
    },
    /// The values of a question's fields are no object.
    #[error("content must be an object of values by field key")]
    Content,
}

/// The Op that answers this approval of this session.
///
/// # Errors
/// If the reply fits none of the options, or says nothing.
pub fn answer(session: SessionId, input: &PendingInput, reply: Reply) -> Result<Answer, AnswerError> {
    if let Some(id) = reply.option_id {
        let option = input.options.iter().find(|option| option.id == id);
        let option = option
            .ok_or_else(|| AnswerError::UnknownOption { option_id: id, known: option_ids(&input.options) })?;
        return Ok(permission(session, input, Some(option), false, reply.message));
    }
    let decision = reply.decision.ok_or(AnswerError::Empty)?;
    if input.kind == InputKind::Elicitation {
        return elicitation(session, input, decision, reply.content);
    }
    Ok(match decision {
        ApprovalDecision::Accept | ApprovalDecision::AcceptForSession => {
            let option = find(&input.options, &OptionKind::AllowOnce)
                .ok_or_else(|| AnswerError::NothingAllowsOnce { known: option_ids(&input.options) })?;
            permission(session, input, Some(option), decision == ApprovalDecision::AcceptForSession, None)
        }
        ApprovalDecision::Decline => {
            let option = find(&input.options, &OptionKind::RejectOnce)
                .or_else(|| find(&input.options, &OptionKind::RejectAlways));
            let mut declined = permission(session, input, option, false, reply.message);
            if let (None, Op::AnswerPermission { decline, .. }) = (option, &mut declined.op) {
                *decline = true;
            }
            declined
        }
        ApprovalDecision::Cancel => {
            Answer { then_interrupt: true, ..permission(session, input, None, false, None) }
        }
    })
}

fn permission(
    session: SessionId,
    input: &PendingInput,
    option: Option<&PermissionOption>,
    for_session: bool,
    message: Option<String>,
) -> Answer {
    let op = Op::AnswerPermission {
        session: session.to_string(),
        request_id: input.id.to_string(),
        option_id: option.map(|option| option.id.clone()),
        for_session,
        message: message.filter(|text| !text.trim().is_empty()),
        decline: false,
    };
    Answer { op, then_interrupt: false }
}

fn elicitation(
    session: SessionId,
    input: &PendingInput,
    decision: ApprovalDecision,
    content: Option<Value>,
) -> Result<Answer, AnswerError> {
    let answer = match decision {
        ApprovalDecision::Accept | ApprovalDecision::AcceptForSession => {
            let content = match content {
                None | Some(Value::Null) => Map::new(),
                Some(Value::Object(content)) => content,
                Some(_) => return Err(AnswerError::Content),
            };
            ElicitationAnswer::Accept { content }
        }
        ApprovalDecision::Decline => ElicitationAnswer::Decline,
        // As with MCP: the question was dismissed, the turn goes on.
        ApprovalDecision::Cancel => ElicitationAnswer::Cancel,
    };
    let op = Op::AnswerElicitation { session: session.to_string(), request_id: input.id.to_string(), answer };
    Ok(Answer { op, then_interrupt: false })
}

fn find<'o>(options: &'o [PermissionOption], kind: &OptionKind) -> Option<&'o PermissionOption> {
    options.iter().find(|option| option.kind == *kind)
}

fn option_ids(options: &[PermissionOption]) -> Vec<String> {
    options.iter().map(|option| option.id.clone()).collect()
}

impl From<CommandExecutionRequestApprovalResponse> for Reply {
    fn from(response: CommandExecutionRequestApprovalResponse) -> Self {
        Self {
            decision: response.decision.map(ApprovalDecision::from),
            option_id: response.option_id,
            content: None,
            message: response.message,
        }
    }
}

impl From<FileChangeRequestApprovalResponse> for Reply {
    fn from(response: FileChangeRequestApprovalResponse) -> Self {
        Self {
            decision: response.decision.map(ApprovalDecision::from),
            option_id: response.option_id,
            content: None,
            message: response.message,
        }
    }
}

impl From<McpServerElicitationRequestResponse> for Reply {
    fn from(response: McpServerElicitationRequestResponse) -> Self {
        Self {
            decision: Some(response.action.into()),
            option_id: None,
            content: response.content,
            message: None,
        }
    }
}

impl From<ApprovalRespondParams> for Reply {
    fn from(params: ApprovalRespondParams) -> Self {
        Self {
            decision: params.decision,
            option_id: params.option_id,
            content: params.content.map(Value::Object),
            message: params.message,
        }
    }
}

/// What existing clients put before a note of the user's own.
const NOTE_PREFIX: &str = "user_note: ";

impl Reply {
    /// The answer to the question that a permission request of no particular kind was put as. The first label of an
    /// option is the choice; what equals no label is the user's own words, and without a choice a decline with them.
    #[must_use]
    pub fn from_question(response: ToolRequestUserInputResponse, input: &PendingInput) -> Self {
        if response.option_id.is_some() {
            return Self { option_id: response.option_id, message: response.message, ..Self::default() };
        }
        let labels = unique_labels(&input.options);
        let by_question = response.answers.unwrap_or_default();
        let given = by_question.get(&input.id.to_string()).or_else(|| by_question.values().next());
        let mut chosen = None;
        let mut words: Vec<&str> = Vec::new();
        for text in given.map(|given| given.answers.as_slice()).unwrap_or_default() {
            match labels.iter().find(|(label, _)| label == text) {
                Some((_, option)) if chosen.is_none() => chosen = Some(option.id.clone()),
                Some(_) => {}
                None => words.push(text.strip_prefix(NOTE_PREFIX).unwrap_or(text)),
            }
        }
        let words = (!words.is_empty()).then(|| words.join("\n"));
        Self {
            decision: (chosen.is_none() && words.is_some()).then_some(ApprovalDecision::Decline),
            option_id: chosen,
            content: None,
            message: response.message.or(words),
        }
    }
}
