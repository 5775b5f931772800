"""Each promise of `docs/durability-promises.md` is kept by tests, which are named here."""

import ast
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from tests.cases import every
from tests.faults.durable.switches import SWITCHES
from tests.faults.generated.controls import CONTROLS

_PROJECT = Path(__file__).parents[2]
_PAGE = _PROJECT / "docs/durability-promises.md"
_FILES_OF_CONTROLS = ("test_journal_kill_controls.py", "test_journal_contention.py")

_PROMISES: Mapping[str, tuple[str, ...]] = {
    "Asked once": (
        "unit/journal/test_continued_runs.py::test_recorded_responses_are_not_asked_for_again",
        "faults/test_journal_kills.py::test_a_killed_run_of_all_shapes_continues",
    ),
    "Done once": (
        "unit/journal/test_effects.py::test_a_call_is_made_once_in_all_lives",
        "faults/test_generated_kills.py::test_killed_generated_programs_continue",
    ),
    "Recorded before it begins": (
        "faults/test_journal_kill_controls.py::test_an_effect_that_does_not_wait_for_its_intent_is_made_again",
    ),
    "Recorded before it returns": (
        "unit/journal/test_durable_ends.py::test_when_an_effect_returns_its_end_is_durable",
        "unit/journal/test_durable_ends.py::test_who_does_not_want_to_wait_says_so",
    ),
    "In doubt, or not": (
        "unit/journal/test_effects.py::test_a_call_in_doubt_is_not_repeated",
        "unit/journal/test_holding.py::test_an_effect_that_was_cancelled_before_it_began_is_not_in_doubt",
        "unit/journal/test_holding.py::test_a_call_that_was_withdrawn_and_begun_anew_is_in_doubt_when_it_is_killed",
    ),
    "One process": (
        "unit/journal/test_two_processes.py::test_a_process_that_was_stopped_beyond_its_lease_has_lost_its_run",
        "unit/journal/test_confirmed_leases.py::test_an_effect_does_not_begin_when_the_run_was_taken_over_after_its_intent",
        "unit/journal/test_machines.py::test_another_machine_continues_the_run_of_a_lost_one",
    ),
    "Arrival": (
        "unit/journal/test_arrivals.py::test_what_depends_on_the_order_of_answers_is_the_same_after_each_record",
    ),
    "Orders": ("unit/journal/test_orders.py::test_an_order_is_repeated_after_a_crash_at_each_record",),
    "Decisions": (
        "unit/journal/test_continued_runs.py::test_the_winner_of_a_race_wins_in_every_life",
        "unit/journal/test_continued_runs.py::test_the_votes_that_counted_count_in_every_life",
        "unit/journal/test_continued_runs.py::test_a_stream_gives_results_in_the_recorded_order",
        "unit/journal/test_decided_values.py::test_values_of_tasks_started_by_hand_stay_with_their_task",
    ),
    "Losers": (
        "unit/journal/test_arrivals.py::test_what_depends_on_the_order_of_answers_is_the_same_after_each_record",
        "unit/journal/test_orders.py::test_a_race_is_won_again_where_the_loser_was_served_before",
    ),
    "Errors": (
        "unit/journal/test_continued_runs.py::test_an_error_that_ended_a_life_does_not_end_the_next",
        "unit/journal/test_handled_errors.py::test_an_error_that_was_handled_is_raised_again",
    ),
    "Usage": (
        "unit/journal/test_budgets_of_lives.py::test_the_usage_of_a_run_and_a_scope_adds_up",
        "unit/journal/test_stages.py::test_the_usage_of_a_skipped_stage_counts",
    ),
    "Deadlines": (
        "unit/journal/test_time_limits.py::test_a_deadline_that_expired_expires_in_the_next_life",
        "unit/journal/test_time_limits.py::test_an_effect_that_a_deadline_cancelled_is_not_begun_again",
    ),
    "Queues": (
        "unit/journal/test_suspects.py::test_only_losses_alone_make_a_call_stuck_and_requeue_forgets_them",
        "unit/journal/test_suspects.py::test_a_job_that_ends_its_process_gets_stuck_alone",
    ),
    "Versions": (
        "unit/journal/test_earlier_identity.py::test_a_run_of_version_1_continues_where_it_was_killed",
    ),
    "Another call": (
        "unit/journal/test_identity.py::test_another_call_does_not_get_the_recorded_answer",
        "unit/journal/test_stages.py::test_the_arguments_of_a_stage_are_those_that_were_recorded",
    ),
    "Another argument in a task started by hand": (
        "unit/journal/test_holding.py::test_an_effect_with_other_arguments_is_not_made_beside_the_recorded_one",
        "unit/journal/test_holding.py::test_an_effect_waits_for_a_recorded_one_that_comes_late",
        "unit/journal/test_holding.py::test_what_a_task_has_left_over_is_a_divergence_at_the_end",
        "unit/journal/test_left_over.py::test_what_tasks_inside_of_items_had_recorded_is_not_left_over",
        "unit/journal/test_left_over.py::test_tasks_that_outlive_the_item_that_has_started_them_are_not_left_over",
    ),
    "Another program": (
        "unit/journal/test_changed_programs.py::test_a_call_that_is_new_before_recorded_ones_is_an_error",
        "unit/journal/test_changed_programs.py::test_a_call_that_is_gone_is_an_error_at_the_end_of_its_function",
        "unit/journal/test_decided_calls.py::test_nothing_new_begins_in_calls_that_have_counted",
        "unit/journal/test_diverged_lives.py::test_nothing_new_begins_after_a_recorded_call_that_is_passed_by",
        "unit/journal/test_ended_calls.py::test_nothing_new_begins_in_a_call_after_which_something_was_recorded",
    ),
    "An error before what was recorded": (
        "unit/journal/test_ended_calls.py::"
        "test_the_program_does_not_go_on_after_a_call_that_fails_before_what_it_had_recorded",
        "unit/journal/test_ended_calls.py::"
        "test_an_error_that_ends_a_life_before_what_was_recorded_is_raised_as_it_is",
    ),
    "Another answer": (
        "unit/journal/test_ended_calls.py::test_an_answer_that_is_accepted_sooner_than_before_is_refused",
        "unit/journal/test_ended_calls.py::test_an_answer_that_is_refused_after_it_was_used_is_not_asked_for_again",
    ),
    "Another order": ("unit/journal/test_orders.py::test_a_turn_that_never_comes_is_an_error_or_skipped",),
    "Whatever follows": (
        "unit/journal/test_changed_programs.py::test_nothing_new_begins_once_the_program_is_known_to_have_changed",
        "unit/journal/test_diverged_lives.py::test_a_program_that_handles_the_error_does_not_end_the_run",
        "unit/journal/test_enqueueing_runs.py::test_nothing_is_enqueued_in_a_life_that_has_diverged",
        "unit/journal/test_sending_runs.py::test_a_life_that_has_diverged_writes_nothing_to_stores",
    ),
    "The way back": (
        "unit/journal/test_diverged_lives.py::test_a_life_that_made_only_calls_that_may_be_repeated_counts_for_nothing",
        "unit/journal/test_diverged_lives.py::test_a_life_that_is_killed_after_it_diverged_counts_for_nothing",
        "unit/journal/test_diverged_lives.py::test_what_such_a_life_has_ended_for_others_has_ended",
        "unit/journal/test_diverged_lives.py::test_people_who_answered_in_such_a_life_are_not_asked_again",
        "unit/journal/test_diverged_lives.py::test_a_life_that_diverged_counts_for_nothing",
        "unit/journal/test_diverged_lives.py::test_a_life_that_made_an_effect_before_it_diverged_counts",
    ),
    "Another file": (
        "unit/journal/test_removed_logs.py::test_a_log_that_was_removed_after_a_kill_is_noticed",
        "unit/journal/test_removed_logs.py::test_an_older_file_is_noticed_and_without_its_mark_it_goes_on",
    ),
    "Values that would not come back": (
        "unit/journal/test_faithful_results.py::test_a_type_that_can_never_be_stored_is_refused_before_the_call",
        "unit/journal/test_faithful_results.py::test_a_call_that_ended_with_an_unstorable_result_is_not_in_doubt",
    ),
    "Changed arguments": (
        "unit/journal/test_changed_arguments.py::test_an_effect_that_changes_an_argument_is_refused_and_not_made_again",
        "unit/journal/test_changed_arguments.py::test_a_method_that_changes_its_object_is_refused",
        "unit/journal/test_changed_arguments.py::"
        "test_a_stage_that_changes_its_object_or_a_variable_around_it_is_refused",
    ),
    "Calls that nothing tells apart": (
        "unit/journal/test_continued_runs.py::test_tasks_that_could_not_be_told_apart_are_refused",
        "unit/journal/test_decided_values.py::test_tasks_that_nothing_tells_apart_are_refused_in_the_first_life",
    ),
    "Effects outside of every run": (
        "unit/journal/test_outside_runs.py::test_beside_a_durable_run_a_call_outside_of_every_run_is_refused",
    ),
    "Unknown objects, if you want": (
        "unit/journal/test_identity.py::test_a_strict_store_refuses_it_before_anything_begins",
    ),
    "Unknown objects": (
        "unit/journal/test_identity.py::test_the_first_life_warns_once_of_an_object_that_nobody_knows",
    ),
    "Tools that change their object": (
        "unit/journal/test_changed_arguments.py::"
        "test_the_log_says_that_a_tool_changes_its_object_unless_it_is_called_in_every_life",
    ),
    "Objects": (
        "unit/journal/test_identity.py::test_an_unnamed_argument_without_a_form_counts_by_its_type",
        "unit/journal/test_identity.py::test_a_registered_identity_makes_an_object_known",
    ),
    "Equal calls": (
        "unit/journal/test_holding.py::test_what_is_asked_less_often_with_equal_arguments_is_no_divergence",
        "unit/journal/test_identity.py::test_the_same_object_may_be_called_again_and_again_by_hand",
    ),
    "One more task": (
        "unit/journal/test_changed_programs.py::test_one_more_effect_started_by_hand_is_not_held_for_ever",
    ),
    "Time": (
        "unit/journal/test_orders.py::"
        "test_a_message_that_is_not_there_yet_is_a_divergence_where_nobody_can_wait",
    ),
    "Scopes of your own": (
        "unit/journal/test_time_limits.py::test_what_the_programs_own_scope_cancelled_is_cancelled_by_it_again",
        "unit/journal/test_time_limits.py::test_what_nothing_cancels_again_goes_on_after_its_time",
    ),
    "Errors without a record": (
        "unit/journal/test_handled_errors.py::test_a_call_that_failed_and_now_succeeds_is_refused",
    ),
    "Cleanup": (
        "unit/journal/test_handled_errors.py::test_a_life_that_ends_with_a_replayed_error_lets_the_next_one_ask",
        "unit/journal/test_interrupted_lives.py::test_a_run_goes_on_after_a_life_whose_cleanup_made_an_effect",
        "unit/journal/test_interrupted_lives.py::"
        "test_a_run_goes_on_after_an_error_without_a_record_whose_cleanup_made_effects",
        "unit/journal/test_interrupted_lives.py::test_a_call_of_success_is_not_one_of_cleanup",
    ),
    "Places by scheduling": (
        "unit/journal/test_continued_runs.py::test_tasks_that_were_started_by_hand_are_told_apart_by_their_arguments",
    ),
    "Disks": (
        "unit/journal/test_sqlite_files.py::test_network_file_systems_are_refused",
        "unit/journal/test_sqlite_files.py::"
        "test_a_full_disk_ends_the_run_and_the_store_works_again_when_there_is_room",
    ),
    "Agents": (
        "unit/journal/test_continued_runs.py::test_executors_without_a_model_are_answered_from_the_journal",
    ),
}
"""The tests that keep each promise, by its title on the page."""

