//! The benchmark program: each figure with a raw reference of the same run.

fn main() {}
