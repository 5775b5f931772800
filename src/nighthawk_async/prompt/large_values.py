"""The ends of large containers, and the facts about their numbers, for values that are not shown whole.

Only the facts about numbers need more items than a preview shows: the least, the greatest and the mean, of up
to `MOST_NUMBERS`. No code of the values runs: only exact numbers of Python, and arrays and frames of the
libraries' own types, are computed with.
"""

import math
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any

from msgspec import Struct

from ..types.json import JsonableValue
from .plain_text import KEY_MARK, class_of, has_base

MOST_NUMBERS = 200_000
"""The greatest number of Python's numbers that are looked at: 10 ms."""

_MOST_ARRAY_NUMBERS = 5_000_000
"""The same for numbers in an array."""

_NUMBER_BITS = 1_000
_DIGITS = 6


class Numbers(Struct, frozen=True):
    """The least and the greatest of many numbers, and their mean; of numbers that are none, how many."""

    least: float
    most: float
    mean: float
    missing: int = 0

    def text(self) -> str:
        """The facts, on one line."""
        facts = (("min", self.least), ("max", self.most), ("mean", self.mean))
        missing = f", {self.missing:,} NaN" if self.missing else ""
        return ", ".join(f"{name} {_plain(number)}" for name, number in facts) + missing


def short_number(number: float) -> JsonableValue:
    """A number in six significant digits, marked where that is not all of it; an integer whole.

    Args:
        number: A finite number.
    """
    if type(number) is int:
        return number
    text = f"{number:.{_DIGITS}g}"
    return number if float(text) == number else f"{KEY_MARK}{text}…"


def _plain(number: float) -> str:
    if type(number) is int:
        return str(number)
    text = f"{number:.{_DIGITS}g}"
    return repr(number) if float(text) == number else f"{text}…"


def last_items(value: Any, count: int) -> list[Any]:
    """The last items of a list, a tuple, a deque or a dictionary in their order; pairs of a dictionary.

    Args:
        value: Any value; others have none.
        count: The number of items.
    """
    kind = class_of(value)
    try:
        if (base := _base(kind, _SLICED)) is not None:
            length: int = base.__len__(value)
            return base.__getitem__(value, slice(max(0, length - count), length))
        if (base := _base(kind, _REVERSED)) is not None:
            return _backwards(base.__reversed__(value), count)
        if has_base(kind, dict):
            mapping: Any = OrderedDict if kind is OrderedDict else dict
            return _backwards(reversed(mapping.items(value)), count)
    except RuntimeError:  # another thread changed the container
        pass
    return []


def _backwards(items: Iterable[Any], count: int) -> list[Any]:
    return list(islice(items, count))[::-1]


_SLICED: tuple[Any, ...] = (list, tuple)
_REVERSED: tuple[Any, ...] = (deque,)


def _base(kind: type, bases: Iterable[Any]) -> Any:
    """The first of some classes from which a class inherits, whose own methods are safe to call."""
    return next((base for base in bases if has_base(kind, base)), None)


def numbers_of(value: Any) -> Numbers | None:
    """The facts about the items of a list, a tuple or a deque, or the values of a dictionary, all numbers.

    Args:
        value: Any value. None for one with other items, or too many.
    """
    kind = class_of(value)
    base = _base(kind, (*_SLICED, *_REVERSED))
    mapping: Any = dict if base is None and has_base(kind, dict) else None
    if (base or mapping) is None or (base or mapping).__len__(value) > MOST_NUMBERS:
        return None
    try:
        items: list[Any] = list(base.__iter__(value) if base else mapping.values(value))
        return _facts(items) if {id(class_of(each)) for each in items} <= _NUMBER_TYPES else None
    except (OverflowError, RuntimeError):  # greater than any float; changed by another thread
        return None


_NUMBER_TYPES = frozenset(map(id, (int, float)))


def _facts(items: Sequence[float]) -> Numbers | None:
    kept = [each for each in items if each == each] if any(each != each for each in items) else items
    if not kept:
        return None
    least, most = min(kept), max(kept)
    if any(type(each) is int and each.bit_length() > _NUMBER_BITS for each in (least, most)):
        return None
    mean = sum(kept) / len(kept) if math.isfinite(least) and math.isfinite(most) else math.nan
    return Numbers(least, most, mean, len(items) - len(kept)) if math.isfinite(mean) else None


def numbers_of_array(array: Any, numpy: Any) -> Numbers | None:
    """The same for an array.

    Args:
        array: An array of exactly the library's own type.
        numpy: The module.
    """
    if array.dtype.kind not in "iuf" or not 0 < array.size <= _MOST_ARRAY_NUMBERS:
        return None
    missing = 0
    if array.dtype.kind == "f":
        array = array[numpy.isfinite(array)] if (missing := int((~numpy.isfinite(array)).sum())) else array
        if not array.size:
            return None
    with numpy.errstate(all="ignore"):
        mean = float(array.mean(dtype="float64"))
    return Numbers(array.min().item(), array.max().item(), mean, missing) if math.isfinite(mean) else None


def rows_of_numbers(columns: Iterable[Callable[[], Numbers | None]]) -> dict[str, list[JsonableValue]]:
    """The facts about the columns of a frame as rows, by their names; empty when no column has numbers.

    Args:
        columns: Gives the facts of each column.
    """
    facts = [find() for find in columns]
    if not any(facts):
        return {}
    return {
        "min": [None if each is None else short_number(each.least) for each in facts],
        "max": [None if each is None else short_number(each.most) for each in facts],
        "mean": [None if each is None else short_number(each.mean) for each in facts],
    }
