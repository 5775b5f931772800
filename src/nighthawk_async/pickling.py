"""Pickling and copying of errors, for other processes.

Python rebuilds an exception by calling its type with its `args`, which fails for every type that takes
arguments other than its message; in the worker of a process pool, one such error breaks the whole pool. An
error's contents can be as bad: other exceptions that cannot be rebuilt, and objects of the current process.
These are replaced by a description, so that the error itself always arrives.
"""

import copy
import io
import pickle
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from types import MappingProxyType
from typing import Any, TypeVar, cast

_MAX_DEPTH = 16
_MAX_TEXT = 1_000  # characters of the description of an omitted part

_PLAIN = frozenset({type(None), bool, int, float, str, bytes, Decimal})

Value = TypeVar("Value")


class PicklableError(Exception):
    """An exception that can be copied and pickled faithfully, whatever arguments its type takes.

    The copies have its type, its message, its arguments, its attributes and its notes; as with every
    exception, pickles have no cause and no traceback. In a pickle, anything that cannot be pickled, or cannot
    be rebuilt from its pickle, is replaced: an exception by an `UnpicklableError`, anything else by a text.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle it, with descriptions in place of contents that cannot be pickled."""
        error_type, args, state = _parts(self)
        sent_args = tuple(_sendable(part) for part in args)
        return _recreated, (error_type, sent_args), {name: _sendable(part) for name, part in state.items()}

    def __copy__(self) -> "PicklableError":
        """Copy it; its contents are shared."""
        error_type, args, state = _parts(self)
        error = _recreated(error_type, args)
        error.__setstate__(state)
        return error

    def __deepcopy__(self, memo: dict[int, Any]) -> "PicklableError":
        """Copy it and its contents; contents that cannot be copied are shared."""
        error_type, args, state = _parts(self)
        error = _recreated(error_type, tuple(_deep_copy(part, memo) for part in args))
        memo[id(self)] = error  # the error may contain itself
        error.__setstate__({name: _deep_copy(part, memo) for name, part in state.items()})
        return error


class UnpicklableError(PicklableError):
    """A substitute for an exception that cannot be pickled, in the pickle of an error that holds it.

    Args:
        type_name: The qualified name of its type.
        text: The text of the error.
    """

    def __init__(self, type_name: str, text: str) -> None:
        super().__init__(f"{type_name}: {text}" if text else type_name)
        self.type_name = type_name
        self.text = text


UnpicklableError.__module__ = f"{__name__.partition('.')[0]}.errors"  # which exports it


def set_public_module(room: str, definitions: Mapping[str, object]) -> None:
    """Set the module of the exceptions that a module defines to the room that exports them.

    Tracebacks, logs and pickles name the public path then, which stays when a file moves.

    Args:
        room: The name of the room, in the package: `journal`.
        definitions: The `globals()` of the module, at its end. All its exceptions are exported.
    """
    module = str(definitions["__name__"])
    for each in definitions.values():
        if isinstance(each, type) and issubclass(each, BaseException) and each.__module__ == module:
            each.__module__ = f"{__name__.partition('.')[0]}.{room}"


def checked_picklable(value: Value, advice: str) -> Value:
    """Check that a value can be pickled, and return it for the `__reduce__` of its holder.

    Args:
        value: The value.
        advice: The part that cannot be pickled, and a remedy.

    Raises:
        TypeError: It cannot be pickled, or cannot be rebuilt from its pickle.
    """
    problem = _find_problem(value)
    if problem is not None:
        raise TypeError(f"{advice} ({_text_of(problem)})")
    return value


def reduced_with_mappings(value: object, names: Iterable[str]) -> tuple[Any, ...]:
    """Return a `__reduce__` value for frozen data with read-only mappings, which Python does not pickle.

    Args:
        value: The data, made from its fields by their names.
        names: The names of the fields.
    """
    fields: dict[str, Any] = {name: getattr(value, name) for name in names}
    read_only = [name for name, part in fields.items() if isinstance(part, MappingProxyType)]
    return _remade, (type(value), {**fields, **{name: dict(fields[name]) for name in read_only}}, read_only)


