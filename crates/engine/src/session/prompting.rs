//! From a document to what the agent is prompted with, and what is told of it. How it is compiled is `prompt`'s.

use std::collections::BTreeMap;
use std::sync::Arc;

use signalbox_agents::PromptBlock;
use signalbox_facts::{AdditionalContext, DocBlock};

use super::actor::Actor;
use crate::prompt::{self, Document, Unresolved};

/// Unresolved references of one prompt that are told one by one.
const MAX_UNRESOLVED: usize = 64;

impl Actor {
    pub(super) fn document(
        &self,
        blocks: Vec<DocBlock>,
        context: BTreeMap<String, AdditionalContext>,
    ) -> Document {
        Document { blocks, context, roots: self.roots(), chats: BTreeMap::new() }
    }

    /// What the agent gets for a document. What could not be found is told, and the turn goes on without it.
    pub(super) async fn compiled(
        &mut self,
        document: Document,
        request_id: Option<String>,
    ) -> Vec<PromptBlock> {
        let core = Arc::clone(&self.core);
        let compiled = prompt::compile_document(&core.stores, self.row.id, document, &core.sources).await;
        self.tell_unresolved(&compiled.unresolved, request_id).await;
        compiled.into_blocks()
    }

    async fn tell_unresolved(&mut self, unresolved: &[Unresolved], request_id: Option<String>) {
        for missing in unresolved.iter().take(MAX_UNRESOLVED) {
            let message = format!("unresolved reference {}: {}", missing.reference, missing.reason);
            self.warn("unresolved_reference", message, request_id.clone());
        }
        if let Some(more) = unresolved.len().checked_sub(MAX_UNRESOLVED).filter(|more| *more > 0) {
            self.warn("unresolved_reference", format!("{more} more references are unresolved"), request_id);
        }
        self.commit().await;
    }

    /// Compiles what opened the turn, once.
    pub(super) async fn compile_opened(&mut self) {
        let Some(open) = &mut self.turn else { return };
        let Some(document) = open.uncompiled.take() else { return };
        let request_id = open.request_id.clone();
        let blocks = self.compiled(document, request_id).await;
        if let Some(open) = &mut self.turn {
            open.waiting = Some(blocks);
        }
    }

    /// Whether a command for the agent itself waits, such as `/compact`. It must be the first that the agent reads.
    pub(super) fn is_command(&self) -> bool {
        let first = self.turn.as_ref().and_then(|open| open.waiting.as_ref()?.first());
        matches!(first, Some(PromptBlock::Text(text)) if text.starts_with('/'))
    }

    /// What goes before the first prompt of a new conversation; nothing before later ones.
    pub(super) async fn opening(&mut self) -> Vec<PromptBlock> {
        let Some(opening) = self.agent.as_mut().and_then(|live| live.opening.take()) else {
            return Vec::new();
        };
        let core = Arc::clone(&self.core);
        let mut opening = opening;
        opening.history.before = self.turn.as_ref().map(|turn| turn.prompt_seq);
        let compiled = prompt::opening(&core.stores, opening, &core.sources).await;
        let request_id = self.turn.as_ref().and_then(|turn| turn.request_id.clone());
        if compiled.pieces.iter().any(|piece| piece.from == prompt::MadeFrom::History) {
            let message = "The agent begins a new conversation; the newest part of the thread's history is given to \
                           it as context.";
            self.warn("context_primed", message, request_id.clone());
        }
        for omission in compiled.omissions.iter().filter(|omission| omission.reference != "history") {
            self.warn(
                "rules_cut",
                format!("{}: {}", omission.reference, omission.reason),
                request_id.clone(),
            );
        }
        self.tell_unresolved(&compiled.unresolved, request_id).await;
        compiled.into_blocks()
    }
}
