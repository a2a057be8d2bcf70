//! Who is there to answer approvals. Frontends say so; sessions with something parked look.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use signalbox_facts::SessionId;
use tokio::sync::watch;
use tokio::time::Instant;

/// Whoever asked for the list of approvals counts as being there for so long.
const LISTED: Duration = Duration::from_secs(60);

/// What happens to an approval that nobody is there to answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Unattended {
    /// It waits.
    #[default]
    Wait,
    /// It is rejected at once.
    Reject,
    /// It waits for so long, then it is rejected.
    WaitFor(Duration),
}

/// Whether somebody is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Presence {
    /// As long as no change is told.
    Here,
    /// Until then, unless a change is told before.
    Until(Instant),
    /// Nobody.
    Nobody,
}

/// Counts those who are there.
#[derive(Debug)]
pub(crate) struct Attendance {
    state: Mutex<State>,
    changed: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct State {
    everywhere: usize,
    sessions: HashMap<SessionId, usize>,
    /// When the approvals of all sessions, or of one, were last asked for.
    listed: HashMap<Option<SessionId>, Instant>,
}

impl Default for Attendance {
    fn default() -> Self {
        Self { state: Mutex::default(), changed: watch::Sender::new(()) }
    }
}

impl Attendance {
    /// Somebody is there for one session, or for all, until the guard is dropped.
    pub(crate) fn attend(self: &Arc<Self>, session: Option<SessionId>) -> Attending {
        {
            let mut state = self.state.lock();
            match session {
                None => state.everywhere += 1,
                Some(session) => *state.sessions.entry(session).or_default() += 1,
            }
        }
        self.changed.send_replace(());
        Attending { attendance: Arc::clone(self), session }
    }

    /// Somebody has asked for the approvals of one session, or of all.
    pub(crate) fn listed(&self, session: Option<SessionId>, now: Instant) {
        {
            let mut state = self.state.lock();
            state.listed.retain(|_, at| now.duration_since(*at) < LISTED);
            state.listed.insert(session, now);
        }
        self.changed.send_replace(());
    }

    pub(crate) fn presence(&self, session: SessionId, now: Instant) -> Presence {
        let state = self.state.lock();
        if state.everywhere > 0 || state.sessions.contains_key(&session) {
            return Presence::Here;
        }
        let listed = [None, Some(session)].into_iter().filter_map(|key| state.listed.get(&key)).max();
        match listed.map(|at| *at + LISTED) {
            Some(until) if until > now => Presence::Until(until),
            _ => Presence::Nobody,
        }
    }

    /// Tells every change from now on.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }
}

/// Somebody is there who can answer approvals; until this is dropped.
#[derive(Debug)]
pub struct Attending {
    attendance: Arc<Attendance>,
    session: Option<SessionId>,
}

impl Drop for Attending {
    fn drop(&mut self) {
        {
            let mut state = self.attendance.state.lock();
            match self.session {
                None => state.everywhere -= 1,
                Some(session) => {
                    if let Some(count) = state.sessions.get_mut(&session) {
                        *count -= 1;
                        if *count == 0 {
                            state.sessions.remove(&session);
                        }
                    }
                }
            }
        }
        self.attendance.changed.send_replace(());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn somebody_is_there_while_a_guard_lives_or_a_list_is_fresh() {
        let attendance = Arc::new(Attendance::default());
        let (ours, other) = (SessionId::generate(), SessionId::generate());
        let now = Instant::now();
        assert_eq!(attendance.presence(ours, now), Presence::Nobody);
        let elsewhere = attendance.attend(Some(other));
        assert_eq!(attendance.presence(ours, now), Presence::Nobody);
        let (first, second) = (attendance.attend(Some(ours)), attendance.attend(Some(ours)));
        drop(first);
        assert_eq!(attendance.presence(ours, now), Presence::Here);
        drop((second, elsewhere));
        let everywhere = attendance.attend(None);
        assert_eq!(attendance.presence(ours, now), Presence::Here);
        drop(everywhere);
        attendance.listed(Some(other), now);
        assert_eq!(attendance.presence(ours, now), Presence::Nobody);
        attendance.listed(None, now);
        assert_eq!(attendance.presence(ours, now), Presence::Until(now + LISTED));
        assert_eq!(attendance.presence(ours, now + LISTED), Presence::Nobody);
    }
}
