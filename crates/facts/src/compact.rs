//! Compaction: history costs items, not chunks.

use std::collections::HashMap;

use crate::{Fact, FactBody, Seq};

/// A joined text is not grown beyond this: rows stay of a size that can be read one at a time.
pub(crate) const JOINED_BYTES: usize = 1 << 20;

/// Joins all chunks of one item between two non-chunk facts of that item into the first of them, whatever lies
/// between. The joined fact keeps its first `seq` and time and covers up to its last `through_seq`. A text that would become
/// longer than a mebibyte goes on in a further row.
///
/// Projections must not be able to tell: applying the result equals applying the input.
#[must_use]
pub fn compact(facts: &[Fact]) -> Vec<Fact> {
    let mut out: Vec<Fact> = Vec::with_capacity(facts.len());
    // Item → place in `out` of the fact that further chunks of it join.
    let mut open: HashMap<Seq, usize> = HashMap::new();
    for fact in facts {
        let Some(item) = fact.item_seq else {
            out.push(fact.clone());
            continue;
        };
        if fact.body.is_chunk()
            && let Some(&place) = open.get(&item)
            && join(&mut out[place], fact)
        {
            continue;
        }
        if can_lead(&fact.body) {
            open.insert(item, out.len());
        } else {
            open.remove(&item);
        }
        out.push(fact.clone());
    }
    out
}

/// Whether chunks may be joined to a fact with this body.
fn can_lead(body: &FactBody) -> bool {
    matches!(body, FactBody::AgentText(_) | FactBody::AgentThought(_) | FactBody::ToolOutput(_))
}

/// Appends `next` to `first`; false if they are not chunks of the same kind in the same turn.
fn join(first: &mut Fact, next: &Fact) -> bool {
    if first.turn != next.turn {
        return false;
    }
    match (&mut first.body, &next.body) {
        (FactBody::AgentText(a), FactBody::AgentText(b))
        | (FactBody::AgentThought(a), FactBody::AgentThought(b)) => {
            if a.text.len() + b.text.len() > JOINED_BYTES {
                return false;
            }
            a.text.push_str(&b.text);
        }
        (FactBody::ToolOutput(a), FactBody::ToolOutput(b)) => {
            if a.text.len() + b.text.len() > JOINED_BYTES {
                return false;
            }
            a.text.push_str(&b.text);
        }
        _ => return false,
    }
    first.through_seq = next.through_seq;
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AgentText, SessionId, ToolOutput, TurnId};
    use uuid::Uuid;

    fn text(seq: Seq, item: Seq, text: &str) -> Fact {
        let body = FactBody::AgentText(AgentText { message_id: format!("m{item}"), text: text.into() });
        fact(seq, item, body)
    }

    fn output(seq: Seq, item: Seq, text: &str, replace: bool) -> Fact {
        fact(seq, item, FactBody::ToolOutput(ToolOutput { id: "t".into(), text: text.into(), replace }))
    }

    fn fact(seq: Seq, item: Seq, body: FactBody) -> Fact {
        Fact {
            session: SessionId(Uuid::nil()),
            turn: Some(TurnId(Uuid::nil())),
            seq,
            through_seq: seq,
            item_seq: Some(item),
            at_ms: i64::try_from(seq).unwrap(),
            body,
        }
    }

    #[test]
    fn chunks_of_interleaved_items_join_item_by_item() {
        let facts = [
            text(1, 1, "a"),
            output(2, 2, "x", false),
            text(3, 1, "b"),
            output(4, 2, "y", false),
            text(5, 1, "c"),
        ];
        let rows = compact(&facts);
        assert_eq!(rows.len(), 2);
        assert_eq!((rows[0].seq, rows[0].through_seq), (1, 5));
        assert_eq!((rows[1].seq, rows[1].through_seq), (2, 4));
        assert_eq!(rows[0].body, text(1, 1, "abc").body);
        assert_eq!(rows[1].body, output(2, 2, "xy", false).body);
    }

    #[test]
    fn a_replacing_chunk_starts_a_new_row_that_later_chunks_join() {
        let rows = compact(&[output(1, 1, "a", false), output(2, 1, "B", true), output(3, 1, "c", false)]);
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[1].body, output(2, 1, "Bc", true).body);
    }

    #[test]
    fn a_long_text_becomes_several_rows() {
        let long = "x".repeat(JOINED_BYTES / 2);
        let facts: Vec<Fact> = (1..=5).map(|seq| text(seq, 1, &long)).collect();
        let rows = compact(&facts);
        let covered: Vec<_> = rows.iter().map(|row| (row.seq, row.through_seq)).collect();
        assert_eq!(covered, [(1, 2), (3, 4), (5, 5)]);
        assert_eq!(compact(&rows), rows);
    }

    #[test]
    fn compacting_twice_changes_nothing() {
        let facts = [text(1, 1, "a"), text(2, 1, "b"), output(3, 3, "x", false), text(4, 1, "c")];
        let once = compact(&facts);
        assert_eq!(compact(&once), once);
    }
}
