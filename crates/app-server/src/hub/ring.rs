//! What a thread has told lately, so that a client which comes back gets exactly what it has missed.
//!
//! The frames are those that were sent, so keeping them copies nothing. A client may go on from a cursor if everything
//! behind it is still here and if whoever has seen that cursor has also seen everything before it.

use std::collections::VecDeque;

use signalbox_facts::Seq;
use signalbox_rpc::DeltaKey;

use super::frames::Placed;

/// Most bytes that are kept of a thread that tells things.
const BYTES: usize = 1024 * 1024;
/// Most deliveries that are kept.
const DELIVERIES: usize = 4096;
/// Most bytes that are kept of a thread that has been quiet for a while.
const QUIET_BYTES: usize = 16 * 1024;
/// What a kept delivery costs beside its bytes.
const OVERHEAD: usize = 192;
/// Most stretches of cursors that do not lead on; beyond that nothing kept does.
const CUTS: usize = 64;

/// The newest deliveries of one thread, and its order: whoever takes a cursor holds the lock of this until the delivery
/// is handed out.
#[derive(Debug, Default)]
pub(crate) struct Ring {
    kept: VecDeque<Kept>,
    bytes: usize,
    /// The last place before what is kept, and its seq; `None` while nothing is being kept.
    floor: Option<(u64, Seq)>,
    /// Nobody listens any more since this place.
    left: Option<u64>,
    cuts: Vec<Cut>,
}

/// A place, with what was told there. What was told to one client only is not kept.
#[derive(Debug)]
struct Kept {
    place: u64,
    seq: Seq,
    told: Option<Placed>,
}

/// Cursors from `from` on and before `to` do not lead on: somebody has seen them without all that precedes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cut {
    /// The text of which pieces are missing; with its end the cut ends.
    pub(crate) text: Option<DeltaKey>,
    pub(crate) from: u64,
    pub(crate) to: u64,
}

impl Cut {
    /// A piece of this text did not reach a client.
    pub(crate) fn open(text: DeltaKey, from: u64) -> Self {
        Self { text: Some(text), from, to: u64::MAX }
    }
}

impl Ring {
    /// Whether what is told is being kept, so that it must be told although nobody listens.
    pub(crate) fn is_keeping(&self) -> bool {
        self.floor.is_some()
    }

    /// The seq of what was told or marked last; `None` while nothing is being kept.
    pub(crate) fn latest(&self) -> Option<Seq> {
        self.kept.back().map(|last| last.seq).or(self.floor.map(|(_, seq)| seq))
    }

    /// Somebody may come back from this place on.
    pub(crate) fn mark(&mut self, place: u64, seq: Seq) {
        if self.floor.is_some() {
            self.push(Kept { place, seq, told: None });
        } else {
            self.floor = Some((place, seq));
        }
    }

    /// Keeps what is being told to everybody who listens.
    pub(crate) fn keep(&mut self, told: &Placed) {
        if self.floor.is_some() {
            self.push(Kept { place: told.place, seq: told.seq, told: Some(told.clone()) });
        }
        if let Some(ended) = told.frame.ends() {
            for cut in self.cuts.iter_mut().filter(|cut| cut.text == Some(ended) && cut.to == u64::MAX) {
                cut.to = told.place;
            }
        }
    }

    fn push(&mut self, kept: Kept) {
        self.bytes += kept.cost();
        self.kept.push_back(kept);
        self.trim(BYTES);
        if self.left.zip(self.floor).is_some_and(|(left, (floor, _))| floor > left) {
            // Nobody can go on from where the last one left.
            self.forget();
        }
    }

    fn trim(&mut self, bytes: usize) {
        while self.bytes > bytes || self.kept.len() > DELIVERIES {
            let Some(oldest) = self.kept.pop_front() else { break };
            self.bytes -= oldest.cost();
            self.floor = Some((oldest.place, oldest.seq));
        }
        if let Some((floor, _)) = self.floor {
            self.cuts.retain(|cut| cut.to > floor);
        }
    }

    fn forget(&mut self) {
        *self = Self { left: self.left, ..Self::default() };
    }

    /// Somebody has seen cursors without all that precedes them.
    pub(crate) fn cut(&mut self, cut: Cut) {
        let Some((floor, seq)) = self.floor else { return };
        if cut.text.is_some() && self.cuts.iter().any(|known| known.text == cut.text && known.to == u64::MAX)
        {
            return;
        }
        self.cuts.retain(|known| known.to > floor);
        if self.cuts.len() < CUTS {
            self.cuts.push(cut);
            return;
        }
        let (place, seq) = self.kept.back().map_or((floor, seq), |last| (last.place, last.seq));
        // A cursor in an open cut must lead nowhere later either.
        let open = self.cuts.iter().chain([&cut]).any(|cut| cut.to == u64::MAX);
        self.forget();
        if !open {
            self.floor = Some((place, seq));
        }
    }

    /// What was told behind this place, and the seq there; `None` if that cannot be said exactly.
    pub(crate) fn after(&self, place: u64) -> Option<(Seq, impl Iterator<Item = &Placed>)> {
        let (floor, floor_seq) = self.floor?;
        if self.cuts.iter().any(|cut| cut.from <= place && place < cut.to) {
            return None;
        }
        let (next, seq) = if place == floor {
            (0, floor_seq)
        } else {
            let found = self.kept.binary_search_by_key(&place, |kept| kept.place).ok()?;
            (found + 1, self.kept[found].seq)
        };
        Some((seq, self.kept.iter().skip(next).filter_map(|kept| kept.told.as_ref())))
    }

