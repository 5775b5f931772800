"""Objects of which nobody knows what they are: the first life says so, before anything depends on them."""

import warnings
import weakref
from collections.abc import Mapping
from functools import lru_cache

from ..runtime.stable_digest import Identity, coarse_digest, identify, plain_digest
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
        self._seen: dict[int, tuple[object, str]] = {}

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

        Its object often counts calls, which later lives skip. So it counts as this life has first seen it.
        """
        return {
            name: self.first_digest(value) if name == OBJECT else coarse_digest(value)
            for name, value in values.items()
        }

    def first_digest(self, value: object) -> str:
        """Return the digest of the plain parts of a value, as this life has first seen it."""
        key = id(value)
        known = self._seen.get(key)
        if known is None:
            try:
                kept: object = weakref.ref(value, lambda _: self._seen.pop(key, None))
            except TypeError:
                kept = value
            known = self._seen[key] = (kept, plain_digest(value))
        return known[1]

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
