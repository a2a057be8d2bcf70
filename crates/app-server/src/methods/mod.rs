//! The method table: one file a noun, each adding its lines. Names, types, docs, lanes and roles in one place.
//!
//! Lanes: what changes a thread is *ordered*, so that a client's own sequence holds. Interrupts and answers are
//! *concurrent*, because they must not wait behind a request that waits for an agent. What memory answers is *inline*,
//! what the store or the file system answers *concurrent*.

mod agent_sessions;
mod approval;
mod compat;
mod config;
mod connection;
mod device;
mod discover;
mod explain;
mod fork;
mod history;
mod items;
mod launch;
mod life;
mod model;
mod old_turns;
mod op;
mod output;
mod pages;
#[cfg(test)]
mod pages_tests;
mod prompt;
mod provider;
mod queue;
mod rule;
mod said;
mod search;
mod settings;
mod skills;
mod thread;
mod threads;
mod transcript;
mod turn;
mod turns;
mod worktree;

use signalbox_rpc::Registry;

pub(crate) use approval::outcome_of;
pub(crate) use explain::connection_figures;
pub(crate) use old_turns::OldTurns;
pub(crate) use turns::PAGE_BYTES;

use crate::app::AppServer;

/// All methods, notifications and server requests.
#[must_use]
pub fn registry() -> Registry<AppServer> {
    let mut registry = Registry::new();
    connection::register(&mut registry);
    thread::register(&mut registry);
    threads::register(&mut registry);
    fork::register(&mut registry);
    history::register(&mut registry);
    queue::register(&mut registry);
    transcript::register(&mut registry);
    pages::register(&mut registry);
    output::register(&mut registry);
    settings::register(&mut registry);
    worktree::register(&mut registry);
    turn::register(&mut registry);
    approval::register(&mut registry);
    rule::register(&mut registry);
    model::register(&mut registry);
    provider::register(&mut registry);
    agent_sessions::register(&mut registry);
    config::register(&mut registry);
    op::register(&mut registry);
    prompt::register(&mut registry);
    skills::register(&mut registry);
    compat::register(&mut registry);
    search::register(&mut registry);
    explain::register(&mut registry);
    device::register(&mut registry);
    life::register(&mut registry);
    discover::register(&mut registry);
    said::register(&mut registry);
    registry
}
