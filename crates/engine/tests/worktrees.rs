//! Sessions in a worktree of their own: how they are made, or refused without a trace, and what their prompts look at.
//!
//! What git itself must get right is tested in the crate `workspace`; here is what the core makes of it. No scripts of a
//! repository are run in a new checkout, so the scenarios about such hooks have no test.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    unreachable_pub,
    dead_code
)]

mod stage;

use std::fs;
use std::path::{Path, PathBuf};

use signalbox_engine::{Accepted, OpError, Origin, convert, project};
use signalbox_facts::{FactBody, SessionId, SessionRow};
use signalbox_protocol::ops::{
    BaselineKind, Event, NewSession, Op, PermissionMode, Provider, SandboxLevel, SettingsPatch,
};
use signalbox_store::FailPoint;
use stage::git::{
    self, beside, cause, commit, create, git, head, registry, row, session, short, wish, with_repository,
    write,
};
use stage::{Stage, Watched, story};

/// That a refusal left nothing behind: not in git, not on disk, not in the store.
struct Nothing {
    registry: String,
    beside: Vec<PathBuf>,
}

impl Nothing {
    fn yet(repo: &Path) -> Self {
        Self { registry: registry(repo), beside: beside(repo) }
    }

    async fn was_made(&self, stage: &Stage, repo: &Path) {
        assert_eq!(registry(repo), self.registry);
        assert_eq!(beside(repo), self.beside);
        assert_eq!(stage.engine.loaded(), []);
        let listed = stage.store.reader.sessions(&signalbox_store::SessionQuery::default()).await.unwrap();
        assert!(listed.sessions.is_empty());
    }
}

// ---- making one ----

#[tokio::test]
async fn a_session_works_in_a_checkout_of_its_own_and_says_where_that_is_and_what_from() {
    let (stage, repo) = with_repository().await;
    write(&repo, "README.md", "# Not committed\n");
    write(&repo, "notes.txt", "untracked\n");
    let id = create(&stage, NewSession { request_id: Some("mine".into()), ..wish(&repo) }).await.unwrap();
    let mut session = stage.watch(id).await;
    let seen = session.until(|_| true).await;
    let Some(Event::SessionCreated {
        session: of,
        cwd,
        project_path,
        worktree_path,
        worktree_baseline,
        request_id,
        ..
    }) = project::event(&seen[0])
    else {
        panic!("{seen:?}")
    };
    let checkout = repo.with_file_name(".signalbox-worktrees").join(format!("work-{}", short(id)));
    assert_eq!((of, request_id.as_deref()), (id.to_string(), Some("mine")));
    assert_eq!(worktree_path.as_deref(), checkout.to_str());
    assert_eq!((cwd.as_str(), project_path.as_deref()), (checkout.to_str().unwrap(), repo.to_str()));
    let baseline = worktree_baseline.unwrap();
    assert_eq!((baseline.kind, baseline.reference.as_str()), (BaselineKind::Current, "main"));
    assert_eq!(
        (baseline.sha.as_str(), baseline.display.as_str()),
        (head(&repo).as_str(), format!("main @ {}", &head(&repo)[..8]).as_str())
    );
    let snapshot = convert::snapshot_out(&row(&stage, id).await);
    assert_eq!((snapshot.worktree_path, snapshot.worktree_baseline), (worktree_path, Some(baseline)));
    assert_eq!((snapshot.project_path, snapshot.worktree_discarded), (project_path, false));

    // Uncommitted edits are not part of the baseline, and what the agent does stays in the checkout.
    assert_eq!(fs::read_to_string(checkout.join("README.md")).unwrap(), "# Hello\n");
    assert!(!checkout.join("notes.txt").exists());
    session.policy(PermissionMode::Yolo, SandboxLevel::WorkspaceWrite).await;
    session.prompts("write made.txt <<END\nby the agent\nEND\nrun pwd > where").await;
    let seen = story(&session.until_end().await);
    assert!(seen.contains("diff of 2 files\n"), "{seen}");
    assert_eq!(fs::read_to_string(checkout.join("where")).unwrap().trim(), checkout.to_str().unwrap());
    assert!(checkout.join("made.txt").exists() && !repo.join("made.txt").exists());
    assert_eq!(git(&checkout, &["branch", "--show-current"]), format!("signalbox/{}", short(id)));
}

