//! What notifications and server requests change.

use signalbox_protocol::app::{
    Place, ServerNotification, ServerRequest, ServerRequestResolvedNotification, ThreadStatus, TurnStatus,
};

use super::broken::{Broken, Problem};
use super::change::Change;
use super::item::Grows;
use super::place::Cursor;
use super::state::{Behind, Phase, Settings, ThreadState, Whole};
use super::turn;
use crate::event::Event;

type Told = Result<Vec<Change>, Problem>;

impl ThreadState {
    /// Applies an event and says what it changed. Events of other threads change nothing.
    ///
    /// # Errors
    /// If it cannot follow what was told before. The state is then as it was, and wants to be resumed.
    pub fn apply(&mut self, event: &Event) -> Result<Vec<Change>, Broken> {
        match event {
            Event::Notification(told) => self.notified(&told.body, told.place.as_ref()),
            Event::Request(request) => self.asked(&request.body),
            Event::Unreadable(_) => Ok(Vec::new()),
        }
    }

    /// Applies a notification; `place` is what came with it.
    ///
    /// # Errors
    /// As [`ThreadState::apply`].
    pub fn notified(
        &mut self,
        told: &ServerNotification,
        place: Option<&Place>,
    ) -> Result<Vec<Change>, Broken> {
        if thread_of(told) != Some(self.thread.id.as_str()) || self.phase == Phase::Deleted {
            return Ok(Vec::new());
        }
        let done = self.enters(place).and_then(|entered| match entered {
            Entered::Superseded => Ok(self.superseded(told)),
            Entered::Next(cursor, seq) => {
                let changes = self.take(told)?;
                self.cursor = Some(cursor.clone());
                self.seq = seq;
                if self.phase == Phase::Live {
                    self.whole = Some(Whole { cursor, seq, revision: self.thread.activity.revision });
                }
                Ok(changes)
            }
        });
        done.map_err(|problem| self.breaks(told.method(), problem))
    }

    /// Applies a server request.
    ///
    /// # Errors
    /// As [`ThreadState::apply`].
    pub fn asked(&mut self, request: &ServerRequest) -> Result<Vec<Change>, Broken> {
        let (thread, turn, item) = match request {
            ServerRequest::CommandExecutionApproval(asked) => {
                (Some(&asked.thread_id), Some(&asked.turn_id), Some(&asked.item_id))
            }
            ServerRequest::FileChangeApproval(asked) => {
                (Some(&asked.thread_id), Some(&asked.turn_id), Some(&asked.item_id))
            }
            ServerRequest::ToolUserInput(asked) => {
                (Some(&asked.thread_id), Some(&asked.turn_id), Some(&asked.item_id))
            }
            ServerRequest::Elicitation(asked) => (Some(&asked.thread_id), asked.turn_id.as_ref(), None),
        };
        if thread != Some(&self.thread.id) || self.phase != Phase::Live {
            return Ok(Vec::new());
        }
        let checked = match turn {
            Some(turn) => self.may_wait(turn, item.map(String::as_str)),
            None => Ok(()),
        };
        checked.map_err(|problem| self.breaks(request.method(), problem))?;
        let approval = request.approval_id().to_owned();
        self.requests.insert(approval.clone(), request.clone());
        Ok(vec![Change::Asked { approval }])
    }

    /// What waits for an answer belongs to a turn that runs, and to an open item of it if to any.
    fn may_wait(&mut self, id: &str, item: Option<&str>) -> Result<(), Problem> {
        let Some(turn) = turn::find(&mut self.thread, id, self.all_known)? else { return Ok(()) };
        if turn.status != TurnStatus::InProgress {
            return Err(Problem::TurnEnded(id.to_owned()));
        }
        // A question may belong to no item; then its item is told as an empty text.
        match item.filter(|item| !item.is_empty()) {
            Some(item) => match turn::item(turn, item)? {
                Some(open) if super::is_complete(open) => Err(Problem::ItemComplete(item.to_owned())),
                _ => Ok(()),
            },
            None => Ok(()),
        }
    }

    fn breaks(&mut self, method: &str, problem: Problem) -> Broken {
        let broken = Broken { method: method.to_owned(), thread: self.thread.id.clone(), problem };
        self.falls_behind(Behind::Broken(broken.clone()));
        broken
    }

