//! Background work in small transactions below commits: joining the chunks of ended turns, removing facts of deleted sessions,
//! and when to index; how is in `index.rs`.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use signalbox_facts::{Fact, FactBody, Seq, SessionId, TurnId, compact};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::fail::{FailPoint, FailPoints};
use crate::indexing::Indexing;
use crate::sql::{Statement, integer};
use crate::writer::pipeline::Slice;
use crate::{Reader, StoreError};

/// Facts read at a time.
const READ_ROWS: u32 = 1024;
/// Joined text that is held before it is written; more only while a single item is longer.
const HELD_BYTES: usize = 4 * 1024 * 1024;
/// Most joined rows and bytes in one transaction.
const SLICE_RUNS: usize = 64;
const SLICE_BYTES: usize = 1024 * 1024;
/// Facts removed in one transaction.
const PURGE_ROWS: u32 = 4096;

/// How long after the start what is not indexed yet is looked for: not while clients wait for their first answers.
const SWEEP_AFTER: Duration = Duration::from_millis(250);
/// How long texts may wait that came after the end of their turn.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What a compaction did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Compacted {
    /// Fact rows of the turn before.
    pub rows_before: u64,
    /// And after.
    pub rows_after: u64,
}

/// A piece of background work.
pub(super) enum Chore {
    /// Join the chunks of a turn.
    Compact {
        session: SessionId,
        turn: TurnId,
        reply: Option<oneshot::Sender<Result<Compacted, StoreError>>>,
    },
    /// Remove the facts of a deleted session.
    Purge { session: SessionId },
    /// Index all that there is now.
    Index { reply: oneshot::Sender<Result<(), StoreError>> },
}

/// Does one chore after the other, and between them feeds the search index. After the first one it also makes up for what
/// a crash has left.
pub(super) async fn run(mut chores: mpsc::Receiver<Chore>, worker: Worker, stop: CancellationToken) {
    let work = async {
        let mut leftovers: Option<Vec<Chore>> = None;
        let mut look_at = Instant::now() + SWEEP_AFTER;
        loop {
            let chore = match chores.try_recv() {
                Ok(chore) => chore,
                Err(_) => {
                    if let Some((session, gives)) = worker.indexing.next() {
                        worker.index_marked(session, gives).await;
                        continue;
                    }
                    if let Some(chore) = leftovers.as_mut().and_then(Vec::pop) {
                        worker.chore(chore).await;
                        continue;
                    }
                    tokio::select! {
                        chore = chores.recv() => match chore {
                            Some(chore) => chore,
                            None => return,
                        },
                        () = worker.indexing.news() => {
                            if worker.indexing.is_wanted() {
                                look_at = Instant::now();
                            }
                            continue;
                        }
                        () = sleep_until(look_at), if worker.indexing.waits() => {
                            let more = worker.look().await;
                            look_at = Instant::now() + if more { Duration::ZERO } else { LOOK_EVERY };
                            continue;
                        }
                    }
                }
            };
            worker.chore(chore).await;
            if leftovers.is_none() {
                leftovers = Some(worker.leftovers().await);
            }
        }
    };
    // Every slice is a transaction: stopping between two leaves nothing half done.
    stop.run_until_cancelled(work).await;
}

pub(super) struct Worker {
    pub(super) slices: mpsc::Sender<Slice>,
    pub(super) reader: Reader,
    pub(super) fail: FailPoints,
    pub(super) indexing: Arc<Indexing>,
}

/// A row that chunks were joined to and that is not written yet.
struct Run {
    fact: Fact,
    /// What the stored row covers.
    stored_through: Seq,
    /// Rows that are in it now and must go.
    joined: u64,
}

impl Worker {
    async fn chore(&self, chore: Chore) {
        match chore {
            Chore::Compact { session, turn, reply } => {
                let result = self.compact(session, turn).await;
                if let Err(error) = &result {
                    tracing::warn!(%session, %turn, error = %error, "compaction failed");
                }
                if let Some(reply) = reply {
                    reply.send(result).ok();
                }
                // Few rows now instead of many.
                if let Some(gives) = self.indexing.take(session) {
                    self.index_marked(session, gives).await;
                }
            }
            Chore::Index { reply } => {
                reply.send(self.index_all().await).ok();
            }
            Chore::Purge { session } => {
                match self.purge(session).await {
                    // Nothing of it can be missing in the index any more.
                    Ok(()) => self.indexing.done(session, false),
                    Err(error) => {
                        tracing::warn!(%session, %error, "removing facts failed; it goes on after the next start");
                    }
                }
            }
        }
    }

    async fn leftovers(&self) -> Vec<Chore> {
        match self.reader.unfinished().await {
            Ok((deleted, turns)) => {
                let purges = deleted.into_iter().map(|session| Chore::Purge { session });
                let compactions =
                    turns.into_iter().map(|(session, turn)| Chore::Compact { session, turn, reply: None });
                purges.chain(compactions).collect()
            }
            Err(error) => {
                tracing::warn!(%error, "cannot look for unfinished maintenance");
                Vec::new()
            }
        }
    }

