//! The one table from what the core and the store decline to what clients are told.

use signalbox_engine::{AgentFailure, OpError};
use signalbox_rpc::{RpcError, UNAUTHORIZED};
use signalbox_store::{StoreError, TranscriptError};

/// A request that is refused as a whole, and conditions that existing clients know by this code and their text.
const INVALID_REQUEST: i32 = -32600;
/// The parameters cannot be used.
const INVALID_PARAMS: i32 = -32602;
/// The agent or its provider.
const PROVIDER: i32 = -32021;
/// The thread is in a state that does not allow it.
const STATE: i32 = -32022;
/// Something that was named is not there, or not any more.
const NOT_THERE: i32 = -32023;
/// The store.
const STORAGE: i32 = -32024;

// The codes above and those of `rpc` are one numbering; this fails to compile if they ever meet.
const _: () = assert!(UNAUTHORIZED != PROVIDER && UNAUTHORIZED != STATE);

/// Why a method fails.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The core declined it.
    #[error(transparent)]
    Op(#[from] OpError),
    /// The store could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What the method itself found.
    #[error(transparent)]
    Rpc(#[from] RpcError),
}

impl From<Error> for RpcError {
    fn from(error: Error) -> Self {
        match error {
            Error::Op(OpError::InvalidParams { path, message }) => {
                Self::invalid_params(message, member(path), None)
            }
            Error::Op(error) => of_op(&error),
            Error::Store(error) => of_store(&error),
            Error::Rpc(error) => error,
        }
    }
}

/// What the methods call a field of an Op.
fn member(field: &'static str) -> &'static str {
    match field {
        "client_message_id" => "clientUserMessageId",
        "parent_turn" => "parentTurnId",
        "root_turn" => "rootTurnId",
        "use_worktree" => "worktree",
        "doc" => "input",
        "launch.ask_mode" => "launch.askMode",
        "launch.edit_mode" => "launch.editMode",
        "launch.yolo_mode" => "launch.yoloMode",
        "launch.mcp_servers" => "config.mcp_servers",
        "method_id" => "methodId",
        "option_id" => "optionId",
        "order" => "queuedSubmissionIds",
        "queued" => "queuedSubmissionId",
        "request_id" => "approvalId",
        "roots" => "runtimeWorkspaceRoots",
        "title" => "name",
        other => other,
    }
}

/// What the core says of a raw Op, in whose words the caller spoke.
pub(crate) fn of_raw_op(error: &OpError) -> Error {
    of_op(error).into()
}

/// There is no thread of this id.
pub(crate) fn thread_not_found(id: &str) -> Error {
    OpError::SessionNotFound(id.to_owned()).into()
}

/// No approval of this id waits, or ever did.
pub(crate) fn approval_not_found(id: &str) -> Error {
    OpError::ApprovalNotFound(id.to_owned()).into()
}

/// A field whose value would need something that is not there. `path` names it.
pub(crate) fn unsupported_field(path: &str, message: impl Into<String>) -> Error {
    RpcError::new(INVALID_PARAMS, "unsupported_field", message.into()).with("path", path).into()
}

/// A value that does not fit. `path` names its field.
pub(crate) fn invalid(path: &str, message: impl std::fmt::Display) -> Error {
    RpcError::invalid_params(message, path, None).into()
}

/// A cursor that this server did not make, or that no longer leads anywhere.
pub(crate) fn stale_cursor() -> Error {
    RpcError::new(INVALID_PARAMS, "stale_cursor", "the cursor leads nowhere; ask for the first page again")
        .with("path", "cursor")
        .into()
}

/// A cursor of another thread.
pub(crate) fn foreign_cursor() -> Error {
    let message = "the cursor belongs to another thread; ask for the first page of this one";
    RpcError::new(INVALID_PARAMS, "stale_cursor", message).with("path", "cursor").into()
}

/// There is no turn of this id, or not any more.
pub(crate) fn turn_not_found(id: &str) -> Error {
    OpError::TurnNotFound(id.to_owned()).into()
}

/// There is no item of this id, or not any more.
pub(crate) fn item_not_found(id: &str) -> Error {
    RpcError::new(NOT_THERE, "item_not_found", format!("item not found: {id}")).into()
}

/// Nobody has handed over doors: this server lets nobody in from elsewhere.
pub(crate) fn no_doors() -> Error {
    let message =
        "this server has no doors: it serves the one client that started it, and nobody can be let in";
    RpcError::new(STATE, "no_doors", message).into()
}

/// A login that an agent did itself has failed.
pub(crate) fn of_login(failure: &AgentFailure, addresses: Vec<String>) -> Error {
    let mut error = RpcError::new(PROVIDER, failure.reason.as_str(), failure.message.clone());
    error.data.extend(failure.to_failure().data);
    if addresses.is_empty() { error.into() } else { error.with("addresses", addresses).into() }
}

/// The turns of a thread do not fit into one result.
pub(crate) fn history_too_large(limit_bytes: usize) -> Error {
    let message = format!(
        "the turns of this thread take more than {limit_bytes} bytes; read them in pages, with thread/turns/list"
    );
    RpcError::new(INVALID_PARAMS, "result_too_large", message).with("limitBytes", limit_bytes).into()
}

/// A page of a transcript that cannot be had.
pub(crate) fn of_transcript(error: TranscriptError) -> Error {
    match error {
        TranscriptError::Store(error) => error.into(),
        TranscriptError::InvalidCursor { value } => {
            let message = format!("{value} is no prompt that opens a turn of this thread");
            RpcError::new(INVALID_PARAMS, "stale_cursor", message).with("path", "before").into()
        }
        TranscriptError::Unreadable { session, seq, reason, older } => {
            tracing::error!(%session, seq, reason, "a stored turn cannot be read");
            let message = format!("fact {seq} of this thread cannot be read; the turns before it can");
            let error = RpcError::new(STORAGE, "thread_unreadable", message).with("seq", seq);
            match older {
                Some(older) => error.with("before", older).into(),
                None => error.into(),
            }
        }
    }
}

fn of_op(error: &OpError) -> RpcError {
    let code = match error {
        OpError::Overloaded => return with_data(RpcError::server_overloaded(), error),
        OpError::QueueFull { .. } | OpError::TooManyEphemeral { .. } => {
            let overloaded = RpcError { message: error.to_string().into(), ..RpcError::server_overloaded() };
            return with_data(overloaded, error);
        }
        OpError::ShuttingDown => return RpcError::shutting_down(),
        OpError::InvalidParams { path, message } => return RpcError::invalid_params(message, path, None),
        OpError::SessionNotFound(_)
        | OpError::TurnNotFound(_)
        | OpError::NoActiveTurn { .. }
        | OpError::ActiveTurnMismatch { .. } => INVALID_REQUEST,
        OpError::Unsupported(_) => {
            return RpcError::new(INVALID_PARAMS, "unsupported_field", error.to_string());
        }
        OpError::ProviderNotFound { .. }
        | OpError::ProviderUnavailable { .. }
        | OpError::Agent { .. }
        | OpError::AgentSessionKept { .. }
        | OpError::TrafficLogKept { .. }
        | OpError::AgentFailed(_) => PROVIDER,
        OpError::TurnActive(_)
        | OpError::AlreadyImported { .. }
        | OpError::NotSteerable { .. }
        | OpError::Archived
        | OpError::WorktreeDiscarded
        | OpError::WorktreeMoved { .. }
        | OpError::WorktreeUnavailable { .. }
        | OpError::WorktreeDirty { .. }
        | OpError::WorktreePresent(_)
        | OpError::Cancelled => STATE,
        OpError::ApprovalNotFound(_) | OpError::ApprovalResolved { .. } => NOT_THERE,
        OpError::StorageFailed(_) | OpError::SessionUnreadable(_) => STORAGE,
    };
    let answer = RpcError::new(code, error.reason(), error.to_string());
    with_data(if error.retryable() { answer.retryable() } else { answer }, error)
}

fn with_data(mut answer: RpcError, error: &OpError) -> RpcError {
    answer.data.extend(error.data());
    answer
}

fn of_store(error: &StoreError) -> RpcError {
    match error {
        StoreError::Closed => RpcError::shutting_down(),
        StoreError::UnknownSession { session } => of_op(&OpError::SessionNotFound(session.to_string())),
        StoreError::Unreadable { session, reason } => {
            tracing::error!(%session, reason, "a stored thread cannot be read");
            of_op(&OpError::SessionUnreadable(session.to_string()))
        }
        other => {
            let cause = std::error::Error::source(other).map(ToString::to_string);
            tracing::error!(error = %other, cause, "the store cannot be read");
            RpcError::new(STORAGE, "storage_failed", other.to_string()).retryable()
        }
    }
}

#[cfg(test)]
mod tests {
    use signalbox_facts::TurnId;

    use super::*;

    fn code_and_reason(error: OpError) -> (i32, &'static str, bool) {
        let error = RpcError::from(Error::from(error));
        (error.code, error.reason, error.retryable)
    }

    #[test]
    fn each_refusal_of_the_core_has_its_code() {
        let turn = TurnId::generate();
        assert_eq!(
            code_and_reason(OpError::SessionNotFound("x".into())),
            (-32600, "thread_not_found", false)
        );
        assert_eq!(code_and_reason(OpError::TurnActive(turn)), (-32022, "turn_active", false));
        assert_eq!(
            code_and_reason(OpError::NoActiveTurn { verb: "steer" }),
            (-32600, "no_active_turn", false)
        );
        assert_eq!(code_and_reason(OpError::StorageFailed("disk".into())), (-32024, "storage_failed", true));
        assert_eq!(code_and_reason(OpError::Overloaded), (-32001, "server_overloaded", true));
        assert_eq!(code_and_reason(OpError::ShuttingDown), (-32026, "shutting_down", true));
        assert_eq!(
            code_and_reason(OpError::ApprovalNotFound("x".into())),
            (-32023, "approval_not_found", false)
        );
        assert_eq!(
            code_and_reason(OpError::Agent { reason: "agent_failed", message: "no".into() }),
            (-32021, "agent_failed", false)
        );
    }

    #[test]
    fn the_details_travel_along() {
        let turn = TurnId::generate();
        let error = RpcError::from(Error::from(OpError::ActiveTurnMismatch {
            expected: "a".into(),
            found: turn,
            steer: false,
        }));
        assert_eq!(error.message, format!("expected active turn id a but found {turn}"));
        assert_eq!(error.data["activeTurnId"], turn.to_string());
        let error = RpcError::from(Error::from(OpError::ProviderUnavailable {
            provider: "p".into(),
            why: "the command was not found".into(),
            command: "cmd".into(),
            hint: None,
        }));
        assert_eq!(error.data["command"], "cmd");
    }

    #[test]
    fn fields_have_the_names_that_the_caller_used() {
        let error = || OpError::InvalidParams { path: "option_id", message: "no".into() };
        assert_eq!(RpcError::from(Error::from(error())).data["path"], "optionId");
        assert_eq!(RpcError::from(of_raw_op(&error())).data["path"], "option_id");
    }

    #[test]
    fn an_unknown_thread_reads_as_existing_clients_know_it() {
        assert_eq!(RpcError::from(thread_not_found("abc")).message, "thread not found: abc");
    }
}
