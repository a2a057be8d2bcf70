//! `State`: all that a client knows, the frames that change it, and the messages that go out through it.

use std::collections::BTreeMap;

use signalbox_protocol::ops::{ClientRequest, DocBlock, Op, Policy, ServerFrame};

use super::change::{Change, Outcome};
use super::list::SessionList;
use super::session::{Awaiting, Session};
use super::submitted::{Submitted, answer};
use super::transcript::{Older, Phase};

/// All that a client knows.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct State {
    /// Every session that is known, by id; [`SessionList::order`] has those of the list, in its order.
    pub sessions: BTreeMap<String, Session>,
    pub list: SessionList,
    /// Ops of this client that are not answered yet, by `request_id`.
    pub submitted: BTreeMap<String, Submitted>,
    /// How many frames were applied: what came before what.
    pub(super) frame: u64,
}

/// Something that has to be asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Want {
    /// By [`State::ask_sessions`].
    Sessions,
    /// By [`State::ask_transcript`] for this session.
    Transcript(String),
}

impl State {
    /// Applies a frame and says what it changed.
    pub fn apply(&mut self, frame: ServerFrame) -> Vec<Change> {
        self.frame += 1;
        match frame {
            ServerFrame::Sessions { sessions } => self.list_read(sessions),
            ServerFrame::SessionsError { message } => self.list_failed(message),
            ServerFrame::Event { event } => self.event(event),
            ServerFrame::Transcript { session, request_id, entries, next_before, snapshot_through } => {
                self.page(session, request_id, entries, next_before, snapshot_through)
            }
            ServerFrame::TranscriptError { session, request_id, message } => {
                self.page_failed(session, request_id, message)
            }
            ServerFrame::Lagged { missed } => self.missed(missed),
            ServerFrame::Error { message, request_id } => {
                let mut changes = Vec::new();
                self.settle(
                    request_id.as_deref(),
                    |_| Some(Outcome::Refused { message: message.clone() }),
                    &mut changes,
                );
                changes.push(Change::Error {
                    session: None,
                    message,
                    terminal: false,
                    reason: None,
                    request_id,
                });
                changes
            }
        }
    }

    /// A new connection has taken the place of the last one. Its first frame will be the list; everything that was
    /// asked for on the old one is not answered any more, and events between the two were missed.
    pub fn connected(&mut self) -> Vec<Change> {
        self.list.asked.clear();
        self.list.connected = self.frame;
        let changes = self.missed(0);
        self.list.asked.push_back(self.frame);
        changes
    }

    fn missed(&mut self, missed: u64) -> Vec<Change> {
        self.list.stale = true;
        self.list.missed = self.frame;
        for session in self.sessions.values_mut() {
            if let Some(transcript) = &mut session.transcript {
                transcript.missed();
            }
        }
        for submitted in self.submitted.values_mut() {
            submitted.uncertain = true;
        }
        vec![Change::Stale { missed }]
    }

    /// What has to be asked for before the state is whole again. What is asked for is wanted no longer.
    #[must_use]
    pub fn wants(&self) -> Vec<Want> {
        let list = self.list.wanted().then_some(Want::Sessions);
        let transcripts = self.sessions.values().filter_map(|session| {
            let transcript = session.transcript.as_ref()?;
            let wanted = transcript.phase == Phase::Stale && transcript.error.is_none();
            wanted.then(|| Want::Transcript(session.id.clone()))
        });
        list.into_iter().chain(transcripts).collect()
    }

    /// The request for a fresh list.
    #[must_use = "the reply is waited for from now on"]
    pub fn ask_sessions(&mut self) -> ClientRequest {
        self.list.asked.push_back(self.frame);
        ClientRequest::Sessions
    }

