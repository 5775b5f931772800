"""The commands of a page whose reader makes files and runs them."""

import os
import pty
import re
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.warm_python import WarmPopen, run_warm

__all__ = ["PORT_VARIABLE", "Commands"]

PORT_VARIABLE = "PORT_OF_THE_PAGE"
"""The environment variable with the port that a fixture chose for the server of a page."""

PATIENCE_SECONDS = 120.0

_AS_PYTHON = {"python": (), "pytest": ("-m", "pytest"), "nighthawk-async": ("-m", "nighthawk_async")}
"""Programs of pages as arguments of this Python, which can then start warm."""


class Commands:
    """Writes files and runs commands as a reader would, in the current directory.

    Port 8000, the one on pages, is replaced with that of
    `PORT_VARIABLE`. As a context manager it ends its servers.
    """

    def __init__(self) -> None:
        self._servers = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._servers.close()

    def write(self, name: str, text: str) -> None:
        """Write a file, and make its folders."""
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(_with_port(text), encoding="utf-8")

    def run(self, lines: str, *, typed: Sequence[str] | None = None) -> str:
        """Run commands one after the other.

        Args:
            lines: The commands.
            typed: The answers of the person at the terminal; None without a terminal.

        Returns:
            What they wrote to standard output; what the terminal showed, if there is one.
        """
        return "".join(
            _output_of(command) if typed is None else _dialogue_of(command, typed)
            for command in _parsed(lines)
        )

    def serve(self, line: str) -> None:
        """Start a server, and wait until it accepts connections."""
        [command] = _parsed(line)
        server = WarmPopen(command, env=_environment(), stdout=subprocess.DEVNULL)
        self._servers.callback(_end, server)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not _accepts(int(os.environ[PORT_VARIABLE])):
            assert server.poll() is None, f"{line!r} has ended"
            assert time.monotonic() < deadline, f"{line!r} accepts no connections"
            time.sleep(0.02)


def _with_port(text: str) -> str:
    port = os.environ.get(PORT_VARIABLE, "8000")
    return re.sub(r"(--port |127\.0\.0\.1:)8000\b", rf"\g<1>{port}", text)


def _parsed(lines: str) -> list[list[str]]:
    return [_found(shlex.split(line)) for line in _with_port(lines).splitlines() if line.strip()]


def _found(command: list[str]) -> list[str]:
    """The command as one of this Python's modules or scripts; git as it is."""
    program, *arguments = command
    if program == "git":
        return command
    return [sys.executable, *_AS_PYTHON[program], *arguments]


def _environment() -> Mapping[str, str]:
    """This process's variables, without what would colour outputs, and without what concerns these tests."""
    plain = {"NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "80"}
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("FORCE_COLOR", "PYTEST_"))
    }
    return kept | plain


def _output_of(command: list[str]) -> str:
    done = run_warm(command, folder=Path.cwd(), variables=_environment())
    assert done.returncode == 0, f"{shlex.join(command)}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def _dialogue_of(command: list[str], typed: Sequence[str]) -> str:
    """What a terminal shows; each prompt that waits at the end of it gets the next answer."""
    answers = list(typed)
    shown = b""
    ours, theirs = pty.openpty()
    process = WarmPopen(command, env=_environment(), stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    with os.fdopen(ours, "rb+", buffering=0) as terminal, process:
        while piece := _read(terminal.fileno()):
            shown += piece
            if shown.endswith(b"> ") and answers:
                terminal.write(answers.pop(0).encode() + b"\n")
    text = shown.decode().replace("\r\n", "\n")
    assert process.returncode == 0, f"{shlex.join(command)}: {process.returncode}\n{text}"
    assert not answers, f"{shlex.join(command)} asked too little:\n{text}"
    return "\n".join(line.rpartition("\r")[2] for line in text.split("\n"))


def _read(terminal: int) -> bytes:
    """The next bytes; none when the last program at the terminal has ended."""
    try:
        return os.read(terminal, 65_536)
    except OSError:
        return b""


def _accepts(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def _end(server: subprocess.Popen[bytes]) -> None:
    server.terminate()
    try:
        server.wait(30)
    finally:
        server.kill()
        server.wait()