_CONTROLS: Mapping[str, tuple[str, ...]] = {
    "Asked once": ("responses",),
    "Done once": ("intents",),
    "Recorded before it begins": ("waiting",),
    "Recorded before it returns": ("durable results",),
    "In doubt, or not": ("withdrawal", "text of doubts"),
    "One process": ("fence", "lease", "confirmation"),
    "Arrival": ("delivery", "departures", "catching up"),
    "Orders": ("orders",),
    "Decisions": ("decisions", "values"),
    "Losers": ("losers",),
    "Errors": ("handled errors", "errors of lives"),
    "Usage": ("usage",),
    "Deadlines": ("deadlines",),
    "Queues": ("suspects",),
    "Versions": ("versions",),
    "Another call": ("text", "dotted", "stable digests", "self", "registered identities"),
    "Another argument in a task started by hand": ("hold", "digests"),
    "Another program": ("new calls", "leftovers"),
    "An error before what was recorded": ("failed calls",),
    "Another answer": ("new calls", "leftovers"),
    "Another order": ("orders",),
    "Whatever follows": ("changed programs",),
    "The way back": ("diverged lives",),
    "Another file": ("expected records",),
    "Values that would not come back": ("declared types",),
    "Changed arguments": ("changed arguments",),
    "Calls that nothing tells apart": ("ambiguity",),
    "Effects outside of every run": ("outside",),
    "Unknown objects, if you want": ("unknown objects",),
    "Unknown objects": ("unknown objects",),
}
"""The switches of `tests.faults.durable.switches` whose controls see a promise broken. What is the program's
own business is no promise, and a line of the log has its test alone."""


