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
    "view-of-replay": Promise(
        "What a stream is to show holds for what it replays, from ring and journal, as for what comes.",
        "server/test_stream_views.py::test_a_view_shows_the_same_of_what_happens_and_of_its_replay",
    ),
    "view-keeps-numbers": Promise(
        "A cursor that was taken under one choice of events loses nothing under another.",
        "server/test_stream_views.py::test_a_place_that_was_taken_under_one_view_loses_nothing_under_another",
    ),
    "final-has-no-gap": Promise(
        "A stream without display-only events has all that there was, from however long ago.",
        "server/test_stream_views.py::test_a_view_holds_for_what_comes_from_the_journal",
    ),
    "quiet-cursor-moves": Promise(
        "A stream that shows nothing of what happens says now and then how far it has come.",
        "server/test_stream_views.py::test_a_quiet_stream_is_kept_alive_and_says_how_far_it_has_come",
    ),
    "many-same-bytes": Promise(
        "Over many sessions events keep their bytes and have no id; the place in all of them comes behind them.",
        "server/test_many_streams.py::test_frames_keep_their_bytes_without_an_id_and_the_place_comes_behind_them",
    ),
    "many-bounded-cursor": Promise(
        "However many sessions there are, the cursor fits into a request, and what it leaves out is not lost.",
        "server/test_streams_random.py::test_a_cursor_that_names_one_of_many_sessions_loses_nothing_either",
    ),
    "many-come-later": Promise(
        "A session that comes later is there from its beginning, also when nobody listened.",
        "server/test_many_streams.py::test_a_session_that_came_while_nobody_listened_is_there_from_its_beginning",
    ),
    "many-lose-nothing": Promise(
        "A cursor over many sessions loses nothing, whatever is cut, closed and loaded again.",
        "server/test_streams_random.py::test_a_reader_of_many_sessions_loses_nothing",
    ),
    "many-survive-a-kill": Promise(
        "A cursor over many sessions from before a SIGKILL loses nothing, also of sessions that are not loaded yet.",
        "crash/test_killed_many_streams.py::"
        "test_with_the_cursor_from_before_a_kill_a_reader_of_all_sessions_loses_nothing",
    ),
    "many-one-wake": Promise(
        "However many sessions have news, their reader is woken once and writes one chunk.",
        "server/test_many_streams.py::test_many_sessions_that_have_news_are_one_wake_and_one_chunk",
    ),
    "why-model": Promise(
        "Of a silent model it is said which it is and when it was last heard.",
        "server/test_why_http.py::test_a_model_that_is_silent_is_named_with_the_time_since_it_was_last_heard",
    ),
    "why-tool": Promise(
        "Of a running tool it is said which call it is, and since when.",
        "server/test_why_http.py::test_a_tool_that_runs_is_named_with_its_call",
    ),
    "why-person": Promise(
        "A session that needs a person says which request to answer.",
        "server/test_why_http.py::test_a_person_who_is_needed_is_told_which_request_to_answer",
    ),
    "why-retry": Promise(
        "A session that waits to ask a model again says when.",
        "server/test_why_http.py::test_a_retry_says_when",
    ),
    "why-mcp": Promise(
        "A run that waits for MCP servers names them.",
        "server/test_why_http.py::test_a_run_that_waits_for_servers_names_them",
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
    "deadline-falls": Promise(
        "What is waited for expires in time though a crash interrupted its run, and the run goes on without it.",
        "core/test_restart.py::test_a_request_that_expires_in_an_interrupted_session_lets_its_run_go_on",
    ),
    "crash-never-widens": Promise(
        "A grant for the session holds only when its call got its result.",
        "core/test_restart.py::test_a_session_grant_survives_only_when_its_call_has_its_result",
    ),
    "question-answered": Promise(
        "A question waits through a kill, and its first answer that fits what was asked is the call's result.",
        "server/test_questions_http.py::test_a_question_waits_through_a_kill_and_takes_the_first_answer_that_fits",
    ),
    "web-address-pinned": Promise(
        "A name is resolved once, and the connection goes to exactly the address that was judged.",
        "core/test_tools_web.py::test_a_name_is_resolved_once_and_its_address_is_the_one_that_was_judged",
    ),
    "web-private-closed": Promise(
        "No web tool reaches this machine or a private network, whatever the address is written as.",
        "core/test_tools_web.py::test_what_is_not_of_the_internet_is_closed",
    ),
    "command-tool-argument": Promise(
        "What a model gives to a command tool stays one argument and never becomes an option.",
        "core/test_tools_commands.py::test_a_value_never_becomes_an_option",
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
    "compaction-keeps": Promise(
        "A summary takes the place of a conversation that is too long; what was not answered yet stays word for word.",
        "core/test_compaction.py::"
        "test_a_nearly_full_context_is_compacted_at_the_head_of_a_turn_and_the_new_prompt_held_aside",
    ),
    "compaction-ends": Promise(
        "A context that no summary makes small enough ends the run with its cause and is not compacted for ever.",
        "core/test_compaction.py::test_a_context_that_stays_nearly_full_is_not_compacted_for_ever",
    ),
    "compaction-of-what-is-sound": Promise(
        "A transcript that no vendor would take is mended, journaled and told before it is compacted.",
        "core/test_validator.py::test_what_is_wrong_before_a_compaction_is_mended_first",
    ),
    "compaction-survives": Promise(
        "After a restart the model gets the compacted context as before, and a compaction cut off has changed nothing.",
        "crash/test_killed_compaction.py::test_a_server_killed_while_it_compacts_has_changed_nothing",
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
    "takeover": Promise(
        "A session can be taken from another server, which then ends its run and has no further effect.",
        "crash/test_takeover.py::test_a_second_server_is_refused_until_it_takes_over_and_then_the_old_one_ends",
    ),
    "stale-owner": Promise(
        "A server that wakes up after a takeover changes nothing any more.",
        "crash/test_takeover.py::test_a_stopped_server_that_wakes_up_has_no_effect_any_more",
    ),
    "takeover-loses-nothing": Promise(
        "Every line that was acknowledged counts, however a takeover falls; a killed one leaves a loadable session.",
        "crash/test_takeover.py::test_every_line_that_was_acknowledged_counts_however_the_takeover_falls",
    ),
    "transcript-mended": Promise(
        "Whatever is wrong with a transcript is mended in one pass, and a sound one is left as it is.",
        "core/test_validator.py::test_whatever_the_damage_one_pass_mends_all_and_a_second_one_nothing",
    ),
    "failed-prompt-left-out": Promise(
        "A prompt that failed before any answer is not told to the model again after a load.",
        "core/test_unheard.py::test_a_prompt_that_failed_is_told_while_the_context_lasts_and_left_out_after_a_load",
    ),
    "idle-unloaded": Promise(
        "A session that nobody uses is unloaded after 30 minutes.",
        "server/test_unloading.py::test_a_session_that_nobody_uses_is_unloaded_after_half_an_hour_and_says_so",
    ),
    "doctor": Promise(
        "`agentcore doctor` names what is wrong with a session and what to do, and changes nothing.",
        "server/test_doctor.py::test_damage_is_named_with_what_to_do",
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
    # sent again, and copied
    "sent-again-runs-once": Promise(
        "What is sent again under its key has its effect once and gets the first answer.",
        "server/test_idempotency_http.py::test_of_twenty_sendings_of_one_prompt_one_runs_and_all_get_its_answer",
    ),
    "sent-again-after-a-crash": Promise(
        "A prompt whose answer was lost with the server runs once when it is sent again.",
        "server/test_idempotency_http.py::test_a_prompt_that_was_accepted_before_the_server_was_killed_runs_once",
    ),
    "own-end-after-a-crash": Promise(
        "Who waits for a prompt under a key gets its own end, also after the server was killed.",
        "server/test_idempotency_http.py::test_who_waits_gets_the_own_end_of_the_prompt_after_the_server_was_killed",
    ),
    "start-removes-nothing": Promise(
        "A start removes what a killed creation left, and never a folder with anything else in it.",
        "core/test_sweep.py::test_a_folder_with_anything_else_in_it_stays_as_it_is",
    ),
    "damage-for-every-reader": Promise(
        "A line that cannot be read is named by every reader: no history is dropped silently.",
        "core/test_damaged_journals.py::test_a_line_that_cannot_be_read_is_named_by_every_reader",
    ),
    "no-wait-for-a-pipe": Promise(
        "Something else in the place of a session's file is an answer and no wait.",
        "core/test_odd_files.py::test_it_is_an_answer_and_no_wait",
    ),
    "housekeeping-ends-nothing": Promise(
        "What fails in the background is logged and ends no server.",
        "server/test_housekeeping.py::test_a_server_outlives_whatever_fails_in_the_background",
    ),
    "fork-is-whole": Promise(
        "A fork is there whole or not at all.",
        "crash/test_killed_fork.py::test_a_fork_that_is_killed_anywhere_is_there_whole_or_not_at_all",
    ),
    "fork-anywhere": Promise(
        "A fork at any border of any story is a valid session with the history up to there.",
        "core/test_fork.py::test_a_fork_at_any_border_of_any_story_can_be_prompted",
    ),
    "fork-never-widens": Promise(
        "What was granted, spent, asked or queued stays behind in the original.",
        "core/test_fork.py::test_what_was_spent_granted_and_asked_stays_behind",
    ),
    "trace-without-secrets": Promise(
        "What was sent to a model is kept and shown without credentials.",
        "server/test_trace_http.py::test_neither_the_page_nor_the_file_holds_a_secret",
    ),
    "export-without-secrets": Promise(
        "An export holds no secret that is known as one.",
        "server/test_export_http.py::test_no_known_secret_leaves",
    ),
    # what waits
    "queued-prompts-run": Promise(
        "Of many prompts at once, of all four kinds, none is lost and none runs twice.",
        "server/test_queue_http.py::test_of_twenty_prompts_at_once_none_is_lost_and_none_runs_twice",
    ),
    "queue-without-a-gap": Promise(
        "Queued prompts run in order, and between them the session is never idle.",
        "core/test_queue.py::test_queued_prompts_run_in_order_and_the_session_is_not_idle_between_them",
    ),
    "queue-survives": Promise(
        "The queue, and a message to the run, are there after a kill and after a stop.",
        "crash/test_killed_while_it_waits.py::test_the_queue_and_a_message_to_the_run_are_there_again",
    ),
    "accepted-runs-first": Promise(
        "A prompt that was accepted and had not begun when the process died has its own run before the next one.",
        "crash/test_killed_while_it_waits.py::test_a_prompt_behind_one_that_never_began_runs_after_it",
    ),
    "steer-never-lost": Promise(
        "A message to a run is taken by it or has its own run, whenever it comes.",
        "core/test_steer.py::test_the_instant_of_the_end_loses_nothing",
    ),
    "refused-changes-nothing": Promise(
        "A prompt that is refused has not ended the interrupted or suspended run before it.",
        "core/test_queue.py::test_a_prompt_that_is_refused_has_not_ended_the_run_before_it",
    ),
    "interrupt-is-one-step": Promise(
        "A prompt that interrupts is in the journal before anything is cancelled, and runs next.",
        "core/test_queue.py::test_an_interrupting_prompt_is_in_the_journal_before_the_run_is_cancelled_and_runs_next",
    ),
    "suspended-goes-on": Promise(
        "A suspended run and what was put off are there after a kill and after a stop; the answer goes on with it.",
        "crash/test_killed_while_it_waits.py::test_a_suspended_run_and_what_was_put_off_are_there_again",
    ),
    "deferred-runs-once": Promise(
        "A deferred call is never run again, and its run goes on with the last answer.",
        "core/test_deferral.py::test_deferred_calls_survive_a_restart_and_are_never_run_again",
    ),
    "killed-anywhere-while-it-waits": Promise(
        "Killed behind any line of a story of queue, steering, suspension and deferral, nothing is lost or repeated.",
        "crash/test_every_prefix_of_what_waits.py::test_a_kill_behind_any_line_loses_no_prompt_and_repeats_no_effect",
    ),
    "any-order": Promise(
        "In whatever order people, models, tools and kills come, nothing is lost, doubled or half done.",
        "property/test_interleavings.py::test_no_order_of_moves_loses_doubles_or_halves_anything",
    ),
    "deferral-durable": Promise(
        "A run is called suspended, and an answer from outside acknowledged, only when the deferral is durable.",
        "crash/test_barriers.py::test_nobody_is_told_that_a_call_waits_before_that_is_durable",
    ),
    "every-waiter-answered": Promise(
        "Who waits for a prompt learns its end, also of one that an interrupted run had taken and that is ended.",
        "core/test_steer.py::test_who_asks_again_for_a_prompt_that_an_interrupted_run_had_taken_learns_its_end",
    ),
    "queue-change-durable": Promise(
        "A change of the queue is acknowledged only when it is durable.",
        "crash/test_barriers.py::test_a_change_of_the_queue_is_acknowledged_only_when_it_is_durable",
    ),
    # undo
    "undo-spares-people": Promise(
        "An undo takes back what the agent left and nothing that a person did since.",
        "core/test_checkpoints.py::test_a_file_that_no_longer_holds_what_the_agent_left_stays",
    ),
    "undo-after-a-kill": Promise(
        "Killed at any point of a change, the undo restores what was there and takes nothing unknown.",
        "core/test_checkpoints.py::test_a_kill_at_any_point_of_a_change_leaves_the_undo_honest",
    ),
    "undo-covers-commands": Promise(
        "In a git work tree an undo takes back what commands did to files.",
        "core/test_checkpoints.py::test_what_a_command_did_in_a_work_tree_is_taken_back",
    ),
    "undo-loses-no-file": Promise(
        "A file that a command put something else in the place of comes back, or is kept and it is told where.",
        "core/test_checkpoints.py::test_a_file_whose_place_is_taken_is_kept_and_it_is_told_where",
    ),
    "undo-takes-the-last": Promise(
        "A last checkpoint that cannot be read stops the undo: no older run is taken back in its place.",
        "core/test_checkpoints.py::test_a_last_checkpoint_that_cannot_be_read_stops_the_undo",
    ),
    "undo-durable": Promise(
        "What was undone is durable, and announced so, before the checkpoint of its run is forgotten.",
        "crash/test_barriers.py::test_an_undo_is_announced_durably_before_its_run_is_forgotten",
    ),
    "undo-confined": Promise(
        "An undo follows no link and touches no closed or protected place.",
        "core/test_checkpoints.py::test_no_link_is_followed_on_the_way_back",
    ),
    "kept-before-changed": Promise(
        "A file whose content cannot be kept is not changed.",
        "core/test_checkpoints.py::test_a_file_that_cannot_be_kept_is_not_changed",
    ),
    "hostile-repository": Promise(
        "Nothing of a repository's own configuration runs when it is looked at.",
        "core/test_checkpoints.py::test_nothing_of_a_hostile_repository_runs",
    ),
    "undo-is-told": Promise(
        "The model learns of an undo with the next prompt, once, also after a restart.",
        "crash/test_killed_undo.py::test_the_note_about_an_undo_survives_a_kill_and_is_told_once",
    ),
    # permissions
    "rule-means-what-it-says": Promise(
        "No shell line is allowed by a rule that does not mean each command in it.",
        "core/test_bypasses.py::test_no_line_gets_past_a_rule_that_does_not_mean_it",
    ),
    "rule-allows-what-it-means": Promise(
        "A rule allows the lines that it means, wrappers, pipes and redirections to nowhere included.",
        "core/test_bypasses.py::test_a_rule_allows_what_it_means",
    ),
    "shell-read-as-bash-does": Promise(
        "A line of which each command is approved runs no other one in bash.",
        "core/test_shell.py::test_no_line_of_which_each_command_is_approved_runs_another_one_in_bash",
    ),
    "decision-order": Promise(
        "The first line of the decision order that applies decides.",
        "core/test_decision.py::test_the_first_line_that_applies_decides",
    ),
    "broken-rule-narrows": Promise(
        "A rule that cannot be read is told with its file, and never widens what may be done.",
        "core/test_rules.py::test_what_cannot_be_read_is_told_with_its_file_and_never_widens",
    ),
    "rule-taken-back": Promise(
        "A grant that is taken back is in force no more, at once and after a restart.",
        "server/test_rules_http.py::test_a_session_grant_is_taken_back_at_once_and_for_good",
    ),
    "rule-expires": Promise(
        "A grant that was given for a time ends then, also after a restart, and is listed with its end.",
        "core/test_permissions.py::test_a_grant_ends_when_it_was_said_to_end_also_after_a_restart",
    ),
    "rule-of-no-use": Promise(
        "An allow rule that can settle nothing is told, with what to write in its place.",
        "core/test_bypasses.py::test_a_rule_that_approves_nothing_is_told_with_what_to_write",
    ),
    "auto-sees-all": Promise(
        "In mode auto a call that the model cannot be shown whole is a person's to allow.",
        "core/test_gate.py::test_a_call_that_the_model_cannot_be_shown_whole_is_for_a_person",
    ),
    "always-is-kept": Promise(
        "A rule that was allowed for good is written even when the server is killed before it could be.",
        "crash/test_killed_before_a_rule_is_written.py::test_the_next_load_writes_the_rule_and_only_that_one",
    ),
    "auto-sees-little": Promise(
        "In mode auto the model sees the last three prompts and the call, and nothing else.",
        "core/test_gate.py::test_the_model_sees_the_last_three_prompts_and_the_call_and_lets_it_run",
    ),
    # settings
    "settings-precedence": Promise(
        "A later source of settings wins over an earlier one, and it is told which one did.",
        "core/test_settings_layers.py::test_a_later_source_wins_over_an_earlier_one",
    ),
    "settings-of-a-repository": Promise(
        "A repository's settings loosen nothing, and what has no effect is told.",
        "core/test_settings_layers.py::test_a_repository_loosens_nothing",
    ),
    "mode-turned-off": Promise(
        "A mode that the user's own file turns off is refused, and a session that was in it leaves it.",
        "core/test_restart.py::test_no_session_is_in_a_mode_that_the_users_own_file_turns_off",
    ),
    "opened-repository": Promise(
        "Nothing of a hostile repository counts or runs by being opened.",
        "server/test_approvals_http.py::test_nothing_of_a_hostile_repository_counts_or_runs_by_being_opened",
    ),
    "approval-of-content": Promise(
        "An approval holds for one content in one project; whatever is changed waits again.",
        "core/test_settings_approvals.py::test_changed_content_waits_again",
    ),
    "approval-of-scripts": Promise(
        "A hook whose script was changed runs no more until it is approved again.",
        "server/test_approvals_http.py::test_a_hook_whose_script_was_changed_runs_no_more_until_it_is_approved_again",
    ),
    "approval-at-once": Promise(
        "A person's word about what a repository wants to run is in force at once.",
        "server/test_approvals_http.py::test_the_word_of_a_person_is_in_force_at_once_for_this_content",
    ),
    "settings-of-other-agents": Promise(
        "A user's settings file of another agent works as it is.",
        "core/test_settings_layers.py::test_a_real_user_level_file_of_another_agent_works_as_it_is",
    ),
    # hooks
    "hooks-of-others": Promise(
        "Scripts that read the documented fields of other agents' hooks work unchanged.",
        "core/test_hooks_runs.py::test_a_logger_reads_the_documented_fields_of_every_moment",
    ),
    "hook-halts": Promise(
        "`continue: false` ends the run wherever it is said, and every call has its result.",
        "core/test_hooks_runs.py::test_continue_false_ends_the_run_wherever_it_is_said",
    ),
    "hook-blocks-prompt": Promise(
        "A blocked prompt never reaches the model.",
        "core/test_hooks_runs.py::test_a_blocked_prompt_never_reaches_the_model",
    ),
    "hook-run-end-once": Promise(
        "RunEnd hooks run exactly once, whatever happened.",
        "core/test_hooks_runs.py::test_run_end_hooks_run_exactly_once_whatever_happened",
    ),
    "hook-again-tool-once": Promise(
        "After a crash a hook may run again, a tool never does.",
        "core/test_hooks_runs.py::test_a_crash_while_a_hook_decides_runs_the_hook_again_and_the_tool_once",
    ),
    "hook-again-other-call": Promise(
        "After a restart an answer holds for the call that was shown, and for no other that a hook makes of it.",
        "core/test_hooks_ends.py::test_an_answer_does_not_hold_for_another_call_that_a_hook_makes_after_a_restart",
    ),
    "hook-session-end": Promise(
        "SessionEnd hooks hear a session's end once, and hold up no stop.",
        "core/test_hooks_ends.py::test_hooks_hear_the_end_of_a_session_once_before_its_journal_is_closed",
    ),
    "hook-outputs": Promise(
        "What a hook prints and how it ends means what the public conventions say.",
        "core/test_hooks_rules.py::test_what_a_command_printed_says_this",
    ),
    "hook-matchers-end": Promise(
        "A matcher holds nobody up: what nobody approved is not searched, what takes too long counts as a match.",
        "core/test_hooks_room.py::test_the_matcher_of_what_nobody_approved_is_not_even_searched",
    ),
    "hook-matchers": Promise(
        "A matcher means the names that it means for other agents, in either spelling.",
        "core/test_hooks_rules.py::test_a_matcher_means_these_names",
    ),
    "hook-garbage": Promise(
        "A hook that fails or prints garbage is a notice with file and event, and decides nothing.",
        "core/test_hooks_room.py::test_garbage_is_a_notice_with_file_and_event_and_decides_nothing",
    ),
    "hook-ends-whole": Promise(
        "A hook that takes too long decides nothing, and all it started has ended.",
        "core/test_hooks_room.py::test_what_takes_too_long_decides_nothing_and_all_of_it_ends",
    ),
    "hook-fail-closed": Promise(
        "A hook that must not fail open says no where it fails.",
        "core/test_hooks_room.py::test_what_must_not_fail_open_says_no",
    ),
    "hook-no-secrets": Promise(
        "A hook's process gets no secrets.",
        "core/test_hooks_room.py::test_a_hook_gets_no_secrets_and_knows_where_it_is",
    ),
    "hook-of-a-repository": Promise(
        "A repository's hook runs only as a person has approved it.",
        "core/test_hooks_room.py::test_what_comes_with_a_repository_runs_only_as_it_was_approved",
    ),
    "hook-hears-steers": Promise(
        "What steers a run passes the hooks that its prompt passes.",
        "core/test_hooks_runs.py::test_what_steers_a_run_is_heard_as_its_prompt_is",
    ),
    "hook-stop-limit": Promise(
        "A restart does not let Stop hooks send a run on more often.",
        "core/test_hooks_runs.py::test_a_crash_does_not_let_stop_hooks_send_the_model_on_more_often",
    ),
    "hook-exports": Promise(
        "What hooks export for commands is read and never run, and no secret is in it.",
        "core/test_hooks_exports.py::test_no_secret_and_nothing_of_the_servers_own_gets_into_a_command",
    ),
    "hook-updates": Promise(
        "What a repository's hook allows for good ends with the session.",
        "core/test_hooks_updates.py::test_a_hook_of_the_repository_changes_nothing_beyond_the_session",
    ),
    "skill-of-a-run": Promise(
        "What a skill of the user's allows counts until the run ends that uses it.",
        "core/test_skills_in_use.py::test_what_a_skill_of_the_users_own_allows_counts_until_the_run_ends",
    ),
    "skill-of-a-repository": Promise(
        "A repository's skill forbids, and allows nothing.",
        "core/test_skills_in_use.py::test_a_skill_of_the_repository_allows_nothing_and_forbids",
    ),
    "skill-after-a-crash": Promise(
        "After a crash what a skill forbids is forbidden, and what it allows is gone.",
        "core/test_skills_in_use.py::test_after_a_crash_what_a_skill_allows_is_gone_and_what_it_forbids_is_not",
    ),
    "hook-over-http": Promise(
        "An address is an observer or a judge by its JSON alone: no status blocks, no redirect is followed.",
        "server/test_hooks_http.py::test_no_status_blocks_and_no_redirect_is_followed",
    ),
    # budgets
    "budget-asks": Promise(
        "A limit that is reached asks before more is spent, and an allow raises it by its first height.",
        "core/test_budget.py::test_a_used_up_limit_asks_and_each_allow_raises_it_by_its_first_height",
    ),
    "budget-warns-once": Promise(
        "A limit that is nearly reached is told once, also across a SIGKILL.",
        "core/test_budget.py::test_a_limit_that_is_nearly_reached_is_told_once_for_each_height_also_after_a_kill",
    ),
    "budget-keeps-answers": Promise(
        "A finished answer is never held back by a budget.",
        "core/test_budget.py::test_a_finished_answer_is_never_held_back",
    ),
    "budget-pairs-calls": Promise(
        "Calls that a budget keeps from running have their results before the run ends.",
        "core/test_budget.py::test_calls_that_are_not_run_have_their_results_before_the_run_ends",
    ),
    "budget-survives": Promise(
        "What was used, and the request about it, are there again after a SIGKILL; the answer starts the rest.",
        "core/test_budget.py::test_after_a_kill_the_same_request_is_open_and_its_answer_starts_the_rest",
    ),
    "budget-patch": Promise(
        "Raising a limit answers the request about it.",
        "core/test_budget.py::test_raising_the_limit_answers_the_request",
    ),
    # the guard
    "guard-prompts": Promise(
        "While the guard rejects, a prompt that holds personal data or secrets ends its run `blocked`; the model is not"
        " asked.",
        "core/test_guard_runs.py::test_a_rejected_prompt_ends_its_run_blocked_and_reaches_nobody",
    ),
    "guard-beginnings": Promise(
        "While the guard is on, instruction files, the list of skills and notes pass it before a context begins.",
        "core/test_guard_runs.py::test_what_a_context_begins_with_is_checked",
    ),
    "guard-derived": Promise(
        "No title is made, and the queue shows no text, of a prompt that hooks and the guard have not let through.",
        "core/test_guard_runs.py::test_a_title_is_made_of_what_was_let_through",
    ),
    "guard-results": Promise(
        "While the guard is on, a result is shown only after it was looked at: no output of a running call.",
        "core/test_guard_runs.py::test_a_result_is_checked_with_what_people_are_shown_of_it",
    ),
    "guard-outside": Promise(
        "The result of a deferred call passes the guard before it is one.",
        "server/test_guard_http.py::test_a_result_from_outside_is_checked_before_it_is_one",
    ),
    "guard-fails-closed": Promise(
        "A text that a scanner fails on is withheld.",
        "core/test_guard_runs.py::test_where_a_scanner_fails_the_text_is_withheld_and_the_cause_stays_here",
    ),
    "guard-or-no-session": Promise(
        "Where the guard is on and a scanner cannot be made, no session begins (422).",
        "server/test_guard_http.py::test_a_scanner_that_cannot_be_made_refuses_the_session_and_leaves_none_behind",
    ),
    # background tasks
    "task-wakes": Promise(
        "When a background task ends in an idle session, a run begins by itself and tells the model.",
        "server/test_tasks_http.py::test_a_task_is_listed_while_it_runs_and_a_run_that_begins_by_itself_tells_its_end",
    ),
    "task-border": Promise(
        "What ends while a run goes on is told at that run's next border.",
        "core/test_background.py::test_what_ends_while_a_run_goes_on_is_told_at_its_next_border",
    ),
    "task-once": Promise(
        "Killed behind any line, each background task has one end and is told to the model once.",
        "crash/test_every_prefix_of_tasks.py::test_killed_behind_any_line_each_task_ends_once_and_is_told_once",
    ),
    "task-delivered-after-a-kill": Promise(
        "A result that waited for its delivery when the server was killed is delivered once.",
        "crash/test_killed_tasks.py::test_what_ended_before_the_kill_and_was_not_told_is_told_at_the_next_load_once",
    ),
    "task-lost": Promise(
        "A task that was alive when the server ended is told as lost, and nothing of it goes on.",
        "crash/test_killed_tasks.py::test_what_was_alive_is_ended_and_told_as_lost_once",
    ),
    "task-stop-is-no-cancel": Promise(
        "A server that stops leaves its background tasks in the journal as they were.",
        "crash/test_killed_tasks.py::test_a_server_that_stops_leaves_its_tasks_as_they_were",
    ),
    "task-survives-cancel": Promise(
        "A cancel of the run leaves background tasks alone.",
        "core/test_background.py::test_a_task_survives_the_cancel_of_its_run",
    ),
    "task-closes": Promise(
        "Closing a session ends its background tasks and all that they started.",
        "server/test_tasks_http.py::test_closing_a_session_ends_what_goes_on_in_it",
    ),
    "task-limit": Promise(
        "At most eight background tasks run in a session.",
        "core/test_background.py::test_a_ninth_task_is_refused_with_what_to_do_about_it",
    ),
    "task-requests": Promise(
        "A permission request of a background task outlives the run and ends with the task.",
        "core/test_background.py::test_a_request_of_a_task_outlives_the_run_and_its_answer_reaches_the_task",
    ),
    "task-unloading": Promise(
        "A session with a running background task is not unloaded.",
        "core/test_background.py::test_a_session_with_a_running_task_is_not_unloaded",
    ),
    # subagents
    "subagent-order": Promise(
        "The events of a subagent stand inside of its call, under its label.",
        "core/test_subagents.py::test_the_events_of_a_subagent_stand_inside_of_its_call_under_its_label",
    ),
    "subagents-any-order": Promise(
        "Twenty subagents that ask at once can be answered in any order.",
        "server/test_subagents_http.py::test_twenty_subagents_that_ask_at_once_are_answered_in_any_order",
    ),
    "subagents-after-a-cancel": Promise(
        "What a subagent in the background asks can be answered after its run was cancelled.",
        "server/test_subagents_http.py::test_what_is_left_can_be_answered_after_some_were_cancelled_with_their_run",
    ),
    "subagent-alone": Promise(
        "A subagent begins with its task alone and has no subagents of its own.",
        "core/test_subagents.py::test_a_subagent_begins_with_its_task_alone_and_has_no_subagents_of_its_own",
    ),
    "subagent-spends": Promise(
        "What a subagent spends is the session's, before and after a restart.",
        "core/test_subagents.py::test_what_a_subagent_spends_is_the_sessions",
    ),
    "subagent-undo": Promise(
        "One undo takes back what a run and its subagents did.",
        "core/test_subagents.py::test_one_undo_takes_back_what_the_main_agent_and_its_subagent_did",
    ),
    "subagent-killed": Promise(
        "After a SIGKILL the requests of a subagent are expired, its call is unknown, and the main agent goes on.",
        "crash/test_killed_subagents.py::test_requests_expire_calls_end_unknown_and_the_main_agent_goes_on",
    ),
    "subagent-ends": Promise(
        "Wherever a subagent was cut off, each turn, model call and call of it has one end.",
        "crash/test_killed_subagents.py::test_behind_any_line_everything_of_a_subagent_has_its_end",
    ),
    "subagent-circles": Promise(
        "A subagent that makes the same calls with the same results four times within eight turns is stopped.",
        "core/test_subagents.py::test_one_that_goes_in_circles_is_stopped",
    ),
    "agent-files-tighten": Promise(
        "A repository's agent may tighten and never loosen.",
        "core/test_agent_files.py::test_an_agent_of_a_repository_tightens_and_never_loosens",
    ),
    "worktree-apart": Promise(
        "Work in a worktree leaves the project untouched and is kept where something changed.",
        "core/test_subagents.py::test_work_in_a_worktree_is_kept_where_something_changed_and_the_project_is_untouched",
    ),
    "worktree-rules": Promise(
        "What rules forbid in the project is forbidden in its worktrees.",
        "core/test_subagents.py::test_what_is_forbidden_in_the_project_is_forbidden_in_its_worktrees",
    ),
    # seeing what it does
    "telemetry-off": Promise(
        "Nothing of OpenTelemetry is loaded unless the standard variables ask for it.",
        "server/test_telemetry_collector.py::test_nothing_of_it_is_loaded_where_it_is_not_asked_for",
    ),
    "telemetry-spans": Promise(
        "A run is a span that holds its model calls and tool calls, by the GenAI conventions.",
        "server/test_telemetry_http.py::test_a_run_is_a_span_that_holds_its_model_and_tool_calls",
    ),
    "telemetry-no-content": Promise(
        "Nothing of what was said is exported unless that was asked for.",
        "server/test_telemetry_http.py::test_nothing_of_what_was_said_is_exported",
    ),
    "telemetry-harmless": Promise(
        "No run and no stop waits for a collector.",
        "server/test_telemetry_collector.py::"
        "test_a_collector_that_takes_and_does_not_answer_holds_up_neither_runs_nor_the_stop",
    ),
    "logs-as-json": Promise(
        "With AGENTCORE_LOG=json every line is an object, with the ids of session and run, and without what was said.",
        "server/test_logs.py::test_as_json_every_line_is_an_object_with_the_ids_of_session_and_run",
    ),
    "webhook-once": Promise(
        "A webhook hears of each request that waits for a person once, and of nothing else.",
        "clients/test_curl_cookbook.py::test_a_webhook_hears_of_each_request_once_and_of_nothing_else",
    ),
    # MCP
    "mcp-one-process": Promise(
        "Sessions that configure the same MCP server share one process of it.",
        "mcp/test_sessions_with_servers.py::test_ten_sessions_share_one_process",
    ),
    "mcp-approved": Promise(
        "An MCP server of a repository runs once a person has approved it as it stands, and until that is taken back.",
        "mcp/test_sessions_with_servers.py::"
        "test_a_server_of_a_repository_runs_once_it_is_approved_and_until_that_is_taken_back",
    ),
    "mcp-nobody-waits": Promise(
        "A run does not wait long for an MCP server that is starting, and says so.",
        "mcp/test_sessions_with_servers.py::test_a_run_does_not_wait_long_for_a_server_and_says_so",
    ),
    "mcp-real-name": Promise(
        "A call through `call_tool` is asked about, told and run as the tool that it names.",
        "mcp/test_sessions_with_servers.py::test_very_many_tools_are_found_by_searching_and_called_as_themselves",
    ),
    "mcp-subagents": Promise(
        "A subagent has the tools of MCP servers, through the gate and the hooks, and asks in its own name.",
        "mcp/test_subagents_with_servers.py::test_a_subagent_calls_a_servers_tool_through_the_gate_and_the_hooks",
    ),
    "mcp-live": Promise(
        "A subagent has what MCP servers offer by now, as far as its kind says.",
        "mcp/test_subagents_with_servers.py::test_a_subagent_has_what_a_server_offers_by_now_as_far_as_its_kind_says",
    ),
    "mcp-worktree": Promise(
        "In a worktree a server that is a command runs there, knows it as its root, and ends with the subagent.",
        "mcp/test_subagents_with_servers.py::"
        "test_in_a_worktree_a_command_is_run_there_and_told_of_it_and_ended_with_the_subagent",
    ),
    "mcp-question-ends": Promise(
        "What an MCP server asks in a call is open no longer than the call.",
        "mcp/test_questions_of_servers.py::test_a_question_ends_with_the_call_that_it_was_asked_in",
    ),
    "mcp-their-words": Promise(
        "What an MCP server says about its tools is shown to the model as its words, past the guard.",
        "mcp/test_instructions_of_servers.py::test_they_stand_in_the_system_prompt_as_words_of_the_server",
    ),
    "mcp-confined": Promise(
        "An MCP server with `sandbox = true` reaches the project and what it is given, or does not run.",
        "mcp/test_confined.py::test_a_confined_server_reaches_the_project_and_what_it_is_given",
    ),
    "mcp-nothing-left": Promise(
        "No process of an MCP server outlives the server, nor, after the next start, a server that was killed.",
        "mcp/test_killed_owner.py::test_what_a_killed_owner_left_running_is_ended_at_the_next_start",
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
