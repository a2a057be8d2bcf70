//! Stories of agents' updates and the facts they become.

use std::fmt::Write as _;

use super::*;
use crate::shown::MAX_MEDIA_BYTES;
use serde_json::json;
use signalbox_facts::{Committed, FileChangeKind, PlanEntry, PlanStatus, SessionId};
use uuid::Uuid;

struct Story {
    items: Items,
    batch: Batch,
    turn: TurnId,
}

impl Story {
    fn new() -> Self {
        Self {
            items: Items::new("/repo".into()),
            batch: Batch::new(SessionId(Uuid::nil()), 0, 0),
            turn: TurnId(Uuid::nil()),
        }
    }

    fn says(&mut self, text: &str) -> &mut Self {
        let chunk = TextChunk { message_id: None, text: text.into() };
        self.items.text(&mut self.batch, self.turn, false, chunk);
        self
    }

    fn thinks(&mut self, text: &str) -> &mut Self {
        let chunk = TextChunk { message_id: None, text: text.into() };
        self.items.text(&mut self.batch, self.turn, true, chunk);
        self
    }

    fn tool(&mut self, patch: ToolPatch) -> &mut Self {
        self.items.tool(&mut self.batch, self.turn, patch, false);
        self
    }

    /// `seq item: what`, a line a fact.
    fn facts(self) -> String {
        let mut lines = String::new();
        for committed in self.batch.seal().1 {
            let Committed::Fact(fact) = committed else { continue };
            let what = match &fact.body {
                FactBody::AgentText(text) => format!("says {:?}", text.text),
                FactBody::AgentThought(text) => format!("thinks {:?}", text.text),
                FactBody::ToolOutput(output) => {
                    format!("{} {:?}", if output.replace { "output is" } else { "output" }, output.text)
                }
                FactBody::ToolCall(call) => {
                    let outcome = call.outcome.map(|outcome| format!(" {outcome:?}")).unwrap_or_default();
                    format!("{:?} {:?} {:?}{outcome}", call.item, call.title, call.status)
                }
                FactBody::Plan(plan) => format!("plan of {}", plan.entries.len()),
                other => other.kind().to_owned(),
            };
            writeln!(lines, "{} i{}: {what}", fact.seq, fact.item_seq.unwrap()).unwrap();
        }
        lines
    }
}

fn patch(id: &str) -> ToolPatch {
    ToolPatch { id: id.into(), ..ToolPatch::default() }
}

fn command(id: &str, status: ToolStatus) -> ToolPatch {
    ToolPatch {
        command: Some("ls".into()),
        title: Some("ls".into()),
        kind: Some("execute".into()),
        status: Some(status),
        ..patch(id)
    }
}

fn output(id: &str, text: &str) -> ToolPatch {
    ToolPatch { output: Some(OutputPatch::Append(text.into())), ..patch(id) }
}

#[test]
fn a_message_ends_where_another_item_starts_but_not_at_output() {
    let mut story = Story::new();
    story.thinks("hm").says("Hel").says("lo").tool(command("t", ToolStatus::InProgress)).says("Now ");
    story
        .tool(output("t", "a\n"))
        .says("see.")
        .tool(ToolPatch { status: Some(ToolStatus::Completed), ..patch("t") });
    assert_eq!(
        story.facts(),
        "1 i1: thinks \"hm\"\n\
         2 i2: says \"Hello\"\n\
         3 i3: CommandExecution \"ls\" InProgress\n\
         4 i4: says \"Now \"\n\
         5 i3: output \"a\\n\"\n\
         6 i4: says \"see.\"\n\
         7 i3: CommandExecution \"ls\" Completed\n"
    );
}

