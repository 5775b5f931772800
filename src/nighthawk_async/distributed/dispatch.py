"""The dispatch of calls to workers: plain state, decided without I/O.

Each method changes the state and returns what is to be done. Nothing here waits, sends or knows a clock: the
caller passes the time, in seconds, and carries the effects out.

    waiting ──► placed ──► ended
       ▲          │ └────► withdrawn ──► ended
       └──────────┘ the worker was lost

Of the calls of a worker that was lost, nobody knows which one has ended it. So a loss counts against a call
only if the call was alone on the worker. After its second loss a call is a suspect, and is placed alone: on a
worker without other calls, which gets none before the suspect has ended.
"""

from collections import OrderedDict
from collections.abc import Hashable, Iterator, Sequence
from math import inf
from typing import Generic, TypeAlias, TypeVar

from msgspec import Struct

SUSPICIOUS_LOSSES = 2
"""The losses after which a call is placed alone. The first one may be an accident of the machine."""

Worker = TypeVar("Worker", bound=Hashable)


class Place(Struct, Generic[Worker], frozen=True):
    """Send a call to a worker."""

    call: int
    worker: Worker
    attempt: int


class Withdrawal(Struct, Generic[Worker], frozen=True):
    """Ask a worker to cancel a call."""

    call: int
    worker: Worker


class Kill(Struct, Generic[Worker], frozen=True):
    """End a worker: a withdrawn call has not ended within the grace."""

    worker: Worker


class End(Struct, Generic[Worker], frozen=True):
    """A call has ended without an answer of a worker: it was cancelled, or its last worker was lost.

    Args:
        call: The call.
        worker: The last worker; None if it was never placed.
        reason: How the worker was lost; None for a call that was cancelled.
        placements: The number of times that it was placed.
        lost_alone: The number of workers that were lost while it was alone there.
    """

    call: int
    worker: Worker | None
    reason: str | None
    placements: int
    lost_alone: int = 0


Effect: TypeAlias = Place[Worker] | Withdrawal[Worker] | Kill[Worker] | End[Worker]


class _PlacedCall(Struct, Generic[Worker]):
    """A call that has not ended."""

    worker: Worker | None = None
    placements: int = 0
    losses: int = 0
    lost_alone: int = 0
    due: float | None = None  # the end of its grace, once it is withdrawn


