//! Turns out of the store: those older than what a hub has in view.

use signalbox_facts::{Seq, SessionId, SessionRow};
use signalbox_protocol::app::Turn;
use signalbox_store::{Reader, StoreError, TurnQuery};

use crate::hub::Snapshot;
use crate::view::history;

/// Most bytes of turns that a result carries beside the newest turn, unless a client asked for all.
pub(super) const PAGE_BYTES: usize = 512 * 1024;
/// Turns that are looked up at once.
const BATCH: u32 = 16;

/// All turns that began before this seq, oldest first.
pub(super) async fn before(reader: &Reader, row: &SessionRow, seq: Seq) -> Result<Vec<Turn>, StoreError> {
    if seq <= 1 {
        return Ok(Vec::new());
    }
    let facts = reader.facts(row.id, 1, seq - 1).await?;
    Ok(history(row, &facts))
}

/// The newest turns that began before a seq, as many as fit.
#[derive(Debug, Default)]
pub(super) struct Newest {
    /// Oldest first.
    pub(super) turns: Vec<Turn>,
    /// First seq of the oldest of them, if there are older ones.
    pub(super) more_before: Option<Seq>,
}

impl Newest {
    /// Where `thread/turns/list` goes on to older ones.
    pub(super) fn cursor(&self, session: SessionId) -> Option<String> {
        self.more_before.map(|seq| cursor(session, seq))
    }
}

/// The newest turns that began before this seq, at most `bytes` of them as JSON.
pub(super) async fn newest_before(
    reader: &Reader,
    row: &SessionRow,
    mut seq: Seq,
    bytes: usize,
) -> Result<Newest, StoreError> {
    let mut newest = Newest::default();
    let mut left = bytes;
    loop {
        let query = TurnQuery { before: Some(seq), limit: BATCH, ..TurnQuery::default() };
        let rows = reader.turns(row.id, query).await?;
        let last = rows.len() < BATCH as usize;
        for stored in rows {
            let facts = reader.facts_of_turn(row.id, stored.id).await?;
            // A turn whose facts make none is damaged; it is left out, as it is from the whole history.
            for turn in history(row, &facts) {
                let size = size_of(&turn);
                if size > left {
                    newest.turns.reverse();
                    newest.more_before = Some(seq);
                    return Ok(newest);
                }
                left -= size;
                newest.turns.push(turn);
            }
            seq = stored.first_seq;
        }
        if last {
            newest.turns.reverse();
            return Ok(newest);
        }
    }
}

/// The newest turns of a snapshot, as many as fit: the one in view, and out of the store those before it.
pub(super) async fn newest(reader: &Reader, snapshot: &mut Snapshot) -> Result<Newest, StoreError> {
    let in_view = snapshot.turn.take();
    let used = in_view.as_ref().map_or(0, size_of);
    let first = snapshot.turn_first_seq.unwrap_or(snapshot.seq + 1);
    let left = PAGE_BYTES.saturating_sub(used);
    let mut newest = newest_before(reader, &snapshot.row, first, left).await?;
    newest.turns.extend(in_view);
    Ok(newest)
}

/// The place from which `thread/turns/list` goes on to older turns.
pub(super) fn cursor(session: SessionId, seq: Seq) -> String {
    format!("t.{}.{seq}", session.0.simple())
}

/// Bytes of a turn as JSON.
pub(super) fn size_of(turn: &Turn) -> usize {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // What cannot be written is found, and told, when the result is.
    drop(serde_json::to_writer(&mut count, turn));
    count.0
}
