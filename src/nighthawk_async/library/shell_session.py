"""A shell that runs one command after the other, and the processes that it starts.

    this process ── lifeline, commands, output ── shell_keeper ── (bwrap) ── bash ── commands

The keeper ends everything when the lifeline closes, so a session can be ended without waiting, and ends also
when this process is killed.
"""

import codecs
import json
import os
import secrets
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import anyio
import anyio.abc
import anyio.to_thread
from msgspec import Struct

from ..prompt.plain_text import ShownAsText
from .errors import ShellError
from .shell_repositories import Repositories
from .texts import BoundedText

KEEPER_PROGRAM = Path(__file__).with_name("shell_keeper.py")
"""The program that keeps the shell."""

_CLOSE_SECONDS = 8.0
_MOST_BYTES_AT_ONCE = 65_536
_LOCALE_NAMES = ("LANG", "LANGUAGE")
# The shell's own output leads nowhere; that of commands goes to 9, which is the pipe. So a trace of the shell
# (`set -x`) does not show these lines, and `exec >file` in a command applies to this command only.
_FIRST_LINE = b"exec 9>&1 >/dev/null 2>&1\n"


class ShellResult(ShownAsText, Struct, frozen=True):
    """The end of a command. As text, the output and a note on how the command ended.

    Args:
        output: Standard output and standard error, as they came. Of a long one, the beginning and the end.
        status: The exit status; 128 and the number of the signal if one ended it; None after a timeout.
        timed_out: Whether the time limit ended it.
        session_ended: Whether the shell has ended, by `exit` or the time limit. The next command begins in
            the folder of the workspace, without the variables of this one.
        notes: The Git repositories that were put out of use, because a confined shell has made them.
    """

    output: str
    status: int | None
    timed_out: bool = False
    session_ended: bool = False
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        notes = ["timed out" if self.timed_out else f"exit status {self.status}"]
        notes += ["the session has ended"] if self.session_ended else []
        notes += [f"Git repositories are not made here: {', '.join(self.notes)}"] if self.notes else []
        separator = "" if not self.output or self.output.endswith("\n") else "\n"
        return f"{self.output}{separator}[{'; '.join(notes)}]"


def keeper_environment() -> dict[str, str]:
    """The environment variables of the keeper and of Bubblewrap: nothing that is given for the shell.

    These run outside, and a variable such as `LD_LIBRARY_PATH` may name what a shell has left in the
    workspace (`test_what_a_shell_leaves_is_not_loaded_by_its_keeper`).
    """
    return {name: os.environ[name] for name in ("PATH", *_LOCALE_NAMES) if name in os.environ}


@contextmanager
def environment_file(variables: Mapping[str, str]) -> Generator[int, None, None]:
    """Yield the descriptor of a file with environment variables, as arguments of Bubblewrap, for one reader.

    In a command line, everybody on the machine could read them.

    Raises:
        ShellError: One cannot be a variable.
    """
    content = bytearray()
    for name, value in variables.items():
        if not name or "=" in name or "\0" in name or "\0" in value:
            raise ShellError(f"the shell cannot be started: {name!r} cannot be a variable with its value")
        for each in ("--setenv", name, value):
            content += os.fsencode(each) + b"\0"
    with _unnamed_file() as file:
        file.write(content)
        file.seek(0)
        yield file.fileno()


def _unnamed_file() -> BinaryIO:
    if hasattr(os, "memfd_create"):
        return open(os.memfd_create("nighthawk-environment"), "w+b")
    return tempfile.TemporaryFile()


