"""Attributes that are given once, and that no object holds.

Their values decide on what an object may do: the folder of a workspace, and whether it is writable. Code that
a model writes may hold the object. It finds no value to replace in it, in its `__dict__` or in its class.
"""

import weakref
from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")
_MISSING: Any = object()


class Sealed(Generic[T]):
    """An attribute that can be given once.

        class Folder(SealedState):
            root = Sealed[Path]()

    Args:
        default: The value of an object that was given none, such as one from an older pickle.
    """

    __slots__ = ("_get", "_name", "_set")

    def __init__(self, default: T = _MISSING) -> None:
        self._name = ""
        self._get, self._set = _values(default)

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> "Sealed[T]": ...
    @overload
    def __get__(self, instance: object, owner: type | None = None) -> T: ...
    def __get__(self, instance: object | None, owner: type | None = None) -> "Sealed[T] | T":
        if instance is None:
            return self
        value = self._get(instance)
        if value is _MISSING:
            raise AttributeError(f"{type(instance).__name__} has no {self._name} yet")
        return value

    def __set__(self, instance: object, value: T) -> None:
        if not self._set(instance, value):
            raise AttributeError(
                f"{self._name} of a {type(instance).__name__} cannot be changed; make another one"
            )
        if not self._name.startswith("_"):  # prompts show it from there; nothing reads it to decide
            vars(instance)[self._name] = value

    def __delete__(self, instance: object) -> None:
        raise AttributeError(f"{self._name} of a {type(instance).__name__} cannot be removed")


def _values(default: T) -> tuple[Callable[[object], T], Callable[[object, T], bool]]:
    """Return the functions that read and give the values; nothing else refers to the table of them.

    Objects are told apart by identity: a class that derives from theirs may define equality.
    """
    values: dict[int, tuple[weakref.ref[object], T]] = {}

    def get(instance: object) -> T:
        found = values.get(id(instance))
        return default if found is None else found[1]

    def give(instance: object, value: T) -> bool:
        key = id(instance)

        def forget(gone: object) -> None:
            values.pop(key, None)

        return values.setdefault(key, entry := (weakref.ref(instance, forget), value)) is entry

    return get, give


class SealedState:
    """Base of objects with sealed attributes, which are copied and pickled with the others."""

    __slots__ = ("__weakref__",)

    def __getstate__(self) -> dict[str, object]:
        state = dict(getattr(self, "__dict__", {}))
        for kind in type(self).__mro__:
            for name, attribute in vars(kind).items():
                if isinstance(attribute, Sealed) and hasattr(self, name):
                    state[name] = getattr(self, name)
        return state

    def __setstate__(self, state: dict[str, object]) -> None:
        for name, value in state.items():
            setattr(self, name, value)
