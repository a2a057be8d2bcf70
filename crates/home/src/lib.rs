//! The home folder: configuration, lock, paths.
