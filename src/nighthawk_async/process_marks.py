"""Processes that a child process has started, found by a variable of their environment, wherever they are.

A shell in a session of its own is in no group of its parent, and in no tree once its parent has ended. The
variable is inherited all the same. Found only where the system shows environments in `/proc`, as Linux does.
"""

import os
import signal
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

_PROCESSES = Path("/proc")


def new_mark() -> str:
    """Return the name of a variable to set in the environment of a process."""
    return f"NIGHTHAWK_PROCESS_{uuid4().hex}"


def signal_marked(mark: str, number: signal.Signals, *, spared: int | None = None) -> int:
    """Send a signal to all processes with a mark.

    Args:
        mark: The mark.
        number: The signal.
        spared: The id of a process that does not get it; None for none.

    Returns:
        The number of processes that were found.
    """
    found = [pid for pid in _marked_processes(mark) if pid != spared]
    for pid in found:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
    return len(found)


def _marked_processes(mark: str) -> list[int]:
    """The ids of the processes with a mark; not of those that have ended and wait to be reaped."""
    beginning = f"{mark}=".encode()
    found: list[int] = []
    with suppress(OSError), os.scandir(_PROCESSES) as entries:
        for name in (entry.name for entry in entries if entry.name.isdigit()):
            with suppress(OSError):  # it has ended since, or is another user's
                environment = (_PROCESSES / name / "environ").read_bytes()
                if any(each.startswith(beginning) for each in environment.split(b"\0")):
                    found.append(int(name))
    return found
