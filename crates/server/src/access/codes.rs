//! What lives for minutes and in memory alone: pairing codes and tickets. Bounded, by hash, each used once.

use std::collections::HashMap;
use std::time::Duration;

use signalbox_facts::DeviceId;
use signalbox_rpc::Role;

use super::caller::Caller;
use super::clock::{Clock, Deadline};
use super::secret::Hashed;

/// How long a pairing code is good for.
pub(super) const CODE_LIFE: Duration = Duration::from_secs(15 * 60);
/// How long a ticket is.
pub(super) const TICKET_LIFE: Duration = Duration::from_secs(5 * 60);
/// Pairing codes at a time.
const CODES: usize = 64;
/// Tickets at a time, and of one holder; a holder's oldest makes room.
const TICKETS: usize = 4096;
const TICKETS_OF_ONE: usize = 32;

/// What a device that pairs with a code becomes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Offer {
    pub(super) role: Role,
    /// Whatever the device calls itself.
    pub(super) device_name: Option<String>,
}

#[derive(Debug)]
struct Code {
    offer: Offer,
    deadline: Deadline,
    /// Somebody pairs with it right now.
    taken: bool,
}

/// Pairing codes.
#[derive(Debug, Default)]
pub(super) struct Codes(HashMap<Hashed, Code>);

/// Whether a code can be used.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// Yes, and nobody else can until it is given back.
    Yours(Offer),
    /// Somebody is using it at this moment.
    Busy,
    /// There is none: never made, used, or too old.
    Nothing,
}

impl Codes {
    /// Adds a code; false if there are too many.
    pub(super) fn add(&mut self, hash: Hashed, offer: Offer, deadline: Deadline, clock: &Clock) -> bool {
        self.0.retain(|_, code| code.taken || !code.deadline.is_over(clock));
        if self.0.len() >= CODES {
            return false;
        }
        self.0.insert(hash, Code { offer, deadline, taken: false });
        true
    }

    pub(super) fn take(&mut self, hash: Hashed, clock: &Clock) -> Taken {
        match self.0.get_mut(&hash) {
            Some(code) if code.taken => Taken::Busy,
            Some(code) if !code.deadline.is_over(clock) => {
                code.taken = true;
                Taken::Yours(code.offer.clone())
            }
            _ => Taken::Nothing,
        }
    }

    /// It was not used after all.
    pub(super) fn give_back(&mut self, hash: Hashed) {
        if let Some(code) = self.0.get_mut(&hash) {
            code.taken = false;
        }
    }

    /// It was used. False if it has been withdrawn meanwhile.
    pub(super) fn used(&mut self, hash: Hashed) -> bool {
        self.0.remove(&hash).is_some()
    }

    /// Withdraws all of them.
    pub(super) fn withdraw(&mut self) {
        self.0.clear();
    }
}

/// Whose ticket it is.
#[derive(Debug, Clone)]
pub(super) enum Holder {
    /// A device's; it is looked at again when the ticket is used.
    Device(DeviceId),
    /// Somebody else's.
    Other(Caller),
}

impl Holder {
    fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Device(one), Self::Device(other)) => one == other,
            (Self::Other(one), Self::Other(other)) => one.name == other.name,
            _ => false,
        }
    }
}

#[derive(Debug)]
struct Ticket {
    holder: Holder,
    deadline: Deadline,
    number: u64,
}

/// Tickets.
#[derive(Debug, Default)]
pub(super) struct Tickets {
    tickets: HashMap<Hashed, Ticket>,
    next: u64,
}

impl Tickets {
    /// Adds a ticket; false if there are too many of others.
    pub(super) fn add(&mut self, hash: Hashed, holder: Holder, clock: &Clock) -> bool {
        self.tickets.retain(|_, ticket| !ticket.deadline.is_over(clock));
        let own: Vec<_> = self
            .tickets
            .iter()
            .filter(|(_, ticket)| ticket.holder.is(&holder))
            .map(|(hash, t)| (t.number, *hash))
            .collect();
        if own.len() >= TICKETS_OF_ONE {
            if let Some((_, oldest)) = own.iter().min_by_key(|(number, _)| *number) {
                self.tickets.remove(oldest);
            }
        } else if self.tickets.len() >= TICKETS {
            return false;
        }
        self.next += 1;
        let deadline = Deadline::after(clock, TICKET_LIFE);
        self.tickets.insert(hash, Ticket { holder, deadline, number: self.next });
        true
    }

    /// Uses a ticket up, whether it is still good for something or not.
    pub(super) fn take(&mut self, hash: Hashed, clock: &Clock) -> Option<Holder> {
        self.tickets
            .remove(&hash)
            .filter(|ticket| !ticket.deadline.is_over(clock))
            .map(|ticket| ticket.holder)
    }

    /// Withdraws those of a device.
    pub(super) fn withdraw(&mut self, device: DeviceId) {
        self.tickets.retain(|_, ticket| !matches!(ticket.holder, Holder::Device(id) if id == device));
    }
}
