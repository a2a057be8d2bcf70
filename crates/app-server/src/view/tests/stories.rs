//! Stories: what happens in the core, and what clients are told of it, line by line. `*` goes to everybody, `?` is a request
//! to those who may answer, `-` takes it back.

use expect_test::{Expect, expect};
use signalbox_facts::{
    Decision, FileChangeKind, FileDiff, Mode, PlanStatus, Policy, RateLimit, Sandbox, SignalBody, ToolStatus,
    TurnStatus, Usage,
};
use signalbox_protocol::app::{ApprovalDecision, ServerNotification};
use signalbox_protocol::ops;

use super::lines::told;
use super::world::{Event, World, entry};
use crate::view::{Outgoing, ThreadView};

fn check(world: &World, expected: Expect) {
    expected.assert_eq(&told(world, 1));
}

/// What is told after the events that are there now.
struct From(usize);

impl From {
    fn here(world: &World) -> Self {
        Self(world.events.len())
    }

    fn check(self, world: &World, expected: Expect) {
        expected.assert_eq(&told(world, self.0));
    }
}

fn in_turn() -> World {
    let mut world = World::new();
    world.prompt("hi");
    world
}

#[test]
fn a_new_session_is_told_to_everybody() {
    let mut world = World::new();
    world.titled("First").titled("First");
    expect![[r#"
        * thread/started r0
        * thread/name/updated "First"
    "#]]
    .assert_eq(&told(&world, 0));
}

#[test]
fn a_plain_turn() {
    let mut world = in_turn();
    world.says("Hel").says("lo").uses(7).changes("diff").ends(TurnStatus::Completed);
    check(
        &world,
        expect![[r#"
        * thread/status/changed active
        * thread/activity/changed 1 running
        turn/started t1 inProgress
        item/started i3 userMessage "hi"
        item/completed i3 userMessage "hi"
        item/started i4 agentMessage text=""
        item/agentMessage/delta i4 "Hel"
        item/agentMessage/delta i4 "lo"
        thread/tokenUsage/updated t1 total=7 last=7
        turn/diff/updated "diff"
        item/completed i4 agentMessage text="Hello"
        * thread/status/changed idle
        * thread/activity/changed 2 idle
        turn/completed t1 completed
    "#]],
    );
}

#[test]
fn a_thought_ends_where_the_answer_starts() {
    let mut world = in_turn();
    let here = From::here(&world);
    world.thinks("hm").thinks("m").says("Yes.").ends(TurnStatus::Completed);
    here.check(
        &world,
        expect![[r#"
        item/started i4 reasoning summary=[]
        item/reasoning/summaryPartAdded i4
        item/reasoning/summaryTextDelta i4 "hm"
        item/reasoning/summaryTextDelta i4 "m"
        item/completed i4 reasoning summary=["hmm"]
        item/started i6 agentMessage text=""
        item/agentMessage/delta i6 "Yes."
        item/completed i6 agentMessage text="Yes."
        * thread/status/changed idle
        * thread/activity/changed 2 idle
        turn/completed t1 completed
    "#]],
    );
}

#[test]
fn output_and_updates_of_a_command_do_not_end_a_message() {
    let mut world = in_turn();
    let here = From::here(&world);
    world.says("I look.");
    let ls = world.calls("ls", "execute", ToolStatus::InProgress).unwrap();
    world.says("And ").writes(ls, "a\n", false).says("see.").writes(ls, "b\n", false);
    world.updates(ls, |call| {
        call.status = ToolStatus::Completed;
        call.exit_code = Some(0);
    });
    world.says(" Done.");
    here.check(
        &world,
        expect![[r#"
        item/started i4 agentMessage text=""
        item/agentMessage/delta i4 "I look."
        item/completed i4 agentMessage text="I look."
        item/started i5 commandExecution inProgress
        item/started i6 agentMessage text=""
        item/agentMessage/delta i6 "And "
        item/commandExecution/outputDelta i5 "a\n"
        item/agentMessage/delta i6 "see."
        item/commandExecution/outputDelta i5 "b\n"
        item/completed i5 commandExecution completed aggregatedOutput="a\nb\n" exitCode=0 durationMs=50
        item/agentMessage/delta i6 " Done."
    "#]],
    );
}

#[test]
fn replaced_output_has_no_delta_and_completion_brings_it_right() {
    let mut world = in_turn();
    let ls = world.calls("ls", "execute", ToolStatus::InProgress).unwrap();
    let here = From::here(&world);
    world.writes(ls, "10 %", true).writes(ls, "20 %", true).writes(ls, "!", false);
    world.closes(ls, ToolStatus::Failed);
    here.check(
        &world,
        expect![[r#"
        item/commandExecution/outputDelta i4 "10 %"
        item/completed i4 commandExecution failed aggregatedOutput="20 %!" durationMs=40
    "#]],
    );
}

#[test]
fn an_approved_command() {
    let mut world = in_turn();
    let here = From::here(&world);
    let ls = world.calls("ls", "execute", ToolStatus::Pending).unwrap();
    world.asks(ls).answers(0, Decision::Accept, Some("yes"));
    world.writes(ls, "a\n", false).closes(ls, ToolStatus::Completed).ends(TurnStatus::Completed);
    here.check(
        &world,
        expect![[r#"
        item/started i4 commandExecution inProgress
        * thread/status/changed active ["waitingOnApproval"]
        * thread/activity/changed 2 awaiting_input
        approval/requested a1 i4 command ["accept","acceptForSession","decline","cancel"]
        ? item/commandExecution/requestApproval a1 i4 "ls"
        * thread/status/changed active
        * thread/activity/changed 3 running
        - withdraw a1
        serverRequest/resolved a1 accept yes client phone
        item/commandExecution/outputDelta i4 "a\n"
        item/completed i4 commandExecution completed aggregatedOutput="a\n" durationMs=60
        * thread/status/changed idle
        * thread/activity/changed 4 idle
        turn/completed t1 completed
    "#]],
    );
}

#[test]
fn a_declined_command_lets_the_turn_go_on() {
    let mut world = in_turn();
    let ls = world.calls("ls", "execute", ToolStatus::Pending).unwrap();
    world.asks(ls);
    let here = From::here(&world);
    world.answers(0, Decision::Decline, Some("no")).closes(ls, ToolStatus::Failed).says("Then not.");
    here.check(
        &world,
        expect![[r#"
        * thread/status/changed active
        * thread/activity/changed 3 running
        - withdraw a1
        serverRequest/resolved a1 decline no client phone
        item/completed i4 commandExecution declined durationMs=50
        item/started i10 agentMessage text=""
        item/agentMessage/delta i10 "Then not."
    "#]],
    );
}

#[test]
fn a_cancelled_command_ends_the_turn() {
    let mut world = in_turn();
    let ls = world.calls("ls", "execute", ToolStatus::Pending).unwrap();
    world.asks(ls);
    let here = From::here(&world);
    world.answers(0, Decision::Cancel, None).ends(TurnStatus::Interrupted);
    here.check(
        &world,
        expect![[r#"
        * thread/status/changed active
        * thread/activity/changed 3 running
        - withdraw a1
        serverRequest/resolved a1 cancel client phone
        item/completed i4 commandExecution failed durationMs=50
        * thread/status/changed idle
        * thread/activity/changed 4 idle
        turn/completed t1 interrupted
    "#]],
    );
}

#[test]
fn an_interrupt_with_approvals_pending_resolves_them_first() {
    let mut world = in_turn();
    let ls = world.calls("ls", "execute", ToolStatus::Pending).unwrap();
    let fetch = world.calls("fetch", "fetch", ToolStatus::Pending).unwrap();
    let search = world.calls("search", "search", ToolStatus::Pending).unwrap();
    world.asks(ls).asks(fetch).asks(search);
    let here = From::here(&world);
    world.ends(TurnStatus::Interrupted);
    here.check(
        &world,
        expect![[r#"
        * thread/status/changed active
        * thread/activity/changed 5 running
        - withdraw a1
        serverRequest/resolved a1 cancel interrupt
        - withdraw a2
        serverRequest/resolved a2 cancel interrupt
        - withdraw a3
        serverRequest/resolved a3 cancel interrupt
        item/completed i4 commandExecution failed durationMs=130
        item/completed i5 dynamicToolCall failed success=false durationMs=130
        item/completed i6 dynamicToolCall failed success=false durationMs=130
        * thread/status/changed idle
        * thread/activity/changed 6 idle
        turn/completed t1 interrupted
    "#]],
    );
}

#[test]
fn questions_are_put_one_at_a_time() {
    let mut world = in_turn();
    let fetch = world.calls("fetch", "fetch", ToolStatus::Pending).unwrap();
    let search = world.calls("search", "mcp", ToolStatus::Pending).unwrap();
    let here = From::here(&world);
    world.asks(fetch).asks(search).questions();
    world.answers(0, Decision::Accept, Some("yes")).answers(1, Decision::Answered, None);
    world.answers(0, Decision::Accept, Some("always"));
    here.check(
        &world,
        expect![[r#"
        * thread/status/changed active ["waitingOnApproval"]
        * thread/activity/changed 2 awaiting_input
        approval/requested a1 i4 tool ["accept","decline","cancel"]
        ? item/tool/requestUserInput a1 i4 "fetch"
        * thread/activity/changed 3 awaiting_input
        approval/requested a2 i5 tool ["accept","decline","cancel"]
        * thread/status/changed active ["waitingOnApproval","waitingOnUserInput"]
        * thread/activity/changed 4 awaiting_input
        approval/requested a3 elicitation ["accept","decline","cancel"]
        ? mcpServer/elicitation/request a3 "Who are you?"
        * thread/activity/changed 5 awaiting_input
        - withdraw a1
        serverRequest/resolved a1 accept yes client phone
        ? item/tool/requestUserInput a2 i5 "search"
        * thread/status/changed active ["waitingOnApproval"]
        * thread/activity/changed 6 awaiting_input
        - withdraw a3
        serverRequest/resolved a3 accept client phone
        * thread/status/changed active
        * thread/activity/changed 7 running
        - withdraw a2
        serverRequest/resolved a2 accept always client phone
    "#]],
    );
}

#[test]
fn a_decision_by_the_policy_is_visible() {
    let mut world = in_turn();
    let ls = world.calls("ls", "execute", ToolStatus::Pending).unwrap();
    let here = From::here(&world);
    world.decides(ls);
    here.check(
        &world,
        expect![[r#"
        serverRequest/resolved 00000000-0000-0000-0000-00000000a388 accept yes policy
    "#]],
    );
}

#[test]
fn a_file_change_grows_and_is_approved() {
    let mut world = in_turn();
    let here = From::here(&world);
    let edit = world.calls("Edit a.txt", "edit", ToolStatus::Pending).unwrap();
    let diff = |path: &str, kind, unified: &str| FileDiff {
        path: path.into(),
        kind,
        unified: unified.into(),
        truncated: false,
    };
    let update = diff("/repo/a.txt", FileChangeKind::Update { move_path: None }, "@@ -1 +1 @@\n-one\n+two\n");
    let add = diff(
        "/repo/b.txt",
        FileChangeKind::Add,
        "@@ -0,0 +1,2 @@\n+new\n+file\n\\ No newline at end of file\n",
    );
    let gone = diff("/repo/c.txt", FileChangeKind::Delete, "@@ -1 +0,0 @@\n-old\n");
    world.edits(edit, vec![update.clone()]).asks(edit);
    world.answers(0, Decision::AcceptForSession, Some("yes"));
    world.edits(edit, vec![update, add, gone]).updates(edit, |_| ());
    world.closes(edit, ToolStatus::Completed);
    here.check(&world, expect![[r#"
        item/started i4 fileChange inProgress changes=[{"path":"/repo/a.txt","kind":{"type":"update","move_path":null},"diff":""}]
        item/fileChange/patchUpdated i4 [{"path":"/repo/a.txt","kind":{"type":"update","move_path":null},"diff":"@@ -1 +1 @@\n-one\n+two\n"}]
        * thread/status/changed active ["waitingOnApproval"]
        * thread/activity/changed 2 awaiting_input
        approval/requested a1 i4 fileChange ["accept","acceptForSession","decline","cancel"]
        ? item/fileChange/requestApproval a1 i4 [{"path":"/repo/a.txt","kind":{"type":"update","move_path":null},"diff":"@@ -1 +1 @@\n-one\n+two\n"}]
        * thread/status/changed active
        * thread/activity/changed 3 running
        - withdraw a1
        serverRequest/resolved a1 acceptForSession yes client phone
        item/fileChange/patchUpdated i4 [{"path":"/repo/a.txt","kind":{"type":"update","move_path":null},"diff":"@@ -1 +1 @@\n-one\n+two\n"},{"path":"/repo/b.txt","kind":{"type":"add"},"diff":"new\nfile"},{"path":"/repo/c.txt","kind":{"type":"delete"},"diff":"old\n"}]
        item/completed i4 fileChange completed changes=[{"path":"/repo/a.txt","kind":{"type":"update","move_path":null},"diff":"@@ -1 +1 @@\n-one\n+two\n"},{"path":"/repo/b.txt","kind":{"type":"add"},"diff":"new\nfile"},{"path":"/repo/c.txt","kind":{"type":"delete"},"diff":"old\n"}]
    "#]]);
}

#[test]
fn a_plan_is_one_item_and_completes_with_its_turn() {
    let mut world = in_turn();
    let here = From::here(&world);
    world.plans(vec![entry("look", PlanStatus::InProgress), entry("do", PlanStatus::Pending)], None);
    world.says("Looking.");
    world.plans(vec![entry("look", PlanStatus::Completed), entry("do", PlanStatus::InProgress)], None);
    world.ends(TurnStatus::Completed);
    here.check(
        &world,
        expect![[r#"
        item/started i4 plan text="- [ ] look\n- [ ] do\n"
        turn/plan/updated look:inProgress do:pending
        item/started i5 agentMessage text=""
        item/agentMessage/delta i5 "Looking."
        turn/plan/updated look:completed do:inProgress
        item/completed i4 plan text="- [x] look\n- [ ] do\n"
        item/completed i5 agentMessage text="Looking."
        * thread/status/changed idle
        * thread/activity/changed 2 idle
        turn/completed t1 completed
    "#]],
    );
}

#[test]
fn a_plan_in_prose_grows_by_deltas() {
    let mut world = in_turn();
    let here = From::here(&world);
    world.plans(Vec::new(), Some("# Pl")).plans(Vec::new(), Some("# Plan\n"));
    world.plans(Vec::new(), Some("# Other")).plans(Vec::new(), Some("# Other one"));
    world.ends(TurnStatus::Completed);
    here.check(
        &world,
        expect![[r##"
        item/started i4 plan text=""
        item/plan/delta i4 "# Pl"
        item/plan/delta i4 "an\n"
        item/completed i4 plan text="# Other one"
        * thread/status/changed idle
        * thread/activity/changed 2 idle
        turn/completed t1 completed
    "##]],
    );
}

#[test]
fn usage_and_context_window_of_one_moment_are_one_notification() {
    let mut world = in_turn();
    let here = From::here(&world);
    world.fills(120).uses(7).says("a").fills(130).fills(130).says("b").uses(7).fills(140);
    here.check(
        &world,
        expect![[r#"
        thread/tokenUsage/updated t1 total=7 last=120 window=1000
        item/started i5 agentMessage text=""
        item/agentMessage/delta i5 "a"
        thread/tokenUsage/updated t1 total=7 last=130 window=1000
        item/agentMessage/delta i5 "b"
        thread/tokenUsage/updated t1 total=7 last=140 window=1000
    "#]],
    );
}

#[test]
fn a_steer_ends_the_message_and_is_an_item_of_the_turn() {
    let mut world = in_turn();
    let here = From::here(&world);
    world.says("On my ").prompt("stop that").says("All right.");
    here.check(
        &world,
        expect![[r#"
        item/started i4 agentMessage text=""
        item/agentMessage/delta i4 "On my "
        item/completed i4 agentMessage text="On my "
        item/started i5 userMessage "stop that"
        item/completed i5 userMessage "stop that"
        item/started i6 agentMessage text=""
        item/agentMessage/delta i6 "All right."
    "#]],
    );
}

#[test]
fn a_dead_agent_fails_the_turn() {
    let mut world = in_turn();
    let here = From::here(&world);
    world.thinks("hm").calls("ls", "execute", ToolStatus::InProgress);
    world.calls("search", "mcp", ToolStatus::InProgress);
    world.calls("fetch", "fetch", ToolStatus::InProgress);
    world.ends(TurnStatus::Failed);
    here.check(&world, expect![[r#"
        item/started i4 reasoning summary=[]
        item/reasoning/summaryPartAdded i4
        item/reasoning/summaryTextDelta i4 "hm"
        item/completed i4 reasoning summary=["hm"]
        item/started i5 commandExecution inProgress
        item/started i6 mcpToolCall inProgress
        item/started i7 dynamicToolCall inProgress
        item/completed i5 commandExecution failed durationMs=30
        item/completed i6 mcpToolCall failed error={"message":"The agent stopped before the call did."} durationMs=30
        item/completed i7 dynamicToolCall failed success=false durationMs=30
        * thread/status/changed systemError
        * thread/activity/changed 2 failed
        error t1 "The agent died." agent_failed
        turn/completed t1 failed "The agent died."
    "#]]);
}

#[test]
fn a_restart_ends_what_was_open() {
    let mut world = in_turn();
    let ls = world.calls("ls", "execute", ToolStatus::InProgress).unwrap();
    let fetch = world.calls("fetch", "fetch", ToolStatus::InProgress).unwrap();
    world.asks(fetch).says("half a sen").asks(ls);
    let here = From::here(&world);
    world.restarts();
    here.check(
        &world,
        expect![[r#"
        - withdraw a1
        serverRequest/resolved a1 cancel restart
        - withdraw a2
        serverRequest/resolved a2 cancel restart
        item/completed i4 commandExecution failed durationMs=90
        item/completed i5 dynamicToolCall failed success=false durationMs=90
        item/completed i8 agentMessage text="half a sen"
        * thread/status/changed systemError
        * thread/activity/changed 4 failed
        turn/completed t1 interrupted "signalbox stopped before the turn finished."
    "#]],
    );
}

#[test]
fn what_comes_late_is_started_and_completed_at_once() {
    let mut world = in_turn();
    let ls = world.calls("ls", "execute", ToolStatus::InProgress).unwrap();
    world.ends(TurnStatus::Completed);
    let here = From::here(&world);
    world.says("By the way").breaks().thinks("hm").breaks();
    world.writes(ls, "more\n", false).closes(ls, ToolStatus::Completed);
    let late = world.calls("date", "execute", ToolStatus::InProgress).unwrap();
    world.closes(late, ToolStatus::Completed);
    here.check(
        &world,
        expect![[r#"
            item/started i8 agentMessage text="" late=true
            item/agentMessage/delta i8 "By the way"
            item/completed i8 agentMessage text="By the way" late=true
            item/started i9 reasoning summary=[] late=true
            item/reasoning/summaryPartAdded i9
            item/reasoning/summaryTextDelta i9 "hm"
            item/completed i9 reasoning summary=["hm"] late=true
            item/completed i4 commandExecution failed aggregatedOutput="more\n" durationMs=10
            item/completed i4 commandExecution completed aggregatedOutput="more\n" durationMs=10
            item/started i12 commandExecution inProgress late=true
            item/completed i12 commandExecution failed durationMs=0 late=true
            item/completed i12 commandExecution completed durationMs=0 late=true
        "#]],
    );
}

#[test]
fn an_update_of_what_is_complete_waits_for_the_turns_end() {
    let mut world = in_turn();
    let ls = world.calls("ls", "execute", ToolStatus::Completed).unwrap();
    let here = From::here(&world);
    world.writes(ls, "out", false).updates(ls, |call| call.exit_code = Some(3)).says("So.");
    world.ends(TurnStatus::Completed);
    here.check(
        &world,
        expect![[r#"
        item/started i7 agentMessage text=""
        item/agentMessage/delta i7 "So."
        item/completed i4 commandExecution completed aggregatedOutput="out" exitCode=3 durationMs=0
        item/completed i7 agentMessage text="So."
        * thread/status/changed idle
        * thread/activity/changed 2 idle
        turn/completed t1 completed
    "#]],
    );
}

#[test]
fn a_revert_takes_turns_back() {
    let mut world = in_turn();
    world.ends(TurnStatus::Completed).prompt("two").ends(TurnStatus::Completed);
    let here = From::here(&world);
    world.reverts(1).says("too late").prompt("three");
    here.check(
        &world,
        expect![[r#"
        thread/reverted t2
        * thread/status/changed active
        * thread/activity/changed 5 running
        turn/started t3 inProgress
        item/started i13 userMessage "three"
        item/completed i13 userMessage "three"
    "#]],
    );
}

#[test]
fn what_repeats_the_known_is_not_told() {
    let mut world = in_turn();
    let yolo = Policy { mode: Mode::Yolo, sandbox: Sandbox::DangerFullAccess };
    let here = From::here(&world);
    world.policy(Policy::default()).policy(yolo).policy(yolo).archived(false).archived(true);
    let models = || SignalBody::Models { available: Vec::new(), current: "m".into() };
    world.signal(models()).signal(models());
    world.changes("d").changes("d");
    here.check(
        &world,
        expect![[r#"
        thread/settings/updated never dangerFullAccess
        * thread/archived
        thread/models/updated
        turn/diff/updated "d"
    "#]],
    );
}

#[test]
fn warnings_and_errors() {
    let mut world = in_turn();
    let here = From::here(&world);
    world.warns("odd", false).warns("no fork", true).ends(TurnStatus::Completed).warns("no start", true);
    world.signal(SignalBody::Stalled { since_ms: Some(1) }).signal(SignalBody::Unloaded);
    here.check(
        &world,
        expect![[r#"
        warning "odd" r9
        warning "no fork" r9
        * thread/status/changed idle
        * thread/activity/changed 2 idle
        turn/completed t1 completed
        error  "no start" agent_failed r9
        warning "The agent has been silent for a while; the turn goes on."
        * thread/status/changed notLoaded
        * thread/closed
    "#]],
    );
}

#[test]
fn limits_of_the_account_are_told_to_everybody_by_window() {
    let mut world = in_turn();
    let limit = |name: &str, used_percent, window_minutes| RateLimit {
        name: name.into(),
        used_percent,
        window_minutes,
        resets_at: Some(1_700_000_000),
    };
    let limits =
        vec![limit("week", 12.4, Some(10_080)), limit("5h", 99.6, Some(300)), limit("odd", 1.0, None)];
    let here = From::here(&world);
    world.signal(SignalBody::RateLimits { limits, usage: Usage::default() });
    here.check(
        &world,
        expect![[r#"
        * account/rateLimits/updated
    "#]],
    );
    let Some(Event::Signal(signal)) = world.events.last() else { panic!("no signal") };
    let told = ThreadView::new(World::row(&world.events)).apply_signal(signal);
    let Some(Outgoing::Notification(told)) = told.into_iter().next() else { panic!("nothing is told") };
    let ServerNotification::AccountRateLimitsUpdated(told) = *told.body else { panic!("{told:?}") };
    let (first, second) = (told.rate_limits.primary.unwrap(), told.rate_limits.secondary.unwrap());
    assert_eq!((first.used_percent, first.window_duration_mins), (100, Some(300)));
    assert_eq!((second.used_percent, second.window_duration_mins), (12, Some(10_080)));
    assert_eq!(told.limits.len(), 3);
}

#[test]
fn an_ended_turn_says_who_answered_what() {
    let mut world = in_turn();
    let first = world.calls("ls", "execute", ToolStatus::Pending).unwrap();
    world.asks(first).answers(0, Decision::Decline, Some("no")).questions().restarts();
    let view = ThreadView::load(World::row(&world.events), &world.facts());
    let turn = view.turn().unwrap();
    let told: Vec<_> = turn
        .approvals
        .iter()
        .map(|approval| (approval.item_id.as_deref(), approval.decision, approval.by.kind))
        .collect();
    let (client, restart) = (ops::ResolverKind::Client, ops::ResolverKind::Restart);
    assert_eq!(
        told,
        [
            (Some("i4"), Some(ApprovalDecision::Decline), client),
            (None, Some(ApprovalDecision::Cancel), restart)
        ]
    );
    assert_eq!(view.turn_outline().unwrap().approvals, turn.approvals);
}
