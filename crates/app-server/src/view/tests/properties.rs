//! Properties of the view over whatever a plausible engine says: several turns with interleaved texts, outputs, plans,
//! approvals, late arrivals and reverts.

use proptest::prelude::*;
use signalbox_facts::{
    CompactionStatus, Decision, Fact, FactBody, FileChangeKind, FileDiff, Mode, PlanStatus, Policy, Sandbox,
    Seq, SignalBody, ToolContent, ToolStatus, TurnStatus, compact,
};
use signalbox_protocol::app::{ItemBody, Turn};

use super::client::Client;
use super::world::{Event, World, entry};
use crate::view::{Effects, Outgoing, ThreadView, convert, history};

/// One thing that happens; numbers choose among what is possible at the time.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Prompt(String),
    Say(String),
    Think(String),
    Break,
    Call { kind: usize, status: usize },
    Update { tool: usize, status: usize },
    Edit { tool: usize, unified: String },
    Content { tool: usize, text: String },
    Write { tool: usize, text: String, replace: bool },
    Plan { entries: Vec<(String, usize)> },
    Prose { text: String, grows: bool },
    Compaction { ends: bool },
    Ask { tool: usize },
    Question,
    Answer { place: usize, decision: usize },
    Decide { tool: usize },
    Diff(String),
    Usage(u64),
    Window(u64),
    Warn(bool),
    Title(String),
    Policy(usize),
    Archive(bool),
    Models(String),
    End(usize),
    Restart,
    Revert(usize),
}

pub(crate) fn step() -> impl Strategy<Value = Step> {
    let text = prop::sample::select(&["", "a", "b\n", "caé"][..]).prop_map(str::to_owned).boxed();
    let tool = 0..6_usize;
    prop_oneof![
        6 => text.clone().prop_map(Step::Prompt),
        12 => text.clone().prop_map(Step::Say),
        6 => text.clone().prop_map(Step::Think),
        2 => Just(Step::Break),
        8 => (0..7_usize, 0..4_usize).prop_map(|(kind, status)| Step::Call { kind, status }),
        8 => (tool.clone(), 0..4_usize).prop_map(|(tool, status)| Step::Update { tool, status }),
        3 => (tool.clone(), text.clone()).prop_map(|(tool, unified)| Step::Edit { tool, unified }),
        3 => (tool.clone(), text.clone()).prop_map(|(tool, text)| Step::Content { tool, text }),
        12 => (tool.clone(), text.clone(), prop::bool::weighted(0.1))
            .prop_map(|(tool, text, replace)| Step::Write { tool, text, replace }),
        3 => prop::collection::vec((text.clone(), 0..3_usize), 0..3).prop_map(|entries| Step::Plan { entries }),
        3 => (text.clone(), prop::bool::weighted(0.8)).prop_map(|(text, grows)| Step::Prose { text, grows }),
        1 => any::<bool>().prop_map(|ends| Step::Compaction { ends }),
        8 => tool.clone().prop_map(|tool| Step::Ask { tool }),
        2 => Just(Step::Question),
        5 => (0..3_usize, 0..5_usize).prop_map(|(place, decision)| Step::Answer { place, decision }),
        1 => tool.prop_map(|tool| Step::Decide { tool }),
        2 => text.clone().prop_map(Step::Diff),
        2 => (0..4_u64).prop_map(Step::Usage),
        2 => (0..4_u64).prop_map(Step::Window),
        1 => any::<bool>().prop_map(Step::Warn),
        1 => text.clone().prop_map(Step::Title),
        1 => (0..3_usize).prop_map(Step::Policy),
        1 => any::<bool>().prop_map(Step::Archive),
        1 => text.clone().prop_map(Step::Models),
        5 => (0..3_usize).prop_map(Step::End),
        1 => Just(Step::Restart),
        1 => (0..4_usize).prop_map(Step::Revert),
    ]
}

