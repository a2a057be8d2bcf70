//! Events: what each of them changes. The rules for one session's values are in `session`, those for rows in `transcript`.

use signalbox_protocol::ops::{CloseReason, DocBlock, Event, Op};

use super::change::{Change, Outcome};
use super::session::{ModelList, Pending, Session, TokenUsage, TurnDiff, Window};
use super::state::State;
use super::submitted::{Answer, answer};
use super::turn::{Content, Row};

impl State {
    pub(super) fn event(&mut self, event: Event) -> Vec<Change> {
        let mut changes = Vec::new();
        match event {
            Event::SessionCreated {
                session,
                cwd,
                project_path,
                worktree_path,
                worktree_baseline,
                request_id,
                forked_from,
                fork_context: _,
            } => {
                let frame = self.frame;
                let known = self.session(&session, &mut changes);
                known.listed = true;
                known.told.created = frame;
                // Every field of a receipt may be missing, and a missing one says nothing.
                if !cwd.is_empty() {
                    known.cwd = Some(cwd);
                }
                known.project_path = project_path.or(known.project_path.take());
                known.worktree_path = worktree_path.or(known.worktree_path.take());
                known.worktree_baseline = worktree_baseline.or(known.worktree_baseline.take());
                known.forked_from = forked_from.or(known.forked_from.take());
                if !self.list.order.contains(&session) {
                    self.list.order.insert(0, session.clone());
                }
                let created = Outcome::Created { session: session.clone() };
                self.settle(request_id.as_deref(), answered_by(Answer::Session, created), &mut changes);
                changes.push(Change::SessionChanged { session });
            }
            Event::SessionTitleChanged { session, title } => {
                self.change(session, &mut changes, |known, frame| {
                    known.title = Some(title);
                    known.told.title = frame;
                })
            }
            Event::SessionActivityChanged { session, activity } => {
                if self.session(&session, &mut changes).activity_event(activity) {
                    changes.push(Change::ActivityChanged { session: session.clone() });
                }
                self.uncertain_prompt_runs(&session, &mut changes);
            }
            Event::TurnStarted { session, request_id, transcript_seq } => {
                let accepted = answered_by(Answer::Turn, Outcome::Started);
                let op = self.settle(request_id.as_deref(), accepted, &mut changes);
                let known = self.session(&session, &mut changes);
                known.turn_started(request_id);
                known.unloaded = false;
                known.diff = None;
                let turn = known.stream.turn.clone();
                if !known.listed && self.list.known {
                    // A session that runs is on every list, so the one that is here is too old.
                    self.list.missed = self.frame;
                    self.list.stale = true;
                }
                self.prompt_row(&session, transcript_seq, turn, op, false, &mut changes);
                changes.push(Change::ActivityChanged { session });
            }
            Event::PromptSteered { session, turn_id: _, request_id, transcript_seq } => {
                let accepted = answered_by(Answer::Turn, Outcome::Steered);
                let op = self.settle(request_id.as_deref(), accepted, &mut changes);
                self.session(&session, &mut changes).steered(request_id);
                self.prompt_row(&session, transcript_seq, None, op, true, &mut changes);
            }
            Event::AgentText { session, message_id, text, transcript_seq } => {
                let message_id = Some(message_id).filter(|id| !id.is_empty());
                self.row(&session, transcript_seq, Content::Text { message_id, text }, &mut changes);
            }
            Event::AgentThought { session, text, transcript_seq } => {
                self.row(&session, transcript_seq, Content::Reasoning { text }, &mut changes);
            }
            Event::ToolCall { session, id, title, status, kind, agent_input, transcript_seq } => {
                let content = Content::ToolCall { id, title, status, kind, agent_input };
                self.row(&session, transcript_seq, content, &mut changes);
            }
            Event::Plan { session, entries, transcript_seq } => {
                self.row(&session, transcript_seq, Content::Plan { entries }, &mut changes);
            }
            Event::PermissionRequest { ref session, .. } | Event::ElicitationRequest { ref session, .. } => {
                let session = session.clone();
                if let Some(request) = Pending::from_event(event) {
                    self.session(&session, &mut changes).requested(request);
                }
                changes.push(Change::ActivityChanged { session });
            }
            Event::PermissionResolved { session, request_id, option_id, by, kept_rule, .. } => {
                let frame = self.frame;
                let known = self.session(&session, &mut changes);
                known.resolved(&request_id);
                if let Some(rule) = kept_rule
                    && !known.rules.contains(&rule)
                {
                    known.rules.push(rule);
                    known.told.rules = frame;
                }
                changes.push(Change::InputResolved { session, request_id, option_id, by });
            }
            Event::RuleRemoved { session, rule } => self.change(session, &mut changes, |known, frame| {
                known.rules.retain(|kept| *kept != rule);
                known.told.rules = frame;
            }),
            Event::Usage { session, input_tokens, output_tokens, rate_limits } => {
                self.change(session, &mut changes, |known, _| {
                    known.usage = Some(TokenUsage { input_tokens, output_tokens, rate_limits });
                });
            }
            Event::ContextWindow { session, used_tokens, context_window, cost_usd } => {
                self.change(session, &mut changes, |known, _| {
                    known.context_window = Some(Window { used_tokens, context_window, cost_usd });
                });
            }
            Event::Models { session, available, current } => {
                self.change(session, &mut changes, |known, frame| {
                    if !current.is_empty() {
                        known.model = Some(current.clone());
                        known.told.model = frame;
                    }
                    known.models = Some(ModelList { available, current });
                })
            }
            Event::ConfigOptions { session, options } => self.change(session, &mut changes, |known, _| {
                known.config_options = Some(options);
            }),
            // Applied whoever asked for it, so that every client shows what the core does.
            Event::ExecutionPolicyChanged { session, policy, request_id } => {
                let applied = answered_by(Answer::Policy, Outcome::Applied);
                self.settle(request_id.as_deref(), applied, &mut changes);
                self.change(session, &mut changes, |known, frame| {
                    known.policy = Some(policy);
                    known.told.policy = frame;
                });
            }
            Event::SettingsChanged { session, model, effort, cwd, roots, config_options, request_id } => {
                let applied = answered_by(Answer::Settings, Outcome::Applied);
                self.settle(request_id.as_deref(), applied, &mut changes);
                self.change(session, &mut changes, |known, frame| {
                    if model.is_some() {
                        known.model = model;
                        known.told.model = frame;
                    }
                    if effort.is_some() {
                        known.effort = effort;
                    }
                    if cwd.is_some() || roots.is_some() {
                        known.told.place = frame;
                    }
                    known.cwd = cwd.or(known.cwd.take());
                    if let Some(roots) = roots {
                        known.roots = roots;
                    }
                    for option in known.config_options.iter_mut().flatten() {
                        if let Some(value) = config_options.get(&option.id) {
                            option.current.clone_from(value);
                        }
                    }
                });
            }
            Event::TurnEnded { session, stop_reason } => {
                self.session(&session, &mut changes).turn_over();
                changes.push(Change::ActivityChanged { session: session.clone() });
                changes.push(Change::TurnEnded { session, stop_reason });
            }
            Event::Error { session, message, terminal, reason, request_id } => {
                let refused = Outcome::Refused { message: message.clone() };
                self.settle(request_id.as_deref(), |_| Some(refused), &mut changes);
                // Only what is known can be stopped: an error may name a session that does not exist.
                let known = session.as_ref().and_then(|session| self.sessions.get_mut(session));
                if let (true, Some(known)) = (terminal, known)
                    && known.ends_by(request_id.as_deref())
                {
                    known.turn_over();
                    changes.push(Change::ActivityChanged { session: known.id.clone() });
                }
                changes.push(Change::Error { session, message, terminal, reason, request_id });
            }
            Event::TurnDiff { session, diff, truncated, partial, turn_id, transcript_seq } => {
                self.change(session, &mut changes, |known, _| {
                    if known
                        .diff
                        .as_ref()
                        .is_none_or(|old| old.seq <= transcript_seq || transcript_seq.is_none())
                    {
                        known.diff =
                            Some(TurnDiff { diff, truncated, partial, turn_id, seq: transcript_seq });
                    }
                });
            }
            Event::SessionReverted { session, before_turn, through_seq, request_id } => {
                let applied = answered_by(Answer::Revert, Outcome::Applied);
                self.settle(request_id.as_deref(), applied, &mut changes);
                let known = self.session(&session, &mut changes);
                known.diff = None;
                if let Some(transcript) = &mut known.transcript {
                    transcript.reverted(before_turn, through_seq);
                }
                changes.push(Change::TranscriptChanged { session });
            }
            Event::SessionArchived { session, archived } => {
                self.list.order.retain(|listed| *listed != session);
                if !archived {
                    self.list.order.insert(0, session.clone());
                }
                self.change(session, &mut changes, |known, frame| {
                    known.archived = archived;
                    known.told.archived = frame;
                });
            }
            Event::QueueChanged { session, queue, paused, request_id } => {
                let applied = answered_by(Answer::Queue, Outcome::Applied);
                self.settle(request_id.as_deref(), applied, &mut changes);
                for (request_id, submitted) in &mut self.submitted {
                    if submitted.op.session() == Some(&session) {
                        submitted.queued =
                            queue.iter().any(|queued| queued.request_id.as_deref() == Some(request_id));
                    }
                }
                self.change(session, &mut changes, |known, _| {
                    known.queue = queue;
                    known.queue_paused = paused;
                });
            }
            Event::WorktreeDiscarded { session, .. } => self.change(session, &mut changes, |known, frame| {
                known.worktree_discarded = true;
                known.told.worktree = frame;
            }),
            Event::SessionClosed { session, reason: CloseReason::Unloaded } => {
                self.change(session, &mut changes, |known, _| known.unloaded = true);
            }
            Event::SessionClosed { session, reason: CloseReason::Deleted } => {
                self.list.order.retain(|listed| *listed != session);
                if self.sessions.remove(&session).is_some() {
                    changes.push(Change::SessionRemoved { session });
                }
            }
        }
        changes
    }

