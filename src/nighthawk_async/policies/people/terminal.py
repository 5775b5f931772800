"""A handler that asks the person at the terminal of the process.

The shown text may come from a model, so it is printed as plain text: no markup, and no character that could
move the cursor or change the reading direction.
"""

import json
import os
import select
import sys
import threading
from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec
from types import TracebackType
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
from anyio.abc import TaskStatus
from anyio.lowlevel import RunVar, checkpoint_if_cancelled

from ...actors import BareTaskGroup
from ...errors import ConfigurationError, NoHumanError
from ...lazy_exports import LazyModule
from ...types.json import JsonableValue
from ...values.validation import type_name
from .errors import EscalationRefusedError
from .request import ApprovalRequest, Question, typed_answer

if TYPE_CHECKING:
    import rich.console as rich_console
else:
    rich_console = LazyModule("rich.console")  # not needed by programs with handlers of their own

_MAX_BYTES = 4096  # of one read; a terminal gives a line at a time
_SECONDS_BETWEEN_LOOKS = 0.05

_turn_in_process = threading.Lock()
_turns_in_loop: RunVar[anyio.Lock] = RunVar("nighthawk_async_terminal_turns")


def check_terminal() -> int:
    """Return the file descriptor of the terminal on standard input.

    Raises:
        NoHumanError: Standard input is not a terminal, or one of Windows, which is not supported.
    """
    if sys.platform == "win32":
        raise NoHumanError("People are asked at terminals of Linux and macOS; on Windows, give `input=`.")
    try:
        descriptor = sys.stdin.fileno()
    except (AttributeError, ValueError, OSError):  # none at all, closed, or not a system file
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
        show: Shows the question; called in the thread that reads.
        withdraw: Says that the line is no longer needed, after the question was shown.
        typed: Returns the line instead of the terminal. It cannot be interrupted: when its line is no longer
            needed, the line is dropped, and no further question is asked until it comes.

    Returns:
        The line without its end.

    Raises:
        NoHumanError: Standard input is not a terminal, or has ended.
    """
    async with _turns():
        with _Interruption() as interruption:
            read = _read_terminal if typed is None else partial(_read_function, typed)
            line = ""
            async with BareTaskGroup() as task_group:
                await task_group.start(interruption.wait_cancelled)
                line = await anyio.to_thread.run_sync(
                    _read_in_turn,
                    read,
                    show,
                    withdraw,
                    interruption,
                    abandon_on_cancel=typed is not None,
                )
                task_group.cancel_scope.cancel()
    await checkpoint_if_cancelled()  # an interrupted thread returns an invalid line
    return line


def _turns() -> anyio.Lock:
    lock = _turns_in_loop.get(None)
    if lock is None:
        lock = anyio.Lock()
        _turns_in_loop.set(lock)
    return lock


class _Interruption:
    """Interrupts a thread that is no longer needed, even while it waits for the terminal."""

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
    """Read when no other event loop does. The thread itself passes the turn on: its loop may be blocked."""
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
    """Return a line of the terminal; None when the thread was interrupted."""
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


_YES = ("y", "yes")
_NO = ("", "n", "no")
_ALWAYS = "always"


class TerminalHandler:
    """Asks the person at the terminal, one question at a time.

    Questions go to standard error, answers are read from standard input; both must be terminals, otherwise
    there is nobody to ask. An answer whose type is not text is read as pydantic reads texts, or as JSON. An
    action is approved with `y`, and with `always` for equal calls of the run as well; `escalate ROLE` hands
    it on where there are roles; anything else denies it, and is the reason unless it is `n` or empty.

    Args:
        approver: The name of that person as an approver.
        console: The console that shows questions; None for standard error.
        input: Returns a line instead of standard input; for other terminals and for tests.
    """

    def __init__(
        self,
        *,
        approver: str = "terminal",
        console: "rich_console.Console | None" = None,
        input: Callable[[], str] | None = None,
    ) -> None:
        self._approver = approver
        self._given_console = console
        self._input = input
        self._shown: set[str] = set()  # the digests of actions: one that comes again may be approved for good

    async def ask(self, question: Question) -> object:
        """Ask a question.

        Raises:
            NoHumanError: There is no terminal, or its input has ended.
            ConfigurationError: The package rich is not installed, and no console was given.
        """
        line = await self._read(lambda: self._show_question(question))
        return question.default if not line and question.has_default else typed_answer(line, question)

    async def approve(self, request: ApprovalRequest) -> None:
        """Ask for an approval.

        Raises:
            NoHumanError: There is no terminal, its input has ended, or its person cannot give the approval.
            ConfigurationError: The package rich is not installed, and no console was given.
        """
        if request.quorum > 1:
            raise NoHumanError(f"One person at a terminal cannot approve for {request.quorum}.")
        if not self._may_answer(request):
            raise NoHumanError(f"{self._approver!r}, at the terminal, is not among the approvers.")
        refusal: str | None = None
        while request.is_pending and self._may_answer(request):
            answer = (await self._read(partial(self._show_request, request, refusal))).strip()
            refusal = self._take(answer, request)

    def _may_answer(self, request: ApprovalRequest) -> bool:
        return request.approvers is None or self._approver in request.approvers

    def _take(self, answer: str, request: ApprovalRequest) -> str | None:
        """Give an answer to a request; return the reason why it does not count, and None where it does."""
        command, _, role = answer.partition(" ")
        if request.roles and command.lower() == "escalate":
            try:
                request.escalate_to(role.strip(), by=self._approver)
            except EscalationRefusedError as error:
                return str(error)
        elif answer.lower() in (*_YES, _ALWAYS):
            remember = "run" if answer.lower() == _ALWAYS else None
            request.approve(self._approver, digest=request.digest, remember=remember)
        else:
            request.deny(self._approver, "" if answer.lower() in _NO else answer)
        return None

    async def _read(self, show: Callable[[], None]) -> str:
        if self._input is None:
            check_terminal()
            if not self._console.file.isatty():
                raise NoHumanError("Nobody would see a question: standard error is no terminal.")
        return await read_line(
            show=show, withdraw=lambda: self._print(" [no longer needed]"), typed=self._input
        )

    @property
    def _console(self) -> "rich_console.Console":
        if self._given_console is None:
            if find_spec("rich") is None:
                raise ConfigurationError(
                    "TerminalHandler needs the extra 'cli': pip install 'nighthawk-async[cli]'"
                )
            self._given_console = rich_console.Console(stderr=True)
        return self._given_console

    def _show_question(self, question: Question) -> None:
        if question.error is not None:
            self._print(question.error, style="red")
        self._print(question.prompt, style="bold")
        hints = [] if question.schema is str else [type_name(question.schema)]
        if question.has_default:
            hints.append(f"Enter for {question.default!r}")
        self._print(f"({', '.join(hints)}) > " if hints else "> ", end="")

    def _show_request(self, request: ApprovalRequest, refusal: str | None) -> None:
        if refusal is not None:
            self._print(refusal, style="red")
        self._print(_shown_arguments(request.arguments), end="")
        if request.risks:
            self._print(f"risks of the command: {', '.join(request.risks)}")
        action = request.action.replace("\n", "\\n")  # so that no line of it looks like an argument
        self._print(f"Approve {action}?", style="bold")
        handing_on = "".join(f"escalate {role}, " for role in sorted(request.roles) if role != request.role)
        always = f"{_ALWAYS} in this run, " if request.digest in self._shown else ""
        self._shown.add(request.digest)
        self._print(f"(y, {always}{handing_on}n, or why not) > ", end="")

    def _print(self, text: str, *, style: str = "", end: str = "\n") -> None:
        from rich.text import Text

        self._console.print(Text(_visible(text), style=style), end=end, soft_wrap=True)


def _shown_arguments(arguments: Mapping[str, JsonableValue]) -> str:
    """Format each argument in JSON, and also its name when it could be mistaken for more than a name."""
    names = {name: name if name.isidentifier() else _json(name) for name in arguments}
    return "".join(f"{names[name]}: {_json(value)}\n" for name, value in arguments.items())


def _json(value: JsonableValue) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)


def _visible(text: str) -> str:
    """Return the text with every invisible character escaped."""
    return "".join(
        each if each.isprintable() or each == "\n" else each.encode("unicode_escape").decode()
        for each in text
    )
