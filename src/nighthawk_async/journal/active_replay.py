"""The active replay: in it, programs that open a store get the records of the replay instead."""

from collections.abc import Callable
from contextvars import ContextVar
from typing import TypeAlias

from ..ports import OpenedJournal

OpenReplay: TypeAlias = Callable[[str], OpenedJournal]
"""Opens the replay of the run with this id."""

_open_replay: ContextVar[OpenReplay | None] = ContextVar("nighthawk_async_replay", default=None)


def find_replay() -> OpenReplay | None:
    """The active replay; None outside of one."""
    return _open_replay.get()


class using_replay:  # noqa: N801  (a context manager that reads as a function at its call)
    """Activate a replay during the `with` statement."""

    __slots__ = ("_open_replay", "_token")

    def __init__(self, open_replay: OpenReplay) -> None:
        self._open_replay = open_replay

    def __enter__(self) -> None:
        self._token = _open_replay.set(self._open_replay)

    def __exit__(self, *exc_details: object) -> None:
        _open_replay.reset(self._token)
