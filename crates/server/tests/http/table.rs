//! Where each rule of connections and each guard of the doors is tested: whoever changes one finds its tests here, and whoever
//! renames a test is told.

use std::path::Path;

const CONNECTION: &str = "crates/rpc/tests/connection.rs";
const FRAMES: &str = "crates/rpc/tests/frames.rs";
const LINES: &str = "crates/rpc/tests/transports.rs";
const SOCKET: &str = "crates/rpc/tests/websocket.rs";
const HTTP: &str = "crates/server/tests/http";
const ACCESS: &str = "crates/server/tests/access";
const OPS: &str = "crates/server/tests/ops_socket";

/// A rule, the file or folder, and the tests in it.
const TABLE: &[(&str, &str, &[&str])] = &[
    // Connections.
    (
        "the reader waits for no handler and no place",
        CONNECTION,
        &[
            "a_hundred_handlers_wait_for_the_client_and_an_echo_is_still_answered",
            "a_full_connection_refuses_calls_and_still_does_everything_else",
            "a_full_connection_hears_the_answer_that_makes_it_less_full",
            "more_concurrent_calls_than_places_wait_for_one",
        ],
    ),
    (
        "answers of the client: late, unknown, null, an error, gone with the connection",
        CONNECTION,
        &["the_client_answers_refuses_or_is_too_late", "only_so_many_requests_wait_for_one_client"],
    ),
    (
        "one pass over a frame",
        FRAMES,
        &[
            "malformed_frames_are_answered_and_the_connection_goes_on",
            "unusual_but_valid_frames_get_their_result",
            "a_batch_is_answered_as_one_array_in_its_own_order",
            "blank_frames_notifications_and_answers_are_not_answered",
        ],
    ),
    (
        "lanes keep their order",
        CONNECTION,
        &[
            "ordered_calls_run_in_the_order_in_which_they_were_sent",
            "what_a_call_caused_comes_after_its_answer",
        ],
    ),
    ("bursts are flushed once", SOCKET, &["what_is_queued_together_is_flushed_once"]),
    (
        "a client that reads slowly or not at all",
        CONNECTION,
        &[
            "a_client_that_never_reads_is_closed_at_the_hard_bound_and_costs_no_more",
            "where_overflow_is_refused_the_application_is_told_once_and_can_go_on_later",
            "a_client_that_does_not_read_its_answers_is_not_read",
        ],
    ),
    (
        "the same on a WebSocket",
        SOCKET,
        &[
            "a_client_that_never_reads_is_cut_after_the_grace_and_costs_its_outbox_at_most",
            "a_client_that_reads_slowly_is_not_cut_while_it_reads",
        ],
    ),
    (
        "the same over the wire: bounded, shown, nobody delayed, told once, whole again, and late is not lost",
        HTTP,
        &[
            "a_stalled_client_costs_its_outbox_delays_nobody_and_becomes_whole_by_joining_again",
            "a_client_that_comes_to_reading_late_has_lost_nothing",
            "a_client_that_reads_too_slowly_gets_a_new_snapshot_and_others_see_no_delay",
            "a_client_that_never_reads_costs_its_outbox_and_ends",
        ],
    ),
    ("stdio waits", "tests/load.rs", &["what_waits_for_the_client_on_stdio_comes_when_it_reads_again"]),
    (
        "shutdown",
        CONNECTION,
        &[
            "a_shutdown_lets_calls_end_and_says_so_to_those_that_do_not",
            "an_idle_connection_shuts_down_at_once",
        ],
    ),
    ("turns end before connections do", HTTP, &["everybody_is_told_how_turns_ended_before_connections_do"]),
    (
        "the end of the input",
        CONNECTION,
        &[
            "a_client_that_vanishes_takes_its_handlers_along",
            "a_client_that_stops_sending_still_gets_its_answers",
        ],
    ),
    (
        "approvals outlive connections, and the first answer wins",
        "crates/app-server/tests/api",
        &[
            "the_first_answer_wins_and_the_late_one_is_told",
            "an_approval_waits_for_whoever_joins",
            "open_requests_are_asked_again_once_and_resolved_ones_are_not",
        ],
    ),
    ("approvals over HTTP alone", HTTP, &["a_turn_with_an_approval_needs_nothing_but_posts"]),
    // WebSockets.
    (
        "handshake, tokens, subprotocols",
        HTTP,
        &[
            "the_handshake_is_that_of_the_standard",
            "a_token_opens_the_socket_in_a_header_or_as_a_subprotocol_and_is_never_sent_back",
        ],
    ),
    (
        "close codes; oversized, binary, unmasked and fragmented frames",
        HTTP,
        &[
            "frames_that_break_the_rules_end_the_socket_with_the_code_for_it",
            "pieces_pings_and_nonsense_are_no_reason_to_part",
        ],
    ),
    ("every end has its code", SOCKET, &["every_end_has_its_code_and_says_why"]),
    (
        "half-open sockets",
        HTTP,
        &["a_socket_on_which_no_ping_is_answered_ends", "a_socket_on_which_pings_are_answered_stays"],
    ),
    (
        "pings that are not read, messages that never come whole, and the room that they share",
        SOCKET,
        &[
            "a_client_that_pings_without_reading_the_pongs_is_not_read_on_and_cut_after_the_grace",
            "a_message_that_never_comes_whole_ends_the_connection",
            "messages_that_have_come_in_part_share_their_room",
        ],
    ),
    ("the same of pings over the wire", HTTP, &["a_client_that_pings_without_reading_is_not_read_on"]),
    // Lines.
    (
        "line breaks inside JSON, long lines, any pieces",
        LINES,
        &[
            "line_breaks_in_passed_through_json_do_not_break_the_framing",
            "a_line_of_twenty_mebibytes_is_skipped_and_answered",
            "lines_may_come_in_any_pieces_and_with_any_ends",
        ],
    ),
    (
        "framing by the first bytes",
        "crates/rpc/tests/content_length.rs",
        &["what_a_client_speaks_is_told_from_its_first_bytes_and_nothing_is_lost"],
    ),
    // The port.
    ("Host", HTTP, &["a_name_that_was_rebound_to_this_machine_reaches_nothing"]),
    (
        "Origin, also null",
        HTTP,
        &[
            "a_foreign_page_reaches_nothing_not_even_with_a_websocket",
            "a_page_of_an_allowed_origin_may_ask_and_read",
        ],
    ),
    ("Origin, also null", "crates/server/src/http", &["only_our_own_pages_and_named_ones_get_in"]),
    ("tokens in the query", HTTP, &["a_credential_in_the_address_is_refused_and_not_repeated"]),
    (
        "expired and reused codes",
        ACCESS,
        &[
            "s119_a_code_makes_one_device_and_is_used_up",
            "a_code_is_worth_nothing_after_fifteen_minutes_whichever_clock_says_so",
            "two_who_have_the_same_code_become_one_device",
        ],
    ),
    (
        "expired and reused tickets",
        ACCESS,
        &["s120_s121_a_ticket_opens_one_socket", "a_ticket_is_worth_nothing_after_five_minutes"],
    ),
    ("a failure to store consumes nothing", ACCESS, &["s125_what_cannot_be_stored_consumes_nothing"]),
    (
        "a ticket opens the door once",
        HTTP,
        &["a_ticket_opens_it_once", "a_request_that_is_no_handshake_uses_up_no_ticket"],
    ),
    (
        "a revoked device's open connections",
        HTTP,
        &["all_that_a_device_has_open_ends_at_once_when_it_is_revoked_and_nothing_of_another"],
    ),
    (
        "static, capability and signed tokens",
        ACCESS,
        &[
            "static_tokens_come_from_a_file",
            "a_capability_token_is_a_file_or_a_hash",
            "signed_tokens_are_let_in_by_what_they_say",
            "a_signature_is_of_the_secret_and_of_nothing_else",
            "who_came_by_a_signed_token_leaves_when_it_expires",
        ],
    ),
    (
        "roles, over each way in",
        HTTP,
        &[
            "who_may_not_is_told_who_may_over_a_websocket_and_over_post",
            "an_observer_follows_and_reads_and_its_ops_are_refused_by_their_id",
        ],
    ),
    (
        "rate limits and lockout",
        ACCESS,
        &[
            "who_guesses_is_locked_out_and_a_paired_neighbour_is_not",
            "pairing_and_tickets_are_asked_for_at_a_bounded_rate",
        ],
    ),
    (
        "connection caps, total and of a device; a thousand connections",
        HTTP,
        &[
            "who_finds_no_place_is_told_and_others_are_not_disturbed",
            "a_device_has_so_many_streams",
            "a_thousand_sockets_are_served_at_once",
        ],
    ),
    ("slow heads, and their size", HTTP, &["a_head_that_drips_in_is_not_waited_for", "heads_have_a_size"]),
    (
        "bodies: size, all of them, slow ones, kind",
        HTTP,
        &[
            "a_body_that_is_too_large_is_refused_whether_its_length_is_told_or_not",
            "all_bodies_together_have_a_bound",
            "a_body_that_does_not_come_is_not_waited_for",
            "what_is_no_post_of_json_is_refused_by_what_it_lacks",
        ],
    ),
    ("a flood", HTTP, &["a_client_that_floods_is_answered_and_others_are_too"]),
    (
        "TLS, and no other machine without it",
        HTTP,
        &[
            "it_is_spoken_where_it_was_asked_for_and_nothing_else_is",
            "other_machines_are_not_listened_for_in_the_clear_by_accident",
        ],
    ),
    (
        "the audit log: approvals",
        HTTP,
        &["an_approval_answered_by_a_device_is_in_the_audit_log_with_its_name_whichever_way_it_answers"],
    ),
    (
        "the audit log: pairing and revoking",
        "tests/pairing.rs",
        &["a_device_is_paired_used_listed_and_revoked"],
    ),
    ("no secret is written", "crates/server/tests/secrets.rs", &["secrets_are_in_no_file_and_no_log"]),
    ("the pairing page", HTTP, &["the_page_is_for_everybody_holds_nothing_and_may_do_nothing_but_pair"]),
    // The Op/Event socket.
    (
        "the list first, nothing between, lagged",
        HTTP,
        &[
            "the_list_comes_first_and_no_session_falls_between_it_and_the_events",
            "a_client_that_did_not_read_is_told_how_much_it_missed_and_stays_usable",
        ],
    ),
    ("answers are never dropped", OPS, &["answers_that_do_not_fit_wait_and_are_never_dropped"]),
    // One home, one server.
    (
        "one server, whoever starts it and whatever was left",
        "tests/life.rs",
        &["many_starters_start_one_server", "a_killed_server_is_replaced_whatever_it_left"],
    ),
    (
        "bridges outlive the server",
        "tests/bridge.rs",
        &[
            "two_clients_see_one_turn_and_the_end_of_one_is_nothing_to_the_other",
            "killed_with_an_approval_open",
        ],
    ),
    ("every story over every door", "tests/transcripts.rs", &["every_door_is_gone_through"]),
    (
        "jsonrpsee's own clients",
        "tests/jsonrpsee_clients.rs",
        &["its_websocket_client_makes_a_turn", "its_http_client_makes_a_turn"],
    ),
];

/// A file's text, or that of all files of a folder.
fn text(path: &Path) -> String {
    if path.is_file() {
        return std::fs::read_to_string(path).unwrap();
    }
    let files = std::fs::read_dir(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    files.map(|file| file.unwrap().path()).filter(|file| file.is_file()).map(|file| text(&file)).collect()
}

#[test]
fn every_test_that_the_table_names_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (rule, place, tests) in TABLE {
        let text = text(&root.join(place));
        for test in *tests {
            assert!(text.contains(&format!("fn {test}(")), "{rule}: {test} is not in {place}");
        }
    }
}
