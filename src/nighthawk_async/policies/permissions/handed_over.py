"""Arguments of a call that others might call: callables, also those inside of data.

Iterators are not looked into, and neither are objects of the program.
"""

import collections
import types
from collections.abc import Iterator
from itertools import chain
from typing import Any, Union, cast

__all__ = ["callables_in"]

_EMPTY: dict[str, object] = {}
_VIEWS: tuple[type, ...] = (type(_EMPTY.keys()), type(_EMPTY.values()), type(_EMPTY.items()))
_CONTAINERS: tuple[type, ...] = (list, tuple, set, frozenset, dict, collections.deque, *_VIEWS)
_TYPES: tuple[Any, ...] = (types.GenericAlias, types.UnionType, type(cast("object", Union[int, "str"])))
"""The types of `list[Order]` and `Order | None`, in which other classes stand."""

_ROWS: set[type] = {list, tuple, set, frozenset}
"""Containers that are looked into many at a time."""


def callables_in(value: object) -> Iterator[object]:
    """A value that can be called, and those in lists, tuples, sets and dictionaries, at any depth.

    The views of dictionaries are looked into as well.
    """
    left, seen = [value], set[int]()
    while left:
        each = left.pop()
        if callable(each):
            yield each
        if (items := _items(each)) and id(each) not in seen:
            seen.add(id(each))
            left.extend(_worth_a_look(items))


def _items(value: object) -> list[object]:
    """Return the items of a container, keys included, whatever a subclass shows; none of anything else."""
    base = next((each for each in _CONTAINERS if isinstance(value, each)), None)
    if base is None:
        return list(getattr(value, "__args__", ())) if isinstance(value, _TYPES) else []
    of_base = cast("Any", base)
    items = list(of_base.__iter__(value))
    return [*items, *of_base.values(value)] if base is dict else items


def _worth_a_look(items: list[object]) -> list[object]:
    """Those that can be called or hold others; quick for many of few types."""
    samples = dict(zip(map(type, items), items, strict=True))
    kinds = {
        kind for kind, item in samples.items() if callable(item) or isinstance(item, (*_CONTAINERS, *_TYPES))
    }
    kept = [item for item in items if type(item) in kinds] if kinds else []
    return kept if kinds - _ROWS or _is_of_interest_in(kept) else []


def _is_of_interest_in(rows: list[object]) -> bool:
    """Whether there is anything in the rows of a table that can be called or holds others."""
    kinds = set(map(type, chain.from_iterable(cast("list[list[object]]", rows))))
    return any(
        issubclass(kind, (*_CONTAINERS, *_TYPES)) or any("__call__" in vars(each) for each in kind.__mro__)
        for kind in kinds
    )
