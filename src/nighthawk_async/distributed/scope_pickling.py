"""Pickling of a caller's scope, in which no copy of an object stands for the object itself.

What a module defines at its top level travels as its name: functions, classes, modules. What cannot change
travels as a copy. Everything else that a program gives to a scope is refused, because a change of the copy on
a worker would be lost: lists, methods of objects with attributes, functions inside functions. A class of the
program's own that defines how it is pickled, with `__reduce__` or `__getstate__`, says that copies are fine.
"""

import io
import pickle
import random
import sys
from collections.abc import Iterable, Mapping
from functools import cached_property
from types import BuiltinMethodType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any, cast

from pydantic import SecretBytes, SecretStr

from ..catalog.providers import PROVIDERS
from ..configuration import StepExecutorConfiguration
from ..kernel.tools import Tool
from ..secret_names import is_masked, masked
from .errors import CrossingError
from .immutability import is_declared_picklable, is_immutable

_PACKAGE = __name__.partition(".")[0]


class _RefusedError(Exception):
    """An object cannot cross; the text says why, and what to do."""


class ScopeWriter:
    """Pickles the parts of one scope; an object that several parts share stays one object.

    Args:
        carries_keys: Whether keys of models may cross; otherwise they are refused.
    """

    def __init__(self, *, carries_keys: bool) -> None:
        self._buffer = io.BytesIO()
        self._pickler = _Pickler(self._buffer, protocol=pickle.HIGHEST_PROTOCOL)
        self._pickler.carries_keys = carries_keys

    def add(self, value: object, subject: str, *, is_strict: bool = True) -> None:
        """Add a part.

        Args:
            value: The part.
            subject: The part in words, for errors.
            is_strict: Whether objects of the program's own that could change are refused.

        Raises:
            CrossingError: It cannot cross.
        """
        self._pickler.is_strict = is_strict
        try:
            self._pickler.dump(value)
        except Exception as error:  # code of the user's types may raise anything
            reason = str(error) or type(error).__name__
            raise CrossingError(f"{subject} cannot cross to a worker: {reason}", subject=subject) from (
                None if isinstance(error, _RefusedError) else error
            )

    @property
    def body(self) -> bytes:
        """All parts."""
        return self._buffer.getvalue()


def load_parts(body: bytes, subjects: Iterable[str]) -> list[Any]:
    """Load the parts of a scope.

    Args:
        body: All parts, as a `ScopeWriter` wrote them.
        subjects: The parts in words, for errors.

    Raises:
        CrossingError: One cannot be loaded.
    """
    unpickler = _FromNames(io.BytesIO(body))
    parts: list[Any] = []
    for subject in subjects:
        try:
            parts.append(unpickler.load())
        except Exception as error:  # modules that are imported are the user's code
            raise CrossingError(
                f"{subject} cannot be loaded on the worker: {type(error).__name__}: {error}", subject=subject
            ) from error
    return parts


def dump_part(value: object, subject: str) -> bytes:
    """Pickle a value that a service sends: a copy is all that is needed.

    Args:
        value: The value.
        subject: The value in words, for errors.

    Raises:
        CrossingError: It cannot cross.
    """
    writer = ScopeWriter(carries_keys=True)
    writer.add(value, subject, is_strict=False)
    return writer.body


def load_part(body: bytes, subject: str) -> Any:
    """Load a value; see `dump_part`.

    Raises:
        CrossingError: It cannot be loaded.
    """
    (value,) = load_parts(body, (subject,))
    return value


