//! The body of a request, bounded: its size, its time, and the memory of all bodies together.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::StatusCode;
use hyper::body::{Body, Incoming};
use signalbox_rpc::RpcError;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout_at};

use super::respond::Refusal;
use super::site::Site;

/// How long, and how much of, a refused body is still taken in, so that its sender comes to read the answer.
const SPILL_TIME: Duration = Duration::from_secs(5);
const SPILL_BYTES: usize = 64 * 1024 * 1024;

/// A body, with the room it takes.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) bytes: Bytes,
    _room: Option<OwnedSemaphorePermit>,
}

/// Reads a body of at most `limit` bytes, whether its length was announced or not.
///
/// # Errors
/// 413 if it is larger, 408 if it takes too long, 503 if too many are being read, 400 if it breaks off.
pub(super) async fn read(site: &Site, mut body: Incoming, limit: usize) -> Result<Held, Refusal> {
    match collect(site, &mut body, limit).await {
        Ok(held) => Ok(held),
        Err(refusal) => {
            if !body.is_end_stream() {
                site.tasks().spawn(spill(body));
            }
            Err(refusal)
        }
    }
}

async fn collect(site: &Site, body: &mut Incoming, limit: usize) -> Result<Held, Refusal> {
    let limits = &site.0.limits;
    let too_large = || Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, RpcError::frame_too_large(limit));
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if announced > limit {
        return Err(too_large());
    }
    let end = Instant::now() + limits.body_time;
    let mut collected = BytesMut::new();
    let mut room: Option<OwnedSemaphorePermit> = None;
    loop {
        let next = timeout_at(end.min(Instant::now() + limits.body_pause), body.frame()).await;
        let next = next.map_err(|_elapsed| {
            Refusal::bad(
                StatusCode::REQUEST_TIMEOUT,
                "body_too_slow",
                "The body of the request did not come in time",
            )
        })?;
        let Some(frame) = next else { break };
        let frame = frame.map_err(|error| {
            Refusal::bad(
                StatusCode::BAD_REQUEST,
                "body_broken",
                format!("The body of the request cannot be read: {error}"),
            )
        })?;
        // Trailers say nothing to us.
        let Ok(data) = frame.into_data() else { continue };
        if collected.len() + data.len() > limit {
            return Err(too_large());
        }
        let needed = (collected.len() + data.len()).div_ceil(1024);
        let more = needed.saturating_sub(room.as_ref().map_or(0, OwnedSemaphorePermit::num_permits));
        if more > 0 {
            let more = u32::try_from(more).unwrap_or(u32::MAX);
            let more =
                site.0.bodies.clone().try_acquire_many_owned(more).map_err(|_full| Refusal::overloaded())?;
            match &mut room {
                Some(room) => room.merge(more),
                None => room = Some(more),
            }
        }
        collected.extend_from_slice(&data);
    }
    Ok(Held { bytes: collected.freeze(), _room: room })
}

/// Takes in what is not wanted.
async fn spill(mut body: Incoming) {
    let end = Instant::now() + SPILL_TIME;
    let mut taken = 0;
    while taken < SPILL_BYTES {
        let Ok(Some(Ok(frame))) = timeout_at(end, body.frame()).await else { return };
        taken += frame.data_ref().map_or(0, Bytes::len);
    }
}
