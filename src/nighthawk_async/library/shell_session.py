"""A shell that runs one command after the other, and the processes that it starts.

    this process ── lifeline, commands, output ── shell_keeper ── (bwrap) ── bash ── commands

The keeper ends everything when the lifeline closes, so a session can be ended without waiting, and ends also
when this process is killed.
"""

import codecs
import os
import secrets
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import anyio
import anyio.abc
import anyio.to_thread
from msgspec import Struct

from .errors import ShellError
from .texts import BoundedText

KEEPER_PROGRAM = Path(__file__).with_name("shell_keeper.py")
"""The program that keeps the shell."""

_CLOSE_SECONDS = 8.0
_MOST_BYTES_AT_ONCE = 65_536
_LOCALE_NAMES = ("LANG", "LANGUAGE")
# The shell's own output leads nowhere; that of commands goes to 9, which is the pipe. So a trace of the shell
# (`set -x`) does not show these lines, and `exec >file` in a command applies to this command only.
_FIRST_LINE = b"exec 9>&1 >/dev/null 2>&1\n"


class ShellResult(Struct, frozen=True):
    """The end of a command. As text, the output and a note on how the command ended.

    Args:
        output: Standard output and standard error, as they came. Of a long one, the beginning and the end.
        status: The exit status; 128 and the number of the signal if one ended it; None after a timeout.
        timed_out: Whether the time limit ended it.
        session_ended: Whether the shell has ended, by `exit` or the time limit. The next command begins in
            the folder of the workspace, without the variables of this one.
    """

    output: str
    status: int | None
    timed_out: bool = False
    session_ended: bool = False

    def __str__(self) -> str:
        notes = ["timed out" if self.timed_out else f"exit status {self.status}"]
        notes += ["the session has ended"] if self.session_ended else []
        separator = "" if not self.output or self.output.endswith("\n") else "\n"
        return f"{self.output}{separator}[{'; '.join(notes)}]"


def shell_environment(given: Mapping[str, str], scratch: Path) -> dict[str, str]:
    """The environment variables of a shell: the search path, the language, and those that are given."""
    own = {
        name: value
        for name, value in os.environ.items()
        if name == "PATH" or name in _LOCALE_NAMES or name.startswith("LC_")
    }
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


class ShellSession:
    """A running shell. One command at a time. Made by `open`."""

    def __init__(self, process: anyio.abc.Process, lifeline: Lifeline, scratch: Path) -> None:
        self._process = process
        self._scratch = scratch
        self._carried = b""
        self.lifeline = lifeline
        self.has_ended = False

    @classmethod
    async def open(
        cls, command: Sequence[str], *, root: Path, scratch: Path, environment: Mapping[str, str]
    ) -> "ShellSession":
        """Start a shell. Never cancelled halfway: the result is a session or an error.

        Args:
            command: The command line of the shell.
            root: The folder that it begins in.
            scratch: Its private folder, which is removed at the end.
            environment: Its environment variables.

        Raises:
            ShellError: The system refuses to start a process.
        """
        read_end, write_end = os.pipe()
        lifeline = Lifeline(write_end)
        keeper = [sys.executable, "-I", "-S", str(KEEPER_PROGRAM), str(read_end), str(os.getpid())]
        try:
            with anyio.CancelScope(shield=True):
                process = await anyio.open_process(
                    [*keeper, str(scratch), *command],
                    stderr=subprocess.STDOUT,
                    cwd=root,
                    env=environment,
                    start_new_session=True,
                    pass_fds=(read_end,),
                )
                session = cls(process, lifeline, scratch)
                await session._send(_FIRST_LINE)
                return session
        except BaseException as error:
            lifeline.close()
            shutil.rmtree(scratch, ignore_errors=True)
            if isinstance(error, OSError | ValueError):  # also a NUL in a variable
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
        self._carried = output.rest
        return ShellResult(
            output=output.text(),
            status=status,
            timed_out=limit.cancelled_caught,
            session_ended=self.has_ended,
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
            if self._process.returncode:  # the keeper may have been killed before it removed the folder
                await anyio.to_thread.run_sync(partial(shutil.rmtree, self._scratch, ignore_errors=True))

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
