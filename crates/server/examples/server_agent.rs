//! The rehearsal agent as a program of its own, so that the tests here have a real agent process.

fn main() -> std::process::ExitCode {
    signalbox_rehearsal::run()
}
