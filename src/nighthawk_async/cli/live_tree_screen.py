"""A region at the bottom of a terminal, and what a program prints above it.

What is printed comes through whole: lines go to the terminal as they are, at once, above the region. A line
that has not ended yet is shown as the first line of the region until it has. The cursor is never hidden and
stands below the region between two frames, so a process that is killed leaves the terminal usable.
"""

import os
import select
import threading
from collections.abc import Sequence
from contextlib import suppress

from rich.cells import cell_len

__all__ = ["Screen"]

_BEGIN_FRAME = "\x1b[?2026h"  # terminals that know it show a frame at once
_END_FRAME = "\x1b[?2026l"
_MAX_UNFINISHED_BYTES = 65_536


class Screen:
    """The terminal, shared by the region and by what is printed. Any thread may use it.

    Args:
        descriptor: The descriptor of the terminal.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.RLock()  # a handler of signals may print while its own thread prints
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
            lines: The lines, with what colours them.
            widths: How many columns each of them takes.

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
        """Let something pass that is printed.

        Args:
            data: What is printed.
        """
        if os.getpid() != self._process:  # a forked child has no region, but perhaps a lock that is held
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
        """Take the region away until `resume`, because somebody is asked for input."""
        with self._lock:
            self._pauses += 1
            if self._pauses == 1 and not self._is_closed:
                self._write(self._take_region_away() + self._take_unfinished())

    def resume(self) -> None:
        """Show the region again with the next frame, after as many calls as there were of `pause`."""
        with self._lock:
            self._pauses -= 1

    def close(self, lines: Sequence[str] = ()) -> None:
        """Draw no more. What is printed goes straight to the terminal from now on.

        Args:
            lines: What stays in place of the region.

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
        """The end of the line that has not ended yet, as a terminal would show it, as far as it fits."""
        text = self._unfinished.rstrip(b"\r").rpartition(b"\r")[2].decode(errors="replace")
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
            except BlockingIOError:  # somebody made the terminal non-blocking
                select.select([], [self._descriptor], [])
