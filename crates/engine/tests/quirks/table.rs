//! Which test is about which habit of agents: whoever changes one finds its tests here, and whoever renames a test is told.

use std::path::Path;

const HERE: &str = "crates/engine/tests/quirks";
const RECORDINGS: &str = "crates/engine/tests/recordings.rs";
const DRIVER: &str = "crates/agents/tests/driver";

/// The habits are numbered so that they can be named.
const NUMBERED: usize = 44;

/// A habit, the file or folder, and the tests in it.
const TABLE: &[(&str, &str, &[&str])] = &[
    // Start, versions, login.
    ("1 starts take long, or for ever", HERE, &["an_agent_that_never_answers_initialize_is_given_up"]),
    ("2 a sentence on stdout and exit 0", HERE, &["a_farewell_on_stdout_is_shown_as_what_it_is"]),
    ("3 session/new is never answered", HERE, &["a_session_that_is_never_opened_is_given_up"]),
    (
        "4 nothing is taken before initialize",
        HERE,
        &["initialize_comes_first_and_the_session_before_the_prompt"],
    ),
    ("5 versions", HERE, &["versions_that_nobody_speaks_are_told"]),
    (
        "6 logins, upstream failures of a key",
        HERE,
        &[
            "a_login_that_is_missing_is_said_wherever_it_is_noticed",
            "a_login_that_fails_is_a_login_that_is_missing",
        ],
    ),
    (
        "7 default modes differ in danger; ids of any form",
        HERE,
        &["the_mode_that_asks_is_set_before_the_first_prompt", "a_mode_that_cannot_be_set_is_warned_of"],
    ),
    ("8 a model that is refused", HERE, &["a_model_that_is_refused_changes_nothing"]),
    // Framing.
    (
        "9 stray lines are neither answered nor the end",
        HERE,
        &["stray_lines_are_neither_answered_nor_the_end", "messages_without_a_version_are_messages"],
    ),
    ("10 stderr", HERE, &["a_full_stderr_blocks_nobody_and_its_end_is_kept"]),
    (
        "11 giant lines, output as bytes",
        HERE,
        &[
            "giant_lines_are_read_and_bytes_are_output",
            "a_line_without_end_ends_the_agent_and_not_the_session",
        ],
    ),
    (
        "12 results with an id, without, null",
        HERE,
        &["a_replay_may_come_before_the_answer_behind_it_or_both"],
    ),
    // Updates.
    ("13 message ids", HERE, &["messages_without_ids_and_thoughts_with_the_id_of_the_answer"]),
    ("14 the prompt comes back; it is shown once", HERE, &["the_echo_of_a_prompt_is_shown_once"]),
    ("15 empty chunks", HERE, &["empty_chunks_are_no_items_and_carry_tokens"]),
    (
        "16 tokens from three places, zeros after a cancel, null",
        HERE,
        &["zeros_and_nulls_do_not_overwrite_good_numbers", "empty_chunks_are_no_items_and_carry_tokens"],
    ),
    ("17 warnings, banners", HERE, &["a_banner_before_the_first_turn_is_a_notice"]),
    ("18 a session info without a title", HERE, &["a_session_info_with_nothing_in_it_is_no_title"]),
    (
        "19 updates before the session has an id",
        HERE,
        &["what_is_told_before_the_session_has_an_id_is_not_lost"],
    ),
    (
        "20 updates behind the end",
        HERE,
        &[
            "what_comes_behind_the_end_is_of_that_turn",
            "what_a_command_still_says_in_the_next_turn_makes_no_call_there",
        ],
    ),
    (
        "21 options: the answer alone, or an update before or behind it",
        HERE,
        &["an_option_is_what_the_agent_last_said_of_it"],
    ),
    ("22 plans, or a tool of the same use", HERE, &["plans_come_as_plans_or_as_a_tool"]),
    // Tool calls.
    (
        "23 permission first, or without a call",
        HERE,
        &["a_permission_may_come_before_its_call_or_without_one"],
    ),
    (
        "24 little in the request; a status goes backwards",
        HERE,
        &[
            "what_an_agent_says_about_its_request_is_why_it_is_asked",
            "a_request_that_only_names_its_call_shows_what_is_known_of_it",
            "a_request_about_nothing_that_is_known_is_asked_all_the_same",
        ],
    ),
    ("25 titles and arguments grow", HERE, &["titles_and_arguments_may_grow"]),
    (
        "26 calls are never closed, or oddly",
        HERE,
        &[
            "calls_that_are_left_open_are_closed",
            "a_cancelled_command_is_closed_however_the_agent_puts_it",
            "a_failing_command_keeps_its_exit_code_whatever_its_status",
        ],
    ),
    (
        "27 failures of the model, turns without output",
        HERE,
        &["errors_of_the_model_are_told_in_its_words", "a_turn_with_no_output_says_so"],
    ),
    ("28 diffs and terminals", HERE, &["content_of_every_sort"]),
    ("29 places, arguments, results of any form", HERE, &["places_arguments_and_results_of_any_form"]),
    ("30 what is no tool comes as a call", HERE, &["what_is_no_tool_may_come_as_a_call"]),
    (
        "31 files and terminals of the client",
        HERE,
        &["files_terminals_and_unknown_requests_are_refused_at_once"],
    ),
    // Turn control.
    ("32 a rejection ends the turn, or not", HERE, &["a_rejection_may_end_the_turn_or_not"]),
    (
        "33 a cancel finds the end",
        HERE,
        &["a_cancel_that_finds_the_end_is_an_interrupt", "an_agent_that_ignores_a_cancel_is_replaced"],
    ),
    (
        "34 one prompt at a time",
        HERE,
        &["one_prompt_at_a_time_whatever_clients_do", "an_agent_that_is_still_busy_is_told_to_stop"],
    ),
    ("35 a cancel of nothing", HERE, &["an_interrupt_of_nothing_is_nothing"]),
    ("36 an empty prompt", HERE, &["a_prompt_with_nothing_in_it_never_gets_to_the_agent"]),
    (
        "37 each request has its one outcome",
        HERE,
        &[
            "a_cancel_with_a_request_open_answers_it_behind_the_cancel",
            "an_agent_that_is_still_busy_is_told_to_stop",
        ],
    ),
    (
        "38 requests are taken back; we cancel with session/cancel",
        HERE,
        &[
            "a_request_that_is_taken_back_is_asked_no_more",
            "a_cancel_with_a_request_open_answers_it_behind_the_cancel",
        ],
    ),
    // Sessions.
    (
        "39 a replay before, behind, or around the answer",
        HERE,
        &["a_replay_may_come_before_the_answer_behind_it_or_both"],
    ),
    ("39 the same, as recorded", RECORDINGS, &["gemini", "opencode", "kimi"]),
    ("40 a resume tells nothing", HERE, &["a_resume_tells_no_history_and_may_tell_commands"]),
    (
        "41 a session that is not known",
        HERE,
        &[
            "a_session_that_the_agent_no_longer_knows_starts_afresh_and_says_so",
            "a_session_that_is_lost_while_the_agent_runs_is_opened_again_with_the_next_prompt",
        ],
    ),
    ("42 a directory that is not there", HERE, &["a_directory_that_is_gone_never_gets_to_the_agent"]),
    ("43 MCP servers that hang or do not start", HERE, &["a_session_that_is_never_opened_is_given_up"]),
    ("44 the end of input is not enough", HERE, &["an_agent_that_does_not_leave_is_killed"]),
    (
        "44 groups of processes",
        DRIVER,
        &[
            "a_stop_ends_the_agent_its_group_and_what_left_the_group",
            "an_agent_that_heeds_neither_the_end_of_input_nor_sigterm_is_killed",
        ],
    ),
    // What users of other clients have met.
    ("a stop leaves the session running for ever", HERE, &["an_agent_that_ignores_a_cancel_is_replaced"]),
    ("a second end of a cancelled turn", HERE, &["a_second_end_of_a_cancelled_turn_is_no_end_of_the_next"]),
    (
        "a cancel is answered as if nothing were, or with an error",
        HERE,
        &["a_cancel_that_finds_the_end_is_an_interrupt"],
    ),
    ("a late cancel hits the next prompt", HERE, &["one_prompt_at_a_time_whatever_clients_do"]),
    (
        "a permission about a call that nobody announced",
        HERE,
        &["a_permission_may_come_before_its_call_or_without_one"],
    ),
    (
        "updates behind the end; the last text is lost",
        HERE,
        &[
            "the_last_words_come_before_the_end_though_they_are_in_one_piece_with_it",
            "what_comes_behind_the_end_is_of_that_turn",
        ],
    ),
    ("tools never reach a final status", HERE, &["calls_that_are_left_open_are_closed"]),
    ("logs on stdout, one with a matching id", HERE, &["stray_lines_are_neither_answered_nor_the_end"]),
    ("updates that nobody knows", HERE, &["updates_that_nobody_knows_are_passed_over"]),
    (
        "an absent status, an id that comes again, a prompt shown twice",
        HERE,
        &[
            "calls_that_are_left_open_are_closed",
            "ids_come_again_in_the_next_turn",
            "the_echo_of_a_prompt_is_shown_once",
        ],
    ),
    ("an agent dies in a turn", HERE, &["an_agent_that_leaves_in_a_turn_is_started_again"]),
];

