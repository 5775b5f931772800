"""The ends of large containers, and the facts about their numbers, for values that are not shown whole.

Only the facts about numbers need more items than a preview shows: the least, the greatest and the mean, of up
to `MOST_NUMBERS`. No code of the values runs: only exact numbers of Python, and arrays and frames of the
libraries' own types, are computed with.
"""

import math
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import islice
from operator import ne
from typing import Any

from msgspec import Struct

from ..types.json import JsonableValue
from .plain_text import KEY_MARK, class_of, has_base, kinds_of

MOST_NUMBERS = 200_000
"""The greatest number of Python's numbers that are looked at: 10 ms."""

_MOST_ARRAY_NUMBERS = 5_000_000
"""The same for numbers in an array."""

_NUMBER_BITS = 1_000
_DIGITS = 6


class Numbers(Struct, frozen=True):
    """The least and the greatest of many numbers, and their mean; of items that are no numbers, how many.

    Args:
        least: The least number; None where there is none.
        most: The greatest.
        mean: Their mean; None where one is infinite.
        others: The number of items of each other kind: `NaN`, `None`.
    """

    least: float | None = None
    most: float | None = None
    mean: float | None = None
    others: Mapping[str, int] = {}

    def text(self) -> str:
        """The facts, on one line."""
        facts = (("min", self.least), ("max", self.most), ("mean", self.mean))
        shown = [f"{name} {_plain(number)}" for name, number in facts if number is not None]
        return ", ".join([*shown, *(f"{count:,} {name}" for name, count in self.others.items() if count)])


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
_UNORDERED: tuple[Any, ...] = (set, frozenset)


def _base(kind: type, bases: Iterable[Any]) -> Any:
    """The first of some classes from which a class inherits, whose own methods are safe to call."""
    return next((base for base in bases if has_base(kind, base)), None)


def numbers_of(value: Any) -> Numbers | None:
    """The facts about the items of a list, tuple, deque or set, or the values of a dictionary, all numbers.

    Args:
        value: Any value. None for one with other items, or too many.
    """
    kind = class_of(value)
    base = _base(kind, (*_SLICED, *_REVERSED, *_UNORDERED))
    mapping: Any = dict if base is None and has_base(kind, dict) else None
    if (base or mapping) is None or (base or mapping).__len__(value) > MOST_NUMBERS:
        return None
    try:
        items: list[Any] = list(base.__iter__(value) if base else mapping.values(value))
        kinds = kinds_of(items)
        if not kinds <= _NUMBER_TYPES or kinds <= _NOTHING:
            return None
        if not kinds <= _PLAIN_TYPES:
            items = list(map(_as_plain, items))
        return _facts(items, is_whole=kinds <= _WHOLE)
    except (OverflowError, RuntimeError):  # greater than any float; changed by another thread
        return None


_PLAIN_TYPES = frozenset(map(id, (int, float)))
_WHOLE = frozenset({id(int)})
_NOTHING = frozenset({id(type(None))})
_NUMBER_TYPES = _PLAIN_TYPES | _NOTHING | frozenset(map(id, (Decimal, Fraction)))


def _as_plain(number: Any) -> Any:
    if type(number) is Decimal:
        return math.nan if number.is_nan() else float(number)
    return float(number) if type(number) is Fraction else number


def _facts(items: Sequence[Any], *, is_whole: bool) -> Numbers | None:
    numbers = items if is_whole or None not in items else [each for each in items if each is not None]
    has_nan = not is_whole and any(map(ne, numbers, numbers))
    kept = [each for each in numbers if each == each] if has_nan else numbers
    others = {"NaN": len(numbers) - len(kept), "None": len(items) - len(numbers)}
    if not kept:
        return Numbers(others=others)
    least, most = min(kept), max(kept)
    if any(type(each) is int and each.bit_length() > _NUMBER_BITS for each in (least, most)):
        return None
    if not (math.isfinite(least) and math.isfinite(most)):
        return Numbers(least, most, None, others)
    return Numbers(least, most, _mean(kept, is_whole=is_whole), others)


def _mean(numbers: Sequence[Any], *, is_whole: bool) -> float:
    """The mean of finite numbers. Before Python 3.12, `sum` loses digits of floats."""
    if is_whole:
        return sum(numbers) / len(numbers)
    try:
        return math.fsum(numbers) / len(numbers)
    except OverflowError:  # the sum is greater than any float
        return math.fsum(each / len(numbers) for each in numbers)


def numbers_of_array(array: Any, numpy: Any) -> Numbers | None:
    """The same for an array.

    Args:
        array: An array of exactly the library's own type.
        numpy: The module.
    """
    if array.dtype.kind not in "iuf" or not 0 < array.size <= _MOST_ARRAY_NUMBERS:
        return None
    others: dict[str, int] = {}
    if array.dtype.kind == "f" and (missing := int(numpy.isnan(array).sum())):
        array, others = array[~numpy.isnan(array)], {"NaN": missing}
        if not array.size:
            return Numbers(others=others)
    with numpy.errstate(all="ignore"):
        mean = float(array.mean(dtype="float64"))
        if math.isinf(mean):  # of the sum, perhaps
            mean = float((array / array.size).sum(dtype="float64"))
    return Numbers(array.min().item(), array.max().item(), mean if math.isfinite(mean) else None, others)


def rows_of_numbers(columns: Iterable[Callable[[], Numbers | None]]) -> dict[str, list[JsonableValue]]:
    """The facts about the columns of a frame as rows, by their names; empty when no column has numbers.

    Args:
        columns: Gives the facts of each column.
    """
    facts = [find() for find in columns]
    if not any(facts):
        return {}
    return {
        "min": [None if each is None else _short(each.least) for each in facts],
        "max": [None if each is None else _short(each.most) for each in facts],
        "mean": [None if each is None else _short(each.mean) for each in facts],
    }


def _short(number: float | None) -> JsonableValue:
    if number is None or not math.isfinite(number):
        return None if number is None else ("Infinity" if number > 0 else "-Infinity")
    return short_number(number)
