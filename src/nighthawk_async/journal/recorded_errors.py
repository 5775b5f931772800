"""Exceptions of calls that are effects, as records and back: later lives raise what this one raised.

Where an exception has attributes that cannot be stored, this life already raises the exception without them,
so that no handler does something else in a later life.
"""

import sys
from collections.abc import Mapping
from importlib import import_module
from inspect import isdatadescriptor
from typing import Any, NoReturn, cast, get_args

from msgspec import Struct
from pydantic import ValidationError
from pydantic_core import PydanticCustomError, core_schema

from ..types.json import is_json_object
from .errors import JournalValueError
from .open_errors import unmarked
from .registered_types import is_registered
from .value_shapes import slots_of
from .values import decode_value, encode_value, register

_ROOMS = frozenset({"nighthawk_async.human", "nighthawk_async.mcp", "nighthawk_async.testing"})
"""The rooms whose errors can be raised before the room is loaded."""

_KNOWN_ERRORS = frozenset(get_args(core_schema.ErrorType))
"""The errors of pydantic itself; others are those of validators of the program."""

_ERROR = "\0error"
"""The key of an error in the context of an error of pydantic."""


class CallFailure(Struct, frozen=True, kw_only=True):
    """A recorded exception.

    Args:
        module: The module of its class.
        name: The name of its class.
        content: Its arguments and attributes; the exception itself where the class is registered; empty for
            one that cannot be raised again.
        missing: The names of the attributes that could not be stored.
        is_registered: Whether the program has registered its class.
        parts: The errors in it, if it is an exception group; `content` is its message then.
    """

    module: str
    name: str
    content: bytes
    missing: tuple[str, ...] = ()
    is_registered: bool = False
    parts: "tuple[CallFailure, ...]" = ()


class NotStored:
    """Stands for an attribute of an exception that cannot be stored. Any use of it says so.

    Args:
        text: The name of the attribute, its class, and the place of the exception.
    """

    __slots__ = ("_place", "_text")

    def __init__(self, text: str, place: str) -> None:
        self._text = text
        self._place = place

    def _refuse(self, *_: object) -> NoReturn:
        raise JournalValueError(
            f"{self._place}: {self._text} cannot be stored, so no life of a run with a journal has it. "
            "Register the class of the exception with nighthawk_async.journal.register.",
            place=self._place,
        )

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):  # asked for by copy, pickle, inspect
            raise AttributeError(name)
        self._refuse()

    def __repr__(self) -> str:
        return "<not stored in the journal>"

    __bool__ = __call__ = __eq__ = __getitem__ = __hash__ = __iter__ = __len__ = __str__ = _refuse


def recorded_error(error: Exception, place: str) -> tuple[CallFailure, Exception]:
    """Return the record of an exception, and the exception that this life raises: itself, or a copy.

    Args:
        error: The exception.
        place: The place of the call.

    Raises:
        JournalValueError: A later life could not raise it again.
    """
    if type(error) is ExceptionGroup:
        return _recorded_group(error, place)
    failure = _record(error, place)
    is_whole = not failure.missing or not failure.is_registered
    try:
        rebuilt = rebuilt_error(failure, place)
        is_same = type(rebuilt) is type(error) and (str(rebuilt) == str(error) or not is_whole)
    except JournalValueError as refusal:
        raise refusal from error
    except Exception as problem:  # code of the user's classes may raise anything
        raise _refusal(type(error), place, f"which cannot be rebuilt ({problem})") from error
    if not is_same:
        raise _refusal(type(error), place, "which does not come back as it was") from error
    return failure, rebuilt if failure.missing else error


def _recorded_group(
    group: ExceptionGroup[Exception], place: str
) -> tuple[CallFailure, ExceptionGroup[Exception]]:
    pairs = [recorded_error(each, place) for each in group.exceptions]
    stored, missing = _sorted_out(unmarked(vars(group)))
    failure = CallFailure(
        module="builtins",
        name="ExceptionGroup",
        content=encode_value([group.message, stored] if stored else group.message, place=place),
        missing=missing,
        parts=tuple(failure for failure, _ in pairs),
    )
    is_whole = not missing and all(
        error is each for (_, error), each in zip(pairs, group.exceptions, strict=True)
    )
    if is_whole:
        return failure, group
    raised = group.derive([error for _, error in pairs])
    vars(raised).update(vars(group), **_not_stored(failure, place))
    return failure, raised


def _record(error: Exception, place: str) -> CallFailure:
    kind = type(error)
    if is_registered(kind):
        content = encode_value(error, place=place)
        return CallFailure(
            module=kind.__module__,
            name=kind.__qualname__,
            content=content,
            missing=_missing_inputs(error),
            is_registered=True,
        )
    made_of = cast("Any", _builtin_base(kind)).__reduce__(error)[1]
    stored, missing = _sorted_out({**unmarked(vars(error)), **_members(error, made_of), **_slots(error)})
    if not _is_storable((error.args, made_of)):
        raise _refusal(kind, place, "whose arguments cannot be stored") from error
    content = encode_value((error.args, made_of, stored), place=place)
    return CallFailure(module=kind.__module__, name=kind.__qualname__, content=content, missing=missing)


def _sorted_out(attributes: Mapping[str, object]) -> tuple[dict[str, object], tuple[str, ...]]:
    """Those of some attributes that can be stored, and the names of the others."""
    stored = {name: value for name, value in attributes.items() if _is_storable(value)}
    return stored, tuple(name for name in attributes if name not in stored)


