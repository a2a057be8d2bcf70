//! Pages over whatever histories an engine may write, while it goes on writing.

use std::collections::HashMap;

use proptest::prelude::*;
use signalbox_facts::{Fact, FactBody, Seq, SessionRow, TurnId};
use signalbox_protocol::app::{ThreadItem, Turn, TurnItemsView};
use signalbox_store::{Commit, ItemQuery, Store};

use super::turns::{PAGE_BYTES, Wanted};
use super::{items, turns};
use crate::view::history;
use crate::view::tests::properties::{Step, play, step};
use crate::view::tests::world::{Event, session};

/// A store into which a history is written piece by piece.
struct Writing {
    store: Store,
    facts: Vec<Fact>,
    stored: usize,
}

impl Writing {
    async fn new(steps: &[Step]) -> Self {
        let world = play(steps);
        let fact = |event| match event {
            Event::Fact(mut fact) => {
                // A store takes the same message once.
                if let FactBody::Prompt(prompt) = &mut fact.body {
                    prompt.client_message_id = None;
                }
                Some(fact)
            }
            Event::Signal(_) => None,
        };
        let facts = world.events.into_iter().filter_map(fact).collect();
        let mut writing = Self { store: Store::in_memory().await.unwrap(), facts, stored: 0 };
        writing.write(1).await;
        writing
    }

    /// Writes the next facts, and joins the chunks of the turns that ended among them.
    async fn write(&mut self, count: usize) {
        let from = self.stored;
        let mut to = (from + count).min(self.facts.len());
        // A turn begins and ends in one commit each.
        while to < self.facts.len() && from < to && is_open(&self.facts[to - 1].body) {
            to += 1;
        }
        if from == to {
            return;
        }
        let facts = self.facts[from..to].to_vec();
        let ended: Vec<TurnId> =
            facts.iter().filter(|fact| is_end(&fact.body)).filter_map(|fact| fact.turn).collect();
        self.store.writer.commit(Commit::facts(session(), from as Seq, facts)).await.unwrap();
        for turn in ended {
            self.store.writer.compact(session(), turn).await.unwrap();
        }
        self.stored = to;
    }

    /// The turns as they are now, by their first seq.
    fn now(&self) -> Vec<Turn> {
        let facts = &self.facts[..self.stored];
        let mut row = SessionRow::created(&facts[0]).unwrap();
        facts[1..].iter().for_each(|fact| row.apply(fact));
        history(&row, facts)
    }

    async fn page(&self, wanted: Wanted) -> turns::Page {
        let mut moment = self.store.reader.moment(session()).await.unwrap().unwrap();
        let page = turns::page(&mut moment, wanted).await.unwrap();
        moment.end().await.unwrap();
        page
    }

    async fn items(&self, query: ItemQuery, bytes: usize) -> items::Items {
        let mut moment = self.store.reader.moment(session()).await.unwrap().unwrap();
        let page = items::read(&mut moment, query, bytes, |item| item).await.unwrap();
        moment.end().await.unwrap();
        page
    }
}

/// What comes right behind it is of the same commit.
fn is_open(body: &FactBody) -> bool {
    matches!(body, FactBody::Activity(_))
}

fn is_end(body: &FactBody) -> bool {
    matches!(body, FactBody::TurnEnded(_))
}

/// What a page held, by id in its order, and all there was at that moment.
type Page<T> = (Vec<(String, T)>, HashMap<String, T>);

/// What the pages held, in order, must be: each thing once, each as it was when its page was read, and everything that was
/// there from the first page to the last.
fn check<T: PartialEq + std::fmt::Debug>(
    pages: &[Page<T>],
    first: &[String],
    last: &[String],
) -> Result<(), TestCaseError> {
    let mut ids = Vec::new();
    for (page, moment) in pages {
        for (id, thing) in page {
            prop_assert_eq!(Some(thing), moment.get(id), "{} as it was", id);
            ids.push(id.clone());
        }
    }
    let mut once = ids.clone();
    once.sort();
    once.dedup();
    prop_assert_eq!(once.len(), ids.len(), "repeated: {:?}", ids);
    let always: Vec<&String> = first.iter().filter(|id| last.contains(id)).collect();
    let found: Vec<&String> = ids.iter().filter(|id| always.contains(id)).collect();
    prop_assert_eq!(found, always);
    Ok(())
}