#[tokio::test]
async fn without_a_worktree_what_is_said_of_one_is_ignored() {
    let (stage, repo) = with_repository().await;
    let new = NewSession {
        use_worktree: false,
        worktree_base: Some(BaselineKind::OriginDefault),
        worktree_base_sha: Some("nonsense".into()),
        ..wish(&repo)
    };
    let before = registry(&repo);
    let id = create(&stage, new).await.unwrap();
    let seen = stage.watch(id).await.until(|_| true).await;
    let event = serde_json::to_value(project::event(&seen[0])).unwrap();
    assert!(event.get("worktree_path").is_none() && event.get("worktree_baseline").is_none(), "{event}");
    assert_eq!((event["cwd"].as_str(), event["project_path"].as_str()), (repo.to_str(), repo.to_str()));
    assert_eq!(registry(&repo), before);
}

#[tokio::test]
async fn the_default_branch_of_origin_is_taken_as_it_is_known_here() {
    let (stage, repo) = with_repository().await;
    let older = head(&repo);
    commit(&repo, "ahead");
    // Nobody could fetch from there, and nobody tries to.
    git(&repo, &["remote", "add", "origin", "https://127.0.0.1:9/nowhere.git"]);
    git(&repo, &["update-ref", "refs/remotes/origin/trunk", &older]);
    git(&repo, &["symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/trunk"]);
    let new = NewSession {
        worktree_base: Some(BaselineKind::OriginDefault),
        worktree_base_sha: Some(older.clone()),
        ..wish(&repo)
    };
    let id = create(&stage, new).await.unwrap();
    let worktree = row(&stage, id).await.worktree.unwrap();
    assert_eq!(worktree.baseline.reference, "refs/remotes/origin/trunk");
    assert!(worktree.baseline.display.starts_with("origin/trunk @ "));
    assert_eq!((&worktree.baseline.sha, head(&worktree.path)), (&older, older.clone()));
}

#[tokio::test]
async fn a_missing_or_dangling_origin_is_refused_with_its_reason_and_nothing_else_is_taken() {
    let (stage, repo) = with_repository().await;
    let nothing = Nothing::yet(&repo);
    let new = NewSession { worktree_base: Some(BaselineKind::OriginDefault), ..wish(&repo) };
    let missing = create(&stage, new.clone()).await.unwrap_err();
    assert_eq!(
        (missing.reason(), cause(&missing).as_str()),
        ("worktree_unavailable", "baseline_unavailable")
    );
    assert!(missing.to_string().contains("refs/remotes/origin/HEAD does not exist"), "{missing}");
    git(&repo, &["symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/gone"]);
    let dangling = create(&stage, new).await.unwrap_err();
    assert!(dangling.to_string().contains("refs/remotes/origin/gone, which does not exist"), "{dangling}");
    nothing.was_made(&stage, &repo).await;

    // A picker is told the same.
    let choices = stage.engine.baselines(repo.to_str().unwrap()).await.unwrap();
    assert_eq!(choices[0].resolved.as_ref().unwrap().sha, head(&repo));
    let why = choices[1].resolved.as_ref().unwrap_err();
    assert!(dangling.to_string().ends_with(why.as_str()), "{why}");
}

#[tokio::test]
async fn a_baseline_that_moved_since_it_was_shown_is_refused() {
    let (stage, repo) = with_repository().await;
    let shown = head(&repo);
    let now = commit(&repo, "moved on");
    let nothing = Nothing::yet(&repo);
    let new = NewSession { worktree_base_sha: Some(shown.clone()), ..wish(&repo) };
    let mut events = stage.engine.op_events();
    let correlated = NewSession { request_id: Some("stale".into()), ..new.clone() };
    stage.engine.dispatch_op(Op::NewSession(correlated), Origin::default()).await;
    let told = events.recv().await.unwrap();
    let Event::Error { session: None, terminal: true, request_id, reason, .. } = &told.event else {
        panic!("{told:?}")
    };
    assert_eq!((request_id.as_deref(), reason.as_deref()), (Some("stale"), Some("worktree_moved")));
    let moved = create(&stage, new).await.unwrap_err();
    assert_eq!((moved.reason(), moved.retryable()), ("worktree_moved", false));
    assert_eq!((&moved.data()["expected"], &moved.data()["found"]), (&shown.into(), &now.clone().into()));
    // An abbreviation is not what was shown.
    let new = NewSession { worktree_base_sha: Some(now[..12].to_owned()), ..wish(&repo) };
    assert_eq!(create(&stage, new).await.unwrap_err().reason(), "worktree_moved");
    nothing.was_made(&stage, &repo).await;
}

