"""The passage from what earlier lives recorded to what is new in this life."""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, cast

import anyio
from anyio import from_thread

from ..parallel import DeadlineExceededError, under_thread_deadlines
from ..parallel.decided_limits import reach_new
from ..parallel.event_loop import is_loop_thread, is_worker_thread
from .delivery import Delivery
from .records import RecordIndex, function_place

_GRACE_SECONDS = 60.0
"""The time beyond that of an earlier life in which a call is expected to be cancelled again."""


class Gate:
    """The gate that everything passes that no earlier life has recorded.

    If a time limit around it expired in an earlier life, it is cancelled here instead. A function that an
    earlier life cancelled for a reason of the program's own waits for that reason, at most as long as it took in
    that life. Everything else waits until all recorded answers have arrived; see `delivery`.

    Args:
        index: The records of earlier lives.
        delivery: The order of their arrivals.
    """

    def __init__(self, index: RecordIndex, delivery: Delivery) -> None:
        self._index = index
        self._delivery = delivery
        self._begun_functions: set[str] = set()  # in which something new has begun

    async def begin_new(self, place: str) -> None:
        """Pass a place."""
        if reach_new():
            await anyio.sleep_forever()
        seconds = self._seconds_given_up(place)
        if seconds is not None:
            await anyio.sleep(seconds)
        await self._delivery.wait_until_over(place)

    def begin_new_in_thread(self, place: str) -> None:
        """Pass a place as `begin_new` does, from synchronous code.

        Raises:
            DeadlineExceededError: A time limit expired here in an earlier life.
        """
        if reach_new():
            if is_loop_thread():
                raise DeadlineExceededError(0.0, "what it exceeded in an earlier life of the run, too")
            _wait_from_sync(anyio.sleep_forever)
        seconds = self._seconds_given_up(place)
        if seconds is not None and not is_loop_thread():
            _wait_from_sync(anyio.sleep, seconds)
        self._delivery.wait_until_over_in_thread(place)

    def has_begun(self, place: str) -> bool:
        """Whether something new has begun in a function."""
        return place in self._begun_functions

    def _seconds_given_up(self, place: str) -> float | None:
        """The longest time to wait for the cancellation of a function; None if no life has cancelled it."""
        function = function_place(place)
        if function is None:
            return None
        record = self._index.find_handled(function, "decision")
        if record is None or self._index.was_interrupted_at(record):
            self._begun_functions.add(function)
            return None
        return self._index.seconds_until(record) + _GRACE_SECONDS


def _wait_from_sync(function: Callable[..., Awaitable[None]], *args: float) -> None:
    bounded = cast("Callable[..., Coroutine[Any, Any, None]]", under_thread_deadlines(function))
    if is_worker_thread():
        from_thread.run(bounded, *args)
    else:
        anyio.run(bounded, *args)
