//! The stage of the engine's tests: an engine on a store of its own, real agent processes, and somebody who watches.

pub mod git;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use signalbox_engine::prompt::Sources;
use signalbox_engine::{
    Accepted, Attending, Catalog, EPHEMERAL_BYTES, Engine, EngineConfig, Limits, OpError, Origin,
    ProviderEntry, SessionStream, Unattended, base_environment,
};
use signalbox_facts::{
    ActivityState, Committed, Fact, FactBody, PendingInput, Provider, SessionId, SignalBody, TurnId,
};
use signalbox_protocol::ops::{DocBlock, NewSession, Op, PermissionMode, SandboxLevel, TurnInput};
use signalbox_store::{FailPoints, Store, StoreOptions};
use tempfile::TempDir;

/// Longest wait for anything; reached only when a test fails.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Stage {
    pub engine: Engine,
    pub store: Store,
    /// Trouble with the disk.
    pub fail: FailPoints,
    pub folder: TempDir,
    /// Somebody is there to answer; dropped, nobody is.
    pub attending: Option<Attending>,
    streams: Arc<Mutex<Vec<SessionStream>>>,
}

/// What a session committed from one load to its end.
pub struct Life {
    pub after: u64,
    pub seqs: Vec<u64>,
    pub closed: bool,
}

/// A session with somebody who reads all it commits.
pub struct Watched {
    pub id: SessionId,
    pub engine: Engine,
    stream: SessionStream,
    /// Read and not yet asked about.
    ahead: std::collections::VecDeque<Committed>,
}

/// How a stage differs from others.
pub struct Setup {
    pub unattended: Unattended,
    /// After this rest sessions leave memory.
    pub rest: Duration,
    pub ephemeral_bytes: u64,
    pub limits: Limits,
    /// More providers.
    pub agents: Vec<ProviderEntry>,
}

impl Default for Setup {
    fn default() -> Self {
        let limits = Limits {
            cancel: Duration::from_millis(300),
            stop_grace: Duration::from_millis(200),
            ..Limits::default()
        };
        Self {
            unattended: Unattended::Wait,
            rest: Duration::from_secs(1800),
            ephemeral_bytes: EPHEMERAL_BYTES,
            limits,
            agents: Vec::new(),
        }
    }
}

/// The path of an example of this crate.
pub fn example(name: &str) -> String {
    let test = std::env::current_exe().unwrap();
    let target = test.parent().unwrap().parent().unwrap();
    target.join("examples").join(name).to_str().unwrap().to_owned()
}

fn agent() -> String {
    example("scripted_agent")
}

/// An agent whose list of sessions has no end: after two pages it says the cursor of the first one again.
const REPEATS: &str = r#"read line
echo '{"id":1,"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true,"sessionCapabilities":{"list":{}}}}}'
n=1
while read line; do
  n=$((n+1))
  echo '{"id":'$n',"result":{"sessions":[{"sessionId":"s'$n'","cwd":"/"},{"sessionId":"same","cwd":"/"}],"nextCursor":"c'$((n%2))'"}}'
done"#;

fn shell(script: &str) -> Vec<String> {
    ["sh", "-c", script].map(str::to_owned).into()
}

impl Stage {
    pub async fn new() -> Self {
        Self::in_folder(tempfile::tempdir().unwrap()).await
    }

    pub async fn in_folder(folder: TempDir) -> Self {
        Self::set_up(folder, Setup::default()).await
    }

    /// The same with another rule for approvals that nobody is there to answer.
    pub async fn with(folder: TempDir, unattended: Unattended) -> Self {
        Self::set_up(folder, Setup { unattended, ..Setup::default() }).await
    }

    /// The same with another patience for agents that are asked for a copy of their conversation.
    pub async fn forking_within(limit: Duration) -> Self {
        let limits = Limits { fork: limit, ..Setup::default().limits };
        Self::set_up(tempfile::tempdir().unwrap(), Setup { limits, ..Setup::default() }).await
    }

    /// One whose ephemeral sessions have so little room.
    pub async fn cramped(ephemeral_bytes: u64) -> Self {
        Self::set_up(tempfile::tempdir().unwrap(), Setup { ephemeral_bytes, ..Setup::default() }).await
    }

    /// One whose sessions leave memory after this rest.
    pub async fn resting(rest: Duration) -> Self {
        Self::set_up(tempfile::tempdir().unwrap(), Setup { rest, ..Setup::default() }).await
    }

    /// One that differs from others as this says.
    pub async fn set_up(folder: TempDir, setup: Setup) -> Self {
        let streams: Arc<Mutex<Vec<SessionStream>>> = Arc::default();
        let loads = Arc::clone(&streams);
        let on_load = move |stream| loads.lock().push(stream);
        Self { streams, ..Self::build(folder, setup, Box::new(on_load)).await }
    }

