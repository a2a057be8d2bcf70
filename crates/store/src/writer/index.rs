//! Feeds the search index: each prompt is a document, and each message of an answer, once its turn has ended.

use std::collections::HashMap;

use signalbox_facts::{Seq, SessionId};

use super::maintenance::Worker;
use crate::StoreError;
use crate::indexing::Gives;
use crate::sql::{Statement, integer};
use crate::words;

/// Rows read at a time.
const READ_ROWS: u32 = 1024;
/// Texts that are held before they are written.
const HELD_BYTES: usize = 1024 * 1024;
const HELD_DOCUMENTS: usize = 256;
/// What is beyond this of one text is not found.
pub(crate) const TEXT_BYTES: usize = 256 * 1024;
/// Sessions that one sweep marks at a time.
const SWEEP: u32 = 256;
/// Documents forgotten in one transaction.
const FORGET: u32 = 1024;

/// A prompt or message with all of its text so far.
struct Document {
    seq: Seq,
    through: Seq,
    item: Option<Seq>,
    text: String,
}

impl Worker {
    /// What waits for a look: texts that came late, turns whose compaction was not asked for, and after a start all that
    /// was left. True if there may be more of that.
    pub(super) async fn look(&self) -> bool {
        for session in self.indexing.waiting() {
            if let Some(gives) = self.indexing.take(session) {
                self.index_marked(session, gives).await;
            }
        }
        self.sweep().await.unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot look for what is not indexed");
            false
        })
    }

    /// Marks the next sessions that an earlier life of the server left unindexed. False if there are none.
    async fn sweep(&self) -> Result<bool, StoreError> {
        let Some(after) = self.indexing.sweep() else { return Ok(false) };
        let left = self.reader.unindexed(after, SWEEP).await?;
        self.indexing.found(&left);
        Ok(!left.is_empty())
    }

    /// Indexes a session that was taken from the marked ones.
    pub(super) async fn index_marked(&self, session: SessionId, gives: Gives) {
        if let Err(error) = self.index_taken(session, gives).await {
            tracing::warn!(%session, %error, "indexing for search failed; it is tried again later");
        }
    }

    async fn index_taken(&self, session: SessionId, gives: Gives) -> Result<(), StoreError> {
        let result = self.index(session, gives).await;
        self.indexing.done(session, result.is_err());
        result
    }

    /// Everything that there is now.
    pub(super) async fn index_all(&self) -> Result<(), StoreError> {
        loop {
            let more = self.sweep().await?;
            while let Some((session, gives)) = self.indexing.next() {
                self.index_taken(session, gives).await?;
            }
            if !more {
                break;
            }
        }
        for session in self.indexing.waiting() {
            if let Some(gives) = self.indexing.take(session) {
                self.index_taken(session, gives).await?;
            }
        }
        Ok(())
    }

    /// From the turn on in which something is not indexed. Killed in between, it goes on where it was.
    async fn index(&self, session: SessionId, gives: Gives) -> Result<(), StoreError> {
        // None: it was deleted meanwhile.
        let Some(place) = self.reader.index_place(session).await? else { return Ok(()) };
        // Pieces of an answer of a turn that goes on are nothing for the index yet.
        let nothing_whole = gives < Gives::Prompt && place.indexed >= place.whole;
        if place.indexed >= place.last || nothing_whole {
            return Ok(());
        }
        let mut held = Held::default();
        let mut from = place.from;
        loop {
            let rows = self.reader.texts(session, from, &place, READ_ROWS).await?;
            let Some(last) = rows.last().map(|row| row.through) else { break };
            from = last + 1;
            for row in rows {
                let known = row.item.filter(|item| held.written.contains_key(item));
                if let Some(first) = known.and_then(|item| held.written.remove(&item)) {
                    // More of a message that was written: the index takes it whole, instead of what it has.
                    let text = self.reader.text_of(session, first, row.seq - 1, row.item).await?;
                    held.add(Document { seq: first, through: row.seq - 1, item: row.item, text });
                }
                held.add(Document { seq: row.seq, through: row.through, item: row.item, text: row.text });
            }
            if held.bytes >= HELD_BYTES || held.documents.len() >= HELD_DOCUMENTS {
                self.put(session, &mut held, last.min(place.whole)).await?;
            }
        }
        self.put(session, &mut held, place.whole).await
    }

    /// Writes the documents that are held, and how far the session is indexed with them.
    async fn put(&self, session: SessionId, held: &mut Held, through: Seq) -> Result<(), StoreError> {
        let mut statements = Vec::with_capacity(held.documents.len() + 1);
        for document in held.documents.drain(..) {
            if let Some(item) = document.item {
                held.written.insert(item, document.seq);
            }
            // A document that is known as far is left as it is.
            let put = "delete from search_words where rowid = \
                 (select id from search_docs where session = ?1 and seq = ?2 and through_seq < ?3); \
                 insert into search_docs (session, seq, through_seq, item_seq) values (?1, ?2, ?3, ?4) \
                 on conflict (session, seq) do update set through_seq = ?3 where through_seq < ?3; \
                 insert into search_words (rowid, body) \
                 select id, ?5 from search_docs where session = ?1 and seq = ?2 and changes() = 1";
            let put = Statement::new(put)
                .id(session.0)
                .int(document.seq)
                .int(document.through)
                .bind(document.item.map(integer))
                .bind(words::indexed(&document.text).into_owned());
            statements.push((put, None));
        }
        held.open.clear();
        held.bytes = 0;
        let progress = "insert into search_progress (session, through_seq) values (?1, ?2) \
             on conflict (session) do update set through_seq = max(through_seq, ?2)";
        statements.push((Statement::new(progress).id(session.0).int(through), None));
        self.slice(session, statements).await
    }

    /// Takes a deleted session out of the index.
    pub(super) async fn forget_words(&self, session: SessionId) -> Result<(), StoreError> {
        while let Some(through) = self.reader.nth_document(session, FORGET).await? {
            let forget = "delete from search_words where rowid in \
                 (select id from search_docs where session = ?1 and seq <= ?2); \
                 delete from search_docs where session = ?1 and seq <= ?2";
            let forget = Statement::new(forget).id(session.0).int(through);
            self.slice(session, vec![(forget, None)]).await?;
        }
        Ok(())
    }
}

/// Documents that are not written yet.
#[derive(Default)]
struct Held {
    documents: Vec<Document>,
    /// Item → its document among them.
    open: HashMap<Seq, usize>,
    /// Items of documents that were written → their first seq.
    written: HashMap<Seq, Seq>,
    bytes: usize,
}

impl Held {
    fn add(&mut self, mut row: Document) {
        let open = row.item.and_then(|item| self.open.get(&item)).copied();
        if let Some(document) = open.and_then(|place| self.documents.get_mut(place)) {
            document.through = row.through;
            let before = document.text.len();
            words::append(&mut document.text, &row.text, TEXT_BYTES);
            self.bytes += document.text.len() - before;
            return;
        }
        if let Some(item) = row.item {
            self.open.insert(item, self.documents.len());
        }
        words::shorten(&mut row.text, TEXT_BYTES);
        self.bytes += row.text.len();
        self.documents.push(row);
    }
}

/// A row with text: a prompt, which is a document by itself and has no item here, or a piece of a message.
pub(crate) struct TextRow {
    pub(crate) seq: Seq,
    pub(crate) through: Seq,
    pub(crate) item: Option<Seq>,
    pub(crate) text: String,
}
