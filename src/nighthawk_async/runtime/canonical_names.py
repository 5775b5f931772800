"""Names of classes and functions, and forms of code, the same in a program and on its workers."""

import dis
import inspect
import sys
from collections import deque
from collections.abc import Iterator
from functools import lru_cache
from itertools import chain
from types import CodeType, FunctionType, ModuleType
from typing import Any, TypeGuard, cast

from ..natural.tree import CLOSURE_NAMES
from .canonical_leaves import LEAVES, sized, text_form

_HEAP, _DISALLOWS_INSTANTIATION, _IMMUTABLE = 1 << 9, 1 << 7, 1 << 8  # flags of types in CPython
_WORD = object.__basicsize__ // 2
_WITHOUT_STATE = frozenset({"abc", "typing", "typing_extensions"})
"""Modules whose classes serve as bases, and give their instances no state."""

_LIBRARY = __name__.partition(".")[0]
_MAIN = "__main__"
_MAIN_ON_WORKERS = "__mp_main__"
_KINDS = (
    inspect.CO_VARARGS
    | inspect.CO_VARKEYWORDS
    | inspect.CO_GENERATOR
    | inspect.CO_COROUTINE
    | inspect.CO_ASYNC_GENERATOR
    | inspect.CO_ITERABLE_COROUTINE
)
"""The flags of code that say how it is called."""
_MUTABLE = (list, dict, set, bytearray, deque)
_MUTATORS = frozenset(
    {"add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem", "popleft"}
    | {"remove", "setdefault", "sort", "update"}
)
"""Methods by which lists, dicts and sets are changed."""


def module_of(value: object) -> str:
    """The name of the module of a class or a function, the same in the program and on its workers."""
    if isinstance(value, FunctionType):
        name: object = value.__module__
    else:
        name = type.__dict__["__module__"].__get__(value)  # also of classes that are written in C
    return _MAIN if name == _MAIN_ON_WORKERS else str(name)


def class_attribute(kind: type[Any], name: str, default: object = None) -> Any:
    """An attribute of a class, without code of its metaclass."""
    return next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), default)


def type_name(kind: type[Any]) -> str:
    """The full name of a class."""
    return f"{module_of(kind)}.{type.__dict__['__qualname__'].__get__(kind)}"


def is_of_library(function: FunctionType) -> bool:
    """Whether a function was made by a decorator of this library."""
    return str(function.__globals__.get("__name__", "")).partition(".")[0] == _LIBRARY


def is_importable(function: FunctionType) -> bool:
    """Whether a function is what its name stands for in its module."""
    return stands_for(function, function.__module__, function.__qualname__)


def stands_for(value: object, module: object, qualname: str) -> bool:
    """Whether a class or a function is what a name stands for in a module."""
    if "<" in qualname or not isinstance(module, str):
        return False
    found: Any = sys.modules.get(module)
    if found is None:
        return False
    for name in qualname.split("."):
        held = found.__dict__ if isinstance(found, ModuleType) or issubclass(type(found), type) else {}
        if name not in held:  # of a module that loads its contents when they are used
            return isinstance(found, ModuleType) and "__getattr__" in held
        found = held[name]
        if isinstance(found, staticmethod | classmethod):
            found = cast("Any", found).__func__
    return found is value


def plain_cells(function: FunctionType) -> Iterator[tuple[str, bytes]]:
    """The variables around a function that hold plain values, and the types of what the others hold."""
    for name, value, is_changed in cells_of(function):
        leaf = None if is_changed else LEAVES.get(type(value))
        yield name, sized(b"k", type_name(type(value)).encode()) if leaf is None else leaf(value)


def cells_of(function: FunctionType) -> Iterator[tuple[str, object, bool]]:
    """The variables around a function, without those of the library and those that are not set.

    Returns:
        For each its name, its value, and whether the function itself changes it: then the value says nothing
        about what the function does.
    """
    changes = _changes_of(function.__code__)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        if name not in CLOSURE_NAMES:
            try:
                value = cell.cell_contents
            except ValueError:  # it is not set
                continue
            is_changed = name in changes or (changes.of_contents and isinstance(value, _MUTABLE))
            yield name, value, is_changed