fn turns_by_id(turns: Vec<Turn>) -> Vec<(String, Turn)> {
    turns.into_iter().map(|turn| (turn.id.clone(), turn)).collect()
}

fn items_by_id(turns: Vec<Turn>) -> Vec<(String, ThreadItem)> {
    turns.into_iter().flat_map(|turn| turn.items).map(|item| (item.id.clone(), item)).collect()
}

fn ids<T>(things: &[(String, T)], ascending: bool) -> Vec<String> {
    let mut ids: Vec<String> = things.iter().map(|(id, _)| id.clone()).collect();
    if !ascending {
        ids.reverse();
    }
    ids
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Pages of turns, one after the other in either direction, of any lengths, while turns are added, steered, joined
    /// late, compacted and reverted.
    #[test]
    fn pages_of_turns_neither_repeat_nor_skip(
        steps in prop::collection::vec(step(), 0..140),
        written in prop::collection::vec(0..40_usize, 1..12),
        limits in prop::collection::vec(1..4_usize, 1..6),
        ascending in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut writing = Writing::new(&steps).await;
            writing.write(if ascending { 20 } else { 80 }).await;
            let first = ids(&turns_by_id(writing.now()), ascending);
            let mut pages = Vec::new();
            let (mut after, mut before) = (0, Seq::MAX >> 1);
            for count in written.iter().copied().chain(std::iter::repeat(0)) {
                let limit = limits[pages.len() % limits.len()];
                let view = TurnItemsView::Full;
                let wanted = Wanted { after, before, ascending, limit, bytes: PAGE_BYTES, least_one: true, view };
                let page = writing.page(wanted).await;
                prop_assert!(page.turns.len() <= limit);
                pages.push((turns_by_id(page.turns), turns_by_id(writing.now()).into_iter().collect()));
                let Some((_, last)) = page.ends.filter(|_| page.more) else { break };
                if ascending { after = last } else { before = last }
                writing.write(count).await;
            }
            let last = ids(&turns_by_id(writing.now()), ascending);
            check(&pages, if ascending { &last } else { &first }, &last)
        })?;
    }

    /// The same of items, with a bound in bytes that a few of them fill.
    #[test]
    fn pages_of_items_neither_repeat_nor_skip(
        steps in prop::collection::vec(step(), 0..140),
        written in prop::collection::vec(0..30_usize, 1..12),
        limits in prop::collection::vec(1..8_u32, 1..6),
        bytes in 1..4000_usize,
        ascending in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut writing = Writing::new(&steps).await;
            writing.write(if ascending { 20 } else { 80 }).await;
            let first = ids(&items_by_id(writing.now()), ascending);
            let mut pages = Vec::new();
            let (mut after, mut before) = (0, Seq::MAX >> 1);
            for count in written.iter().copied().chain(std::iter::repeat(0)) {
                let limit = limits[pages.len() % limits.len()];
                let query = ItemQuery { after, before, messages: false, ascending, limit };
                let page = writing.items(query, bytes).await;
                let last = page.entries.last().map(|entry| entry.seq);
                let more = page.more;
                let found = page.entries.into_iter().map(|entry| (entry.item.id.clone(), entry.item)).collect();
                pages.push((found, items_by_id(writing.now()).into_iter().collect()));
                let Some(last) = last.filter(|_| more) else { break };
                if ascending { after = last } else { before = last }
                writing.write(count).await;
            }
            let last = ids(&items_by_id(writing.now()), ascending);
            check(&pages, if ascending { &last } else { &first }, &last)
        })?;
    }

    /// All whole turns are the history.
    #[test]
    fn whole_turns_are_the_history(steps in prop::collection::vec(step(), 0..140)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut writing = Writing::new(&steps).await;
            writing.write(usize::MAX >> 1).await;
            let mut moment = writing.store.reader.moment(session()).await.unwrap().unwrap();
            let row = moment.session().clone();
            let whole = turns::whole(&mut moment, &row, 0, Seq::MAX >> 1, PAGE_BYTES).await.unwrap().unwrap();
            let whole: Vec<Turn> = whole.into_iter().map(|(turn, _)| turn).collect();
            prop_assert_eq!(whole, writing.now());
            let none = turns::whole(&mut moment, &row, 0, Seq::MAX >> 1, 10).await.unwrap();
            prop_assert_eq!(none.is_none(), !writing.now().is_empty());
            moment.end().await.unwrap();
            Ok(())
        })?;
    }
}
