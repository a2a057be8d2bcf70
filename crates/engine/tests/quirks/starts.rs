//! Starts, versions, logins and modes.

use serde_json::json;
use signalbox_engine::{OpError, ProviderEntry};
use signalbox_protocol::ops::Op;
use signalbox_testkit::recording::Script;

use crate::scene::{Props, Scene, short, well};

/// The next process is as it should be.
fn then_well(script: Script) -> Script {
    well(script.starts_again().initialized(json!({})).opened(json!({})))
}

#[tokio::test]
async fn an_agent_that_never_answers_initialize_is_given_up() {
    let script = then_well(Script::new().asked("initialize"));
    let mut scene = Scene::with(script, Props { limits: short(), ..Props::default() }).await;
    let message = scene.fails("agent_timeout").await;
    assert!(message.contains("did not answer initialize within"), "{message}");
    scene.starts_afresh().await;
}

#[tokio::test]
async fn a_farewell_on_stdout_is_shown_as_what_it_is() {
    let script = then_well(Script::new().raw("This program has moved elsewhere.").exits(0));
    let mut scene = Scene::new(script).await;
    let (story, ended) = scene.turn("go").await;
    let failure = ended.failure.expect(&story);
    assert_eq!(failure.reason, "agent_failed");
    assert!(failure.message.contains("exited before its session was open"), "{failure:?}");
    assert_eq!(failure.data["stdoutTail"], "This program has moved elsewhere.");
    scene.starts_afresh().await;
}

#[tokio::test]
async fn a_session_that_is_never_opened_is_given_up() {
    let script = then_well(Script::new().initialized(json!({})).asked("session/new"));
    let mut scene = Scene::with(script, Props { limits: short(), ..Props::default() }).await;
    let message = scene.fails("agent_timeout").await;
    assert!(message.contains("did not open a session"), "{message}");
    scene.starts_afresh().await;
}

#[tokio::test]
async fn initialize_comes_first_and_the_session_before_the_prompt() {
    let mut scene = Scene::new(well(Script::open())).await;
    scene.goes_on().await;
    assert_eq!(scene.methods(), ["initialize", "session/new", "session/prompt"]);
}

#[tokio::test]
async fn versions_that_nobody_speaks_are_told() {
    for (answer, words) in [
        (json!({"protocolVersion": 99}), "version 99"),
        (json!({"protocolVersion": "2027-01-01"}), "version"),
    ] {
        let script = then_well(Script::new().asked("initialize").answers(answer).opened(json!({})).turn("?"));
        let mut scene = Scene::new(script).await;
        let (story, ended) = scene.turn("go").await;
        match ended.failure {
            Some(failure) => assert!(failure.message.contains(words), "{failure:?}"),
            // A version that is no number says nothing; the oldest is assumed, and that is said.
            None => assert!(story.contains("warning protocol_version"), "{story}"),
        }
    }
    let refusal = Script::new().asked("initialize").refuses(-32022, "Unsupported protocol version");
    let mut scene = Scene::new(then_well(refusal)).await;
    assert!(scene.fails("agent_failed").await.contains("Unsupported protocol version"));
    scene.starts_afresh().await;
}

#[tokio::test]
async fn a_login_that_is_missing_is_said_wherever_it_is_noticed() {
    let methods = json!([{"id": "key", "name": "API key"}]);
    let hello =
        || Script::new().asked("initialize").answers(json!({"protocolVersion": 1, "authMethods": methods}));
    let at_the_session = hello().asked("session/new").refuses(-32000, "Authentication required");
    let mut scene = Scene::new(then_well(at_the_session)).await;
    let (_, ended) = scene.turn("go").await;
    let failure = ended.failure.unwrap();
    assert_eq!((failure.reason.as_str(), failure.retryable), ("agent_auth_required", false));
    assert_eq!(failure.data["methods"][0]["id"], "key");
    scene.starts_afresh().await;

    let at_the_prompt = well(hello().opened(json!({})).prompted().refuses(-32000, "Your key has expired"));
    let mut scene = Scene::new(at_the_prompt).await;
    let message = scene.fails("agent_auth_required").await;
    assert!(message.contains("Your key has expired"), "{message}");
    scene.goes_on().await;

    for code in [-31002, -32603] {
        let script = well(Script::open().prompted().refuses(code, "401 Unauthorized"));
        let mut scene = Scene::new(script).await;
        assert!(scene.fails("agent_failed").await.contains("401 Unauthorized"));
        scene.goes_on().await;
    }
}

