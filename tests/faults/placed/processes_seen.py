"""Processes as a test sees them from outside, which nothing there can signal."""

import time
from collections.abc import Callable
from pathlib import Path

PATIENCE_SECONDS = 60.0


def _eventually(is_so: Callable[[], bool]) -> bool:
    end = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True


def number_in(path: Path) -> int:
    """Wait for a number that another process writes."""
    assert _eventually(path.exists), f"{path} was not written"
    return int(path.read_text())


def has_ended(pid: int) -> bool:
    """Wait for the end of a process; False if it does not come."""
    return _eventually(lambda: not _is_alive(pid))


def mark_has_ended(path: Path) -> bool:
    """Wait for the end of a process whose number is in a file."""
    return has_ended(number_in(path))


def _is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and waits to be reaped does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
