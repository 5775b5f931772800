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
    from nighthawk_async.journal.effect_call import Effect

    make = Effect.__init__

    def make_hasty(self: Effect, *args: Any, **options: Any) -> None:
        make(self, *args, **options)
        self.is_durable = False

    Effect.__init__ = make_hasty  # type: ignore[method-assign]


RULES: Mapping[str, Callable[[], None]] = {
    "delivery": _without_delivery,
    "catching up": _without_catching_up,
    "outside": _without_outside,
    "changed arguments": _without_changed_arguments,
    "durable results": _without_durable_results,
}
"""Turns a rule off, by its name in `controls`."""