    /// Somebody listens.
    pub(crate) fn joined(&mut self) {
        self.left = None;
    }

    /// Nobody listens any more.
    pub(crate) fn left(&mut self) {
        let newest = self.kept.back().map(|kept| kept.place).or(self.floor.map(|(place, _)| place));
        self.left = newest;
    }

    /// Whether it holds more than a quiet thread may.
    pub(crate) fn is_large(&self) -> bool {
        self.bytes > QUIET_BYTES
    }

    /// The thread has been quiet for a while: keeps only the newest.
    pub(crate) fn shrink(&mut self) {
        self.trim(QUIET_BYTES);
        self.kept.shrink_to_fit();
        self.cuts.shrink_to_fit();
    }
}

impl Kept {
    fn cost(&self) -> usize {
        OVERHEAD + self.told.as_ref().map_or(0, |told| told.frame.bytes().len())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use signalbox_rpc::Frame;

    use super::*;

    const TEXT: DeltaKey = DeltaKey { scope: 1, item: 2, kind: 0 };

    fn told(place: u64, bytes: usize) -> Placed {
        let frame = Frame::notification("n", &json!({ "text": "x".repeat(bytes) })).unwrap();
        Placed { frame, place, seq: place * 10 }
    }

    fn ring(places: impl IntoIterator<Item = u64>) -> Ring {
        let mut ring = Ring::default();
        ring.mark(1, 10);
        for place in places {
            ring.keep(&told(place, 10));
        }
        ring
    }

    fn after(ring: &Ring, place: u64) -> Option<(Seq, Vec<u64>)> {
        ring.after(place).map(|(seq, told)| (seq, told.map(|told| told.place).collect()))
    }

    #[test]
    fn the_latest_seq_is_that_of_what_was_told_last() {
        let mut ring = Ring::default();
        assert_eq!(ring.latest(), None);
        ring.mark(1, 7);
        assert_eq!(ring.latest(), Some(7));
        ring.keep(&told(2, 10));
        assert_eq!(ring.latest(), Some(20));
    }

    #[test]
    fn what_follows_a_place_is_exactly_what_was_told_behind_it() {
        let mut ring = ring([3, 5, 8]);
        ring.mark(9, 80);
        assert_eq!(after(&ring, 1), Some((10, vec![3, 5, 8])));
        assert_eq!(after(&ring, 5), Some((50, vec![8])));
        assert_eq!(after(&ring, 9), Some((80, vec![])));
        for foreign in [0, 2, 4, 7, 10] {
            assert_eq!(after(&ring, foreign), None, "{foreign} is no place of this thread");
        }
    }

    #[test]
    fn nothing_is_kept_before_somebody_listens() {
        let mut ring = Ring::default();
        ring.keep(&told(1, 10));
        assert!(!ring.is_keeping());
        assert_eq!(ring.bytes, 0);
    }

    #[test]
    fn the_oldest_goes_when_it_is_too_much() {
        let mut ring = ring([]);
        for place in 2..=100_000 {
            ring.keep(&told(place, 100));
            assert!(ring.bytes <= BYTES && ring.kept.len() <= DELIVERIES);
        }
        assert_eq!(after(&ring, 2), None);
        assert_eq!(after(&ring, 99_999), Some((999_990, vec![100_000])));
        ring.keep(&told(100_001, BYTES));
        assert_eq!(after(&ring, 100_000), None);
        assert_eq!(after(&ring, 100_001), Some((1_000_010, vec![])));
    }

    #[test]
    fn a_quiet_thread_keeps_little() {
        let mut ring = ring(2..1000);
        assert!(ring.is_large());
        ring.shrink();
        assert!(ring.bytes <= QUIET_BYTES && ring.kept.capacity() <= 256);
        assert_eq!(after(&ring, 998), Some((9980, vec![999])));
    }

    #[test]
    fn when_nobody_can_come_back_any_more_nothing_is_kept() {
        let mut ring = ring(2..10);
        ring.left();
        ring.keep(&told(10, 10));
        assert_eq!(after(&ring, 9), Some((90, vec![10])));
        ring.keep(&told(11, BYTES));
        assert!(!ring.is_keeping());
        assert!(ring.kept.is_empty());
    }

    #[test]
    fn a_cursor_behind_a_missing_piece_does_not_lead_on() {
        let mut ring = ring([2, 3]);
        ring.cut(Cut::open(TEXT, 3));
        ring.keep(&told(4, 10));
        assert_eq!(after(&ring, 2), Some((20, vec![3, 4])));
        assert_eq!(after(&ring, 3), None);
        assert_eq!(after(&ring, 4), None);
        let end = told(5, 10);
        ring.keep(&Placed { frame: end.frame.ending(TEXT), ..end });
        assert_eq!(after(&ring, 4), None);
        assert_eq!(after(&ring, 5), Some((50, vec![])));
    }

    #[test]
    fn too_many_cuts_close_all_ways() {
        let mut ring = ring(2..300);
        for from in 0..100 {
            ring.cut(Cut { text: None, from: 2 * from + 2, to: 2 * from + 3 });
        }
        assert!(ring.cuts.len() <= CUTS);
        assert_eq!(after(&ring, 2), None);
        assert_eq!(after(&ring, 299), Some((2990, vec![])));
    }
}
