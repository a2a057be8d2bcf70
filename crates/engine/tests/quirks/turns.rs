//! How turns end: rejections, cancels, errors, nothing at all.

use serde_json::json;
use signalbox_engine::{Accepted, OpError};
use signalbox_facts::{FactBody, TurnStatus};
use signalbox_protocol::ops::{Op, TurnMode};
use signalbox_testkit::recording::Script;

use crate::scene::{Props, Scene, short, well};

fn call() -> serde_json::Value {
    json!({"toolCallId": "a", "title": "ls", "kind": "execute", "rawInput": {"command": "ls"}})
}

#[tokio::test]
async fn a_rejection_may_end_the_turn_or_not() {
    for (stop, only) in [("cancelled", true), ("end_turn", false)] {
        let mut options = vec![json!({"optionId": "yes", "name": "Yes", "kind": "allow_once"})];
        options.push(json!({"optionId": "abort", "name": "Abort", "kind": if only { "reject_always" } else { "reject_once" }}));
        let script = Script::open().prompted().asks_with(json!(0), call(), json!(options)).answered(json!(0));
        let mut scene = Scene::new(well(script.ends(stop))).await;
        scene.session.prompts("go").await;
        let input = scene.session.is_asked().await;
        scene.session.answers(&input, Some("abort")).await.unwrap();
        let (story, ended) = scene.end().await;
        assert!(story.contains("Failed Declined"), "{story}");
        assert_eq!(ended.stop_reason.as_deref(), Some(stop), "{story}");
        scene.goes_on().await;
    }
}

#[tokio::test]
async fn a_cancel_that_finds_the_end_is_an_interrupt() {
    // Whatever the agent answers: its own word for it, an ordinary end, an error for a request that was cancelled, or any other.
    for end in ["cancelled", "end_turn", "-32800", "-32603"] {
        let script = Script::open().prompted().text("One").told("session/cancel");
        let script = match end.parse() {
            Ok(code) => script.refuses(code, "Request cancelled"),
            Err(_) => script.ends(end),
        };
        let mut scene = Scene::new(well(script)).await;
        scene.session.prompts("go").await;
        scene.session.hears("One").await;
        scene.session.cancels().await;
        let (story, ended) = scene.end().await;
        assert_eq!(
            (ended.status, ended.stop_reason.as_deref()),
            (TurnStatus::Interrupted, Some("cancelled")),
            "{story}"
        );
        assert_eq!(ended.failure, None);
        scene.goes_on().await;
    }
}

#[tokio::test]
async fn a_second_end_of_a_cancelled_turn_is_no_end_of_the_next() {
    let script =
        Script::open().prompted().text("One").told("session/cancel").ends("cancelled").ends("end_turn");
    let mut scene = Scene::new(well(script)).await;
    scene.session.prompts("go").await;
    scene.session.hears("One").await;
    scene.session.cancels().await;
    assert_eq!(scene.end().await.1.status, TurnStatus::Interrupted);
    scene.goes_on().await;
}

#[tokio::test]
async fn an_agent_that_ignores_a_cancel_is_replaced() {
    let script = Script::open().prompted().text("One").told("session/cancel").text("Two");
    let script = well(script.starts_again().initialized(json!({})).opened(json!({})));
    let mut scene = Scene::with(script, Props { limits: short(), ..Props::default() }).await;
    scene.session.prompts("go").await;
    scene.session.hears("One").await;
    scene.session.cancels().await;
    let (story, ended) = scene.end().await;
    assert_eq!(ended.status, TurnStatus::Interrupted, "{story}");
    scene.starts_afresh().await;
}

#[tokio::test]
async fn a_cancel_with_a_request_open_answers_it_behind_the_cancel() {
    let script = Script::open().prompted().asks(json!(0), call()).told("session/cancel");
    // It takes its request back, too; there is one answer all the same. What it asks behind that is answered at once.
    let script = script
        .says(json!({"method": "$/cancel_request", "params": {"requestId": 0}}))
        .answered(json!(0))
        .asks(json!(1), call())
        .answered(json!(1))
        .ends("cancelled");
    let mut scene = Scene::new(well(script)).await;
    scene.session.prompts("go").await;
    scene.session.is_asked().await;
    scene.session.cancels().await;
    let (story, ended) = scene.end().await;
    assert_eq!(ended.status, TurnStatus::Interrupted, "{story}");
    assert!(story.contains("resolved Cancel by Interrupt"), "{story}");
    scene.goes_on().await;
    assert_eq!(scene.methods()[3..], ["session/cancel", "-", "-", "session/prompt"]);
    let heard = scene.heard();
    let outcomes: Vec<_> =
        heard.iter().filter_map(|one| one["result"]["outcome"]["outcome"].as_str()).collect();
    assert_eq!(outcomes, ["cancelled", "cancelled"]);
}

