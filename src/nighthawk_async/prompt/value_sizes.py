"""A lower bound of the tokens of a value, from lengths alone: what surely does not fit is not written first.

The bound costs a hundredth of writing the value. No code of the value runs.
"""

from collections.abc import Iterable
from itertools import repeat
from typing import Any

from ..secret_names import hides_value
from .containers import OPENERS, is_object_type, take
from .frames import is_frame_type
from .identities import LineObjects
from .plain_text import class_of
from .scalars import SCALARS
from .walk import CHARACTERS_PER_CELL, MAX_DEPTH

_FEWEST_TOKENS: dict[int, int] = {id(int): 2, id(float): 3, id(bool): 2, id(type(None)): 2}
"""The fewest tokens of a scalar and of what stands between it and the next: no tokenizer joins digits or
letters with commas. Guarded by `test_value_sizes.test_the_bound_is_never_more_than_the_tokens`."""

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
    while left and total <= most:
        each, depth = left.pop()
        total += 1
        if id(each) in seen or depth > MAX_DEPTH:
            continue
        seen.add(id(each))
        cls = class_of(each)
        has_keys, pairs = _held(each, cls, objects, most + 1 - total)
        for key, item in pairs:
            kind = id(class_of(item))
            known = _FEWEST_TOKENS.get(kind)
            if known is not None:
                total += known
            elif class_of(item) is str:
                total += 2 if item[:1].isalnum() else 1
                if not has_keys:  # others may be hidden
                    total += len(item) // CHARACTERS_PER_CELL
            elif kind in SCALARS:
                total += 1
            elif not (has_keys and hides_value(key, item)):
                left.append((item, depth + 1))
    return total


def _held(value: Any, cls: type, objects: LineObjects, most: int) -> tuple[bool, Iterable[tuple[Any, Any]]]:
    """Whether a value has keys, and its first entries; nothing of a value that is of no known kind."""
    if cls is dict:
        return True, take(value.items(), most)
    if cls is list or cls is tuple:
        return False, zip(repeat(None), take(value, most))
    if id(cls) in SCALARS or id(cls) in OPENERS or not is_object_type(cls) or objects.is_elsewhere(value):
        return False, ()
    return True, objects.fields(value, cls).items()