#[tokio::test]
async fn a_detached_head_and_a_selected_directory_are_kept() {
    let (stage, repo) = with_repository().await;
    git(&repo, &["checkout", "-q", "--detach"]);
    let selected = repo.join("packages/app");
    let id = create(&stage, wish(&selected)).await.unwrap();
    let row = row(&stage, id).await;
    let worktree = row.worktree.unwrap();
    assert_eq!(worktree.baseline.reference, "HEAD");
    assert_eq!((row.cwd, row.project_path), (worktree.path.join("packages/app"), selected));
}

#[tokio::test]
async fn a_directory_that_no_commit_has_is_refused_and_everything_taken_back() {
    let (stage, repo) = with_repository().await;
    write(&repo, "scratch/only.txt", "untracked\n");
    let nothing = Nothing::yet(&repo);
    let refused = create(&stage, wish(&repo.join("scratch"))).await.unwrap_err();
    assert_eq!(
        (refused.reason(), cause(&refused).as_str()),
        ("worktree_unavailable", "directory_not_in_commit")
    );
    assert!(refused.to_string().contains("scratch"), "{refused}");
    nothing.was_made(&stage, &repo).await;
}

#[tokio::test]
async fn outside_git_and_on_an_unborn_branch_there_is_none() {
    let stage = Stage::new().await;
    let plain = stage.folder.path().join("plain");
    fs::create_dir(&plain).unwrap();
    let refused = create(&stage, wish(&plain)).await.unwrap_err();
    assert_eq!((refused.reason(), cause(&refused).as_str()), ("worktree_unavailable", "not_a_repository"));
    let unborn = stage.folder.path().join("unborn");
    git::init(&unborn);
    let nothing = Nothing::yet(&unborn);
    let refused = create(&stage, wish(&unborn)).await.unwrap_err();
    assert_eq!(cause(&refused), "baseline_unavailable");
    assert!(refused.to_string().contains("no commits yet"), "{refused}");
    nothing.was_made(&stage, &unborn).await;
    let choices = stage.engine.baselines(plain.to_str().unwrap()).await.unwrap();
    assert!(choices.iter().all(|choice| choice.resolved.is_err()));
    let missing = stage.engine.baselines("/no/such/directory").await.unwrap_err();
    assert_eq!(missing.reason(), "invalid_params");
}

#[tokio::test]
async fn bare_and_linked_repositories_are_sources() {
    let (stage, repo) = with_repository().await;
    let bare = stage.folder.path().canonicalize().unwrap().join("bare.git");
    git(&repo, &["clone", "-q", "--bare", ".", bare.to_str().unwrap()]);
    let id = create(&stage, wish(&bare)).await.unwrap();
    let of_bare = row(&stage, id).await;
    assert_eq!((of_bare.project_path, &of_bare.cwd), (bare, &of_bare.worktree.unwrap().path));

    let linked = stage.folder.path().canonicalize().unwrap().join("linked");
    git(&repo, &["worktree", "add", "-q", "-b", "side", linked.to_str().unwrap()]);
    let sha = commit(&linked, "on the side");
    let (mut session, checkout) = session(&stage, &linked).await;
    assert_eq!(head(&checkout), sha);
    // The linked worktree that it was made from may go.
    git(&repo, &["worktree", "remove", linked.to_str().unwrap()]);
    session.prompts("say Still here.").await;
    assert!(story(&session.until_end().await).ends_with("ended Completed end_turn\n"));
}

