//! Stories on real repositories, made with the git binary and read back with it.
#![allow(clippy::disallowed_methods, reason = "fixtures are built with the git binary")]
#![allow(clippy::expect_used, clippy::panic, reason = "a fixture that fails fails its test")]

mod baselines;
mod discard;
mod fixture;
mod info;
mod orphan;
mod turn_diff;
mod turn_diff_bounds;
mod turn_diff_random;
mod worktree;
