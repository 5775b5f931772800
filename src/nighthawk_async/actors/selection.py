"""Waits for several mailboxes and channels at once; exactly one arm fires."""

from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Generic, TypeAlias, TypeVar

import anyio
from anyio.lowlevel import checkpoint

from .errors import check_seconds
from .mailbox import MessageQueue, ReceiveWait, Receiving, Sending, SendWait
from .ordering import DONE, FIRST_NUMBER, NOTHING, Orders, Turn, find_orders, wait_for_first, wait_in_turn

Message_co = TypeVar("Message_co", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Received(Generic[Message_co]):
    """A message was received.

    Args:
        index: The index of the arm that fired, from 0.
        source: The queue that the message came from.
        message: The message.
    """

    index: int
    source: MessageQueue[Message_co]
    message: Message_co


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A message was sent.

    Args:
        index: The index of the arm that fired, from 0.
        source: The queue that the message went to.
    """

    index: int
    source: MessageQueue[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceClosed:
    """An arm cannot fire any more: nothing is left to receive, or nothing can be sent.

    Args:
        index: The index of the arm, from 0.
        source: The closed queue.
    """

    index: int
    source: MessageQueue[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedOut:
    """No arm fired before the timeout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NothingReady:
    """No arm could fire at once, and the caller chose not to wait."""


Fired: TypeAlias = Received[Message_co] | Sent | SourceClosed | TimedOut | NothingReady
"""The result of a select."""

Arm: TypeAlias = Receiving[Message_co] | Sending


class Select(Generic[Message_co]):
    """Several arms, of which one fires each time this is entered. Made by `select`."""

    def __init__(self, arms: tuple[Arm[Message_co], ...], *, timeout: float | None, default: bool) -> None:
        self._arms = arms
        self._timeout = timeout
        self._default = default

    async def __aenter__(self) -> Fired[Message_co]:
        await checkpoint()
        waits = [arm.wait() for arm in self._arms]
        orders = find_orders()
        claimant = None if orders is None else orders.find_claimant()
        if orders is not None and claimant is not None:
            return await self._select_in_turn(orders, claimant, waits)
        return await self._select(waits)

    async def _select_in_turn(
        self, orders: Orders, claimant: str, waits: "Sequence[_AnyWait]"
    ) -> Fired[Message_co]:
        """Let the arm fire that fired in an earlier life of the run; keep the one that fires in the first."""
        turn = orders.begin(f"select {claimant}", claimant)
        assert turn is not None, "the claimant is known"
        try:
            await turn.wait()  # a select that an earlier life cancelled is cancelled again
            recorded = turn.recorded
            if recorded is not None and recorded >= FIRST_NUMBER:
                if recorded - FIRST_NUMBER >= len(waits):
                    raise turn.divergence("the arm that fired is not there")
                wait = waits[recorded - FIRST_NUMBER]
                await wait_in_turn(wait, wait.begin_turn())
                turn.end(recorded)
                return self._fired(waits, wait)
            if recorded == NOTHING:
                turn.end(NOTHING)
                return NothingReady() if self._default else TimedOut()
            for index, wait in enumerate(waits):
                if wait.lane is not None:
                    await orders.wait_free(wait.lane, claimant)
                wait.turn = _ArmEnd(orders, claimant, wait.lane, turn, FIRST_NUMBER + index)
            fired = await self._select(waits)
            if not isinstance(fired, Received | Sent | SourceClosed):
                turn.end(NOTHING)
            elif isinstance(fired, SourceClosed):
                turn.end(FIRST_NUMBER + fired.index)
            return fired
        finally:
            turn.leave()

    async def _select(self, waits: "Sequence[_AnyWait]") -> Fired[Message_co]:
        if self._default:
            return self._poll(waits) or NothingReady()
        with anyio.move_on_after(self._timeout):
            return self._fired(waits, await wait_for_first(waits))
        # A message that is there when the timeout expires is still taken.
        return self._poll(waits) or TimedOut()

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Nothing is held."""

    def _poll(self, waits: "Sequence[_AnyWait]") -> Fired[Message_co] | None:
        return next((self._fired(waits, wait) for wait in waits if wait.poll()), None)

    def _fired(self, waits: "Sequence[_AnyWait]", wait: "_AnyWait") -> Fired[Message_co]:
        index = waits.index(wait)
        arm = self._arms[index]
        if wait.is_refused:
            return SourceClosed(index=index, source=arm.source)
        if isinstance(wait, SendWait):
            return Sent(index=index, source=arm.source)
        return Received(index=index, source=arm.source, message=wait.message)


class _ArmEnd:
    """The end of the turn of an arm, which decides the select.

    Args:
        orders: The orders.
        claimant: The task of the select.
        lane: The operations of the arm that have one order; None for none.
        turn: The turn of the select.
        outcome: The outcome of the select.
    """

    def __init__(self, orders: Orders, claimant: str, lane: str | None, turn: Turn, outcome: int) -> None:
        self._orders = orders
        self._claimant = claimant
        self._lane = lane
        self._turn = turn
        self._outcome = outcome

    def end(self, outcome: int) -> None:
        """Note that the arm has fired."""
        arm = None if self._lane is None else self._orders.begin(self._lane, self._claimant)
        if arm is not None:
            arm.end(DONE)
        self._turn.end(self._outcome)


_AnyWait: TypeAlias = ReceiveWait[Any] | SendWait[Any]


def select(*arms: Arm[Message_co], timeout: float | None = None, default: bool = False) -> Select[Message_co]:
    """Wait until one of several messages can be received or sent, and do that; the others are not touched.

    Enter it with `async with`, which waits and returns what fired. A cancelled wait receives and sends
    nothing (`MessageQueue.send` documents the one exception).
    If several arms can fire at once, the first listed does, so list the most important one first (a stop
    before work): an arm that can always fire keeps those after it from firing. A select that has to wait
    fires the arm that becomes ready first, wherever it is listed.

        async with select(stop.receiving(), inbox.receiving(), timeout=5) as fired:
            match fired:
                case Received(index=1, message=message):
                    ...
                case TimedOut():
                    ...

    A closed mailbox or channel fires its arm as `SourceClosed`, once all messages were received; leave that
    arm out of the next select.

    Args:
        arms: The possible operations: `receiving()` and `sending(message)` of mailboxes and channels.
        timeout: The number of seconds after which it returns `TimedOut`; None to wait for ever.
        default: Whether to return `NothingReady` instead of waiting. Sending through a channel always has to
            wait for its receiver, so such an arm does not fire.

    Returns:
        An asynchronous context manager that may be entered again for another select over the same arms.

    Raises:
        ValueError: There are no arms and nothing else ends the wait, a timeout as well as a default, a
            timeout that is not a number of at least 0, or a queue both to receive from and to send to.
    """
    if not arms and timeout is None and not default:
        raise ValueError("select without arms waits for ever: give it an arm, a timeout or default=True")
    if timeout is not None and default:
        raise ValueError("select has a timeout or a default, not both")
    check_seconds("timeout", timeout, or_none=True)
    received = {arm.source for arm in arms if isinstance(arm, Receiving)}
    if any(isinstance(arm, Sending) and arm.source in received for arm in arms):
        raise ValueError("select cannot receive from what it sends to")
    return Select(arms, timeout=timeout, default=default)
