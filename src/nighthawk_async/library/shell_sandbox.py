"""Bubblewrap: the command line that confines a shell, and whether it works on this machine."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import anyio

from ..errors import ConfigurationError
from .errors import ShellError

Sandbox: TypeAlias = Literal["required", "auto", "off"]
"""Whether a shell is confined: always (or refused), if Bubblewrap works here, or never."""

_PROBE_SECONDS = 10.0
_SYSTEM = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt"),
    *("/nix/store", "/gnu/store", "/sys"),
)
"""The folders of a system that hold its programs and their settings, and nothing of its users."""
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
    readable: Sequence[Path] = (),
    protected: Sequence[Path] = (),
) -> list[str]:
    """The command line that runs a command in Bubblewrap. Pure.

    Only the folders of the system, the workspace and what is named here exist for the command. So there are
    no home folders, with keys in them, and no sockets of services that would do for the command what it may
    not do itself. No process of the command outlives it.

    Args:
        program: The path of `bwrap`.
        command: The command.
        root: The folder of the workspace.
        scratch: The private folder of the shell; always writable.
        writable: Whether the workspace can be written.
        network: Whether there is a network.
        readable: Further folders and files that can be read.
        protected: What in the workspace can never be written.
    """
    resolver = ("/run/systemd/resolve",) if network else ()  # the folder of the file that names it
    is_everything = root == root.parent
    workspace = ("--bind" if writable else "--ro-bind", str(root), str(root))
    return [
        *(program, "--die-with-parent", "--unshare-pid", "--unshare-ipc", "--unshare-uts"),
        *(() if network else ("--unshare-net",)),
        *("--cap-drop", "ALL"),
        *(workspace if is_everything else _options("--ro-bind-try", _SYSTEM)),
        *("--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--tmpfs", "/run"),
        *("--tmpfs", "/var/tmp"),
        *_options("--ro-bind-try", (*resolver, *map(str, readable))),
        *(() if is_everything else workspace),
        *_options("--ro-bind", map(str, protected)),
        *("--bind", str(scratch), str(scratch)),
        *(() if is_everything else ("--remount-ro", "/")),
        *("--chdir", str(root), "--"),
        *command,
    ]


def _options(option: str, paths: Iterable[str]) -> list[str]:
    return [argument for path in paths for argument in (option, path, path)]


def program_folders() -> list[Path]:
    """The folders of the search path, and those of this Python, as far as they are elsewhere in the system.

    A folder that contains a home folder is left out.
    """
    homes = [Path(path).resolve() for path in (os.path.expanduser("~"), "/root", "/home")]
    found = dict.fromkeys(map(Path, (*os.get_exec_path(), sys.prefix, sys.base_prefix)))
    return [
        path
        for path in found
        if path.is_absolute()
        and path.is_dir()
        and not any(path.is_relative_to(folder) for folder in _SYSTEM)
        and not any(home.is_relative_to(path.resolve()) for home in homes)
    ]


def existing_paths(paths: Iterable[str | os.PathLike[str]]) -> list[Path]:
    """Return what a confined shell can read besides.

    Raises:
        ConfigurationError: It does not exist.
    """
    found = [Path(each).absolute() for each in ([paths] if isinstance(paths, str) else paths)]
    for path in found:
        if not path.exists():
            raise ConfigurationError(f"what the shell should be able to read does not exist: {path}")
    return found


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
            program,
            ["true"],
            root=Path("/usr"),
            scratch=Path("/tmp"),
            writable=False,
            network=False,
            readable=program_folders(),
        )
        try:
            with anyio.fail_after(_PROBE_SECONDS):
                ended = await anyio.run_process(command, check=False, stdin=subprocess.DEVNULL)
        except (OSError, TimeoutError) as error:
            return f"{program} does not work: {error or 'it does not end'}"
        said = ended.stderr.decode(errors="replace").strip() or f"exit status {ended.returncode}"
        _probed[program] = "" if ended.returncode == 0 else f"{program} does not work: {said}"
    return _probed[program]