def shell_environment(given: Mapping[str, str], scratch: Path) -> dict[str, str]:
    """The environment variables of a shell: the search path, the language, and those that are given.

    The folder of this Python comes first in the path, so that `python` and what is installed beside it are
    those of the program (`test_the_python_of_the_program_comes_first`).
    """
    own = {
        name: value
        for name, value in os.environ.items()
        if name == "PATH" or name in _LOCALE_NAMES or name.startswith("LC_")
    }
    if sys.executable:
        own["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), own.get("PATH", os.defpath)])
    private = {"HOME": str(scratch), "TMPDIR": str(scratch / "tmp"), "TERM": "dumb"}
    return {**own, **private, **given}


def shell_program() -> list[str]:
    """The command line of the shell: bash, or the one of the system.

    Raises:
        ShellError: There is none.
    """
    bash = shutil.which("bash")
    if bash is not None:
        return [bash, "--norc", "--noprofile"]
    plain = shutil.which("sh")
    if plain is None:
        raise ShellError("there is no shell: neither bash nor sh is in the search path")
    return [plain]


def make_scratch() -> Path:
    """Make the private folder of a session, which its keeper removes."""
    scratch = Path(tempfile.mkdtemp(prefix="nighthawk-shell-")).resolve()
    (scratch / "tmp").mkdir()
    return scratch


class Lifeline:
    """The end of a pipe whose closing ends a session. It may be closed from any thread, and twice."""

    def __init__(self, descriptor: int) -> None:
        self._descriptors = [descriptor]

    def close(self) -> None:
        """End the session. Its processes end soon."""
        try:
            os.close(self._descriptors.pop())
        except IndexError:  # closed before
            return


class _Guard:
    """Puts the repositories that a confined shell makes out of use: after each command, and at its end.

    The keeper does it at the end, as it lives longer than the shell and this process. It knows the
    repositories by a file, and leaves there what it has done.

    Args:
        repositories: The repositories that were there before; None where others may be made, or cannot be.
        is_confined: Whether the shell is confined.
    """

    def __init__(self, repositories: Repositories | None, *, is_confined: bool) -> None:
        self._repositories = repositories
        self._notes: list[str] = []
        self.descriptor = -1
        if is_confined:
            self.descriptor = os.memfd_create("nighthawk-repositories")
            if repositories is not None:
                os.write(self.descriptor, repositories.to_json().encode())

    @property
    def inherited(self) -> tuple[int, ...]:
        """The descriptors that the keeper reads."""
        return () if self.descriptor < 0 else (self.descriptor,)

    async def check(self) -> None:
        """Put other repositories out of use."""
        if self._repositories is not None:
            self._notes += await anyio.to_thread.run_sync(self._repositories.disable_others)

    async def finish(self) -> None:
        """Take the notes of the keeper, which has ended, or do its work where it could not."""
        left = self._read()
        self.close()
        if left is None:
            await self.check()
        else:
            self._notes += left

    def _read(self) -> list[str] | None:
        """The notes of the keeper; None if it has left none."""
        if self._repositories is None or self.descriptor < 0:
            return []
        os.lseek(self.descriptor, 0, os.SEEK_SET)
        with open(self.descriptor, encoding="utf-8", closefd=False) as file:
            left: dict[str, list[str]] | list[object] = json.load(file)
        return left["done"] if isinstance(left, dict) else None

    def take_notes(self) -> tuple[str, ...]:
        """Return what was done since it was asked the last time."""
        notes, self._notes = tuple(self._notes), []
        return notes

    def close(self) -> None:
        """Close the file; it may be closed twice."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


class ShellSession:
    """A running shell. One command at a time. Made by `open`."""

    def __init__(
        self, process: anyio.abc.Process, lifeline: Lifeline, scratch: Path, guard: "_Guard"
    ) -> None:
        self._process = process
        self._scratch = scratch
        self._guard = guard
        self._carried = b""
        self.lifeline = lifeline
        self.has_ended = False

    @classmethod
    async def open(
        cls,
        command: Sequence[str],
        *,
        root: Path,
        scratch: Path,
        inherited: Sequence[int],
        repositories: Repositories | None = None,
        is_confined: bool = False,
    ) -> "ShellSession":
        """Start a shell. Never cancelled halfway: the result is a session or an error.

        Args:
            command: The command line of the shell.
            root: The folder that it begins in.
            scratch: Its private folder, which is removed at the end.
            repositories: The repositories that a confined shell finds; None if it may make others.
            inherited: The descriptor of the file with the environment variables, and those of others that a
                command which confines the shell reads.
            is_confined: Whether the command confines the shell.

        Raises:
            ShellError: The system refuses to start a process.
        """
        read_end, write_end = os.pipe()
        lifeline, guard = Lifeline(write_end), _Guard(repositories, is_confined=is_confined)
        variables = () if is_confined else ("--environment", str(inherited[0]))
        keeper = [sys.executable, "-I", "-S", str(KEEPER_PROGRAM), str(read_end), str(os.getpid())]
        try:
            with anyio.CancelScope(shield=True):
                process = await anyio.open_process(
                    [*keeper, str(scratch), str(guard.descriptor), *variables, *command],
                    stderr=subprocess.STDOUT,
                    cwd=root,
                    env=keeper_environment(),
                    start_new_session=True,
                    pass_fds=(read_end, *guard.inherited, *inherited),
                )
                session = cls(process, lifeline, scratch, guard)
                await session._send(_FIRST_LINE)
                return session
        except BaseException as error:
            lifeline.close()
            guard.close()
            shutil.rmtree(scratch, ignore_errors=True)
            if isinstance(error, OSError | ValueError):
                raise ShellError(f"the shell cannot be started: {error}") from error
            raise
        finally:
            os.close(read_end)
        raise AssertionError("a shielded scope is never cancelled")

    async def run(self, command: str, *, seconds: float | None, most_characters: int) -> ShellResult:
        """Run a command and wait for its end.

        After a timeout, an error or a cancellation, the session has ended.

        Args:
            command: The command, in the language of the shell.
            seconds: The time limit; None for none.
            most_characters: The most characters of the output.
        """
        output = _Output(most_characters, self._carried)
        self._carried = b""
        status: int | None = None
        try:
            with anyio.move_on_after(seconds) as limit:
                status = await self._run(command, output)
        except BaseException:
            await self.aclose()
            raise
        if limit.cancelled_caught or not output.is_complete:
            await self.aclose()
        else:
            await self._guard.check()
        self._carried = output.rest
        return ShellResult(
            output=output.text(),
            status=status,
            timed_out=limit.cancelled_caught,
            session_ended=self.has_ended,
            notes=self._guard.take_notes(),
        )

    async def aclose(self) -> None:
        """End the shell and all that it has started; shielded from cancellation, for 8 seconds at most."""
        self.has_ended = True
        self.lifeline.close()
        with anyio.CancelScope(shield=True):
            with anyio.move_on_after(_CLOSE_SECONDS):
                await self._process.wait()
            if self._process.returncode is None:
                self._process.kill()
            await self._process.aclose()
            await self._guard.finish()
            if self._process.returncode:  # the keeper may have been killed before it removed the folder
                await anyio.to_thread.run_sync(shutil.rmtree, self._scratch, True)

    async def _run(self, command: str, output: "_Output") -> int:
        nonce = secrets.token_hex(16)
        # In two parts, so that no echo of the line is taken for the marker.
        lines = (
            f"{{ eval {shlex.quote(command)}\n}} </dev/null >&9 2>&9 9>&-\n"
            f"printf '%s%s %d\\n' {nonce[:16]} {nonce[16:]} \"$?\" >&9\n"
        )
        await self._send(lines.encode("utf-8", "surrogateescape"))
        assert self._process.stdout is not None, "the process was opened with a pipe"
        output.expect(nonce.encode())
        while not output.is_complete:
            try:
                output.add(await self._process.stdout.receive(_MOST_BYTES_AT_ONCE))
            except anyio.EndOfStream:
                code = await self._process.wait()
                return code if code >= 0 else 128 - code
        return output.status

    async def _send(self, content: bytes) -> None:
        assert self._process.stdin is not None, "the process was opened with a pipe"
        try:
            await self._process.stdin.send(content)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, ConnectionError):
            return  # it has ended, as the end of its output shows


class _Output:
    """The output of a command as it arrives, up to the line that marks its end.

    Args:
        most_characters: The most characters that are kept.
        begun: Output that arrived before the command began, of processes in the background.
    """

    def __init__(self, most_characters: int, begun: bytes) -> None:
        self._kept = BoundedText(most_characters)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pending = begun
        self._marker = b"\n"
        self.is_complete = False
        self.status = -1
        self.rest = b""

    def expect(self, marker: bytes) -> None:
        """Set the text that marks the end; the status and a line feed follow it."""
        self._marker = marker

    def add(self, data: bytes) -> None:
        """Add what has arrived."""
        self._pending += data
        found = self._pending.find(self._marker)
        if found < 0:
            found = max(0, len(self._pending) - len(self._marker))
        elif (end := self._pending.find(b"\n", found)) >= 0:
            self.status = int(self._pending[found + len(self._marker) : end])
            self.rest = self._pending[end + 1 :]
            self._pending = self._pending[:found]
            self.is_complete = True
        self._keep(found)

    def text(self) -> str:
        """The output, shortened."""
        self._keep(len(self._pending))
        self._kept.add(self._decoder.decode(b"", final=True))
        return str(self._kept)

    def _keep(self, count: int) -> None:
        self._kept.add(self._decoder.decode(self._pending[:count]))
        self._pending = self._pending[count:]
