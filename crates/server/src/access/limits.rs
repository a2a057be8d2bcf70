//! Who has guessed too often, by address and in total. Bounded; nothing of it survives a restart.
//!
//! A failure is a credential that is worth nothing. After [`FAILURES`] of them an address is locked out, at first for
//! [`FIRST_LOCK`], then for twice as long each time. Addresses of IPv6 count by /64, because that is what one subscriber has.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use parking_lot::Mutex;

use super::clock::Clock;

/// Failures of one address within [`WINDOW`] after which it is locked out.
const FAILURES: u32 = 10;
const WINDOW: Duration = Duration::from_secs(10 * 60);
const FIRST_LOCK: Duration = Duration::from_secs(60);
const LONGEST_LOCK: Duration = Duration::from_secs(15 * 60);
/// After so long without a failure an address is as good as new.
const FORGET: Duration = Duration::from_secs(60 * 60);
/// Failures of all addresses together within [`TOTAL_WINDOW`]; then nobody may guess until it is over.
const TOTAL_FAILURES: u32 = 300;
const TOTAL_WINDOW: Duration = Duration::from_secs(60);
/// Requests for pairing and tickets that one address may make in a burst, and how often another one is allowed after it.
const BURST: u32 = 30;
const EVERY: Duration = Duration::from_secs(1);
/// Addresses that are remembered.
const ADDRESSES: usize = 4096;

#[derive(Debug)]
pub(super) struct Limits {
    clock: Clock,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    addresses: HashMap<IpAddr, Address>,
    /// Failures since `total_since`.
    total: u32,
    total_since: Duration,
}

#[derive(Debug, Clone, Copy)]
struct Address {
    /// Failures since `since`.
    failures: u32,
    since: Duration,
    /// How often it was locked out so far.
    locks: u32,
    locked_until: Option<Duration>,
    /// Requests that it may still make at once, as of `filled`.
    requests: u32,
    filled: Duration,
    last: Duration,
}

impl Address {
    fn new(now: Duration) -> Self {
        Self {
            failures: 0,
            since: now,
            locks: 0,
            locked_until: None,
            requests: BURST,
            filled: now,
            last: now,
        }
    }

    fn locked(&self, now: Duration) -> Option<Duration> {
        self.locked_until?.checked_sub(now).filter(|left| !left.is_zero())
    }
}

/// What a failure has led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failed {
    /// Counted.
    Counted,
    /// Counted, and now the address is locked out for so long.
    LockedOut(Duration),
}

impl Limits {
    pub(super) fn new(clock: Clock) -> Self {
        Self { clock, table: Mutex::default() }
    }

    /// How long this address may not guess, if it is locked out, or everybody is.
    pub(super) fn locked(&self, from: IpAddr) -> Option<Duration> {
        let now = self.clock.steady();
        let mut table = self.table.lock();
        let total = table.total_locked(now);
        let own = table.addresses.get(&subscriber(from)).and_then(|address| address.locked(now));
        own.max(total)
    }

    /// Counts a failure.
    pub(super) fn failed(&self, from: IpAddr) -> Failed {
        let now = self.clock.steady();
        let mut table = self.table.lock();
        // Brings the window up to date.
        let _ = table.total_locked(now);
        table.total = table.total.saturating_add(1);
        let address = table.address(subscriber(from), now);
        if now.saturating_sub(address.last) >= FORGET {
            *address = Address::new(now);
        }
        if now.saturating_sub(address.since) >= WINDOW {
            (address.failures, address.since) = (0, now);
        }
        address.last = now;
        address.failures += 1;
        if address.failures < FAILURES {
            return Failed::Counted;
        }
        let lock = FIRST_LOCK.saturating_mul(1 << address.locks.min(8)).min(LONGEST_LOCK);
        address.locks += 1;
        address.failures = 0;
        address.since = now;
        address.locked_until = Some(now.saturating_add(lock));
        Failed::LockedOut(lock)
    }

    /// Takes one request for pairing or a ticket from what the address may make.
    ///
    /// # Errors
    /// How long it has to wait.
    pub(super) fn admit(&self, from: IpAddr) -> Result<(), Duration> {
        let now = self.clock.steady();
        let mut table = self.table.lock();
        let address = table.address(subscriber(from), now);
        let since = now.saturating_sub(address.filled);
        let more = u32::try_from(since.as_millis() / EVERY.as_millis()).unwrap_or(u32::MAX);
        if more > 0 {
            address.requests = address.requests.saturating_add(more).min(BURST);
            address.filled = now;
        }
        if address.requests == 0 {
            return Err(EVERY.saturating_sub(since));
        }
        address.requests -= 1;
        Ok(())
    }
}

impl Table {
    fn total_locked(&mut self, now: Duration) -> Option<Duration> {
        let since = now.saturating_sub(self.total_since);
        if since >= TOTAL_WINDOW {
            (self.total, self.total_since) = (0, now);
            return None;
        }
        (self.total >= TOTAL_FAILURES).then(|| TOTAL_WINDOW - since)
    }

