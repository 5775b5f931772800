"""One life of an actor: an instance, and the task that calls its methods message by message."""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

import anyio
from anyio.lowlevel import checkpoint

from .actor_messages import ActorMessage
from .errors import ActorInterruptedError, MailboxClosedError
from .foreign_cancellation import raising_foreign_cancellations
from .mailbox import Mailbox

__all__ = ["ActorFigures", "ActorInstance", "ActorLife"]

_logger = logging.getLogger("nighthawk")


class ActorInstance(Protocol):
    """The instance as one life of an actor uses it.

    Args:
        answers: Exceptions of handlers that go to the asker only.
        stopping_seconds: How many seconds `stopping` may take.
    """

    answers: ClassVar[tuple[type[Exception], ...]]
    stopping_seconds: ClassVar[float]

    def started(self) -> Awaitable[None]:
        """Called before the first message."""
        ...

    def stopping(self) -> Awaitable[None]:
        """Called after the last message."""
        ...


@dataclass(slots=True, kw_only=True)
class ActorFigures:
    """Counts over all lives of an actor."""

    lives: int = 0
    handled: int = 0
    failed: int = 0
    abandoned: int = 0
    refused: int = 0


class ActorLife:
    """One life. It ends when the mailbox is closed and empty, or when it is paused, crashes or is cancelled.

    Args:
        name: What the actor is called.
        mailbox: Its messages; it outlives this life.
        figures: Where to count.
    """

    def __init__(self, name: str, mailbox: Mailbox[ActorMessage], figures: ActorFigures) -> None:
        self._name = name
        self._mailbox = mailbox
        self._figures = figures
        self._limiter = anyio.CapacityLimiter(1)
        self._scope = anyio.CancelScope()
        self._idle: anyio.CancelScope | None = None
        self._is_paused = False
        self._crash: tuple[Exception, ActorMessage] | None = None

    async def wait_told(self, error: Exception) -> bool:
        """Wait until it is clear whether the error with which it crashed has arrived at an asker."""
        if self._crash is None or self._crash[0] is not error:
            return False  # a hook raised it
        return await self._crash[1].wait_told()

    def pause(self) -> None:
        """End after the message in hand."""
        self._is_paused = True
        if self._idle is not None:
            self._idle.cancel()

    def cancel(self) -> None:
        """End now."""
        self._scope.cancel()

    async def run(self, make: Callable[[], ActorInstance]) -> None:
        """Make an instance and live.

        Raises:
            Exception: Whatever a handler raised, unless it is an answer only, or a hook.
        """
        self._figures.lives += 1
        with self._scope:
            instance = make()
            with raising_foreign_cancellations():
                await instance.started()
            try:
                await self._serve(instance)
            finally:
                await self._stop(instance)

    async def _serve(self, instance: ActorInstance) -> None:
        while not self._is_paused:
            message = await self._next()
            if message is None:
                return
            if message.is_abandoned:
                self._figures.abandoned += 1
            else:
                await self._handle(instance, message)

    async def _stop(self, instance: ActorInstance) -> None:
        bound = anyio.move_on_after(instance.stopping_seconds, shield=True)
        with bound, raising_foreign_cancellations():
            await instance.stopping()
        if bound.cancelled_caught:
            _logger.warning("actor %s: `stopping` was cut off after its time", self._name)

    async def _next(self) -> ActorMessage | None:
        """The next message; None when there will be none in this life."""
        try:
            await checkpoint()  # before anything is taken, so that a cancelled life has taken nothing
            return self._mailbox.receive_nowait()
        except anyio.WouldBlock:
            return await self._wait_for_next()
        except MailboxClosedError:
            return None

    async def _wait_for_next(self) -> ActorMessage | None:
        message = None
        if self._is_paused:
            return message
        try:
            with anyio.CancelScope() as self._idle:
                message = await self._mailbox.receive()
        except MailboxClosedError:
            return None
        finally:
            self._idle = None
        return message

    async def _handle(self, instance: ActorInstance, message: ActorMessage) -> None:
        try:
            with raising_foreign_cancellations():
                value = await message.carry_out(instance, self._limiter)
        except Exception as error:
            self._figures.failed += 1
            message.fail(error)
            if not isinstance(error, instance.answers):
                self._crash = (error, message)
                raise
            if not await message.wait_told():
                _logger.warning("actor %s: %s failed, and nobody asked", self._name, message, exc_info=error)
        except BaseException:  # cancelled, or the program is to end
            self._figures.failed += 1
            message.fail(ActorInterruptedError(self._name))
            raise
        else:
            self._figures.handled += 1
            message.resolve(value)
