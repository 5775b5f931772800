"""The pacers of a run, one for each endpoint and key.

Those that nobody uses keep what they learned, but not all of them: a run may see any number of keys.
"""

from collections.abc import Hashable

from msgspec import Struct, field

from .pacing import Pacer

__all__ = ["PacerShelf"]


class _Shelved(Struct, eq=False):
    pacer: Pacer = field(default_factory=Pacer)
    users: int = 0


class PacerShelf:
    """Keeps pacers by key. Belongs to one event loop.

    Args:
        most_idle: How many are kept that nobody uses; those that were used last.
    """

    def __init__(self, *, most_idle: int = 100) -> None:
        self._most_idle = most_idle
        self._used: dict[Hashable, _Shelved] = {}
        self._idle: dict[Hashable, _Shelved] = {}  # in the order of their last use

    def __len__(self) -> int:
        """Return the number of pacers."""
        return len(self._used) + len(self._idle)

    def take(self, key: Hashable) -> Pacer:
        """The pacer of that key; it stays until everybody who took it has given it back.

        Args:
            key: What tells the endpoint and the key from others.
        """
        shelved = self._used.get(key) or self._idle.pop(key, None) or _Shelved()
        self._used[key] = shelved
        shelved.users += 1
        return shelved.pacer

    def give_back(self, key: Hashable) -> None:
        """Say that the pacer of that key has one user fewer.

        Args:
            key: What it was taken for.
        """
        shelved = self._used[key]
        shelved.users -= 1
        if shelved.users == 0:
            self._idle[key] = self._used.pop(key)
            while len(self._idle) > self._most_idle:
                del self._idle[next(iter(self._idle))]
