"""Counts Ctrl-C: the program handles the first, the second ends the process at once.

A handler in Python has to wait while the main thread is in a call into C, and then treats several signals as
one. So a thread counts the bytes that the interpreter itself writes to its wakeup descriptor for each signal.
Event loops need them too: the bytes are passed on to the descriptor that they have set.

A loop that has set none, such as asyncio's, keeps sleeping when the signal reaches another thread, or the
main thread just before its call into C. So this thread sends the main thread SIGURG, every 50 ms until the
handlers of both signals have run; not where the program handles SIGURG itself.
"""

import os
import select
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

EXIT_INTERRUPTED = 130

_NO_DESCRIPTOR = -1
_END = b"\0"  # no signal has this number
_WAKING = signal.SIGURG  # it is ignored unless a program handles it
_WAKING_INTERVAL = 0.05  # seconds


class Interrupts:
    """Counts Ctrl-C during the `with` statement. In the main thread; elsewhere it does nothing.

    If the signal is ignored, as `nohup` sets it, it stays ignored.

    Args:
        on_first: Called at the first one, in another thread.
    """

    def __init__(self, on_first: Callable[[], None]) -> None:
        self._on_first = on_first
        self._count = 0
        self._given = _NO_DESCRIPTOR
        self._lock = threading.Lock()  # nothing is passed on to a descriptor that was replaced
        self._is_counting = False
        self._is_handled = True  # the main thread has run the handler of the last one
        self._handler: Any = None

    def __enter__(self) -> "Interrupts":
        if sys.platform == "win32":  # where pipes neither take signals nor can be waited for
            return self
        if threading.current_thread() is not threading.main_thread():
            return self
        self._main_thread = threading.get_ident()
        self._set = signal.set_wakeup_fd
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        self._given = self._set(self._writer, warn_on_full_buffer=False)
        signal.set_wakeup_fd = self._set_given
        self._waking_handler = signal.signal(_WAKING, self._note_handled)
        self._is_counting = True
        os.register_at_fork(after_in_child=self._leave_to_parent)
        self._thread = threading.Thread(target=self._watch, name="interrupts", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *exc_details: object) -> None:
        if not self._is_counting:
            return
        self._is_counting = False
        if self._handler is not None:
            signal.signal(signal.SIGINT, self._handler)
        self._leave_signals()
        os.write(self._writer, _END)
        self._thread.join()
        os.close(self._writer)
        os.close(self._reader)

    def finish(self) -> None:
        """Record that the program has ended: the first Ctrl-C from now on has no effect."""
        if self._is_counting and callable(signal.getsignal(signal.SIGINT)):
            self._handler = signal.signal(signal.SIGINT, _do_nothing)

    def _watch(self) -> None:
        while _END not in (data := self._read()):
            with self._lock:
                if self._given != _NO_DESCRIPTOR:
                    with suppress(OSError):  # it is full, or closed
                        os.write(self._given, data)
            self._count_interrupts(data.count(signal.SIGINT))

    def _read(self) -> bytes:
        """Wait for signals, and wake the main thread meanwhile if it has one to handle."""
        while True:
            timeout = None if self._is_handled else _WAKING_INTERVAL
            ready, _, _ = select.select([self._reader], [], [], timeout)
            data = os.read(self._reader, 4_096) if ready else b""
            if self._may_wake():
                data = data.replace(bytes([_WAKING]), b"")
                if not ready:
                    signal.pthread_kill(self._main_thread, _WAKING)
            if data:
                return data

    def _may_wake(self) -> bool:
        """Whether the program has no handler of its own for the waking signal."""
        return signal.getsignal(_WAKING) == self._note_handled

    def _note_handled(self, _number: int, _frame: Any) -> None:
        """Handle the waking signal, in the main thread: handlers of lower signals have run."""
        self._is_handled = True

    def _count_interrupts(self, number: int) -> None:
        is_first = self._count == 0 and number > 0
        self._count += number
        if number:
            self._is_handled = False
        if self._count > 1:
            os._exit(EXIT_INTERRUPTED)
        if is_first:
            self._on_first()

    def _set_given(self, fd: int, /, *, warn_on_full_buffer: bool = True) -> int:
        """The replacement of `signal.set_wakeup_fd` meanwhile."""
        self._set(fd, warn_on_full_buffer=warn_on_full_buffer)  # it refuses an invalid descriptor
        self._set(self._writer, warn_on_full_buffer=False)
        with self._lock:
            before, self._given = self._given, fd
        return before

    def _leave_to_parent(self) -> None:
        """Stop counting in a child process, which must not notify the thread of its parent."""
        if self._is_counting:
            self._is_counting = False
            self._leave_signals()

    def _leave_signals(self) -> None:
        if self._may_wake():
            signal.signal(_WAKING, self._waking_handler or signal.SIG_DFL)
        signal.set_wakeup_fd = self._set
        self._set(self._given)


def _do_nothing(_number: int, _frame: Any) -> None:
    return
