"""The shells of a workspace: one for each task, which ends with the task."""

import os
import shutil
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread

from ..kernel.environment import find_task_keeper
from ..parallel.resources import use_resource
from ..sealed_attributes import Sealed, SealedState
from .errors import ShellError
from .git_settings import files_of_settings
from .sensitive import masks_below
from .shell_repositories import Repositories
from .shell_sandbox import (
    Sandbox,
    confined_command,
    filtered_system_calls,
    find_bubblewrap,
    hidden_below,
    program_folders,
)
from .shell_session import (
    ShellResult,
    ShellSession,
    environment_file,
    make_scratch,
    shell_environment,
    shell_program,
)


class Shell(SealedState):
    """The way to start the shells of a workspace.

    Args:
        root: The folder.
        writable: Whether its files may be changed.
        sandbox: Whether Bubblewrap confines the shells.
        network: Whether a confined shell has a network.
        readable: Folders and files that a confined shell can read, besides the system and the programs.
        environment: Environment variables, besides the search path and the language.
        sensitive: Whether a confined shell sees files that usually hold keys and passwords.
    """

    root = Sealed[Path]()
    writable = Sealed[bool]()
    sandbox: Sealed[Sandbox] = Sealed()
    network = Sealed[bool]()
    readable = Sealed[Sequence[Path]]()
    environment = Sealed[Mapping[str, str]]()
    sensitive = Sealed[bool]()

    def __init__(
        self,
        *,
        root: Path,
        writable: bool,
        sandbox: Sandbox,
        network: bool,
        readable: Sequence[Path],
        environment: Mapping[str, str],
        sensitive: bool = False,
    ) -> None:
        self.root, self.writable, self.sandbox, self.network = root, writable, sandbox, network
        self.readable, self.environment, self.sensitive = tuple(readable), dict(environment), sensitive

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
        keeper = find_task_keeper()
        if keeper is None:
            async with _Sessions(self) as own:
                return await own.run(command, seconds, most_characters)
        sessions: _Sessions = await use_resource(keeper, self, "shell", partial(_Sessions, self))
        return await sessions.run(command, seconds, most_characters)

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
        if bubblewrap is None:
            scratch = make_scratch()
            with self._environment(scratch) as variables:
                return await self._start(shell_program(), scratch, (variables,), is_confined=False)
        return await self._open_confined(bubblewrap)

    async def _open_confined(self, bubblewrap: str) -> ShellSession:
        program, root = shell_program(), str(self.root)
        repositories = None
        hidden = hidden_below(self.root)
        if self.writable:
            repositories = await anyio.to_thread.run_sync(_find_repositories, root, hidden)
        scratch = make_scratch()
        with filtered_system_calls() as filter_descriptor, self._environment(scratch) as variables:
            masks: Sequence[tuple[str, str]] = ()
            if not self.sensitive:
                masks = await anyio.to_thread.run_sync(masks_below, root, scratch, hidden)
            command = confined_command(
                bubblewrap,
                program,
                root=self.root,
                scratch=scratch,
                writable=self.writable,
                network=self.network,
                readable=[*program_folders(), *self.readable],
                protected=() if repositories is None else repositories.paths,
                masks=masks,
                is_root=os.geteuid() == 0,
                filter_descriptor=filter_descriptor,
                environment_descriptor=variables,
            )
            return await self._start(command, scratch, (variables, filter_descriptor), repositories)
        raise AssertionError("the session was returned")

    @contextmanager
    def _environment(self, scratch: Path) -> Generator[int, None, None]:
        """Yield the descriptor of a file with the variables; if one is refused, no scratch folder is left."""
        try:
            with environment_file(shell_environment(self.environment, scratch)) as descriptor:
                yield descriptor
        except BaseException:
            shutil.rmtree(scratch, ignore_errors=True)
            raise

    async def _start(
        self,
        command: Sequence[str],
        scratch: Path,
        inherited: Sequence[int],
        repositories: Repositories | None = None,
        *,
        is_confined: bool = True,
    ) -> ShellSession:
        return await ShellSession.open(
            command,
            root=self.root,
            scratch=scratch,
            repositories=repositories,
            inherited=inherited,
            is_confined=is_confined,
        )


def _find_repositories(root: str, hidden: Iterable[str]) -> Repositories:
    """The repositories below a folder, and the files that their settings name."""
    found = Repositories.find(root, hidden)
    paths = [os.path.join(root, each.path).rstrip("/") for each in found.known]
    found.add_named(files_of_settings(root, paths))
    return found


@dataclass(slots=True, eq=False)
class _Sessions:
    """The sessions of one task: a new one is started when the last one has ended.

    Args:
        shell: The way to start them.
    """

    shell: Shell
    lock: anyio.Lock = field(default_factory=anyio.Lock)
    session: ShellSession | None = None
    is_closed: bool = False

    async def run(self, command: str, seconds: float | None, most_characters: int) -> ShellResult:
        async with self.lock:
            if self.session is None or self.session.has_ended:
                self.session = await self.shell.open()
            if self.is_closed:  # by its task, which did not wait for the caller
                await self.session.aclose()
                raise ShellError("the task of this shell has ended")
            return await self.session.run(command, seconds=seconds, most_characters=most_characters)

    async def __aenter__(self) -> "_Sessions":
        return self

    async def __aexit__(self, *exc_details: object) -> None:
        self.is_closed = True
        if self.session is not None:
            await self.session.aclose()
