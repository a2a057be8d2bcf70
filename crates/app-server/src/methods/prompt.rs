//! What an input would become.

use signalbox_engine::prompt::{Compiled, MadeFrom, Piece, PieceKind};
use signalbox_protocol::app::{
    PreviewBlock, PreviewKind, PreviewNote, PreviewSource, PromptPreviewParams, PromptPreviewResult, method,
};
use signalbox_rpc::{Ctx, Lane, MethodSpec, Registry, Role};

use super::turn::document;
use crate::app::{AppServer, session_id};
use crate::errors::Error;

/// Bytes of text shown of one block, and of all.
const BLOCK_BYTES: usize = 16 << 10;
const ALL_BYTES: usize = 512 << 10;

pub(super) fn register(registry: &mut Registry<AppServer>) {
    registry.method(
        MethodSpec::new(
            method::PROMPT_PREVIEW,
            Lane::Concurrent,
            "What an input would become as the next prompt of a thread: the blocks that the agent would get, what they \
             leave out, and what cannot be found. Nothing is sent, and no agent is started.",
        )
        .role(Role::Operator),
        preview,
    );
}

async fn preview(ctx: Ctx<AppServer>, params: PromptPreviewParams) -> Result<PromptPreviewResult, Error> {
    let session = session_id(&params.thread_id)?;
    let doc = document(params.input)?;
    let Compiled { pieces, omissions, unresolved } =
        ctx.app().engine().preview_prompt(session, doc, params.additional_context).await?;
    let mut left = ALL_BYTES;
    Ok(PromptPreviewResult {
        blocks: pieces.iter().map(|piece| block(piece, &mut left)).collect(),
        omissions: omissions
            .into_iter()
            .map(|omission| PreviewNote { reference: omission.reference, reason: omission.reason })
            .collect(),
        unresolved: unresolved
            .into_iter()
            .map(|missing| PreviewNote { reference: missing.reference, reason: missing.reason })
            .collect(),
    })
}

fn block(piece: &Piece, left: &mut usize) -> PreviewBlock {
    let whole = piece.text();
    let text = whole.map(|text| beginning(text, BLOCK_BYTES.min(*left)));
    *left -= text.map_or(0, str::len);
    PreviewBlock {
        kind: match piece.kind() {
            PieceKind::Text => PreviewKind::Text,
            PieceKind::Image => PreviewKind::Image,
            PieceKind::Resource => PreviewKind::Resource,
            PieceKind::ResourceLink => PreviewKind::ResourceLink,
        },
        source: match piece.from {
            MadeFrom::Instructions => PreviewSource::Instructions,
            MadeFrom::Rules => PreviewSource::Rules,
            MadeFrom::History => PreviewSource::History,
            MadeFrom::Context => PreviewSource::Context,
            MadeFrom::Text => PreviewSource::Text,
            MadeFrom::Skill => PreviewSource::Skill,
            MadeFrom::File => PreviewSource::File,
            MadeFrom::Image => PreviewSource::Image,
            MadeFrom::Chat => PreviewSource::Chat,
            MadeFrom::Issue => PreviewSource::Issue,
            MadeFrom::Resource => PreviewSource::Resource,
        },
        reference: piece.reference.clone(),
        bytes: piece.bytes() as u64,
        truncated: text.map(str::len) != whole.map(str::len),
        text: text.map(str::to_owned),
    }
}

fn beginning(text: &str, bytes: usize) -> &str {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
