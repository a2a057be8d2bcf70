//! A JSON-RPC 2.0 peer on jsonrpsee: frames, registry, lanes, server requests, transports.
//!
//! Nothing here knows what the methods are about. An application fills a [`Registry`], closes it into a [`Service`]
//! around its own state, and lets [`serve`] run a connection over any [`Transport`]:
//!
//! ```
//! use signalbox_rpc::{ConnOptions, Ctx, Lane, MethodSpec, NoParams, Registry, RpcError, memory, serve};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let mut registry: Registry<u32> = Registry::new();
//! registry.method_sync(
//!     MethodSpec::new("answer", Lane::Inline, "Says the answer.").before_initialize(),
//!     |ctx: Ctx<u32>, _: NoParams| Ok::<_, RpcError>(*ctx.app()),
//! );
//! let service = registry.build(42)?;
//! let (server, mut client) = memory();
//! let talk = async {
//!     client.send(r#"{"id":1,"method":"answer"}"#).await?;
//!     let answer = client.recv().await;
//!     drop(client);
//!     Ok::<_, Box<dyn std::error::Error>>(answer)
//! };
//! let (_, answer) = tokio::join!(serve(server, service, ConnOptions::default()), talk);
//! assert_eq!(answer?.as_deref(), Some(&br#"{"jsonrpc":"2.0","id":1,"result":42}"#[..]));
//! # Ok::<_, Box<dyn std::error::Error>>(()) })?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

mod conn;
mod context;
mod decode;
mod dispatch;
mod entry;
mod error;
mod hooks;
mod lanes;
mod layers;
mod merging;
mod options;
mod outbox;
mod outgoing;
mod peer;
mod pending;
mod post;
mod registry;
mod reply;

pub mod frame;
pub mod transport;

pub use conn::{Connection, serve};
pub use context::Ctx;
pub use decode::decode;
pub use dispatch::{MAX_RESULT_BYTES, Service};
pub use entry::{
    CANCEL_REQUEST, CancelId, CancelParams, Contract, Entry, EntryKind, Lane, MessageSpec, MethodSpec,
    NoParams, Role, Stability, WireType,
};
pub use error::{
    INTERNAL, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, NEEDS_BIDIRECTIONAL_TRANSPORT, PARSE_ERROR,
    REQUEST_CANCELLED, RETRY_AFTER_MS, RpcError, SERVER_OVERLOADED, SHUTTING_DOWN, UNAUTHORIZED,
};
pub use frame::{ClientError, TraceContext};
pub use hooks::{CloseReason, Hooks, StrayResponse, Violation};
pub use lanes::WorkLimits;
pub use merging::Merging;
pub use options::ConnOptions;
pub use outbox::{Backlog, Burst, OutboxLimits, OutboxReader, Overflow, Pushed};
pub use outgoing::{DeltaKey, Frame};
pub use peer::{ConnectionId, Peer};
pub use pending::{PendingRequest, RequestEnd};
pub use post::PostOptions;
pub use registry::{Registry, RegistryError};
pub use transport::{
    Due, Framed, Framing, Heard, KeepAlive, LineDecoder, Memory, MemoryClient, MemoryError, Prefixed,
    Protocol, Received, Source, Stdio, StdioSink, StdioSource, Transport, TransportLimits, UnixDoor,
    WebSocket, memory, sniff,
};
