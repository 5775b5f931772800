"""Switches for the rules of what is the same call: each turns one rule off, inside of a life of a program."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from nighthawk_async.executors import model_agent
from nighthawk_async.journal import (
    clock,
    delivery,
    effect_call,
    effects,
    known_objects,
    queue_claims,
    queue_suspects,
    recorder,
    sqlite_database,
    values,
)
from nighthawk_async.journal.acknowledgement import Acknowledgement
from nighthawk_async.journal.changed_arguments import WatchedCall
from nighthawk_async.journal.delivery import Delivery
from nighthawk_async.journal.departures import Departures
from nighthawk_async.journal.effect_call import Effect
from nighthawk_async.journal.holding import Holding
from nighthawk_async.journal.known_objects import KnownObjects
from nighthawk_async.journal.orders import RunOrders
from nighthawk_async.journal.recorder import RunRecorder
from nighthawk_async.journal.records import RecordIndex
from nighthawk_async.journal.run_journal import RunJournal
from nighthawk_async.kernel import calls
from nighthawk_async.parallel.decided_limits import DecidedLimit
from nighthawk_async.parallel.task_node import Positions
from nighthawk_async.values import stable_digest
from nighthawk_async.values.stable_digest import digest_of_version_1


def _without_text() -> None:
    calls._text_of = lambda block, literal: {}


def _without_dotted_reads() -> None:
    calls._value_at = lambda path, values: path


def _without_stable_digests() -> None:
    def identify(value: object) -> stable_digest.Identity:
        return stable_digest.Identity(digest=digest_of_version_1(value))

    stable_digest.identify = identify
    known_objects.identify = identify


def _without_self() -> None:
    inputs_of = Effect.inputs_of

    def inputs_without_owner(self: Effect, *arguments: Any) -> Mapping[str, object]:
        return {name: value for name, value in inputs_of(self, *arguments).items() if name != "self"}

    Effect.inputs_of = inputs_without_owner  # type: ignore[method-assign]


def _without_leftovers() -> None:
    RunJournal._refuse_left = lambda self, place, left, what="": None  # type: ignore[method-assign]
    RunJournal.all_ended = RunJournal.handled_in  # type: ignore[method-assign]
    RecordIndex.lost_in = lambda self, parent: []  # type: ignore[method-assign]
    RecordIndex.lost_after = lambda self, place=None: []  # type: ignore[method-assign]


def _without_failed_calls() -> None:
    RunJournal.refuse_cut = lambda self, is_passed, place: None  # type: ignore[method-assign]


def _without_new_calls() -> None:
    RecordIndex.check_new = lambda self, place: None  # type: ignore[method-assign]


def _without_hold() -> None:
    Holding._find_expected = lambda self, place: None  # type: ignore[method-assign]


def _without_delivery() -> None:
    def find_no_arrivals(records: object, index: object) -> Iterator[Any]:
        return iter(())

    delivery._find_arrivals = find_no_arrivals


def _without_departures() -> None:
    async def leave_at_once(
        self: Departures, place: str, written: Acknowledgement[None] | None = None
    ) -> None:
        if written is not None:
            await written.wait()

    Departures.leave = leave_at_once  # type: ignore[method-assign]


def _without_catching_up() -> None:
    async def go_on(self: Delivery, place: str, *, is_effect: bool = False) -> None:
        pass

    def go_on_in_thread(self: Delivery, place: str, *, is_effect: bool = False) -> None:
        pass

    Delivery.wait_until_over = go_on  # type: ignore[method-assign]
    Delivery.wait_until_over_in_thread = go_on_in_thread  # type: ignore[method-assign]


def _without_orders() -> None:
    RunOrders._expect = lambda self, record, index: None  # type: ignore[method-assign]


def _without_losers() -> None:
    RecordIndex.items_in = lambda self, place: frozenset()  # type: ignore[method-assign]


def _without_withdrawal() -> None:
    RunRecorder.withdraw = lambda self, intent: None  # type: ignore[method-assign]


def _without_outside() -> None:
    effects.check_outside = lambda name: None


def _without_changed_arguments() -> None:
    WatchedCall.end = lambda self: ()  # type: ignore[method-assign]


def _without_durable_results() -> None:
    make = effect_call.DurableEnd

    def make_hasty(*args: Any, is_awaited: bool, **more: Any) -> effect_call.DurableEnd:
        return make(*args, is_awaited=False, **more)

    effect_call.DurableEnd = make_hasty  # type: ignore[misc,assignment]


def _without_values() -> None:
    clock.find_recorder = lambda: None
    clock.check_outside = lambda name: None


def _without_handled_errors() -> None:
    RecordIndex.is_handled = lambda self, record: False  # type: ignore[method-assign]


def _without_errors_of_lives() -> None:
    RecordIndex.is_handled = lambda self, record: True  # type: ignore[method-assign]


def _without_changed_programs() -> None:
    Delivery.check_same = lambda self, place, what="": None  # type: ignore[method-assign]


def _without_deadlines() -> None:
    DecidedLimit.expires = property(lambda self: False)  # type: ignore[assignment]


def _without_usage() -> None:
    report_request = model_agent.report_request

    def report_again(report: Any, model: Any, stream: Any, reported: Any) -> None:
        for _ in range(2 if stream.is_replay else 1):
            report_request(report, model, stream, reported)

    model_agent.report_request = report_again


def _without_suspects() -> None:
    write_claims = queue_claims._write_claims

    def write_alone(*arguments: Any, has_company: bool) -> None:
        write_claims(*arguments, has_company=False)

    queue_claims._write_claims = write_alone
    queue_claims.note_company = queue_suspects.note_company = lambda *arguments: None


def _without_declared_types() -> None:
    effect_call.check_declared = lambda *arguments, **more: None


def _without_ambiguity() -> None:
    Positions._check_same = lambda self, kind, unstable: None  # type: ignore[method-assign]


def _without_unknown_objects() -> None:
    KnownObjects._say = lambda self, *arguments: None  # type: ignore[method-assign]


def _without_registered_identities() -> None:
    values.keep_identity = lambda kind, function: None


def _without_versions() -> None:
    effect_call.digests_of_version_1 = effect_call.stable_digests


def _without_diverged_lives() -> None:
    recorder.records_that_count = lambda records: records


def _without_text_of_doubts() -> None:
    effect_call.shown_arguments = lambda arguments: {}


def _without_expected_records() -> None:
    sqlite_database.check_mark = lambda *arguments: None


RULES: Mapping[str, Callable[[], None]] = {
    "text": _without_text,
    "dotted": _without_dotted_reads,
    "stable digests": _without_stable_digests,
    "self": _without_self,
    "leftovers": _without_leftovers,
    "failed calls": _without_failed_calls,
    "new calls": _without_new_calls,
    "hold": _without_hold,
    "delivery": _without_delivery,
    "departures": _without_departures,
    "catching up": _without_catching_up,
    "orders": _without_orders,
    "losers": _without_losers,
    "withdrawal": _without_withdrawal,
    "outside": _without_outside,
    "changed arguments": _without_changed_arguments,
    "durable results": _without_durable_results,
    "values": _without_values,
    "handled errors": _without_handled_errors,
    "errors of lives": _without_errors_of_lives,
    "changed programs": _without_changed_programs,
    "diverged lives": _without_diverged_lives,
    "deadlines": _without_deadlines,
    "usage": _without_usage,
    "suspects": _without_suspects,
    "declared types": _without_declared_types,
    "ambiguity": _without_ambiguity,
    "unknown objects": _without_unknown_objects,
    "registered identities": _without_registered_identities,
    "versions": _without_versions,
    "text of doubts": _without_text_of_doubts,
    "expected records": _without_expected_records,
}
"""Turns a rule off, by its name in `controls`."""


def record_as_version_1() -> None:
    """Record the arguments of effects as the version before did."""

    def identify(value: object) -> stable_digest.Identity:
        return stable_digest.Identity(digest=digest_of_version_1(value))

    known_objects.identify = identify
    effect_call.VERSION = 1
