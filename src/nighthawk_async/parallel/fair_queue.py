"""A fair queue: first come, first served, from any thread and event loop.

A grant that arrives at the moment of a cancellation is given back, and goes to the next waiter.
"""

from collections.abc import Callable, Collection, Hashable, Sequence
from threading import Lock
from typing import Generic, TypeVar

from anyio.lowlevel import checkpoint_if_cancelled

from .event_loop import LoopEvent

Grant = TypeVar("Grant")

_EVERYTHING = ("everything",)


class Turn(Generic[Grant]):
    """A position in a queue. `FairQueue.join` makes it.

    Args:
        decide: Returns the grant; None while there is none.
        needs: The resources that are needed; turns with the same needs do not overtake each other.

    Attributes:
        grant: The grant, once there is one.
        event: Set when there is a grant; None if there was one at once.
    """

    __slots__ = ("decide", "event", "grant", "needs")

    def __init__(self, decide: Callable[[], Grant | None], needs: Collection[Hashable]) -> None:
        self.decide = decide
        self.needs = needs
        self.grant: Grant | None = None
        self.event: LoopEvent | None = None


class FairQueue(Generic[Grant]):
    """Waiters, in the order of arrival.

    Args:
        lock: Held during every decision. `join` and `move` are called with it held.
    """

    __slots__ = ("_lock", "_needed", "_turns")

    def __init__(self, lock: Lock) -> None:
        self._lock = lock
        self._turns: dict[Turn[Grant], None] = {}
        self._needed: set[Hashable] = set()  # by waiters

    def join(
        self, decide: Callable[[], Grant | None], *, needs: Collection[Hashable] = _EVERYTHING
    ) -> Turn[Grant]:
        """Join the queue at the end, unless there is a grant at once; then call `wait`.

        Args:
            decide: Returns the grant; None while there is none. Called with the lock held.
            needs: The resources that are needed; turns with other needs do not wait for it. By default all
                turns need the same one.
        """
        turn = Turn(decide, needs)
        self._decide(turn)
        if turn.grant is None:
            turn.event = LoopEvent()
            self._turns[turn] = None
            self._needed.update(needs)
        return turn

    async def wait(self, turn: Turn[Grant], give_back: Callable[[Grant], object]) -> Grant:
        """Wait for the grant that `join` requested. Not a checkpoint if there was one at once.

        Args:
            turn: The position in the queue.
            give_back: Takes back a grant that arrived at the moment of a cancellation. Called without the
                lock.
        """
        if turn.event is not None:
            try:
                await turn.event.wait()
                await checkpoint_if_cancelled()  # the cancellation of the caller goes before the grant
            except BaseException:  # cancelled
                self._give_up(turn, give_back)
                raise
        assert turn.grant is not None, "a turn is woken only with a grant"
        return turn.grant

    def move(self) -> Sequence[Turn[Grant]]:
        """Serve the turns for which there is a grant by now.

        Returns:
            The turns to wake, with `wake` and without the lock.
        """
        served: list[Turn[Grant]] = []
        self._needed = set()
        for turn in self._turns:
            self._decide(turn)
            if turn.grant is not None:
                served.append(turn)
                continue
            self._needed.update(turn.needs)
            if turn.needs is _EVERYTHING:
                break  # no turn behind it can be served
        for turn in served:
            del self._turns[turn]
        return served

    def _decide(self, turn: Turn[Grant]) -> None:
        if self._needed.isdisjoint(turn.needs):
            turn.grant = turn.decide()

    def _give_up(self, turn: Turn[Grant], give_back: Callable[[Grant], object]) -> None:
        with self._lock:
            self._turns.pop(turn, None)
            served = self.move()
        if turn.grant is not None:
            give_back(turn.grant)
        wake(served)


def wake(turns: Sequence[Turn[Grant]]) -> None:
    """Wake the served turns. Must be called without the lock."""
    for turn in turns:
        if turn.event is not None:
            turn.event.set()
