"""A lower bound of the tokens of a value, from lengths alone: what surely does not fit is not written first.

The bound costs a hundredth of writing the value. No code of the value runs.
"""

from collections.abc import Iterable
from itertools import chain
from typing import Any

from ..secret_names import hides_value
from .containers import take
from .frames import is_frame_type
from .identities import LineObjects
from .plain_text import class_of, kinds_of
from .scalars import SCALARS
from .walk import CHARACTERS_PER_CELL, MAX_DEPTH

_FEWEST_TOKENS: dict[int, int] = {
    **dict.fromkeys(SCALARS, 1),
    **{id(int): 2, id(float): 3, id(bool): 2, id(type(None)): 2},
}
"""The fewest tokens of a scalar and of what stands between it and the next: no tokenizer joins digits or
letters with commas. Guarded by `test_value_sizes.test_the_bound_is_never_more_than_the_tokens`."""

_STRING = id(str)
_DICTIONARIES = {id(dict)}
_NUMBERS = _FEWEST_TOKENS.keys() - {_STRING}

_MOST_TOKENS_ON_THE_LOOP = 1_500
"""Values that have more take several milliseconds to write."""


def take_long(values: Iterable[object]) -> bool:
    """Whether writing values may take more than a few milliseconds: large ones do, and frames and arrays.

    Args:
        values: Any values.
    """
    objects = LineObjects.alone()
    left = _MOST_TOKENS_ON_THE_LOOP
    for value in values:
        left -= fewest_tokens(value, most=left, objects=objects)
        if left < 0 or is_frame_type(class_of(value)):
            return True
    return False


def fewest_tokens(value: object, *, most: int, objects: LineObjects) -> int:
    """A number of tokens that a value surely has when it is shown whole.

    Args:
        value: Any value.
        most: The number of tokens from which on the answer is of no interest.
        objects: The objects of the line; those that another line shows are only named.

    Returns:
        The number; when it is greater than `most`, not all was visited.
    """
    total = 0
    left: list[tuple[Any, int]] = [(value, 0)]
    seen: set[int] = set()
    while left and total + len(left) <= most:  # what is left has a token each, or more
        each, depth = left.pop()
        total += 1
        if id(each) in seen or depth > MAX_DEPTH:
            continue
        seen.add(id(each))
        cls = class_of(each)
        if cls is list or cls is tuple:
            total += _add_items(each, depth, left, seen, most - total)
            continue
        for key, item in _fields(each, cls, objects, most + 1 - total):
            kind = id(class_of(item))
            known = _FEWEST_TOKENS.get(kind)
            if kind == _STRING:
                total += 2 if item[:1].isalnum() else 1  # no matter how long: it may be hidden
            elif known is not None:
                total += known
            elif not hides_value(key, item):
                left.append((item, depth + 1))
    return total + len(left)


def _add_items(
    value: list[Any] | tuple[Any, ...], depth: int, left: list[tuple[Any, int]], seen: set[int], most: int
) -> int:
    """The fewest tokens of the scalars in a list or a tuple; other items come to those that are left."""
    if len(value) > most:
        return most + 1
    items = take(value, most)
    kinds = kinds_of(items)
    if kinds <= _NUMBERS:
        return _tokens_of(items, kinds)
    if kinds == _DICTIONARIES and depth < MAX_DEPTH:
        tokens = _tokens_of_rows(items, seen, most)
        if tokens is not None:
            return tokens
    total = 0
    for item in items:
        kind = id(class_of(item))
        known = _FEWEST_TOKENS.get(kind)
        if kind == _STRING:
            total += (2 if item[:1].isalnum() else 1) + len(item) // CHARACTERS_PER_CELL
        elif known is not None:
            total += known
        else:
            left.append((item, depth + 1))
    return total


def _tokens_of_rows(rows: list[dict[Any, Any]], seen: set[int], most: int) -> int | None:
    """The fewest tokens of dictionaries of scalars; None for others, and where one is there twice."""
    identities = set(map(id, rows))
    if len(identities) < len(rows) or not identities.isdisjoint(seen):
        return None
    values = take(chain.from_iterable(map(dict[Any, Any].values, rows)), most)
    kinds = kinds_of(values)
    if not kinds <= _FEWEST_TOKENS.keys() | {_STRING}:
        return None
    seen |= identities
    if len(rows) + len(values) > most:
        return most + 1
    tokens = len(rows) + _tokens_of(values, kinds)
    if _STRING in kinds and tokens <= most:
        tokens += sum([each[:1].isalnum() for each in values if type(each) is str])
    return tokens


def _tokens_of(items: list[Any], kinds: set[int]) -> int:
    """The fewest tokens of scalars; one of each text."""
    if len(kinds) == 1:
        return len(items) * _FEWEST_TOKENS[next(iter(kinds))]
    return sum(map(_FEWEST_TOKENS.__getitem__, map(id, map(class_of, items))))


def _fields(value: Any, cls: type, objects: LineObjects, most: int) -> Iterable[tuple[Any, Any]]:
    """The first keys and values of a dictionary or an object; nothing of a value of no known kind."""
    if cls is dict:
        return take(value.items(), most)
    reader = objects.find_reader(cls)
    return () if reader is None or objects.is_elsewhere(value) else reader.fields(value).items()
