//! Plain data of the core: ids, facts and their bodies, activity, policy, pending input. No I/O.
