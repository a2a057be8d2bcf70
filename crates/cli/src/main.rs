//! The binary `signalbox`: parses the command line and hands over to its subcommands.

mod app_server;
mod args;
mod bridge;
mod config;
mod connect;
mod details;
mod devices;
mod doctor;
mod import;
mod listeners;
mod login;
mod logs;
mod opened;
mod probes;
mod qr;
mod run;
mod schema;
mod serve;
mod server;
mod setup;
mod stop;

use std::ffi::{OsStr, OsString};
use std::process::ExitCode;

use clap::Parser;
use signalbox_server::{GUARD, REHEARSAL};

use args::{Args, Command};

/// What every subcommand answers when it cannot begin: the usage is wrong, or the server does not start.
pub(crate) const EXIT_USAGE: u8 = 2;
/// What a server answers that a second signal has ended.
pub(crate) const EXIT_FORCED: u8 = 130;

fn main() -> ExitCode {
    // The built-in agent is started once a thread: it must be there in a few milliseconds, with nothing around it. So must
    // the guard of the agents.
    match only_argument().as_deref().and_then(OsStr::to_str) {
        Some(REHEARSAL) => return signalbox_rehearsal::run(),
        Some(GUARD) => return signalbox_agents::guard::run(),
        _ => {}
    }
    let Args { global, command } = Args::parse();
    match command {
        Command::Run(args) => run::main(&global, args),
        Command::Import(args) => import::main(&global, args),
        Command::AppServer(args) => app_server::main(&global, args),
        Command::Serve(args) => serve::main(&global, &args),
        Command::Pair(args) => devices::pair(&global, args),
        Command::Devices(args) => devices::devices(&global, args),
        Command::Login(args) => login::main(&global, &args),
        Command::Config(args) => config::main(&global, &args),
        Command::Doctor(args) => doctor::main(&global, args),
        Command::Schema(args) => schema::main(args),
        Command::Stop(args) => stop::main(&global, &args),
        Command::Server => server::main(&global),
        Command::Rehearsal => signalbox_rehearsal::run(),
        Command::Guard => signalbox_agents::guard::run(),
    }
}

/// The one argument, if there is one.
fn only_argument() -> Option<OsString> {
    let mut args = std::env::args_os().skip(1);
    args.next().filter(|_| args.next().is_none())
}
