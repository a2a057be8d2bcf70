//! The names of all methods, notifications and server requests. Nowhere else is one spelled out.

// Requests of clients.
pub const INITIALIZE: &str = "initialize";
pub const THREAD_START: &str = "thread/start";
pub const THREAD_RESUME: &str = "thread/resume";
pub const THREAD_READ: &str = "thread/read";
pub const THREAD_LIST: &str = "thread/list";
pub const THREAD_LOADED_LIST: &str = "thread/loaded/list";
pub const THREAD_TRANSCRIPT_READ: &str = "thread/transcript/read";
pub const THREAD_UNSUBSCRIBE: &str = "thread/unsubscribe";
pub const TURN_START: &str = "turn/start";
pub const TURN_STEER: &str = "turn/steer";
pub const TURN_INTERRUPT: &str = "turn/interrupt";
pub const PROMPT_PREVIEW: &str = "prompt/preview";
pub const MODEL_LIST: &str = "model/list";
pub const MODEL_PROVIDER_LIST: &str = "modelProvider/list";
pub const PROVIDER_LIST: &str = "provider/list";
pub const ACCOUNT_READ: &str = "account/read";
pub const CONFIG_READ: &str = "config/read";
pub const CONFIG_REQUIREMENTS_READ: &str = "configRequirements/read";
pub const APPROVAL_LIST: &str = "approval/list";
pub const APPROVAL_RESPOND: &str = "approval/respond";
pub const OP_SUBMIT: &str = "op/submit";
pub const SERVER_HEALTH: &str = "server/health";
pub const THREAD_NAME_SET: &str = "thread/name/set";
pub const WORKTREE_BASELINES: &str = "worktree/baselines";
pub const THREAD_WORKTREE_DISCARD: &str = "thread/worktree/discard";
pub const THREAD_SETTINGS_UPDATE: &str = "thread/settings/update";
pub const HOOKS_LIST: &str = "hooks/list";
pub const COLLABORATION_MODE_LIST: &str = "collaborationMode/list";
pub const EXPERIMENTAL_FEATURE_LIST: &str = "experimentalFeature/list";
pub const MCP_SERVER_STATUS_LIST: &str = "mcpServerStatus/list";
pub const SKILLS_LIST: &str = "skills/list";
pub const PLUGIN_INSTALLED: &str = "plugin/installed";
pub const PERMISSION_PROFILE_LIST: &str = "permissionProfile/list";

// Notifications of clients.
pub const INITIALIZED: &str = "initialized";
pub const CANCEL_REQUEST: &str = "$/cancelRequest";

// Notifications of the server.
pub const THREAD_STARTED: &str = "thread/started";
pub const THREAD_STATUS_CHANGED: &str = "thread/status/changed";
pub const THREAD_ACTIVITY_CHANGED: &str = "thread/activity/changed";
pub const THREAD_NAME_UPDATED: &str = "thread/name/updated";
pub const THREAD_ARCHIVED: &str = "thread/archived";
pub const THREAD_UNARCHIVED: &str = "thread/unarchived";
pub const THREAD_DELETED: &str = "thread/deleted";
pub const THREAD_CLOSED: &str = "thread/closed";
pub const THREAD_REVERTED: &str = "thread/reverted";
pub const THREAD_QUEUE_CHANGED: &str = "thread/queue/changed";
pub const THREAD_WORKTREE_DISCARDED: &str = "thread/worktree/discarded";
pub const THREAD_SETTINGS_UPDATED: &str = "thread/settings/updated";
pub const THREAD_MODELS_UPDATED: &str = "thread/models/updated";
pub const THREAD_CONFIG_OPTIONS_UPDATED: &str = "thread/configOptions/updated";
pub const THREAD_TOKEN_USAGE_UPDATED: &str = "thread/tokenUsage/updated";
pub const THREAD_RESYNC_REQUIRED: &str = "thread/resyncRequired";
pub const TURN_STARTED: &str = "turn/started";
pub const TURN_COMPLETED: &str = "turn/completed";
pub const TURN_PLAN_UPDATED: &str = "turn/plan/updated";
pub const TURN_DIFF_UPDATED: &str = "turn/diff/updated";
pub const ITEM_STARTED: &str = "item/started";
pub const ITEM_COMPLETED: &str = "item/completed";
pub const ITEM_AGENT_MESSAGE_DELTA: &str = "item/agentMessage/delta";
pub const ITEM_PLAN_DELTA: &str = "item/plan/delta";
pub const ITEM_REASONING_SUMMARY_PART_ADDED: &str = "item/reasoning/summaryPartAdded";
pub const ITEM_REASONING_SUMMARY_TEXT_DELTA: &str = "item/reasoning/summaryTextDelta";
pub const ITEM_COMMAND_EXECUTION_OUTPUT_DELTA: &str = "item/commandExecution/outputDelta";
pub const ITEM_FILE_CHANGE_PATCH_UPDATED: &str = "item/fileChange/patchUpdated";
pub const ERROR: &str = "error";
pub const WARNING: &str = "warning";
pub const SERVER_REQUEST_RESOLVED: &str = "serverRequest/resolved";
pub const APPROVAL_REQUESTED: &str = "approval/requested";
pub const EVENT: &str = "event";

// Requests of the server.
pub const ITEM_COMMAND_EXECUTION_REQUEST_APPROVAL: &str = "item/commandExecution/requestApproval";
pub const ITEM_FILE_CHANGE_REQUEST_APPROVAL: &str = "item/fileChange/requestApproval";
pub const ITEM_TOOL_REQUEST_USER_INPUT: &str = "item/tool/requestUserInput";
pub const MCP_SERVER_ELICITATION_REQUEST: &str = "mcpServer/elicitation/request";
