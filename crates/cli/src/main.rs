//! The binary `signalbox`: parses the command line and hands over to its subcommands.

fn main() {}
