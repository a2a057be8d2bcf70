//! The diff of the open turn: what the workspace was before the agent was prompted, against what it is now.
//!
//! Recording and comparing read many files, so they run on blocking threads, one at a time a session.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use signalbox_facts::{FactBody, FileChangeKind, FileDiff, TurnDiff};
use signalbox_workspace::{Limits, Snapshot, StatCache};
use tokio::task::JoinHandle;

use super::actor::Actor;
use crate::batch::Item;

/// Recording may hold the first prompt back for so long; then the diff is partial.
const RECORDING: Duration = Duration::from_millis(300);
/// Comparing gives up after so long; then the diff is partial.
const COMPARING: Duration = Duration::from_secs(2);
/// A cache of more files than this is not kept from turn to turn, so that idle sessions stay small.
const KEPT_FILES: usize = 1024;
/// Bytes of a diff that is put together from what tool calls carry.
const MAX_CARRIED_BYTES: usize = 1 << 20;

/// What is known of the workspace in the open turn.
#[derive(Debug, Default)]
pub(super) struct Diffs {
    cache: StatCache,
    snapshot: Option<Arc<Snapshot>>,
    job: Option<Job>,
    /// Something changed while a comparison ran.
    again: bool,
    last: Option<TurnDiff>,
}

#[derive(Debug)]
enum Job {
    Recording(JoinHandle<(Option<Snapshot>, StatCache)>),
    Comparing(JoinHandle<(TurnDiff, StatCache)>),
}

/// What a job brought.
#[derive(Debug)]
pub(super) enum Done {
    Recorded(Option<Snapshot>),
    Compared(TurnDiff),
    /// The job panicked; the turn goes on without a diff.
    Lost,
}

impl Diffs {
    /// Waits for the job that runs; for ever if none does. Dropping the future loses nothing.
    pub(super) async fn done(&mut self) -> Done {
        let done = match &mut self.job {
            None => return std::future::pending().await,
            Some(Job::Recording(task)) => task.await.map(|(snapshot, cache)| {
                self.cache = cache;
                Done::Recorded(snapshot)
            }),
            Some(Job::Comparing(task)) => task.await.map(|(diff, cache)| {
                self.cache = cache;
                Done::Compared(diff)
            }),
        };
        self.job = None;
        done.unwrap_or_else(|error| {
            tracing::error!(%error, "a diff of the workspace was lost");
            Done::Lost
        })
    }

    /// Whether the state before the turn is still being recorded.
    pub(super) fn is_recording(&self) -> bool {
        matches!(self.job, Some(Job::Recording(_)))
    }

    fn record(&mut self, roots: Vec<PathBuf>, store: PathBuf) {
        self.snapshot = None;
        self.last = None;
        self.again = false;
        let mut cache = std::mem::take(&mut self.cache);
        self.job = Some(Job::Recording(tokio::task::spawn_blocking(move || {
            let deadline = Instant::now() + RECORDING;
            let snapshot = Snapshot::take(&roots, &store, Limits::default(), deadline, &mut cache);
            let snapshot = snapshot.unwrap_or_else(|error| {
                tracing::warn!(%error, "the workspace could not be recorded; the turn has no diff of it");
                None
            });
            (snapshot, cache)
        })));
    }

    fn compare(&mut self) {
        let Some(snapshot) = self.snapshot.clone() else { return };
        if self.job.is_some() {
            self.again = true;
            return;
        }
        let mut cache = std::mem::take(&mut self.cache);
        self.job = Some(Job::Comparing(tokio::task::spawn_blocking(move || {
            let diff = snapshot.diff(Instant::now() + COMPARING, &mut cache);
            (diff, cache)
        })));
    }
}

impl Actor {
    /// Records the workspace before the agent is prompted.
    pub(super) fn record_workspace(&mut self) {
        if let Some(store) = self.core.blobs.clone() {
            let roots = self.roots();
            self.diffs.record(roots, store);
        }
    }

    /// A call that may have changed files has completed.
    pub(super) fn workspace_changed(&mut self) {
        self.diffs.compare();
    }

    /// A job has ended.
    pub(super) async fn diff_done(&mut self, done: Done) {
        match done {
            Done::Recorded(snapshot) => {
                self.diffs.snapshot = snapshot.map(Arc::new);
                self.drive_prompt().await;
            }
            Done::Compared(diff) => {
                if self.turn.is_some() {
                    self.show_diff(diff);
                    self.commit().await;
                }
                if std::mem::take(&mut self.diffs.again) {
                    self.diffs.compare();
                }
            }
            Done::Lost => self.drive_prompt().await,
        }
    }

    /// The diff at the end of the turn, into the batch that ends it.
    pub(super) async fn final_diff(&mut self) {
        while self.diffs.job.is_some() {
            if let Done::Recorded(snapshot) = self.diffs.done().await {
                self.diffs.snapshot = snapshot.map(Arc::new);
            }
        }
        self.diffs.compare();
        let diff = match self.diffs.job.is_some().then(|| self.diffs.done()) {
            Some(done) => match done.await {
                Done::Compared(diff) => Some(diff),
                Done::Recorded(_) | Done::Lost => None,
            },
            None => carried(&self.row.cwd, self.items.file_diffs()),
        };
        if let Some(diff) = diff {
            self.show_diff(diff);
        }
        self.diffs.snapshot = None;
        self.diffs.last = None;
        if self.diffs.cache.len() > KEPT_FILES {
            self.diffs.cache = StatCache::default();
        }
    }

    /// Puts a diff into the batch, unless nothing has changed or it says what the one before said.
    fn show_diff(&mut self, diff: TurnDiff) {
        let nothing_yet = self.diffs.last.is_none() && diff.diff.is_empty();
        if nothing_yet || self.diffs.last.as_ref() == Some(&diff) {
            return;
        }
        let turn = self.turn.as_ref().map(|turn| turn.id).or(self.last_turn);
        self.batch().push(turn, Item::None, FactBody::TurnDiff(diff.clone()));
        self.diffs.last = Some(diff);
    }
}

/// Outside git: the diffs that tool calls carried, as one.
fn carried<'a>(cwd: &Path, files: impl Iterator<Item = &'a FileDiff>) -> Option<TurnDiff> {
    let mut text = String::new();
    let mut truncated = false;
    for file in files {
        let path = file.path.strip_prefix(cwd).unwrap_or(&file.path).display();
        let (old, new) = match file.kind {
            FileChangeKind::Add => ("/dev/null".to_owned(), format!("b/{path}")),
            FileChangeKind::Delete => (format!("a/{path}"), "/dev/null".to_owned()),
            FileChangeKind::Update { .. } => (format!("a/{path}"), format!("b/{path}")),
        };
        let section = format!("diff --git a/{path} b/{path}\n--- {old}\n+++ {new}\n{}", file.unified);
        if text.len() + section.len() > MAX_CARRIED_BYTES {
            truncated = true;
            break;
        }
        text.push_str(&section);
        truncated |= file.truncated;
    }
    (!text.is_empty()).then_some(TurnDiff { diff: text, truncated, partial: true })
}