    /// What is known of an address. In a full table the one that was quiet for longest makes room: first among those that
    /// are not locked out.
    fn address(&mut self, key: IpAddr, now: Duration) -> &mut Address {
        if self.addresses.len() >= ADDRESSES && !self.addresses.contains_key(&key) {
            let oldest = self
                .addresses
                .iter()
                .min_by_key(|(_, address)| (address.locked(now).is_some(), address.last.max(address.filled)))
                .map(|(key, _)| *key);
            if let Some(oldest) = oldest {
                self.addresses.remove(&oldest);
            }
        }
        self.addresses.entry(key).or_insert_with(|| Address::new(now))
    }
}

/// What one subscriber has of addresses.
fn subscriber(from: IpAddr) -> IpAddr {
    match from.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::from([a, b, c, d, 0, 0, 0, 0])
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    struct Stage {
        limits: Limits,
        seconds: Arc<AtomicU64>,
    }

    impl Stage {
        fn new() -> Self {
            let seconds = Arc::new(AtomicU64::new(5));
            let shown = Arc::clone(&seconds);
            let clock = Clock::new(|| 0, move || Duration::from_secs(shown.load(Ordering::Relaxed)));
            Self { limits: Limits::new(clock), seconds }
        }

        fn pass(&self, seconds: u64) {
            self.seconds.fetch_add(seconds, Ordering::Relaxed);
        }

        /// Fails until it is locked out; how long that is.
        fn provoke(&self, from: IpAddr) -> Duration {
            for _ in 1..FAILURES {
                assert_eq!(self.limits.failed(from), Failed::Counted);
                assert_eq!(self.limits.locked(from), None);
            }
            match self.limits.failed(from) {
                Failed::LockedOut(lock) => lock,
                Failed::Counted => panic!("{from} may still guess"),
            }
        }
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn who_fails_too_often_is_locked_out_for_longer_each_time_and_others_are_not() {
        let stage = Stage::new();
        let (guesser, neighbour) = (ip("192.0.2.1"), ip("192.0.2.2"));
        for expected in [60, 120, 240, 480, 900, 900] {
            assert_eq!(stage.provoke(guesser), Duration::from_secs(expected));
            assert_eq!(stage.limits.locked(guesser), Some(Duration::from_secs(expected)));
            assert_eq!(stage.limits.locked(neighbour), None);
            stage.pass(expected - 1);
            assert_eq!(stage.limits.locked(guesser), Some(Duration::from_secs(1)));
            stage.pass(1);
            assert_eq!(stage.limits.locked(guesser), None);
        }
        stage.pass(FORGET.as_secs());
        assert_eq!(stage.provoke(guesser), FIRST_LOCK);
    }

    #[test]
    fn slow_mistakes_are_forgiven() {
        let stage = Stage::new();
        for _ in 0..10 * FAILURES {
            assert_eq!(stage.limits.failed(ip("192.0.2.1")), Failed::Counted);
            stage.pass(WINDOW.as_secs() / u64::from(FAILURES - 1) + 1);
        }
    }

    #[test]
    fn a_subscriber_of_ipv6_has_one_count_and_mapped_addresses_are_ipv4() {
        let stage = Stage::new();
        stage.provoke(ip("2001:db8:1:2::1"));
        assert!(stage.limits.locked(ip("2001:db8:1:2:ffff::9")).is_some());
        assert!(stage.limits.locked(ip("2001:db8:1:3::1")).is_none());
        stage.provoke(ip("::ffff:192.0.2.7"));
        assert!(stage.limits.locked(ip("192.0.2.7")).is_some());
    }

    #[test]
    fn many_addresses_together_are_stopped_too() {
        let stage = Stage::new();
        for number in 0..TOTAL_FAILURES {
            let from = IpAddr::from([
                198,
                51,
                u8::try_from(number / 250).unwrap(),
                u8::try_from(number % 250).unwrap(),
            ]);
            assert_eq!(stage.limits.failed(from), Failed::Counted);
        }
        assert!(stage.limits.locked(ip("192.0.2.1")).is_some());
        stage.pass(TOTAL_WINDOW.as_secs());
        assert!(stage.limits.locked(ip("192.0.2.1")).is_none());
    }

    #[test]
    fn the_table_is_bounded_and_keeps_those_who_are_locked_out() {
        let stage = Stage::new();
        let guesser = ip("192.0.2.1");
        stage.provoke(guesser);
        for number in 0..2 * u32::try_from(ADDRESSES).unwrap() {
            assert!(stage.limits.admit(IpAddr::from(number.to_be_bytes())).is_ok());
        }
        assert_eq!(stage.limits.table.lock().addresses.len(), ADDRESSES);
        assert!(stage.limits.locked(guesser).is_some());
    }

    #[test]
    fn requests_come_in_bursts_and_then_at_a_rate() {
        let stage = Stage::new();
        let from = ip("192.0.2.1");
        for _ in 0..BURST {
            stage.limits.admit(from).unwrap();
        }
        assert_eq!(stage.limits.admit(from), Err(EVERY));
        stage.limits.admit(ip("192.0.2.2")).unwrap();
        stage.pass(2);
        stage.limits.admit(from).unwrap();
        stage.limits.admit(from).unwrap();
        assert!(stage.limits.admit(from).is_err());
    }
}
