//! Another session's chat as text: its newest words, under labels, within a bound. Pure.

use signalbox_facts::Seq;
use signalbox_protocol::ops::{Part, Role};

use crate::transcript::ItemEntry;

/// Turns of a chat that are looked at.
pub(super) const TURNS: u32 = 20;
/// Most scalars of a whole chat, header and marks included.
const MAX_SCALARS: usize = 16_000;
/// Most scalars of its title.
const MAX_TITLE: usize = 512;
/// Stands where something is missing.
const MARK: &str = "[earlier messages are left out]";

/// A chat as the agent gets it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Chat {
    pub(crate) text: String,
    /// Whether there is more of it than this.
    pub(crate) cut: bool,
}

/// The newest messages of a transcript page as text of at most 16,000 scalars: what user and agent said and the agent's
/// plans, without thoughts and tools. `older`: there are turns before the page.
///
/// Chunks of one message are joined as they are, messages of one side by a blank line. What does not fit is left out from
/// the beginning, whole messages first, and a mark says so.
#[must_use]
pub fn render(title: &str, entries: &[ItemEntry], older: bool) -> String {
    compose(title, entries, older).text
}

/// [`render`], and whether anything is left out.
pub(super) fn compose(title: &str, entries: &[ItemEntry], older: bool) -> Chat {
    let header = header(title);
    let blocks: Vec<String> = sides(entries).iter().map(Side::text).collect();
    let cost = |block: &String| 2 + scalars(block);
    let room = MAX_SCALARS - scalars(&header);
    let marked = 2 + scalars(MARK);
    let whole: usize = blocks.iter().map(cost).sum();
    if whole + if older { marked } else { 0 } <= room {
        return Chat { text: joined(&header, older, &blocks), cut: older };
    }
    let mut left = room - marked;
    let mut from = blocks.len();
    while from > 0 && cost(&blocks[from - 1]) <= left {
        from -= 1;
        left -= cost(&blocks[from]);
    }
    let text = match blocks.last() {
        // Not even the newest fits.
        Some(newest) if from == blocks.len() => joined(&header, true, &[tail(newest, left - 2)]),
        _ => joined(&header, true, &blocks[from..]),
    };
    Chat { text, cut: true }
}

/// Whether anybody has said anything.
pub(super) fn is_empty(entries: &[ItemEntry]) -> bool {
    sides(entries).is_empty()
}

fn joined(header: &str, mark: bool, blocks: &[String]) -> String {
    let mark = mark.then_some(MARK);
    let parts = std::iter::once(header).chain(mark).chain(blocks.iter().map(String::as_str));
    parts.collect::<Vec<_>>().join("\n\n")
}

fn header(title: &str) -> String {
    let words = title.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    let title: String = words.collect::<Vec<_>>().join(" ").chars().take(MAX_TITLE).collect();
    let title = if title.is_empty() { "Untitled" } else { &title };
    format!("**Chat: {title}**")
}

/// The label, an ellipsis, and the end of a block, all in so many scalars.
fn tail(block: &str, room: usize) -> String {
    let (label, text) = block.split_once('\n').unwrap_or(("", block));
    let kept = room.saturating_sub(scalars(label) + 2);
    let skipped = scalars(text).saturating_sub(kept);
    let end: String = text.chars().skip(skipped).collect();
    format!("{label}\n\u{2026}{end}")
}

/// What one side said before the other spoke again.
struct Side {
    role: Role,
    messages: Vec<Message>,
}

struct Message {
    item: Option<Seq>,
    text: String,
}

impl Side {
    fn text(&self) -> String {
        let label = match self.role {
            Role::User => "User:",
            Role::Agent => "Agent:",
        };
        let messages: Vec<&str> = self.messages.iter().map(|message| message.text.as_str()).collect();
        format!("{label}\n{}", messages.join("\n\n"))
    }
}

fn sides(entries: &[ItemEntry]) -> Vec<Side> {
    let mut sides: Vec<Side> = Vec::new();
    for (item, entry) in entries {
        let (text, whole) = match &entry.part {
            Part::Prompt { text, .. } => (text.clone(), true),
            Part::Text { text, .. } => (text.clone(), false),
            Part::Plan { entries } => {
                let lines: Vec<String> = entries.iter().map(|entry| format!("- {entry}")).collect();
                (lines.join("\n"), true)
            }
            Part::Reasoning { .. } | Part::ToolCall { .. } => continue,
        };
        let side = match sides.last_mut() {
            Some(side) if side.role == entry.role => side,
            _ => {
                if text.trim().is_empty() {
                    continue;
                }
                sides.push(Side { role: entry.role, messages: vec![Message { item: *item, text }] });
                continue;
            }
        };
        let same = side.messages.iter_mut().find(|message| item.is_some() && message.item == *item);
        match same {
            // A plan is told whole each time.
            Some(message) if whole => message.text = text,
            Some(message) => message.text.push_str(&text),
            None if text.trim().is_empty() => {}
            None => side.messages.push(Message { item: *item, text }),
        }
    }
    sides
}