#[test]
fn a_call_without_a_kind_is_held_back_until_it_has_one() {
    let mut story = Story::new();
    story.tool(ToolPatch { title: Some("run_terminal_command".into()), ..patch("t") });
    assert!(story.batch.is_empty());
    story.tool(ToolPatch { kind: Some("execute".into()), title: Some("bash".into()), ..patch("t") });
    assert!(story.batch.is_empty(), "nor is a command shown before its line is known");
    let command = ToolPatch { command: Some("git log".into()), title: Some("git log".into()), ..patch("t") };
    story.tool(command);
    assert_eq!(story.facts(), "1 i1: CommandExecution \"git log\" Pending\n");
}

#[test]
fn a_command_that_runs_is_shown_even_if_only_its_title_is_known() {
    let mut story = Story::new();
    let running = Some(ToolStatus::InProgress);
    story.tool(ToolPatch {
        kind: Some("execute".into()),
        title: Some("make".into()),
        status: running,
        ..patch("t")
    });
    assert_eq!(story.items.call("t").unwrap().0.command.as_deref(), Some("make"));
    assert_eq!(story.facts(), "1 i1: CommandExecution \"make\" InProgress\n");
}

#[test]
fn a_call_that_comes_whole_is_open_while_its_output_comes() {
    let mut story = Story::new();
    story.tool(ToolPatch {
        output: Some(OutputPatch::Append("out".into())),
        ..command("t", ToolStatus::Completed)
    });
    assert_eq!(
        story.facts(),
        "1 i1: CommandExecution \"ls\" InProgress\n\
         2 i1: output \"out\"\n\
         3 i1: CommandExecution \"ls\" Completed\n"
    );
}

#[test]
fn output_told_again_shows_only_what_is_new_and_text_beside_it_is_none() {
    let mut story = Story::new();
    let text = |text: &str| Some(vec![ToolPart::Content(Content::Text(text.into()))]);
    story.tool(ToolPatch { content: text("lists files"), ..patch("t") });
    story.tool(command("t", ToolStatus::InProgress));
    for so_far in ["a\n", "a\nb\n", "a\nb\n"] {
        story.tool(ToolPatch {
            content: text("lists files"),
            output: Some(OutputPatch::Replace(so_far.into())),
            ..patch("t")
        });
    }
    assert_eq!(story.facts(), "1 i1: CommandExecution \"ls\" InProgress\n2 i1: output \"a\\nb\\n\"\n");
}

