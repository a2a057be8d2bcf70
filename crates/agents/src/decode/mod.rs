//! Tolerant decoding of what agents send: every field by itself, from JSON values, never an error for a whole message.

pub(crate) mod asked;
#[cfg(test)]
mod bounds_tests;
mod child;
mod content;
mod diff;
pub(crate) mod fast;
mod fields;
pub(crate) mod form;
mod hello;
mod line;
mod listed;
mod options;
mod plan;
#[cfg(test)]
mod recordings;
mod tool;
mod update;
mod usage;
pub(crate) mod v2;

pub(crate) use child::{ChildState, child_state, texts_of};
pub(crate) use fields::{ELLIPSIS, ID_BYTES, NAME_BYTES, Object, cut, take_id, take_name};
pub(crate) use hello::{Hello, hello};
pub(crate) use line::{Line, MAX_VALUES, RpcError, has_too_many_values, line, rpc_error};
pub(crate) use listed::session_page;
pub(crate) use options::{config_options, models, modes};
pub(crate) use plan::plan_in_arguments;
pub(crate) use tool::{ToolContext, ToolMemory, tool_patch};
pub(crate) use update::{Decoded, commands, update};
pub(crate) use usage::{chunk_usage, context_window, prompt_usage, rate_limits};