#[tokio::test]
async fn a_request_that_is_taken_back_is_asked_no_more() {
    let script = Script::open().prompted().asks(json!("p"), call());
    let script =
        script.says(json!({"method": "$/cancel_request", "params": {"requestId": "p"}})).answered(json!("p"));
    let mut scene = Scene::new(well(script.text("Never mind.").ends("end_turn"))).await;
    scene.session.prompts("go").await;
    let input = scene.session.is_asked().await;
    let (story, ended) = scene.end().await;
    assert_eq!(ended.status, TurnStatus::Completed, "{story}");
    assert_eq!(scene.session.answers(&input, Some("yes")).await.unwrap_err().reason(), "approval_resolved");
    scene.goes_on().await;
}

#[tokio::test]
async fn one_prompt_at_a_time_whatever_clients_do() {
    let script = Script::open().prompted().text("One").told("session/cancel").ends("cancelled").turn("Two");
    let mut scene = Scene::new(well(script)).await;
    let turn = scene.session.prompts("go").await;
    scene.session.hears("One").await;
    let mut second = scene.session.input("and this");
    second.mode = TurnMode::Start;
    assert_eq!(scene.session.submit(Op::TurnInput(second)).await, Err(OpError::TurnActive(turn)));
    scene.session.cancels().await;
    // Behind an interrupt: it waits for the agent's word, and no cancel can hit it.
    let next = scene.session.prompts("and this").await;
    assert_ne!(next, turn);
    assert_eq!(scene.end().await.1.status, TurnStatus::Interrupted);
    assert_eq!(scene.end().await.1.status, TurnStatus::Completed);
    scene.goes_on().await;
    assert_eq!(
        scene.methods()[2..],
        ["session/prompt", "session/cancel", "session/prompt", "session/prompt"]
    );
}

#[tokio::test]
async fn an_interrupt_of_nothing_is_nothing() {
    let mut scene = Scene::new(well(Script::open().turn("Hello."))).await;
    scene.completes().await;
    assert_eq!(scene.session.cancels().await, Accepted::Interrupting { turn: None });
    scene.goes_on().await;
    assert!(!scene.methods().contains(&"session/cancel".to_owned()));
}

#[tokio::test]
async fn a_prompt_with_nothing_in_it_never_gets_to_the_agent() {
    let mut scene = Scene::new(well(Script::open())).await;
    for text in ["", " \n"] {
        let input = scene.session.input(text);
        assert_eq!(scene.session.submit(Op::TurnInput(input)).await.unwrap_err().reason(), "invalid_params");
    }
    scene.goes_on().await;
}

#[tokio::test]
async fn a_turn_with_no_output_says_so() {
    let mut scene =
        Scene::new(well(Script::open().prompted().ends("end_turn").prompted().text("").ends("refusal")))
            .await;
    assert!(scene.completes().await.contains("warning no_output"));
    let (story, ended) = scene.turn("go").await;
    assert!(story.contains("warning no_output"), "{story}");
    assert_eq!(ended.stop_reason.as_deref(), Some("refusal"));
    scene.goes_on().await;
}

#[tokio::test]
async fn errors_of_the_model_are_told_in_its_words() {
    for code in [-32603, 400, 401, 500, -31002] {
        let script = Script::open().prompted().text("Let me").refuses(code, "the model is overloaded");
        let mut scene = Scene::new(well(script)).await;
        let (story, ended) = scene.turn("go").await;
        let failure = ended.failure.expect(&story);
        assert!(failure.message.contains("the model is overloaded"), "{failure:?}");
        assert_eq!(failure.data["code"], code);
        assert!(story.contains("says \"Let me\""), "what was said stays: {story}");
        scene.goes_on().await;
    }
    // An error that says nothing.
    let script = Script::open().prompted().says(json!({"id": 3, "error": "boom"}));
    let mut scene = Scene::new(well(script)).await;
    scene.fails("agent_failed").await;
    scene.goes_on().await;
}

#[tokio::test]
async fn an_agent_that_leaves_in_a_turn_is_started_again() {
    let script = Script::open().prompted().text("Half a").call("c", "execute", "in_progress").exits(0);
    let script = well(script.starts_again().initialized(json!({})).opened(json!({})));
    let mut scene = Scene::new(script).await;
    let (story, ended) = scene.turn("go").await;
    assert_eq!(ended.failure.unwrap().reason, "agent_failed");
    assert!(story.contains("says \"Half a\"") && story.contains("Failed AgentGone"), "{story}");
    scene.starts_afresh().await;
}

#[tokio::test]
async fn the_last_words_come_before_the_end_though_they_are_in_one_piece_with_it() {
    let script = Script::open().prompted().text("last").text(" words").ends("end_turn");
    let mut scene = Scene::new(well(script)).await;
    scene.session.prompts("go").await;
    let seen = scene.session.until_end().await;
    let texts: String = seen
        .iter()
        .filter_map(|one| match crate::stage::fact(one) {
            Some(FactBody::AgentText(chunk)) => Some(chunk.text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(texts, "last words");
    scene.goes_on().await;
}