    /// The session of this id. One that no list has told of becomes known by its events.
    fn session(&mut self, id: &str, changes: &mut Vec<Change>) -> &mut Session {
        self.sessions.entry(id.to_owned()).or_insert_with(|| {
            changes.push(Change::SessionAdded { session: id.to_owned() });
            Session::new(id)
        })
    }

    fn change(&mut self, session: String, changes: &mut Vec<Change>, change: impl FnOnce(&mut Session, u64)) {
        let frame = self.frame;
        change(self.session(&session, changes), frame);
        changes.push(Change::SessionChanged { session });
    }

    /// A live row. Of a session whose history nobody has asked for, no row is kept: it would be a part without the rest.
    fn row(&mut self, session: &str, seq: Option<u64>, content: Content, changes: &mut Vec<Change>) {
        self.put(session, Row { seq, through_seq: None, turn: None, content }, changes);
    }

    fn prompt_row(
        &mut self,
        session: &str,
        seq: Option<u64>,
        turn: Option<String>,
        own: Option<Op>,
        continues: bool,
        changes: &mut Vec<Change>,
    ) {
        let content = Content::Prompt { text: None, display: None, doc: own.and_then(document), continues };
        self.put(session, Row { seq, through_seq: None, turn, content }, changes);
    }

    fn put(&mut self, session: &str, row: Row, changes: &mut Vec<Change>) {
        if let Some(transcript) = &mut self.session(session, changes).transcript {
            transcript.row(row);
            changes.push(Change::TranscriptChanged { session: session.to_owned() });
        }
    }

    /// A prompt whose `turn_started` may have been missed is settled by an activity that names it, which is an exact
    /// match as well.
    pub(super) fn uncertain_prompt_runs(&mut self, session: &str, changes: &mut Vec<Change>) {
        let requests = self.sessions.get(session).and_then(|known| known.turn.as_ref());
        let Some(requests) = requests.map(|turn| turn.requests.clone()) else { return };
        for request_id in requests {
            if self.submitted.get(&request_id).is_some_and(|submitted| submitted.uncertain) {
                self.settle(Some(&request_id), answered_by(Answer::Turn, Outcome::Started), changes);
            }
        }
    }
}

/// This outcome for ops that this kind of event answers.
fn answered_by(kind: Answer, outcome: Outcome) -> impl FnOnce(&Op) -> Option<Outcome> {
    move |op| (answer(op) == Some(kind)).then_some(outcome)
}

/// The document of a prompt.
fn document(op: Op) -> Option<Vec<DocBlock>> {
    match op {
        Op::Prompt { doc, .. } => Some(doc),
        Op::TurnInput(input) => Some(input.doc),
        _ => None,
    }
}
