"""Admission of requests: running, waiting, refused.

Decisions are synchronous; only a request in the queue waits. Requests are admitted in the order in which they
came, or, where their clients are known, one of each client in turn. When the queue is full and a client with
fewer requests comes, the client with the most waiting requests loses its newest slot.
"""

from collections import Counter, OrderedDict, deque
from math import inf

import anyio
from anyio.lowlevel import checkpoint_if_cancelled

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


class Turn:
    """The slot of a request, in progress or waiting; returned by `Admission.ask`."""

    __slots__ = ("_decided", "client", "is_admitted", "problem")

    def __init__(self, client: str | None) -> None:
        self.client = client
        self.is_admitted = False
        self.problem: Problem | None = None
        self._decided: anyio.Event | None = None

    def decide(self, problem: Problem | None = None) -> None:
        """Admit it, or refuse it.

        Args:
            problem: The reason for refusing it; None to admit it.
        """
        self.problem = problem
        self.is_admitted = problem is None
        if self._decided is not None:
            self._decided.set()

    async def wait(self) -> None:
        """Wait until it is admitted.

        Raises:
            RefusedError: It was refused.
        """
        if not self.is_admitted and self.problem is None:
            self._decided = anyio.Event()
            await self._decided.wait()
            if self.problem is not None:
                await checkpoint_if_cancelled()  # a cancelled request takes precedence over the refusal
        if self.problem is not None:
            raise RefusedError(self.problem)


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
        self._lines: OrderedDict[str | None, deque[Turn]] = OrderedDict()
        self._of_client: Counter[str] = Counter()
        self._is_open = True
        self.in_progress = 0
        """The number in progress."""
        self.queued = 0
        """The number that waits."""

    def open(self) -> None:
        """Admit requests again."""
        self._is_open = True

    def close(self) -> None:
        """Admit no more requests, and refuse all that wait."""
        self._is_open = False
        lines, self._lines, self.queued = self._lines, OrderedDict(), 0
        for turn in (turn for line in lines.values() for turn in line):
            turn.decide(SHUTTING_DOWN)

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
        turn = Turn(client)
        if self._has_room:
            self._let_in(turn)
        elif self.queued >= self._max_queued and not self._make_room(client):
            raise RefusedError(QUEUE_FULL)
        else:
            self._lines.setdefault(client, deque()).append(turn)
            self.queued += 1
        if client is not None:
            self._of_client[client] += 1
        return turn

    def leave(self, turn: Turn) -> None:
        """Free a slot, also one that was never admitted.

        Args:
            turn: The slot.
        """
        if turn.client is not None:
            self._of_client[turn.client] -= 1
            if not self._of_client[turn.client]:
                del self._of_client[turn.client]
        if turn.is_admitted:
            self.in_progress -= 1
            self._let_next_in()
        elif turn.problem is None:
            self._remove(turn)

    @property
    def _has_room(self) -> bool:
        return self._max_concurrent is None or self.in_progress < self._max_concurrent

    def _let_in(self, turn: Turn) -> None:
        self.in_progress += 1
        turn.decide()

    def _let_next_in(self) -> None:
        while self._lines and self._has_room:
            client, line = self._lines.popitem(last=False)
            self.queued -= 1
            self._let_in(line.popleft())
            if line:
                self._lines[client] = line  # last: the other clients come first

    def _make_room(self, client: str | None) -> bool:
        """Refuse the newest request of the client with the most waiting; return False when none has more."""
        longest = max(self._lines.values(), key=len, default=None)
        if longest is None or len(longest) <= len(self._lines.get(client, ())) + 1:
            return False  # the newcomer would only take the other's share
        turn = longest[-1]
        self._remove(turn)
        turn.decide(QUEUE_FULL)
        return True

    def _remove(self, turn: Turn) -> None:
        line = self._lines[turn.client]
        line.remove(turn)
        self.queued -= 1
        if not line:
            del self._lines[turn.client]
