"""The tree in a terminal, redrawn below the program's output.

It has a region at the bottom of the terminal; the program prints above it. Printed output is kept complete:
lines go to the terminal unchanged, at once, above the region. An unfinished line is shown as the first line
of the region until it ends. The cursor is never hidden and stays below the region between two frames, so a
process that is killed leaves the terminal usable.
"""

import builtins
import getpass
import io
import os
import re
import select
import sys
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import wraps
from types import ModuleType
from typing import Any, TextIO

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from ..observe import NodeView
from ..observe.changes import Change
from ..observe.tree_rows import Digests, Row, rows_that_fit
from .live_tree import ASKED_TO_END, remark_on
from .live_tree_picture import Figures, Picture, figures_line

_CONTROL_SEQUENCE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
"""Colours, and the erasure of a line with which a progress line begins."""

_BEGIN_FRAME = "\x1b[?2026h"  # terminals that support it show a frame at once
_END_FRAME = "\x1b[?2026l"
_MAX_UNFINISHED_BYTES = 65_536


class Screen:
    """The terminal, shared by the region and by printed output. Any thread may use it.

    Args:
        descriptor: The descriptor of the terminal.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.RLock()  # a signal handler may print while its own thread prints
        self._process = os.getpid()
        self._drawn: list[str] = []
        self._drawn_widths: list[int] = []
        self._unfinished = b""
        self._pauses = 0
        self._is_closed = False

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines."""
        with suppress(OSError):
            size = os.get_terminal_size(self._descriptor)
            if size.columns and size.lines:
                return size.columns, size.lines
        return 80, 24

    def draw(self, lines: Sequence[str], widths: Sequence[int]) -> None:
        """Show a frame in place of the last one.

        Args:
            lines: The lines, with their colour codes.
            widths: The number of columns of each.

        Raises:
            OSError: The terminal is gone.
        """
        with self._lock:
            if self._is_closed or self._pauses:
                return
            columns, _ = self.size
            frame, frame_widths = list(lines), list(widths)
            if self._unfinished:
                frame.insert(0, self._shown_unfinished(columns))
                frame_widths.insert(0, cell_len(frame[0]))
            if frame != self._drawn:
                text = "".join(f"{line}\n" for line in frame)
                self._write(f"{_BEGIN_FRAME}{self._erasure()}{text}{_END_FRAME}".encode())
                self._drawn, self._drawn_widths = frame, frame_widths

    def print(self, data: bytes) -> None:
        """Write printed output above the region.

        Args:
            data: The printed text.
        """
        if os.getpid() != self._process:  # a forked child has no region, but may have inherited a held lock
            self._write(data)
            return
        with self._lock:
            if self._is_closed or self._pauses:
                self._write(data)
                return
            whole, end, rest = data.rpartition(b"\n")
            if end:
                before = self._take_region_away() + self._take_unfinished()
                self._write(before + whole + end)
            self._unfinished += rest
            if len(self._unfinished) > _MAX_UNFINISHED_BYTES:
                self._write(self._take_region_away() + self._take_unfinished() + b"\n")

    def pause(self) -> None:
        """Remove the region until `resume`, because the program asks for input."""
        with self._lock:
            self._pauses += 1
            if self._pauses == 1 and not self._is_closed:
                self._write(self._take_region_away() + self._take_unfinished())

    def resume(self) -> None:
        """Show the region again with the next frame, after as many calls as of `pause`."""
        with self._lock:
            self._pauses -= 1

    def close(self, lines: Sequence[str] = ()) -> None:
        """Stop drawing. Printed output goes straight to the terminal from now on.

        Args:
            lines: The lines that stay in place of the region.

        Raises:
            OSError: The terminal is gone.
        """
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            unfinished = self._take_unfinished()
            end = b"\n" if unfinished and lines else b""
            text = "".join(f"{line}\n" for line in lines).encode()
            self._write(self._take_region_away() + unfinished + end + text)

    def _shown_unfinished(self, columns: int) -> str:
        """The last part of the unfinished line that fits, as a terminal would show it."""
        text = self._unfinished.rstrip(b"\r").rpartition(b"\r")[2].decode(errors="replace")
        text = _CONTROL_SEQUENCE.sub("", text)
        shown = "".join(each if each.isprintable() else " " for each in text[-columns:])
        while cell_len(shown) >= columns:
            shown = shown[1:]
        return shown

    def _erasure(self) -> str:
        """Return the text that erases the region; a terminal made narrower since has wrapped its lines."""
        columns, _ = self.size
        rows = sum(max(1, -(-width // columns)) for width in self._drawn_widths)
        return f"\x1b[{rows}A\r\x1b[J" if rows else ""

    def _take_region_away(self) -> bytes:
        erasure = self._erasure().encode()
        self._drawn, self._drawn_widths = [], []
        return erasure

    def _take_unfinished(self) -> bytes:
        unfinished, self._unfinished = self._unfinished, b""
        return unfinished

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(self._descriptor, rest) :]
            except BlockingIOError:  # the terminal was made non-blocking
                select.select([], [self._descriptor], [])


class _PrintedBytes(io.BufferedIOBase):
    """Forwards printed output to the screen."""

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
    """Make the output of Python code to a terminal appear above the region.

    The region is removed while `input` or `getpass.getpass` waits.

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
            if getattr(sys, name) is stream:  # otherwise the program has replaced it
                setattr(sys, name, originals[name])


@contextmanager
def _without_region(screen: Screen, module: ModuleType, name: str) -> Generator[None]:
    """Remove the region whenever a function that asks waits for the answer."""
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


_LEAST_HEIGHT = 3
_HINT = "Ctrl-C ends it"


class TerminalTree:
    """Draws the tree, at most as high as the terminal.

    Args:
        screen: The terminal.
        console: The console with its colours and characters.
    """

    def __init__(self, screen: Screen, console: Console) -> None:
        self._screen = screen
        self._console = console
        self._digests = Digests()
        self._hint = _HINT
        self._is_paused = False

    def show(self, root: NodeView, changes: list[Change], figures: Figures) -> None:
        """Draw a frame, unless the program is asking for input."""
        self._digests.look(root)
        self._pause_for_questions(root)
        lines = [*self._tree(root), self._figures(figures, self._hint)]
        self._screen.draw(self._coloured(lines), [line.cell_len for line in lines])

    def interrupted(self) -> None:
        """Show it in the line of figures."""
        self._hint = ASKED_TO_END

    def close(self, root: NodeView, figures: Figures, status: int) -> None:
        """Leave the final tree and a line of figures."""
        lines = [*self._tree(root), self._figures(figures, remark_on(status))]
        self._screen.close([line.rstrip() for line in self._coloured(lines)])

    def _tree(self, root: NodeView) -> list[Text]:
        width, height = self._screen.size
        rows: Sequence[Row] = rows_that_fit(root, self._digests, max(_LEAST_HEIGHT, height - 3))
        picture = Picture(width=width - 1, is_ascii=self._console.options.ascii_only)
        return picture.draw(rows, time.time())

    def _figures(self, figures: Figures, remark: str) -> Text:
        width, _ = self._screen.size
        line = Text(figures_line(figures, remark=remark), "bold")
        line.truncate(max(1, width - 1), overflow="crop")
        return line

    def _coloured(self, lines: Sequence[Text]) -> list[str]:
        with self._console.capture() as capture:
            self._console.print(Text("\n").join(lines), end="", soft_wrap=True, highlight=False)
        return capture.get().split("\n")

    def _pause_for_questions(self, root: NodeView) -> None:
        """Do not draw while the program asks for input, because that would move the cursor."""
        is_asking = self._digests.is_asking(root)
        if is_asking != self._is_paused:
            self._is_paused = is_asking
            if is_asking:
                self._screen.pause()
            else:
                self._screen.resume()
