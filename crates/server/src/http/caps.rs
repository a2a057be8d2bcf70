//! How many may be here at a time: in total, of one address, of one device.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Counts places.
#[derive(Debug)]
pub(super) struct Caps {
    total: Arc<Semaphore>,
    addresses: Counted<IpAddr>,
    devices: Counted<String>,
}

/// A place for one connection; held as long as it is there.
#[derive(Debug)]
pub(super) struct Place {
    _total: OwnedSemaphorePermit,
    _address: Option<OneOf<IpAddr>>,
}

/// A place for one long-lived stream of a device.
pub(super) type StreamPlace = OneOf<String>;

impl Caps {
    pub(super) fn new(total: usize, per_address: usize, per_device: usize) -> Self {
        Self {
            total: Arc::new(Semaphore::new(total.min(Semaphore::MAX_PERMITS))),
            addresses: Counted::new(per_address),
            devices: Counted::new(per_device),
        }
    }

    /// A place for a connection from this address, if there is one. What comes from this machine counts in total only.
    pub(super) fn connection(&self, from: Option<IpAddr>) -> Option<Place> {
        let total = Arc::clone(&self.total).try_acquire_owned().ok()?;
        let address = match from.map(|ip| ip.to_canonical()).filter(|ip| !ip.is_loopback()) {
            Some(ip) => Some(self.addresses.one(ip)?),
            None => None,
        };
        Some(Place { _total: total, _address: address })
    }

    /// A place for a stream of this device, if there is one.
    pub(super) fn stream(&self, device: &str) -> Option<StreamPlace> {
        self.devices.one(device.to_owned())
    }
}

/// How many there are of each key.
#[derive(Debug, Clone)]
struct Counted<K> {
    counts: Arc<Mutex<HashMap<K, usize>>>,
    most: usize,
}

/// One of them, until it is dropped.
#[derive(Debug)]
pub(super) struct OneOf<K: std::hash::Hash + Eq> {
    counts: Arc<Mutex<HashMap<K, usize>>>,
    key: K,
}

impl<K: std::hash::Hash + Eq + Clone> Counted<K> {
    fn new(most: usize) -> Self {
        Self { counts: Arc::default(), most }
    }

    fn one(&self, key: K) -> Option<OneOf<K>> {
        let mut counts = self.counts.lock();
        let count = counts.get(&key).copied().unwrap_or(0);
        if count >= self.most {
            return None;
        }
        counts.insert(key.clone(), count + 1);
        Some(OneOf { counts: Arc::clone(&self.counts), key })
    }
}

impl<K: std::hash::Hash + Eq> Drop for OneOf<K> {
    fn drop(&mut self) {
        let mut counts = self.counts.lock();
        if let Some(count) = counts.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_and_come_back() {
        let caps = Caps::new(3, 2, 1);
        let far = Some("10.0.0.1".parse().unwrap());
        let near = Some("::ffff:127.0.0.1".parse().unwrap());
        let one = caps.connection(far).unwrap();
        let two = caps.connection(far).unwrap();
        assert!(caps.connection(far).is_none(), "two of one address are all");
        let three = caps.connection(near).unwrap();
        assert!(caps.connection(near).is_none(), "three are all");
        drop(one);
        drop(two);
        let near_too = [caps.connection(near).unwrap(), caps.connection(near).unwrap()];
        drop((three, near_too));
        assert!(caps.connection(far).is_some());
        assert!(caps.addresses.counts.lock().is_empty(), "nobody is remembered who is gone");

        let stream = caps.stream("phone").unwrap();
        assert!(caps.stream("phone").is_none() && caps.stream("tablet").is_some());
        drop(stream);
        assert!(caps.stream("phone").is_some());
    }
}