def promised() -> list[str]:
    """The titles of the promises on the page."""
    page = _PAGE.read_text(encoding="utf-8")
    section = re.search(r"^## Promises\n(.*?)^## ", page, re.MULTILINE | re.DOTALL)
    assert section is not None
    return re.findall(r"^- \*\*(.+?)\.\*\*", section[1], re.MULTILINE)


@cache
def names_in(file: Path) -> frozenset[str]:
    """The names of the tests of a file."""
    functions = ast.FunctionDef | ast.AsyncFunctionDef
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return frozenset(each.name for each in tree.body if isinstance(each, functions))


def test_every_promise_has_its_tests() -> None:
    assert promised() == list(_PROMISES)


def test_every_promise_has_a_control_and_every_control_a_promise() -> None:
    titles = list(_PROMISES)
    kept = titles[: titles.index("Objects")]
    assert [each for each in kept if each not in _CONTROLS] == ["Tools that change their object"]
    named = {switch for switches in _CONTROLS.values() for switch in switches}
    assert named == SWITCHES.keys() - {""}
    with_program = {control.switch for control in CONTROLS}
    texts = [(_PROJECT / "tests/faults" / name).read_text(encoding="utf-8") for name in _FILES_OF_CONTROLS]
    assert [
        switch for switch in named - with_program if not any(f'"{switch}"' in text for text in texts)
    ] == []


@every("title", _PROMISES)
def test_the_tests_of_a_promise_are_there(title: str) -> None:
    for test in _PROMISES[title]:
        file, _, name = test.partition("::")
        assert name in names_in(_PROJECT / "tests" / file)
