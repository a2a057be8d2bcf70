//! `signalbox schema`: writes the published documents, which the app-server makes of its method table.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use signalbox_app_server::{DocumentError, open_rpc_text, schema_text};

use crate::args::SchemaArgs;
use crate::setup::{complain, told};

/// The documents' names in their folder.
const SCHEMA: &str = "signalbox.schema.json";
const OPEN_RPC: &str = "openrpc.json";

#[derive(Debug, thiserror::Error)]
enum SchemaError {
    #[error("the schema cannot be made")]
    Document(#[from] DocumentError),
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
    let text = schema_text()?;
    if let Some(folder) = args.out {
        for (name, text) in [(SCHEMA, &text), (OPEN_RPC, &open_rpc_text()?)] {
            let path = folder.join(name);
            let written = std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&path, text));
            written.map_err(|source| SchemaError::Write { path, source })?;
        }
    }
    if args.print {
        let mut out = std::io::stdout().lock();
        out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(SchemaError::Print)?;
    }
    Ok(())
}
