"""The command that runs a process for code of models in Bubblewrap, on Linux."""

import os
import shutil
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ..errors import SandboxUnavailableError
from ..system_calls import system_call_filter

_SYSTEM = (
    *("/usr", "/bin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store"),
    *("/etc/ld.so.cache", "/etc/localtime", "/etc/alternatives"),
)
_SCRATCH_BYTES = 2**24


def process_command(program: str, command: Sequence[str], *, filter_descriptor: int) -> list[str]:
    """The command line. Pure, apart from the folders of this Python.

    The process has no network, no files but those of the system and of this Python, no environment, no
    rights, and no other processes. It can write a few megabytes below `/tmp`, which end with it.

    Args:
        program: The path of `bwrap`.
        command: The command of the process.
        filter_descriptor: The descriptor of a file with the filter of system calls.
    """
    folders = [*_SYSTEM, *map(str, python_folders())]
    return [
        *(program, "--unshare-all", "--die-with-parent", "--new-session", "--clearenv"),
        *("--cap-drop", "ALL", "--uid", "65534", "--gid", "65534", "--hostname", "sandbox"),
        *("--seccomp", str(filter_descriptor)),
        *(argument for folder in folders for argument in ("--ro-bind-try", folder, folder)),
        *("--dev", "/dev", "--size", str(_SCRATCH_BYTES), "--tmpfs", "/tmp"),
        *("--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/tmp"),
        *("--setenv", "HOME", "/tmp", "--setenv", "LANG", "C.UTF-8", "--"),
        *command,
    ]


def python_folders() -> list[Path]:
    """The folders of this Python, as far as they are not in the system's."""
    found = dict.fromkeys(Path(each) for each in (sys.prefix, sys.base_prefix, sys.exec_prefix))
    found |= dict.fromkeys([Path(sys.executable).resolve().parent.parent])
    return [each for each in found if each != Path("/usr")]


def find_bubblewrap() -> str:
    """The path of `bwrap`.

    Raises:
        SandboxUnavailableError: It is not there.
    """
    program = shutil.which("bwrap") if sys.platform == "linux" else None
    if program is None:
        reason = (
            "is not installed" if sys.platform == "linux" else f"is for Linux, and this is {sys.platform}"
        )
        raise SandboxUnavailableError(
            f"Sandbox(kind='process') needs Bubblewrap: bwrap {reason}. No code is run without it"
        )
    return program


@contextmanager
def filtered_system_calls() -> Generator[int, None, None]:
    """Yield the descriptor of a file with the filter of system calls, for Bubblewrap to inherit.

    Raises:
        SandboxUnavailableError: The system calls of this machine are not known.
    """
    machine = os.uname().machine
    program = system_call_filter(machine, is_root=True, may_fork=False)
    if program is None:
        raise SandboxUnavailableError(
            f"Sandbox(kind='process') does not know the system calls of {machine}. No code is run"
        )
    descriptor = os.memfd_create("nighthawk-system-calls")
    try:
        os.write(descriptor, program)
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield descriptor
    finally:
        os.close(descriptor)
