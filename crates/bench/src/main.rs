//! The benchmark program: each figure with its goal and a raw reference measured in the same run.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a program for developers"
)]

mod child;
mod connection;
mod figures;
mod jsonrpsee_server;
mod servers;
mod stats;

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use clap::{Parser, Subcommand};

/// Measures a release build of signalbox on this machine. Figures depend on what else runs; compare them with the
/// raw reference beside them, which a pipe that only copies gives in the same run.
#[derive(Debug, Parser)]
struct Arguments {
    /// The binary to measure; built from this workspace if left out.
    #[arg(long)]
    bin: Option<PathBuf>,
    /// Only figures whose name contains this.
    #[arg(long)]
    only: Option<String>,
    #[command(subcommand)]
    hidden: Option<Hidden>,
}

#[derive(Debug, Subcommand)]
enum Hidden {
    /// Copies stdin to stdout line by line: the raw reference.
    #[command(hide = true)]
    Copy,
    /// jsonrpsee's own server: the reference of the doors.
    #[command(hide = true)]
    Jsonrpsee,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match arguments.hidden {
        Some(Hidden::Copy) => return child::copy(),
        Some(Hidden::Jsonrpsee) => return jsonrpsee_server::main(),
        None => {}
    }
    let result =
        arguments.bin.map_or_else(build, Ok).and_then(|bin| figures::run(&bin, arguments.only.as_deref()));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Builds the binary as users get it.
fn build() -> Result<PathBuf, Box<dyn std::error::Error>> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let status = Command::new(cargo).args(["build", "--release", "-p", "signalbox"]).status()?;
    if !status.success() {
        return Err("building signalbox failed".into());
    }
    // Beside this program: both are in the release folder of the target directory.
    let folder = std::env::current_exe()?.parent().map(PathBuf::from).ok_or("this program lies nowhere")?;
    let bin = folder.join("signalbox");
    if bin.exists() {
        Ok(bin)
    } else {
        Err(format!("{} is not there; run with --release", bin.display()).into())
    }
}
