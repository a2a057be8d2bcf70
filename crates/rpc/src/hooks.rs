//! Why connections end, and what an application may hear about them.

use serde_json::value::RawValue;

use crate::frame::ClientError;
use crate::peer::Peer;

/// Why a connection ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CloseReason {
    /// The client closed its side.
    #[error("the client closed the connection")]
    Eof,
    /// The server is leaving.
    #[error("the server is shutting down")]
    Shutdown,
    /// The client read nothing for the grace period.
    #[error("the client read nothing for too long")]
    Stalled,
    /// The client read too slowly and the outbox reached its hard bound.
    #[error("the client reads too slowly")]
    Overflow,
    /// Reading failed.
    #[error("reading failed: {0}")]
    ReadFailed(String),
    /// Writing failed.
    #[error("writing failed: {0}")]
    WriteFailed(String),
    /// The client broke a rule of its transport; what was queued before has still been written.
    #[error("{1}")]
    Violation(Violation, String),
    /// The client answered no ping: its network is gone, or it is.
    #[error("the client answers no pings")]
    Silent,
    /// Who the client was let in as is not let in any more.
    #[error("{0}")]
    Revoked(&'static str),
    /// The client has missed more than can be made up for ([`Peer::close_lagging`]).
    #[error("{0}")]
    Lagging(&'static str),
    /// Somebody on our side closed it because it cannot go on ([`Peer::close`]).
    #[error("{0}")]
    Closed(&'static str),
    /// The future that served the connection was dropped.
    #[error("the connection was dropped")]
    Dropped,
}

/// Which rule of its transport a client broke.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Violation {
    /// What came is none of the transport's.
    Protocol,
    /// A kind of message that is not taken here.
    Kind,
    /// A text that is no UTF-8.
    Text,
    /// A message above the limit, on a transport that cannot skip it.
    TooLarge,
    /// A message that did not come whole in its time.
    Slow,
    /// None of its own: there is no room for its message beside those of others.
    NoRoom,
}

/// A client's answer that nobody waits for: late, withdrawn, or with an id we never used.
#[derive(Debug)]
pub struct StrayResponse<'a> {
    /// The id, or `None` where the client sent no string.
    pub id: Option<&'a str>,
    /// What the client answered.
    pub outcome: Result<&'a RawValue, ClientError>,
}

/// What the application wants to hear about connections. The methods are called in the connection's own task or
/// the pusher's, and must not block.
pub trait Hooks: Send + Sync + 'static {
    /// The connection begins; nothing has been read yet.
    fn opened(&self, _peer: &Peer) {}
    /// The client answered something that nobody waits for.
    fn stray_response(&self, _peer: &Peer, _response: StrayResponse<'_>) {}
    /// The outbox has met its hard bound under [`Overflow::Refuse`](crate::Overflow::Refuse); told once until it has drained.
    fn overflowed(&self, _peer: &Peer) {}
    /// The connection has ended; called exactly once, whatever ended it.
    fn closed(&self, _peer: &Peer, _reason: &CloseReason) {}
}

/// No hooks.
impl Hooks for () {}