#[test]
fn every_test_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (habit, place, tests) in TABLE {
        let text = texts(&root.join(place));
        assert!(!tests.is_empty(), "{habit}");
        for test in *tests {
            assert!(text.contains(&format!("fn {test}(")), "{habit}: no test {test} in {place}");
        }
    }
}

#[test]
fn every_number_is_there() {
    let number = |habit: &str| habit.split(' ').next().and_then(|word| word.parse::<usize>().ok());
    let mut found: Vec<usize> = TABLE.iter().filter_map(|(habit, ..)| number(habit)).collect();
    found.dedup();
    assert_eq!(found, (1..=NUMBERED).collect::<Vec<_>>());
}

#[test]
fn every_test_here_is_about_a_habit() {
    let text = texts(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/quirks"));
    let tests = text.split("#[tokio::test]\nasync fn ").skip(1).filter_map(|rest| rest.split('(').next());
    for test in tests {
        assert!(TABLE.iter().any(|(_, _, tests)| tests.contains(&test)), "{test} is not in the table");
    }
}

/// The text of a file, or of all files of a folder.
fn texts(place: &Path) -> String {
    if place.is_file() {
        return std::fs::read_to_string(place).unwrap();
    }
    let files = std::fs::read_dir(place).unwrap();
    files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap()).collect()
}