fn scalars(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use signalbox_protocol::ops::TranscriptEntry;

    use super::*;

    fn entry(seq: u64, item: u64, role: Role, part: Part) -> ItemEntry {
        (Some(item), TranscriptEntry { seq, role, part, through_seq: None, continues: false })
    }

    fn user(seq: u64, text: &str) -> ItemEntry {
        entry(seq, seq, Role::User, Part::Prompt { text: text.to_owned(), display: String::new() })
    }

    fn says(seq: u64, item: u64, text: &str) -> ItemEntry {
        entry(seq, item, Role::Agent, Part::Text { text: text.to_owned(), message_id: None })
    }

    #[test]
    fn chunks_of_one_message_are_joined_without_gaps_and_messages_by_a_blank_line() {
        let entries = [
            user(1, "Say hello"),
            says(2, 2, "Hel"),
            says(3, 2, "lo\n"),
            says(4, 2, "  world"),
            says(5, 5, "Bye"),
        ];
        assert_eq!(
            render("A\ntitle", &entries, false),
            "**Chat: A title**\n\nUser:\nSay hello\n\nAgent:\nHello\n  world\n\nBye"
        );
    }

    #[test]
    fn thoughts_and_tools_are_left_out_and_plans_are_bullets() {
        let plan = |seq, lines: &[&str]| {
            let entries = lines.iter().map(|line| (*line).to_owned()).collect();
            entry(seq, 3, Role::Agent, Part::Plan { entries })
        };
        let tool = Part::ToolCall {
            id: "t".into(),
            title: "Secret tool".into(),
            status: "completed".into(),
            tool_kind: None,
            agent_input: None,
        };
        let entries = [
            user(1, "Go"),
            entry(2, 2, Role::Agent, Part::Reasoning { text: "secret thought".into() }),
            plan(3, &["verify"]),
            entry(4, 4, Role::Agent, tool),
            says(5, 5, "Do"),
            plan(6, &["verify", "release"]),
            says(7, 5, "ne."),
        ];
        assert_eq!(
            render("T", &entries, false),
            "**Chat: T**\n\nUser:\nGo\n\nAgent:\n- verify\n- release\n\nDone."
        );
    }

    #[test]
    fn prompts_that_steer_and_users_words_of_old_databases_count_as_the_users() {
        let mut old = says(1, 1, "old words");
        old.1.role = Role::User;
        let mut steer = user(3, "and more");
        steer.1.continues = true;
        let text = render("", &[old, says(2, 2, "yes"), steer], true);
        assert_eq!(
            text,
            "**Chat: Untitled**\n\n[earlier messages are left out]\n\nUser:\nold words\n\nAgent:\nyes\n\nUser:\nand more"
        );
    }

    #[test]
    fn a_newest_message_that_is_too_long_keeps_its_label_and_its_end() {
        let long = format!("{}LATEST_END", "漢".repeat(24_000));
        let text = render(
            "T",
            &[user(1, "OLDER TURN"), says(2, 2, "older"), user(3, "q"), says(4, 4, &long)],
            false,
        );
        assert_eq!(text.chars().count(), MAX_SCALARS);
        assert!(text.starts_with("**Chat: T**\n\n[earlier messages are left out]\n\nAgent:\n\u{2026}漢"));
        assert!(text.ends_with("漢LATEST_END") && !text.contains("OLDER TURN"));
    }

    #[test]
    fn whole_messages_are_left_out_from_the_beginning() {
        let entries: Vec<_> =
            (0..50).map(|n| user_or_agent(n, &format!("{n:03}{}", "x".repeat(997)))).collect();
        let chat = compose("T", &entries, false);
        assert!(
            chat.cut && chat.text.contains("\n049x") && chat.text.contains("\n035x"),
            "{}",
            chat.text.len()
        );
        assert!(!chat.text.contains("034") && chat.text.chars().count() <= MAX_SCALARS);
        assert!(!compose("T", &entries[..10], false).cut);
        assert!(is_empty(&[]) && is_empty(&[says(1, 1, " \n")]) && !is_empty(&entries));
    }

    #[test]
    fn a_title_is_bounded() {
        let text = render(&"é".repeat(600), &[user(1, "x")], false);
        assert_eq!(text.matches('é').count(), 512);
    }

    fn user_or_agent(n: u64, text: &str) -> ItemEntry {
        if n.is_multiple_of(2) { user(n, text) } else { says(n, n, text) }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn never_longer_than_the_bound_and_always_with_the_newest_end(
            sizes in prop::collection::vec((any::<bool>(), any::<bool>(), 0_usize..6_000), 1..12),
            letter in prop::sample::select(vec!['x', 'é', '漢', '😀']),
            title in "\\PC{0,600}",
            older in any::<bool>(),
        ) {
            let mut entries = Vec::new();
            let (mut seq, mut item) = (0, 0);
            for (is_user, same, size) in sizes {
                seq += 1;
                item = if same && seq > 1 { item } else { seq };
                let text = format!("{}<{seq}>", letter.to_string().repeat(size));
                entries.push(if is_user { user(seq, &text) } else { says(seq, item, &text) });
            }
            let text = render(&title, &entries, older);
            prop_assert!(text.chars().count() <= MAX_SCALARS);
            let end = format!("<{seq}>");
            prop_assert!(text.ends_with(&end), "{}", &text[text.len().saturating_sub(40)..].escape_debug());
            prop_assert_eq!(older && !text.contains(MARK), false);
        }
    }
}
