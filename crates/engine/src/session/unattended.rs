//! Approvals that nobody is there to answer: told, and after the configured time rejected.

use signalbox_agents::{Answer, ElicitationAnswer};
use signalbox_facts::{Decision, InputKind, PermissionResolved, ResolvedBy, ResolverKind};
use tokio::sync::watch;
use tokio::time::Instant;

use super::actor::Actor;
use crate::attendance::{Presence, Unattended};
use crate::core::Core;
use crate::policy;

/// Since when a session with something parked is alone.
#[derive(Debug)]
pub(super) struct Alone {
    changes: watch::Receiver<()>,
    since: Option<Instant>,
    /// People who come later find in the history that it waited for them.
    told: bool,
}

impl Alone {
    pub(super) fn new(core: &Core) -> Self {
        Self { changes: core.attendance.changes(), since: None, told: false }
    }

    /// Waits for the moment to look again. Dropping the future loses nothing.
    pub(super) async fn wait(&mut self, look_at: Option<Instant>) {
        let Some(look_at) = look_at else { return std::future::pending().await };
        tokio::select! {
            () = tokio::time::sleep_until(look_at) => {}
            // The sender lives as long as the engine, which outlives its sessions.
            _ = self.changes.changed() => {}
        }
    }
}

/// Far enough never to come.
const NEVER: std::time::Duration = std::time::Duration::from_secs(24 * 3600);

impl Actor {
    /// When to see to it that nobody answers; `None` if nothing waits.
    pub(super) fn look_for_people_at(&mut self) -> Option<Instant> {
        if self.row.activity.pending().is_empty() {
            self.alone.since = None;
            self.alone.told = false;
            return None;
        }
        self.alone.changes.borrow_and_update();
        let now = Instant::now();
        match self.core.attendance.presence(self.row.id, now) {
            Presence::Here => {
                self.alone.since = None;
                Some(now + NEVER)
            }
            Presence::Until(until) => {
                self.alone.since = None;
                Some(until)
            }
            Presence::Nobody => {
                let since = *self.alone.since.get_or_insert(now);
                Some(match self.core.unattended {
                    Unattended::Reject => since,
                    _ if !self.alone.told => now,
                    Unattended::Wait => now + NEVER,
                    Unattended::WaitFor(time) => since + time,
                })
            }
        }
    }

    /// The moment has come, or somebody came or went.
    pub(super) async fn look_for_people(&mut self) {
        let now = Instant::now();
        if self.core.attendance.presence(self.row.id, now) != Presence::Nobody {
            return;
        }
        let alone = self.alone.since.map_or(std::time::Duration::ZERO, |since| now.duration_since(since));
        let patience = match self.core.unattended {
            Unattended::Reject => Some(std::time::Duration::ZERO),
            Unattended::WaitFor(time) => Some(time),
            Unattended::Wait => None,
        };
        if patience.is_some_and(|patience| alone >= patience) {
            self.reject_unattended().await;
        } else if !std::mem::replace(&mut self.alone.told, true) {
            let then = match patience {
                Some(patience) => format!("it is rejected if nobody comes within {} s", patience.as_secs()),
                None => "it waits".to_owned(),
            };
            let request_id = self.turn.as_ref().and_then(|turn| turn.request_id.clone());
            self.warn(
                "unattended",
                format!("Nobody is there to answer the agent's request; {then}."),
                request_id,
            );
            self.commit().await;
        }
    }

    async fn reject_unattended(&mut self) {
        for input in self.row.activity.pending().to_vec() {
            let Some(key) = self.parked.get(&input.id).copied() else { continue };
            let option = policy::rejecting(&input.options).map(|option| option.id.clone());
            let option = option.filter(|_| input.kind == InputKind::Permission);
            let resolved = PermissionResolved {
                option_id: option.clone(),
                rule: Some("unattended".to_owned()),
                ..PermissionResolved::of(
                    &input,
                    Decision::Decline,
                    ResolvedBy::kind(ResolverKind::Unattended),
                )
            };
            if let Err(error) = self.store_resolution(&input, resolved).await {
                tracing::error!(session = %self.row.id, %error, "an approval stays open");
                // Not again at once: the disk needs time too.
                self.alone.since = Some(Instant::now() + std::time::Duration::from_secs(5));
                return;
            }
            match input.kind {
                InputKind::Permission => self.answer(key, option.map_or(Answer::Cancelled, Answer::Selected)),
                InputKind::Elicitation => self.answer_form(key, ElicitationAnswer::Decline),
            }
        }
        self.stop_to_steer();
    }
}
