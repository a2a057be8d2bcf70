//! An agent's own sessions: listed and deleted without opening one, opened with their history, closed before the agent stops.

use std::time::Duration;

use signalbox_agents::{
    Agent, AgentEvent, AgentEvents, AgentFailure, AgentInfo, FailureReason, LaunchSpec, Limits, OpenSession,
    Quirks, Supervisor, Update, Visit, dismiss_request,
};

use crate::fake::SESSION;
use crate::rig::{Rig, limits, open, prompt, spec};

fn brief() -> Limits {
    Limits { replay_quiet: Duration::from_millis(150), ..limits() }
}

async fn visit(part: &str) -> Result<Visit, Box<AgentFailure>> {
    Visit::begin(spec(part), brief(), &Supervisor::default()).await
}

fn wanted() -> OpenSession {
    OpenSession { resume: Some(SESSION.to_owned()), replay: true, ..open() }
}

/// What an agent tells again, in short, and how its session came about; then what follows.
async fn told(
    events: &mut AgentEvents,
) -> Result<(Vec<String>, AgentInfo, Vec<AgentEvent>), Box<AgentFailure>> {
    let mut told = Vec::new();
    while let Some(some) = events.recv().await {
        let mut some = some.into_iter();
        while let Some(event) = some.next() {
            match event {
                AgentEvent::Replayed(Update::UserMessage(chunk)) => told.push(format!("> {}", chunk.text)),
                AgentEvent::Replayed(Update::Message(chunk)) => told.push(chunk.text),
                AgentEvent::Replayed(Update::Tool(tool)) => {
                    told.push(format!("{} {:?} {:?}", tool.id, tool.status, tool.output));
                }
                AgentEvent::Replayed(Update::Plan(plan)) => {
                    told.push(format!("plan: {}", plan.entries[0].content));
                }
                AgentEvent::Replayed(Update::Title(title)) => told.push(format!("{title:?}")),
                AgentEvent::Ready(info) => return Ok((told, *info, some.collect())),
                AgentEvent::StartFailed(failure) => return Err(failure),
                other => panic!("{other:?}"),
            }
        }
    }
    panic!("the stream has ended: {told:?}")
}

async fn opened(part: &str) -> Result<(Agent, Rest, Vec<String>, AgentInfo), Box<AgentFailure>> {
    let (agent, mut events) = visit(part).await?.open(wanted())?;
    let (told, info, rest) = told(&mut events).await?;
    Ok((agent, Rest(rest, events), told, info))
}

/// Events that follow the opening, those that came with it first.
#[derive(Debug)]
struct Rest(Vec<AgentEvent>, AgentEvents);

impl Rest {
    async fn recv(&mut self) -> Vec<AgentEvent> {
        match std::mem::take(&mut self.0) {
            none if none.is_empty() => self.1.recv().await.unwrap(),
            some => some,
        }
    }
}

#[tokio::test]
async fn sessions_are_listed_page_by_page_and_deleted_without_opening_one() {
    let mut visit = visit("keeper-pages").await.unwrap();
    let info = visit.info();
    assert_eq!((&*info.name, info.version.as_deref()), ("keeper", Some("2")));
    assert!(info.can_list && info.can_load && info.can_delete && !info.can_close && !info.can_resume);
    let first = visit.list(Some("/w".into()), None).await.unwrap();
    let second = visit.list(None, first.next.clone()).await.unwrap();
    let ids: Vec<_> = first.sessions.iter().chain(&second.sessions).map(|session| &*session.id).collect();
    assert_eq!((ids, second.next), (vec!["a", "b"], None));
    assert_eq!(first.sessions[0].updated_at_ms, Some(1_796_061_357_673));
    // An error is told, and the agent is still there.
    let refused = visit.list(None, None).await.unwrap_err();
    assert_eq!((refused.reason, refused.code), (FailureReason::AgentFailed, Some(-32603)));
    assert_eq!(refused.message, "keeper answered session/list with an error: out of order");
    visit.delete("a".to_owned()).await.unwrap();
}

#[tokio::test]
async fn questions_that_nobody_is_there_for_are_dismissed() {
    let mut visit = visit("keeper-asks").await.unwrap();
    assert_eq!(visit.list(None, None).await.unwrap().sessions.len(), 1);
    let (agent, mut events) = visit.open(wanted()).unwrap();
    let mut asked = 0;
    'events: loop {
        for event in events.recv().await.unwrap() {
            dismiss_request(&agent, &event);
            asked += usize::from(matches!(event, AgentEvent::Elicitation { .. }));
            match event {
                AgentEvent::Ready(_) => break 'events,
                AgentEvent::StartFailed(failure) => panic!("{failure:?}"),
                _ => {}
            }
        }
    }
    assert_eq!(asked, 1);
}

