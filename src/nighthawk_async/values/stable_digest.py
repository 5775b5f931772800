"""Digests of values that are the same in every process, so that a run can compare its lives.

They are those of `canonical_forms`. A value has one of three degrees: it is known; or it may differ in
something that is not in its digest, which the journal says before anything happens; or its type alone counts,
and its digest ends with `UNSTABLE`.

Those of version 1, with which records and places of runs that an earlier version began are compared, go
through JSON, so that some different values have the same one. They are kept as they are;
`test_earlier_identity` guards it.
"""

import hashlib
from collections import deque
from collections.abc import Mapping
from enum import Enum
from functools import partial
from types import FunctionType, MethodType
from typing import Any, cast

import msgspec
from msgspec import Struct
from pydantic import BaseModel

from ..parallel.task_node import UNSTABLE, ArgumentDigest, Callee
from .canonical_forms import find_identity, new_writer
from .canonical_objects import class_form, is_infrastructure, parts_of
from .canonical_writing import (
    LEAVES,
    cells_of,
    code_form,
    former_name,
    is_importable,
    is_of_library,
    module_of,
    type_name,
)

VERSION = 2
"""The version of these digests. Those of version 1 are in `digest_of_version_1`."""

_DIGEST_CHARACTERS = 16

_COLLECTING: tuple[type[Any], ...] = (list, dict, set, deque, bytearray)

_MOST_LEVELS = 4
"""The number of objects in one another whose plain values count."""


class Identity(Struct, frozen=True, kw_only=True, eq=False):
    """The known facts of a value.

    Args:
        digest: Its digest, 16 hexadecimal digits, and `UNSTABLE` if other values have the same.
        unstable: The objects in it whose types alone count.
        unknown: The classes whose objects may differ in something that is not in the digest, and the reasons.
    """

    digest: str
    unstable: tuple[object, ...] = ()
    unknown: Mapping[str, str] = {}


def identify(value: object) -> Identity:
    """Return what is known of a value. No code of the user's is called, but registered identities."""
    writer = new_writer()
    try:
        form = writer.form(value)
    except Exception as error:  # too large, too deep, changed by another thread meanwhile, an odd class
        kind = type_name(type(value))
        unknown = {kind: f"cannot be read as a whole ({type(error).__name__})"}
        return Identity(digest=_digest(kind.encode()) + UNSTABLE, unstable=(value,), unknown=unknown)
    digest = _digest(form) + (UNSTABLE if writer.unstable else "")
    return Identity(digest=digest, unstable=tuple(writer.unstable), unknown=writer.unknown)


def stable_digest(value: object) -> str:
    """Return the digest of a value: 16 hexadecimal digits, and `UNSTABLE` if other values have the same."""
    return identify(value).digest


def stable_digests(values: Mapping[str, object]) -> dict[str, str]:
    """Return the digest of each value, by name."""
    return {name: stable_digest(value) for name, value in values.items()}


def coarse_digest(value: object) -> str:
    """Return the digest of a value that nobody names.

    Of one that has no stable form, its type counts, and those parts of it that have one.
    """
    digest = stable_digest(value)
    if not digest.endswith(UNSTABLE):
        return digest
    parts = {name: stable_digest(part) for name, part in parts_of(value).items()}
    known = {name: part for name, part in parts.items() if not part.endswith(UNSTABLE)}
    return stable_digest((type(value), known) if known else type(value))


def plain_digest(value: object) -> str:
    """Return the digest of an object by its type, its plain values, and those of the objects in it.

    Plain are texts, numbers, dates and members of enumerations. What an object collects in lists and the like
    does not count, since that changes while a program runs; what is in a list that is given itself does.
    """
    if not isinstance(value, _COLLECTING):
        return stable_digest(_plain_form(value, ()))
    kind = type_name(type(value))
    if isinstance(value, set | bytearray):
        return stable_digest((kind, cast("object", value)))
    items = list(cast("deque[object]", value)) if isinstance(value, deque) else value
    return stable_digest((kind, {key: _plain_form(part, (items,)) for key, part in parts_of(items).items()}))


