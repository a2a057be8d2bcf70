//! Close codes: what a WebSocket client is told about the end of its connection, and what its faults are.

use std::io;

use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::{Error, Utf8Bytes};

use crate::hooks::{CloseReason, Violation};

/// The most that a close frame can say, in bytes.
const REASON_BYTES: usize = 123;

/// The close code (RFC 6455) of a reason.
pub fn close_code(reason: &CloseReason) -> u16 {
    match reason {
        CloseReason::Eof => 1000,
        CloseReason::Shutdown | CloseReason::Silent => 1001,
        CloseReason::Violation(Violation::Protocol, _) => 1002,
        CloseReason::Violation(Violation::Kind, _) => 1003,
        CloseReason::Violation(Violation::Text, _) => 1007,
        CloseReason::Violation(Violation::TooLarge, _) => 1009,
        CloseReason::Revoked(_) | CloseReason::Violation(Violation::Slow, _) => 1008,
        // "Try again later".
        CloseReason::Violation(Violation::NoRoom, _)
        | CloseReason::Stalled
        | CloseReason::Overflow
        | CloseReason::Lagging(_) => 1013,
        CloseReason::ReadFailed(_)
        | CloseReason::WriteFailed(_)
        | CloseReason::Closed(_)
        | CloseReason::Dropped => 1011,
    }
}

pub(super) fn close_frame(reason: &CloseReason) -> CloseFrame {
    let mut text = reason.to_string();
    text.truncate(text.floor_char_boundary(REASON_BYTES));
    CloseFrame { code: close_code(reason).into(), reason: Utf8Bytes::from(text) }
}

/// What an error of reading means: `None` that the client has gone.
pub(super) fn read_failed(error: Error, max_bytes: Option<usize>) -> io::Result<Option<CloseReason>> {
    let violation = |kind, text| Ok(Some(CloseReason::Violation(kind, text)));
    match error {
        Error::ConnectionClosed | Error::AlreadyClosed => Ok(None),
        Error::Protocol(
            tokio_tungstenite::tungstenite::error::ProtocolError::ResetWithoutClosingHandshake,
        ) => Ok(None),
        Error::Io(error)
            if matches!(
                error.kind(),
                io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::UnexpectedEof
            ) =>
        {
            Ok(None)
        }
        Error::Io(error) => Err(error),
        Error::Capacity(_) => {
            let limit = max_bytes.unwrap_or_default();
            violation(Violation::TooLarge, format!("a message is larger than {limit} bytes"))
        }
        Error::Utf8(_) => violation(Violation::Text, "a text message is no UTF-8".to_owned()),
        other => violation(Violation::Protocol, other.to_string()),
    }
}
