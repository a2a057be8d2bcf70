//! A session with an agent that plays a script.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use signalbox_engine::{Limits, ProviderEntry};
use signalbox_facts::{Committed, FactBody, TurnEnded, TurnStatus};
use signalbox_testkit::recording::{HEARD, RECORDING, STARTS, Script};

use crate::stage::{Setup, Stage, Watched, example, fact, story};

/// What an agent says when it is asked whether all is well again; every script ends with [`well`].
const WELL: &str = "All is well.";

/// Ends a script with a turn as it should be.
pub fn well(script: Script) -> Script {
    script.turn(WELL)
}

pub struct Scene {
    pub stage: Stage,
    pub session: Watched,
    props: Props,
}

/// How a scene differs from others.
#[derive(Clone)]
pub struct Props {
    /// A known agent, for its habits; the script is played in its place.
    pub provider: &'static str,
    pub limits: Limits,
    pub change: fn(&mut ProviderEntry),
}

impl Default for Props {
    fn default() -> Self {
        Self { provider: "scripted", limits: Setup::default().limits, change: |_| {} }
    }
}

/// Waits that end soon, for agents that are silent.
pub fn short() -> Limits {
    let soon = Duration::from_millis(150);
    Limits { initialize: soon, session: soon, cancel: soon, ..Setup::default().limits }
}

fn setup(folder: &Path, props: &Props) -> Setup {
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let custom = || ProviderEntry::custom(props.provider, "Scripted", Vec::new());
    let mut entry = ProviderEntry::known(props.provider).unwrap_or_else(custom);
    entry.commands = vec![vec![example("recorded_agent")]];
    entry.needs.clear();
    entry.env = BTreeMap::from([
        (RECORDING.to_owned(), path("script")),
        (STARTS.to_owned(), path("starts")),
        (HEARD.to_owned(), path("agent-heard")),
    ]);
    (props.change)(&mut entry);
    Setup { agents: vec![entry], limits: props.limits.clone(), ..Setup::default() }
}

impl Scene {
    pub async fn new(script: Script) -> Self {
        Self::with(script, Props::default()).await
    }

    pub async fn with(script: Script, props: Props) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("script"), script.written()).unwrap();
        let setup = setup(folder.path(), &props);
        let stage = Stage::set_up(folder, setup).await;
        let id = stage.new_session(props.provider).await.unwrap();
        let session = stage.watch(id).await;
        Self { stage, session, props }
    }

    /// The server ends, with the agent, and another one goes on with the session.
    pub async fn restarts(self) -> Self {
        let Self { stage, session, props } = self;
        let id = session.id;
        drop(session);
        let folder = stage.close().await;
        let setup = setup(folder.path(), &props);
        let stage = Stage::set_up(folder, setup).await;
        let session = stage.watch(id).await;
        Self { stage, session, props }
    }

    /// Everything up to the end of a turn, and how it ended.
    pub async fn turn(&mut self, prompt: &str) -> (String, TurnEnded) {
        self.session.prompts(prompt).await;
        self.end().await
    }

    /// The rest of the turn that is open.
    pub async fn end(&mut self) -> (String, TurnEnded) {
        let seen = self.session.until_end().await;
        let Some(FactBody::TurnEnded(ended)) = seen.last().and_then(fact) else { panic!() };
        (story(&seen), (**ended).clone())
    }

    /// A turn that completes; gives its story.
    pub async fn completes(&mut self) -> String {
        let (story, ended) = self.turn("go").await;
        assert_eq!(ended.status, TurnStatus::Completed, "{story}");
        story
    }

    /// A turn that fails for this reason; gives its message.
    pub async fn fails(&mut self, reason: &str) -> String {
        let (story, ended) = self.turn("go").await;
        assert_eq!(ended.status, TurnStatus::Failed, "{story}");
        let failure = ended.failure.unwrap();
        assert_eq!(failure.reason, reason, "{failure:?}");
        failure.message
    }

    /// The session goes on: another prompt completes, and nothing odd is in its turn.
    pub async fn is_usable(&mut self) {
        let (story, ended) = self.turn("Is all well?").await;
        assert_eq!(ended.status, TurnStatus::Completed, "{story}");
        assert!(story.contains(&format!("says {WELL:?}")), "{story}");
        assert!(!story.contains("Unfinished"), "{story}");
    }

    /// The same, and it was by one process all the time.
    pub async fn goes_on(&mut self) {
        self.is_usable().await;
        assert_eq!(self.starts(), 1, "the agent was not started again");
    }

    /// The same, by a fresh process.
    pub async fn starts_afresh(&mut self) {
        self.is_usable().await;
        assert_eq!(self.starts(), 2, "the agent was started again");
    }

    pub fn starts(&self) -> usize {
        std::fs::read(self.stage.folder.path().join("starts")).map_or(0, |starts| starts.len())
    }

    /// What the agents have heard.
    pub fn heard(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.stage.folder.path().join("agent-heard")).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The methods of it; answers as `-`.
    pub fn methods(&self) -> Vec<String> {
        self.heard().iter().map(|message| message["method"].as_str().unwrap_or("-").to_owned()).collect()
    }

    /// Waits for something that is told, late or not.
    pub async fn hears(&mut self, fits: impl Fn(&FactBody) -> bool) -> Vec<Committed> {
        self.session.until(|committed| fact(committed).is_some_and(&fits)).await
    }
}
