//! Search in what was said, and for files.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use signalbox_engine::files::{FileQuery, Hit, MAX_QUERY, MAX_ROOTS};
use signalbox_protocol::app::{
    FuzzyFileMatch, FuzzyFileMatchType, FuzzyFileSearchParams, FuzzyFileSearchResult, SortDirection,
    ThreadMatch, ThreadSearchParams, ThreadSearchResult, ThreadSearchSortKey, method,
};
use signalbox_rpc::{Ctx, Lane, MethodSpec, Registry, Role};
use signalbox_store::{Found, SearchQuery, SearchTerm, SortKey};

use tokio_util::sync::CancellationToken;

use super::threads::{cursor_in, cursor_out, sources, thread_of};
use crate::app::{AppServer, base_dir};
use crate::connection::Connection;
use crate::errors::{self, Error};

/// Threads of a page, unless the client says how many.
const PAGE: u32 = 25;
/// Most threads of a page.
const MAX_PAGE: u32 = 100;
/// Bytes of a page; it holds one thread at least.
const PAGE_BYTES: usize = 512 << 10;
/// How long a file system may take to say what the roots of a search are; then the search finds out what it can.
const ROOTS: Duration = Duration::from_secs(1);

pub(super) fn register(registry: &mut Registry<AppServer>) {
    registry
        .method(
            MethodSpec::new(
                method::THREAD_SEARCH,
                Lane::Concurrent,
                "Finds threads by words of their prompts and answers, each once with its newest match. Reverted turns and \
                 deleted threads are not found.",
            ),
            search,
        )
        .method(
            MethodSpec::new(
                method::FUZZY_FILE_SEARCH,
                Lane::Concurrent,
                "Finds files and directories by a few letters of their path. Ignore files are respected. For operators, \
                 in any directory: they can run commands there as well.",
            )
            .role(Role::Operator),
            files,
        );
}

async fn search(ctx: Ctx<AppServer>, params: ThreadSearchParams) -> Result<ThreadSearchResult, Error> {
    let app = ctx.app();
    let term =
        SearchTerm::parse(&params.search_term).map_err(|error| errors::invalid("searchTerm", error))?;
    let sort = match params.sort_key {
        Some(ThreadSearchSortKey::CreatedAt) => SortKey::Created,
        Some(ThreadSearchSortKey::UpdatedAt | ThreadSearchSortKey::RecencyAt) | None => SortKey::Updated,
    };
    let after = params.cursor.as_deref().map(|cursor| cursor_in(cursor, sort)).transpose()?;
    let Some(source) = sources(params.source_kinds.as_deref()) else {
        return Ok(ThreadSearchResult {
            data: Vec::new(),
            next_cursor: None,
            backwards_cursor: None,
            complete: true,
        });
    };
    let query = SearchQuery {
        term,
        archived: params.archived.unwrap_or(false),
        sort,
        ascending: params.sort_direction == Some(SortDirection::Asc),
        limit: params.limit.unwrap_or(PAGE).clamp(1, MAX_PAGE),
        after,
        source: source.only(),
    };
    let page = app.hubs().reader().search(&query).await?;
    let (mut data, mut places, mut bytes) = (Vec::new(), Vec::new(), 0);
    let found = page.found.len();
    for one in page.found {
        places.push(one.place);
        let line = matched(app, one);
        bytes += serde_json::to_vec(&line).map_or(0, |line| line.len());
        if bytes > PAGE_BYTES && !data.is_empty() {
            places.pop();
            break;
        }
        data.push(line);
    }
    let more = page.more || data.len() < found;
    Ok(ThreadSearchResult {
        data,
        next_cursor: places.last().filter(|_| more).map(|place| cursor_out(*place, sort)),
        backwards_cursor: places.first().map(|place| cursor_out(*place, sort)),
        complete: page.complete,
    })
}

fn matched(app: &AppServer, found: Found) -> ThreadMatch {
    ThreadMatch {
        thread: thread_of(app, &found.session),
        snippet: found.snippet,
        turn_id: found.turn.map(|turn| turn.to_string()),
        item_id: format!("i{}", found.item_seq),
        seq: found.seq,
    }
}

async fn files(ctx: Ctx<AppServer>, params: FuzzyFileSearchParams) -> Result<FuzzyFileSearchResult, Error> {
    let FuzzyFileSearchParams { query, roots, cancellation_token } = params;
    if query.chars().count() > MAX_QUERY {
        let message = format!("the query is longer than {MAX_QUERY} characters; shorten it");
        return Err(errors::invalid("query", message));
    }
    if roots.len() > MAX_ROOTS {
        return Err(errors::invalid("roots", format!("more than {MAX_ROOTS} roots; leave some out")));
    }
    let app = ctx.app();
    let base = base_dir(&ctx);
    let paths: Vec<PathBuf> = roots.iter().map(|root| base.join(root)).collect();
    // Its own token: a newer search takes what this one has, but a call that the client cancels has no result.
    let cancelled = CancellationToken::new();
    // Whatever ends this call ends its search.
    let _ended = cancelled.clone().drop_guard();
    if let (Some(token), Some(peer)) = (cancellation_token, ctx.peer_opt()) {
        // Before anything is waited for: of several with one token the last goes on.
        Connection::of(peer).begin_search(token, cancelled.clone());
    }
    check_roots(&roots, &paths).await?;
    let found = app.engine().find_files(FileQuery { query, roots: paths, cancelled }).await;
    let file = |hit: Hit| FuzzyFileMatch {
        root: roots.get(hit.root).cloned().unwrap_or_default(),
        file_name: hit.path.rsplit('/').next().unwrap_or_default().to_owned(),
        path: hit.path,
        match_type: if hit.directory { FuzzyFileMatchType::Directory } else { FuzzyFileMatchType::File },
        score: hit.score,
        indices: Some(hit.indices),
    };
    Ok(FuzzyFileSearchResult { files: found.hits.into_iter().map(file).collect(), complete: found.complete })
}

/// That the roots of a search are directories. `roots` are the same in the client's words.
async fn check_roots(roots: &[String], paths: &[PathBuf]) -> Result<(), Error> {
    let check = async {
        for (root, path) in roots.iter().zip(paths) {
            let wrong = match tokio::fs::metadata(path).await {
                Ok(found) if found.is_dir() => continue,
                Ok(_) => format!("the root {root:?} is no directory"),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    format!("the root {root:?} does not exist")
                }
                Err(error) => format!("the root {root:?} cannot be looked at: {error}"),
            };
            return Err(errors::invalid("roots", format!("{wrong}; name directories, or leave it out")));
        }
        Ok(())
    };
    tokio::time::timeout(ROOTS, check).await.unwrap_or(Ok(()))
}
