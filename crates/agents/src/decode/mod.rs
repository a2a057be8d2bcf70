//! Tolerant decoding of what agents send.
