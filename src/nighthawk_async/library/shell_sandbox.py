"""Bubblewrap: the command line that confines a shell, and whether it works on this machine."""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import anyio

from ..errors import ConfigurationError
from .errors import ShellError

Sandbox: TypeAlias = Literal["required", "auto", "off"]
"""Whether a shell is confined: always (or refused), if Bubblewrap works here, or never."""

_PROBE_SECONDS = 10.0
_probed: dict[str, str] = {}
"""For each program that was tried, the reason why it does not work; empty if it does."""


def confined_command(
    program: str,
    command: Sequence[str],
    *,
    root: Path,
    scratch: Path,
    writable: bool,
    network: bool,
    protected: Sequence[Path] = (),
) -> list[str]:
    """The command line that runs a command in Bubblewrap. Pure.

    The system can be read, but not what is in `/tmp` and `/run`: there are the sockets of services that would
    do for the command what it may not do itself. No process of the command outlives it.

    Args:
        program: The path of `bwrap`.
        command: The command.
        root: The folder of the workspace.
        scratch: The private folder of the shell; always writable.
        writable: Whether the workspace can be written.
        network: Whether there is a network.
        protected: What in the workspace can never be written.
    """
    resolver = ("--ro-bind-try", "/run/systemd/resolve", "/run/systemd/resolve")  # the file that names it
    return [
        *(program, "--die-with-parent", "--unshare-pid", "--unshare-ipc", "--unshare-uts"),
        *(() if network else ("--unshare-net",)),
        *("--cap-drop", "ALL", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
        *("--tmpfs", "/tmp", "--tmpfs", "/run"),
        *(resolver if network else ()),
        *("--bind" if writable else "--ro-bind", str(root), str(root)),
        *(argument for path in protected for argument in ("--ro-bind", str(path), str(path))),
        *("--bind", str(scratch), str(scratch), "--chdir", str(root), "--"),
        *command,
    ]


def check_sandbox(sandbox: object) -> None:
    """Refuse a value of the parameter `sandbox` that means nothing.

    Raises:
        ConfigurationError: It is none of the three words.
    """
    if sandbox not in get_args(Sandbox):
        words = ", ".join(map(repr, get_args(Sandbox)))
        raise ConfigurationError(f"sandbox is one of {words}, not {sandbox!r}")


async def find_bubblewrap(sandbox: Sandbox) -> str | None:
    """Return the path of a `bwrap` that works here; None for none, and if none is wanted.

    Args:
        sandbox: Whether it is wanted.

    Raises:
        ShellError: It is required, and is not there or does not work.
    """
    if sandbox == "off":
        return None
    program = shutil.which("bwrap")
    reason = _absence() if program is None else await _probe(program)
    if reason and sandbox == "required":
        raise ShellError(
            f"no shell is started, because nothing here would confine it: {reason}. Workspace(…, "
            "sandbox='off') runs commands that can do all that the user of the program can"
        )
    return None if reason else program


def _absence() -> str:
    if sys.platform == "linux":
        return "Bubblewrap (bwrap) is not installed"
    return f"Bubblewrap (bwrap) is for Linux, and this is {sys.platform}"


async def _probe(program: str) -> str:
    """Try it, once in a process; return the reason why it does not work, or nothing."""
    if program not in _probed:
        command = confined_command(
            program, ["true"], root=Path("/usr"), scratch=Path("/tmp"), writable=False, network=False
        )
        try:
            with anyio.fail_after(_PROBE_SECONDS):
                ended = await anyio.run_process(command, check=False, stdin=subprocess.DEVNULL)
        except (OSError, TimeoutError) as error:
            return f"{program} does not work: {error or 'it does not end'}"
        said = ended.stderr.decode(errors="replace").strip() or f"exit status {ended.returncode}"
        _probed[program] = "" if ended.returncode == 0 else f"{program} does not work: {said}"
    return _probed[program]
