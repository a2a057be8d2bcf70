//! The published documents, made from the method table and the wire types: JSON Schema and OpenRPC.

use serde_json::Value;
use signalbox_protocol::app::{OpenRpcDocument, ServerNotification, ServerRequest};
use signalbox_protocol::ops::{Event, Op};
use signalbox_protocol::schema::{
    Bundle, BundleError, Entry, Scope, Side, input_schema, open_rpc as describe, output_schema, root_schema,
    to_text,
};
use signalbox_rpc::{Contract, EntryKind, Lane, Stability, WireType};

use crate::methods::registry;

/// Why a document cannot be made. Tests rule it out.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// Two types do not go together.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// It is no JSON.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

/// The JSON Schema of all messages, as text with a line end.
///
/// # Errors
/// See [`DocumentError`].
pub fn schema_text() -> Result<String, DocumentError> {
    Ok(to_text(&schema()?))
}

/// The OpenRPC document, as text with a line end.
///
/// # Errors
/// See [`DocumentError`].
pub fn open_rpc_text() -> Result<String, DocumentError> {
    Ok(to_text(&describe(&schema()?, env!("CARGO_PKG_VERSION"))))
}

/// The OpenRPC document for the wire.
pub(crate) fn open_rpc() -> Result<OpenRpcDocument, DocumentError> {
    let document = describe(&schema()?, env!("CARGO_PKG_VERSION"));
    Ok(OpenRpcDocument::new(serde_json::value::to_raw_value(&document)?))
}

fn schema() -> Result<Value, BundleError> {
    let mut bundle = Bundle::new();
    for entry in registry().describe() {
        let params = || Some(schema_of(entry.params));
        match (entry.kind, entry.result) {
            (EntryKind::Method, Some(result)) => {
                let lane = match entry.lane {
                    Lane::Inline => "inline",
                    Lane::Ordered => "ordered",
                    Lane::Concurrent => "concurrent",
                };
                let method = Entry::client_request(entry.name, params(), schema_of(result))
                    .scope(scope_of(entry.name))
                    .doc(entry.doc)
                    .annotate("lane", lane)
                    .annotate("role", entry.role.name())
                    .annotate("stability", stability(entry.stability));
                bundle.add(method)?;
            }
            (EntryKind::ClientNotification, _) => {
                let notice = Entry::client_notification(entry.name, params())
                    .scope(scope_of(entry.name))
                    .doc(entry.doc)
                    .annotate("stability", stability(entry.stability));
                bundle.add(notice)?;
            }
            // What the server says comes from the types themselves, with the place in the thread that they carry.
            (EntryKind::Method | EntryKind::ServerNotification | EntryKind::ServerRequest, _) => {}
        }
    }
    for entry in ServerNotification::entries().into_iter().chain(ServerRequest::entries()) {
        bundle.add(entry.annotate("stability", stability(Stability::Stable)))?;
    }
    bundle.add_type(Side::Client, input_schema::<Op>())?;
    bundle.add_type(Side::Server, output_schema::<Event>())?;
    bundle.finish()
}

fn schema_of(wire: WireType) -> serde_json::Value {
    let side = match wire.contract {
        Contract::Deserialize => Side::Client,
        Contract::Serialize => Side::Server,
    };
    root_schema(side, wire.schema)
}

fn scope_of(method: &str) -> Scope {
    let of_threads = ["thread/", "turn/", "item/"].iter().any(|prefix| method.starts_with(prefix));
    let lists = method.ends_with("/list") || method == "thread/start";
    if of_threads && !lists { Scope::Thread } else { Scope::Connection }
}

fn stability(stability: Stability) -> &'static str {
    match stability {
        Stability::Stable => "stable",
        Stability::Experimental => "experimental",
    }
}
