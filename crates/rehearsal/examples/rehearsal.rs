//! The rehearsal agent as a program of its own, for tests that need a real process.

fn main() -> std::process::ExitCode {
    signalbox_rehearsal::run()
}