def _members(error: Exception, made_of: tuple[Any, ...]) -> dict[str, object]:
    """Facts that built-in classes hold beside the arguments of an exception, such as a missing name.

    Not the object that has no such attribute: neither `pickle` nor the traceback of a later life has it.
    """
    base = _builtin_base(type(error))
    plain = base.__new__(base, *made_of)
    base.__init__(plain, *made_of)
    found: dict[str, object] = {}
    for name, member in _builtin_members(type(error)).items():
        try:
            value = member.__get__(error)
        except AttributeError:  # it has none
            continue
        if name != "obj" and value is not member.__get__(plain) and value != member.__get__(plain):
            found[name] = value
    return found


def _builtin_members(kind: type[Exception]) -> dict[str, Any]:
    """The members of the built-in classes of an exception, but for those that all exceptions have."""
    classes = [each for each in kind.__mro__ if each.__module__ == "builtins" and each is not BaseException]
    return {
        name: member
        for each in reversed(classes)
        for name, member in vars(each).items()
        if isdatadescriptor(member) and not name.startswith("__")
    }


def _slots(error: Exception) -> dict[str, object]:
    """The attributes of an exception that its classes keep in slots."""
    return {name: getattr(error, name) for name in slots_of(type(error)) if hasattr(error, name)}


def _builtin_base(kind: type[Exception]) -> type[Exception]:
    """The built-in class that knows what an exception is made of: more than its arguments, for some."""
    return next(each for each in kind.__mro__ if each.__module__ == "builtins")


def _is_storable(value: object) -> bool:
    try:
        encode_value(value, place="")
    except JournalValueError:
        return False
    return True


def rebuilt_error(failure: CallFailure, place: str) -> Exception:
    """The exception that was recorded; its class is one that the program has loaded.

    Raises:
        JournalValueError: The program has no such class any more, or it takes other arguments.
    """
    if not failure.content:
        raise _refusal(failure, place, "whose arguments could not be stored")
    content: Any = decode_value(failure.content, place=place)
    if failure.is_registered:
        return content
    missing = _not_stored(failure, place)
    if failure.parts:
        message, held = (content, missing) if isinstance(content, str) else content
        group = ExceptionGroup(message, [rebuilt_error(each, place) for each in failure.parts])
        vars(group).update({**held, **missing})
        return group
    found: object = sys.modules.get(failure.module)
    if found is None and failure.module in _ROOMS:  # which exports an error, but is loaded on first use
        found = import_module(failure.module)
    for part in failure.name.split("."):
        found = getattr(found, part, None)
    if not isinstance(found, type) or not issubclass(found, Exception):
        raise _refusal(failure, place, "which this program does not define at the level of a module")
    arguments, made_of, attributes = content
    base = _builtin_base(found)
    error = found.__new__(found, *made_of)
    base.__init__(error, *made_of)
    error.args = arguments
    members, slots = _builtin_members(found), slots_of(found)
    for name, value in {**attributes, **missing}.items():
        if name in members:
            members[name].__set__(error, value)
        elif name in slots:
            object.__setattr__(error, name, value)
        else:
            vars(error)[name] = value
    return error


def _not_stored(failure: CallFailure, place: str) -> dict[str, NotStored]:
    """The substitute for attributes of an exception that could not be stored."""
    return {name: NotStored(f"the attribute {name!r} of {failure.name}", place) for name in failure.missing}


def _dumped_validation_error(error: ValidationError) -> object:
    """The parts of an error of pydantic; an input that cannot be stored is told in words."""
    reduced: Any = error.__reduce__()
    title, _, mode, hides_input = reduced[1]
    lines = [
        [
            each["type"],
            list(each["loc"]),
            each["msg"],
            each["input"] if _is_storable(each["input"]) else repr(each["input"]),
            {name: _dumped_context(value) for name, value in each.get("ctx", {}).items()},
        ]
        for each in error.errors(include_url=False)
    ]
    return [title, lines, mode, hides_input]


def _dumped_context(value: object) -> object:
    if isinstance(value, ValueError | AssertionError):  # of a validator: its text is in that of the error
        return {_ERROR: [type(value) is AssertionError, str(value)]}
    return value if _is_storable(value) else str(value)


def _loaded_validation_error(parts: Any) -> ValidationError:
    title, lines, mode, hides_input = parts
    details: list[Any] = []
    for kind, location, message, given, context in lines:
        loaded = {name: _loaded_context(value) for name, value in context.items()}
        known = kind in _KNOWN_ERRORS
        details.append(
            {
                "type": kind if known else PydanticCustomError(kind, message, loaded or None),
                "loc": tuple(location),
                "input": given,
                **({"ctx": loaded} if known and loaded else {}),
            }
        )
    error = ValidationError.from_exception_data(title, details, mode, hides_input)
    error.args = ()  # as those have that pydantic raises
    return error


def _loaded_context(value: Any) -> object:
    if not is_json_object(value) or _ERROR not in value:
        return value
    is_assertion, text = value[_ERROR]
    return AssertionError(text) if is_assertion else ValueError(text)


def _missing_inputs(error: Exception) -> tuple[str, ...]:
    """A name for inputs of an error of pydantic that cannot be stored."""
    if type(error) is not ValidationError:
        return ()
    return () if all(_is_storable(each["input"]) for each in error.errors(include_url=False)) else ("input",)


register(
    ValidationError,
    dump=_dumped_validation_error,
    load=_loaded_validation_error,
    name="pydantic.ValidationError",
)


def _refusal(kind: type[Exception] | CallFailure, place: str, problem: str) -> JournalValueError:
    if isinstance(kind, CallFailure):
        module, name = kind.module, kind.name
    else:
        module, name = kind.__module__, kind.__qualname__
    return JournalValueError(
        f"{place}: the call raised {module}.{name}, {problem}, so a later life could not raise it again. "
        "Define the class at the level of a module, with plain data as arguments, or register it with "
        "nighthawk_async.journal.register.",
        place=place,
    )