    /// Whether a notification comes in order, and whether the snapshot has it already.
    fn enters(&self, place: Option<&Place>) -> Result<Entered, Problem> {
        let place = place.ok_or(Problem::NoPlace)?;
        let found: Cursor = place.cursor.parse().map_err(|()| Problem::NoCursor(place.cursor.clone()))?;
        if let Some(before) = &self.cursor
            && !found.follows(before)
        {
            return Err(Problem::CursorOrder { before: before.clone(), found });
        }
        if let Some(snapshot) = &self.snapshot
            && found.life == snapshot.life
            && found.place <= snapshot.place
        {
            return Ok(Entered::Superseded);
        }
        if place.seq < self.seq {
            return Err(Problem::SeqOrder { before: self.seq, found: place.seq });
        }
        Ok(Entered::Next(found, place.seq))
    }

    /// What the snapshot has already. Only a request that was read late may be left from before it.
    fn superseded(&mut self, told: &ServerNotification) -> Vec<Change> {
        if let ServerNotification::ServerRequestResolved(resolved) = told {
            self.requests.remove(&resolved.approval_id);
        }
        vec![Change::Superseded]
    }

    fn take(&mut self, told: &ServerNotification) -> Told {
        match self.everybody_hears(told) {
            Some(told) => told,
            None if self.phase == Phase::Live => self.followers_hear(told),
            // The end of what the last subscription was told, or news of one that has fallen behind.
            None => Ok(Vec::new()),
        }
    }

    /// What everybody is told, whether they follow the thread or not.
    fn everybody_hears(&mut self, told: &ServerNotification) -> Option<Told> {
        use ServerNotification as N;
        Some(match told {
            N::ThreadStatusChanged(told) => self.status(&told.status),
            N::ThreadActivityChanged(told) => {
                let (before, found) = (self.thread.activity.revision, told.activity.revision);
                if found < before {
                    return Some(Err(Problem::RevisionOrder { before, found }));
                }
                self.thread.activity = told.activity.clone();
                Ok(vec![Change::Activity])
            }
            N::ThreadNameUpdated(told) => {
                self.thread.name.clone_from(&told.thread_name);
                Ok(vec![Change::Name])
            }
            N::ThreadArchived(_) | N::ThreadUnarchived(_) => {
                self.thread.archived = matches!(told, N::ThreadArchived(_));
                Ok(vec![Change::Archived])
            }
            N::ThreadDeleted(_) => {
                self.phase = Phase::Deleted;
                self.requests.clear();
                self.approvals.clear();
                Ok(vec![Change::Deleted])
            }
            N::ThreadClosed(_) => {
                self.falls_behind(Behind::Closed);
                self.requests.clear();
                self.approvals.clear();
                Ok(vec![Change::FellBehind])
            }
            N::ThreadWorktreeDiscarded(_) => {
                self.thread.worktree = None;
                Ok(vec![Change::Worktree])
            }
            N::ThreadResyncRequired(told) => {
                self.falls_behind(Behind::Resync { reason: told.reason.clone() });
                Ok(vec![Change::FellBehind])
            }
            // Its maker has the thread already, from the answer that precedes this.
            N::ThreadStarted(_) => Ok(Vec::new()),
            _ => return None,
        })
    }

    fn status(&mut self, status: &ThreadStatus) -> Told {
        if self.phase == Phase::Live
            && let ThreadStatus::Idle | ThreadStatus::SystemError = status
            && let Some(turn) = self.thread.turns.iter().rfind(|turn| turn.status == TurnStatus::InProgress)
        {
            turn::all_complete(turn)?;
        }
        self.thread.status = status.clone();
        Ok(vec![Change::Status])
    }

    fn is_active(&self) -> bool {
        matches!(self.thread.status, ThreadStatus::Active { .. })
    }

