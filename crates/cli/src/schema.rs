//! `signalbox schema`: the published JSON Schema, made from the method table and the wire types.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use signalbox_protocol::app::{ServerNotification, ServerRequest};
use signalbox_protocol::ops::{Event, Op};
use signalbox_protocol::schema::{
    Bundle, BundleError, Entry, Scope, Side, input_schema, output_schema, root_schema, to_text,
};
use signalbox_rpc::{Contract, EntryKind, Lane, Stability, WireType};

use crate::args::SchemaArgs;
use crate::setup::{complain, told};

/// The document's name in its folder.
const FILE: &str = "signalbox.schema.json";

#[derive(Debug, thiserror::Error)]
enum SchemaError {
    #[error("the schema cannot be made")]
    Bundle(#[from] BundleError),
    #[error("cannot write {}", path.display())]
    Write { path: PathBuf, source: std::io::Error },
    #[error("the schema cannot be printed")]
    Print(#[source] std::io::Error),
}

/// Runs the subcommand.
pub(crate) fn main(args: SchemaArgs) -> ExitCode {
    match write(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(SchemaError::Print(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            complain(&told(&error));
            ExitCode::FAILURE
        }
    }
}

fn write(args: SchemaArgs) -> Result<(), SchemaError> {
    let text = document()?;
    if let Some(folder) = args.out {
        let path = folder.join(FILE);
        let written = std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&path, &text));
        written.map_err(|source| SchemaError::Write { path, source })?;
    }
    if args.print {
        let mut out = std::io::stdout().lock();
        out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(SchemaError::Print)?;
    }
    Ok(())
}

/// The whole document as text.
fn document() -> Result<String, BundleError> {
    let mut bundle = Bundle::new();
    for entry in signalbox_app_server::registry().describe() {
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
    Ok(to_text(&bundle.finish()?))
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
