"""`Grants`: what the program has granted to a call on a worker, by the number of the question.

A question that is cancelled may have been answered already, and its answer may be under way. So the worker
gives its number back, see `ask_for_grant`, and what was or will be granted under that number is returned.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

import anyio

from .services import CallChannel

Grant = TypeVar("Grant")


class Grants(Generic[Grant]):
    """Grants of one placement of a call.

    Args:
        give_back: Takes back a grant that nobody uses.
    """

    def __init__(self, give_back: Callable[[Grant], None]) -> None:
        self._give_back = give_back
        self._grants: dict[int, Grant] = {}
        self._unwanted: set[int] = set()
        self._is_over = False

    def add(self, number: int, grant: Grant) -> None:
        """Add a grant; one that was given back meanwhile is returned at once."""
        if self._is_over or number in self._unwanted:
            self._unwanted.discard(number)
            self._give_back(grant)
        else:
            self._grants[number] = grant

    def find(self, number: int) -> Grant | None:
        """Return a grant; None when it has ended."""
        return self._grants.get(number)

    def take(self, number: int) -> Grant | None:
        """Remove a grant that is used up, and return it; None when it has ended."""
        return self._grants.pop(number, None)

    def return_one(self, number: int) -> None:
        """Give a grant back, now or when it is added."""
        grant = self.take(number)
        if grant is not None:
            self._give_back(grant)
        elif not self._is_over:
            self._unwanted.add(number)

    def end(self) -> list[Grant]:
        """Note the end of the placement, and return the grants that are left."""
        self._is_over = True
        left, self._grants = list(self._grants.values()), {}
        return left


async def ask_for_grant(channel: CallChannel, topic: str, question: bytes, giving_back: bytes) -> bytes:
    """Ask the program for a grant, on a worker, and return its answer.

    Args:
        channel: The channel of the call.
        topic: The service.
        question: The question, with the number of the grant.
        giving_back: The report that gives the grant back, if the caller is cancelled.

    Raises:
        Exception: The error that the program raised.
    """
    try:
        return await channel.ask(topic, question)
    except anyio.get_cancelled_exc_class():
        channel.tell(topic, giving_back)  # it may have been granted already
        raise
