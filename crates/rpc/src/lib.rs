//! A JSON-RPC 2.0 peer on jsonrpsee: frames, registry, lanes, server requests, line transports.
