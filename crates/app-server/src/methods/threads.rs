//! Lists of threads.

use std::path::Path;

use signalbox_engine::convert as core;
use signalbox_facts::{Activity, ActivityState, FailedReason, Provider, SessionId, SessionSource};
use signalbox_protocol::app::{
    self, CwdFilter, SortDirection, Thread, ThreadHistoryMode, ThreadListParams, ThreadListResult,
    ThreadLoadedListParams, ThreadLoadedListResult, ThreadSortKey, ThreadStatus, method,
};
use signalbox_protocol::ops;
use signalbox_rpc::{Ctx, Lane, MethodSpec, Registry};
use signalbox_store::{Listed, PageCursor, SessionQuery, SortKey, StoreError};

use crate::app::AppServer;
use crate::errors::{self, Error};
use crate::view::convert;

/// Threads of a page, unless the client says how many.
const PAGE: u32 = 25;
/// Most threads of a page.
/// Longest search term.
const MAX_SEARCH_SCALARS: usize = 1000;
const MAX_PAGE: u32 = 200;
/// The provider name that existing clients filter by when they mean their own threads; here it matches all.
const ANY_PROVIDER: &str = "openai";

pub(super) fn register(registry: &mut Registry<AppServer>) {
    registry
        .method(
            MethodSpec::new(
                method::THREAD_LIST,
                Lane::Concurrent,
                "Lists threads, newest first. It loads neither agents nor transcripts.",
            ),
            list,
        )
        .method_sync(
            MethodSpec::new(method::THREAD_LOADED_LIST, Lane::Inline, "The ids of the threads in memory."),
            loaded,
        );
}

async fn list(ctx: Ctx<AppServer>, params: ThreadListParams) -> Result<ThreadListResult, Error> {
    let app = ctx.app();
    if let Some(ids) = &params.included_thread_ids {
        return only(app, ids).await;
    }
    let Some(source) = sources(params.source_kinds.as_deref()) else {
        return Ok(ThreadListResult { data: Vec::new(), next_cursor: None, backwards_cursor: None });
    };
    let sort = match params.sort_key {
        Some(ThreadSortKey::CreatedAt) => SortKey::Created,
        Some(ThreadSortKey::UpdatedAt | ThreadSortKey::RecencyAt | ThreadSortKey::SectionPosition) | None => {
            SortKey::Updated
        }
    };
    let query = SessionQuery {
        archived: params.archived.unwrap_or(false),
        sort,
        ascending: params.sort_direction == Some(SortDirection::Asc),
        limit: params.limit.unwrap_or(PAGE).clamp(1, MAX_PAGE),
        after: params.cursor.as_deref().map(|cursor| cursor_in(cursor, sort)).transpose()?,
        cwds: canonical(params.cwd).await,
        providers: providers(params.model_providers),
        source: source.only(),
        search: search_term(params.search_term)?,
    };
    let page = app.hubs().reader().sessions(&query).await?;
    let excluded = params.excluded_thread_ids.unwrap_or_default();
    let threads = page.sessions.iter().map(|listed| thread_of(app, listed));
    Ok(ThreadListResult {
        data: threads.filter(|thread| !excluded.contains(&thread.id)).collect(),
        next_cursor: page.next.map(|next| cursor_out(next, sort)),
        backwards_cursor: None,
    })
}

/// A search term of reasonable length; a blank one means no search.
fn search_term(term: Option<String>) -> Result<Option<String>, Error> {
    let term = term.filter(|term| !term.trim().is_empty());
    if term.as_ref().is_some_and(|term| term.chars().count() > MAX_SEARCH_SCALARS) {
        let message = format!("the search term is longer than {MAX_SEARCH_SCALARS} characters; shorten it");
        return Err(errors::invalid("searchTerm", message));
    }
    Ok(term)
}

/// The named threads, in the order in which they were named; unknown ones are left out.
async fn only(app: &AppServer, ids: &[String]) -> Result<ThreadListResult, Error> {
    let mut data = Vec::new();
    for id in ids.iter().take(MAX_PAGE as usize).filter_map(|id| id.parse::<SessionId>().ok()) {
        let listed = match app.hubs().reader_of(id).session(id).await {
            Ok(Some(row)) => Listed::Session(Box::new(row)),
            Ok(None) => continue,
            Err(StoreError::Unreadable { session, reason }) => Listed::Unreadable { id: session, reason },
            Err(error) => return Err(error.into()),
        };
        data.push(thread_of(app, &listed));
    }
    Ok(ThreadListResult { data, next_cursor: None, backwards_cursor: None })
}

fn loaded(ctx: Ctx<AppServer>, params: ThreadLoadedListParams) -> Result<ThreadLoadedListResult, Error> {
    let mut ids = ctx.app().engine().loaded();
    if let Some(cursor) = &params.cursor {
        let after: SessionId = cursor.parse().map_err(|_not_ours| errors::stale_cursor())?;
        ids.retain(|id| *id > after);
    }
    let limit = params.limit.map_or(usize::MAX, |limit| limit.max(1) as usize);
    let more = ids.len() > limit;
    ids.truncate(limit);
    let next_cursor = ids.last().filter(|_| more).map(ToString::to_string);
    Ok(ThreadLoadedListResult { data: ids.iter().map(ToString::to_string).collect(), next_cursor })
}

/// Which sources a client wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sources {
    All,
    Only(SessionSource),
}

