//! ACP child processes: launch table, handshake, supervision, one quirks file a vendor.