    /// One whose sessions leave memory whenever they have nothing to do. What each life of a session commits is noted.
    pub async fn restless() -> (Self, Arc<Mutex<Vec<Arc<Mutex<Life>>>>>) {
        let lives: Arc<Mutex<Vec<Arc<Mutex<Life>>>>> = Arc::default();
        let noted = Arc::clone(&lives);
        let on_load = move |mut stream: SessionStream| {
            let life =
                Arc::new(Mutex::new(Life { after: stream.row.last_seq, seqs: Vec::new(), closed: false }));
            noted.lock().push(Arc::clone(&life));
            tokio::spawn(async move {
                while let Some(delivery) = stream.deliveries.recv().await {
                    let mut life = life.lock();
                    for committed in delivery.iter() {
                        assert!(!life.closed, "nothing comes after the end");
                        match committed {
                            Committed::Fact(fact) => life.seqs.push(fact.seq),
                            Committed::Signal(signal) => life.closed |= signal.body == SignalBody::Unloaded,
                        }
                    }
                }
            });
        };
        let setup = Setup { rest: Duration::ZERO, ..Setup::default() };
        (Self::build(tempfile::tempdir().unwrap(), setup, Box::new(on_load)).await, lives)
    }

    async fn build(folder: TempDir, setup: Setup, on_load: Box<dyn Fn(SessionStream) + Send + Sync>) -> Self {
        let fail = FailPoints::default();
        let options = StoreOptions { fail_points: fail.clone(), ..StoreOptions::default() };
        let store = Store::open_with(&folder.path().join("facts.db"), options).await.unwrap();
        let mut entry = ProviderEntry::custom("rehearsal", "Rehearsal", vec![agent()]);
        let state = folder.path().join("agent-memory").to_str().unwrap().to_owned();
        let heard = folder.path().join("heard").to_str().unwrap().to_owned();
        entry.env = BTreeMap::from([
            ("SIGNALBOX_REHEARSAL_STATE".to_owned(), state),
            ("SIGNALBOX_REHEARSAL_HEARD".to_owned(), heard),
        ]);
        let missing =
            ProviderEntry::custom("missing", "Missing", vec!["no-such-program-anywhere".to_owned()]);
        let mut leaves = ProviderEntry::custom("leaves", "Leaves at once", vec![agent()]);
        leaves.env = BTreeMap::from([("SIGNALBOX_REHEARSAL_START".to_owned(), "exit:7".to_owned())]);
        let odd = ["no-fork", "hang-fork", "fail-fork", "resume-only", "late-load", "no-list", "auth"];
        let odd = odd.map(|start| {
            let mut odd = ProviderEntry::custom(start, "Odd about sessions", vec![agent()]);
            odd.env.clone_from(&entry.env);
            odd.env.insert("SIGNALBOX_REHEARSAL_START".to_owned(), start.to_owned());
            odd
        });
        let mut hangs = ProviderEntry::custom("hangs", "Never opens", vec![agent()]);
        hangs.env = BTreeMap::from([("SIGNALBOX_REHEARSAL_START".to_owned(), "hang-new".to_owned())]);
        let mut never = ProviderEntry::custom("never-asks", "Never asks", vec![agent()]);
        never.mediated = false;
        let mut edits = ProviderEntry::custom("edits-unasked", "Edits unasked", vec![agent()]);
        edits.edits_unasked = true;
        let repeats = ProviderEntry::custom("repeats", "Repeats itself", shell(REPEATS));
        let path = BTreeMap::from([("PATH".to_owned(), std::env::var("PATH").unwrap())]);
        let config = EngineConfig {
            catalog: Catalog::new(
                [entry, missing, leaves, hangs, never, edits, repeats]
                    .into_iter()
                    .chain(odd)
                    .chain(setup.agents)
                    .collect(),
                Provider::new("rehearsal"),
                base_environment(),
                path,
            ),
            limits: setup.limits,
            agents: signalbox_engine::Supervisor::default(),
            blobs: Some(folder.path().join("blobs")),
            worktrees: folder.path().join("worktrees"),
            idle_agent: Duration::from_secs(600),
            idle_session: setup.rest,
            ephemeral_bytes: setup.ephemeral_bytes,
            unattended: setup.unattended,
            known: None,
            sources: Sources { user_home: Some(folder.path().join("user")), ..Sources::default() },
            on_load,
            now_ms: signalbox_engine::wall_clock_ms,
        };
        let engine = Engine::start(store.clone(), config).await.unwrap();
        let attending = Some(engine.attend(None));
        Self { engine, store, fail, folder, attending, streams: Arc::default() }
    }

    pub fn work(&self) -> PathBuf {
        let work = self.folder.path().join("work");
        std::fs::create_dir_all(&work).unwrap();
        work
    }

