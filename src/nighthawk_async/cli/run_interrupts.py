"""Counts Ctrl-C: the first is the program's own business, the second ends the process at once. Floor 5.

An event loop takes the handling of SIGINT over for as long as it runs, and only when it finds Python's own
handler there. So the functions that set and get handlers are replaced meanwhile: whatever handler is set is
called as ever, after the count, and looks as if nobody had touched it.
"""

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

__all__ = ["EXIT_INTERRUPTED", "Interrupts"]

EXIT_INTERRUPTED = 130


class Interrupts:
    """Counts Ctrl-C during the `with` statement. In the main thread.

    Args:
        on_first: Called at the first one; must return at once.
    """

    def __init__(self, on_first: Callable[[], None]) -> None:
        self._on_first = on_first
        self._count = 0
        self._is_over = False

    @property
    def has_come(self) -> bool:
        """Whether there was any."""
        return self._count > 0

    def __enter__(self) -> "Interrupts":
        self._set, self._get = signal.signal, signal.getsignal
        self._is_counting = (
            threading.current_thread() is threading.main_thread()
            and self._get(signal.SIGINT) is not signal.SIG_IGN  # somebody wants it ignored, as `nohup` does
        )
        if self._is_counting:
            _replace(self._set_counted, self._get_uncounted)
            signal.signal(signal.SIGINT, self._get(signal.SIGINT))
        return self

    def __exit__(self, *exc_details: object) -> None:
        if self._is_counting:
            _replace(self._set, self._get)
            self._set(signal.SIGINT, _uncounted(self._get(signal.SIGINT)))

    def finish(self) -> None:
        """The program has ended: the first one that comes from now on disturbs nothing."""
        self._is_over = True

    def _set_counted(self, signalnum: int, handler: Any) -> Any:
        if signalnum == signal.SIGINT and callable(handler) and not isinstance(handler, signal.Handlers):
            handler = _Counted(self, handler)
        return _uncounted(self._set(signalnum, handler))

    def _get_uncounted(self, signalnum: int) -> Any:
        return _uncounted(self._get(signalnum))

    def handle(self, handler: Callable[[int, FrameType | None], Any], number: int, frame: Any) -> None:
        """Count one, and let the program's handler handle the first."""
        self._count += 1
        if self._count > 1:
            os._exit(EXIT_INTERRUPTED)
        self._on_first()
        if not self._is_over:
            handler(number, frame)


class _Counted:
    """A handler that is called after the count."""

    def __init__(self, interrupts: Interrupts, handler: Callable[[int, FrameType | None], Any]) -> None:
        self._interrupts = interrupts
        self.handler = handler

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self._interrupts.handle(self.handler, number, frame)


def _uncounted(handler: Any) -> Any:
    return handler.handler if isinstance(handler, _Counted) else handler


def _replace(set_handler: Any, get_handler: Any) -> None:
    signal.signal, signal.getsignal = set_handler, get_handler