#[tokio::test]
async fn an_agent_that_wants_a_login_first_says_how() {
    let refused = visit("keeper-wants-login").await.unwrap().list(None, None).await.unwrap_err();
    assert_eq!((refused.reason, refused.code), (FailureReason::AgentAuthRequired, Some(-32000)));
    assert_eq!(refused.methods[0].name, "API key");
}

#[tokio::test]
async fn an_agent_that_cannot_list_or_delete_is_not_asked() {
    let mut visit = visit("keeper-lists-nothing").await.unwrap();
    assert!(!visit.info().can_list && visit.info().can_load);
    let refused = visit.list(None, None).await.unwrap_err();
    assert_eq!(refused.message, "fake cannot list its sessions");
    assert_eq!(visit.delete("a".into()).await.unwrap_err().message, "fake cannot delete its sessions");
}

#[tokio::test]
async fn an_agent_that_dies_at_the_start_is_told_as_always() {
    let failure = visit("exits-at-once").await.unwrap_err();
    assert_eq!(failure.exit_status.as_deref(), Some("exit status: 3"));
    assert!(failure.stderr_tail.contains("no configuration found"));
}

#[tokio::test]
async fn a_history_that_is_wanted_is_told_before_the_session_is_ready_wherever_it_comes() {
    for part in ["keeper-replays-before", "keeper-replays-after"] {
        let (agent, mut events, told, info) = opened(part).await.unwrap();
        assert_eq!(
            told,
            [
                "> old question",
                "old answer",
                "t Some(Completed) Some(Replace(\"one two\"))",
                "> second question",
                "t Some(InProgress) None",
                "Some(\"The old one\")",
            ],
            "{part}"
        );
        assert!(info.replayed && info.resumed && !info.context_lost, "{part}");
        assert_eq!(info.acp_session_id, SESSION);
        // State is no history; and what the agent says now is live.
        agent.prompt(prompt("go on")).unwrap();
        let mut live = Vec::new();
        'turn: loop {
            for event in events.recv().await {
                match event {
                    AgentEvent::Update(Update::Message(chunk)) => live.push(chunk.text),
                    AgentEvent::Update(Update::Commands(commands)) => live.push(commands[0].name.clone()),
                    AgentEvent::Update(Update::ContextWindow(window)) => {
                        live.push(window.used_tokens.to_string());
                    }
                    AgentEvent::PromptEnded(outcome) => break 'turn assert!(outcome.is_ok()),
                    other => panic!("{part}: {other:?}"),
                }
            }
        }
        assert_eq!(live, ["10", "go", "new answer"], "{part}");
    }
}

#[tokio::test]
async fn a_history_that_comes_around_the_answer_is_one_and_told_as_its_agent_means_it() {
    let quirks =
        Quirks { plan_in_arguments: Some("todos"), added_to_prompts: Some("<note>"), ..Quirks::NONE };
    let spec = LaunchSpec { quirks, ..spec("keeper-replays-around") };
    let visit = Visit::begin(spec, brief(), &Supervisor::default()).await.unwrap();
    let (_agent, mut events) = visit.open(wanted()).unwrap();
    let (told, ..) = told(&mut events).await.unwrap();
    assert_eq!(told, ["> old question", "old answer", "p Some(Pending) None", "plan: Look"]);
}

#[tokio::test]
async fn where_sessions_can_only_be_resumed_there_is_no_history() {
    let (_, _, told, info) = opened("keeper-only-resumes").await.unwrap();
    assert!(told.is_empty() && info.resumed && !info.replayed);
}

#[tokio::test]
async fn a_history_that_cannot_be_had_is_a_failure_and_no_new_session() {
    let lost = opened("keeper-has-lost-it").await.unwrap_err();
    assert_eq!(lost.message, "keeper answered opening a session with an error: no such session");
    let cannot = opened("keeper-cannot-open").await.unwrap_err();
    assert_eq!(cannot.message, "keeper cannot open its earlier sessions");
    let died = opened("keeper-dies-in-replay").await.unwrap_err();
    assert_eq!(
        (died.reason, died.exit_status.as_deref()),
        (FailureReason::AgentFailed, Some("exit status: 9"))
    );
    assert!(died.stderr_tail.contains("out of memory"));
}

#[tokio::test]
async fn a_session_is_closed_before_its_agent_stops() {
    let mut rig = Rig::with(spec("closes"), open(), limits());
    rig.ready().await;
    rig.agent().stop();
    let said = rig
        .until(|event| match event {
            // Nothing was asked, so it is no answer.
            AgentEvent::Update(Update::Notice { title, .. }) => Some(title),
            _ => None,
        })
        .await;
    assert_eq!(said, "put away");
    assert_eq!(rig.exit().await.exit_status.as_deref(), Some("exit status: 0"));
}
