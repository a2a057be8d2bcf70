//! What the search index still lacks: told by the writer, worked off by maintenance, asked by searches.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use signalbox_facts::{Fact, FactBody, SessionId};
use tokio::sync::Notify;

/// What a fact gives the search index; the greatest of a commit counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Gives {
    /// A piece of an answer: of a turn that goes on, or late. It can wait.
    Text,
    /// An answer that is whole now; its turn is compacted first.
    Turn,
    /// A prompt, to be found at once.
    Prompt,
}

impl Gives {
    pub(crate) fn of(fact: &Fact) -> Option<Self> {
        match &fact.body {
            FactBody::AgentText(_) => Some(Self::Text),
            FactBody::TurnEnded(_) => Some(Self::Turn),
            FactBody::Prompt(_) => Some(Self::Prompt),
            _ => None,
        }
    }
}

/// The sessions that have something for the index. Each set holds a session once, so they are bounded by the sessions there are.
#[derive(Debug, Default)]
pub(crate) struct Indexing {
    marked: Mutex<Marked>,
    news: Notify,
    settled: Notify,
    /// Somebody waits for all of it.
    wanted: AtomicBool,
}

#[derive(Debug, Default)]
struct Marked {
    soon: HashSet<SessionId>,
    ended: HashSet<SessionId>,
    later: HashSet<SessionId>,
    /// Could not be indexed; the next mark or the next start tries again.
    failed: HashSet<SessionId>,
    working: bool,
    /// How far sessions of before this start have been looked at, and whether all have.
    sweep: Option<SessionId>,
    swept: bool,
}

impl Indexing {
    /// A commit of this session is stored.
    pub(crate) fn mark(&self, session: SessionId, gives: Gives) {
        let news = {
            let mut marked = self.marked.lock();
            // With the first one that waits, a look at it is due.
            let waited = !marked.later.is_empty() || !marked.ended.is_empty();
            let set = match gives {
                Gives::Text => &mut marked.later,
                Gives::Turn => &mut marked.ended,
                Gives::Prompt => &mut marked.soon,
            };
            set.insert(session) && (gives == Gives::Prompt || !waited)
        };
        if news {
            self.news.notify_one();
        }
    }

    /// Something is there for [`Indexing::next`], or waits for a look.
    pub(crate) async fn news(&self) {
        self.news.notified().await;
    }

    /// Whether somebody has come to wait for all of it since this was asked last.
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.swap(false, Ordering::AcqRel)
    }

    /// Waits until everything is indexed; that is done now, and not when it would be time for it.
    pub(crate) async fn settled(&self) {
        loop {
            let mut settled = std::pin::pin!(self.settled.notified());
            settled.as_mut().enable();
            if self.is_complete() {
                return;
            }
            self.wanted.store(true, Ordering::Release);
            self.news.notify_one();
            settled.await;
        }
    }

    /// The next session that is to be indexed soon.
    pub(crate) fn next(&self) -> Option<(SessionId, Gives)> {
        let session = self.marked.lock().soon.iter().next().copied()?;
        self.take(session).map(|gives| (session, gives))
    }

    /// Work on this session begins; what is marked from now on is news. None if nothing of it was marked.
    pub(crate) fn take(&self, session: SessionId) -> Option<Gives> {
        let mut marked = self.marked.lock();
        let later = marked.later.remove(&session).then_some(Gives::Text);
        let ended = marked.ended.remove(&session).then_some(Gives::Turn);
        let soon = marked.soon.remove(&session).then_some(Gives::Prompt);
        let gives = later.max(ended).max(soon);
        marked.working |= gives.is_some();
        gives
    }

    /// How the work ended.
    pub(crate) fn done(&self, session: SessionId, failed: bool) {
        let mut marked = self.marked.lock();
        marked.working = false;
        if failed {
            marked.failed.insert(session);
        } else {
            marked.failed.remove(&session);
        }
        drop(marked);
        self.settled.notify_waiters();
    }

    /// Whether something waits for a look.
    pub(crate) fn waits(&self) -> bool {
        let marked = self.marked.lock();
        !marked.swept || !marked.later.is_empty() || !marked.ended.is_empty()
    }

    /// The sessions that wait for a look.
    pub(crate) fn waiting(&self) -> Vec<SessionId> {
        let marked = self.marked.lock();
        marked.ended.union(&marked.later).copied().collect()
    }

    /// The next sessions of before this start that are not indexed, by id. With none the sweep is over.
    pub(crate) fn found(&self, sessions: &[SessionId]) {
        let mut marked = self.marked.lock();
        marked.swept |= sessions.is_empty();
        marked.sweep = sessions.last().copied().or(marked.sweep);
        marked.soon.extend(sessions);
        drop(marked);
        self.settled.notify_waiters();
    }

    /// The last session that the sweep has found; none once it is over.
    pub(crate) fn sweep(&self) -> Option<Option<SessionId>> {
        let marked = self.marked.lock();
        (!marked.swept).then_some(marked.sweep)
    }

    /// Whether a search finds every prompt, and every answer of a turn that has ended.
    pub(crate) fn is_complete(&self) -> bool {
        let marked = self.marked.lock();
        marked.swept
            && !marked.working
            && marked.soon.is_empty()
            && marked.ended.is_empty()
            && marked.failed.is_empty()
    }

    /// How many sessions are known to wait.
    pub(crate) fn backlog(&self) -> usize {
        let marked = self.marked.lock();
        marked.soon.len() + marked.ended.len() + marked.failed.len() + usize::from(marked.working)
    }
}
