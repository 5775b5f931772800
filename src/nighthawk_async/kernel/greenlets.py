"""Greenlets, or what stands for them where no extension written in C can be installed."""

import contextvars
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from greenlet import (
        getcurrent,
        greenlet as Greenlet,  # noqa: N812
    )

    CAN_PAUSE: bool
else:
    try:
        from greenlet import (
            getcurrent,
            greenlet as Greenlet,  # noqa: N812
        )

        CAN_PAUSE = True
    except ImportError:
        CAN_PAUSE = False
        _running = threading.local()

        class Greenlet:
            """Only calls its function."""

            gr_context: contextvars.Context
            parent: object
            dead = False

            def __init__(self, run: Callable[[], object]) -> None:
                self.run = run

            def switch(self) -> object:
                """Call the function."""
                before, self.dead = getcurrent(), True
                _running.current = self
                try:
                    return self.gr_context.run(self.run)
                finally:
                    _running.current = before

        def getcurrent() -> Any:
            """Return the innermost one whose function runs; None for none."""
            return getattr(_running, "current", None)


__all__ = ["CAN_PAUSE", "Greenlet", "getcurrent"]
