"""Default handler for runs without one; the server of an application installs it."""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .request import HumanHandler

_stand_in: ContextVar["HumanHandler | None"] = ContextVar("nighthawk_async_human_stand_in", default=None)


@contextmanager
def standing_in(handler: "HumanHandler | None") -> Generator[None, None, None]:
    """Let a handler ask people for the runs that begin during the `with` statement and were told of nobody.

    Args:
        handler: The handler; None for nobody.
    """
    token = _stand_in.set(handler)
    try:
        yield
    finally:
        _stand_in.reset(token)


def find_stand_in() -> "HumanHandler | None":
    """The handler that stands in where the caller is; None for nobody."""
    return _stand_in.get()
