"""What hooks are told and cannot change in place: only the answer `Modify` changes anything. Floor 3. Pure.

They are dictionaries and lists in everything else: JSON can hold them, and their copies are plain.
"""

from collections.abc import Mapping
from typing import Any, NoReturn, cast

__all__ = ["deeply_read_only", "read_only"]


def read_only(mapping: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a mapping that cannot be changed in place; what it holds can.

    Args:
        mapping: Any mapping.
    """
    return _ReadOnlyDict(mapping)


def deeply_read_only(mapping: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a mapping that cannot be changed in place, and neither can dictionaries and lists in it.

    Args:
        mapping: A mapping of what JSON can hold.

    Raises:
        RecursionError: It is nested too deep, or holds itself.
    """
    return _ReadOnlyDict({name: _frozen(value) for name, value in mapping.items()})


def _frozen(value: object) -> object:
    if isinstance(value, Mapping):
        members = cast("Mapping[object, object]", value).items()
        return _ReadOnlyDict({name: _frozen(member) for name, member in members})
    if isinstance(value, list | tuple):
        return _ReadOnlyList(map(_frozen, cast("list[object]", value)))
    return value


def _refuse(self: object, *args: object, **kwargs: object) -> NoReturn:
    raise TypeError("what a hook is told is read-only: answer Modify(…) with a changed copy")


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
