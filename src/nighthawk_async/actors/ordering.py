"""Waiting for operations on mailboxes, locks and pools, and the order in which a run repeats them.

`wait_for_first` waits for the first of several operations: exactly one happens, and a cancelled wait undoes
itself.

What these objects do follows from the order of the operations on them, and that order depends on time. A run
with a journal notes it, and lets later lives repeat it: an operation waits for its turn before it begins.
Actors know nothing of journals. The code that connects them installs a hook, once, when it is imported.
Without a journal each operation looks once whether there is one, in a list.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar, cast

import anyio
from anyio.lowlevel import checkpoint, checkpoint_if_cancelled

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


class Waiter:
    """A waiting task. It is woken for one of the operations it waits for."""

    __slots__ = ("_is_woken", "_woken_for")

    def __init__(self) -> None:
        self._is_woken = anyio.Event()
        self._woken_for: Wait | None = None

    def wake(self, wait: "Wait") -> bool:
        """Wake the task for an operation; return False when it was already woken for another."""
        if self._woken_for is not None:
            return False
        self._woken_for = wait
        self._is_woken.set()
        return True

    async def wait(self) -> "Wait":
        """Wait until woken; return the wait that woke it."""
        try:
            await self._is_woken.wait()
        except BaseException:  # cancelled, maybe after it was woken
            if self._woken_for is not None:
                self._woken_for.pass_on()
            raise
        return cast("Wait", self._woken_for)

    def wait_again(self) -> None:
        """Get ready to be woken again."""
        self._is_woken = anyio.Event()
        self._woken_for = None


class Wait(ABC):
    """An operation that a task waits for. Every method is synchronous: it decides, and never waits itself.

    Attributes:
        is_refused: Whether it will never happen. A task notified of that has still waited for it.
        turn: Its turn, which ends when it happens; None where the order is not kept.
    """

    __slots__ = ("is_refused", "turn")

    is_refused: bool
    turn: TurnEnd | None

    @abstractmethod
    def begin_turn(self) -> Turn | None:
        """Begin the turn of the caller; None where the order is not kept."""

    @abstractmethod
    def poll(self) -> bool:
        """Do it now if no other task waits before; return whether it was done."""

    @abstractmethod
    def enter(self, waiter: Waiter, *, is_again: bool) -> None:
        """Join the queue, at the end at first; a task that was woken for nothing keeps its position."""

    @abstractmethod
    def leave(self) -> None:
        """Leave the queue."""

    @abstractmethod
    def settle(self) -> bool:
        """Do it, when the task was woken for this; return False when there is nothing left to do."""

    @abstractmethod
    def pass_on(self) -> None:
        """Undo it and leave it to the next task, when the task was woken for this and then cancelled."""


AnyWait = TypeVar("AnyWait", bound=Wait)


async def wait_for_first(waits: Sequence[AnyWait]) -> AnyWait:
    """Wait until one of several operations is done; the others are not, and none is if this is cancelled.

    Args:
        waits: The operations. If several can be done at once, the first one is.

    Returns:
        The wait whose operation was done.
    """
    done = _poll(waits)
    if done is not None:
        return done
    waiter = Waiter()
    is_again = False
    try:
        while True:
            for wait in waits:
                wait.enter(waiter, is_again=is_again)
            done = _settle(waits, await waiter.wait())
            if done is not None:
                if done.is_refused:  # the cancellation of the other side may have cancelled the caller, too
                    await checkpoint_if_cancelled()
                return done
            waiter.wait_again()
            is_again = True
    finally:
        for wait in waits:
            wait.leave()


async def wait_in_turn(wait: Wait, turn: Turn | None) -> None:
    """Wait until an operation is done, or refused, in its turn.

    Args:
        wait: The operation.
        turn: Its turn; None where the order is not kept.
    """
    if turn is None:
        await wait_for_first((wait,))
        return
    try:
        await turn.wait()
        if turn.recorded == REFUSED:
            await checkpoint()
            wait.is_refused = True
        else:
            wait.turn = turn
            await wait_for_first((wait,))
        if wait.is_refused:
            if turn.recorded == DONE:
                raise turn.divergence("it is closed now")
            turn.end(REFUSED)
    finally:
        turn.leave()


def _settle(waits: Sequence[AnyWait], woken_for: Wait) -> AnyWait | None:
    for wait in waits:
        if wait is woken_for and wait.settle():
            return wait
    return _poll(waits)  # operations that became possible meanwhile woke no task


def _poll(waits: Sequence[AnyWait]) -> AnyWait | None:
    for wait in waits:
        if wait.poll():
            return wait
    return None
