"""Tracebacks without the frames of the library, except when debugging.

An error that leaves a natural function, a step or a run keeps the frames of the program, in order: natural
functions, binding functions, tools. Of the frames of the library it keeps the last one, and what that called,
when no code of the program was called there: the error is the library's own.

Debugging is the level `DEBUG` of the logger `nighthawk` (`NIGHTHAWK_LOG=debug`), or the development mode of
Python.
"""

import logging
import sys
from types import TracebackType
from typing import cast

_PACKAGE = __name__.partition(".")[0]
_CARRIERS = frozenset({"anyio", "asyncio", "concurrent", "contextlib", "outcome", "threading", "trio"})
"""Packages through which the library calls its own code, and the program's."""

_FOREIGN = sys.stdlib_module_names | _CARRIERS | {"h11", "httpx", "msgspec", "pydantic", "pydantic_settings"}
"""Packages whose errors may come from a mistake of the library, so that its last frame is kept."""

_logger = logging.getLogger("nighthawk")

_modules_seen = 0
"""How many modules there were when frames were hidden last: thousands, and a step may fail often."""


def fold_frames(error: BaseException | None) -> None:
    """Drop the frames of the library from an error that reaches the program, except when debugging.

    The errors in its groups and those that it was raised from are included. New traceback objects are made:
    the old ones, which others may hold, are not changed. Cancellations keep their frames, because nobody
    sees them. In pytest all errors do, which has its own way: see `hide_frames_from_pytest`.

    It is called in an `__exit__`, or in an `except` clause that ends in a bare `raise`: neither adds the
    frame that it runs in again.

    Args:
        error: The error; None for none.
    """
    if error is None or not _is_shown(error) or "_pytest" in sys.modules or _is_debugging():
        return
    waiting, seen = [error], {id(error)}
    while waiting:
        each = waiting.pop()
        folded = _folded(each.__traceback__)
        if folded is not each.__traceback__:
            each.__traceback__ = folded
        for linked in _linked(each):
            if id(linked) not in seen:
                seen.add(id(linked))
                waiting.append(linked)


class folding_frames:  # noqa: N801 - used like a function
    """Context manager that drops the frames of the library from errors that leave it; see `fold_frames`."""

    __slots__ = ()

    def __enter__(self) -> None:
        pass

    def __exit__(self, exc_type: object, exc: BaseException | None, traceback: object) -> None:
        fold_frames(exc)


def hide_frames_from_pytest() -> None:
    """Hide the frames of the library in pytest's tracebacks, except when debugging.

    Called when a step has failed, because all modules in its traceback are loaded then. pytest's
    `--full-trace` still shows them.
    """
    global _modules_seen
    if "_pytest" not in sys.modules or len(sys.modules) == _modules_seen or _is_debugging():
        return
    _modules_seen = len(sys.modules)
    for name, module in tuple(sys.modules.items()):
        if name.partition(".")[0] == _PACKAGE:
            vars(module).setdefault("__tracebackhide__", True)


def _is_debugging() -> bool:
    return sys.flags.dev_mode or _logger.isEnabledFor(logging.DEBUG)


def _is_shown(error: BaseException) -> bool:
    return isinstance(error, Exception | BaseExceptionGroup | KeyboardInterrupt)


def _linked(error: BaseException) -> list[BaseException]:
    """The errors that are printed with an error."""
    linked = [each for each in (error.__cause__, error.__context__) if each is not None]
    if isinstance(error, BaseExceptionGroup):
        linked += cast("BaseExceptionGroup[BaseException]", error).exceptions
    return linked


def _folded(traceback: TracebackType | None) -> TracebackType | None:
    """Return a traceback without the frames of the library; the same object if it has none to drop."""
    entries: list[TracebackType] = []
    entry = traceback
    while entry is not None:
        entries.append(entry)
        entry = entry.tb_next
    roots = [_root_module(each) for each in entries]
    if _PACKAGE not in roots:
        return traceback
    end = last = len(roots) - 1 - roots[::-1].index(_PACKAGE)
    if not _FOREIGN.issuperset(roots[last + 1 :]):  # the library had called the program
        end = len(entries)
    kept: list[TracebackType] = []
    is_inside = False
    for each, root in zip(entries[:end], roots, strict=False):
        is_inside = root == _PACKAGE or (is_inside and root in _CARRIERS)
        if not is_inside:
            kept.append(each)
    folded = entries[last] if end == last else None
    if len(kept) == end:
        return traceback
    for each in reversed(kept):
        folded = TracebackType(folded, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return folded


def _root_module(entry: TracebackType) -> str:
    """Return the package that the code of a frame belongs to; empty for code that a model wrote."""
    return str(entry.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