#[test]
fn text_of_a_call_that_comes_in_chunks_is_stored_once_and_cut_with_a_mark() {
    let read = |status| ToolPatch { kind: Some("read".into()), status: Some(status), ..patch("t") };
    let mut story = Story::new();
    story.tool(ToolPatch {
        content: Some(vec![ToolPart::Content(Content::Text("first".into()))]),
        ..read(ToolStatus::InProgress)
    });
    // What was content goes on as output.
    story.tool(ToolPatch { content: Some(Vec::new()), ..output("t", "first\n") });
    for n in 0..2_000 {
        story.tool(output("t", &format!("{n:04}{}\n", "x".repeat(1_019))));
    }
    story.tool(read(ToolStatus::Completed));
    let (mut shown, mut content, mut facts, mut bytes) = (String::new(), None, 0, 0);
    for committed in story.batch.seal().1 {
        let Committed::Fact(fact) = committed else { continue };
        facts += 1;
        match &fact.body {
            FactBody::ToolOutput(output) => {
                assert!(!output.replace);
                bytes += output.text.len();
                shown.push_str(&output.text);
            }
            FactBody::ToolCall(call) => content = call.content.clone().or(content),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(content, Some(Vec::new()));
    assert!(facts < 1_100 && bytes < (1 << 20) + (65 << 10), "{facts} facts of {bytes} bytes");
    assert!(shown.starts_with("first\n0000xxx"));
    assert!(shown.contains("bytes of output left out …]\n") && shown.ends_with("x\n"));
}

#[test]
fn status_does_not_go_back_and_repetitions_are_no_facts() {
    let mut story = Story::new();
    story.tool(command("t", ToolStatus::InProgress)).tool(command("t", ToolStatus::Pending));
    story.tool(ToolPatch { kind: Some("other".into()), ..patch("t") });
    assert_eq!(story.facts(), "1 i1: CommandExecution \"ls\" InProgress\n");
}

#[test]
fn an_id_may_come_back_for_another_call() {
    let mut story = Story::new();
    story.tool(command("t", ToolStatus::Completed)).tool(command("t", ToolStatus::Pending));
    assert_eq!(
        story.facts(),
        "1 i1: CommandExecution \"ls\" Completed\n2 i2: CommandExecution \"ls\" Pending\n"
    );
}

#[test]
fn what_is_still_told_of_a_call_of_an_earlier_turn_makes_none_in_this_one() {
    let mut story = Story::new();
    story.tool(command("t", ToolStatus::InProgress));
    story.items.close_open(&mut story.batch, story.turn, ToolOutcome::Interrupted);
    story.items = story.items.of_next_turn("/repo".into());
    story.tool(output("t", "on and on")).tool(command("t", ToolStatus::Completed));
    assert!(story.items.call("t").is_none());
    // The same id again, for another call: said so, or begun.
    story.tool(ToolPatch { announced: true, ..command("t", ToolStatus::Completed) });
    story.items = story.items.of_next_turn("/repo".into());
    story.tool(command("t", ToolStatus::InProgress)).tool(output("t", "more"));
    assert_eq!(
        story.facts(),
        "1 i1: CommandExecution \"ls\" InProgress\n\
         2 i1: CommandExecution \"ls\" Failed Interrupted\n\
         3 i3: CommandExecution \"ls\" Completed\n\
         4 i4: CommandExecution \"ls\" InProgress\n\
         5 i4: output \"more\"\n"
    );
}

#[test]
fn a_declined_call_is_declined_however_the_agent_closes_it() {
    let mut story = Story::new();
    story.tool(command("a", ToolStatus::Pending)).tool(command("b", ToolStatus::Pending));
    story.items.declined("a");
    story.items.declined("b");
    story.tool(ToolPatch { status: Some(ToolStatus::Completed), ..patch("a") });
    story.items.close_open(&mut story.batch, story.turn, ToolOutcome::Unfinished);
    assert!(!story.items.has_open_tool());
    assert_eq!(
        story.facts(),
        "1 i1: CommandExecution \"ls\" Pending\n\
         2 i2: CommandExecution \"ls\" Pending\n\
         3 i1: CommandExecution \"ls\" Failed Declined\n\
         4 i2: CommandExecution \"ls\" Failed Declined\n"
    );
}

#[test]
fn what_was_held_back_is_shown_when_the_turn_ends() {
    let mut story = Story::new();
    story.tool(ToolPatch { title: Some("thing".into()), ..patch("t") });
    story.items.close_open(&mut story.batch, story.turn, ToolOutcome::Unfinished);
    assert_eq!(story.facts(), "1 i1: DynamicToolCall \"thing\" Failed Unfinished\n");
}

#[test]
fn a_diff_makes_a_file_change_with_locations() {
    let mut story = Story::new();
    let diff = ToolPart::Diff { path: "a.txt".into(), old_text: None, new_text: "x\n".into() };
    story.tool(ToolPatch { kind: Some("edit".into()), content: Some(vec![diff]), ..patch("t") });
    let (call, _) = story.items.call("t").unwrap();
    assert_eq!(call.locations[0].path, PathBuf::from("/repo/a.txt"));
    assert_eq!(call.diffs, None, "kept in the fact, not in memory");
    assert_eq!(story.facts(), "1 i1: FileChange \"Tool call\" Pending\n");
}

#[test]
fn a_diff_that_comes_as_one_is_kept_and_bounded() {
    let mut story = Story::new();
    let gone = FileDiff {
        path: "/repo/a.txt".into(),
        kind: FileChangeKind::Delete,
        unified: "@@ -1 +0,0 @@\n-x\n".into(),
        truncated: false,
    };
    let long = FileDiff {
        path: "/repo/b.txt".into(),
        kind: FileChangeKind::Add,
        unified: format!("@@ -0,0 +1,400000 @@\n{}", "+line\n".repeat(400_000)),
        truncated: false,
    };
    let parts = vec![ToolPart::Patch(gone.clone()), ToolPart::Patch(long)];
    let status = Some(ToolStatus::Completed);
    story.tool(ToolPatch { kind: Some("edit".into()), status, content: Some(parts), ..patch("t") });
    let diffs: Vec<_> = story.items.file_diffs().collect();
    assert_eq!((diffs.len(), diffs[0]), (2, &gone));
    assert!(diffs[1].truncated && diffs[1].unified.ends_with("+line\n"));
}

#[test]
fn an_unchanged_plan_is_no_fact() {
    let mut story = Story::new();
    let plan = || PlanPatch {
        entries: vec![PlanEntry { content: "do".into(), priority: None, status: PlanStatus::Pending }],
        ..PlanPatch::default()
    };
    story.items.plan(&mut story.batch, story.turn, plan());
    story.items.plan(&mut story.batch, story.turn, plan());
    story.items.plan(&mut story.batch, story.turn, PlanPatch::default());
    assert_eq!(story.facts(), "1 i1: plan of 1\n2 i1: plan of 0\n");
}

fn pieces(story: Story) -> Vec<(String, Vec<ToolContent>)> {
    let calls = story.batch.seal().1.into_iter().filter_map(|committed| match committed {
        Committed::Fact(fact) => match &fact.body {
            FactBody::ToolCall(call) => Some((call.title.clone(), call.content.clone()?)),
            _ => None,
        },
        Committed::Signal(_) => None,
    });
    calls.collect()
}

#[test]
fn an_image_in_an_answer_is_an_item_of_its_own_that_can_be_shown() {
    let mut story = Story::new();
    story.says("See:");
    let image = |data: &str| Content::Image { mime: "image/png".into(), data: data.into(), uri: None };
    let (batch, turn) = (&mut story.batch, story.turn);
    story.items.content(batch, turn, false, None, image("AAAA"));
    story.items.content(
        batch,
        turn,
        false,
        None,
        Content::Link { uri: "https://x/".into(), name: "X".into() },
    );
    let long = "A".repeat(MAX_MEDIA_BYTES + 4);
    story.items.content(batch, turn, true, None, image(&long));
    let facts = story.facts();
    let lines: Vec<_> = facts.lines().collect();
    assert_eq!(
        lines[..3],
        [
            "1 i1: says \"See:\"",
            "2 i2: DynamicToolCall \"Image\" Completed",
            "3 i3: says \"[X](https://x/)\""
        ]
    );
    assert_eq!(lines[3], "4 i4: thinks \"[image, image/png, 3145731 bytes]\"");
}

#[test]
fn every_kind_of_content_of_a_call_is_shown() {
    let mut story = Story::new();
    let blob = |mime: &str| Content::Resource {
        uri: "file:///a".into(),
        mime: Some(mime.into()),
        text: None,
        blob: Some("AAAA".into()),
    };
    let text =
        Content::Resource { uri: "file:///a".into(), mime: None, text: Some("words".into()), blob: None };
    let all = [
        Content::Audio { mime: "audio/wav".into(), data: "AAAA".into() },
        blob("image/gif"),
        blob("application/zip"),
        text,
        Content::Unknown(json!({"type":"hologram"})),
    ];
    let mut content: Vec<ToolPart> = all.into_iter().map(ToolPart::Content).collect();
    content.push(ToolPart::Session { id: "c".into() });
    story.tool(ToolPatch { kind: Some("fetch".into()), content: Some(content), ..patch("t") });
    let (_, shown) = pieces(story).remove(0);
    let text = |text: &str| ToolContent::Text { text: text.into() };
    assert_eq!(
        shown,
        [
            ToolContent::Audio { url: "data:audio/wav;base64,AAAA".into() },
            ToolContent::Image { url: "data:image/gif;base64,AAAA".into() },
            text("[resource file:///a, application/zip, 3 bytes]"),
            ToolContent::Link { uri: "file:///a".into(), name: "file:///a".into() },
            text("words"),
            text("{\"type\":\"hologram\"}"),
            text("[session c]"),
        ]
    );
}

#[test]
fn a_result_that_is_shown_nowhere_else_is_shown_whatever_it_is() {
    let results = [
        (json!("plain"), "plain"),
        (json!({"output": "words", "more": 1}), "words"),
        (json!({"count": 3}), "{\"count\":3}"),
        (json!([1, 2]), "[1,2]"),
    ];
    for (result, expected) in results {
        let mut story = Story::new();
        story.tool(ToolPatch { kind: Some("search".into()), ..patch("t") });
        story.tool(ToolPatch {
            status: Some(ToolStatus::Completed),
            raw_output: Some(result.clone()),
            ..patch("t")
        });
        let shown = pieces(story).remove(0).1;
        assert_eq!(shown, [ToolContent::Text { text: expected.into() }], "{result}");
    }
    let mut story = Story::new();
    let content = Some(vec![ToolPart::Content(Content::Text("seen".into()))]);
    story.tool(ToolPatch { kind: Some("search".into()), content, ..patch("t") });
    story.tool(ToolPatch {
        status: Some(ToolStatus::Completed),
        raw_output: Some(json!("again")),
        ..patch("t")
    });
    assert_eq!(pieces(story).len(), 1, "what was shown is not shown again");
}

#[test]
fn a_failed_edit_says_why() {
    let mut story = Story::new();
    story.tool(ToolPatch { kind: Some("edit".into()), ..patch("t") });
    let content = Some(vec![ToolPart::Content(Content::Text("No such line.".into()))]);
    story.tool(ToolPatch { status: Some(ToolStatus::Failed), content, ..patch("t") });
    let (call, _) = story.items.call("t").unwrap();
    assert_eq!(call.error.as_deref(), Some("No such line."));
}

#[test]
fn each_plan_of_an_agent_is_an_item_and_a_removed_one_is_empty() {
    let mut story = Story::new();
    let mut plans = |id: &str, entries: &[&str]| {
        let entry = |content: &&str| PlanEntry {
            content: (*content).into(),
            priority: None,
            status: PlanStatus::Pending,
        };
        let entries = entries.iter().map(entry).collect();
        let patch = PlanPatch { id: Some(id.into()), entries, markdown: None };
        story.items.plan(&mut story.batch, story.turn, patch);
    };
    plans("a", &["one"]);
    plans("b", &["two", "three"]);
    plans("a", &["one", "more"]);
    plans("b", &[]);
    plans("c", &[]);
    assert_eq!(story.facts(), "1 i1: plan of 1\n2 i2: plan of 2\n3 i1: plan of 2\n4 i2: plan of 0\n");
}

#[test]
fn a_compactions_summary_comes_with_its_end_or_behind_it() {
    let mut story = Story::new();
    let (items, batch, turn) = (&mut story.items, &mut story.batch, story.turn);
    items.compaction(batch, turn, "k".into(), CompactionStatus::InProgress, None);
    items.compaction_summary(batch, turn, "k".into(), "What ");
    items.compaction_summary(batch, turn, "k".into(), "was.");
    items.compaction(batch, turn, "k".into(), CompactionStatus::Completed, None);
    items.compaction_summary(batch, turn, "k".into(), " And more.");
    let summaries = story.batch.seal().1.into_iter().filter_map(|committed| match committed {
        Committed::Fact(fact) => match &fact.body {
            FactBody::ContextCompaction(compaction) => Some(compaction.summary.clone()),
            _ => None,
        },
        Committed::Signal(_) => None,
    });
    let summaries: Vec<_> = summaries.collect();
    assert_eq!(summaries, [None, Some("What was.".to_owned()), Some("What was. And more.".to_owned())]);
}
