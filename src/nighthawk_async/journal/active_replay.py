"""The active replay: in it, programs that open a store get the records of the replay instead."""

from collections.abc import Callable
from typing import TypeAlias

from ..journal_ports import OpenedJournal
from ..kernel.features import Feature

OpenReplay: TypeAlias = Callable[[str], OpenedJournal]
"""Opens the replay of the run with this id."""

_open_replay = Feature[OpenReplay | None](None)


def find_replay() -> OpenReplay | None:
    """The active replay; None outside of one."""
    return _open_replay.get()


def is_replaying() -> bool:
    """Whether a replay is active, so that programs must not write to stores."""
    return find_replay() is not None


class using_replay:  # noqa: N801  (a context manager that reads as a function at its call)
    """Activate a replay during the `with` statement."""

    __slots__ = ("_before", "_open_replay")

    def __init__(self, open_replay: OpenReplay) -> None:
        self._open_replay = open_replay

    def __enter__(self) -> None:
        self._before = _open_replay.set(self._open_replay)

    def __exit__(self, *exc_details: object) -> None:
        _open_replay.reset(self._before)
