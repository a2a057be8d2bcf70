//! An agent that plays a recording, or a script of bad manners.

fn main() {
    signalbox_testkit::recording::play_recording()
}
