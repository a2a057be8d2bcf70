//! The published schema: JSON Schema of the wire types in a layout that code generators take well, and the one document
//! that holds all of it.

mod bundle;
mod entry;
mod normalise;
mod openrpc;
mod rewrite;

pub use bundle::{Bundle, BundleError, DOCUMENT_ID, to_text};
pub use entry::{Entry, Kind, Scope, Side, input_schema, output_schema, root_schema};
pub use normalise::normalise;
pub use openrpc::{OPENRPC_VERSION, open_rpc};
