"""Calls that are enqueued: the names of their functions, and their arguments and results as bytes.

Nothing is imported by a name that is found in a store: a worker is given its functions, and whoever waits for
a result has loaded the function that it enqueued.
"""

import inspect
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, MutableSequence, Sequence
from pathlib import Path
from typing import Any, get_args, get_origin

import msgspec
from msgspec import Struct
from pydantic import PydanticUserError, ValidationError

from ..errors import NighthawkError
from ..signatures import read_signature, type_hints
from .effect_call import EndedCall
from .errors import JournalValueError
from .names import check_text
from .recorded_errors import CallFailure, rebuilt_error, recorded_error
from .values import ValueRules, adapter_of, check_declared, check_size, decode_value, encode_value, is_same


class StoredArguments(Struct, frozen=True, omit_defaults=True):
    """The arguments of a call, encoded one by one.

    Args:
        args: Its positional arguments.
        keywords: Its keyword arguments.
        message: The message of a topic that is its only argument instead; empty for none.
        batch: The messages that are its only argument instead, as a list; None for none.
    """

    args: list[bytes]
    keywords: dict[str, bytes]
    message: bytes = b""
    batch: list[bytes] | None = None


class StoredEnd(Struct, frozen=True):
    """The end of a run: its result or its error.

    Args:
        call: The result, or the error.
        text: The error in words; empty for a result.
    """

    call: EndedCall
    text: str = ""


def function_name(function: object) -> str:
    """Return the name of a function, as `module:name`.

    Raises:
        NighthawkError: No other process can import it by a name.
    """
    name, problem = find_function_name(function)
    if problem:
        raise NighthawkError(
            f"{function!r} cannot be called by a worker: {problem}. Enqueue a function with `def` or "
            "`async def` at the top level of a module, and pass it everything else as arguments."
        )
    return name


def find_function_name(function: object) -> tuple[str, str]:
    """Return the name of a function, as `module:name`, and the reason why it has none; one is empty."""
    problem = top_level_problem(function)
    if problem:
        return "", problem
    importable = _importable_name(function.__module__)
    if importable is None:
        return "", "it was defined in an interactive session, or in a file whose name is no name of a module"
    return f"{importable}:{getattr(function, '__qualname__', '')}", ""


def top_level_problem(function: object) -> str:
    """Return the reason why a function is not found at the top level of its module; empty if it is."""
    module = getattr(function, "__module__", None)
    name = getattr(function, "__qualname__", None)
    if not callable(function) or isinstance(function, type) or module is None or name is None:
        return "it is no function"
    if not str(name).isidentifier() or getattr(sys.modules.get(module), name, None) is not function:
        return f"{module} has no such function at its top level"
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        return "it is a generator"
    return ""


def _importable_name(module: str) -> str | None:
    """The name by which other processes import a module; None for none. A script has the name of its file."""
    if module != "__main__":
        return module
    main = sys.modules["__main__"]
    spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    if spec is not None:
        return spec.name
    return None if file is None or not Path(file).stem.isidentifier() else Path(file).stem


def find_function(name: str) -> Callable[..., Any] | None:
    """The function of a name, if its module is loaded."""
    module, _, attribute = name.partition(":")
    loaded = sys.modules.get(module)
    if loaded is None and _importable_name("__main__") == module:
        loaded = sys.modules["__main__"]
    found = getattr(loaded, attribute, None)
    return found if callable(found) else None


def encode_arguments(
    function: Callable[..., Any],
    name: str,
    args: tuple[Any, ...],
    keywords: Mapping[str, Any],
    *,
    rules: ValueRules,
) -> bytes:
    """Encode the arguments of a call.

    Args:
        function: The function.
        name: Its name.
        args: Its positional arguments.
        keywords: Its keyword arguments.
        rules: The rules of the store; all of them together have at most that size.

    Raises:
        TypeError: The function does not take them.
        JournalValueError: One of them, or any result, cannot be stored, or they are too large.
    """
    try:
        read_signature(function).bind(*args, **keywords)
    except TypeError as error:
        raise TypeError(f"{name}{read_signature(function)} cannot be called so: {error}") from None
    types = _Types(function, name)
    check_declared(types.of_result, place=f"the result of {name}", rules=rules)
    stored = StoredArguments(
        [
            encode_value(each, place=types.place(number), declared=types.of_position(number), rules=rules)
            for number, each in enumerate(args)
        ],
        {
            key: encode_value(each, place=types.place(key), declared=types.of_name(key), rules=rules)
            for key, each in keywords.items()
        },
    )
    for key in keywords:
        check_text(key, "the name of an argument")
    body = msgspec.msgpack.encode(stored)
    check_size(body, "the record of the arguments", f"the call of {name}", rules.max_bytes)
    return body


