//! Whatever agents and clients do, whenever clients join, leave or read slowly: everybody who follows a thread knows the same, and
//! it is what is stored, also after the server was killed.
//!
//! `SIGNALBOX_CASES=300` plays so many random cases of each kind; `SIGNALBOX_SEED` begins with the same ones again.
#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test"
)]

#[path = "everyone/guest.rs"]
mod guest;
#[path = "everyone/laws.rs"]
mod laws;
#[path = "everyone/play.rs"]
mod play;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// Cases of each kind, unless the environment says otherwise.
const CASES: u32 = 5;

fn number<T: std::str::FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok()?.parse().ok()
}

fn config() -> ProptestConfig {
    let seed = number("SIGNALBOX_SEED").map_or(RngSeed::Random, RngSeed::Fixed);
    ProptestConfig {
        cases: number("SIGNALBOX_CASES").unwrap_or(CASES),
        // Each case takes processes; what happens in it also depends on their speed.
        max_shrink_iters: number("SIGNALBOX_SHRINK").unwrap_or(20),
        failure_persistence: None,
        rng_seed: seed,
        ..ProptestConfig::default()
    }
}

#[test]
fn a_flood_harms_only_who_does_not_read() {
    let resync = guest::Profile { resync: true, ..Default::default() };
    let merges = guest::Profile { delta_interval_ms: 20, ..resync.clone() };
    let mut play = play::Play::begin(&[resync, guest::Profile::default(), merges]);
    play.is_flooded();
    play.ends();
    play.unloads();
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn everybody_knows_the_same_in_the_end((profiles, steps) in play::case(), unloads in any::<bool>()) {
        let mut play = play::Play::begin(&profiles);
        for step in &steps {
            play.step(step);
        }
        play.ends();
        if unloads {
            play.unloads();
        }
    }

    #[test]
    fn what_was_shown_survives_a_kill((profiles, steps) in play::case()) {
        let mut play = play::Play::begin(&profiles);
        for step in &steps {
            play.step(step);
        }
        play.is_killed();
    }
}
