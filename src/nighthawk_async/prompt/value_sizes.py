"""A lower bound of the tokens of a value, from lengths alone: what surely does not fit is not written first.

The bound costs a hundredth of writing the value. No code of the value runs.
"""

from typing import Any

from ..secret_names import hides_value
from .containers import OPENERS, is_object_type
from .frames import is_frame_type
from .identities import LineObjects
from .plain_text import class_of
from .scalars import SCALARS

_SMALL_TYPES: dict[int, int] = {id(int): 2, id(float): 2, id(bool): 2, id(type(None)): 2}
"""The fewest tokens of a scalar and of what stands between it and the next; of any other, one."""

_CHARACTERS_PER_TOKEN = 16
_MAX_DEPTH = 48

MOST_TOKENS_ON_THE_LOOP = 1_500
"""A value that has more takes several milliseconds to write."""


def takes_long(value: object) -> bool:
    """Whether writing a value may take more than a few milliseconds: a large one, and any frame or array.

    Args:
        value: Any value.
    """
    cls = class_of(value)
    if id(cls) in SCALARS:
        return False
    most = MOST_TOKENS_ON_THE_LOOP
    return is_frame_type(cls) or fewest_tokens(value, most=most, objects=LineObjects.alone("")) > most


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
        if id(each) in seen or depth > _MAX_DEPTH:
            continue
        seen.add(id(each))
        cls = class_of(each)
        entries, items = _held(each, cls, objects)
        if len(items) > most:
            return total + len(items)
        has_keys = entries is not None
        for key, item in zip(entries or items, items, strict=True):
            kind = id(class_of(item))
            known = _SMALL_TYPES.get(kind)
            if known is not None:
                total += known
            elif kind in SCALARS:
                is_text = class_of(item) is str and not has_keys  # others may be hidden
                total += 1 + len(item) // _CHARACTERS_PER_TOKEN if is_text else 1
            elif not (has_keys and hides_value(key, item)):
                left.append((item, depth + 1))
    return total


def _held(value: Any, cls: type, objects: LineObjects) -> tuple[list[Any] | None, list[Any]]:
    """The keys of a value, if it has any, and what is under them; nothing of what is not of a known kind."""
    if cls is dict:
        return list(value), list(value.values())
    if cls is list or cls is tuple:
        return None, list(value)
    if id(cls) in SCALARS or id(cls) in OPENERS or not is_object_type(cls) or objects.is_elsewhere(value):
        return None, []
    fields = objects.fields(value, cls)
    return list(fields), list(fields.values())
