//! Stories of agents, well-behaved and not, told through the public interface and real processes.

#![allow(clippy::disallowed_methods, reason = "the scripted agent starts children of its own")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "all of this is a test, helpers and the scripted agent included"
)]

mod fake;
mod guarding;
mod keeper;
mod opening;
mod prompts;
mod rig;
mod second;
mod sessions;
mod stopping;
mod traffic;
mod troubles;
mod version2;