def _remade(kind: type[Value], fields: Mapping[str, Any], read_only: Sequence[str]) -> Value:
    return kind(**{**fields, **{name: MappingProxyType(fields[name]) for name in read_only}})


def _parts(error: PicklableError) -> tuple[type[PicklableError], tuple[object, ...], dict[str, object]]:
    """Return the type, arguments and attributes of an error, as its built-in base class reports them."""
    _, args, *rest = cast("tuple[Any, ...]", super(PicklableError, error).__reduce__())
    return type(error), args, dict(rest[0]) if rest and rest[0] else {}


def _recreated(error_type: type[PicklableError], args: tuple[object, ...]) -> PicklableError:
    """Return an error with these arguments, without calling the constructor that its type defines."""
    error = error_type.__new__(error_type, *args)
    built_in = next(base for base in error_type.__mro__ if base.__module__ == "builtins")
    built_in.__init__(error, *args)
    return error


def _deep_copy(part: object, memo: dict[int, Any]) -> object:
    try:
        return copy.deepcopy(part, memo)
    except Exception:  # an object's own copying may raise anything
        return part


def _sendable(part: object, depth: int = 0) -> object:
    """Return a part of an error, with descriptions in place of contents that cannot be pickled."""
    if type(part) in _PLAIN:
        return part
    problem = _find_problem(part)
    if problem is None:
        return part
    if depth < _MAX_DEPTH:
        if isinstance(part, BaseExceptionGroup):
            return _sendable_group(cast("BaseExceptionGroup[BaseException]", part), depth)
        if type(part) in (tuple, list):
            members = cast("list[object]", part)
            return type(members)(_sendable(each, depth + 1) for each in members)
        if type(part) is dict:
            named = cast("dict[object, object]", part)
            return {_sendable(key, depth + 1): _sendable(each, depth + 1) for key, each in named.items()}
    if isinstance(part, BaseException):
        return UnpicklableError(_type_name(part), _text_of(part))
    return f"<{_type_name(part)}, which cannot be pickled: {_text_of(problem)}>"


def _sendable_group(group: BaseExceptionGroup[BaseException], depth: int) -> BaseException:
    errors = [cast("BaseException", _sendable(each, depth + 1)) for each in group.exceptions]
    sent = BaseExceptionGroup(str(group.message), errors)  # one of exceptions when all of them are such
    for note in getattr(group, "__notes__", ()):
        sent.add_note(str(note))
    return sent


class _TrialPickler(pickle.Pickler):
    """A pickler that skips errors which pickle themselves, so that none is tried repeatedly."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.trusted: list[object] = []

    def persistent_id(self, obj: object) -> int | None:
        kind = type(obj)
        if not issubclass(kind, PicklableError) or kind.__reduce__ is not PicklableError.__reduce__:
            return None
        if _find_problem(kind) is not None:  # it cannot be found by its name
            return None
        self.trusted.append(obj)
        return len(self.trusted) - 1


class _TrialUnpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, trusted: list[object]) -> None:
        super().__init__(file)
        self._trusted = trusted

    def persistent_load(self, pid: int) -> object:
        return self._trusted[pid]


def _find_problem(part: object) -> Exception | None:
    """Return the reason why an object cannot be pickled and rebuilt; None when it can."""
    file = io.BytesIO()
    try:
        pickler = _TrialPickler(file)
        pickler.dump(part)
        file.seek(0)
        _TrialUnpickler(file, pickler.trusted).load()
    except Exception as error:  # an object's own pickling or rebuilding may raise anything
        return error
    return None


def _type_name(part: object) -> str:
    kind = type(part)
    return f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")


def _text_of(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:  # `__str__` of the user's exception may raise anything
        return "its message cannot be shown"
    return text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT - 1] + "…"
