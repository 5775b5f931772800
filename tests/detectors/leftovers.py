"""Notices threads, child processes and sockets that a test leaves behind."""

import gc
import os
import stat
import sys
import threading
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

import anyio
import trio

__all__ = ["Holdings", "describe_leftovers", "take_stock", "wait_for_leftovers"]

_DESCRIPTORS = "/dev/fd"
_TASKS = "/proc/self/task"
_TRIO_CORE = str(Path(trio.__file__).parent / "_core")
_ANYIO_ASYNCIO = str(Path(anyio.__file__).parent / "_backends" / "_asyncio.py")
_WAITING = (threading.__file__, sys.modules["queue"].__file__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdings:
    """What the process holds at one moment.

    Args:
        threads: Running threads, those of the event loops' idle worker pools excepted.
        children: Process ids of child processes; empty where the system does not tell.
        sockets: Open sockets as pairs of file descriptor and inode; empty where the system does not tell.
    """

    threads: frozenset[threading.Thread]
    children: frozenset[int]
    sockets: frozenset[tuple[int, int]]

    def beyond(self, other: "Holdings") -> "Holdings":
        """What is held here and not there."""
        return Holdings(
            threads=self.threads - other.threads,
            children=self.children - other.children,
            sockets=self.sockets - other.sockets,
        )

    def __bool__(self) -> bool:
        return bool(self.threads or self.children or self.sockets)


def take_stock() -> Holdings:
    """What the process holds now."""
    here = threading.current_thread()
    threads = [one for one in threading.enumerate() if one is here or not _is_idle_pool_worker(one)]
    return Holdings(threads=frozenset(threads), children=_child_processes(), sockets=_open_sockets())


def wait_for_leftovers(before: Holdings, *, patience_seconds: float) -> Holdings:
    """What is held beyond what was held before, once endings under way had time to come to their end.

    Args:
        before: What was held before.
        patience_seconds: How long something may take to end, in seconds. Nothing left costs no time at all.
    """
    leftovers = take_stock().beyond(before)
    if not leftovers:
        return leftovers
    deadline = time.monotonic() + patience_seconds
    gc.collect()  # what nothing refers to any more warns on its own when it is collected
    while (leftovers := take_stock().beyond(before)) and time.monotonic() < deadline:
        for thread in leftovers.threads:
            thread.join(0.01)
        threading.Event().wait(0.01)
    return leftovers


def describe_leftovers(leftovers: Holdings) -> str:
    """A description of what was left behind, with the stack of each thread."""
    frames = sys._current_frames()
    lines: list[str] = []
    for thread in leftovers.threads:
        frame = frames.get(thread.ident or 0)
        lines += [f"thread {thread.name!r}", *(traceback.format_stack(frame) if frame else [])]
    lines += [f"child process {pid}: {_command_line(pid)}" for pid in sorted(leftovers.children)]
    lines += [f"socket on file descriptor {descriptor}" for descriptor, _ in sorted(leftovers.sockets)]
    return "\n".join(lines)


def _is_idle_pool_worker(thread: threading.Thread) -> bool:
    """Whether the thread just ended, or waits for work in a worker pool of Trio or AnyIO."""
    frame = sys._current_frames().get(thread.ident or 0)
    if frame is None:
        return not thread.is_alive()
    files = [summary.f_code.co_filename for summary, _ in traceback.walk_stack(frame)]
    is_pool = any(file.startswith(_TRIO_CORE) or file == _ANYIO_ASYNCIO for file in files)
    is_only_pool = all(file.startswith(_TRIO_CORE) or file in (_ANYIO_ASYNCIO, *_WAITING) for file in files)
    # Directly in AnyIO's worker loop, a function written in C is at work.
    return is_pool and is_only_pool and files[0] != _ANYIO_ASYNCIO


def _child_processes() -> frozenset[int]:
    found: set[int] = set()
    for task in os.listdir(_TASKS) if os.path.exists(_TASKS) else ():
        try:
            with open(f"{_TASKS}/{task}/children", "rb") as file:
                found.update(map(int, file.read().split()))
        except OSError:  # the thread ended meanwhile
            continue
    # Python's own helper of multiprocessing lives as long as the process, by design.
    return frozenset(pid for pid in found if "multiprocessing.resource_tracker" not in _command_line(pid))


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return "(ended)"


def _open_sockets() -> frozenset[tuple[int, int]]:
    found: set[tuple[int, int]] = set()
    for name in os.listdir(_DESCRIPTORS) if os.path.exists(_DESCRIPTORS) else ():
        try:
            status = os.fstat(int(name))
        except OSError:  # the descriptor that lists the directory
            continue
        if stat.S_ISSOCK(status.st_mode):
            found.add((int(name), status.st_ino))
    return frozenset(found)
