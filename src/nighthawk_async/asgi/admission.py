"""Admission of requests: running, waiting, refused.

Decisions are synchronous; only a request in the queue waits. Requests are admitted in the order in which they
came, or, where their clients are known, one of each client in turn. When the queue is full and a client with
fewer requests comes, the client with the most waiting requests loses its newest slot.
"""

from collections import Counter
from math import inf
from threading import Lock
from typing import Literal, TypeAlias

from ..parallel.fair_queue import FairQueue, Turn as Position, wake
from ..pickling import PicklableError
from .problems import QUEUE_FULL, SHUTTING_DOWN, TOO_MANY_OF_CLIENT, Problem


class RefusedError(PicklableError):
    """A request is refused.

    Args:
        problem: The problem that is reported to its client.
    """

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.title)
        self.problem = problem


_Decision: TypeAlias = Problem | Literal["admitted"]


class Turn:
    """The slot of a request, in progress or waiting; returned by `Admission.ask`.

    Args:
        queue: The queue of requests.
        position: Its position in the queue.
        client: The client of the request; None when it is unknown.
    """

    __slots__ = ("_queue", "client", "position")

    def __init__(
        self, queue: FairQueue[_Decision], position: Position[_Decision], client: str | None
    ) -> None:
        self._queue = queue
        self.position = position
        self.client = client

    @property
    def is_admitted(self) -> bool:
        """Whether the request is admitted."""
        return self.position.grant == "admitted"

    @property
    def problem(self) -> Problem | None:
        """The reason for refusing it; None for no refusal."""
        grant = self.position.grant
        return grant if isinstance(grant, Problem) else None

    async def wait(self) -> None:
        """Wait until it is admitted. A cancelled request takes precedence over a refusal.

        Raises:
            RefusedError: It was refused.
        """
        decision = await self._queue.wait(self.position, _keep)
        if isinstance(decision, Problem):
            raise RefusedError(decision)


def _keep(_: _Decision) -> None:
    """Leave the slot of a cancelled request to `Admission.leave`."""


class Admission:
    """Admits requests.

    Args:
        max_concurrent: The maximum number in progress; None for no limit.
        max_queued: The maximum number that waits.
        max_per_client: The maximum number of one client in progress and waiting; None for no limit.
    """

    def __init__(self, *, max_concurrent: int | None, max_queued: int, max_per_client: int | None) -> None:
        self._max_concurrent = max_concurrent
        self._max_queued = max_queued
        self._max_per_client = max_per_client
        self._lock = Lock()
        self._queue = FairQueue[_Decision](self._lock)
        self._of_client: Counter[str] = Counter()
        self._is_open = True
        self.in_progress = 0
        """The number in progress."""

    @property
    def queued(self) -> int:
        """The number that waits."""
        return len(self._queue)

    def open(self) -> None:
        """Admit requests again."""
        self._is_open = True

    def close(self) -> None:
        """Admit no more requests, and refuse all that wait."""
        self._is_open = False
        for turn in [turn for line in self._queue.lines.values() for turn in line]:
            self._refuse(turn, SHUTTING_DOWN)

    def ask(self, client: str | None) -> Turn:
        """Take a slot, in progress or in the queue; `leave` frees it.

        Args:
            client: The client of the request; None when it is unknown.

        Raises:
            RefusedError: No slot is free.
        """
        if not self._is_open:
            raise RefusedError(SHUTTING_DOWN)
        if client is not None and self._of_client[client] >= (self._max_per_client or inf):
            raise RefusedError(TOO_MANY_OF_CLIENT)
        if not self._has_room and self.queued >= self._max_queued and not self._make_room(client):
            raise RefusedError(QUEUE_FULL)
        if client is not None:
            self._of_client[client] += 1
        with self._lock:
            return Turn(self._queue, self._queue.join(self._let_in, key=client), client)

    def leave(self, turn: Turn) -> None:
        """Free a slot, also one that was never admitted.

        Args:
            turn: The slot.
        """
        if turn.client is not None:
            self._of_client[turn.client] -= 1
            if not self._of_client[turn.client]:
                del self._of_client[turn.client]
        with self._lock:
            if turn.is_admitted:
                self.in_progress -= 1
                woken = self._queue.move()
            else:
                woken = self._queue.withdraw(turn.position)
        wake(woken)

    @property
    def _has_room(self) -> bool:
        return self._max_concurrent is None or self.in_progress < self._max_concurrent

    def _let_in(self) -> _Decision | None:
        if not self._has_room:
            return None
        self.in_progress += 1
        return "admitted"

    def _make_room(self, client: str | None) -> bool:
        """Refuse the newest request of the client with the most waiting; return False when none has more."""
        lines = self._queue.lines
        longest = max(lines.values(), key=len, default=())
        if len(longest) <= len(lines.get(client, ())) + 1:
            return False  # the newcomer would only take the other's share
        self._refuse(list(longest)[-1], QUEUE_FULL)
        return True

    def _refuse(self, turn: Position[_Decision], problem: Problem) -> None:
        with self._lock:
            woken = self._queue.withdraw(turn, problem)
        wake(woken)
