"""A command line on a terminal of its own: what it shows, what is typed, how it ends."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Sequence
from pathlib import Path

from tests.warm_python import WarmPopen

__all__ = ["Terminal", "without_escapes"]

_PATIENCE = 60.0
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def without_escapes(text: str) -> str:
    """The text without colours and movements of the cursor."""
    return _ESCAPES.sub("", text).replace("\r\n", "\n")


class Terminal:
    """A process on a pseudo-terminal.

    Args:
        arguments: The command line of `nighthawk-async`.
        folder: Where it runs.
        lines: How high the terminal is.
        columns: How wide it is.
        environment: Environment variables.
        separate_output: Whether standard output is a pipe instead.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        folder: Path,
        lines: int = 24,
        columns: int = 80,
        environment: dict[str, str] | None = None,
        separate_output: bool = False,
    ) -> None:
        self._own, other = pty.openpty()
        termios.tcsetwinsize(other, (lines, columns))
        variables = {**os.environ, "TERM": "xterm", "PYTHONUTF8": "1", **(environment or {})}
        for name in ("NO_COLOR", "COLUMNS", "LINES", "FORCE_COLOR", "TTY_COMPATIBLE"):
            variables.pop(name, None)
        self.process = WarmPopen(
            [sys.executable, "-m", "nighthawk_async", *arguments],
            stdin=other,
            stdout=subprocess.PIPE if separate_output else other,
            stderr=other,
            cwd=folder,
            env=variables,
            start_new_session=True,
        )
        os.close(other)
        self.raw = ""

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *exc_details: object) -> None:
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
        os.close(self._own)

    def wait_for(self, text: str, *, since: int = 0) -> None:
        """Wait until it has shown a text, colours left out."""
        deadline = time.monotonic() + _PATIENCE
        while text not in without_escapes(self.raw[since:]):
            assert self._read(deadline), f"never shown: {text!r}\n{self.raw}"

    def interrupt(self) -> None:
        """What the terminal does on Ctrl-C."""
        os.killpg(self.process.pid, signal.SIGINT)

    def type(self, text: str) -> None:
        """Type something."""
        os.write(self._own, text.encode())

    def finish(self) -> int:
        """Wait for the end; gives the exit status."""
        deadline = time.monotonic() + _PATIENCE
        while self._read(deadline):
            pass
        return self.process.wait(_PATIENCE)

    def read_output(self) -> str:
        """What went to the pipe, to its end."""
        assert self.process.stdout is not None
        return self.process.stdout.read().decode()

    @property
    def shown(self) -> str:
        """Everything that was shown, colours left out."""
        return without_escapes(self.raw)

    @property
    def left(self) -> str:
        """What is left on the terminal: each frame takes the place of the one before."""
        lines: list[str] = []
        for piece in re.split(r"(\x1b\[\d+A\r\x1b\[J)", self.raw.replace("\r\n", "\n")):
            taken = re.fullmatch(r"\x1b\[(\d+)A\r\x1b\[J", piece)
            if taken:
                del lines[-int(taken[1]) - 1 :]
                lines.append("")
            else:
                first, *others = _ESCAPES.sub("", piece).split("\n")
                lines[-1:] = [*(lines[-1:] or [""])]
                lines[-1] += first
                lines += others
        return "\n".join(lines)

    def _read(self, deadline: float) -> bool:
        """Read some; False at the end."""
        ready, _, _ = select.select([self._own], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            raise TimeoutError(f"nothing more is shown\n{self.raw}")
        try:
            data = os.read(self._own, 65_536)
        except OSError:  # the other side is closed
            return False
        self.raw += data.decode(errors="replace")
        return bool(data)
