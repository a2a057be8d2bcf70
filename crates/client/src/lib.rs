//! A typed Rust client of the app-server API.
