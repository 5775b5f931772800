"""Default handler for runs without one; the server of an application installs it."""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .request import HumanHandler

_default_handler: ContextVar["HumanHandler | None"] = ContextVar(
    "nighthawk_async_human_stand_in", default=None
)


@contextmanager
def using_default_handler(handler: "HumanHandler | None") -> Generator[None, None, None]:
    """Let a handler ask people for the runs that begin during the `with` statement and were told of nobody.

    Args:
        handler: The handler; None for nobody.
    """
    token = _default_handler.set(handler)
    try:
        yield
    finally:
        _default_handler.reset(token)


def find_default_handler() -> "HumanHandler | None":
    """The handler that stands in where the caller is; None for nobody."""
    return _default_handler.get()
