"""An actor across all its lives: the mailbox stays, instances come and go.

A life is one instance and the task that owns it. An unsupervised actor has one life; a supervisor may give it
another after a crash. Messages in the mailbox are kept in between; a message that is being handled when a
life ends is lost, and its asker gets an error.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, TypeAlias

import anyio
from anyio.lowlevel import checkpoint, checkpoint_if_cancelled

from .actor_life import ActorFigures, ActorInstance, ActorLife, ActorMessage, Ask
from .errors import ActorEndedError
from .mailbox import Mailbox, QueueStatistics, SendWait, in_order_of
from .nodes import LivesNode
from .ordering import Turn, name_object, wait_in_turn
from .wait_graph import Holder, begin_wait


class _ActorHolder(Holder):
    """An actor as a node of the wait graph: it waits for others, and others wait for its handler to return.

    Args:
        name: The name of the actor.
    """

    __slots__ = ("_name",)

    kind = "actors"
    has_tasks = False
    checks_limited = True

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    @property
    def label(self) -> str:
        """The name of the actor."""
        return self._name

    @contextmanager
    def owned(self) -> Generator[None, None, None]:
        """Mark the current task as the owner of the actor."""
        token = self.enter()
        try:
            yield
        finally:
            self.leave(token)

    @contextmanager
    def awaited(self, is_over: Callable[[], bool]) -> Generator[None, None, None]:
        """Register that the caller waits for something the actor can do only after its handler has returned.

        Args:
            is_over: Whether the wait is over; see `Wait`.

        Raises:
            ActorDeadlockError: It would wait for ever.
        """
        wait = begin_wait(self, is_over=is_over)
        try:
            yield
        finally:
            if wait is not None:
                wait.end()


ActorStatus: TypeAlias = Literal["waiting", "running", "ended"]
"""`waiting`: between two lives, or before the first; messages wait in the mailbox."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorStatistics:
    """Statistics of an actor at one moment.

    Args:
        lives: The number of instances so far.
        handled: Messages whose handler returned.
        failed: Messages whose handler raised or was interrupted.
        abandoned: Messages never handled because their asker was cancelled before.
        refused: Messages that were waiting when the actor ended.
        mailbox: Statistics of the mailbox.
    """

    lives: int
    handled: int
    failed: int
    abandoned: int
    refused: int
    mailbox: QueueStatistics


