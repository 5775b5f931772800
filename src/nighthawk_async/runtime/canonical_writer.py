"""The writer of one canonical form: it knows what is open, what is too large, and what has no form."""

import hashlib
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias, cast

from ..pickling import PicklableError
from .canonical_leaves import LEAVES, sized, text_form
from .canonical_names import type_name

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


_NOWHERE = sys.maxsize
_LONGEST = 1024
"""The greatest number of bytes of a form within another one: of a longer one there is the digest."""


_Known: TypeAlias = tuple[object, bytes, tuple[object, ...]]
"""What was written, which keeps its address from others; its form; what has none in it."""


def _digest(form: bytes) -> bytes:
    return hashlib.sha256(form).digest()


class TooLargeError(PicklableError):
    """A value is too large, or too deep, to have a form."""


class FormWriter:
    """Writes the form of one value, each object in it once.

    A form depends on nothing but the value, so that two equal objects have the same one as one object that is
    held twice. Objects that hold each other have digests that are found in rounds: in each one, an object
    counts by its own content and by what those that it holds had counted as in the round before.

    Args:
        maker_of: Returns the function that writes the values of a type.

    Attributes:
        unstable: The objects in it that have no form; their types alone count.
        unknown: The names of classes whose instances may differ in something that is not in the form.
    """

    __slots__ = (
        *("_circle", "_depth", "_known", "_lowest", "_maker_of", "_objects", "_open", "_positions"),
        *("unknown", "unstable"),
    )

    def __init__(self, maker_of: Callable[[type[Any]], Maker]) -> None:
        self._maker_of = maker_of
        self._known: dict[int, _Known] = {}
        self._open: list[object] = []  # what is being written, or holds something that is
        self._positions: dict[int, int] = {}  # of these, by their addresses
        self._lowest = _NOWHERE  # the position of the first of these that the present one refers to
        self._circle: dict[int, bytes] | None = None  # what the objects of a circle count as in a round
        self._depth = 0
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
        key = id(value)
        if self._circle is not None and (form := self._circle.get(key)) is not None:
            return form
        known = self._known.get(key)
        if known is not None:
            _, form, unstable = known
            if unstable:
                self._note_unstable(unstable)
            return form
        position = self._positions.get(key)
        if position is not None:
            self._lowest = min(self._lowest, position)
            return b"^"
        if self._depth >= MAX_DEPTH or len(self._known) > MAX_NODES:
            raise TooLargeError
        self._depth += 1
        try:
            if self._circle is not None:  # made by the maker of another object, so nothing else refers to it
                form = self._maker_of(kind)(self, value)
                return form if len(form) <= _LONGEST else b"*" + _digest(form)
            return self._write(kind, key, value)
        finally:
            self._depth -= 1

    def _write(self, kind: type[Any], key: int, value: object) -> bytes:
        """Write a value for the first time; see Tarjan's algorithm for what refers to each other."""
        outer, self._lowest = self._lowest, _NOWHERE
        position, first = len(self._open), len(self.unstable)
        self._positions[key] = position
        self._open.append(value)
        form = self._maker_of(kind)(self, value)
        lowest, self._lowest = self._lowest, outer
        if lowest < position:  # its form is written with that of what it refers to
            self._lowest = min(outer, lowest)
            return b"^"
        unstable = tuple(self.unstable[first:]) if len(self.unstable) > first else ()
        if lowest == _NOWHERE:
            self._open.pop()
            del self._positions[key]
            form = form if len(form) <= _LONGEST else b"*" + _digest(form)
            self._known[key] = value, form, unstable
            return form
        members = self._open[position:]
        del self._open[position:]
        for each, digest in zip(members, self._rounds(members), strict=True):
            del self._positions[id(each)]
            self._known[id(each)] = each, b"^" + digest, unstable
        return self._known[key][1]

    def _rounds(self, members: list[object]) -> list[bytes]:
        """The digests of objects that hold each other.

        When a further round tells no more of them apart, what each kind of them had counted as, and what it
        is in these terms, says everything of the circle (see test_circles_differ_by_what_is_in_them).
        """
        before, count = [b""] * len(members), 1
        while True:
            self._circle = {id(each): b"^" + digest for each, digest in zip(members, before, strict=True)}
            digests = [_digest(self._maker_of(type(each))(self, each)) for each in members]
            if len(set(digests)) == count:
                break
            before, count = digests, len(set(digests))
        self._circle = None
        circle = b"".join(sorted({known + digest for known, digest in zip(before, digests, strict=True)}))
        return [_digest(digest + circle) for digest in digests]

    def forms(self, values: Iterable[object]) -> bytes:
        """Return the forms of several values, one after the other, and their number."""
        forms = list(map(self.form, values))
        return b"%d:%b" % (len(forms), b"".join(forms))

    def rows_of(self, kind: type[Any], values: list[Any]) -> bytes | None:
        """Return the form of several values of one class at once; None where each has its own form."""
        maker = self._maker_of(kind)
        return maker.rows(values) if isinstance(maker, RowsMaker) else None

    def count_object(self) -> None:
        """Count an object of an ordinary class."""
        self._objects += self._circle is None
        if self._objects > MAX_OBJECTS:
            raise TooLargeError

    def note_unstable(self, value: object) -> None:
        """Note an object of which the type alone counts."""
        self._note_unstable((value,))

    def _note_unstable(self, values: tuple[object, ...]) -> None:
        if self._circle is None:
            self.unstable += values
            if len(self.unstable) > MAX_NODES:
                raise TooLargeError

    def doubt(self, value: object, reason: str) -> None:
        """Note that other objects of the class may have the same form."""
        self.unknown.setdefault(type_name(type(value)), reason)

    def attributes(self, attributes: Mapping[str, object]) -> bytes:
        """Return the form of attributes by name."""
        return b"".join(text_form(name) + self.form(attributes[name]) for name in sorted(attributes))


def unstable_form(writer: FormWriter, value: object) -> bytes:
    """The form of an object about which nothing is known but its type."""
    writer.note_unstable(value)
    writer.doubt(value, "has no state that is known")
    return sized(b"?", type_name(type(value)).encode())