impl Sources {
    pub(super) fn only(self) -> Option<SessionSource> {
        match self {
            Self::All => None,
            Self::Only(source) => Some(source),
        }
    }
}

/// `None` if it wants none of those that there are.
pub(super) fn sources(kinds: Option<&[String]>) -> Option<Sources> {
    let kinds = kinds.unwrap_or_default();
    let has = |kind: &str| kinds.iter().any(|given| given == kind);
    match (has("cli"), has("vscode")) {
        _ if kinds.is_empty() => Some(Sources::All),
        (true, true) => Some(Sources::All),
        (true, false) => Some(Sources::Only(SessionSource::Cli)),
        (false, true) => Some(Sources::Only(SessionSource::App)),
        (false, false) => None,
    }
}

fn providers(names: Option<Vec<String>>) -> Vec<Provider> {
    let names = names.unwrap_or_default();
    if names.iter().any(|name| name == ANY_PROVIDER) {
        return Vec::new();
    }
    names.iter().map(|name| Provider::new(name)).collect()
}

/// Directories as sessions have them: without symbolic links. What is not there any more is compared as it is.
async fn canonical(filter: Option<CwdFilter>) -> Vec<String> {
    let mut real = Vec::new();
    for path in filter.map(|filter| filter.0).unwrap_or_default() {
        let found = tokio::fs::canonicalize(Path::new(&path)).await;
        real.push(found.map_or(path, |path| path.display().to_string()));
    }
    real
}

pub(super) fn cursor_out(cursor: PageCursor, sort: SortKey) -> String {
    let sort = match sort {
        SortKey::Updated => 'u',
        SortKey::Created => 'c',
    };
    format!("{sort}.{}.{}", cursor.at_ms, cursor.id.0.simple())
}

pub(super) fn cursor_in(text: &str, sort: SortKey) -> Result<PageCursor, Error> {
    let parse = || {
        let mut parts = text.split('.');
        let of = match parts.next()? {
            "u" => SortKey::Updated,
            "c" => SortKey::Created,
            _ => return None,
        };
        let at_ms = parts.next()?.parse().ok()?;
        let id = parts.next()?.parse().ok()?;
        (of == sort && parts.next().is_none()).then_some(PageCursor { at_ms, id })
    };
    parse().ok_or_else(errors::stale_cursor)
}

pub(super) fn thread_of(app: &AppServer, listed: &Listed) -> Thread {
    match listed {
        Listed::Session(row) => {
            let is_loaded = app.hubs().get(row.id).is_some();
            let status = if is_loaded { convert::status_out(&row.activity) } else { ThreadStatus::NotLoaded };
            convert::thread_out(row, status)
        }
        Listed::Unreadable { id, reason } => unreadable(*id, reason),
    }
}

/// A thread whose row is damaged: it is listed, so that it is not thought lost.
fn unreadable(id: SessionId, reason: &str) -> Thread {
    let message = format!("This thread's stored row cannot be read: {reason}");
    let state = ActivityState::Failed { turn_id: None, reason: FailedReason::ProviderError, message };
    Thread {
        id: id.to_string(),
        session_id: id.to_string(),
        preview: "(unreadable)".to_owned(),
        name: None,
        status: ThreadStatus::SystemError,
        created_at: 0,
        updated_at: 0,
        recency_at: None,
        cwd: String::new(),
        model_provider: String::new(),
        model: None,
        reasoning_effort: None,
        source: app::SessionSource::Unknown,
        thread_source: None,
        originator: None,
        cli_version: env!("CARGO_PKG_VERSION").to_owned(),
        ephemeral: false,
        history_mode: ThreadHistoryMode::Legacy,
        forked_from_id: None,
        parent_thread_id: None,
        path: None,
        project_id: None,
        git_info: None,
        turns: Vec::new(),
        project_path: None,
        worktree: None,
        policy: ops::Policy::default(),
        activity: core::activity_out(&Activity { revision: 0, state }),
        roots: Vec::new(),
        archived: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_leads_back_only_in_its_own_order() {
        let cursor = PageCursor { at_ms: -5, id: SessionId::generate() };
        let text = cursor_out(cursor, SortKey::Created);
        assert_eq!(cursor_in(&text, SortKey::Created).unwrap(), cursor);
        assert!(cursor_in(&text, SortKey::Updated).is_err());
        for bad in ["", "u", "u.x.y", "u.1.zz", "not a cursor"] {
            assert!(cursor_in(bad, SortKey::Updated).is_err(), "{bad}");
        }
    }

    #[test]
    fn source_kinds_select_what_there_is() {
        let kinds = |kinds: &[&str]| {
            let kinds: Vec<String> = kinds.iter().map(|kind| (*kind).to_owned()).collect();
            sources(Some(&kinds))
        };
        assert_eq!(kinds(&[]), Some(Sources::All));
        assert_eq!(kinds(&["cli", "vscode"]), Some(Sources::All));
        assert_eq!(kinds(&["vscode", "exec"]), Some(Sources::Only(SessionSource::App)));
        assert_eq!(kinds(&["exec"]), None);
    }

    #[test]
    fn the_name_of_the_field_matches_every_provider() {
        assert!(providers(Some(vec!["openai".into(), "codex".into()])).is_empty());
        assert_eq!(providers(Some(vec!["open_code".into()])), [Provider::new("opencode")]);
    }
}
