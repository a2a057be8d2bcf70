//! Starts a scripted agent and waits for its events.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::time::Duration;

use signalbox_agents::{
    Agent, AgentEvent, AgentEvents, AgentFailure, AgentInfo, Environment, LaunchSpec, Limits, OpenSession,
    PromptBlock, PromptOutcome, PromptRequest, Quirks, Supervisor, Update, start,
};
use signalbox_facts::Provider;

use crate::fake::PART;

/// Long enough for any event on any machine; a test that reaches it has failed.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Rig {
    pub(crate) agent: Option<Agent>,
    pub(crate) events: AgentEvents,
    waiting: VecDeque<AgentEvent>,
    supervisor: Supervisor,
}

/// Limits of a test: long where nothing is waited for, short stop ladder.
pub(crate) fn limits() -> Limits {
    Limits { stop_grace: Duration::from_millis(300), ..Limits::default() }
}

pub(crate) fn spec(part: &str) -> LaunchSpec {
    let env: BTreeMap<_, _> =
        [(PART.to_owned(), part.to_owned()), ("PATH".to_owned(), std::env::var("PATH").unwrap())].into();
    let command = std::env::current_exe().unwrap();
    LaunchSpec {
        provider: Provider::new("fake"),
        command: command.to_str().unwrap().to_owned(),
        args: ["fake::plays_its_part", "--exact", "--nocapture"].map(str::to_owned).into(),
        env: Environment(env),
        cwd: std::env::temp_dir(),
        ask_modes: vec![],
        edit_modes: vec![],
        yolo_modes: vec![],
        protocol: 1,
        quirks: Quirks::NONE,
        install_hint: Some("install it".to_owned()),
        login_hint: None,
        downloads: false,
    }
}

pub(crate) fn open() -> OpenSession {
    OpenSession { cwd: PathBuf::from("/w"), ..OpenSession::default() }
}

pub(crate) fn prompt(text: &str) -> PromptRequest {
    PromptRequest { blocks: vec![PromptBlock::Text(text.to_owned())], ..PromptRequest::default() }
}

impl Rig {
    pub(crate) fn new(part: &str) -> Self {
        Self::with(spec(part), open(), limits())
    }

    pub(crate) fn with(spec: LaunchSpec, open: OpenSession, limits: Limits) -> Self {
        Self::under(Supervisor::default(), spec, open, limits)
    }

    pub(crate) fn under(supervisor: Supervisor, spec: LaunchSpec, open: OpenSession, limits: Limits) -> Self {
        let (agent, events) = start(spec, open, limits, &supervisor);
        Self { agent: Some(agent), events, waiting: VecDeque::new(), supervisor }
    }

    pub(crate) fn agent(&self) -> &Agent {
        self.agent.as_ref().unwrap()
    }

    /// The next event; `None` after the last one.
    pub(crate) async fn next(&mut self) -> Option<AgentEvent> {
        if self.waiting.is_empty() {
            let events =
                tokio::time::timeout(PATIENCE, self.events.recv()).await.expect("an event in time")?;
            self.waiting.extend(events);
        }
        self.waiting.pop_front()
    }

    /// The next event that is wanted, skipping others.
    pub(crate) async fn until<T>(&mut self, wanted: impl Fn(AgentEvent) -> Option<T>) -> T {
        loop {
            let event = self.next().await.expect("the stream has not ended");
            if let AgentEvent::StartFailed(failure) | AgentEvent::Exited(failure) = &event
                && wanted(event.clone()).is_none()
            {
                panic!("the agent ended: {failure:#?}");
            }
            if let Some(found) = wanted(event) {
                return found;
            }
        }
    }

    pub(crate) async fn ready(&mut self) -> AgentInfo {
        self.until(|event| match event {
            AgentEvent::Ready(info) => Some(*info),
            _ => None,
        })
        .await
    }

    pub(crate) async fn prompt_ended(&mut self) -> Result<PromptOutcome, Box<AgentFailure>> {
        self.until(|event| match event {
            AgentEvent::PromptEnded(outcome) => Some(outcome),
            _ => None,
        })
        .await
    }

    /// All text that comes before the prompt's end, and the end.
    pub(crate) async fn turn(&mut self) -> (String, Result<PromptOutcome, Box<AgentFailure>>) {
        let mut text = String::new();
        loop {
            match self.next().await.expect("the stream has not ended") {
                AgentEvent::Update(Update::Message(chunk)) => text.push_str(&chunk.text),
                AgentEvent::PromptEnded(outcome) => return (text, outcome),
                _ => {}
            }
        }
    }

    /// The last event, however the agent ends. Nothing comes after it, and the driver's task ends.
    pub(crate) async fn end(&mut self) -> AgentEvent {
        let mut last = self.next().await.expect("a last event");
        while let Some(event) = self.next().await {
            last = event;
        }
        tokio::time::timeout(PATIENCE, self.supervisor.finish()).await.expect("the task ends");
        last
    }

    pub(crate) async fn start_failure(&mut self) -> AgentFailure {
        match self.end().await {
            AgentEvent::StartFailed(failure) => *failure,
            other => panic!("{other:#?}"),
        }
    }

    pub(crate) async fn exit(&mut self) -> AgentFailure {
        match self.end().await {
            AgentEvent::Exited(failure) => *failure,
            other => panic!("{other:#?}"),
        }
    }
}
