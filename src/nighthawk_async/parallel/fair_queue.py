"""A fair queue: first come, first served, from any thread and event loop.

A grant that arrives at the moment of a cancellation is given back, and goes to the next waiter.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from threading import Lock
from typing import Generic, TypeVar

import anyio
from anyio.lowlevel import checkpoint_if_cancelled

from .event_loop import LoopEvent

Grant = TypeVar("Grant")

_EVERYTHING = ("everything",)
_UNTIL_WOKEN = float("inf")


class Turn(Generic[Grant]):
    """A position in a queue. `FairQueue.join` makes it; its arguments are described there.

    Attributes:
        grant: The grant, once there is one.
        event: Set to look again; None before the first wait.
    """

    __slots__ = ("decide", "event", "grant", "key", "needs", "pause")

    def __init__(
        self,
        decide: Callable[[], Grant | None],
        needs: Collection[Hashable],
        key: Hashable,
        pause: Callable[[], float] | None,
    ) -> None:
        self.decide = decide
        self.needs = needs
        self.key = key
        self.pause = pause
        self.grant: Grant | None = None
        self.event: LoopEvent | None = None


class FairQueue(Generic[Grant]):
    """Waiters, in the order of arrival; those of different keys alternate.

    Args:
        lock: Held during every decision. All methods but `wait` are called with it held.
    """

    __slots__ = ("_lines", "_lock", "_needed")

    def __init__(self, lock: Lock) -> None:
        self._lock = lock
        self._lines: OrderedDict[Hashable, OrderedDict[Turn[Grant], None]] = OrderedDict()
        self._needed: set[Hashable] = set()  # by waiters

    def __len__(self) -> int:
        return sum(map(len, self._lines.values()))

    @property
    def lines(self) -> Mapping[Hashable, Collection[Turn[Grant]]]:
        """The waiting turns of each key, oldest first."""
        return self._lines

    def join(
        self,
        decide: Callable[[], Grant | None],
        *,
        needs: Collection[Hashable] = _EVERYTHING,
        key: Hashable = None,
        goes_first: bool = False,
        pause: Callable[[], float] | None = None,
    ) -> Turn[Grant]:
        """Join the queue at the end, unless there is a grant at once; then call `wait`.

        Args:
            decide: Returns the grant; None while there is none. Called with the lock held.
            needs: The resources that are needed; turns with other needs do not wait for it. By default all
                turns need the same one.
            key: The fairness key; one turn of each key is served at a time.
            goes_first: Whether it joins at the front.
            pause: Returns the seconds after which there may be a grant although nobody calls `move`. Called
                by the waiting task before each wait, with the lock held; an exception ends the wait. The
                pause of the first turn counts for all.
        """
        turn = Turn(decide, needs, key, pause)
        if goes_first:
            turn.grant = decide()
        else:
            self._decide(turn)
        if turn.grant is None:
            line = self._lines.setdefault(key, OrderedDict())
            line[turn] = None
            if goes_first:
                line.move_to_end(turn, last=False)
                self._lines.move_to_end(key, last=False)
            self._needed.update(needs)
        return turn

    async def wait(self, turn: Turn[Grant], give_back: Callable[[Grant], object]) -> Grant:
        """Wait for the grant that `join` requested. Not a checkpoint if there was one at once.

        Args:
            turn: The position in the queue.
            give_back: Takes back a grant that arrived at the moment of a cancellation. Called without the
                lock.
        """
        has_waited = False
        try:
            while (seconds := self._look(turn)) is not None:
                has_waited = True
                assert turn.event is not None, "a look without a grant makes an event"
                with anyio.move_on_after(seconds):
                    await turn.event.wait()
            if has_waited:
                await checkpoint_if_cancelled()  # the cancellation of the caller goes before the grant
        except BaseException:  # cancelled
            self._give_up(turn, give_back)
            raise
        assert turn.grant is not None, "the last look found a grant"
        return turn.grant

    def move(self) -> Sequence[Turn[Grant]]:
        """Serve the turns for which there is a grant by now.

        Returns:
            The turns to wake, with `wake` and without the lock.
        """
        served: list[Turn[Grant]] = []
        woken: list[Turn[Grant]] = []
        self._needed = set()
        for turn in self._in_order():
            self._decide(turn)
            if turn.grant is not None:
                served.append(turn)
                continue
            if turn.pause is not None and not self._needed:
                woken.append(turn)  # the first one keeps the time
            self._needed.update(turn.needs)
            if turn.needs is _EVERYTHING:
                break  # no turn behind it can be served
        for turn in served:
            self._remove(turn)
            if turn.key in self._lines:
                self._lines.move_to_end(turn.key)
        return [*served, *woken]

    def withdraw(self, turn: Turn[Grant], grant: Grant | None = None) -> Sequence[Turn[Grant]]:
        """Take a waiting turn out of the queue.

        Args:
            turn: The position in the queue. Nothing happens if it waits no longer.
            grant: The grant that it gets out of order; None for none.

        Returns:
            The turns to wake, with `wake` and without the lock.
        """
        if turn not in self._lines.get(turn.key, ()):
            return ()
        self._remove(turn)
        turn.grant = grant
        return [turn, *self.move()]

    def _in_order(self) -> Iterator[Turn[Grant]]:
        lines = deque(map(iter, self._lines.values()))
        while lines:
            line = lines.popleft()
            turn = next(line, None)
            if turn is not None:
                yield turn
                lines.append(line)

    def _decide(self, turn: Turn[Grant]) -> None:
        if self._needed.isdisjoint(turn.needs):
            turn.grant = turn.decide()

    def _remove(self, turn: Turn[Grant]) -> None:
        line = self._lines[turn.key]
        del line[turn]
        if not line:
            del self._lines[turn.key]

    def _look(self, turn: Turn[Grant]) -> float | None:
        """Return the seconds to wait before the next look; None when there is a grant."""
        woken: Sequence[Turn[Grant]] = ()
        try:
            with self._lock:
                if turn.grant is None and turn.pause is not None:
                    woken = self.move()
                if turn.grant is not None:
                    return None
                turn.event = LoopEvent()
                if turn.pause is None:
                    return _UNTIL_WOKEN
                seconds = turn.pause()
                return seconds if next(self._in_order()) is turn else _UNTIL_WOKEN
        finally:
            wake(each for each in woken if each is not turn)

    def _give_up(self, turn: Turn[Grant], give_back: Callable[[Grant], object]) -> None:
        with self._lock:
            woken = self.withdraw(turn)
        if turn.grant is not None:
            give_back(turn.grant)
        wake(woken)


def wake(turns: Iterable[Turn[Grant]]) -> None:
    """Wake turns, so that they look whether there is a grant. Must be called without the lock."""
    for turn in turns:
        if turn.event is not None:
            turn.event.set()
