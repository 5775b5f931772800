"""A waiting line: first come, first served, from any thread and event loop.

What somebody gets who gives up at the same moment is given back, and the next one gets it.
"""

from collections.abc import Callable, Collection, Hashable, Sequence
from threading import Lock
from typing import Generic, TypeVar

from anyio.lowlevel import checkpoint_if_cancelled

from .event_loop import LoopEvent

Grant = TypeVar("Grant")

_EVERYTHING = ("everything",)


class Waiter(Generic[Grant]):
    """One that waits. `WaitingLine.join` makes it.

    Args:
        decide: Gives what it waits for; None while there is nothing.
        needs: The things that it needs; nobody overtakes at the same things.

    Attributes:
        grant: The thing that it waited for, once it has that.
    """

    __slots__ = ("_event", "decide", "grant", "needs")

    def __init__(self, decide: Callable[[], Grant | None], needs: Collection[Hashable]) -> None:
        self.decide = decide
        self.needs = needs
        self.grant: Grant | None = None
        self._event: LoopEvent | None = None

    def prepare(self) -> None:
        """It has to wait, on the present event loop."""
        self._event = LoopEvent()

    async def wait(self) -> None:
        """Wait until it is woken."""
        if self._event is not None:
            await self._event.wait()
            await checkpoint_if_cancelled()  # the end of the caller goes before what it waited for

    def wake(self) -> None:
        """It has what it waits for. To be called without the lock."""
        if self._event is not None:
            self._event.set()


class WaitingLine(Generic[Grant]):
    """Those that wait, in the order in which they came.

    Args:
        lock: Is held whenever something is decided. `join` and `move` are called with it held.
    """

    __slots__ = ("_lock", "_needed", "_waiters")

    def __init__(self, lock: Lock) -> None:
        self._lock = lock
        self._waiters: dict[Waiter[Grant], None] = {}
        self._needed: set[Hashable] = set()  # by those who wait

    def join(
        self, decide: Callable[[], Grant | None], *, needs: Collection[Hashable] = _EVERYTHING
    ) -> Waiter[Grant]:
        """Take a place at the end, unless there is something at once; then `wait`.

        Args:
            decide: Gives what is waited for; None while there is nothing. Called with the lock held.
            needs: The things that it needs; those who need others do not wait for it. By default all need the
                same.
        """
        waiter = Waiter(decide, needs)
        self._decide(waiter)
        if waiter.grant is None:
            waiter.prepare()
            self._waiters[waiter] = None
            self._needed.update(needs)
        return waiter

    async def wait(self, waiter: Waiter[Grant], give_back: Callable[[Grant], object]) -> Grant:
        """Wait for what `join` began to wait for.

        Args:
            waiter: The place in the line.
            give_back: Takes back what came at the moment of a cancellation. Called without the lock.
        """
        try:
            await waiter.wait()
        except BaseException:  # cancelled
            with self._lock:
                self._waiters.pop(waiter, None)
                served = self.move()
            if waiter.grant is not None:
                give_back(waiter.grant)
            wake(served)
            raise
        assert waiter.grant is not None, "nobody is woken for nothing"
        return waiter.grant

    def move(self) -> Sequence[Waiter[Grant]]:
        """Serve those for whom there is something by now.

        Returns:
            Those who are to be woken, without the lock.
        """
        served: list[Waiter[Grant]] = []
        self._needed = set()
        for waiter in self._waiters:
            self._decide(waiter)
            if waiter.grant is not None:
                served.append(waiter)
                continue
            self._needed.update(waiter.needs)
            if waiter.needs is _EVERYTHING:
                break  # nobody behind it can be served
        for waiter in served:
            del self._waiters[waiter]
        return served

    def _decide(self, waiter: Waiter[Grant]) -> None:
        if self._needed.isdisjoint(waiter.needs):
            waiter.grant = waiter.decide()


def wake(waiters: Sequence[Waiter[Grant]]) -> None:
    """Wake those who were served. To be called without the lock."""
    for waiter in waiters:
        waiter.wake()
