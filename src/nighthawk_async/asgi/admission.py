"""Admission of requests: running, waiting, refused.

Deciding never waits; only a turn that was not given at once is waited for. Requests are let in in the order
in which they came, or, where it is known which client they are from, one of each client in turn. When the
queue is full, the client with the most that wait gives its newest place up to one with fewer.
"""

from collections import Counter, OrderedDict, deque
from math import inf

import anyio
from anyio.lowlevel import checkpoint_if_cancelled

from ..pickling import PicklableError
from .problems import QUEUE_FULL, SHUTTING_DOWN, TOO_MANY_OF_CLIENT, Problem


class RefusedError(PicklableError):
    """A request is not let in.

    Args:
        problem: The problem that its client is told.
    """

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.title)
        self.problem = problem


class Turn:
    """The place of a request, in progress or waiting. `Admission.ask` gives it."""

    __slots__ = ("_decided", "client", "is_admitted", "problem")

    def __init__(self, client: str | None) -> None:
        self.client = client
        self.is_admitted = False
        self.problem: Problem | None = None
        self._decided: anyio.Event | None = None

    def decide(self, problem: Problem | None = None) -> None:
        """Let it in, or refuse it.

        Args:
            problem: Why it is refused; None when it is not.
        """
        self.problem = problem
        self.is_admitted = problem is None
        if self._decided is not None:
            self._decided.set()

    async def wait(self) -> None:
        """Wait until it is let in.

        Raises:
            RefusedError: It is not.
        """
        if not self.is_admitted and self.problem is None:
            self._decided = anyio.Event()
            await self._decided.wait()
            if self.problem is not None:
                await checkpoint_if_cancelled()  # the end of the request goes before the answer
        if self.problem is not None:
            raise RefusedError(self.problem)


class Admission:
    """Lets requests in.

    Args:
        max_concurrent: The greatest number in progress; None for any number.
        max_queued: The greatest number that waits.
        max_per_client: The greatest number of one client in progress and waiting; None for any number.
    """

    def __init__(self, *, max_concurrent: int | None, max_queued: int, max_per_client: int | None) -> None:
        self._max_concurrent = max_concurrent
        self._max_queued = max_queued
        self._max_per_client = max_per_client
        self._lines: OrderedDict[str | None, deque[Turn]] = OrderedDict()
        self._of_client: Counter[str] = Counter()
        self._is_open = True
        self.in_progress = 0
        """How many are in progress."""
        self.queued = 0
        """How many wait."""

    def open(self) -> None:
        """Let requests in again."""
        self._is_open = True

    def close(self) -> None:
        """Let nobody in any more, and refuse all who wait."""
        self._is_open = False
        lines, self._lines, self.queued = self._lines, OrderedDict(), 0
        for turn in (turn for line in lines.values() for turn in line):
            turn.decide(SHUTTING_DOWN)

    def ask(self, client: str | None) -> Turn:
        """Take a place, in progress or in the queue; `leave` gives it back.

        Args:
            client: The client of the request; None when it is unknown.

        Raises:
            RefusedError: There is none.
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
        """Give a place back, whether it was waited for in vain or not.

        Args:
            turn: The place.
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
                self._lines[client] = line  # at the end: the others come first

    def _make_room(self, client: str | None) -> bool:
        """Refuse the newest of the client with the most that wait; gives whether there was one with more."""
        longest = max(self._lines.values(), key=len, default=None)
        if longest is None or len(longest) <= len(self._lines.get(client, ())) + 1:
            return False  # the one that comes would only have what the other had
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
