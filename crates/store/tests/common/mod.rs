//! A session as a test writes it: numbers its facts and keeps what the store should hold.
#![allow(dead_code, unreachable_pub, reason = "not every test file uses every verb")]

pub mod history;

use std::path::PathBuf;

use signalbox_facts::{
    Activity, ActivityState, AgentText, Committed, Fact, FactBody, InputId, InputKind, PendingInput, Policy,
    Prompt, Provider, Seq, SessionCreated, SessionId, SessionSource, TurnContext, TurnEnded, TurnId,
    TurnStatus,
};
use signalbox_store::{Commit, CommitError, Store};

pub struct Session {
    pub id: SessionId,
    pub last: Seq,
    pub revision: u64,
    pub turn: Option<TurnId>,
    /// Everything that was made, in order.
    pub facts: Vec<Fact>,
}

impl Session {
    pub fn new() -> Self {
        Self { id: SessionId::generate(), last: 0, revision: 0, turn: None, facts: Vec::new() }
    }

    /// A commit of these bodies; the seqs are used up whether or not it succeeds.
    pub fn commit(&mut self, bodies: impl IntoIterator<Item = FactBody>) -> Commit {
        self.commit_of(bodies.into_iter().map(|body| (None, body)))
    }

    /// The same with items.
    pub fn commit_of(&mut self, bodies: impl IntoIterator<Item = (Option<Seq>, FactBody)>) -> Commit {
        let expected = self.last;
        let mut facts = Vec::new();
        for (item_seq, body) in bodies {
            self.last += 1;
            facts.push(Fact {
                session: self.id,
                turn: self.turn,
                seq: self.last,
                through_seq: self.last,
                item_seq,
                at_ms: 1_000 + i64::try_from(self.last).unwrap(),
                body,
            });
        }
        self.facts.extend(facts.clone());
        Commit::facts(self.id, expected, facts)
    }

    pub fn created(&mut self) -> Commit {
        self.commit([created("/home/dev/project", "rehearsal")])
    }

    /// Activity and prompt in one commit, as the engine opens a turn.
    pub fn prompt(&mut self, text: &str) -> Commit {
        let turn = TurnId::generate();
        self.turn = Some(turn);
        self.revision += 1;
        let running = ActivityState::Running { turn_id: turn, prompt_request_id: None };
        self.commit([activity(self.revision, running), prompt(text, true, None)])
    }

    pub fn chunk(&mut self, text: &str) -> Commit {
        self.commit([chunk("m", text)])
    }

    pub fn ended(&mut self) -> Commit {
        self.revision += 1;
        let ended = TurnEnded {
            status: TurnStatus::Completed,
            stop_reason: Some("end_turn".into()),
            failure: None,
            request_id: None,
            tokens: None,
        };
        let bodies = [activity(self.revision, ActivityState::Idle), FactBody::TurnEnded(ended.into())];
        let commit = self.commit(bodies);
        self.turn = None;
        commit
    }
}

/// A new session with an open turn, stored.
pub async fn running(store: &Store) -> Session {
    let mut session = Session::new();
    store.writer.commit(session.created()).await.unwrap();
    store.writer.commit(session.prompt("do it")).await.unwrap();
    session
}

pub fn created(cwd: &str, provider: &str) -> FactBody {
    FactBody::SessionCreated(
        SessionCreated {
            provider: Provider::new(provider),
            cwd: PathBuf::from(cwd),
            roots: vec!["/work/other".into()],
            project_path: PathBuf::from(cwd),
            worktree: None,
            policy: Policy::default(),
            model: Some("small".into()),
            effort: None,
            instructions: Some("Be brief.".into()),
            request_id: None,
            source: SessionSource::App,
            forked_from: None,
            fork_context: None,
            ephemeral: false,
            launch: None,
        }
        .into(),
    )
}

pub fn activity(revision: u64, state: ActivityState) -> FactBody {
    FactBody::Activity(Activity { revision, state })
}

pub fn prompt(text: &str, opens: bool, client_message_id: Option<&str>) -> FactBody {
    let context = TurnContext { cwd: "/home/dev/project".into(), ..TurnContext::default() };
    let prompt = Prompt {
        blocks: Vec::new(),
        text: text.into(),
        display: text.into(),
        request_id: None,
        client_message_id: client_message_id.map(str::to_owned),
        opens: opens.then(|| context.into()),
    };
    FactBody::Prompt(prompt.into())
}

pub fn chunk(message: &str, text: &str) -> FactBody {
    FactBody::AgentText(AgentText { message_id: message.into(), text: text.into() })
}

pub fn input(sequence: u64) -> PendingInput {
    PendingInput {
        id: InputId::generate(),
        kind: InputKind::Permission,
        title: "Run ls".into(),
        options: Vec::new(),
        sequence,
        requested_at_ms: 5,
        item_seq: None,
        tool_call: Some("t1".into()),
        tool_kind: Some("execute".into()),
        command: Some("ls".into()),
        cwd: None,
        locations: Vec::new(),
        reason: None,
        form: None,
    }
}

/// The facts of an answered commit.
pub fn facts(entries: Vec<Committed>) -> Vec<Fact> {
    entries
        .into_iter()
        .filter_map(|entry| match entry {
            Committed::Fact(fact) => Some((*fact).clone()),
            Committed::Signal(_) => None,
        })
        .collect()
}

pub async fn stored(store: &Store, session: SessionId) -> Vec<Fact> {
    store.reader.facts(session, 0, Seq::MAX).await.unwrap()
}

pub fn is_conflict(error: &CommitError) -> bool {
    matches!(error, CommitError::Conflict { .. })
}
