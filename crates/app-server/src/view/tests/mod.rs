//! Tests of the thread view: stories told line by line, and properties over whatever an engine may say.

mod answers;
mod client;
mod conversions;
mod lines;
pub(crate) mod properties;
mod stories;
pub(crate) mod world;