def attributes_of_function(function: FunctionType) -> dict[str, object]:
    """The public attributes of a function, without those that its own code changes, such as a counter."""
    changed = _changes_of(function.__code__).attributes
    held = cast("dict[str, object]", function.__dict__)
    return {name: value for name, value in held.items() if name[:1] != "_" and name not in changed}


class _Changes(frozenset[str]):
    """The variables around a function that its code assigns.

    Attributes:
        of_contents: Whether it seems to change the contents of lists, dicts or sets.
        attributes: The names of attributes that it assigns.
    """

    of_contents = False
    attributes: frozenset[str] = frozenset()


@lru_cache(maxsize=4096)
def _changes_of(code: CodeType) -> _Changes:
    """The variables that the code of a function changes, and the code of the functions in it."""
    instructions = list(dis.get_instructions(code))
    inner = [_changes_of(each) for each in code.co_consts if isinstance(each, CodeType)]
    assigned = [str(each.argval) for each in instructions if each.opname in ("STORE_DEREF", "DELETE_DEREF")]
    changes = _Changes((*assigned, *chain.from_iterable(inner)))
    names = (str(each.argval) for each in instructions if each.opname in ("STORE_ATTR", "DELETE_ATTR"))
    changes.attributes = frozenset(chain(names, *(each.attributes for each in inner)))
    changes.of_contents = (
        not _MUTATORS.isdisjoint(code.co_names)
        or any(each.opname in ("STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE") for each in instructions)
        or any(each.of_contents for each in inner)
    )
    return changes


@lru_cache(maxsize=4096)
def code_form(code: CodeType) -> bytes:
    """The form of the code of a function, wherever it stands in its file."""
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    parts = [sized(b"b", code.co_code), *(text_form(" ".join(each)) for each in names)]
    counts = (code.co_argcount, code.co_kwonlyargcount, code.co_posonlyargcount, code.co_flags & _KINDS)
    parts.append(text_form(" ".join(map(str, counts))))
    parts.append(sized(b"b", code.co_exceptiontable))
    parts += [_constant_form(each) for each in code.co_consts]
    return sized(b"O", b"".join(parts))


def _constant_form(value: object) -> bytes:
    if isinstance(value, CodeType):
        return code_form(value)
    if isinstance(value, tuple | frozenset):
        forms = [_constant_form(each) for each in cast("tuple[object, ...]", value)]
        return sized(b"t", b"".join(forms if isinstance(value, tuple) else sorted(forms)))
    leaf = LEAVES.get(type(value))
    return sized(b"k", type_name(type(value)).encode()) if leaf is None else leaf(value)


@lru_cache(maxsize=4096)
def is_made_in_python(kind: type[Any], base: type[Any] = object) -> bool:
    """Whether instances of a class have no other state than attributes, and that of a base.

    Args:
        kind: The class.
        base: The base whose state is known.
    """
    return all(
        each in base.__mro__ or module_of(each) in _WITHOUT_STATE or _is_class_statement(each)
        for each in kind.__mro__
    )


def _is_class_statement(kind: type[Any]) -> TypeGuard[type]:
    """Whether a class adds nothing to the memory of its instances but slots and an instance dictionary."""
    flags, below = kind.__flags__, cast("type[Any]", kind.__base__)
    if not flags & _HEAP or flags & (_DISALLOWS_INSTANTIATION | _IMMUTABLE):
        return False
    if "__new__" in vars(kind) and not isinstance(vars(kind)["__new__"], staticmethod | FunctionType):
        return False
    slots = sum(type(each).__name__ == "member_descriptor" for each in vars(kind).values())
    # It is negative in instances of any length, such as whole numbers; -1 says that it is kept before them.
    has_dictionary = kind.__dictoffset__ not in (0, -1) and below.__dictoffset__ in (0, -1)
    added = has_dictionary + (kind.__weakrefoffset__ > 0 >= below.__weakrefoffset__)
    return kind.__basicsize__ - below.__basicsize__ <= _WORD * (slots + added)
