"""A fair queue: first come, first served, from any thread and event loop.

What somebody gets who gives up at the same moment is given back, and the next one gets it.
"""

from collections.abc import Callable, Collection, Hashable, Sequence
from threading import Lock
from typing import Generic, TypeVar

from anyio.lowlevel import checkpoint_if_cancelled

from .event_loop import LoopEvent

Grant = TypeVar("Grant")

_EVERYTHING = ("everything",)


class Turn(Generic[Grant]):
    """A place in a queue. `FairQueue.join` makes it.

    Args:
        decide: Gives what is waited for; None while there is nothing.
        needs: The things that are needed; nobody overtakes at the same things.

    Attributes:
        grant: What was waited for, once it is there.
        event: Is set when it is there; None where it was there at once.
    """

    __slots__ = ("decide", "event", "grant", "needs")

    def __init__(self, decide: Callable[[], Grant | None], needs: Collection[Hashable]) -> None:
        self.decide = decide
        self.needs = needs
        self.grant: Grant | None = None
        self.event: LoopEvent | None = None


class FairQueue(Generic[Grant]):
    """Those that wait, in the order in which they came.

    Args:
        lock: Is held whenever something is decided. `join` and `move` are called with it held.
    """

    __slots__ = ("_lock", "_needed", "_turns")

    def __init__(self, lock: Lock) -> None:
        self._lock = lock
        self._turns: dict[Turn[Grant], None] = {}
        self._needed: set[Hashable] = set()  # by those who wait

    def join(
        self, decide: Callable[[], Grant | None], *, needs: Collection[Hashable] = _EVERYTHING
    ) -> Turn[Grant]:
        """Take a place at the end, unless there is something at once; then `wait`.

        Args:
            decide: Gives what is waited for; None while there is nothing. Called with the lock held.
            needs: The things that are needed; those who need others do not wait for it. By default all need
                the same.
        """
        turn = Turn(decide, needs)
        self._decide(turn)
        if turn.grant is None:
            turn.event = LoopEvent()
            self._turns[turn] = None
            self._needed.update(needs)
        return turn

    async def wait(self, turn: Turn[Grant], give_back: Callable[[Grant], object]) -> Grant:
        """Wait for what `join` began to wait for. No checkpoint where it was there at once.

        Args:
            turn: The place in the queue.
            give_back: Takes back what came at the moment of a cancellation. Called without the lock.
        """
        if turn.event is not None:
            try:
                await turn.event.wait()
                await checkpoint_if_cancelled()  # the end of the caller goes before what it waited for
            except BaseException:  # cancelled
                self._give_up(turn, give_back)
                raise
        assert turn.grant is not None, "nobody is woken for nothing"
        return turn.grant

    def move(self) -> Sequence[Turn[Grant]]:
        """Serve those for whom there is something by now.

        Returns:
            Those who are to be woken, by `wake` and without the lock.
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
                break  # nobody behind it can be served
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
    """Wake those who were served. To be called without the lock."""
    for turn in turns:
        if turn.event is not None:
            turn.event.set()
