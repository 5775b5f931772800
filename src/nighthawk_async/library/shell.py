"""The shells of a workspace: one for each task, which ends with the task."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import anyio

from ..parallel.task_current import find_node
from ..parallel.task_node import TaskNode
from ..runtime.shared_resources import shared_in_run
from .confined_files import PROTECTED
from .errors import ShellError
from .shell_sandbox import Sandbox, confined_command, find_bubblewrap
from .shell_session import ShellResult, ShellSession, make_scratch, shell_environment, shell_program


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shell:
    """The way to start the shells of a workspace.

    Args:
        root: The folder.
        writable: Whether its files may be changed.
        sandbox: Whether Bubblewrap confines the shells.
        network: Whether a confined shell has a network.
        environment: Environment variables, besides the search path and the language.
    """

    root: Path
    writable: bool
    sandbox: Sandbox
    network: bool
    environment: Mapping[str, str]

    async def run(self, command: str, *, seconds: float | None, most_characters: int) -> ShellResult:
        """Run a command in the shell of the caller's task.

        Args:
            command: The command.
            seconds: The time limit; None for none.
            most_characters: The most characters of the output.

        Raises:
            ShellError: The command is refused, or the shell cannot be started.
        """
        if "\0" in command:
            raise ShellError("the command contains a NUL character")
        if seconds is not None and not seconds > 0:
            raise ShellError(f"the time limit of a command is a positive number of seconds, not {seconds!r}")
        async with shared_in_run("shell sessions", _open_sessions) as sessions:
            return await sessions.run(self, command, seconds, most_characters)

    async def open(self) -> ShellSession:
        """Start a shell.

        Raises:
            ShellError: It cannot be started, or not as it should be.
        """
        bubblewrap = await find_bubblewrap(self.sandbox)
        if bubblewrap is None and not self.writable:
            raise ShellError(
                "the workspace is read-only, and its shell could change files, because nothing confines it: "
                "use Workspace(…, sandbox='required') where Bubblewrap (bwrap) works, or writable=True"
            )
        command = shell_program()
        scratch = make_scratch()
        if bubblewrap is not None:
            command = confined_command(
                bubblewrap,
                command,
                root=self.root,
                scratch=scratch,
                writable=self.writable,
                network=self.network,
                protected=_protected_in(self.root),
            )
        return await ShellSession.open(
            command,
            root=self.root,
            scratch=scratch,
            environment=shell_environment(self.environment, scratch),
        )


def _protected_in(root: Path) -> list[Path]:
    path = root / PROTECTED
    return [path] if path.exists() and not path.is_symlink() else []


@dataclass(slots=True, eq=False)
class _Slot:
    """The place of a session: a new one takes it when the old one has ended."""

    lock: anyio.Lock = field(default_factory=anyio.Lock)
    session: ShellSession | None = None
    is_closed: bool = False

    def close(self) -> None:
        """End the session without waiting."""
        self.is_closed = True
        if self.session is not None:
            self.session.lifeline.close()


class _Sessions:
    """The sessions of one run on one event loop."""

    def __init__(self) -> None:
        self._slots: dict[tuple[Shell, TaskNode], _Slot] = {}

    async def run(
        self, shell: Shell, command: str, seconds: float | None, most_characters: int
    ) -> ShellResult:
        await self._collect()
        slot = self._slot(shell, find_node())
        async with slot.lock:
            session = slot.session
            if session is None or session.has_ended:
                session = slot.session = await shell.open()
                if slot.is_closed:  # meanwhile
                    session.lifeline.close()
            return await session.run(command, seconds=seconds, most_characters=most_characters)

    async def aclose(self) -> None:
        """End all sessions: all at once, then wait for each."""
        for (_, node), slot in self._slots.items():
            with suppress(ValueError):
                node.enders.remove(slot.close)
            slot.close()
        await self._collect()

    def _slot(self, shell: Shell, node: TaskNode) -> _Slot:
        slot = self._slots.get((shell, node))
        if slot is None:
            slot = self._slots[shell, node] = _Slot()
            node.enders.append(slot.close)
        return slot

    async def _collect(self) -> None:
        """Forget the sessions of tasks that have ended, once their processes have."""
        for key, slot in tuple(self._slots.items()):
            if slot.is_closed and self._slots.pop(key, None) is not None and slot.session is not None:
                await slot.session.aclose()


@asynccontextmanager
async def _open_sessions() -> AsyncGenerator[_Sessions]:
    sessions = _Sessions()
    try:
        yield sessions
    finally:
        await sessions.aclose()
