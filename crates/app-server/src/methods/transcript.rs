//! Pages of a thread's transcript, as the Op/Event protocol shows them.

use signalbox_engine::transcript::{self, TranscriptError, TranscriptPage};
use signalbox_protocol::app::{ThreadTranscriptReadParams, ThreadTranscriptReadResult, method};
use signalbox_rpc::{Ctx, Lane, MethodSpec, Registry};

use crate::app::{AppServer, session_id};
use crate::errors::{self, Error};

pub(super) fn register(registry: &mut Registry<AppServer>) {
    registry.method(
        MethodSpec::new(
            method::THREAD_TRANSCRIPT_READ,
            Lane::Concurrent,
            "Ext: reads a page of a thread's transcript, whole turns, without loading the thread.",
        ),
        read,
    );
}

async fn read(
    ctx: Ctx<AppServer>,
    params: ThreadTranscriptReadParams,
) -> Result<ThreadTranscriptReadResult, Error> {
    let ThreadTranscriptReadParams { thread_id, before, limit } = params;
    let session = session_id(&thread_id)?;
    let reader = ctx.app().hubs().reader_of(session);
    match transcript::page(&reader, &thread_id, before, limit).await {
        Ok(TranscriptPage { entries, next_before, snapshot_through: Some(snapshot_through) }) => {
            Ok(ThreadTranscriptReadResult { entries, next_before, snapshot_through })
        }
        Ok(_) => Err(errors::thread_not_found(&thread_id)),
        // No cursor fits a thread that is not there.
        Err(TranscriptError::InvalidCursor { .. }) if reader.session(session).await?.is_none() => {
            Err(errors::thread_not_found(&thread_id))
        }
        Err(error) => Err(errors::of_transcript(error)),
    }
}
