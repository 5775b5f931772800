"""Digests of what a call runs, so that a remembered approval does not count for another implementation."""

import functools
import hashlib
import types
import uuid
from collections.abc import Callable, Iterator
from typing import Any, cast

from ...values.canonical_objects import class_form
from ...values.canonical_writing import LEAVES, cells_of, code_form, type_name
from .call import PermissionCall

_MOST_LEVELS = 8
_NO_PARTS = b"?"
_FUNCTIONS: tuple[type[Any], ...] = (types.FunctionType, types.MethodType, functools.partial)


def implementation_of(call: PermissionCall) -> str:
    """Return the digest of the function or class that a call runs; empty for a tool without one.

    It is the same in every process, and does not change with the state of objects: of a function its code,
    its defaults and the plain values that it has from around it count, of a method the function, of an object
    the class. The object of a method is part of the action that people see.

    Args:
        call: The call.
    """
    if call.callable is None:
        return ""
    digest = hashlib.sha256()
    try:
        for part in _parts_of(call.callable, 0):
            digest.update(len(part).to_bytes(8, "big") + part)
    except Exception:  # an odd class, or one that another thread changes: like no other call
        return uuid.uuid4().hex
    return digest.hexdigest()


def _parts_of(called: object, level: int) -> Iterator[bytes]:
    """Yield the forms of what a callable runs."""
    if level > _MOST_LEVELS:
        yield _NO_PARTS
    elif isinstance(called, types.MethodType):
        yield from _parts_of(called.__func__, level + 1)
        receiver: object = called.__self__
        yield class_form(receiver if isinstance(receiver, type) else type(receiver))
    elif isinstance(called, functools.partial):
        whole = cast("functools.partial[object]", called)
        yield from _parts_of(whole.func, level + 1)
        for value in (*whole.args, *sorted(whole.keywords.items())):
            yield from _held(value, level)
    elif isinstance(called, types.FunctionType):
        yield from _parts_of_function(called, level)
    elif isinstance(called, type):
        yield class_form(called)
    elif isinstance(called, types.BuiltinFunctionType):
        yield called.__qualname__.encode()
    else:
        yield class_form(type(called))


def _parts_of_function(function: types.FunctionType, level: int) -> Iterator[bytes]:
    yield f"{function.__module__}.{function.__qualname__}".encode(errors="surrogatepass")
    yield code_form(function.__code__)
    defaults = (function.__defaults__ or (), *(function.__kwdefaults__ or {}).items())
    for value in defaults:
        yield from _held(value, level)
    for name, value, is_changed in cells_of(function):
        yield name.encode()
        if not is_changed:
            yield from _held(value, level)


def _held(value: object, level: int) -> Iterator[bytes]:
    """Yield the form of a value that a function has from around it; of an object, its class alone."""
    leaf: Callable[..., bytes] | None = LEAVES.get(type(value))
    if leaf is not None:
        yield leaf(value)
    elif isinstance(value, tuple):
        for each in cast("tuple[object, ...]", value):
            yield from _held(each, level + 1) if level < _MOST_LEVELS else (_NO_PARTS,)
    elif isinstance(value, _FUNCTIONS):
        yield from _parts_of(value, level + 1)
    else:
        yield type_name(type(value)).encode()
