//! Opening a session: new, resumed, loaded with its replay muted, modes and models set.

use serde_json::json;
use signalbox_agents::{
    AgentEvent, FailureReason, LaunchSpec, OpenSession, Posture, RefusedSetting, Token, Update,
};
use signalbox_facts::ConfigValue;

use crate::fake::SESSION;
use crate::rig::{Rig, limits, open, prompt, spec};

fn resuming() -> OpenSession {
    OpenSession { resume: Some(SESSION.to_owned()), ..open() }
}

#[tokio::test]
async fn a_replay_is_muted_before_the_answer_and_after_it() {
    for part in ["replays-before", "replays-after"] {
        let mut rig = Rig::with(spec(part), resuming(), limits());
        rig.agent().prompt(prompt("go on")).unwrap();
        let info = rig.ready().await;
        assert!(info.resumed && !info.context_lost, "{part}");
        let mut told = Vec::new();
        loop {
            match rig.next().await.unwrap() {
                AgentEvent::PromptEnded(outcome) => break assert!(outcome.is_ok()),
                AgentEvent::Update(Update::Message(chunk)) => told.push(chunk.text),
                // State is no history: it is told.
                AgentEvent::Update(Update::Commands(commands)) => told.push(commands[0].name.clone()),
                other => panic!("{part}: {other:?}"),
            }
        }
        assert_eq!(told, ["go", "new answer"], "{part}");
    }
}

#[tokio::test]
async fn resume_is_preferred_to_load() {
    let mut rig = Rig::with(spec("resumes"), resuming(), limits());
    let info = rig.ready().await;
    assert!(info.resumed && info.can_load && info.can_resume);
    assert_eq!(info.acp_session_id, SESSION);
}

#[tokio::test]
async fn a_session_that_is_gone_begins_anew_and_says_so() {
    let mut rig = Rig::with(spec("forgot"), resuming(), limits());
    let info = rig.ready().await;
    assert!(!info.resumed && info.context_lost);
}

#[tokio::test]
async fn updates_before_the_session_is_known_come_after_ready() {
    let mut rig = Rig::new("early");
    rig.ready().await;
    let commands = rig
        .until(|event| match event {
            AgentEvent::Update(Update::Commands(commands)) => Some(commands),
            _ => None,
        })
        .await;
    assert_eq!(commands[0].hint.as_deref(), Some("where"));
}

#[tokio::test]
async fn the_asking_mode_and_the_model_are_set_before_the_session_is_ready() {
    let spec = LaunchSpec { ask_modes: vec!["no-such-mode".into(), "careful".into()], ..spec("modes") };
    let wanted = OpenSession { model: Some("large".into()), ..open() };
    let mut rig = Rig::with(spec, wanted, limits());
    let info = rig.ready().await;
    assert!(info.mode_in_force);
    assert_eq!((info.current_model.as_str(), info.models.len()), ("large", 2));
    assert_eq!(info.modes.unwrap().current, "careful");
    // Later ones are answered one by one, and the prompt waits for them.
    rig.agent().set_model(Token(1), "small").unwrap();
    rig.agent().set_option(Token(2), "m1", ConfigValue::Choice("auto".into())).unwrap();
    rig.agent().set_model(Token(3), "no-such-model").unwrap();
    rig.agent().prompt(prompt("go")).unwrap();
    let mut answers = Vec::new();
    let mut model = None;
    loop {
        match rig.next().await.unwrap() {
            AgentEvent::OptionSet { token, result } => answers.push((token.0, result)),
            AgentEvent::Update(Update::Models { current, .. }) => model = Some(current),
            AgentEvent::PromptEnded(outcome) => break assert!(outcome.is_ok()),
            _ => {}
        }
    }
    assert_eq!(
        answers,
        [
            (1, Ok(())),
            (2, Err(RefusedSetting::Refused("not now".into()))),
            (3, Err(RefusedSetting::NotOffered("no-such-model as Model, but small, large".into())))
        ]
    );
    assert_eq!(model.as_deref(), Some("small"));
}

#[tokio::test]
async fn modes_and_models_of_older_agents_are_options_too() {
    let spec = LaunchSpec { yolo_modes: vec!["yolo".into()], ..spec("old-modes") };
    let wanted =
        OpenSession { posture: Posture::Loose, options: [("model".to_owned(), json!("b"))].into(), ..open() };
    let mut rig = Rig::with(spec, wanted, limits());
    let info = rig.ready().await;
    let options: Vec<_> =
        info.options.iter().map(|option| (option.id.as_str(), option.current.clone())).collect();
    assert_eq!(
        options,
        [("mode", ConfigValue::Choice("yolo".into())), ("model", ConfigValue::Choice("b".into()))]
    );
    let mode = rig
        .until(|event| match event {
            AgentEvent::Update(Update::Modes(modes)) => Some(modes.current),
            _ => None,
        })
        .await;
    assert_eq!(mode, "default");
}

#[tokio::test]
async fn an_asking_mode_that_is_not_on_offer_is_a_warning() {
    let spec = LaunchSpec { ask_modes: vec!["ask".into()], ..spec("turn") };
    let mut rig = Rig::with(spec, open(), limits());
    assert!(!rig.ready().await.mode_in_force);
    let reason = rig
        .until(|event| match event {
            AgentEvent::Warning { reason, .. } => Some(reason),
            _ => None,
        })
        .await;
    assert_eq!(reason, "mode_not_set");
}

#[tokio::test]
async fn a_login_that_is_needed_is_told_with_its_methods() {
    let mut rig = Rig::new("wants-login");
    let failure = rig.start_failure().await;
    assert_eq!((failure.reason, failure.code), (FailureReason::AgentAuthRequired, Some(-32000)));
    assert_eq!(failure.methods[0].name, "API key");
}

#[tokio::test]
async fn another_protocol_version_is_refused_clearly() {
    let failure = Rig::new("speaks-two").start_failure().await;
    assert_eq!(failure.message, "fake answered with ACP version 2, and signalbox had offered version 1");
}
