//! The rehearsal agent as a program of its own, so that these tests talk to a real process.

fn main() -> std::process::ExitCode {
    signalbox_rehearsal::run()
}
