"""Holders of leases: processes, by name."""

import hashlib
import os
import socket
import sys
import uuid
from functools import lru_cache
from pathlib import Path

_ENDED = "ended"


def process_name(token: str) -> str:
    """The name of this process as the holder of a lease.

    Args:
        token: A text that distinguishes the stores of one process.
    """
    return f"{os.getpid()}:{_started_at(os.getpid())}:{token}:{_machine()}:{socket.gethostname()}"


def is_alive(holder: str) -> bool:
    """Whether the process that holds a lease may still run; true for one that cannot be seen from here."""
    pid, started_at, _, machine, _ = _parts(holder)
    if not pid.isdecimal():
        return False
    if machine not in ("", _machine()):
        return True
    if sys.platform == "win32":  # there a signal of 0 is Ctrl-C
        return True
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass  # it belongs to somebody else
    return _started_at(int(pid)) in (started_at, "")


def describe_holder(holder: str) -> str:
    """The process that holds a lease, in words."""
    pid, _, _, _, host = _parts(holder)
    return f"process {pid} on {host}" if host else f"process {pid}"


def _parts(holder: str) -> list[str]:
    parts = holder.split(":", 4)
    return parts + [""] * (5 - len(parts))


@lru_cache(maxsize=1)
def _machine() -> str:
    """The processes that this one can see, as a name: those of one boot of one machine, in one container.

    Names of hosts are not unique: clones and containers often have the same.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        seen = f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        seen = f"{socket.gethostname()} {uuid.getnode()}"
    return hashlib.sha256(seen.encode()).hexdigest()[:12]


def _started_at(pid: int) -> str:
    """The start time of a process, which distinguishes it from later ones of its number.

    Empty if unknown, and `_ENDED` for a process that its parent has not waited for yet.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    fields = stat.rpartition(")")[2].split()
    return _ENDED if fields[0] in ("Z", "X") else fields[19]
