"""Objects of write bindings that the code of a step has changed in place (specification 8.3)."""

from collections.abc import Iterable, Iterator, Mapping

from .snapshot import Snapshot

__all__ = ["ChangedRoots"]

_NEVER_CHANGED = frozenset({str, int, float, bool, bytes, complex, type(None)})


class ChangedRoots:
    """The objects that write bindings held when the step began, as far as its code has mentioned them.

    An object is remembered right before the first code that mentions its binding: most steps mention few.

    Attributes:
        objects: The objects to look after, by the names of their bindings.
    """

    __slots__ = ("_marked", "_remembered", "objects")

    def __init__(self) -> None:
        self.objects: Mapping[str, object] = {}
        self._remembered: dict[str, Snapshot] = {}
        self._marked: set[str] = set()

    def remember(self, names: Iterable[str]) -> None:
        """Remember what the write bindings among these names hold, before code that mentions them runs."""
        for name in names:
            if name in self.objects and name not in self._remembered:
                value = self.objects[name]
                if type(value) not in _NEVER_CHANGED:
                    self._remembered[name] = Snapshot(value)

    def mark(self, name: str, value: object) -> None:
        """Take a write binding's object for changed, unless the binding means another one by now."""
        if self.objects.get(name, self) is value:
            self._marked.add(name)

    def confirm(self, name: str) -> None:
        """Take a write binding's object for valid as it is now; only later changes count."""
        self._marked.discard(name)
        self._remembered[name] = Snapshot(self.objects[name])

    def changed(self) -> Iterator[tuple[str, object]]:
        """The write bindings whose objects were changed, with the objects."""
        for name, value in tuple(self.objects.items()):
            snapshot = self._remembered.get(name)
            if name in self._marked or (snapshot is not None and snapshot.is_changed()):
                yield name, value