    /// The request for the newest page of a session, at first and whenever it is wanted. `request_id` is a fresh one.
    #[must_use = "live rows are held back until the page comes"]
    pub fn ask_transcript(
        &mut self,
        session: &str,
        limit: Option<u32>,
        request_id: impl Into<String>,
    ) -> ClientRequest {
        let request_id = request_id.into();
        let known = self.sessions.entry(session.to_owned()).or_insert_with(|| Session::new(session));
        let transcript = known.transcript.get_or_insert_default();
        transcript.phase = Phase::Asked(request_id.clone());
        transcript.error = None;
        ClientRequest::Transcript {
            session: session.to_owned(),
            before: None,
            limit,
            request_id: Some(request_id),
        }
    }

    /// The request for the page before the oldest turn that is here; none if there is no such page, or it is asked for.
    #[must_use = "no other older page is asked for until this one comes"]
    pub fn ask_older(
        &mut self,
        session: &str,
        limit: Option<u32>,
        request_id: impl Into<String>,
    ) -> Option<ClientRequest> {
        let request_id = request_id.into();
        let transcript = self.sessions.get_mut(session)?.transcript.as_mut()?;
        let (Older::Before(before), None) = (transcript.older, &transcript.older_asked) else { return None };
        transcript.older_asked = Some((request_id.clone(), before));
        Some(ClientRequest::Transcript {
            session: session.to_owned(),
            before: Some(before),
            limit,
            request_id: Some(request_id),
        })
    }

    /// Forgets a session's history, for instance because it is off the screen.
    pub fn close_transcript(&mut self, session: &str) {
        if let Some(session) = self.sessions.get_mut(session) {
            session.transcript = None;
        }
    }

    /// Notes an op that is about to be sent, if some event will answer it by its `request_id`.
    pub fn submit(&mut self, op: Op) -> Op {
        if let (Some(request_id), Some(_)) = (op.request_id(), answer(&op)) {
            self.submitted.insert(request_id.to_owned(), Submitted::new(op.clone()));
        }
        op
    }

    /// The op for a prompt, noted as pending.
    pub fn prompt(&mut self, session: &str, doc: Vec<DocBlock>, request_id: impl Into<String>) -> Op {
        self.submit(Op::Prompt { session: session.to_owned(), doc, request_id: Some(request_id.into()) })
    }

    /// The op that sets both policy axes, noted as pending. The policy shown stays what the core says.
    pub fn set_policy(&mut self, session: &str, policy: Policy, request_id: impl Into<String>) -> Op {
        self.submit(Op::SetExecutionPolicy {
            session: session.to_owned(),
            mode: policy.mode,
            sandbox: policy.sandbox,
            request_id: Some(request_id.into()),
        })
    }

    /// Waits no longer for an op's answer.
    pub fn forget(&mut self, request_id: &str) -> Option<Submitted> {
        self.submitted.remove(request_id)
    }

    /// What waits for an answer in all sessions, first come first.
    #[must_use]
    pub fn awaiting(&self) -> Vec<Awaiting<'_>> {
        let mut awaiting: Vec<_> = self
            .sessions
            .values()
            .flat_map(|session| session.pending.iter().map(|input| Awaiting { session: &session.id, input }))
            .collect();
        // An input without a place in the order comes last.
        awaiting.sort_by_key(|waiting| (waiting.input.sequence.is_none(), waiting.input.sequence));
        awaiting
    }

    /// Takes an op off the list of those that wait, if its `request_id` is exactly this and `outcome` knows the event
    /// for an answer to such an op.
    pub(super) fn settle(
        &mut self,
        request_id: Option<&str>,
        outcome: impl FnOnce(&Op) -> Option<Outcome>,
        changes: &mut Vec<Change>,
    ) -> Option<Op> {
        let request_id = request_id?;
        let outcome = outcome(&self.submitted.get(request_id)?.op)?;
        let Submitted { op, .. } = self.submitted.remove(request_id)?;
        changes.push(Change::Settled {
            request_id: request_id.to_owned(),
            op: Box::new(op.clone()),
            outcome,
        });
        Some(op)
    }
}
