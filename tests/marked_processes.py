"""Processes of a program that a test starts, told by a variable in their environment."""

import time
from pathlib import Path


def marked_processes(mark: str) -> dict[int, str]:
    found: dict[int, str] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "environ").read_bytes():
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                found[int(folder.name)] = command
        except OSError:  # it has ended
            continue
    return found


def wait_until_ended(mark: str, *, patience_seconds: float = 30) -> dict[int, str]:
    """Wait until no process has a mark, and return those that have it still."""
    deadline = time.monotonic() + patience_seconds
    while (left := marked_processes(mark)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left
