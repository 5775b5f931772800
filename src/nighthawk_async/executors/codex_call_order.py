"""The order of tool calls: that in which the model asked for them. No I/O.

Codex asks for the calls of one response in any order. It announces them in theirs:

    announced(0) announced(1) requested(1) announced(2) requested(0) → begin 0, 1 … requested(2) → begin 2

A call that was not announced comes from a script that the model wrote ("code mode"). It begins when it is
requested, but not while a response that may announce it is incomplete.
"""

from collections import deque
from collections.abc import Iterator
from typing import Generic, TypeVar

Call = TypeVar("Call")


class CallOrder(Generic[Call]):
    """Puts the requested calls of one thread in order. Each method returns the calls that may begin now."""

    def __init__(self) -> None:
        self._expected: deque[str] = deque()
        self._requested: dict[str, deque[Call]] = {}
        self._is_incomplete = True

    @property
    def is_waiting(self) -> bool:
        """Whether a call of a complete response has not been requested yet."""
        return not self._is_incomplete and any(each not in self._requested for each in self._expected)

    @property
    def is_settled(self) -> bool:
        """Whether no call is expected, because the current response is complete and all its calls began."""
        return not (self._is_incomplete or self._expected or self._requested)

    def response_began(self) -> None:
        """Note that a response is incomplete: it may announce calls."""
        self._is_incomplete = True

    def announced(self, call_id: str) -> list[Call]:
        """Note that the model has asked for a call."""
        self._is_incomplete = True
        self._expected.append(call_id)
        return [*self._begin()]

    def requested(self, call_id: str, call: Call) -> list[Call]:
        """Note that Codex has requested a call."""
        self._requested.setdefault(call_id, deque()).append(call)
        return [*self._begin()]

    def answered(self, call_id: str) -> list[Call]:
        """Note that a call has its result: if it never began, Codex refused it without requesting it."""
        if call_id in self._expected and call_id not in self._requested:
            self._expected.remove(call_id)
        return [*self._begin()]

    def response_completed(self) -> list[Call]:
        """Note that the response is complete, so that it announces no further call."""
        self._is_incomplete = False
        return [*self._begin()]

    def give_up(self) -> list[Call]:
        """Expect no more the calls that were announced and not requested: Codex has had time."""
        self._expected = deque(each for each in self._expected if each in self._requested)
        return [*self._begin()]

    def turn_ended(self) -> None:
        """Forget the calls that never began."""
        self._expected.clear()
        self._requested.clear()
        self._is_incomplete = True

    def _begin(self) -> Iterator[Call]:
        while self._expected and self._expected[0] in self._requested:
            yield self._take(self._expected.popleft())
        if not self._is_incomplete:
            for call_id in [each for each in self._requested if each not in self._expected]:
                while call_id in self._requested:
                    yield self._take(call_id)

    def _take(self, call_id: str) -> Call:
        waiting = self._requested[call_id]
        call = waiting.popleft()
        if not waiting:
            del self._requested[call_id]
        return call