def decode_arguments(
    function: Callable[..., Any], name: str, body: bytes
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Decode the arguments of a call.

    Raises:
        JournalValueError: One of them does not fit the function any more.
    """
    stored = msgspec.msgpack.decode(body, type=StoredArguments)
    types = _Types(function, name)
    if stored.message:
        return (_message(stored.message, types.place(0), types.of_position(0)),), {}
    if stored.batch is not None:
        return (_messages(stored.batch, types.place(0), types.of_position(0)),), {}
    args = tuple(
        decode_value(each, place=types.place(number), declared=types.of_position(number))
        for number, each in enumerate(stored.args)
    )
    keywords = {
        key: decode_value(each, place=types.place(key), declared=types.of_name(key))
        for key, each in stored.keywords.items()
    }
    return args, keywords


def _message(body: bytes, place: str, declared: object) -> Any:
    """A message, of the type that is declared for it: its publisher need not know that."""
    value = decode_value(body, place=place, declared=declared)
    if declared in (None, Any, object):
        return value
    try:
        adapter = adapter_of(declared)
    except PydanticUserError:  # it knows nothing of that type
        return value
    try:
        adapter.validate_python(value, strict=True)
    except ValidationError:
        pass
    else:
        return value
    try:
        return adapter.validate_python(value, by_alias=True, by_name=True)
    except ValidationError as error:
        raise JournalValueError(f"{place}: the message is none of its type: {error}", place=place) from error


def _messages(bodies: list[bytes], place: str, declared: object) -> list[Any]:
    """The messages of a batch."""
    kind, takes_list = type_of_messages(declared)
    if not takes_list:
        raise JournalValueError(
            f"{place} is declared as {declared!r}, and the call has a list of messages", place=place
        )
    return [
        _message(each, f"{place}, message {number} of {len(bodies)}", kind)
        for number, each in enumerate(bodies, 1)
    ]


def type_of_messages(declared: object) -> tuple[object, bool]:
    """The type of the messages of a batch, by the type of the list; and whether that type takes a list."""
    origin = get_origin(declared) or declared
    if declared in (None, Any, object):
        return None, True
    arguments = get_args(declared)
    return (arguments[0] if arguments else None), origin in _TYPES_OF_LISTS


_TYPES_OF_LISTS: tuple[object, ...] = (list, Sequence, MutableSequence, Collection, Iterable)


def check_handler(function: Callable[..., Any], name: str, *, is_batch: bool, rules: ValueRules) -> None:
    """Check that a function can be called with a message, or with a list of messages.

    Raises:
        NighthawkError: Its argument is declared as something else than a list, and it gets lists.
        TypeError: It does not take one argument.
        JournalValueError: No message of its type, or no result, can be stored.
    """
    try:
        read_signature(function).bind(None)
    except TypeError as error:
        what = "a list of messages" if is_batch else "a message"
        raise TypeError(f"{name}{read_signature(function)} cannot be called with {what}: {error}") from None
    types = _Types(function, name)
    kind, takes_list = types.of_position(0), True
    if is_batch:
        kind, takes_list = type_of_messages(kind)
    if not takes_list:
        raise NighthawkError(
            f"{types.place(0)} is declared as {types.of_position(0)!r}, and count= or window= has it called "
            "with a list of messages: declare a list"
        )
    check_declared(kind, place=types.place(0), rules=rules)
    check_declared(types.of_result, place=f"the result of {name}", rules=rules)


def encode_result(function: Callable[..., Any], run_id: str, result: object, *, rules: ValueRules) -> bytes:
    """Encode the result of a run.

    Raises:
        JournalValueError: It cannot be stored, or is too large.
    """
    value = encode_value(
        result, place=_place(run_id), declared=type_hints(function).get("return"), rules=rules
    )
    return msgspec.msgpack.encode(StoredEnd(EndedCall(value=value)))


def encode_error(run_id: str, error: Exception, *, rules: ValueRules) -> bytes:
    """Encode the error that a run has failed with; its text alone if it cannot be stored, or is too large."""
    text = f"{type(error).__name__}: {error}"[:2_000].encode(errors="replace").decode()
    try:
        failure, _ = recorded_error(error, _place(run_id))
        body = msgspec.msgpack.encode(StoredEnd(EndedCall(failure=failure), text))
        check_size(body, "the error", _place(run_id), rules.max_bytes)
    except JournalValueError:
        failure = CallFailure(module=type(error).__module__, name=type(error).__qualname__, content=b"")
        body = msgspec.msgpack.encode(StoredEnd(EndedCall(failure=failure), text))
    return body


def decode_end(name: str, run_id: str, body: bytes) -> Any:
    """Return the result of a run, or raise its error.

    Args:
        name: The name of its function.
        run_id: The run.
        body: The end of the run.

    Raises:
        JournalValueError: The result or the error cannot be read in this process.
    """
    end = msgspec.msgpack.decode(body, type=StoredEnd)
    if end.call.failure is not None:
        failure = end.call.failure
        if failure.module not in sys.modules and failure.module == _importable_name("__main__"):
            failure = msgspec.structs.replace(failure, module="__main__")
        try:
            error = rebuilt_error(failure, _place(run_id))
        except JournalValueError as unknown:
            raise JournalValueError(f"{unknown} It was {end.text}", place=_place(run_id)) from None
        raise error
    function = find_function(name)
    declared = None if function is None else type_hints(function).get("return")
    try:
        return decode_value(end.call.value, place=_place(run_id), declared=declared)
    except JournalValueError:
        if function is not None:
            raise
        module = name.partition(":")[0]
        raise JournalValueError(
            f"{_place(run_id)} has a type that its function declares: import {module} before.",
            place=_place(run_id),
        ) from None


def _place(run_id: str) -> str:
    return f"the result of run {run_id!r}"


class _Types:
    """The declared types of the arguments of a function."""

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self._name = name
        self._hints = type_hints(function)
        self._parameters = read_signature(function).parameters
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        self._positional = [each.name for each in self._parameters.values() if each.kind in kinds]

    def of_position(self, number: int) -> object:
        return self._hints.get(self._name_of(number))

    @property
    def of_result(self) -> object:
        return self._hints.get("return")

    def of_name(self, name: str) -> object:
        if name not in self._parameters:
            name = self._variable(inspect.Parameter.VAR_KEYWORD)
        return self._hints.get(name)

    def place(self, argument: int | str) -> str:
        name = argument if isinstance(argument, str) else self._name_of(argument)
        return f"the argument {name!r} of {self._name}"

    def _name_of(self, number: int) -> str:
        if number < len(self._positional):
            return self._positional[number]
        return self._variable(inspect.Parameter.VAR_POSITIONAL)

    def _variable(self, kind: object) -> str:
        return next((each.name for each in self._parameters.values() if each.kind is kind), "")


def is_same_call(
    function: Callable[..., Any], name: str, args: tuple[Any, ...], keywords: Mapping[str, Any], body: bytes
) -> bool:
    """Whether encoded arguments are equal to those of a call, which may be encoded in another way."""
    try:
        stored_args, stored_keywords = decode_arguments(function, name, body)
        types = _Types(function, name)
        return (
            len(stored_args) == len(args)
            and stored_keywords.keys() == keywords.keys()
            and all(
                is_same(value, args[number], types.of_position(number))
                for number, value in enumerate(stored_args)
            )
            and all(
                is_same(value, keywords[key], types.of_name(key)) for key, value in stored_keywords.items()
            )
        )
    except Exception:  # code of the user's types may raise anything, which counts as no
        return False