const KINDS: [&str; 7] = ["execute", "execute", "edit", "delete", "mcp", "fetch", "other"];
const STATUSES: [ToolStatus; 4] =
    [ToolStatus::Pending, ToolStatus::InProgress, ToolStatus::Completed, ToolStatus::Failed];
const ENDS: [TurnStatus; 3] = [TurnStatus::Completed, TurnStatus::Interrupted, TurnStatus::Failed];
const PLANNED: [PlanStatus; 3] = [PlanStatus::Pending, PlanStatus::InProgress, PlanStatus::Completed];
const DECISIONS: [(Decision, Option<&str>); 5] = [
    (Decision::Accept, Some("yes")),
    (Decision::AcceptForSession, Some("yes")),
    (Decision::Decline, Some("no")),
    (Decision::Cancel, None),
    (Decision::Answered, None),
];

pub(crate) fn play(steps: &[Step]) -> World {
    let mut world = World::new();
    let mut prose = String::new();
    for step in steps {
        match step {
            Step::Prompt(text) => {
                if world.turn.is_none() {
                    prose.clear();
                }
                world.prompt(text);
            }
            Step::Say(text) => drop(world.says(text)),
            Step::Think(text) => drop(world.thinks(text)),
            Step::Break => drop(world.breaks()),
            Step::Call { kind, status } => {
                let title = format!("tool {}", world.tools.len());
                world.calls(&title, KINDS[*kind], STATUSES[*status]);
            }
            Step::Update { tool, status } => {
                // Calls go on far more often than they end by themselves.
                world.updates(*tool, |call| {
                    let next = STATUSES[*status];
                    if next.is_final() || !call.status.is_final() {
                        call.status = next;
                        call.exit_code = (next == ToolStatus::Completed).then_some(0);
                    }
                });
            }
            Step::Edit { tool, unified } => {
                let diff = FileDiff {
                    path: "/repo/a.txt".into(),
                    kind: FileChangeKind::Update { move_path: None },
                    unified: unified.clone(),
                    truncated: false,
                };
                world.edits(*tool, vec![diff]);
            }
            Step::Content { tool, text } => {
                let content = Some(vec![ToolContent::Text { text: text.clone() }]);
                world.updates(*tool, |call| call.content = content);
            }
            Step::Write { tool, text, replace } => drop(world.writes(*tool, text, *replace)),
            Step::Plan { entries } => {
                let entries = entries.iter().map(|(text, status)| entry(text, PLANNED[*status])).collect();
                world.plans(entries, None);
            }
            Step::Prose { text, grows } => {
                if !grows {
                    prose.clear();
                }
                prose.push_str(text);
                world.plans(Vec::new(), Some(&prose));
            }
            Step::Compaction { ends } => {
                if let Some(item) = world.compacts("c", CompactionStatus::InProgress)
                    && *ends
                {
                    world.compacted(item, "c", CompactionStatus::Completed);
                }
            }
            Step::Ask { tool } => drop(world.asks(*tool)),
            Step::Question => drop(world.questions()),
            Step::Answer { place, decision } => {
                let (decision, option) = DECISIONS[*decision];
                world.answers(*place, decision, option);
            }
            Step::Decide { tool } => drop(world.decides(*tool)),
            Step::Diff(diff) => {
                if world.turn.is_some() {
                    world.changes(diff);
                }
            }
            Step::Usage(tokens) => drop(world.uses(*tokens)),
            Step::Window(tokens) => drop(world.fills(*tokens)),
            Step::Warn(terminal) => drop(world.warns("odd", *terminal)),
            Step::Title(title) => drop(world.titled(title)),
            Step::Policy(n) => {
                let mode = [Mode::Ask, Mode::AcceptEdits, Mode::Yolo][*n];
                world.policy(Policy { mode, sandbox: Sandbox::WorkspaceWrite });
            }
            Step::Archive(archived) => drop(world.archived(*archived)),
            Step::Models(current) => {
                let models = SignalBody::Models { available: Vec::new(), current: current.clone() };
                world.signal(models);
            }
            Step::End(status) => drop(world.ends(ENDS[*status])),
            Step::Restart => drop(world.restarts()),
            Step::Revert(place) => drop(world.reverts(*place)),
        }
    }
    world
}

