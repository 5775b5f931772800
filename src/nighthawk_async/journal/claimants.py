"""Names of tasks that are the same in every life of a run, also of tasks that were started by hand.

Tasks that the library starts have places of their own. A task that was started by hand shares the place of
the task that started it. It is named by the function that it was started with and by its arguments, and by
the last place that it took by its arguments. Two that are equal in this are interchangeable.
"""

import inspect
import sys
from functools import lru_cache
from types import FrameType
from typing import Any
from weakref import WeakKeyDictionary

from ..parallel.task_current import find_place, find_positions, find_task
from ..parallel.task_node import UNSTABLE, find_task_place
from ..values.stable_digest import stable_digest
from .frames import is_sequential

_started_as: WeakKeyDictionary[Any, str | None] = WeakKeyDictionary()


def find_claimant() -> str | None:
    """Return the name of the caller's task: a place, not relative to the run; None for none."""
    if find_place().is_elsewhere:
        return None
    positions = find_positions()
    if positions.is_owned:
        return _task_place(positions.path)
    task = find_task()
    if task not in _started_as:
        _started_as[task] = _find_start()
    start, last = _started_as[task], find_task_place(task)
    if start is None:
        return last
    # Two functions without arguments may differ in the variables around them; what they call says so.
    taken = "" if last is None else f"+{last.rpartition('/')[2].rpartition('[')[0]}"
    return f"{_task_place(positions.path)}/{start}{taken}"


def _find_start() -> str | None:
    """The function that the caller's task was started with, and a digest of its arguments.

    Returns:
        None where there is none of the program, or where its arguments have no stable form.
    """
    frame: FrameType | None = sys._getframe()  # pyright: ignore[reportPrivateUsage]
    first: FrameType | None = None
    while frame is not None:
        library = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        is_async = bool(frame.f_code.co_flags & _ASYNC)
        if library in _LOOPS and not is_async:
            break
        if is_async and library not in _LIBRARIES:
            first = frame
        frame = frame.f_back
    if first is None:
        return None
    code, values = first.f_code, first.f_locals
    variadic = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + variadic]
    digest = stable_digest([(name, values.get(name)) for name in names if name != "task_status"])
    return None if digest.endswith(UNSTABLE) else f"{code.co_name}~{digest}"


_ASYNC = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_LOOPS = frozenset({"asyncio", "trio", "uvloop"})
_LIBRARIES = _LOOPS | {"anyio", "nighthawk_async"}


@lru_cache(maxsize=4096)
def _task_place(place: str) -> str:
    """The place of the task that a place is in: without the functions, blocks and requests that it is in."""
    while True:
        parent, _, frame = place.rpartition("/")
        if not parent or not is_sequential(frame):
            return place
        place = parent
