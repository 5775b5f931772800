"""Bubblewrap: the command line that confines a shell, and whether it works on this machine."""

import os
import shutil
import subprocess
import sys
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import anyio

from ..errors import ConfigurationError
from ..system_calls import system_call_filter
from .errors import ShellError

Sandbox: TypeAlias = Literal["required", "auto", "off"]
"""Whether a shell is confined: always (or refused), if Bubblewrap works here, or never."""

_PROBE_SECONDS = 10.0
_SYSTEM = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt"),
    *("/nix/store", "/gnu/store", "/sys"),
)
"""The folders of a system that hold its programs and their settings, and nothing of its users."""
_HIDDEN_BELOW_ROOT = ("dev", "proc", "run", "sys", "tmp", "var/tmp")
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
    protected: Sequence[str] = (),
    masks: Sequence[tuple[str, str]] = (),
    is_root: bool = False,
    filter_descriptor: int | None = None,
    environment_descriptor: int | None = None,
) -> list[str]:
    """The command line that runs a command in Bubblewrap. Pure.

    Only the folders of the system, the workspace and what is named here exist for the command. So there are
    no home folders, with keys in them, and no sockets of services that would do for the command what it may
    not do itself. No process of the command outlives it. Root owns what `/proc` shows of the whole
    machine, so it is read-only for the shells of root.

    Args:
        program: The path of `bwrap`.
        command: The command.
        root: The folder of the workspace.
        scratch: The private folder of the shell; always writable.
        writable: Whether the workspace can be written.
        network: Whether there is a network.
        readable: Further folders and files that can be read.
        protected: Paths in the workspace that can never be written.
        masks: Paths in the workspace, each with the file that is there for the command; without one, a file
            cannot be opened, and a folder is empty.
        is_root: Whether the command belongs to root.
        filter_descriptor: The descriptor of a file with the filter of system calls; None for none.
        environment_descriptor: The descriptor of a file with environment variables; None for none.
    """
    resolver = ("/run/systemd/resolve",) if network else ()  # the folder of the file that names it
    is_everything = root == root.parent
    workspace = ("--bind" if writable else "--ro-bind", str(root), str(root))
    return [
        *(program, "--die-with-parent", "--unshare-pid", "--unshare-ipc", "--unshare-uts"),
        "--unshare-cgroup-try",
        *(() if network else ("--unshare-net",)),
        *("--cap-drop", "ALL"),
        *(() if environment_descriptor is None else ("--args", str(environment_descriptor))),
        *(() if filter_descriptor is None else ("--seccomp", str(filter_descriptor))),
        *(workspace if is_everything else _options("--ro-bind-try", _SYSTEM)),
        *("--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--tmpfs", "/run"),
        *(("--remount-ro", "/proc") if is_root else ()),
        *(("--ro-bind-try", "/sys", "/sys") if is_everything else ()),
        *("--tmpfs", "/var/tmp"),
        *_options("--ro-bind-try", (*resolver, *map(str, readable))),
        *(() if is_everything else workspace),
        *_options("--ro-bind", protected),
        *(argument for path, other in masks for argument in _mask(path, other)),
        *("--bind", str(scratch), str(scratch)),
        *(() if is_everything else ("--remount-ro", "/")),
        *("--chdir", str(root), "--"),
        *command,
    ]


def _mask(path: str, other: str) -> list[str]:
    if not other and os.path.isdir(path):
        return ["--tmpfs", path, "--remount-ro", path]
    return ["--ro-bind", other or os.devnull, path]


@contextmanager
def filtered_system_calls() -> Generator[int, None, None]:
    """Yield the descriptor of a file with the filter of system calls, for Bubblewrap to inherit.

    Raises:
        ShellError: The system calls of this machine are not known here.
    """
    machine = os.uname().machine
    program = system_call_filter(machine, is_root=os.geteuid() == 0)
    if program is None:
        raise ShellError(f"a shell cannot be confined here: the system calls of {machine} are not known")
    descriptor = os.memfd_create("nighthawk-system-calls")
    try:
        os.write(descriptor, program)
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield descriptor
    finally:
        os.close(descriptor)


def hidden_below(root: Path) -> Sequence[str]:
    """The folders below a workspace that its shell does not see as they are, by their paths below it."""
    return _HIDDEN_BELOW_ROOT if root == root.parent else ()


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
        try:
            ended = await _try(program)
        except (OSError, TimeoutError) as error:
            return f"{program} does not work: {error or 'it does not end'}"
        except ShellError as error:
            return str(error)
        said = ended.stderr.decode(errors="replace").strip() or f"exit status {ended.returncode}"
        _probed[program] = "" if ended.returncode == 0 else f"{program} does not work: {said}"
    return _probed[program]


async def _try(program: str) -> "subprocess.CompletedProcess[bytes]":
    with filtered_system_calls() as descriptor, anyio.fail_after(_PROBE_SECONDS):
        command = confined_command(
            program,
            ["true"],
            root=Path("/usr"),
            scratch=Path("/tmp"),
            writable=False,
            network=False,
            readable=program_folders(),
            is_root=os.geteuid() == 0,
            filter_descriptor=descriptor,
        )
        return await anyio.run_process(command, check=False, stdin=subprocess.DEVNULL, pass_fds=(descriptor,))
    raise AssertionError("a scope that has ended in time returns")
