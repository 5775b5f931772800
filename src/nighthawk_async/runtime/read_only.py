"""Read-only data for hooks and oversight: only their answers change anything. Pure.

They are dictionaries and lists in everything else: JSON can hold them, and their copies are plain.
"""

from collections.abc import Mapping
from typing import Any, NoReturn, TypeAlias, cast

__all__ = ["deeply_read_only", "read_only"]

_Unfilled: TypeAlias = tuple[object, Any, int]  # a dictionary or list, its empty copy, how deep it stands

_MAX_DEPTH = 10_000
_put, _append = vars(dict)["__setitem__"], vars(list)["append"]
"""What read-only copies are filled with; their own methods refuse."""


def read_only(mapping: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a mapping that cannot be changed in place; what it holds can.

    Args:
        mapping: Any mapping.
    """
    return _ReadOnlyDict(mapping)


def deeply_read_only(mapping: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a mapping that cannot be changed in place, and neither can dictionaries and lists in it.

    It may be nested as deep as a parser of JSON takes it, deeper than Python's own functions call each other.

    Args:
        mapping: A mapping of what JSON can hold.

    Raises:
        RecursionError: It holds itself, or is nested deeper than any parser takes it.
    """
    copy = _ReadOnlyDict()
    to_fill: list[_Unfilled] = [(mapping, copy, 1)]
    while to_fill:
        source, target, depth = to_fill.pop()
        if depth > _MAX_DEPTH:
            raise RecursionError(f"nested deeper than {_MAX_DEPTH:,} levels")
        if type(target) is _ReadOnlyDict:
            for name, member in cast("Mapping[object, object]", source).items():
                _put(target, name, _begin_copy(member, depth, to_fill))
        else:
            for member in cast("list[object]", source):
                _append(target, _begin_copy(member, depth, to_fill))
    return copy


def _begin_copy(member: object, depth: int, to_fill: list[_Unfilled]) -> object:
    """Return the stand-in for a member at a depth; a copy is still to be filled."""
    is_mapping = isinstance(member, Mapping)
    if not is_mapping and not isinstance(member, list | tuple):
        return member
    copy = _ReadOnlyDict() if is_mapping else _ReadOnlyList()
    to_fill.append((cast("object", member), copy, depth + 1))
    return copy


def _refuse(self: object, *args: object, **kwargs: object) -> NoReturn:
    raise TypeError(
        "what hooks and oversight are told is read-only: answer Modify(…), or Rewrite(…), with a changed copy"
    )


def _read_only_type(plain: type, *names: str) -> Any:
    methods: dict[str, Any] = dict.fromkeys(names, _refuse)

    def reduce_to_plain(self: object) -> tuple[type, tuple[object]]:
        return plain, (plain(self),)

    methods["__reduce__"] = reduce_to_plain  # for copies, and for pickles
    return type(f"ReadOnly{plain.__name__.title()}", (plain,), {"__slots__": (), **methods})


_IN_BOTH = ("__setitem__", "__delitem__", "clear", "pop")
_ReadOnlyDict = _read_only_type(dict, *_IN_BOTH, "__ior__", "popitem", "setdefault", "update")
_ReadOnlyList = _read_only_type(
    list, *_IN_BOTH, "__iadd__", "__imul__", "append", "extend", "insert", "remove", "reverse", "sort"
)
