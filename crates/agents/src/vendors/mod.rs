//! What is odd about each vendor's agent, as data: one file a vendor, no code elsewhere that asks who it talks to.

pub(crate) mod anthropic;
pub(crate) mod block;
pub(crate) mod cursor;
pub(crate) mod github;
pub(crate) mod google;
pub(crate) mod mistral;
pub(crate) mod moonshot;
pub(crate) mod openai;
pub(crate) mod opencode;
pub(crate) mod pi;
pub(crate) mod qwen;
pub(crate) mod xai;
pub(crate) mod zai;

/// Habits of an agent that ACP does not tell. The default suits an agent that does what the protocol says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Quirks {
    /// Its text content of a running command is that command's output so far, not a description or its arguments.
    pub output_in_content: bool,
    /// It streams the arguments of a call as its text content until they are complete.
    pub arguments_in_content: bool,
    /// It wraps a finished command's output in a fenced block.
    pub fenced_output: bool,
    /// It tells its plan only as the arguments of a tool call, under this name.
    pub plan_in_arguments: Option<&'static str>,
    /// In a history that it tells, what begins so is no word of the user's: it adds it to prompts itself.
    pub added_to_prompts: Option<&'static str>,
    /// It greets in a message right behind the opening of a session, which is not to be taken for a part of an answer.
    pub greets: bool,
    /// `_meta` key whose object has a `kind` for tool calls that come without one.
    pub kind_in_meta: Option<&'static str>,
    /// It must be told to authenticate by this method before a session opens.
    pub authenticate: Option<&'static str>,
    /// It takes another prompt while one runs, as more input for it.
    pub input_mid_turn: bool,
    /// It confines commands itself, so they may run unasked where the policy says `never`.
    pub confines_commands: bool,
    /// The prompt that makes it compact its context.
    pub compact_prompt: Option<&'static str>,
    /// In its questions, the text field named like a choice with this behind it is the answer to that in other words.
    pub other_suffix: Option<&'static str>,
}

impl Quirks {
    /// No quirks.
    pub const NONE: Self = Self {
        output_in_content: true,
        arguments_in_content: false,
        fenced_output: false,
        plan_in_arguments: None,
        added_to_prompts: None,
        greets: false,
        kind_in_meta: None,
        authenticate: None,
        input_mid_turn: false,
        confines_commands: false,
        compact_prompt: None,
        other_suffix: None,
    };
}

impl Default for Quirks {
    fn default() -> Self {
        Self::NONE
    }
}
