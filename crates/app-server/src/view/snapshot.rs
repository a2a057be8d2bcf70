//! The view as it stands: what reading and joining give.

use signalbox_engine::convert as core;
use signalbox_facts::{
    Command, ConfigOption, ContextWindow, InputId, Model, PendingInput, Seq, SessionRow, TurnId, TurnStatus,
};
use signalbox_protocol::app::{
    Approval, ApprovalKind, ServerRequest, Thread, ThreadActivityChangedNotification, ThreadSettings,
    ThreadStatus, ThreadTokenUsage, Turn,
};

use super::effects::{Out, Outgoing};
use super::{ThreadView, TurnPart, convert};

impl ThreadView {
    /// The session's row.
    #[must_use]
    pub fn session(&self) -> &SessionRow {
        &self.session
    }

    /// The newest fact that the view reflects: `snapshotSeq`.
    #[must_use]
    pub fn seq(&self) -> Seq {
        self.session.last_seq
    }

    /// The thread without turns.
    #[must_use]
    pub fn thread(&self) -> Thread {
        convert::thread_out(&self.session, self.status())
    }

    /// What it is doing, as existing clients see it.
    #[must_use]
    pub fn status(&self) -> ThreadStatus {
        convert::status_out(&self.session.activity)
    }

    /// Its settings.
    #[must_use]
    pub fn settings(&self) -> ThreadSettings {
        convert::settings_out(&self.session)
    }

    /// The newest turn with all items, the open ones with the text and output they have by now. `None` if it was reverted,
    /// or there was none.
    #[must_use]
    pub fn turn(&self) -> Option<Turn> {
        self.turn.as_ref().map(super::TurnState::snapshot)
    }

    /// Of the newest turn the newest items that fit into `max` bytes of JSON, but at least one, each in at most `item_max`.
    #[must_use]
    pub fn turn_part(&self, max: usize, item_max: usize) -> Option<TurnPart> {
        self.turn.as_ref().map(|turn| turn.newest(max, item_max))
    }

    /// Usage of the turn in view, with the context window, which is in no row while the turn runs.
    #[must_use]
    pub fn turn_usage(&self) -> Option<(TurnId, ThreadTokenUsage)> {
        self.turn.as_ref().and_then(|turn| Some((turn.id, turn.usage.clone()?)))
    }

    /// The newest turn without items.
    #[must_use]
    pub fn turn_outline(&self) -> Option<Turn> {
        self.turn.as_ref().map(super::TurnState::outline)
    }

    /// Which turn is in view, and how it stands.
    #[must_use]
    pub fn turn_status(&self) -> Option<(TurnId, TurnStatus)> {
        self.turn.as_ref().map(|turn| (turn.id, turn.status()))
    }

    /// Seq of the first fact of the turn in view. Turns that began before it are in the store only.
    #[must_use]
    pub fn turn_first_seq(&self) -> Option<Seq> {
        self.turn.as_ref().map(|turn| turn.first_seq)
    }

    /// The turn that is open.
    #[must_use]
    pub fn running_turn(&self) -> Option<TurnId> {
        self.turn.as_ref().filter(|turn| turn.is_open()).map(|turn| turn.id)
    }

    /// The approvals that wait, by sequence.
    #[must_use]
    pub fn approvals(&self) -> Vec<Approval> {
        let pending = self.session.activity.pending().iter();
        pending.filter_map(|input| self.surroundings(input)).map(|asked| asked.approval()).collect()
    }

    /// A request that waits for its answer.
    #[must_use]
    pub fn pending(&self, id: InputId) -> Option<&PendingInput> {
        self.session.activity.pending().iter().find(|input| input.id == id)
    }

    /// The server requests that wait for answers, by sequence: all approvals, but of the questions only the first.
    #[must_use]
    pub fn server_requests(&self) -> Vec<ServerRequest> {
        let asked = self.session.activity.pending().iter().filter_map(|input| self.surroundings(input));
        let due = asked.filter(|asked| {
            let id = asked.input.id;
            // Between an activity and the request that it counts already, nobody has been asked yet.
            self.asked.iter().any(|told| told.id == id)
                && (asked.kind() != ApprovalKind::Tool || self.question == Some(id))
        });
        due.map(|asked| asked.server_request()).collect()
    }

    /// What a client that joins gets right behind its result: pending server requests (for operators and owners), plan,
    /// diff and usage of the running turn, the activity.
    #[must_use]
    pub fn joining(&self) -> Vec<Outgoing<'static>> {
        let mut out = Out::live(self.seq(), self.at_ms);
        for request in self.server_requests() {
            out.request(|| request);
        }
        if let Some(turn) = self.turn.as_ref().filter(|turn| turn.is_open()) {
            turn.tell_plan(&mut out);
            turn.tell_diff(&mut out);
            self.tell_usage(&mut out);
        }
        out.subscribers(|| ThreadActivityChangedNotification {
            thread_id: self.session.id.to_string(),
            activity: core::activity_out(&self.session.activity),
        });
        out.into_effects()
    }

    /// The models that the agent has told since it was started, and the current one's id.
    #[must_use]
    pub fn models(&self) -> Option<(&[Model], &str)> {
        self.models.as_ref().map(|(models, current)| (models.as_slice(), current.as_str()))
    }

    /// The slash commands that the agent has told since it was started.
    #[must_use]
    pub fn commands(&self) -> Option<&[Command]> {
        self.commands.as_deref()
    }

    /// The options that the agent has told since it was started.
    #[must_use]
    pub fn config_options(&self) -> Option<&[ConfigOption]> {
        self.options.as_deref()
    }

    /// How full the context is, as the agent has told since it was started.
    #[must_use]
    pub fn context_window(&self) -> Option<ContextWindow> {
        self.window
    }
}
