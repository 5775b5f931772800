"""Hooks by which a run with a journal repeats the order in which its tasks use mailboxes, locks and pools.

What these objects do follows from the order of the operations on them, and that order depends on time. A run
with a journal notes it, and lets later lives repeat it: an operation waits for its turn before it begins.
Actors know nothing of journals. The code that connects them installs a hook, once, when it is imported.
Without a journal each operation looks once whether there is one, in a list.
"""

from collections.abc import Callable
from typing import Protocol

DONE = 0
"""The operation has happened."""

REFUSED = 1
"""The operation failed, because its object was closed for example."""

NOTHING = 2
"""The operation ended without having happened: its time was over, or there was nothing at that moment."""

FIRST_NUMBER = 8
"""The outcome of an operation that ended with the number 0; that of a number is greater by it."""


class TurnEnd(Protocol):
    """The end of a turn."""

    def end(self, outcome: int) -> None:
        """Note the outcome, at the moment at which it is decided. Twice is fine: the first one counts."""
        ...


class Turn(TurnEnd, Protocol):
    """The turn of one operation. Its maker ends it in whatever way it ends, or leaves it."""

    @property
    def recorded(self) -> int | None:
        """The outcome that it had in an earlier life; None where it is new."""
        ...

    @property
    def is_due(self) -> bool:
        """Whether every operation that came before it in an earlier life has ended."""
        ...

    async def wait(self) -> None:
        """Wait until it is due. No checkpoint if it is.

        Raises:
            Exception: It cannot become due: the program has changed.
        """
        ...

    def leave(self) -> None:
        """Note that the operation is over, and was cancelled if it has not ended before."""
        ...

    def call_when_due(self, function: Callable[[], object]) -> None:
        """Call a function when it is due, and end it as done."""
        ...

    def divergence(self, what: str) -> Exception:
        """Return the error for an operation that ends otherwise than in the earlier life.

        Args:
            what: The difference.
        """
        ...


class Orders(Protocol):
    """The orders of the operations of one run."""

    def name(self, kind: str) -> str | None:
        """Return a name for an object that the caller makes; the same in every life, None for none.

        Args:
            kind: The kind of object.
        """
        ...

    def find_claimant(self) -> str | None:
        """Return the name of the caller's task; the same in every life, None for none."""
        ...

    def begin(self, lane: str, claimant: str | None = None) -> Turn | None:
        """Begin an operation.

        Args:
            lane: The name of the operations that have one order.
            claimant: The name of the task; None for that of the caller.

        Returns:
            Its turn; None where the task has no name that is the same in every life.
        """
        ...

    async def wait_free(self, lane: str, claimant: str) -> None:
        """Wait until no operation of an earlier life is expected in a lane any more. No checkpoint if so.

        Args:
            lane: The lane.
            claimant: The name of the caller's task.

        Raises:
            Exception: One does not come: the program has changed.
        """
        ...

    def enter_task(self, name: str) -> None:
        """Give the caller's task a name. Called once, in the task."""
        ...

    def end_task(self, name: str) -> None:
        """Note that the task of a name has ended: it comes to no turn any more."""
        ...


def _find_nothing() -> Orders | None:
    return None


_installed: list[Callable[[], Orders | None]] = [_find_nothing]

FINDERS: list[Callable[[], Orders | None]] = []
"""The installed function, since a run with a journal first began in the process. While this is empty, no
operation looks further. The busiest ones look here themselves, which saves them a call."""


def install_orders(find: Callable[[], Orders | None]) -> None:
    """Install the function that finds the orders of the caller's run, for every event loop of the process."""
    _installed[0] = find


def note_orders() -> None:
    """Note that a run whose orders are kept begins in the process."""
    if not FINDERS:
        FINDERS.append(_installed[0])


def find_orders() -> Orders | None:
    """Return the orders of the caller's run; None without a journal."""
    return FINDERS[0]() if FINDERS else None


def name_object(kind: str, name: str | None = None) -> str:
    """Return the name of an object that the caller makes, for its orders.

    Objects that are made outside of every run have their kind and their name. Those of one kind without a
    name share an order.

    Args:
        kind: The kind of object.
        name: Its name; None for none.
    """
    orders = find_orders()
    made = None if orders is None else orders.name(kind)
    return f"{kind} {name or ''}" if made is None else made


def begin_turn(place: str, operation: str) -> Turn | None:
    """Begin an operation of the caller on an object; None where the order is not kept.

    Args:
        place: The name of the object, for its orders; empty where they are not kept.
        operation: The name of the operation.
    """
    if not FINDERS:
        return None
    orders = FINDERS[0]()
    return None if orders is None or not place else orders.begin(f"{place} {operation}")
