//! Where each numbered scenario and each fault is tested that this folder does not test itself; its own tests have the
//! numbers in their names.

use std::path::Path;

/// Scenario, file from the workspace's root, test.
const TABLE: &[(&str, &str, &str)] = &[
    ("19 a late end of an older turn", "crates/engine/src/activity.rs", "an_old_turn_cannot_end_a_newer_one"),
    (
        "52, 53 compare and set",
        "crates/store/tests/commits.rs",
        "a_commit_from_the_wrong_place_changes_nothing",
    ),
    (
        "52, 53 compare and set",
        "crates/store/tests/commits.rs",
        "commits_that_contradict_themselves_are_refused",
    ),
    (
        "57 older documents",
        "crates/protocol/tests/ops_json.rs",
        "a_session_of_an_older_server_is_read_as_revision_0_idle",
    ),
    (
        "58, B3 one server a home",
        "crates/home/tests/home.rs",
        "one_holder_at_a_time_and_the_other_learns_who",
    ),
    ("58, B3 one server a home", "tests/crash.rs", "a_home_has_one_server"),
    (
        "59, B2 a failed write",
        "crates/engine/tests/storage.rs",
        "a_stalled_session_loses_nothing_of_what_the_agent_says",
    ),
    ("60", "crates/engine/tests/transcript.rs", "fifty_five_turns_are_three_pages_without_a_gap"),
    ("61", "crates/engine/tests/transcript.rs", "a_limit_outside_one_to_fifty_is_brought_inside"),
    (
        "62",
        "crates/engine/tests/transcript.rs",
        "only_a_prompt_that_opened_a_kept_turn_of_this_session_is_a_cursor",
    ),
    (
        "63",
        "crates/server/tests/ops_socket/answers.rs",
        "a_cursor_that_is_none_of_the_session_is_answered_by_its_request_id",
    ),
    ("64", "crates/server/tests/ops_socket/answers.rs", "an_unknown_session_has_an_empty_page_with_nulls"),
    (
        "65",
        "crates/engine/tests/transcript.rs",
        "what_the_agent_said_before_the_first_turn_comes_once_with_the_oldest",
    ),
    ("66", "crates/engine/tests/transcript.rs", "a_transcript_without_a_user_is_one_page_whatever_the_limit"),
    ("67", "crates/engine/tests/transcript.rs", "what_is_appended_meanwhile_changes_no_older_page"),
    (
        "68",
        "crates/engine/src/transcript.rs",
        "an_end_takes_the_place_of_the_steps_before_it_and_keeps_what_they_knew",
    ),
    ("69", "crates/engine/src/transcript.rs", "steps_without_an_end_stay"),
    ("70", "crates/engine/src/transcript.rs", "a_status_is_read_whatever_its_case_and_the_space_around_it"),
    (
        "71",
        "crates/engine/tests/transcript.rs",
        "steps_of_a_call_that_ended_are_left_out_of_pages_and_told_live",
    ),
    ("72", "crates/facts/src/prompt.rs", "display_text_is_cut_after_400_scalars"),
    ("73", "crates/facts/src/prompt.rs", "canonical_text_keeps_text_and_marks_references"),
    ("74", "crates/engine/tests/prompts.rs", "the_agent_gets_what_is_expanded_and_no_row_holds_it"),
    ("75", "crates/engine/tests/prompts.rs", "a_chat_is_its_newest_twenty_turns"),
    (
        "76",
        "crates/engine/src/prompt/chat.rs",
        "a_newest_message_that_is_too_long_keeps_its_label_and_its_end",
    ),
    ("77", "crates/engine/src/prompt/chat.rs", "thoughts_and_tools_are_left_out_and_plans_are_bullets"),
    (
        "78",
        "crates/engine/tests/prompts.rs",
        "each_unresolved_reference_is_an_error_of_its_prompt_and_the_turn_goes_on",
    ),
    (
        "79, B9",
        "crates/engine/src/prompt/chat.rs",
        "chunks_of_one_message_are_joined_without_gaps_and_messages_by_a_blank_line",
    ),
    ("84", "crates/engine/tests/worktrees.rs", "a_session_that_cannot_be_stored_takes_its_checkout_back"),
    (
        "85, 101",
        "crates/engine/tests/worktrees.rs",
        "a_session_works_in_a_checkout_of_its_own_and_says_where_that_is_and_what_from",
    ),
    ("86", "crates/workspace/tests/it/worktree.rs", "uncommitted_edits_stay_where_they_are"),
    ("87, 91", "crates/engine/tests/worktrees.rs", "a_detached_head_and_a_selected_directory_are_kept"),
    ("88", "crates/engine/tests/worktrees.rs", "the_default_branch_of_origin_is_taken_as_it_is_known_here"),
    (
        "89",
        "crates/engine/tests/worktrees.rs",
        "a_missing_or_dangling_origin_is_refused_with_its_reason_and_nothing_else_is_taken",
    ),
    ("90", "crates/engine/tests/worktrees.rs", "a_baseline_that_moved_since_it_was_shown_is_refused"),
    (
        "92, B12",
        "crates/engine/tests/worktrees.rs",
        "a_directory_that_no_commit_has_is_refused_and_everything_taken_back",
    ),
    ("93", "crates/engine/tests/worktrees.rs", "outside_git_and_on_an_unborn_branch_there_is_none"),
    ("94, 95", "crates/engine/tests/worktrees.rs", "whatever_is_in_the_way_is_left_alone"),
    ("95", "crates/workspace/tests/it/worktree.rs", "taking_back_leaves_what_others_made"),
    ("96", "crates/engine/tests/worktrees.rs", "a_checkout_that_was_replaced_takes_no_prompt"),
    ("97", "crates/engine/tests/worktrees.rs", "the_directory_it_was_made_from_may_go"),
    (
        "98, B12 a switched branch warns",
        "crates/engine/tests/worktrees.rs",
        "a_switched_branch_is_told_once_and_the_prompt_runs",
    ),
    ("99", "crates/engine/tests/discard.rs", "checkout_and_branch_go_and_the_history_stays"),
    ("100", "crates/engine/tests/discard.rs", "a_running_turn_keeps_it"),
    (
        "105 a replay tells the context window only",
        "crates/agents/tests/driver/opening.rs",
        "a_replay_is_muted_before_the_answer_and_after_it",
    ),
    ("118 bounds", "crates/engine/src/agent_input.rs", "texts_are_bounded_each_and_together"),
    ("122, 128", "crates/server/tests/ops_socket/order.rs", "the_first_frame_is_the_list"),
    (
        "122 a list that cannot be read",
        "crates/server/tests/ops_socket/answers.rs",
        "a_list_that_cannot_be_read_is_told_and_the_connection_goes_on",
    ),
    (
        "127, B20",
        "crates/server/tests/ops_socket/answers.rs",
        "what_is_no_message_is_answered_and_the_connection_goes_on",
    ),
    (
        "129",
        "crates/server/tests/ops_socket/slow.rs",
        "a_client_that_does_not_read_is_told_what_it_missed_and_stays_usable",
    ),
    ("130", "crates/server/tests/ops_socket/order.rs", "a_policy_sent_before_a_prompt_holds_for_it"),
    (
        "131",
        "crates/server/tests/ops_socket/order.rs",
        "a_cancel_does_not_wait_behind_a_prompt_whose_agent_does_not_start",
    ),
    ("132", "crates/protocol/tests/ops_json.rs", "providers_have_one_name_space"),
    ("119", "crates/server/tests/access/pairing.rs", "s119_a_code_makes_one_device_and_is_used_up"),
    ("120, 121", "crates/server/tests/access/tickets.rs", "s120_s121_a_ticket_opens_one_socket"),
    ("123", "crates/server/tests/access/tickets.rs", "s123_a_ticket_dies_with_its_device"),
    (
        "123 its open sockets",
        "crates/server/tests/access/pairing.rs",
        "a_revoked_device_leaves_at_once_and_others_stay",
    ),
    ("124", "crates/server/tests/access/pairing.rs", "s124_devices_survive_a_restart_and_codes_do_not"),
    ("124 only hashes are stored", "crates/server/tests/secrets.rs", "secrets_are_in_no_file_and_no_log"),
    ("125", "crates/server/tests/access/pairing.rs", "s125_what_cannot_be_stored_consumes_nothing"),
    (
        "126",
        "crates/server/tests/access/tickets.rs",
        "s126_a_secret_in_the_wrong_place_is_refused_and_not_used_up",
    ),
    (
        "B4 a cancel before the agent is there",
        "crates/engine/tests/op_event/turns.rs",
        "s15_a_cancel_before_the_agent_has_a_session_ends_the_turn",
    ),
    (
        "B8 the list and what follows it",
        "crates/server/tests/ops_socket/order.rs",
        "what_happens_while_a_client_connects_is_in_the_list_or_follows_it",
    ),
    ("B10", "crates/engine/src/prompt/skills/template.rs", "a_value_is_never_expanded_again"),
    (
        "B14 once, not always",
        "crates/engine/tests/op_event/permissions.rs",
        "s38_an_automatic_allow_is_for_once",
    ),
    ("B15", "crates/engine/tests/prompts.rs", "the_agent_gets_what_is_expanded_and_no_row_holds_it"),
    (
        "B16 the status of plan entries",
        "crates/app-server/src/view/tests/stories.rs",
        "a_plan_is_one_item_and_completes_with_its_turn",
    ),
    ("B17", "crates/store/tests/trouble.rs", "damaged_rows_are_shown_as_stubs"),
    ("B18 file names", "crates/engine/src/title.rs", "titles"),
];

