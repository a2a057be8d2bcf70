//! Every message that is sent to an agent, in the types of the schema crate. Nothing else names that crate.