    async fn compact(&self, session: SessionId, turn: TurnId) -> Result<Compacted, StoreError> {
        let mut done = Compacted::default();
        // By item: its newest row, which further chunks may join.
        let mut open: HashMap<Seq, Run> = HashMap::new();
        let mut held = 0;
        let mut from = 0;
        loop {
            let facts = self.reader.chunk_slice(session, turn, from, READ_ROWS).await?;
            let Some(last) = facts.last() else { break };
            from = last.seq + 1;
            let rows = facts.len() as u64;
            held += facts.iter().map(text_bytes).sum::<usize>();
            let finished = join(&mut open, facts);
            self.write(session, finished.iter()).await?;
            done.rows_before += rows;
            done.rows_after += rows - finished.iter().map(|run| run.joined).sum::<u64>();
            let longest = open.values().map(|run| text_bytes(&run.fact)).max().unwrap_or(0);
            // Twice the longest, so that the rewriting of one very long item stays linear.
            if held > HELD_BYTES.max(2 * longest) {
                done.rows_after -= self.write_open(session, &mut open).await?;
                held = 0;
            }
        }
        done.rows_after -= self.write_open(session, &mut open).await?;
        let mark = Statement::new("update turns set compacted = 1 where session = ?1 and id = ?2");
        self.slice(session, vec![(mark.id(session.0).id(turn.0), None)]).await?;
        Ok(done)
    }

    /// Writes what is joined to the newest rows so far; they stay open. Answers how many rows went.
    async fn write_open(&self, session: SessionId, open: &mut HashMap<Seq, Run>) -> Result<u64, StoreError> {
        self.write(session, open.values()).await?;
        let mut joined = 0;
        for run in open.values_mut() {
            joined += run.joined;
            run.joined = 0;
            run.stored_through = run.fact.through_seq;
        }
        Ok(joined)
    }

    async fn write(&self, session: SessionId, runs: impl Iterator<Item = &Run>) -> Result<(), StoreError> {
        let mut statements = Vec::new();
        let mut bytes = 0;
        for run in runs.filter(|run| run.joined > 0) {
            // Whatever of the item lies between the row and its new end has been joined to it; the counts make sure.
            statements.push((
                Statement::new(
                    "delete from facts where session = ?1 and seq > ?2 and seq <= ?3 and item_seq = ?4",
                )
                .id(session.0)
                .int(run.fact.seq)
                .int(run.fact.through_seq)
                .bind(run.fact.item_seq.map(integer)),
                Some(run.joined),
            ));
            statements.push((
                Statement::new(
                    "update facts set through_seq = ?4, body = ?5 \
                     where session = ?1 and seq = ?2 and through_seq = ?3",
                )
                .id(session.0)
                .int(run.fact.seq)
                .int(run.stored_through)
                .int(run.fact.through_seq)
                .json(&run.fact.body),
                Some(1),
            ));
            bytes += text_bytes(&run.fact);
            if statements.len() >= 2 * SLICE_RUNS || bytes >= SLICE_BYTES {
                self.slice(session, std::mem::take(&mut statements)).await?;
                bytes = 0;
            }
        }
        if statements.is_empty() { Ok(()) } else { self.slice(session, statements).await }
    }

    async fn purge(&self, session: SessionId) -> Result<(), StoreError> {
        self.forget_words(session).await?;
        while let Some(through) = self.reader.nth_seq(session, PURGE_ROWS).await? {
            let remove = Statement::new("delete from facts where session = ?1 and seq <= ?2");
            self.slice(session, vec![(remove.id(session.0).int(through), None)]).await?;
        }
        let done = "delete from search_progress where session = ?1; delete from deletions where session = ?1";
        let done = Statement::new(done).id(session.0);
        self.slice(session, vec![(done, None)]).await
    }

    /// One transaction, when no commit waits.
    pub(super) async fn slice(
        &self,
        session: SessionId,
        statements: Vec<(Statement, Option<u64>)>,
    ) -> Result<(), StoreError> {
        let failed = StoreError::database("maintenance");
        if let Err(error) = self.fail.hit(FailPoint::BetweenSlices).await {
            return Err(failed(error.into()));
        }
        let (reply, answer) = oneshot::channel();
        self.slices.send(Slice { statements, reply }).await.map_err(|_| StoreError::Closed)?;
        match answer.await.map_err(|_| StoreError::Closed)? {
            Ok(true) => Ok(()),
            Ok(false) => Err(StoreError::Changed { session }),
            Err(error) => Err(failed(error)),
        }
    }
}

/// Joins the next facts of a turn to the open rows. Answers the rows that no further chunk can join and that have changed.
fn join(open: &mut HashMap<Seq, Run>, facts: Vec<Fact>) -> Vec<Run> {
    let (mut input, mut stored): (Vec<Fact>, Vec<(Seq, u64)>) =
        open.drain().map(|(_, run)| (run.fact, (run.stored_through, run.joined))).unzip();
    for fact in facts.into_iter().filter(|fact| fact.item_seq.is_some()) {
        stored.push((fact.through_seq, 0));
        input.push(fact);
    }
    let mut output = compact(&input).into_iter().peekable();
    let mut finished = Vec::new();
    // The output is the input without the rows that were joined to an earlier one of their item.
    for (before, (stored_through, joined)) in input.iter().zip(stored) {
        let Some(item) = before.item_seq else { continue };
        if let Some(fact) = output.next_if(|fact| fact.seq == before.seq) {
            let replaced = open.insert(item, Run { fact, stored_through, joined });
            finished.extend(replaced.filter(|run| run.joined > 0));
        } else if let Some(lead) = open.get_mut(&item) {
            lead.joined += joined + 1;
        }
    }
    finished
}

/// Bytes of text that a row holds in memory while it waits.
fn text_bytes(fact: &Fact) -> usize {
    match &fact.body {
        FactBody::AgentText(text) | FactBody::AgentThought(text) => text.text.len(),
        FactBody::ToolOutput(output) => output.text.len(),
        _ => 0,
    }
}
