"""Objects of which nobody knows what they are: the first life says so, before anything depends on them."""

import warnings
import weakref
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache

from ..values.stable_digest import Identity, coarse_digest, identify, plain_digest
from .carried_values import OBJECT
from .errors import JournalIdentityError, JournalIdentityWarning
from .values import ValueRules


class KnownObjects:
    """Digests what a run depends on, and says what it cannot tell apart, once for each class.

    Args:
        rules: The rules of the store, which may refuse it.
        is_replay: Whether to say nothing: nothing is new.
        said: What was said before, by class and name; None for nothing.
    """

    def __init__(
        self, rules: ValueRules, *, is_replay: bool, said: set[tuple[str, str]] | None = None
    ) -> None:
        self._is_strict = rules.is_strict
        self._is_replay = is_replay
        self._said: set[tuple[str, str]] = set() if said is None else said

    def digests(self, place: str, what: str, values: Mapping[str, object]) -> dict[str, str]:
        """Return the digests of what something new depends on.

        Args:
            place: Its place.
            what: The word for it.
            values: The values by name.

        Raises:
            JournalIdentityError: Nobody knows what one of them is, and the store is strict.
            JournalIdentityWarning: Python's warning filters turn the warning into an error.
        """
        digests: dict[str, str] = {}
        for name, value in values.items():
            identity = identify(value)
            digests[name] = identity.digest
            if identity.unknown and not self._is_replay:
                self._say(place, what, name, identity)
        return digests

    def first_seen(self, values: Mapping[str, object]) -> Mapping[str, object]:
        """Return the digests of what a tool carries.

        Its object often counts calls, which later lives skip. So it counts as this process has first seen it.
        """
        return {
            name: first_digest(value) if name == OBJECT else coarse_digest(value)
            for name, value in values.items()
        }

    def _say(self, place: str, what: str, name: str, identity: Identity) -> None:
        for kind, reason in identity.unknown.items():
            text = (
                f"{place}: nobody knows what <{name}> of the {what} is: an object of {kind} {reason}. A "
                "later life may take another one for it, and give it the recorded answer. Say what such "
                f"objects are with nighthawk_async.journal.register({kind.rpartition('.')[2]}, "
                "identity=...), or pass what tells them apart."
            )
            if self._is_strict:
                raise JournalIdentityError(text, place=place)
            if (kind, name) not in self._said:
                self._said.add((kind, name))
                warnings.warn(text, JournalIdentityWarning, stacklevel=4)


@lru_cache(maxsize=256)
def said_on_worker(run_id: str, begun_at: float) -> set[tuple[str, str]]:
    """Return the set of what this worker has said in one life of a run; each call has its own journal."""
    return set()


_seen: dict[int, tuple[weakref.ref[object], str]] = {}
_kept: OrderedDict[int, tuple[object, str]] = OrderedDict()
_MOST_KEPT = 256


def first_digest(value: object) -> str:
    """Return the digest of the plain parts of a value, as this process has first seen it.

    It holds for all runs: an object that many of them share has changed when the last one begins, and is new
    again in the process that continues that one. Of values that nothing can refer to weakly, such as lists,
    the latest are kept.
    """
    key = id(value)
    if (known := _seen.get(key)) is not None and known[0]() is value:
        return known[1]
    if key in _kept:
        return _kept[key][1]
    digest = plain_digest(value)
    try:
        _seen[key] = weakref.ref(value, lambda _: _seen.pop(key, None)), digest
    except TypeError:
        _kept[key] = value, digest
        while len(_kept) > _MOST_KEPT:
            with suppress(KeyError):  # another thread was faster
                _kept.popitem(last=False)
    return digest
