//! Requests of the client that are not answered yet: their ids as they were written, and what their answers will mean.

use std::collections::VecDeque;

use serde_json::value::RawValue;

/// Requests on their way from which on no more are taken from the client.
const MAX_REQUESTS: usize = 4096;
/// Bytes of ids on their way from which on no more are taken from the client.
const MAX_BYTES: usize = 1 << 20;

/// What the answer to a request will change.
#[derive(Debug)]
pub(super) enum Ask {
    /// The handshake, with its params, because it may have to be made once more.
    Initialize(Option<Box<RawValue>>),
    /// Starts, joins or forks a thread, and follows it from then on.
    Follow,
    /// Leaves this thread.
    Leave(Box<str>),
    /// Nothing that matters here.
    Other,
}

/// A request on its way.
#[derive(Debug)]
pub(super) struct Asked {
    /// Its id, as it was written.
    pub(super) id: Box<str>,
    pub(super) ask: Ask,
}

/// The requests of one frame; a batch is answered in one frame too.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) requests: Vec<Asked>,
    pub(super) is_batch: bool,
}

impl Flight {
    fn handshake(&self) -> Option<(&str, Option<&RawValue>)> {
        match self.requests.as_slice() {
            [Asked { id, ask: Ask::Initialize(params) }] if !self.is_batch => Some((id, params.as_deref())),
            _ => None,
        }
    }

    fn bytes(&self) -> usize {
        self.requests.iter().map(|asked| asked.id.len()).sum()
    }
}

/// All requests on their way, oldest first.
#[derive(Debug, Default)]
pub(super) struct Flights {
    list: VecDeque<Flight>,
    requests: usize,
    bytes: usize,
}

impl Flights {
    pub(super) fn push(&mut self, flight: Flight) {
        self.requests += flight.requests.len();
        self.bytes += flight.bytes();
        self.list.push_back(flight);
    }

    /// Whether there are so many that the client has to wait.
    pub(super) fn is_full(&self) -> bool {
        self.requests >= MAX_REQUESTS || self.bytes >= MAX_BYTES
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The flight in which this id is asked, taken out. An id that is used twice at a time is answered in order.
    pub(super) fn land(&mut self, id: &str, is_batch: bool) -> Option<Flight> {
        let is_it = |flight: &Flight| {
            flight.is_batch == is_batch && flight.requests.iter().any(|asked| &*asked.id == id)
        };
        let at = self.list.iter().position(is_it)?;
        let flight = self.list.remove(at)?;
        self.forget(&flight);
        Some(flight)
    }

    /// The handshake, if it is asked for by itself: its id and its params. It stays on its way.
    pub(super) fn handshake(&self) -> Option<(&str, Option<&RawValue>)> {
        self.list.iter().find_map(Flight::handshake)
    }

    /// Everything but a handshake that is asked for by itself, taken out.
    pub(super) fn fail(&mut self) -> Vec<Flight> {
        let mut all = std::mem::take(self).list;
        if let Some(at) = all.iter().position(|flight| flight.handshake().is_some())
            && let Some(kept) = all.remove(at)
        {
            self.push(kept);
        }
        all.into()
    }

    /// Everything, taken out.
    pub(super) fn fail_all(&mut self) -> Vec<Flight> {
        std::mem::take(self).list.into()
    }

    fn forget(&mut self, flight: &Flight) {
        self.requests -= flight.requests.len();
        self.bytes -= flight.bytes();
    }
}
