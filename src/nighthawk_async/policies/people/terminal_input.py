"""Lines that somebody types at the terminal of the process, read for one question at a time.

A thread reads, because reading a terminal blocks; it is woken when nobody waits for the line any more, so
that it takes no line that is meant for the next question. What was typed before a question was shown is
dropped: it cannot be its answer. A process has one terminal, so all event loops take turns.
"""

import os
import select
import sys
import threading
from collections.abc import Callable
from functools import partial
from types import TracebackType

import anyio
import anyio.to_thread
from anyio.abc import TaskStatus
from anyio.lowlevel import RunVar, checkpoint_if_cancelled

from ...actors import BareTaskGroup
from ...errors import NoHumanError

__all__ = ["check_terminal", "read_line"]

_MAX_BYTES = 4096  # of one read; a terminal gives a line at a time
_SECONDS_BETWEEN_LOOKS = 0.05

_turn_in_process = threading.Lock()
_turns_in_loop: RunVar[anyio.Lock] = RunVar("nighthawk_async_terminal_turns")


def check_terminal() -> int:
    """The descriptor of the terminal on standard input.

    Raises:
        NoHumanError: Standard input is no terminal.
    """
    try:
        descriptor = sys.stdin.fileno()
    except (AttributeError, ValueError, OSError):  # none at all, closed, or no file of the system
        descriptor = None
    if descriptor is None or not os.isatty(descriptor):
        raise NoHumanError("Standard input is no terminal.")
    return descriptor


async def read_line(
    *,
    show: Callable[[], None],
    withdraw: Callable[[], None],
    typed: Callable[[], str] | None = None,
) -> str:
    """Show a question when its turn comes, and read the line that answers it.

    Args:
        show: Shows the question; in the thread that reads.
        withdraw: Tells that nobody waits for the line any more, after the question was shown.
        typed: Gives the line instead of the terminal. It cannot be woken: when nobody waits for its line any
            more, the line is dropped, and no further question is asked before.

    Returns:
        The line without its end.

    Raises:
        NoHumanError: Standard input is no terminal, or has ended.
    """
    async with _turns():
        with _Interruption() as interruption:
            read = _read_terminal if typed is None else partial(_read_function, typed)
            line = ""
            async with BareTaskGroup() as task_group:
                await task_group.start(interruption.wait_cancelled)
                line = await anyio.to_thread.run_sync(
                    partial(_read_in_turn, read, show, withdraw, interruption),
                    abandon_on_cancel=typed is not None,
                )
                task_group.cancel_scope.cancel()
    await checkpoint_if_cancelled()  # a thread that was woken gives a line that is none
    return line


def _turns() -> anyio.Lock:
    lock = _turns_in_loop.get(None)
    if lock is None:
        lock = anyio.Lock()
        _turns_in_loop.set(lock)
    return lock


class _Interruption:
    """Tells a thread that nobody waits for it any more, even while it waits for the terminal."""

    def __enter__(self) -> "_Interruption":
        self.is_over = threading.Event()
        self.descriptor, self._wake = os.pipe()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        os.close(self.descriptor)
        os.close(self._wake)

    async def wait_cancelled(self, *, task_status: TaskStatus[None]) -> None:
        """Interrupt the thread when the task is cancelled."""
        task_status.started()
        try:
            await anyio.sleep_forever()
        finally:
            self.is_over.set()
            os.write(self._wake, b".")


_Read = Callable[[Callable[[], None], _Interruption], str | None]


def _read_in_turn(
    read: _Read, show: Callable[[], None], withdraw: Callable[[], None], interruption: _Interruption
) -> str:
    """Read when no other event loop does. The thread itself passes the turn on: its loop may stand still."""
    while not _turn_in_process.acquire(timeout=_SECONDS_BETWEEN_LOOKS):
        if interruption.is_over.is_set():
            return ""
    try:
        if interruption.is_over.is_set():
            return ""
        line = read(show, interruption)
        if line is None:
            withdraw()
        return line or ""
    finally:
        _turn_in_process.release()


def _read_function(typed: Callable[[], str], show: Callable[[], None], interruption: _Interruption) -> str:
    show()
    try:
        return typed()
    except EOFError:
        raise _ended() from None


def _read_terminal(show: Callable[[], None], interruption: _Interruption) -> str | None:
    """A line of the terminal; None when the thread was woken."""
    import termios

    terminal = check_terminal()
    termios.tcflush(terminal, termios.TCIFLUSH)
    show()
    line = b""
    while not line.endswith(b"\n"):
        ready, _, _ = select.select([terminal, interruption.descriptor], [], [])
        if interruption.descriptor in ready:
            return None
        read = os.read(terminal, _MAX_BYTES)
        if not read:
            raise _ended()
        line += read
    return line.decode(sys.stdin.encoding or "utf-8", errors="replace").rstrip("\r\n")


def _ended() -> NoHumanError:
    return NoHumanError("Standard input has ended.")
