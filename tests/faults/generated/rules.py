"""Switches for the rules of what is the same call: each turns one rule off, inside of a life of a program."""

from collections.abc import Callable, Mapping
from typing import Any


def _without_delivery() -> None:
    from nighthawk_async.journal import delivery

    delivery._find_arrivals = lambda records, index: iter(())  # type: ignore[assignment]


def _without_catching_up() -> None:
    from nighthawk_async.journal.delivery import Delivery

    async def go_on(self: Delivery, place: str) -> None:
        pass

    Delivery.wait_until_over = go_on  # type: ignore[method-assign]
    Delivery.wait_until_over_in_thread = lambda self, place: None  # type: ignore[method-assign]


def _without_outside() -> None:
    from nighthawk_async.journal import effects

    effects.check_outside = lambda name: None  # type: ignore[assignment]


def _without_changed_arguments() -> None:
    from nighthawk_async.journal.changed_arguments import WatchedCall

    WatchedCall.end = lambda self: ()  # type: ignore[method-assign,assignment]


def _without_durable_results() -> None:
    from nighthawk_async.journal import effect_call

    make = effect_call.DurableEnd

    def make_hasty(*args: Any, is_awaited: bool) -> effect_call.DurableEnd:
        return make(*args, is_awaited=False)

    effect_call.DurableEnd = make_hasty  # type: ignore[misc,assignment]


RULES: Mapping[str, Callable[[], None]] = {
    "delivery": _without_delivery,
    "catching up": _without_catching_up,
    "outside": _without_outside,
    "changed arguments": _without_changed_arguments,
    "durable results": _without_durable_results,
}
"""Turns a rule off, by its name in `controls`."""
