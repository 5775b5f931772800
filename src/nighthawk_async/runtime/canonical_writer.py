"""The writer of one canonical form: it knows what is open, what is too large, and what has no form."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeAlias, cast

from ..pickling import PicklableError
from .canonical_leaves import LEAVES, sized, text_form
from .canonical_names import type_name
from .canonical_plain import MAX_LEVELS, are_plain

MAX_DEPTH = 100
"""The greatest depth of a value that has a form."""

MAX_NODES = 1_000_000
"""The greatest number of values in a value that has a form, those in plain lists and dicts apart."""

MAX_OBJECTS = 5_000
"""The greatest number of objects of ordinary classes in it: the graphs of frameworks have no end."""

Maker: TypeAlias = Callable[["FormWriter", Any], bytes]


class RowsMaker(ABC):
    """A maker that can also write several values at once."""

    @abstractmethod
    def __call__(self, writer: "FormWriter", value: Any) -> bytes:
        """Return the form of a value."""

    @abstractmethod
    def rows(self, values: list[Any]) -> bytes | None:
        """Return the form of several values; None where each has its own form."""


class TooLargeError(PicklableError):
    """A value is too large, or too deep, to have a form."""


class FormWriter:
    """Writes the form of one value.

    Args:
        maker_of: Returns the function that writes the values of a type.

    Attributes:
        unstable: The objects in it that have no form; their types alone count.
        unknown: The names of classes whose instances may differ in something that is not in the form.
    """

    __slots__ = ("_looks_from", "_maker_of", "_nodes", "_objects", "_open", "unknown", "unstable")

    def __init__(self, maker_of: Callable[[type[Any]], Maker]) -> None:
        self._maker_of = maker_of
        self._open: dict[int, int] = {}  # the depths of the values that the present one is in
        self._looks_from = 0  # the depth from which on values are looked at as a whole
        self._nodes = 0
        self._objects = 0
        self.unstable: list[object] = []
        self.unknown: dict[str, str] = {}

    def form(self, value: Any) -> bytes:
        """Return the form of a value.

        Raises:
            TooLargeError: It is too large.
        """
        kind = cast("type[Any]", type(value))
        leaf = LEAVES.get(kind)
        if leaf is not None:
            return leaf(value)
        depth = len(self._open)
        known = self._open.get(id(value))
        if known is not None:
            return b"^%d;" % (depth - known)
        self._nodes += 1
        if depth >= MAX_DEPTH or self._nodes > MAX_NODES:
            raise TooLargeError
        self._open[id(value)] = depth
        looks_from = self._looks_from
        try:
            return self._maker_of(kind)(self, value)
        finally:
            self._looks_from = looks_from
            del self._open[id(value)]

    def forms(self, values: Iterable[object]) -> bytes:
        """Return the forms of several values, one after the other, and their number."""
        forms = list(map(self.form, values))
        return b"%d:%b" % (len(forms), b"".join(forms))

    def rows_of(self, kind: type[Any], values: list[Any]) -> bytes | None:
        """Return the form of several values of one class at once; None where each has its own form."""
        maker = self._maker_of(kind)
        return maker.rows(values) if isinstance(maker, RowsMaker) else None

    def are_plain(self, values: Collection[object]) -> bool:
        """Whether values are plain as a whole.

        Where they are too deep, those in them are looked at again only below what was looked at here, so that
        a list that holds one list twice, and so on, takes no longer (see test_what_is_shared_is_cheap).
        """
        depth = len(self._open)
        if depth < self._looks_from:
            return False
        is_plain = are_plain(values)
        if is_plain is None:
            self._looks_from = depth + MAX_LEVELS
        return bool(is_plain)

    def count_object(self) -> None:
        """Count an object of an ordinary class."""
        self._objects += 1
        if self._objects > MAX_OBJECTS:
            raise TooLargeError

    def doubt(self, value: object, reason: str) -> None:
        """Note that other objects of the class may have the same form."""
        self.unknown.setdefault(type_name(type(value)), reason)

    def attributes(self, attributes: Mapping[str, object]) -> bytes:
        """Return the form of attributes by name."""
        return b"".join(text_form(name) + self.form(attributes[name]) for name in sorted(attributes))


def unstable_form(writer: FormWriter, value: object) -> bytes:
    """The form of an object about which nothing is known but its type."""
    writer.unstable.append(value)
    writer.doubt(value, "has no state that is known")
    return sized(b"?", type_name(type(value)).encode())
