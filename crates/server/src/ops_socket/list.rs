//! The list of sessions that a connection begins with and may ask for: bounded, and never without a turn that runs.

use std::collections::HashMap;

use signalbox_engine::convert;
use signalbox_protocol::ops::{ServerFrame, SessionSnapshot};
use signalbox_store::{Listed, Reader, SessionQuery, StoreError};

/// The newest unarchived sessions, at most so many, and then every other one in which a turn runs or waits for an answer.
///
/// # Errors
/// The database cannot be read. A session whose row cannot be read is listed as such.
pub async fn list(reader: &Reader, newest: u32) -> Result<Vec<SessionSnapshot>, StoreError> {
    let page = reader.sessions(&SessionQuery { limit: newest, ..SessionQuery::default() }).await?;
    // The second look may see more than the first.
    let open = reader.open_sessions().await?;
    let mut sessions: Vec<SessionSnapshot> = page.sessions.iter().map(snapshot).collect();
    let places: HashMap<String, usize> =
        sessions.iter().enumerate().map(|(place, session)| (session.id.clone(), place)).collect();
    for session in open.iter().map(snapshot) {
        match places.get(&session.id).and_then(|place| sessions.get_mut(*place)) {
            Some(seen) if seen.activity.revision < session.activity.revision => *seen = session,
            Some(_) => {}
            None => sessions.push(session),
        }
    }
    Ok(sessions)
}

pub(super) async fn frame(reader: &Reader, newest: u32) -> ServerFrame {
    match list(reader, newest).await {
        Ok(sessions) => ServerFrame::Sessions { sessions },
        Err(error) => {
            tracing::error!(%error, "the sessions cannot be listed");
            ServerFrame::SessionsError { message: error.to_string() }
        }
    }
}

fn snapshot(listed: &Listed) -> SessionSnapshot {
    match listed {
        Listed::Session(row) => convert::snapshot_out(row),
        Listed::Unreadable { id, reason } => convert::unreadable_out(*id, reason),
    }
}
