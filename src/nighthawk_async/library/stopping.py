"""Stopping long synchronous work in a worker thread when its caller is cancelled."""

from collections.abc import Callable

from anyio import from_thread


def stop_check() -> Callable[[], None]:
    """Return a function to call again and again: in a thread of AnyIO it raises when the caller is cancelled.

    Elsewhere, also on an event loop, it does nothing.
    """
    try:
        from_thread.check_cancelled()
    except RuntimeError:  # no thread of AnyIO
        return _go_on
    return from_thread.check_cancelled


def _go_on() -> None:
    """Do nothing."""
