"""Comparison of two values in type, content and structure, which is stricter than `==`.

1 is not True, 0.0 is not -0.0, and what is not a number is the same as itself. The order of a dictionary, the
fields that were given to a model, its private attributes, and which parts are one object, all count.
"""

from collections import Counter, OrderedDict, defaultdict, deque
from math import copysign
from typing import Any, cast

import msgspec

from ..prompt.plain_text import class_of
from .registered_types import registered
from .value_leaves import LEAVES, SCALARS, SEQUENCES
from .value_shapes import slots_of
from .value_types import KnownTypes

_EXACT = (SCALARS - {float}) | {int}
"""The types whose values are the same when they are equal."""

_DICTIONARIES = (dict, OrderedDict, Counter, defaultdict)


class Comparison:
    """Compares two values.

    Args:
        known: The classes that the declared type allows.
    """

    def __init__(self, known: KnownTypes) -> None:
        self._known = known
        self._pairs: dict[int, int] = {}  # containers and objects that were compared, by id
        self._back: dict[int, int] = {}
        self._kept: list[object] = []  # what was made here, so that no id is used twice

    def is_same(self, value: Any, other: Any) -> bool:
        """Whether two values are the same."""
        kind = class_of(value)
        if type(other) is not kind:
            return False
        if kind in _EXACT:
            return value == other
        if kind is float:
            is_equal = value == other and copysign(1, value) == copysign(1, other)
            return is_equal or (value != value and other != other)
        if kind in LEAVES:
            dump = LEAVES[kind].dump
            return msgspec.msgpack.encode(dump(value)) == msgspec.msgpack.encode(dump(other))
        if (is_pair := self._pair(value, other, kind)) is not None:
            return is_pair
        if kind is list:
            return len(value) == len(other) and all(map(self.is_same, value, other))
        if kind in _DICTIONARIES:
            return self._are_same_items(value, other, kind)
        if kind is set or kind is frozenset:
            return self._are_same_members(value, other)
        if kind in SEQUENCES:
            return self.is_same(
                self._keep(SEQUENCES[kind].parts(value)), self._keep(SEQUENCES[kind].parts(other))
            )
        if kind is deque:
            return (
                value.maxlen == other.maxlen
                and len(value) == len(other)
                and all(map(self.is_same, value, other))
            )
        return self._are_same_objects(value, other, kind)

    def _pair(self, value: object, other: object, kind: type) -> bool | None:
        """Whether two objects stand at the same places of their values; None when they are new."""
        shape = self._known.shapes.get(kind)
        sequence = SEQUENCES.get(kind)
        if (shape is not None and not shape.is_shared) or (sequence is not None and not sequence.is_shared):
            return None
        here, there = id(value), id(other)
        if here in self._pairs or there in self._back:
            return self._pairs.get(here) == there and self._back.get(there) == here
        self._pairs[here], self._back[there] = there, here
        return None

    def _keep(self, made: Any) -> Any:
        self._kept.append(made)
        return made

    def _are_same_items(self, value: Any, other: Any, kind: type) -> bool:
        if kind is defaultdict and value.default_factory is not other.default_factory:
            return False
        if len(value) != len(other):
            return False
        for (key, each), (other_key, other_each) in zip(value.items(), other.items(), strict=True):
            if not (self.is_same(key, other_key) and self.is_same(each, other_each)):
                return False
        return True

    def _are_same_members(self, value: Any, other: Any) -> bool:
        """Whether two sets have the same members; those that are not equal to themselves in order."""
        found = {each: each for each in other}
        nameless = [each for each in value if each not in found]
        others = [each for each in other if each not in value]
        return (
            len(value) == len(other)
            and all(self.is_same(each, found[each]) for each in value if each in found)
            and len(nameless) == len(others)
            and all(map(self.is_same, nameless, others))
        )

    def _are_same_objects(self, value: Any, other: Any, kind: type[Any]) -> bool:
        shape = self._known.shapes.get(kind)
        if shape is not None and not shape.is_foreign:
            fields, rest = shape.parts(value)
            other_fields, other_rest = shape.parts(other)
            self._kept += [rest, other_rest]
            return self._are_same_parts(fields, other_fields) and self._are_same_parts(rest, other_rest)
        if kind in registered:
            return is_equal(value, other) or self.is_same(
                self._keep(registered[kind].dump(value)), self._keep(registered[kind].dump(other))
            )
        return self._are_same_foreign(value, other, kind)

    def _are_same_parts(self, parts: dict[str, object], others: dict[str, object]) -> bool:
        if parts.keys() != others.keys():
            return False
        for name, each in parts.items():
            other = others[name]
            if type(each) in _EXACT and type(each) is type(other):
                if each != other:
                    return False
            elif not self.is_same(each, other):
                return False
        return True

    def _are_same_foreign(self, value: Any, other: Any, kind: type[Any]) -> bool:
        """Whether two objects say that they are equal, if they say anything, and hold the same."""
        equals, usual = cast("tuple[object, object]", (kind.__eq__, object.__eq__))
        if equals is not usual and not is_equal(value, other):
            return False
        held = [_held(value), _held(other)]
        self._kept += held
        if equals is usual and not held[0]:
            return False  # nothing is known of it
        return self._are_same_parts(held[0], held[1])


def is_equal(value: Any, other: Any) -> bool:
    """Whether a value says that it is equal to another one."""
    try:
        return (value == other) is True
    except Exception:  # code of the user's types may raise anything, which counts as no
        return False


def _held(value: object) -> dict[str, object]:
    """Everything that the attributes and slots of an object hold."""
    slots = {name: getattr(value, name) for name in slots_of(type(value)) if hasattr(value, name)}
    return {**getattr(value, "__dict__", {}), **slots}