    pub async fn new_session(&self, provider: &str) -> Result<SessionId, OpError> {
        let new = NewSession::new(
            signalbox_protocol::ops::Provider::from_name(provider),
            self.work().to_str().unwrap(),
        );
        match self.engine.submit(Op::NewSession(new), Origin::default()).await? {
            Accepted::Created { session } => Ok(session),
            other => panic!("{other:?}"),
        }
    }

    pub async fn session(&self) -> Watched {
        let id = self.new_session("rehearsal").await.unwrap();
        self.watch(id).await
    }

    /// Loads a session if needed, and watches it.
    pub async fn watch(&self, id: SessionId) -> Watched {
        self.engine.load(id).await.unwrap();
        let mut streams = self.streams.lock();
        let place = streams.iter().position(|stream| stream.row.id == id).unwrap();
        let stream = streams.remove(place);
        Watched { id, engine: self.engine.clone(), stream, ahead: std::collections::VecDeque::new() }
    }

    /// The params of this method's requests among what agents have heard.
    pub fn heard_of(&self, method: &str) -> Vec<serde_json::Value> {
        let text = std::fs::read_to_string(self.folder.path().join("heard")).unwrap_or_default();
        let messages = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        messages.filter(|message| message["method"] == method).map(|mut one| one["params"].take()).collect()
    }

    /// Ends the server as a signal would, and starts another one on the same store.
    pub async fn restart(self) -> Self {
        Self::in_folder(self.close().await).await
    }

    /// Ends the server as a signal would, and hands its folder on.
    pub async fn close(self) -> TempDir {
        self.engine.shutdown().await;
        self.store.close().await;
        let Self { engine, store, folder, streams, .. } = self;
        drop((engine, store, streams));
        folder
    }
}

impl Watched {
    pub async fn submit(&self, op: Op) -> Result<Accepted, OpError> {
        let origin = Origin { client: Some("tester".to_owned()), ..Origin::default() };
        self.engine.submit(op, origin).await
    }

    pub fn input(&self, text: &str) -> TurnInput {
        TurnInput::new(
            self.id.to_string(),
            vec![DocBlock::Text { text: text.to_owned(), elements: Vec::new() }],
        )
    }

    pub async fn prompts(&self, script: &str) -> TurnId {
        match self.submit(Op::TurnInput(self.input(script))).await.unwrap() {
            Accepted::Started { turn } | Accepted::Steered { turn } => turn,
            other => panic!("{other:?}"),
        }
    }

    pub async fn policy(&self, mode: PermissionMode, sandbox: SandboxLevel) {
        let op = Op::SetExecutionPolicy { session: self.id.to_string(), mode, sandbox, request_id: None };
        assert_eq!(self.submit(op).await, Ok(Accepted::Applied));
    }

    pub async fn cancels(&self) -> Accepted {
        self.submit(Op::Cancel { session: self.id.to_string(), turn: None }).await.unwrap()
    }

    pub async fn answers(&self, input: &PendingInput, option: Option<&str>) -> Result<Accepted, OpError> {
        self.submit(Op::AnswerPermission {
            session: self.id.to_string(),
            request_id: input.id.to_string(),
            option_id: option.map(str::to_owned),
            for_session: false,
            message: None,
            decline: false,
        })
        .await
    }

    async fn next(&mut self) -> Committed {
        if let Some(committed) = self.ahead.pop_front() {
            return committed;
        }
        let delivery =
            tokio::time::timeout(PATIENCE, self.stream.deliveries.recv()).await.expect("nothing came");
        let delivery = delivery.expect("the session is in memory");
        self.ahead.extend(delivery.iter().cloned());
        self.ahead.pop_front().expect("a delivery is never empty")
    }

    /// Everything up to and with the first that fits.
    pub async fn until(&mut self, fits: impl Fn(&Committed) -> bool) -> Vec<Committed> {
        let mut seen = Vec::new();
        loop {
            let committed = self.next().await;
            let found = fits(&committed);
            seen.push(committed);
            if found {
                return seen;
            }
        }
    }

    /// Everything until the session has left memory.
    pub async fn until_unloaded(mut self) -> Vec<Committed> {
        let mut seen = self
            .until(|one| matches!(one, Committed::Signal(signal) if signal.body == SignalBody::Unloaded))
            .await;
        let rest = tokio::time::timeout(PATIENCE, self.stream.deliveries.recv()).await.expect("it ends");
        assert!(rest.is_none(), "nothing comes after the end: {rest:?}");
        seen.pop();
        seen
    }

    /// Reads until the session is deleted.
    pub async fn until_deleted(mut self) {
        self.until(|one| matches!(one, Committed::Signal(signal) if signal.body == SignalBody::Deleted))
            .await;
        let rest = tokio::time::timeout(PATIENCE, self.stream.deliveries.recv()).await.expect("it ends");
        assert!(rest.is_none(), "nothing comes after the end: {rest:?}");
    }

