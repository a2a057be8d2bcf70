//! The methods of the API, typed.

use signalbox_protocol::app::{
    self, ClientCapabilities, ClientInfo, InitializeParams, InitializeResult, method,
};

use crate::client::Client;
use crate::error::CallError;

/// Declares one typed call a line.
macro_rules! calls {
    ($( $(#[$doc:meta])* $name:ident($params:ident) -> $result:ident = $method:ident; )*) => {
        impl Client {
            $(
                $(#[$doc])*
                ///
                /// # Errors
                /// As [`Client::call`].
                pub async fn $name(&self, params: &app::$params) -> Result<app::$result, CallError> {
                    self.call(method::$method, params).await
                }
            )*
        }
    };
}

calls! {
    /// `initialize` with all that it takes; `initialized` is left to the caller. See [`Client::initialize`].
    initialize_with(InitializeParams) -> InitializeResult = INITIALIZE;
    /// `thread/start`: a new thread, to which this connection is subscribed.
    thread_start(ThreadStartParams) -> ThreadStartResult = THREAD_START;
    /// `thread/resume`: joins a thread; the result and the events that follow have no gap between them.
    thread_resume(ThreadResumeParams) -> ThreadResumeResult = THREAD_RESUME;
    /// `thread/read`: a thread as it is now, without joining it.
    thread_read(ThreadReadParams) -> ThreadReadResult = THREAD_READ;
    /// `thread/list`: a page of the stored threads.
    thread_list(ThreadListParams) -> ThreadListResult = THREAD_LIST;
    /// `thread/loaded/list`: ids of the threads in memory.
    thread_loaded_list(ThreadLoadedListParams) -> ThreadLoadedListResult = THREAD_LOADED_LIST;
    /// `thread/transcript/read`: a page of the Op/Event transcript.
    thread_transcript_read(ThreadTranscriptReadParams) -> ThreadTranscriptReadResult = THREAD_TRANSCRIPT_READ;
    /// `thread/turns/list`: a page of a thread's turns.
    thread_turns_list(ThreadTurnsListParams) -> ThreadTurnsListResult = THREAD_TURNS_LIST;
    /// `thread/items/list`: a page of a thread's items.
    thread_items_list(ThreadItemsListParams) -> ThreadItemsListResult = THREAD_ITEMS_LIST;
    /// `item/output/read`: a range of a text of an item.
    item_output_read(ItemOutputReadParams) -> ItemOutputReadResult = ITEM_OUTPUT_READ;
    /// `thread/unsubscribe`: leaves a thread.
    thread_unsubscribe(ThreadUnsubscribeParams) -> ThreadUnsubscribeResult = THREAD_UNSUBSCRIBE;
    /// `turn/start`: a prompt; the core decides whether it starts or steers a turn, unless `mode` says.
    turn_start(TurnStartParams) -> TurnStartResult = TURN_START;
    /// `turn/steer`: more input for the running turn.
    turn_steer(TurnSteerParams) -> TurnSteerResult = TURN_STEER;
    /// `turn/interrupt`: asks for the end of the running turn, which `turn/completed` then tells.
    turn_interrupt(TurnInterruptParams) -> EmptyResult = TURN_INTERRUPT;
    /// `prompt/preview`: what an input would become.
    prompt_preview(PromptPreviewParams) -> PromptPreviewResult = PROMPT_PREVIEW;
    /// `model/list`: models of a provider.
    model_list(ModelListParams) -> ModelListResult = MODEL_LIST;
    /// `provider/list`: providers, and whether they can be used.
    provider_list(ProviderListParams) -> ProviderListResult = PROVIDER_LIST;
    /// `provider/sessions/list`: the sessions that a provider's agent keeps of its own.
    provider_sessions_list(ProviderSessionsListParams) -> ProviderSessionsListResult = PROVIDER_SESSIONS_LIST;
    /// `thread/import`: one of them as a thread, to which this connection is subscribed.
    thread_import(ThreadImportParams) -> ThreadImportResult = THREAD_IMPORT;
    /// Starts a provider's agent and tells what it is.
    provider_check(ProviderCheckParams) -> ProviderCheckResult = PROVIDER_CHECK;
    /// Logs in with a provider's agent; allow ten minutes.
    provider_login(ProviderLoginParams) -> ProviderLoginResult = PROVIDER_LOGIN;
    /// What became of an address that the agent asked to be opened meanwhile.
    provider_login_answer(ProviderLoginAnswerParams) -> EmptyResult = PROVIDER_LOGIN_ANSWER;
    /// `modelProvider/list`: the same in the form that existing clients know.
    model_provider_list(ModelProviderListParams) -> ModelProviderListResult = MODEL_PROVIDER_LIST;
    /// `account/read`.
    account_read(AccountReadParams) -> AccountReadResult = ACCOUNT_READ;
    /// `config/read`.
    config_read(ConfigReadParams) -> ConfigReadResult = CONFIG_READ;
    /// `configRequirements/read`.
    config_requirements_read(ConfigRequirementsReadParams) -> ConfigRequirementsReadResult = CONFIG_REQUIREMENTS_READ;
    /// `worktree/baselines`: what a thread's worktree could be made from.
    worktree_baselines(WorktreeBaselinesParams) -> WorktreeBaselinesResult = WORKTREE_BASELINES;
    /// `thread/worktree/discard`: removes a thread's worktree.
    thread_worktree_discard(ThreadWorktreeDiscardParams) -> EmptyResult = THREAD_WORKTREE_DISCARD;
    /// `approval/list`: what waits for an answer.
    approval_list(ApprovalListParams) -> ApprovalListResult = APPROVAL_LIST;
    /// `approval/respond`: an answer, from a client that was not asked or could not answer in place.
    thread_command_list(ThreadCommandListParams) -> ThreadCommandListResult = THREAD_COMMAND_LIST;
    thread_config_option_list(ThreadConfigOptionListParams) -> ThreadConfigOptionListResult = THREAD_CONFIG_OPTION_LIST;
    approval_respond(ApprovalRespondParams) -> ApprovalRespondResult = APPROVAL_RESPOND;
    /// `op/submit`: a raw op.
    op_submit(OpSubmitParams) -> OpSubmitResult = OP_SUBMIT;
    /// `server/health`.
    server_health(ServerHealthParams) -> ServerHealthResult = SERVER_HEALTH;
}

impl Client {
    /// The handshake: `initialize` under this name, without special capabilities, then `initialized`.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub async fn initialize(&self, name: &str, version: &str) -> Result<InitializeResult, CallError> {
        let client_info = ClientInfo { name: name.to_owned(), title: None, version: version.to_owned() };
        let params = InitializeParams { client_info, capabilities: ClientCapabilities::default() };
        let result = self.initialize_with(&params).await?;
        self.notify(method::INITIALIZED, &serde_json::Map::new()).await?;
        Ok(result)
    }
}
