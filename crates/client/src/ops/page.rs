//! Replies to requests for pages: told from each other by `request_id` alone.

use signalbox_protocol::ops::TranscriptEntry;

use super::change::Change;
use super::state::State;
use super::transcript::{Page, Phase};
use super::turn::Row;

impl State {
    pub(super) fn page(
        &mut self,
        session: String,
        request_id: Option<String>,
        entries: Vec<TranscriptEntry>,
        next_before: Option<u64>,
        snapshot_through: Option<u64>,
    ) -> Vec<Change> {
        let known = self.sessions.get_mut(&session).and_then(|known| known.transcript.as_mut());
        let (Some(transcript), Some(request_id)) = (known, request_id) else { return Vec::new() };
        let rows = entries.into_iter().map(Row::from_entry).collect();
        let page = Page { rows, next_before, snapshot_through };
        if transcript.phase == Phase::Asked(request_id.clone()) {
            transcript.newest(page);
        } else if let Some((_, before)) = transcript.older_asked.take_if(|(asked, _)| *asked == request_id) {
            transcript.prepend(before, page);
        } else {
            // The answer to a question that is no longer asked: something was missed since.
            return Vec::new();
        }
        vec![Change::TranscriptChanged { session }]
    }

    pub(super) fn page_failed(
        &mut self,
        session: String,
        request_id: Option<String>,
        message: String,
    ) -> Vec<Change> {
        let known = self.sessions.get_mut(&session).and_then(|known| known.transcript.as_mut());
        let (Some(transcript), Some(request_id)) = (known, request_id) else { return Vec::new() };
        if transcript.phase == Phase::Asked(request_id.clone()) {
            // What was held back is of no use without a page, and the next page will have it.
            transcript.missed();
        } else if transcript.older_asked.take_if(|(asked, _)| *asked == request_id).is_none() {
            return Vec::new();
        }
        transcript.error = Some(message.clone());
        vec![Change::TranscriptFailed { session, message }]
    }
}
