"""Every promise of the API, and the test that holds the project to it. `tests/test_promises.py` keeps this true."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Promise:
    text: str
    test: str
    """`file::function`, below this folder."""


PROMISES: dict[str, Promise] = {
    # the stream
    "same-bytes": Promise(
        "A journal line and the data of its frame are the same bytes.",
        "server/test_stream_contract.py::test_the_journal_and_the_stream_have_the_same_bytes",
    ),
    "replay-exactly-once": Promise(
        "A client that comes back with its last id sees every durable event exactly once.",
        "crash/test_cut_clients.py::test_a_client_that_is_cut_anywhere_sees_every_durable_event_once",
    ),
    "replay-behind-the-ring": Promise(
        "Behind the ring the durable events come from the journal, and a gap says that deltas are missing.",
        "server/test_stream_contract.py::"
        "test_behind_the_ring_the_journal_goes_on_and_a_gap_says_that_deltas_are_missing",
    ),
    "snapshot-first": Promise(
        "Every stream begins with what a new client must know, waiting requests included.",
        "server/test_stream_contract.py::test_a_stream_begins_with_a_comment_and_a_snapshot_without_an_id",
    ),
    "numbers-never-repeat": Promise(
        "Numbers never repeat in a session's whole life; a load begins at the next million.",
        "core/test_restart.py::test_numbers_of_a_load_begin_at_the_next_million",
    ),
    "slow-reader": Promise(
        "A stalled reader slows nobody, is let go, and gets the rest by its cursor.",
        "server/test_stream_stalled.py::test_a_stalled_reader_is_ended_alone_and_gets_the_rest_by_its_cursor",
    ),
    "burst": Promise("A burst alone ends nobody.", "server/test_stream_stalled.py::test_a_burst_alone_ends_nobody"),
    "lf-only": Promise(
        "Lines of a stream end in LF, and no other separator is left bare.",
        "server/test_stream_contract.py::test_lines_end_in_lf_alone_and_no_separator_is_left_bare",
    ),
    "bad-cursor": Promise(
        "A malformed cursor is a 400.", "server/test_stream_contract.py::test_a_malformed_cursor_is_refused"
    ),
    # runs
    "golden-order": Promise(
        "The events of a run come in the order of the contract.",
        "core/test_golden_order.py::test_a_call_that_asks_and_is_allowed",
    ),
    "one-run": Promise(
        "Of many prompts at once exactly one is taken.",
        "server/test_races_http.py::test_of_twenty_prompts_exactly_one_is_taken",
    ),
    "idle-means-idle": Promise(
        "A client that sees `busy: false` can prompt at once.",
        "server/test_races_http.py::test_a_client_that_sees_idle_can_prompt_at_once",
    ),
    "cancel-keeps": Promise(
        "A cancel is immediate and keeps what was shown.",
        "core/test_cancel.py::test_streaming_text_is_kept_and_marked",
    ),
    "pairs": Promise(
        "No transcript that breaks the pairs of calls and results can be sent.",
        "core/test_transcript.py::test_no_walk_reaches_a_transcript_that_cannot_be_sent",
    ),
    "fail-closed": Promise(
        "A run goes on only for a stop reason that it knows.",
        "core/test_runs.py::test_each_stop_reason_ends_the_run_as_the_table_says",
    ),
    # permission
    "first-answer-wins": Promise(
        "Of two answers exactly one counts; the other is told how it was resolved.",
        "server/test_races_http.py::test_of_two_answers_exactly_one_counts",
    ),
    "request-survives": Promise(
        "A request that waits when the server is killed is offered again under the same id, and the call goes on.",
        "crash/test_killed_server.py::"
        "test_a_waiting_request_is_offered_again_and_its_answer_starts_the_rest_of_the_run",
    ),
    "truth-about-silence": Promise(
        "A request that nobody answered is called expired, never denied.",
        "core/test_permissions.py::test_an_expired_request_is_not_called_a_denial",
    ),
    "crash-never-widens": Promise(
        "A grant for the session holds only when its call got its result.",
        "core/test_restart.py::test_a_session_grant_survives_only_when_its_call_has_its_result",
    ),
    # durability
    "prompt-durable": Promise(
        "A prompt is acknowledged only when it is durable.",
        "crash/test_barriers.py::test_a_prompt_is_acknowledged_only_when_it_is_durable",
    ),
    "answer-durable": Promise(
        "An answer is acknowledged only when it is durable.",
        "crash/test_barriers.py::test_an_answer_is_acknowledged_only_when_it_is_durable",
    ),
    "effect-after-disk": Promise(
        "A tool takes effect only when what led to it is on disk.",
        "crash/test_barriers.py::test_a_tool_takes_effect_only_when_what_led_to_it_is_durable",
    ),
    "torn-tail": Promise(
        "A torn last line is set aside and everything before it is intact; other damage is refused by its line.",
        "crash/test_torn_tail.py::test_a_last_line_cut_at_any_byte_is_set_aside_and_the_rest_is_intact",
    ),
    "full-disk": Promise(
        "A full disk ends the run with a clear error, and what was written stays readable.",
        "crash/test_barriers.py::test_a_disk_that_is_full_at_any_line_ends_the_run_and_what_was_written_stays",
    ),
    "one-owner": Promise(
        "Two servers on the same folders share the list but no session.",
        "server/test_stopping.py::test_two_servers_on_the_same_folders_share_the_list_but_no_session",
    ),
    "stopping-is-not-cancelling": Promise(
        "What waits when the server stops is left as it is and offered again.",
        "server/test_stopping.py::test_a_request_that_waits_is_left_as_it_is_and_offered_again",
    ),
    "fast-stop": Promise(
        "Open streams are told and never hold up the exit.",
        "server/test_stopping.py::test_fifty_open_streams_are_told_and_do_not_hold_up_the_exit",
    ),
    # the door
    "order-of-checks": Promise(
        "Host, Origin, bearer, media type and size are checked in that order.",
        "server/test_guard.py::test_the_checks_come_in_their_order",
    ),
    "nothing-before-the-token": Promise(
        "Nothing of a body is read before the token is right.",
        "server/test_guard.py::test_without_the_token_nothing_is_told_and_nothing_read",
    ),
    "ticket-once": Promise(
        "A ticket opens one stream once and is never logged.",
        "server/test_stream_contract.py::test_a_ticket_opens_one_stream_once_and_is_never_logged",
    ),
    "no-500": Promise(
        "Every answer is one that openapi.yaml promises.",
        "server/test_openapi_fuzz.py::test_every_answer_is_one_that_the_file_promises",
    ),
    # attachments
    "attachments-by-reference": Promise(
        "Events, messages and the journal hold references to files, never their bytes.",
        "server/test_blobs_http.py::test_journal_and_answers_hold_references_and_never_bytes",
    ),
    "attachments-not-lost": Promise(
        "What was attached to an accepted prompt is there after a crash.",
        "server/test_blobs_http.py::test_a_crash_before_the_user_message_loses_no_attachment",
    ),
    "pictures-fit": Promise(
        "A picture is within every vendor's limits before it enters, or it is refused.",
        "core/test_images.py::test_every_result_is_within_the_limits_and_what_fits_is_left_alone",
    ),
    # model services
    "cut-never-finished": Promise(
        "An answer that was cut off is never taken for a whole one.",
        "core/test_cut_recordings.py::test_a_cut_answer_is_whole_or_nothing",
    ),
    "no-input-no-run": Promise(
        "A call whose input is no whole object is answered and never run.",
        "core/test_runs.py::test_a_bad_call_is_answered_and_never_asked_or_started",
    ),
    "shown-not-repeated": Promise(
        "Once something of an answer was shown, nothing is asked again.",
        "core/test_model_calls.py::test_once_something_was_shown_nothing_is_asked_again_and_no_other_model_is",
    ),
    "prefix-stable": Promise(
        "What was said before is sent again byte by byte, so that the service's cache holds.",
        "core/test_anthropic_body.py::test_the_bytes_of_a_request_begin_with_those_of_the_one_before",
    ),
    "no-key-in-errors": Promise(
        "No sentence about a failure holds a key.", "core/test_faults.py::test_no_key_and_no_home_is_passed_on"
    ),
    # tools
    "inside-the-roots": Promise(
        "File tools work inside the roots, whatever a link says.",
        "core/test_runs.py::test_a_bad_call_is_answered_and_never_asked_or_started",
    ),
    "tree-dies": Promise(
        "A command and all it started end with its call.",
        "core/test_cancel.py::test_a_running_command_keeps_what_it_printed_and_dies",
    ),
    # clients
    "cursor-after-handling": Promise(
        "The client's cursor moves only after the event was handled.",
        "clients/test_stream.py::test_cursor_moves_only_when_the_next_event_is_asked_for",
    ),
    "recipes-run": Promise(
        "What the README tells people to paste works as pasted.",
        "test_readme.py::test_the_recipe_goes_from_a_session_to_the_answer",
    ),
}