#[tokio::test]
async fn whatever_is_in_the_way_is_left_alone() {
    let (stage, repo) = with_repository().await;
    let id = SessionId::generate();
    let container = repo.with_file_name(".signalbox-worktrees");
    fs::create_dir(&container).unwrap();
    let target = container.join(format!("work-{}", short(id)));
    std::os::unix::fs::symlink("/nonexistent/place", &target).unwrap();
    let nothing = Nothing::yet(&repo);
    let refused =
        stage.engine.submit_as(Op::NewSession(wish(&repo)), Origin::default(), Some(id)).await.unwrap_err();
    assert_eq!((refused.reason(), cause(&refused).as_str()), ("worktree_unavailable", "worktree_exists"));
    assert_eq!(fs::read_link(&target).unwrap(), Path::new("/nonexistent/place"));
    nothing.was_made(&stage, &repo).await;
}

#[tokio::test]
async fn a_provider_that_cannot_start_is_noticed_before_anything_is_made() {
    let (stage, repo) = with_repository().await;
    let nothing = Nothing::yet(&repo);
    let new = NewSession { provider: Provider::from_name("missing"), ..wish(&repo) };
    assert_eq!(create(&stage, new).await.unwrap_err().reason(), "provider_unavailable");
    let new = NewSession { ephemeral: true, ..wish(&repo) };
    assert_eq!(create(&stage, new).await.unwrap_err().reason(), "invalid_params");
    nothing.was_made(&stage, &repo).await;
}

#[tokio::test]
async fn what_a_checkout_lacks_is_told_behind_its_creation() {
    let (stage, repo) = with_repository().await;
    write(&repo, ".gitattributes", "*.bin filter=lfs\n");
    commit(&repo, "large files");
    let id = create(&stage, NewSession { request_id: Some("mine".into()), ..wish(&repo) }).await.unwrap();
    let seen =
        stage.watch(id).await.until(|one| story(std::slice::from_ref(one)).starts_with("warning")).await;
    assert_eq!(story(&seen), "session_created\nwarning worktree_lfs\n");
    let Some(Event::Error { session, message, terminal, request_id, .. }) = project::event(&seen[1]) else {
        panic!("{seen:?}")
    };
    assert_eq!((session, terminal, request_id), (Some(id.to_string()), false, None));
    assert!(message.starts_with("Files kept by Git LFS"), "{message}");
}

#[tokio::test]
async fn many_at_once_do_not_disturb_each_other() {
    let (stage, repo) = with_repository().await;
    let all = futures_util::future::join_all((0..12).map(|_| create(&stage, wish(&repo)))).await;
    for made in all {
        let worktree = row(&stage, made.unwrap()).await.worktree.unwrap();
        assert_eq!(git(&worktree.path, &["status", "--porcelain"]), "");
        assert_eq!(git(&worktree.path, &["branch", "--show-current"]), worktree.branch);
    }
    assert_eq!(git(&repo, &["worktree", "list"]).lines().count(), 13);
}

// ---- trouble with the store ----

#[tokio::test]
async fn a_session_that_cannot_be_stored_takes_its_checkout_back() {
    let (stage, repo) = with_repository().await;
    let nothing = Nothing::yet(&repo);
    stage.fail.fail(FailPoint::InSavepoint, 0, 2);
    let refused = create(&stage, wish(&repo)).await.unwrap_err();
    assert_eq!((refused.reason(), refused.retryable()), ("storage_failed", true));
    nothing.was_made(&stage, &repo).await;
    create(&stage, wish(&repo)).await.unwrap();
}

#[tokio::test]
async fn a_session_that_is_stored_keeps_its_checkout_though_the_disk_is_slow_to_confirm() {
    let (stage, repo) = with_repository().await;
    stage.fail.fail(FailPoint::BeforeFlush, 0, 2);
    let (mut session, checkout) = session(&stage, &repo).await;
    assert_eq!(git(&checkout, &["status", "--porcelain"]), "");
    session.prompts("say Here.").await;
    assert!(story(&session.until_end().await).ends_with("ended Completed end_turn\n"));
}

