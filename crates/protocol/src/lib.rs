//! The wire types of both faces: `ops` (the Op/Event contract) and `app` (the app-server API), and their published schema.
//!
//! Plain data with serde and schemars derives: no I/O, no rules, nothing that only the server knows. Names and shapes are
//! a contract with programs written elsewhere, so a field here is added, never renamed and never removed.

pub mod app;
pub mod greeting;
pub mod ops;
pub mod schema;

mod lenient;
