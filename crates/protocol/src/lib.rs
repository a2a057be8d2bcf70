//! The wire types of both faces: `ops` (Op/Event) and `app` (app-server API).
