"""Values between this program and the process of a sandbox: JSON, in which all but the plainest have a tag.

    null true false "text" 3    themselves
    {"t": tag, "v": content}    l T S Z d: list, tuple, set, frozenset, dict (pairs); I f c N: large integers,
                                floats, complex, Decimal; b: bytes; M D H L: datetime, date, time, timedelta;
                                p: path; e: Ellipsis; y: class; x: exception; r: reference; i: `Inside`

What comes from the process is made of these types alone: nothing in it is looked up, imported or called.
"""

import base64
import builtins
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import PurePath, PurePosixPath
from typing import Any

from .crossing import Reference, kind_of
from .sessions import Crossed, Inside

_SMALL = 2**53
_MOST_DEPTH = 120
_CONTAINERS: Mapping[str, Any] = {"l": list, "T": tuple, "S": set, "Z": frozenset}
_TAGS = {kind: tag for tag, kind in _CONTAINERS.items()}
_TYPES: Mapping[str, type] = {
    each.__name__: each
    for each in (
        *(bool, int, float, complex, str, bytes, list, tuple, dict, set, frozenset, object),
        *(date, datetime, time, timedelta, Decimal),
    )
}
_EXCEPTIONS: Mapping[str, type[BaseException]] = {
    name: value
    for name, value in vars(builtins).items()
    if isinstance(value, type) and issubclass(value, Exception) and not issubclass(value, UnicodeError)
}


class WireError(Exception):
    """A message from a process is no value."""


def encode(value: Any, is_async: Callable[[Reference], bool]) -> Any:
    """Return a value that crosses as JSON data.

    Args:
        value: The value.
        is_async: Whether calls of a function have to be awaited.
    """
    kind = kind_of(value)
    if value is None or kind is bool or kind is str:
        return value
    if kind is int:
        return value if -_SMALL < value < _SMALL else _tagged("I", hex(value))
    if kind is dict:
        pairs = [[encode(key, is_async), encode(each, is_async)] for key, each in value.items()]
        return _tagged("d", pairs)
    if kind in _TAGS:
        return _tagged(_TAGS[kind], [encode(each, is_async) for each in value])
    if kind is Reference:
        return _tagged("r", _reference(value, is_async))
    if isinstance(value, type):
        return _tagged("y", value.__name__)
    if isinstance(value, BaseException):
        return _tagged("x", [kind.__name__, str(value)])
    if isinstance(value, PurePath):
        return _tagged("p", value.as_posix())
    return _tagged(*_ENCODERS[kind](value))


def _reference(value: Reference, is_async: Callable[[Reference], bool]) -> list[Any]:
    fields = None
    if value.fields is not None:
        fields = [[name, encode(each, is_async)] for name, each in value.fields.items()]
    waits = value.kind == "function" and is_async(value)
    return [value.key, value.kind, value.name, fields, value.class_key, waits]


def _tagged(tag: str, content: object) -> dict[str, object]:
    return {"t": tag, "v": content}


_ENCODERS: Mapping[type, Callable[[Any], tuple[str, object]]] = {
    float: lambda value: ("f", repr(value)),
    complex: lambda value: ("c", [repr(value.real), repr(value.imag)]),
    bytes: lambda value: ("b", base64.b64encode(value).decode()),
    datetime: lambda value: ("M", value.isoformat()),
    date: lambda value: ("D", value.isoformat()),
    time: lambda value: ("H", value.isoformat()),
    timedelta: lambda value: ("L", [value.days, value.seconds, value.microseconds]),
    Decimal: lambda value: ("N", str(value)),
    type(...): lambda value: ("e", None),
}


def decode(value: Any, find: Callable[[int], Reference | None], depth: int = 0) -> Crossed:
    """Return what has come from a process as it crosses.

    Args:
        value: JSON data.
        find: Returns the reference with a number, if it was sent.
        depth: The number of containers that it is in.

    Raises:
        WireError: It is no value.
    """
    if value is None or type(value) in (bool, int, str):
        return value
    if depth > _MOST_DEPTH:
        raise WireError("it is nested too deeply")
    try:
        tag, content = value["t"], value["v"]
        if tag == "d":
            return {decode(key, find, depth + 1): decode(each, find, depth + 1) for key, each in content}
        if tag in _CONTAINERS:
            return _CONTAINERS[tag]([decode(each, find, depth + 1) for each in content])
        if tag == "r":
            return _found(content, find, depth)
        if tag == "i":
            return Inside(kind=str(content[0])[:200], text=str(content[1])[:2_000])
        return _DECODERS[tag](content)
    except (TypeError, ValueError, KeyError, IndexError, ArithmeticError, AttributeError) as error:
        raise WireError(f"it is no value: {type(error).__name__}") from error


def _found(content: Any, find: Callable[[int], Reference | None], depth: int) -> Crossed:
    key, fields = content
    found = find(key) if type(key) is int else None
    if found is None:
        return Inside(kind="object", text="an object that was not sent")
    if found.kind != "record" or fields is None:
        return found
    decoded = {str(name): decode(each, find, depth + 1) for name, each in fields}
    return Reference(key=key, kind="record", name=found.name, fields=decoded, class_key=found.class_key)


_DECODERS: Mapping[str, Callable[[Any], Any]] = {
    "I": lambda content: int(content, 16),
    "f": float,
    "c": lambda content: complex(float(content[0]), float(content[1])),
    "b": lambda content: base64.b64decode(content, validate=True),
    "M": datetime.fromisoformat,
    "D": date.fromisoformat,
    "H": time.fromisoformat,
    "L": lambda content: timedelta(*content),
    "N": Decimal,
    "e": lambda content: ...,
    "p": PurePosixPath,
    "y": lambda content: _TYPES.get(content) or _EXCEPTIONS[content],
    "x": lambda content: _EXCEPTIONS.get(content[0], RuntimeError)(str(content[1])),
}