#[tokio::test]
async fn nobody_waiting_for_it_leaves_no_orphan() {
    let (stage, repo) = with_repository().await;
    let id = SessionId::generate();
    let held = stage.fail.hold(FailPoint::BeforeCommit);
    {
        let submit = stage.engine.submit_as(Op::NewSession(wish(&repo)), Origin::default(), Some(id));
        tokio::select! {
            decided = submit => panic!("{decided:?}"),
            () = held.reached() => {}
        }
    }
    drop(held);
    // The stop waits for what was begun.
    stage.engine.shutdown().await;
    let worktree = row(&stage, id).await.worktree.unwrap();
    assert_eq!(git(&worktree.path, &["branch", "--show-current"]), worktree.branch);
}

#[tokio::test]
async fn a_stop_in_the_middle_leaves_session_and_checkout_or_neither() {
    let (stage, repo) = with_repository().await;
    let engine = stage.engine.clone();
    let creating = (0..6).map(|_| create(&stage, wish(&repo)));
    let (made, ()) = tokio::join!(futures_util::future::join_all(creating), async {
        tokio::task::yield_now().await;
        engine.shutdown().await;
    });
    let stored = made.iter().filter(|made| made.is_ok()).count();
    let checkouts = git(&repo, &["worktree", "list"]).lines().count() - 1;
    assert_eq!(checkouts, stored, "{made:?}");
    assert!(
        made.iter().flat_map(|made| made.as_ref().err()).all(|error| *error == OpError::ShuttingDown),
        "{made:?}"
    );
}

// ---- each prompt looks again ----

#[tokio::test]
async fn a_checkout_that_was_replaced_takes_no_prompt() {
    let (stage, repo) = with_repository().await;
    let (mut session, checkout) = session(&stage, &repo).await;
    session.prompts("say First.").await;
    session.until_end().await;
    let before = row(&stage, session.id).await;
    // Another directory with a copy of everything, the `.git` file included.
    let aside = checkout.with_extension("aside");
    fs::rename(&checkout, &aside).unwrap();
    fs::create_dir(&checkout).unwrap();
    fs::copy(aside.join(".git"), checkout.join(".git")).unwrap();
    fs::copy(aside.join("README.md"), checkout.join("README.md")).unwrap();
    let input = session.input("write README.md <<END\nharm\nEND");
    let mut events = stage.engine.op_events();
    let prompt = Op::Prompt {
        session: session.id.to_string(),
        doc: input.doc.clone(),
        request_id: Some("identity-recheck".into()),
    };
    stage.engine.dispatch_op(prompt, Origin::default()).await;
    let told = events.recv().await.unwrap();
    let Event::Error { session: of, terminal: true, request_id, reason, .. } = &told.event else {
        panic!("{told:?}")
    };
    assert_eq!(of.as_deref(), Some(session.id.to_string().as_str()));
    assert_eq!(
        (request_id.as_deref(), reason.as_deref()),
        (Some("identity-recheck"), Some("worktree_unavailable"))
    );
    let refused = session.submit(Op::TurnInput(input)).await.unwrap_err();
    assert_eq!((refused.reason(), cause(&refused).as_str()), ("worktree_unavailable", "worktree_replaced"));
    assert!(refused.to_string().contains("another directory"), "{refused}");
    assert_eq!(row(&stage, session.id).await.activity, before.activity, "no turn began");
    assert!(!turns_after(&stage, &before).await, "and nothing of it is stored");

    // The same after a restart; put back, it is the checkout again.
    let id = session.id;
    let stage = stage.restart().await;
    let mut session = stage.watch(id).await;
    let refused = session.submit(Op::TurnInput(session.input("say no"))).await.unwrap_err();
    assert_eq!(refused.reason(), "worktree_unavailable");
    fs::remove_dir_all(&checkout).unwrap();
    fs::rename(&aside, &checkout).unwrap();
    session.prompts("say Second.").await;
    assert!(story(&session.until_end().await).ends_with("ended Completed end_turn\n"));
}

/// Whether anything of a turn was stored since.
async fn turns_after(stage: &Stage, row: &SessionRow) -> bool {
    let facts = stage.store.reader.facts(row.id, row.last_seq + 1, u64::MAX >> 1).await.unwrap();
    facts.iter().any(|fact| matches!(fact.body, FactBody::Prompt(_) | FactBody::Activity(_)))
}

