"""Default handler for runs without one; the server of an application installs it."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ...kernel.features import Feature

if TYPE_CHECKING:
    from .request import HumanHandler

_default_handler = Feature["HumanHandler | None"](None)


@contextmanager
def using_default_handler(handler: "HumanHandler | None") -> Generator[None, None, None]:
    """Install a handler for the runs that begin during the `with` statement and have none of their own.

    Args:
        handler: The handler; None for none.
    """
    with _default_handler.active(handler):
        yield


def find_default_handler() -> "HumanHandler | None":
    """Return the default handler in the context of the caller; None for none."""
    return _default_handler.get()