def _plain_form(value: object, outer: tuple[object, ...]) -> object:
    if type(value) in LEAVES or isinstance(value, Enum) or find_identity(type(value)) is not None:
        return value
    kind = type_name(type(value))
    if isinstance(value, _COLLECTING) or any(value is each for each in outer):
        return kind
    if len(outer) == _MOST_LEVELS or is_infrastructure(type(value)):
        return kind
    return kind, {name: _plain_form(part, (*outer, value)) for name, part in _parts_of(value).items()}


def _parts_of(value: Any) -> Mapping[object, object]:
    """The parts of a value: of a function what it carries, of others see `parts_of`."""
    if isinstance(value, type):
        return {"": class_form(value)}
    if isinstance(value, MethodType):
        return {"function": value.__func__, "object": value.__self__}
    if isinstance(value, partial):
        called = cast("partial[Any]", value)
        return {"function": called.func, "args": called.args, **called.keywords}
    if isinstance(value, frozenset):
        return {"": cast("frozenset[object]", value)}
    if not isinstance(value, FunctionType):
        return parts_of(value)
    wrapped = value.__dict__.get("__wrapped__")
    if is_of_library(value) and wrapped is not None:
        return {"function": wrapped}
    parts: dict[object, object] = {"": f"{module_of(value)}.{value.__qualname__}"}
    if is_importable(value):
        return parts
    parts["code"] = code_form(value.__code__)
    for name, cell, is_changed in cells_of(value):
        parts[f"variable {name}"] = type(cell) if is_changed else cell
    parts["defaults"] = value.__defaults__ or ()
    parts |= value.__kwdefaults__ or {}
    return parts


def argument_digest(value: object) -> ArgumentDigest:
    """Return the digest of the arguments of a place, and the objects in them whose types alone count."""
    identity = identify(value)
    return ArgumentDigest(identity.digest, identity.unstable)


def _digest(form: bytes) -> str:
    return hashlib.sha256(form).hexdigest()[:_DIGEST_CHARACTERS]


_MARK = "\0unstable "  # before what stands for an object without a stable form
_MARK_IN_JSON = b"\\u0000unstable "


def digest_of_version_1(value: object) -> str:
    """Return the digest of a value: 16 hexadecimal digits, and `UNSTABLE` if others surely have the same.

    Args:
        value: The value: plain data, and dataclasses, pydantic models and msgspec structs of it. Anything
            else counts by its type, and functions and classes count by their names.
    """
    if isinstance(value, tuple):
        given = cast("tuple[object, ...]", value)
        value = tuple(each.function if isinstance(each, Callee) else each for each in given)
    try:
        form = _ENCODER.encode(value)
        is_stable = _MARK_IN_JSON not in form
    except (TypeError, ValueError, OverflowError, RuntimeError, msgspec.MsgspecError):
        # Too deep, not of plain data, or changed by another thread meanwhile.
        form, is_stable = _type_name(value).encode(), False
    digest = hashlib.sha256(form).hexdigest()[:_DIGEST_CHARACTERS]
    return digest if is_stable else digest + UNSTABLE


def digests_of_version_1(values: Mapping[str, object]) -> dict[str, str]:
    """Return the digest of each value, by name."""
    return {name: digest_of_version_1(value) for name, value in values.items()}


def _plain_form_of_digest_of_version_1(value: Any) -> object:
    """Return what stands for an object that msgspec cannot encode."""
    if isinstance(value, BaseModel):
        return [_type_name(value), dict(vars(value))]
    name = getattr(value, "__qualname__", None)
    if isinstance(name, str):  # a function, a class
        full_name = former_name(f"{getattr(value, '__module__', '')}.{name}")
        return [full_name.removesuffix(f".{name}"), name]
    return _MARK + _type_name(value)


def _type_name(value: object) -> str:
    kind = type(value)
    return former_name(f"{kind.__module__}.{kind.__qualname__}")


_ENCODER = msgspec.json.Encoder(enc_hook=_plain_form_of_digest_of_version_1, order="deterministic")
