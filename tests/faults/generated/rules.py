"""Switches for the rules of what is the same call: each turns one rule off, inside of a life of a program."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from nighthawk_async.journal import delivery, effect_call, effects, known_objects, sqlite_database
from nighthawk_async.journal.changed_arguments import WatchedCall
from nighthawk_async.journal.delivery import Delivery
from nighthawk_async.journal.effect_call import Effect
from nighthawk_async.journal.holding import Holding
from nighthawk_async.journal.orders import RunOrders
from nighthawk_async.journal.recorder import RunRecorder
from nighthawk_async.journal.records import RecordIndex
from nighthawk_async.journal.run_journal import RunJournal
from nighthawk_async.runtime import stable_digest, step_inputs
from nighthawk_async.runtime.digest_of_version_1 import digest_of_version_1


def _without_text() -> None:
    step_inputs._text_of = lambda block, literal: {}


def _without_dotted_reads() -> None:
    step_inputs._value_at = lambda path, values: path


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
    RunJournal._check_left = lambda self, place: None  # type: ignore[method-assign]
    RecordIndex.lost_in = lambda self, parent: []  # type: ignore[method-assign]


def _without_hold() -> None:
    Holding._find_expected = lambda self, place: None  # type: ignore[method-assign]


def _without_delivery() -> None:
    def find_no_arrivals(records: object, index: object) -> Iterator[Any]:
        return iter(())

    delivery._find_arrivals = find_no_arrivals


def _without_catching_up() -> None:
    async def go_on(self: Delivery, place: str) -> None:
        pass

    Delivery.wait_until_over = go_on  # type: ignore[method-assign]
    Delivery.wait_until_over_in_thread = lambda self, place: None  # type: ignore[method-assign]


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

    def make_hasty(*args: Any, is_awaited: bool) -> effect_call.DurableEnd:
        return make(*args, is_awaited=False)

    effect_call.DurableEnd = make_hasty  # type: ignore[misc,assignment]


def _without_expected_records() -> None:
    sqlite_database.check_mark = lambda *arguments: None


RULES: Mapping[str, Callable[[], None]] = {
    "text": _without_text,
    "dotted": _without_dotted_reads,
    "stable digests": _without_stable_digests,
    "self": _without_self,
    "leftovers": _without_leftovers,
    "hold": _without_hold,
    "delivery": _without_delivery,
    "catching up": _without_catching_up,
    "orders": _without_orders,
    "losers": _without_losers,
    "withdrawal": _without_withdrawal,
    "outside": _without_outside,
    "changed arguments": _without_changed_arguments,
    "durable results": _without_durable_results,
    "expected records": _without_expected_records,
}
"""Turns a rule off, by its name in `controls`."""
