"""Code under permissions that has to wait for people. Floor 3.

Apart from `permissions.guarded_calls`, which is loaded where permissions are in force only.
"""

from collections.abc import Coroutine, Generator
from typing import Any

__all__ = ["PausedCode"]


class PausedCode:
    """Guarded code that has to wait for people. Await it, outside of the actor, to go on with it."""

    __slots__ = ("_coroutine",)

    def __init__(self, coroutine: Coroutine[Any, Any, object]) -> None:
        self._coroutine = coroutine

    def __await__(self) -> Generator[Any, Any, object]:
        return self._coroutine.__await__()
