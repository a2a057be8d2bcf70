//! Doors: transports in front of the app-server.
