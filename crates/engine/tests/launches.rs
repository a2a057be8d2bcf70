//! Sessions whose agent is started otherwise than their provider says: after each kind of restart, and in a fork.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    unreachable_pub,
    dead_code
)]

mod stage;

use std::collections::BTreeMap;
use std::path::Path;

use signalbox_engine::{Accepted, OpError, Origin};
use signalbox_facts::{FactBody, SessionId};
use signalbox_protocol::ops::{Launch, McpServer, NewSession, Op, Provider, SettingsPatch};
use stage::{Stage, Watched, example, fact, story};

const SECRET: &str = "a-value-that-is-nowhere-on-disk";

/// Notes how it was started, and becomes the agent.
fn wrapper(stage: &Stage) -> Launch {
    let notes = stage.folder.path().join("starts");
    let script =
        format!("echo \"$1 $PWD ${{KEY-none}}\" >> {}; exec {}", notes.display(), example("scripted_agent"));
    Launch {
        command: Some("sh".to_owned()),
        args: Some(["-c", &script, "sh", "mine"].map(str::to_owned).into()),
        env: BTreeMap::from([("KEY".to_owned(), SECRET.to_owned())]),
        cwd: Some("/".to_owned()),
        ..Launch::default()
    }
}

fn starts(folder: &Path) -> Vec<String> {
    let notes = std::fs::read_to_string(folder.join("starts")).unwrap_or_default();
    notes.lines().map(|line| line.replace(SECRET, "SECRET")).collect()
}

async fn created(stage: &Stage, provider: &str, launch: Launch) -> Result<SessionId, OpError> {
    let new = NewSession {
        launch: Some(launch.into()),
        ..NewSession::new(Provider::from_name(provider), stage.work().to_str().unwrap())
    };
    match stage.engine.submit(Op::NewSession(new), Origin::default()).await? {
        Accepted::Created { session } => Ok(session),
        other => panic!("{other:?}"),
    }
}

async fn turn(session: &mut Watched) -> String {
    session.prompts("say Done.").await;
    let seen = story(&session.until_end().await);
    assert!(seen.contains("ended Completed"), "{seen}");
    seen
}

/// Whether a text is in one of the database's files.
fn is_stored(folder: &Path, text: &str) -> bool {
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let database = files.filter(|path| path.to_str().is_some_and(|path| path.contains("facts.db")));
    database
        .map(|path| std::fs::read(path).unwrap())
        .any(|bytes| bytes.windows(text.len()).any(|part| part == text.as_bytes()))
}

#[tokio::test]
async fn the_same_program_is_started_again_and_lost_values_are_told() {
    let stage = Stage::new().await;
    let mut events = stage.engine.op_events();
    let id = created(&stage, "rehearsal", wrapper(&stage)).await.unwrap();
    assert!(!events.recv().await.unwrap().json().contains("launch"), "no event tells of it");
    let mut session = stage.watch(id).await;
    turn(&mut session).await;
    // The agent dies; the next prompt starts it again.
    session.prompts("crash 3").await;
    session.until_end().await;
    let seen = turn(&mut session).await;
    assert!(!seen.contains("launch_env_lost"), "{seen}");
    assert_eq!(starts(stage.folder.path()), ["mine / SECRET", "mine / SECRET"]);
    drop(session);

    let stage = stage.restart().await;
    assert!(is_stored(stage.folder.path(), "KEY") && !is_stored(stage.folder.path(), SECRET));
    let row = stage.store.reader.session(id).await.unwrap().unwrap();
    let launch = row.launch.unwrap();
    assert_eq!((launch.command.as_deref(), &*launch.env_names), (Some("sh"), &["KEY".to_owned()][..]));
    assert_eq!(stage.engine.lost_launch_values(id, &launch), ["KEY"]);
    let mut session = stage.watch(id).await;
    session.prompts("say Done.").await;
    let told = session.until_end().await;
    let warned = told.iter().filter_map(fact).find_map(|body| match body {
        FactBody::Warning(warning) if warning.reason == "launch_env_lost" => Some(warning.message.clone()),
        _ => None,
    });
    let warned = warned.unwrap();
    assert!(
        warned.contains("without KEY:") && warned.contains("thread/resume with `launch.env`"),
        "{warned}"
    );
    assert_eq!(starts(stage.folder.path())[2], "mine / none");

    // Given again, it is there at the next start.
    let again = Launch { env: wrapper(&stage).env, ..Launch::default() };
    assert!(stage.engine.give_launch_values(id, Some(&launch), again).is_empty());
    assert!(stage.engine.lost_launch_values(id, &launch).is_empty());
    session.prompts("crash 3").await;
    session.until_end().await;
    let seen = turn(&mut session).await;
    assert!(!seen.contains("launch_env_lost"), "{seen}");
    assert_eq!(starts(stage.folder.path())[3], "mine / SECRET");
}