#[tokio::test]
async fn a_login_that_fails_is_a_login_that_is_missing() {
    let hello = json!({"protocolVersion": 1, "authMethods": [{"id": "cursor_login", "name": "Login"}]});
    let script =
        Script::new().asked("initialize").answers(hello).asked("authenticate").refuses(-32603, "offline");
    let mut scene = Scene::with(then_well(script), Props { provider: "cursor", ..Props::default() }).await;
    let message = scene.fails("agent_auth_required").await;
    assert!(message.contains("offline"), "{message}");
    scene.starts_afresh().await;
}

fn modes(current: &str) -> serde_json::Value {
    json!([{"id": "how", "name": "How", "category": "mode", "type": "select", "currentValue": current,
        "options": [{"value": "loose", "name": "Loose"}, {"value": "https://example.com/modes#ask", "name": "Ask"}]}])
}

fn asks_by_url(entry: &mut ProviderEntry) {
    entry.ask_modes = vec!["https://example.com/modes#ask".to_owned()];
}

#[tokio::test]
async fn the_mode_that_asks_is_set_before_the_first_prompt() {
    let script = Script::new().initialized(json!({})).opened(json!({"configOptions": modes("loose")}));
    let script = script
        .asked("session/set_config_option")
        .answers(json!({"configOptions": modes("https://example.com/modes#ask")}));
    let mut scene = Scene::with(well(script), Props { change: asks_by_url, ..Props::default() }).await;
    scene.goes_on().await;
    assert_eq!(scene.methods()[2..], ["session/set_config_option", "session/prompt"]);
    assert_eq!(scene.heard()[2]["params"]["configId"], "how");
    assert_eq!(scene.heard()[2]["params"]["value"], "https://example.com/modes#ask");
}

#[tokio::test]
async fn a_mode_that_cannot_be_set_is_warned_of() {
    let script = Script::new().initialized(json!({})).opened(json!({"configOptions": modes("loose")}));
    let script = script.asked("session/set_config_option").refuses(-32603, "not here");
    let mut scene = Scene::with(well(script), Props { change: asks_by_url, ..Props::default() }).await;
    let (story, _) = scene.turn("go").await;
    assert!(story.contains("warning mode_not_set"), "{story}");
}

#[tokio::test]
async fn a_model_that_is_refused_changes_nothing() {
    let models = json!({"currentModelId": "a[medium]", "availableModels": [
        {"modelId": "a[medium]", "name": "A"}, {"modelId": "$b|(c)", "name": "B"}]});
    let script = Script::new().initialized(json!({})).opened(json!({"models": models})).turn("Hello.");
    let script = script.asked("session/set_model").answers(json!({}));
    let script = script.asked("session/set_model").refuses(-32603, "Internal error");
    let mut scene = Scene::new(well(script)).await;
    scene.completes().await;
    let set = |value: &str| Op::SetConfigOption {
        session: scene.session.id.to_string(),
        config_id: "model".to_owned(),
        value: value.to_owned(),
    };
    // The one that it reports as current is not set at all, because some refuse just that.
    scene.session.submit(set("a[medium]")).await.unwrap();
    scene.session.submit(set("$b|(c)")).await.unwrap();
    let refused = scene.session.submit(set("a[medium]")).await.unwrap_err();
    let OpError::Agent { message, .. } = &refused else { panic!("{refused:?}") };
    assert!(message.contains("Internal error"), "{message}");
    scene.goes_on().await;
}
