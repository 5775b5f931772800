"""Standard output and standard error of a program that prints above a region."""

import builtins
import getpass
import io
import sys
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from functools import wraps
from types import ModuleType
from typing import Any, TextIO

from .live_tree_screen import Screen

__all__ = ["printing_above"]


class _PrintedBytes(io.BufferedIOBase):
    """Takes what is printed to the screen."""

    def __init__(self, screen: Screen, original: TextIO) -> None:
        self._screen = screen
        self._original = original
        self.name = getattr(original, "name", "")

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._original.fileno()

    def write(self, buffer: Any, /) -> int:
        data = bytes(buffer)
        self._screen.print(data)
        return len(data)


@contextmanager
def printing_above(screen: Screen) -> Generator[None]:
    """Let what Python code prints appear above the region, as far as it goes to a terminal.

    The region is away while `input` or `getpass.getpass` waits.

    Args:
        screen: The terminal with the region.
    """
    originals = {name: stream for name in ("stdout", "stderr") if _is_terminal(stream := getattr(sys, name))}
    streams = {name: _stream(screen, original) for name, original in originals.items()}
    for name, stream in streams.items():
        originals[name].flush()
        setattr(sys, name, stream)
    try:
        with ExitStack() as stack:
            stack.enter_context(_without_region(screen, builtins, "input"))
            stack.enter_context(_without_region(screen, getpass, "getpass"))
            yield
    finally:
        for name, stream in streams.items():
            if getattr(sys, name) is stream:  # otherwise the program has its own
                setattr(sys, name, originals[name])


@contextmanager
def _without_region(screen: Screen, module: ModuleType, name: str) -> Generator[None]:
    """Take the region away whenever a function that asks waits for the answer."""
    ask: Callable[..., str] = getattr(module, name)

    @wraps(ask)
    def ask_without_region(*arguments: Any, **options: Any) -> str:
        screen.pause()
        try:
            return ask(*arguments, **options)
        finally:
            screen.resume()

    setattr(module, name, ask_without_region)
    try:
        yield
    finally:
        setattr(module, name, ask)


def _stream(screen: Screen, original: TextIO) -> TextIO:
    return io.TextIOWrapper(
        _PrintedBytes(screen, original),
        encoding=original.encoding,
        errors=original.errors,
        write_through=True,
    )


def _is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty() and stream.fileno() >= 0
    except (OSError, ValueError):  # closed, or no file of the system
        return False