/// What has no counterpart here, and why.
const WITHOUT: &[(&str, &str)] = &[
    ("111", "efforts are what an agent offers as its thought_level option; no adapter's metadata is read"),
    ("112", "the choices of an agent's options are told as it offers them; none is renamed or hidden"),
    (
        "113, 114",
        "documents name no MCP servers; servers whose transport an agent lacks are left out with a warning",
    ),
    ("B19", "heartbeats belong to the socket and come with it"),
];

#[test]
fn every_test_that_the_table_names_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (scenario, file, test) in TABLE {
        let text = std::fs::read_to_string(root.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert!(text.contains(&format!("fn {test}(")), "{scenario}: {test} is not in {file}");
    }
}

/// The scenarios 1 to 132 and the faults B1 to B20: each is in a name of this folder, in the table, or without counterpart.
#[test]
fn every_scenario_has_its_place() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/op_event");
    let mut named = Vec::new();
    for file in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        let names =
            text.lines().filter_map(|line| line.trim().trim_start_matches("async ").strip_prefix("fn "));
        named.extend(names.flat_map(|name| name.split('_').map(str::to_owned).collect::<Vec<_>>()));
    }
    let places =
        TABLE.iter().map(|(scenario, ..)| *scenario).chain(WITHOUT.iter().map(|(scenario, _)| *scenario));
    let words: Vec<String> = places
        .flat_map(|scenario| scenario.split([' ', ',']).map(str::to_owned).collect::<Vec<_>>())
        .collect();
    for number in 1..=132_u32 {
        let found = named.contains(&format!("s{number:02}")) || words.contains(&number.to_string());
        assert!(found, "scenario {number} is tested nowhere");
    }
    for number in 1..=20 {
        let found = named.contains(&format!("b{number}")) || words.contains(&format!("B{number}"));
        assert!(found, "fault B{number} is tested nowhere");
    }
}