class ActorCore:
    """The state of one actor. Not for several threads.

    Args:
        make: Makes an instance, one for each life.
        name: The name of the actor.
        capacity: The greatest number of waiting messages; None for no limit.
    """

    def __init__(
        self, make: "Callable[[ActorCore], ActorInstance]", *, name: str, capacity: int | None
    ) -> None:
        self.name = name
        self._make = make
        self._place = name_object("actor", name)
        mailbox = Mailbox[ActorMessage](capacity=capacity, name=name)
        self._mailbox = in_order_of(mailbox, self._place, has_one_receiver=True)
        self._figures = ActorFigures()
        self._life = self._new_life()
        self._is_living = False
        self._has_ended = anyio.Event()
        self._cause: Exception | None = None
        self._waits = _ActorHolder(name)
        self._node = LivesNode("actor", name, self.stop_now)
        self.when_closed: Callable[[], object] | None = None  # called when it is closed between two lives

    @property
    def status(self) -> ActorStatus:
        """The state of the actor."""
        if self._has_ended.is_set():
            return "ended"
        return "running" if self._is_living else "waiting"

    @property
    def is_finished(self) -> bool:
        """Whether it takes no more messages and has none to handle."""
        return self._mailbox.is_closed and not self._mailbox.statistics().depth

    def statistics(self) -> ActorStatistics:
        """Return the current statistics."""
        return ActorStatistics(
            lives=self._figures.lives,
            handled=self._figures.handled,
            failed=self._figures.failed,
            abandoned=self._figures.abandoned,
            refused=self._figures.refused,
            mailbox=self._mailbox.statistics(),
        )

    # ---- for senders

    async def ask(self, message: Ask) -> object:
        """Send a message and wait for the reply."""
        await checkpoint_if_cancelled()  # the end of the actor may have cancelled the caller, too
        self._check_open()
        sending = self._mailbox.sending(message).wait()
        turn = sending.begin_turn()
        try:
            with self._waits.awaited(lambda: message.is_answered() or sending.is_refused):
                await checkpoint()  # before anything is sent, as in `tell`
                await self._send(sending, turn)
                return await message.wait()
        finally:
            message.leave()

    async def tell(self, message: ActorMessage) -> None:
        """Wait for room in the mailbox and send a message."""
        await checkpoint()  # before anything is sent, so that a cancelled wait has sent nothing
        sending = self._mailbox.sending(message).wait()
        turn = sending.begin_turn()
        if turn is not None or not sending.poll():  # nothing else runs between this and the waiting
            with self._waits.awaited(sending.is_over):
                await self._send(sending, turn)
        elif sending.is_refused:
            raise self._ended_error() from self._cause

    def tell_nowait(self, message: ActorMessage) -> None:
        """Send a message if there is room."""
        self._check_open()
        self._mailbox.send_nowait(message)

    def close(self) -> None:
        """Take no more messages; end when those already sent are handled."""
        self._mailbox.close()
        if self.when_closed is not None and not self._is_living:
            self.when_closed()

    def stop_now(self) -> None:
        """End now, even if messages are waiting or being handled."""
        if self._is_living:
            self._mailbox.close()
            self._refuse_waiting()
            self._life.cancel()
        else:
            self.end(None)
            self.close()

    async def stop(self) -> None:
        """Close it, and wait until it has ended."""
        with self._waits.awaited(self._has_ended.is_set):
            self.close()
            await self._has_ended.wait()

    async def wait_ended(self) -> None:
        """Wait until it has ended."""
        with self._waits.awaited(self._has_ended.is_set):
            await self._has_ended.wait()

    # ---- for the owner

    async def live(self) -> None:
        """One life: make an instance and handle messages until the mailbox is closed and empty, or paused.

        Raises:
            Exception: Any exception raised by a hook, or by a handler unless it is in `answers`.
        """
        if self._has_ended.is_set():
            return
        try:
            with self._waits.owned(), self._node.life():
                self._is_living = True
                await self._life.run(lambda: self._make(self))
        finally:
            self._is_living = False

    def renew(self) -> None:
        """Prepare another life after the last one."""
        self._life = self._new_life()

    def pause(self) -> None:
        """End this life after the current message. The mailbox stays open for the next life."""
        self._life.pause()

    async def wait_delivered(self, error: Exception) -> bool:
        """Wait until it is known whether the error that ended this life has reached an asker."""
        return await self._life.wait_delivered(error)

    def end(self, cause: Exception | None) -> None:
        """End permanently and refuse the waiting messages. Calling it again has no effect.

        Args:
            cause: The cause of the end; None when there is none to report.
        """
        if self._has_ended.is_set():
            return
        self._cause = cause
        self._mailbox.close()
        self._refuse_waiting()
        self._has_ended.set()
        self._node.end()

    def _refuse_waiting(self) -> None:
        for message in self._mailbox.drain():
            self._figures.refused += 1
            error = self._ended_error()
            error.__cause__ = self._cause
            message.fail(error)

    async def _send(self, sending: SendWait[ActorMessage], turn: Turn | None) -> None:
        await wait_in_turn(sending, turn)
        if sending.is_refused:
            raise self._ended_error() from self._cause

    def _new_life(self) -> ActorLife:
        return ActorLife(self.name, self._mailbox, self._figures, self._place)

    def _check_open(self) -> None:
        if self._mailbox.is_closed:
            raise self._ended_error() from self._cause

    def _ended_error(self) -> ActorEndedError:
        return ActorEndedError(self.name)
