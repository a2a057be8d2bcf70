//! The answer to `session/list`.

use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::fields::{ID_BYTES, into_object, take_filled, take_id, take_list, within};
use crate::listed::{ListedSession, SessionPage};

/// Sessions of one page; an agent that tells of more at once has the rest left out.
const MAX_SESSIONS: usize = 10_000;
/// Of one page; the rest of a longer one is left out too.
const MAX_BYTES: usize = 8 << 20;
/// Scalars of a title; some agents give the whole first prompt.
const MAX_TITLE: usize = 200;

/// Reads a page. What has no id is left out.
pub(crate) fn session_page(result: Value) -> SessionPage {
    let mut result = into_object(result).unwrap_or_default();
    let sessions = take_list(&mut result, "sessions").unwrap_or_default();
    let sessions = sessions.into_iter().filter_map(|value| {
        let mut session = into_object(value).ok()?;
        let title = take_filled(&mut session, "title");
        Some(ListedSession {
            id: take_id(&mut session, "sessionId")?,
            cwd: take_filled(&mut session, "cwd").filter(|cwd| cwd.len() <= ID_BYTES).map(Into::into),
            title: title.map(|title| title.trim().chars().take(MAX_TITLE).collect::<String>()),
            updated_at_ms: session.get("updatedAt").and_then(moment),
        })
    });
    SessionPage {
        sessions: within(sessions.take(MAX_SESSIONS).collect(), MAX_BYTES, |one: &ListedSession| {
            let cwd = one.cwd.as_ref().map_or(0, |cwd| cwd.as_os_str().len());
            one.id.len() + cwd + one.title.as_ref().map_or(0, String::len)
        }),
        next: take_id(&mut result, "nextCursor"),
    }
}

/// A time as RFC 3339 text, in Unix milliseconds.
fn moment(value: &Value) -> Option<i64> {
    let time = OffsetDateTime::parse(value.as_str()?, &Rfc3339).ok()?;
    i64::try_from(time.unix_timestamp_nanos() / 1_000_000).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_page_is_read_field_by_field() {
        let page = session_page(json!({"sessions": [
            {"sessionId": "a", "cwd": "/w", "title": " Hello ", "updatedAt": "2026-11-30T17:55:57.673Z", "_meta": {}},
            {"sessionId": "b", "cwd": null, "updatedAt": "2026-11-30T19:00:31.796287799+01:00"},
            {"sessionId": 3, "updatedAt": "yesterday"},
            {"title": "has no id"}, 4,
        ], "nextCursor": "more"}));
        let of = |id: &str, cwd: Option<&str>, title: Option<&str>, updated_at_ms| ListedSession {
            id: id.into(),
            cwd: cwd.map(Into::into),
            title: title.map(str::to_owned),
            updated_at_ms,
        };
        assert_eq!(
            page.sessions,
            [
                of("a", Some("/w"), Some("Hello"), Some(1_796_061_357_673)),
                of("b", None, None, Some(1_796_061_631_796)),
                of("3", None, None, None),
            ]
        );
        assert_eq!(page.next.as_deref(), Some("more"));
        for empty in [json!(null), json!({"sessions": null, "nextCursor": null}), json!({"nextCursor": ""})] {
            assert_eq!(session_page(empty), SessionPage::default());
        }
    }
}