    /// What those are told who follow the thread.
    fn followers_hear(&mut self, told: &ServerNotification) -> Told {
        use ServerNotification as N;
        let known = self.all_known;
        let active = self.is_active();
        match told {
            N::TurnStarted(told) => {
                if !active {
                    return Err(Problem::Status("active"));
                }
                turn::start(&mut self.thread, &told.turn)?;
                Ok(vec![Change::TurnStarted { turn: told.turn.id.clone() }])
            }
            N::TurnCompleted(told) => {
                let id = &told.turn.id;
                if active {
                    return Err(Problem::Status("idle"));
                }
                self.nothing_waits(|turn, _| turn == Some(id.as_str()))?;
                if let Some(turn) = turn::find(&mut self.thread, id, known)? {
                    turn::end(turn, &told.turn)?;
                }
                Ok(vec![Change::TurnEnded { turn: id.clone() }])
            }
            N::TurnPlanUpdated(told) => {
                let id = told.turn_id.clone();
                if let Some(turn) = turn::find(&mut self.thread, &id, known)? {
                    turn.plan = Some(told.plan.clone());
                }
                Ok(vec![Change::Plan { turn: id }])
            }
            N::TurnDiffUpdated(told) => {
                let id = told.turn_id.clone();
                if let Some(turn) = turn::find(&mut self.thread, &id, known)? {
                    turn.diff = Some(told.diff.clone());
                }
                Ok(vec![Change::Diff { turn: id }])
            }
            N::ThreadTokenUsageUpdated(told) => {
                let id = told.turn_id.clone();
                if let Some(turn) = turn::find(&mut self.thread, &id, known)? {
                    turn.token_usage = Some(told.token_usage.clone());
                }
                Ok(vec![Change::Usage { turn: id }])
            }
            N::ItemStarted(told) => {
                let (turn, item) = (told.turn_id.clone(), told.item.id.clone());
                if let Some(turn) = turn::find(&mut self.thread, &turn, known)? {
                    turn::item_starts(turn, &told.item, active)?;
                }
                Ok(vec![Change::ItemStarted { turn, item }])
            }
            N::ItemCompleted(told) => {
                let (turn, item) = (told.turn_id.clone(), told.item.id.clone());
                self.nothing_waits(|_, of| of == Some(item.as_str()))?;
                if let Some(turn) = turn::find(&mut self.thread, &turn, known)? {
                    turn::item_completes(turn, &told.item)?;
                }
                Ok(vec![Change::ItemCompleted { turn, item }])
            }
            N::AgentMessageDelta(told) => {
                self.grows(&told.turn_id, &told.item_id, Grows::Message(&told.delta))
            }
            N::PlanDelta(told) => self.grows(&told.turn_id, &told.item_id, Grows::Plan(&told.delta)),
            N::ReasoningSummaryPartAdded(told) => {
                self.grows(&told.turn_id, &told.item_id, Grows::Part(told.summary_index))
            }
            N::ReasoningSummaryTextDelta(told) => {
                self.grows(&told.turn_id, &told.item_id, Grows::Thought(told.summary_index, &told.delta))
            }
            N::CommandExecutionOutputDelta(told) => {
                self.grows(&told.turn_id, &told.item_id, Grows::Output(&told.delta))
            }
            N::FileChangePatchUpdated(told) => {
                self.grows(&told.turn_id, &told.item_id, Grows::Patch(&told.changes))
            }
            N::ThreadReverted(told) => {
                let before = told.before_turn_id.clone();
                match before.as_ref().map(|id| self.thread.turns.iter().position(|turn| turn.id == *id)) {
                    Some(Some(place)) => self.thread.turns.truncate(place),
                    // All that are here come after it.
                    Some(None) if !known => self.thread.turns.clear(),
                    Some(None) => return Err(Problem::UnknownTurn(before.unwrap_or_default())),
                    // Which ones is not told: they have to be read again.
                    None => self.falls_behind(Behind::Resync { reason: "a revert".to_owned() }),
                }
                Ok(vec![Change::Reverted { before }])
            }
            N::ApprovalRequested(told) => {
                let approval = &told.approval;
                if self.approvals.contains_key(&approval.approval_id) {
                    return Err(Problem::ApprovalTwice(approval.approval_id.clone()));
                }
                self.may_wait(&approval.turn_id, approval.item_id.as_deref())?;
                let id = approval.approval_id.clone();
                self.approvals.insert(id.clone(), approval.clone());
                Ok(vec![Change::ApprovalRequested { approval: id }])
            }
            N::ServerRequestResolved(told) => Ok(self.resolved(told)),
            N::ThreadSettingsUpdated(told) => {
                let settings = Settings::from(&told.thread_settings);
                self.thread.cwd.clone_from(&settings.cwd);
                self.thread.policy = settings.policy;
                self.thread.reasoning_effort.clone_from(&settings.effort);
                self.settings = settings;
                Ok(vec![Change::Settings])
            }
            N::ThreadModelsUpdated(told) => {
                self.models = Some((told.data.clone(), told.current.clone()));
                Ok(vec![Change::Models])
            }
            N::ThreadConfigOptionsUpdated(told) => {
                self.config_options = Some(told.options.clone());
                Ok(vec![Change::ConfigOptions])
            }
            N::ThreadCommandsUpdated(told) => {
                self.commands = Some(told.commands.clone());
                Ok(vec![Change::Commands])
            }
            N::ThreadQueueChanged(_) => {
                self.queue_changed = true;
                Ok(vec![Change::Queue])
            }
            N::Error(told) => {
                let turn = Some(&told.turn_id).filter(|turn| !turn.is_empty()).cloned();
                let (error, request_id) = (Box::new(told.error.clone()), told.request_id.clone());
                Ok(vec![Change::Error { turn, error, request_id }])
            }
            N::Warning(told) => {
                let (message, request_id) = (told.message.clone(), told.request_id.clone());
                Ok(vec![Change::Warning { message, request_id }])
            }
            // Of no thread, or taken in before.
            _ => Ok(Vec::new()),
        }
    }

