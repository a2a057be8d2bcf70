//! Tests of the thread view: stories told line by line, and properties over whatever an engine may say.

mod answers;
mod client;
mod conversions;
mod lines;
mod properties;
mod stories;
mod world;
