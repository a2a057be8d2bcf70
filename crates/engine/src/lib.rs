//! Op in, facts and Events out: session actors, activity, parking, policy, prompt compiling, the Event projection.

pub mod activity;
pub mod convert;
pub mod policy;
pub mod project;