class Dispatcher(Generic[Worker]):
    """The calls of a placement, and the workers that make them.

    A call goes to the worker with the fewest calls. Calls that wait are placed in the order of submission;
    calls of a lost worker come before those. Suspects are the first that get a worker without calls, of which
    the successor of a lost one is one; they use at most half of the workers, and at least one.

    Args:
        max_concurrent_per_worker: The greatest number of calls on one worker at once.
        max_placements: The number of workers that a call may lose while it is alone there. With 1, a call is
            placed once, whatever happens.
        grace_seconds: The seconds within which a withdrawn call must end.
    """

    def __init__(self, *, max_concurrent_per_worker: int, max_placements: int, grace_seconds: float) -> None:
        self._most = max_concurrent_per_worker
        self._max_placements = max_placements
        self._grace_seconds = grace_seconds
        self._calls: dict[int, _PlacedCall[Worker]] = {}
        # Ordered dictionaries, because a plain one takes long to find its first key after many removals.
        self._waiting: OrderedDict[int, None] = OrderedDict()
        self._suspects: OrderedDict[int, None] = OrderedDict()
        self._workers: dict[Worker, dict[int, None]] = {}
        self._lone: set[Worker] = set()  # those that have a suspect
        self._by_load: list[OrderedDict[Worker, None]] = [
            OrderedDict() for _ in range(max_concurrent_per_worker)
        ]
        self._dues: OrderedDict[int, None] = (
            OrderedDict()
        )  # withdrawn calls, soonest first: all have one grace
        self._closed: set[Worker] = set()
        self._killed: set[Worker] = set()

    @property
    def workers(self) -> int:
        """The number of workers, those that get no further calls included."""
        return len(self._workers)

    @property
    def unfinished(self) -> int:
        """The number of calls that have not ended."""
        return len(self._calls)

    @property
    def waiting(self) -> int:
        """The number of calls that wait for a worker."""
        return len(self._waiting) + len(self._suspects)

    def calls_of(self, worker: Worker) -> tuple[int, ...]:
        """Return the calls that are on a worker."""
        return tuple(self._workers.get(worker, ()))

    def add_worker(self, worker: Worker) -> list[Effect[Worker]]:
        """Add a worker that is ready to take calls."""
        self._workers[worker] = {}
        self._by_load[0][worker] = None
        return list(self._place_waiting())

    def close_worker(self, worker: Worker) -> None:
        """Give no further calls to a worker, because it is about to end.

        Args:
            worker: The worker.
        """
        calls = self._workers.get(worker)
        if calls is not None and worker not in self._closed:
            if len(calls) < self._most and worker not in self._lone:
                del self._by_load[len(calls)][worker]
            self._closed.add(worker)

    def lose_worker(self, worker: Worker, reason: str) -> list[Effect[Worker]]:
        """Remove a worker that has ended; its calls are placed again, or end.

        Args:
            worker: The worker.
            reason: How it has ended.
        """
        if worker not in self._workers:
            return []
        self.close_worker(worker)
        calls = self._workers.pop(worker)
        was_killed = worker in self._killed
        for workers in (self._closed, self._killed, self._lone):
            workers.discard(worker)
        effects: list[Effect[Worker]] = []
        again: list[int] = []
        for call in calls:
            state = self._calls[call]
            if state.due is not None:  # it is being cancelled, and its end is the end of its worker
                self._forget(call)
                effects.append(End(call, worker, None, state.placements))
            elif was_killed:  # because of another call
                state.placements -= 1
                again.append(call)
            else:
                state.losses += 1
                state.lost_alone += len(calls) == 1
                if self._max_placements in (1, state.lost_alone):
                    self._forget(call)
                    effects.append(End(call, worker, reason, state.placements, state.lost_alone))
                else:
                    again.append(call)
        self._wait_again(again)
        effects.extend(self._place_waiting())
        return effects

    def submit(self, call: int) -> list[Effect[Worker]]:
        """Take a new call.

        Args:
            call: Its number.
        """
        self._calls[call] = _PlacedCall()
        self._waiting[call] = None
        return list(self._place_waiting())

    def note_ended(self, call: int) -> list[Effect[Worker]]:
        """Note that a worker has answered a call.

        Args:
            call: Its number; one that has ended is ignored.
        """
        state = self._calls.get(call)
        if state is None or state.worker is None:
            return []
        worker, load = state.worker, self._workers[state.worker]
        if worker in self._lone:
            self._lone.remove(worker)
            if worker not in self._closed:
                self._by_load[len(load)][worker] = None
        self._move(worker, len(load), len(load) - 1)
        del load[call]
        self._forget(call)
        return list(self._place_waiting())

    def withdraw(self, call: int, now: float) -> list[Effect[Worker]]:
        """Cancel a call.

        Args:
            call: Its number; one that has ended, or is being cancelled, is ignored.
            now: The time.
        """
        state = self._calls.get(call)
        if state is None or state.due is not None:
            return []
        if state.worker is None:
            del (self._suspects if call in self._suspects else self._waiting)[call]
            self._forget(call)
            return [End(call, None, None, state.placements)]
        state.due = now + self._grace_seconds
        self._dues[call] = None
        return [Withdrawal(call, state.worker)]

    @property
    def next_due(self) -> float:
        """The time at which `take_due` has something to do; infinity for never."""
        call = next(iter(self._dues), None)
        due = None if call is None else self._calls[call].due
        return inf if due is None else due

    def take_due(self, now: float) -> list[Effect[Worker]]:
        """Return the workers to end because a withdrawn call has used up its grace.

        Args:
            now: The time.
        """
        effects: list[Effect[Worker]] = []
        while self.next_due <= now:
            call = next(iter(self._dues))
            del self._dues[call]
            worker = self._calls[call].worker
            if worker is not None and worker not in self._killed:
                self._killed.add(worker)
                self.close_worker(worker)
                effects.append(Kill(worker))
        return effects

    def _place_waiting(self) -> Iterator[Effect[Worker]]:
        while self._suspects and len(self._lone) < max(len(self._workers) // 2, 1):
            worker = next(iter(self._by_load[0]), None)
            if worker is None:
                break
            place = self._place(self._suspects.popitem(last=False)[0], worker)
            del self._by_load[1][worker]
            self._lone.add(worker)
            yield place
        while self._waiting:
            worker = self._least_loaded()
            if worker is None:
                return
            yield self._place(self._waiting.popitem(last=False)[0], worker)

    def _place(self, call: int, worker: Worker) -> Place[Worker]:
        state, load = self._calls[call], self._workers[worker]
        self._move(worker, len(load), len(load) + 1)
        load[call] = None
        state.worker = worker
        state.placements += 1
        return Place(call, worker, state.placements - 1)

    def _least_loaded(self) -> Worker | None:
        for bucket in self._by_load:
            if bucket:
                return next(iter(bucket))
        return None

    def _move(self, worker: Worker, before: int, after: int) -> None:
        if worker in self._closed:
            return
        if before < self._most:
            del self._by_load[before][worker]
        if after < self._most:
            self._by_load[after][worker] = None

    def _wait_again(self, calls: Sequence[int]) -> None:
        """Let calls of a lost worker wait: suspects as the last ones, so that none holds up the others."""
        for call in calls:
            state = self._calls[call]
            state.worker = None
            # A worker that takes one call has it alone in any case.
            if state.losses >= SUSPICIOUS_LOSSES and self._most > 1:
                self._suspects[call] = None
        for call in reversed(calls):
            if call not in self._suspects:
                self._waiting[call] = None
                self._waiting.move_to_end(call, last=False)

    def _forget(self, call: int) -> None:
        del self._calls[call]
        self._dues.pop(call, None)
