//! The app-server API: methods, thread view (the bespoke mapping), subscriptions.

pub mod view;