#[tokio::test]
async fn a_switched_branch_is_told_once_and_the_prompt_runs() {
    let (stage, repo) = with_repository().await;
    let (mut session, checkout) = session(&stage, &repo).await;
    let warned = async |session: &mut Watched, correlation: &str| {
        let mut input = session.input("say Hello.");
        input.request_id = Some(correlation.to_owned());
        session.submit(Op::TurnInput(input)).await.unwrap();
        let seen = session.until_end().await;
        let told = story(&seen);
        assert!(told.ends_with("ended Completed end_turn\n"), "{told}");
        let warnings: Vec<_> = seen.iter().filter_map(project::event).filter_map(error_of).collect();
        if !warnings.is_empty() {
            let (turn, warning) = (told.find("prompt").unwrap(), told.find("warning").unwrap());
            assert!(turn < warning, "the turn is told first: {told}");
            assert!(warnings.iter().all(|(_, request)| request.as_deref() == Some(correlation)));
        }
        warnings.into_iter().map(|(message, _)| message).collect::<Vec<_>>()
    };
    assert_eq!(warned(&mut session, "a").await, Vec::<String>::new());
    let ours = git(&checkout, &["branch", "--show-current"]);
    git(&checkout, &["checkout", "-q", "-b", "elsewhere"]);
    let told = warned(&mut session, "b").await;
    assert!(told.len() == 1 && told[0].contains("the branch elsewhere instead of signalbox/"), "{told:?}");
    assert_eq!(warned(&mut session, "c").await, Vec::<String>::new(), "told already");
    git(&checkout, &["checkout", "-q", "--detach"]);
    let told = warned(&mut session, "d").await;
    assert!(told.len() == 1 && told[0].contains("a detached HEAD"), "{told:?}");
    git(&checkout, &["checkout", "-q", &ours]);
    assert_eq!(warned(&mut session, "e").await, Vec::<String>::new(), "back home");
    git(&checkout, &["checkout", "-q", "--detach"]);
    assert_eq!(warned(&mut session, "f").await.len(), 1, "away again is a change");
}

fn error_of(event: Event) -> Option<(String, Option<String>)> {
    match event {
        Event::Error { message, terminal: false, request_id, .. } => Some((message, request_id)),
        _ => None,
    }
}

#[tokio::test]
async fn the_directory_it_was_made_from_may_go() {
    let (stage, repo) = with_repository().await;
    let (mut session, _) = session(&stage, &repo.join("packages/app")).await;
    fs::remove_dir_all(repo.join("packages")).unwrap();
    session.prompts("say Still here.").await;
    assert!(story(&session.until_end().await).ends_with("ended Completed end_turn\n"));
}

#[tokio::test]
async fn another_directory_must_lie_inside_the_checkout() {
    let (stage, repo) = with_repository().await;
    let (session, checkout) = session(&stage, &repo).await;
    let moves = async |cwd: &Path| {
        let settings =
            SettingsPatch { cwd: Some(cwd.to_str().unwrap().to_owned()), ..SettingsPatch::default() };
        let id = session.id.to_string();
        session.submit(Op::ThreadSettings { session: id, settings, request_id: None }).await
    };
    for outside in [repo.clone(), checkout.parent().unwrap().to_owned()] {
        let refused = moves(&outside).await.unwrap_err();
        assert_eq!((refused.reason(), &refused.data()["path"]), ("invalid_params", &"cwd".into()));
    }
    std::os::unix::fs::symlink(&repo, checkout.join("way-out")).unwrap();
    assert_eq!(moves(&checkout.join("way-out")).await.unwrap_err().reason(), "invalid_params");
    let mut input = session.input("say no");
    input.settings.cwd = Some(repo.to_str().unwrap().to_owned());
    assert_eq!(session.submit(Op::TurnInput(input)).await.unwrap_err().reason(), "invalid_params");
    assert_eq!(moves(&checkout.join("src")).await, Ok(Accepted::Applied));
    assert_eq!(row(&stage, session.id).await.cwd, checkout.join("src"));
}
