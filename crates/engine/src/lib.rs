//! Op in, facts and Events out: session actors, activity, parking, policy, prompt compiling, the Event projection.

pub mod activity;
mod batch;
pub mod convert;
mod diff;
mod items;
mod output;
pub mod policy;
pub mod project;
mod title;
