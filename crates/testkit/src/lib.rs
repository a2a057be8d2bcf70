//! Actors, transcript runner and fault injection for whole-program tests.