/// The view that has seen all events from the first on, with what it told of each.
fn live(events: &[Event], mut hears: impl FnMut(&ThreadView, usize, Effects<'_>)) -> ThreadView {
    let mut view = ThreadView::new(World::row(&events[..1]));
    for (place, event) in events.iter().enumerate() {
        let mut effects = match event {
            Event::Fact(fact) => view.apply(fact),
            Event::Signal(signal) => view.apply_signal(signal),
        };
        // A commit's end, for which usage and context window wait, is not behind every fact.
        if place % 3 == 0 || place + 1 == events.len() {
            effects.extend(view.flush());
        }
        hears(&view, place, effects);
    }
    view
}

/// The facts that the store gives for the turn in view: all from its first on. Signals leave nothing there.
fn stored(world: &World, view: &ThreadView) -> Vec<Fact> {
    let first = view.turn_first_seq().unwrap_or(Seq::MAX);
    world.facts().into_iter().filter(|fact| fact.seq >= first).collect()
}

/// What effects say, whenever they say it: a compacted row has the time of its first chunk.
fn bodies(mut effects: Effects<'_>) -> Effects<'_> {
    for effect in &mut effects {
        if let Outgoing::Notification(told) = effect {
            told.at_ms = 0;
        }
    }
    effects
}

fn without_signals(mut world: World) -> World {
    world.events.retain(|event| matches!(event, Event::Fact(_)));
    world
}

/// The turns before the one in view, from the store.
fn older(view: &ThreadView, rows: &[Fact]) -> Vec<Turn> {
    let first = view.turn_first_seq().unwrap_or(Seq::MAX);
    let is_older = |fact: &&Fact| fact.seq < first || matches!(fact.body, FactBody::Reverted(_));
    history(view.session(), rows.iter().filter(is_older))
}

/// The context window is a signal: of turns from the store, the usage that was seen live is not known any more.
fn forgive_usage(turns: &mut [Turn], seen: &[Turn], newest: Option<&str>) {
    for (turn, seen) in turns.iter_mut().zip(seen).filter(|(turn, _)| Some(turn.id.as_str()) != newest) {
        turn.token_usage.clone_from(&seen.token_usage);
    }
}

/// What clients cannot know of an item before its completion is taken out: replaced texts, and titles that changed.
fn known(mut turns: Vec<Turn>, world: &World) -> Vec<Turn> {
    for item in turns.iter_mut().flat_map(|turn| &mut turn.items) {
        let diverged = convert::item_seq(&item.id).is_some_and(|seq| world.diverged.contains(&seq));
        if diverged {
            item.body = ItemBody::ContextCompaction { summary: None };
            item.tool_call = None;
        }
        if item.completed_at_ms.is_some() {
            continue;
        }
        item.tool_call = None;
        if let ItemBody::McpToolCall { result, .. } = &mut item.body {
            *result = None;
        }
        if let ItemBody::DynamicToolCall { content_items, .. } = &mut item.body {
            *content_items = None;
        }
    }
    turns
}

proptest! {
    /// The view that was fed live, the one loaded from the store, and the one loaded from compacted rows are the same.
    #[test]
    fn a_view_is_the_same_live_stored_and_compacted(steps in prop::collection::vec(step(), 0..80)) {
        let world = without_signals(play(&steps));
        let live = live(&world.events, |_, _, _| ());
        let facts = stored(&world, &live);
        let rows = compact(&facts);
        for stored in [&facts, &rows] {
            let loaded = ThreadView::load(World::row(&world.events), stored.iter());
            prop_assert_eq!(loaded.turn(), live.turn());
            prop_assert_eq!(loaded.thread(), live.thread());
            prop_assert_eq!(loaded.settings(), live.settings());
            prop_assert_eq!(loaded.approvals(), live.approvals());
            prop_assert_eq!(bodies(loaded.joining()), bodies(live.joining()));
            prop_assert_eq!(loaded.turn_first_seq(), live.turn_first_seq());
        }
    }

    /// Older turns read from the store, compacted or not, are what the live view last held of them.
    #[test]
    fn history_is_what_was_seen_live(steps in prop::collection::vec(step(), 0..120)) {
        let world = without_signals(play(&steps));
        let mut seen: Vec<(Seq, Turn)> = Vec::new();
        live(&world.events, |view, place, _| {
            if let Event::Fact(Fact { body: FactBody::Reverted(reverted), .. }) = &world.events[place] {
                seen.retain(|(first, _)| *first < reverted.from_seq);
            }
            let (Some(first), Some(turn)) = (view.turn_first_seq(), view.turn()) else { return };
            seen.retain(|(known, _)| *known != first);
            seen.push((first, turn));
        });
        let seen: Vec<Turn> = seen.into_iter().map(|(_, turn)| turn).collect();
        let row = World::row(&world.events);
        let facts = world.facts();
        prop_assert_eq!(&history(&row, &facts), &seen);
        prop_assert_eq!(&history(&row, &compact(&facts)), &seen);
    }

    /// A client that only sees what it is sent ends with the same thread.
    #[test]
    fn a_client_knows_what_the_view_knows(steps in prop::collection::vec(step(), 0..120)) {
        let world = play(&steps);
        let mut client = Client::default();
        let view = live(&world.events, |_, _, effects| client.takes(&effects));
        let thread = view.thread();
        prop_assert_eq!(client.status, Some(thread.status));
        prop_assert_eq!(client.activity, Some(thread.activity));
        prop_assert_eq!(client.name, thread.name);
        prop_assert_eq!(client.archived, thread.archived);
        if let Some(settings) = client.settings {
            prop_assert_eq!(settings, view.settings());
        }
        let approvals: Vec<_> = client.approvals.into_values().map(|approval| approval.approval_id).collect();
        let waiting: Vec<_> = view.approvals().into_iter().map(|approval| approval.approval_id).collect();
        prop_assert_eq!(&approvals, &waiting);
        let asked: Vec<_> = client.requests.keys().cloned().collect();
        let asking: Vec<_> =
            view.server_requests().iter().map(|request| request.approval_id().to_owned()).collect();
        prop_assert_eq!(asked, asking);
        let mut turns = older(&view, &world.facts());
        let newest = view.turn();
        turns.extend(newest.clone());
        forgive_usage(&mut turns, &client.turns, newest.as_ref().map(|turn| turn.id.as_str()));
        prop_assert_eq!(known(client.turns, &world), known(turns, &world));
    }

    /// Whoever joins at any point, and whoever was there from the start, end with the same.
    #[test]
    fn joining_anywhere_leaves_nothing_out(
        steps in prop::collection::vec(step(), 1..80),
        at in any::<prop::sample::Index>(),
    ) {
        let world = play(&steps);
        let at = at.index(world.events.len());
        let mut first = Client::default();
        let mut joiner = None;
        let view = live(&world.events, |view, place, effects| {
            first.takes(&effects);
            match &mut joiner {
                None if place == at => {
                    let so_far = World::facts_of(&world.events[..=place]);
                    joiner = Some(Client::joins(view, older(view, &compact(&so_far))));
                }
                None => {}
                Some(joiner) => joiner.takes(&effects),
            }
        });
        let mut joiner = joiner.unwrap();
        let newest = view.turn().map(|turn| turn.id);
        forgive_usage(&mut joiner.turns, &first.turns, newest.as_deref());
        prop_assert_eq!(known(joiner.turns, &world), known(first.turns, &world));
        prop_assert_eq!(joiner.status, first.status);
        prop_assert_eq!(joiner.activity, first.activity);
        prop_assert_eq!(joiner.name, first.name);
        prop_assert_eq!(
            joiner.requests.keys().collect::<Vec<_>>(),
            first.requests.keys().collect::<Vec<_>>()
        );
    }
}