    fn grows(&mut self, turn: &str, item: &str, by: Grows<'_>) -> Told {
        let Some(found) = turn::find(&mut self.thread, turn, self.all_known)? else { return Ok(Vec::new()) };
        if !turn::item_grows(found, item, by)? {
            return Ok(Vec::new());
        }
        Ok(vec![Change::ItemGrew { turn: turn.to_owned(), item: item.to_owned() }])
    }

    fn resolved(&mut self, told: &ServerRequestResolvedNotification) -> Vec<Change> {
        // What a policy decides by itself is told too, so that it can be seen; nobody was asked.
        self.approvals.remove(&told.approval_id);
        self.requests.remove(&told.approval_id);
        vec![Change::ApprovalResolved { resolved: Box::new(told.clone()) }]
    }

    /// No approval of which this is true (given its turn and its item) waits.
    fn nothing_waits(&self, of: impl Fn(Option<&str>, Option<&str>) -> bool) -> Result<(), Problem> {
        let waits = self
            .approvals
            .values()
            .find(|waiting| of(Some(&waiting.turn_id), waiting.item_id.as_deref()))
            .map(|waiting| waiting.approval_id.clone());
        waits.map_or(Ok(()), |id| Err(Problem::ApprovalWaits(id)))
    }
}

enum Entered {
    Superseded,
    Next(Cursor, u64),
}

/// The thread that a notification is about.
fn thread_of(told: &ServerNotification) -> Option<&str> {
    use ServerNotification as N;
    Some(match told {
        N::ThreadStarted(told) => &told.thread.id,
        N::ThreadStatusChanged(told) => &told.thread_id,
        N::ThreadActivityChanged(told) => &told.thread_id,
        N::ThreadNameUpdated(told) => &told.thread_id,
        N::ThreadArchived(told) => &told.thread_id,
        N::ThreadUnarchived(told) => &told.thread_id,
        N::ThreadDeleted(told) => &told.thread_id,
        N::ThreadClosed(told) => &told.thread_id,
        N::ThreadReverted(told) => &told.thread_id,
        N::ThreadQueueChanged(told) => &told.thread_id,
        N::ThreadWorktreeDiscarded(told) => &told.thread_id,
        N::ThreadSettingsUpdated(told) => &told.thread_id,
        N::ThreadModelsUpdated(told) => &told.thread_id,
        N::ThreadConfigOptionsUpdated(told) => &told.thread_id,
        N::ThreadCommandsUpdated(told) => &told.thread_id,
        N::ThreadTokenUsageUpdated(told) => &told.thread_id,
        N::ThreadResyncRequired(told) => &told.thread_id,
        N::TurnStarted(told) => &told.thread_id,
        N::TurnCompleted(told) => &told.thread_id,
        N::TurnPlanUpdated(told) => &told.thread_id,
        N::TurnDiffUpdated(told) => &told.thread_id,
        N::ItemStarted(told) => &told.thread_id,
        N::ItemCompleted(told) => &told.thread_id,
        N::AgentMessageDelta(told) => &told.thread_id,
        N::PlanDelta(told) => &told.thread_id,
        N::ReasoningSummaryPartAdded(told) => &told.thread_id,
        N::ReasoningSummaryTextDelta(told) => &told.thread_id,
        N::CommandExecutionOutputDelta(told) => &told.thread_id,
        N::FileChangePatchUpdated(told) => &told.thread_id,
        N::Error(told) => &told.thread_id,
        N::Warning(told) => return told.thread_id.as_deref(),
        N::ServerRequestResolved(told) => &told.thread_id,
        N::ApprovalRequested(told) => &told.thread_id,
        // Of no thread.
        _ => return None,
    })
}
