"""Canonical forms of objects of classes that declare fields: data classes, models, structs."""

from collections.abc import Callable, Mapping
from itertools import chain
from operator import itemgetter
from typing import Any

from .canonical_classes import class_form
from .canonical_leaves import sized, text_form
from .canonical_objects import Fields
from .canonical_plain import ENCODER, UNENCODABLE, are_plain
from .canonical_writer import FormWriter, RowsMaker
from .mutable_state import reader_of_variables


class FieldsMaker(RowsMaker):
    """Writes the objects of one class.

    Args:
        kind: The class.
        fields: The fields of its objects.
    """

    def __init__(self, kind: type[Any], fields: Fields) -> None:
        names = fields.names
        self._read = fields.read
        self._read_given = fields.read_given
        self._names = names
        self._class = class_form(kind)
        self._start = self._class + b"".join(map(text_form, names))
        self._variables = reader_of_variables(kind, names) if fields.are_held else None
        self._row: Callable[[Mapping[str, object]], tuple[object, ...]] = (
            itemgetter(*names) if len(names) > 1 else lambda fields: tuple(fields[name] for name in names)
        )

    def __call__(self, writer: FormWriter, value: Any) -> bytes:
        """Return the form of an object."""
        fields, hides = self._read(value)
        if hides:
            writer.doubt(value, f"has private state that does not count: {', '.join(hides)}")
        if len(fields) == len(self._names):
            try:
                values = self._row(fields)
                if are_plain(values):
                    return b"P" + self._start + sized(b"l", ENCODER.encode(values)) + self._given(value)
            except (KeyError, *UNENCODABLE):
                pass
        form = b"S" + self._class + b"%d:" % len(fields) + writer.attributes(fields)
        return form + self._given(value)

    def _given(self, value: Any) -> bytes:
        """The fields that were given to a model, which decide what it dumps; nothing for all of them."""
        if self._read_given is None:
            return b""
        given = self._read_given(value)
        missing = [name for name in self._names if name not in given]
        return b"%d:%b" % (len(missing), b"".join(map(text_form, missing)))

    def rows(self, values: list[Any]) -> bytes | None:
        """Return the form of several objects that hold their fields alone, all of them plain."""
        if self._variables is None:
            return None
        held = list(map(self._variables, values))
        if {len(each) for each in held} != {len(self._names)}:
            return None
        try:
            rows = list(map(self._row, held))
        except KeyError:
            return None
        if not are_plain(list(chain.from_iterable(rows))):
            return None
        return sized(b"lP", self._start + ENCODER.encode(rows))