class _Pickler(pickle.Pickler):
    is_strict = True
    carries_keys = False

    def persistent_id(self, obj: Any) -> tuple[str, str] | None:
        """Return the module and the name of an object; None to pickle it."""
        if isinstance(obj, type):
            return None
        if isinstance(obj, ModuleType):
            return (obj.__name__, "") if sys.modules.get(obj.__name__) is obj else None
        target = obj.function if isinstance(obj, Tool) else obj
        module, name = getattr(target, "__module__", None), getattr(target, "__qualname__", None)
        if not isinstance(module, str) or not isinstance(name, str):
            return None
        return (module, name) if getattr(sys.modules.get(module), name, None) is obj else None

    def reducer_override(self, obj: Any) -> Any:
        """Refuse what must not be copied; see the module."""
        if isinstance(obj, ModuleType):
            raise _RefusedError(f"the module {obj.__name__} cannot be imported by its name")
        if isinstance(obj, FunctionType) and "<" in obj.__qualname__:
            raise _RefusedError(
                f"{obj.__qualname__}() is not at the top level of a module, where workers find functions by "
                "their names. Define it there, or make the call without on=."
            )
        if isinstance(obj, MappingProxyType):  # of an object of the library: others are refused there
            return _read_only, (dict(cast("Mapping[object, object]", obj)),)
        if isinstance(obj, MethodType):
            return NotImplemented  # its object comes next
        if isinstance(obj, BuiltinMethodType):
            return _reduced_method(obj)
        if isinstance(obj, StepExecutorConfiguration) and not self.carries_keys:
            _check_keys(obj)
        if isinstance(obj, SecretStr | SecretBytes) and not self.carries_keys:
            raise _RefusedError(
                f"a {type(obj).__name__} is a key, and keys do not travel to other machines. Read it from an "
                "environment variable there."
            )
        reason = getattr(obj, "local_only_reason", None) if _is_of_package(obj) else self._objection(obj)
        if reason is not None:
            raise _RefusedError(f"{reason} Or make the call without on=.")
        return _without_cached(obj) if isinstance(obj, Tool) else NotImplemented

    def _objection(self, obj: Any) -> str | None:
        if not self.is_strict or is_immutable(obj) or is_declared_picklable(obj):
            return None
        kind = type(cast("object", obj))
        return (
            f"an object of {kind.__module__}.{kind.__qualname__} has attributes that may change, and a "
            "worker would get a copy. Use a function at the top level of a module, or a frozen dataclass of "
            "values that cannot change; a class that defines __reduce__ says that copies are fine."
        )


def _read_only(entries: dict[Any, Any]) -> Mapping[Any, Any]:
    return MappingProxyType(entries)


def _check_keys(configuration: StepExecutorConfiguration) -> None:
    for name, value in configuration.model_settings.items():
        if is_masked(masked({name: value})):
            facts = PROVIDERS.get(configuration.model.partition(":")[0])
            variable = facts.key_variable if facts is not None and name != "base_url" else ""
            raise _RefusedError(
                f"the setting {name!r} of the model {configuration.model} is a key, and keys do not travel "
                "to other machines. Leave it out, and set the environment variable "
                f"{variable or 'of the provider'} on the workers."
            )


def _without_cached(tool: Tool) -> tuple[Any, ...]:
    """Reduce a tool without what it has computed from its function, which is computed anew."""
    kind = type(tool)
    kept = {
        name: value
        for name, value in vars(tool).items()
        if not isinstance(getattr(kind, name, None), cached_property)
    }
    return object.__new__, (kind,), kept


def _is_of_package(obj: object) -> bool:
    return type(obj).__module__.partition(".")[0] == _PACKAGE


def _reduced_method(method: Any) -> Any:
    owner = method.__self__
    if owner is None or isinstance(owner, ModuleType | type):
        return NotImplemented
    if getattr(random, method.__name__, None) == method:  # of the generator of the module
        return getattr, (random, method.__name__)
    raise _RefusedError(
        f"it is the method {method.__name__!r} of a {type(owner).__name__}, of which a worker would get a "
        "copy. Use a function at the top level of a module."
    )


class _FromNames(pickle.Unpickler):
    def persistent_load(self, pid: Any) -> Any:
        """Return the object of a module and a name; the module for no name."""
        module, name = pid
        if not name:
            __import__(module)
            return sys.modules[module]
        return self.find_class(module, name)