#[tokio::test]
async fn a_fork_starts_what_its_source_starts() {
    let stage = Stage::new().await;
    let id = created(&stage, "rehearsal", wrapper(&stage)).await.unwrap();
    let mut session = stage.watch(id).await;
    turn(&mut session).await;
    let fork = async |provider: Option<&str>| {
        let op = Op::Fork {
            session: id.to_string(),
            through_turn: None,
            settings: SettingsPatch::default(),
            provider: provider.map(Provider::from_name),
            ephemeral: false,
            base_instructions: None,
            developer_instructions: None,
            source: None,
            request_id: None,
        };
        match session.submit(op).await.unwrap() {
            Accepted::Forked { session, .. } => session,
            other => panic!("{other:?}"),
        }
    };
    let same = fork(None).await;
    let mut same = stage.watch(same).await;
    turn(&mut same).await;
    assert_eq!(starts(stage.folder.path()), ["mine / SECRET", "mine / SECRET"]);
    // The program of one provider is none of another's.
    let other = fork(Some("no-fork")).await;
    assert_eq!(stage.store.reader.session(other).await.unwrap().unwrap().launch, None);
    let mut other = stage.watch(other).await;
    turn(&mut other).await;
    assert_eq!(starts(stage.folder.path()).len(), 2);
}

#[tokio::test]
async fn an_ephemeral_session_and_a_provider_without_its_program_can_have_a_launch() {
    let stage = Stage::new().await;
    let new = NewSession {
        launch: Some(wrapper(&stage).into()),
        ephemeral: true,
        ..NewSession::new(Provider::from_name("missing"), stage.work().to_str().unwrap())
    };
    let made = stage.engine.submit(Op::NewSession(new), Origin::default()).await.unwrap();
    let Accepted::Created { session } = made else { panic!("{made:?}") };
    turn(&mut stage.watch(session).await).await;
    assert_eq!(starts(stage.folder.path()), ["mine / SECRET"]);
}

#[tokio::test]
async fn what_cannot_be_started_makes_no_session() {
    let stage = Stage::new().await;
    let command = |command: &str| Launch { command: Some(command.to_owned()), ..Launch::default() };
    let refused = created(&stage, "rehearsal", command("no-such-program-anywhere")).await.unwrap_err();
    assert_eq!(refused.reason(), "provider_unavailable");
    assert!(refused.to_string().contains("no-such-program-anywhere"), "{refused}");
    let refused = created(&stage, "rehearsal", command("")).await.unwrap_err();
    assert_eq!((refused.reason(), &refused.data()["path"]), ("invalid_params", &"launch.command".into()));
    let relative = Launch { cwd: Some("work".to_owned()), ..Launch::default() };
    let refused = created(&stage, "rehearsal", relative).await.unwrap_err();
    assert_eq!((refused.reason(), &refused.data()["path"]), ("invalid_params", &"launch.cwd".into()));
}

#[tokio::test]
async fn a_session_has_mcp_servers_of_its_own() {
    let stage = Stage::new().await;
    let server = McpServer {
        command: Some("sh".to_owned()),
        env: BTreeMap::from([("TOKEN".to_owned(), SECRET.to_owned())]),
        ..McpServer::default()
    };
    let launch = Launch { mcp_servers: BTreeMap::from([("own".to_owned(), server)]), ..Launch::default() };
    let id = created(&stage, "rehearsal", launch).await.unwrap();
    turn(&mut stage.watch(id).await).await;
    let opened = stage.heard_of("session/new").remove(0);
    let told = &opened["mcpServers"][0];
    assert_eq!((&told["name"], &told["env"][0]["value"]), (&"own".into(), &SECRET.into()), "{opened}");

    let stage = stage.restart().await;
    assert!(is_stored(stage.folder.path(), "TOKEN") && !is_stored(stage.folder.path(), SECRET));
    let seen = turn(&mut stage.watch(id).await).await;
    assert!(seen.contains("mcp_server_left_out"), "{seen}");
}