    /// Everything up to the end of the turn.
    pub async fn until_end(&mut self) -> Vec<Committed> {
        self.until(|committed| matches!(fact(committed), Some(FactBody::TurnEnded(_)))).await
    }

    /// The next approval that is asked for.
    pub async fn is_asked(&mut self) -> PendingInput {
        let seen =
            self.until(|committed| matches!(fact(committed), Some(FactBody::PermissionRequested(_)))).await;
        match seen.last().and_then(fact) {
            Some(FactBody::PermissionRequested(input)) => (**input).clone(),
            other => panic!("{other:?}"),
        }
    }

    /// Waits until the agent has answered something: whatever it was told to do before, it is at it by then.
    pub async fn agent_answers(&self) {
        let op = Op::SetConfigOption {
            session: self.id.to_string(),
            config_id: "mode".to_owned(),
            value: "ask".to_owned(),
        };
        assert_eq!(self.submit(op).await, Ok(Accepted::Applied));
    }

    /// Waits for a chunk of text that contains this.
    pub async fn hears(&mut self, text: &str) -> Vec<Committed> {
        self.until(|committed| matches!(fact(committed), Some(FactBody::AgentText(chunk)) if chunk.text.contains(text)))
            .await
    }
}

pub fn fact(committed: &Committed) -> Option<&FactBody> {
    match committed {
        Committed::Fact(fact) => Some(&fact.body),
        Committed::Signal(_) => None,
    }
}

/// A line for each, without what differs from run to run.
pub fn story(committed: &[Committed]) -> String {
    let mut lines = String::new();
    for one in committed {
        let line = match one {
            Committed::Fact(fact) => describe(fact),
            Committed::Signal(signal) => match &signal.body {
                SignalBody::Models { .. } | SignalBody::ConfigOptions(_) => continue,
                SignalBody::ContextWindow(window) => {
                    format!("context {}/{}", window.used_tokens, window.size_tokens)
                }
                other => format!("{other:?}"),
            },
        };
        if !line.is_empty() {
            writeln!(lines, "{line}").unwrap();
        }
    }
    lines
}

fn describe(fact: &Fact) -> String {
    match &fact.body {
        FactBody::Activity(activity) => {
            let state = match &activity.state {
                ActivityState::Idle => "idle".to_owned(),
                ActivityState::Running { .. } => "running".to_owned(),
                ActivityState::AwaitingInput { pending, .. } => format!("awaiting {}", pending.len()),
                ActivityState::Failed { reason, .. } => format!("failed {reason:?}"),
            };
            format!("{} {state}", activity.revision)
        }
        FactBody::Prompt(prompt) => {
            format!("prompt {:?}{}", prompt.display, if prompt.opens.is_none() { " continues" } else { "" })
        }
        FactBody::AgentText(text) => format!("says {:?}", text.text),
        FactBody::AgentThought(text) => format!("thinks {:?}", text.text),
        FactBody::ToolOutput(output) => format!("output {:?}", output.text),
        FactBody::ToolCall(call) => {
            let outcome = call.outcome.map(|outcome| format!(" {outcome:?}")).unwrap_or_default();
            let code = call.exit_code.map(|code| format!(" exit {code}")).unwrap_or_default();
            format!("{:?} {:?} {:?}{code}{outcome}", call.item, call.title, call.status)
        }
        FactBody::PermissionRequested(input) => format!("asks {:?}", input.title),
        FactBody::PermissionResolved(resolved) => {
            let rule = resolved.rule.as_ref().map(|rule| format!(" ({rule})")).unwrap_or_default();
            format!("resolved {:?} by {:?}{rule}", resolved.decision, resolved.by.kind)
        }
        FactBody::TurnEnded(ended) => {
            let why =
                ended.failure.as_ref().map(|failure| format!(" {}", failure.reason)).unwrap_or_default();
            format!("ended {:?} {}{why}", ended.status, ended.stop_reason.as_deref().unwrap_or("-"))
        }
        FactBody::TitleChanged(changed) => format!("title {:?} {:?}", changed.title, changed.origin),
        FactBody::PolicyChanged(changed) => {
            format!("policy {:?} {:?}", changed.policy.mode, changed.policy.sandbox)
        }
        FactBody::Warning(warning) => format!("warning {}", warning.reason),
        FactBody::TurnDiff(diff) => {
            let files = diff.diff.lines().filter(|line| line.starts_with("diff --git"));
            format!("diff of {} files{}", files.count(), if diff.partial { ", partial" } else { "" })
        }
        FactBody::AgentSession { .. } | FactBody::Usage(_) => String::new(),
        other => other.kind().to_owned(),
    }
}
