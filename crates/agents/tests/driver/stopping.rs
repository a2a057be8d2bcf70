//! Stopping leaves nothing behind, whatever the agent does about it.

use signalbox_agents::{AgentEvent, FailureReason, LaunchSpec, SendError};

use crate::rig::{Rig, limits, open, prompt, spec};

/// Whether a process is there and no zombie.
pub(crate) fn lives(id: &str) -> bool {
    match std::fs::read_to_string(format!("/proc/{id}/stat")) {
        Ok(stat) => {
            // A process whose first thread has ended is not gone before the others are.
            let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_ascii_whitespace().collect();
            fields[0] != "Z" || fields[17].parse::<u32>().unwrap() > 1
        }
        Err(_) => false,
    }
}

async fn brood() -> (Rig, Vec<String>) {
    let mut rig = Rig::new("brood");
    rig.agent().prompt(prompt("go")).unwrap();
    let (text, _) = rig.turn().await;
    let ids: Vec<String> = text.split(' ').map(str::to_owned).collect();
    if cfg!(target_os = "linux") {
        assert!(ids.len() == 3 && ids.iter().all(|id| lives(id)), "{text}");
    }
    (rig, ids)
}

#[tokio::test]
async fn a_stop_ends_the_agent_its_group_and_what_left_the_group() {
    let (mut rig, ids) = brood().await;
    rig.agent().stop();
    let failure = rig.exit().await;
    assert_eq!(
        (failure.reason, failure.exit_status.as_deref()),
        (FailureReason::Stopped, Some("exit status: 0"))
    );
    assert_eq!(ids.iter().filter(|id| lives(id)).count(), 0);
    assert_eq!(rig.agent().prompt(prompt("more")), Err(SendError::Gone));
}

#[tokio::test]
async fn dropping_the_handle_stops_the_agent() {
    let (mut rig, ids) = brood().await;
    rig.agent = None;
    assert_eq!(rig.exit().await.reason, FailureReason::Stopped);
    assert_eq!(ids.iter().filter(|id| lives(id)).count(), 0);
}

#[tokio::test]
async fn an_agent_that_heeds_neither_the_end_of_input_nor_sigterm_is_killed() {
    let script = r#"trap '' TERM; read request; echo not-acp >&2; while :; do sleep 0.1; done"#;
    let spec = LaunchSpec { command: "sh".into(), args: vec!["-c".into(), script.into()], ..spec("") };
    let mut rig = Rig::with(spec, open(), limits());
    rig.agent().prompt(prompt("go")).unwrap();
    rig.agent().stop();
    let ended = rig.prompt_ended().await.unwrap_err();
    assert_eq!(ended.reason, FailureReason::Stopped);
    let failure = rig.start_failure().await;
    assert!(failure.exit_status.as_deref().unwrap().starts_with("signal: 9"), "{failure:?}");
}

#[tokio::test]
async fn a_stop_with_a_request_open_answers_it() {
    let mut rig = Rig::new("permission");
    rig.agent().prompt(prompt("go")).unwrap();
    rig.until(|event| matches!(event, AgentEvent::Permission { .. }).then_some(())).await;
    rig.agent().stop();
    // The scripted agent shows the answer it got and ends its turn, all before the end of its input.
    let (text, outcome) = rig.turn().await;
    assert!(text.contains(r#""outcome":"cancelled""#), "{text}");
    assert!(outcome.unwrap().cancel_requested);
    rig.exit().await;
}
