"""Functions, arguments and results as bytes, and back.

A function crosses by its name, so that only names travel. Arguments and results cross as the journal stores
them: plain data, what the function's annotations declare, and what is registered with
`nighthawk_async.journal.register`.
"""

import hashlib
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from importlib import import_module
from inspect import Parameter, Signature
from typing import Any, cast

from msgspec import Struct

from ..journal.errors import JournalValueError
from ..journal.queued_call import top_level_problem
from ..journal.values import ValueRules, check_declared, decode_value, encode_value, is_same, write_value
from ..placements import find_placed_function
from ..signatures import read_signature, type_hints
from .errors import ArgumentChangedError, CrossingError
from .main_module import main_problem

MAX_VALUE_BYTES = 1024 * 1024 * 1024
"""The greatest size of one argument or result, in bytes."""

_RULES = ValueRules(max_bytes=MAX_VALUE_BYTES, keeps_secrets=True)  # what crosses is stored nowhere

LARGE_BYTES = 128 * 1024
"""The size from which on a content is kept by workers, so that it is sent to each only once, in bytes."""

MAIN_NAMES = ("__main__", "__mp_main__")
"""The names of the main module of the program; the second one on workers, as in `multiprocessing`."""

_BELOW_DECORATORS = "()"
"""The end of a name that means the natural function with `on=` below other decorators."""

_UNCHANGEABLE = frozenset({type(None), bool, int, float, str, bytes})


class CrossingFunction(Struct, frozen=True, kw_only=True, eq=False):
    """A function that workers can call.

    Args:
        name: Its name, as `module:name`.
        function: The function.
        positional: The names of its positional parameters.
        variable_positional: The name of `*args`; empty for none.
        variable_keyword: The name of `**keywords`; empty for none.
        types: The declared types, by parameter and `return`.
    """

    name: str
    function: Callable[..., Any]
    positional: tuple[str, ...]
    variable_positional: str
    variable_keyword: str
    types: Mapping[str, Any]
    signature: Signature

    def parameter_of(self, key: int | str) -> str:
        """Return the parameter that takes an argument; empty for none.

        Args:
            key: The position of the argument, or its name.
        """
        if isinstance(key, int):
            return self.positional[key] if key < len(self.positional) else self.variable_positional
        return key if key in self.positional or key in self.types else self.variable_keyword or key

    def bound(self, keywords: Mapping[str, Any]) -> Callable[..., Any]:
        """Return the function with keyword arguments."""
        return partial(self.function, **keywords) if keywords else self.function

    def encode(self, key: int | str, value: object) -> bytes:
        """Encode an argument.

        Raises:
            CrossingError: It cannot cross.
        """
        return encode_crossing(value, *self._argument(key))

    def decode(self, key: int | str, body: bytes) -> Any:
        """Decode an argument; see `encode`."""
        return decode_crossing(body, *self._argument(key))

    def is_unchanged(self, key: int | str, value: object, body: bytes) -> bool:
        """Whether an argument is still what it was decoded from."""
        declared, subject = self._argument(key)
        try:
            if write_value(value, place=subject, declared=declared, rules=_RULES) == body:
                return True
            # Equal values may be written in different ways, as sets are.
            return bool(is_same(decode_crossing(body, declared, subject), value, declared))
        except Exception:  # it holds something now that cannot cross, or the user's code has raised
            return False

    def _argument(self, key: int | str) -> tuple[object, str]:
        """The declared type of an argument, and the argument in words."""
        parameter = self.parameter_of(key)
        subject = f"the argument {key if parameter == '' else parameter!r} of {self.name}"
        return self.types.get(parameter), subject

    def check_result(self) -> None:
        """Check, before the call, that its result can cross.

        Raises:
            CrossingError: No value of the declared type can.
        """
        subject = f"the result of {self.name}"
        try:
            check_declared(self.types.get("return"), place=subject, rules=_RULES)
        except JournalValueError as error:
            raise CrossingError(f"{error} So the call cannot run on a worker.", subject=subject) from None

    def encode_result(self, value: object) -> bytes:
        """Encode a result.

        Raises:
            CrossingError: It cannot cross.
        """
        return encode_crossing(value, self.types.get("return"), f"the result of {self.name}")

    def decode_result(self, body: bytes) -> Any:
        """Decode a result; see `encode_result`."""
        return decode_crossing(body, self.types.get("return"), f"the result of {self.name}")


def encode_crossing(value: object, declared: object, subject: str) -> bytes:
    """Encode a value.

    Args:
        value: The value.
        declared: The type that is declared for it; None for none.
        subject: The value in words, for errors.

    Raises:
        CrossingError: It cannot cross.
    """
    try:
        return encode_value(value, place=subject, declared=declared, rules=_RULES)
    except JournalValueError as error:
        kind = type(value).__qualname__
        if "bytes" in str(error) and "max_value_bytes" in str(error):
            reason = f"it is larger than {MAX_VALUE_BYTES:,} bytes"
        else:
            reason = (
                f"a value of the type {kind} does not come back as it is. Annotate it with a dataclass, a "
                "pydantic model or an enumeration, pass plain data, register the type with "
                "nighthawk_async.journal.register, or make the call without on="
            )
        text = f"{subject} cannot cross to a worker: {reason}."
        raise CrossingError(text, subject=subject) from error.__cause__  # errors of journals end runs


def decode_crossing(body: bytes, declared: object, subject: str) -> Any:
    """Decode a value; see `encode_crossing`.

    Raises:
        CrossingError: It cannot be read here.
    """
    try:
        return decode_value(body, place=subject, declared=declared)
    except JournalValueError as error:
        raise CrossingError(str(error), subject=subject) from error.__cause__


def crossing_function(function: object) -> CrossingFunction:
    """Return a function as one that workers can call.

    Args:
        function: The function; `functools.partial` is resolved by the caller.

    Raises:
        CrossingError: No other process can import it by a name.
    """
    try:
        return _described(function)
    except TypeError:  # it cannot be hashed
        return _described.__wrapped__(function)


@lru_cache(maxsize=1024)
def _described(function: object) -> CrossingFunction:
    is_below = _is_below_decorators(function)
    is_of_main = getattr(function, "__module__", None) in MAIN_NAMES
    problem = "" if is_below else top_level_problem(function)
    problem = problem or (main_problem() if is_of_main else "")
    if problem:
        raise CrossingError(
            f"{function!r} cannot run on a worker: {problem}. Use a function with `def` or `async def` at "
            "the top level of a module, and pass it everything else as arguments; or call it without on=.",
            subject=repr(function),
        )
    target = cast("Callable[..., Any]", function)
    module = "__main__" if is_of_main else target.__module__
    declared = read_signature(target)
    parameters = declared.parameters.values()
    by_position = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    return CrossingFunction(
        name=f"{module}:{target.__qualname__}{_BELOW_DECORATORS if is_below else ''}",
        function=target,
        positional=tuple(each.name for each in parameters if each.kind in by_position),
        variable_positional=next((p.name for p in parameters if p.kind is Parameter.VAR_POSITIONAL), ""),
        variable_keyword=next((p.name for p in parameters if p.kind is Parameter.VAR_KEYWORD), ""),
        types=type_hints(target),
        signature=declared,
    )


def _is_below_decorators(function: object) -> bool:
    """Whether it is a natural function with `on=` that other decorators have wrapped."""
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    found: object = getattr(sys.modules.get(str(module)), str(name), None)
    return found is not None and found is not function and find_placed_function(found) is function


def imported_function(name: str) -> CrossingFunction:
    """Return the function of a name, on a worker. Its module is imported if necessary.

    Raises:
        CrossingError: There is no such module or function.
    """
    module, _, attribute = name.partition(":")
    try:
        found = getattr(import_module(module), attribute.removesuffix(_BELOW_DECORATORS))
        if attribute.endswith(_BELOW_DECORATORS):
            found = find_placed_function(found)
    except Exception as error:  # the module is the user's code
        raise CrossingError(
            f"{name} cannot be imported on the worker: {type(error).__name__}: {error}", subject=name
        ) from error
    return crossing_function(found)


def resolved(
    function: Callable[..., Any], args: tuple[Any, ...], keywords: Mapping[str, Any]
) -> tuple[CrossingFunction, tuple[Any, ...], dict[str, Any]]:
    """Return a call without `functools.partial`, whose arguments it contains.

    Raises:
        CrossingError: The function cannot run on a worker, or none of its results can cross.
        TypeError: The function does not take the arguments.
    """
    bound = dict(keywords)
    while isinstance(function, partial):
        args = (*function.args, *args)
        bound = {**function.keywords, **bound}
        function = function.func
    crossing = crossing_function(function)
    problem = _misfit(crossing, len(args), tuple(bound))
    if problem:
        raise TypeError(f"{crossing.name}{crossing.signature} cannot be called so: {problem}")
    crossing.check_result()
    return crossing, args, bound


@lru_cache(maxsize=1024)
def _misfit(function: CrossingFunction, positional: int, keywords: tuple[str, ...]) -> str:
    """The reason why a function does not take these numbers and names of arguments; empty if it does."""
    try:
        function.signature.bind(*[None] * positional, **dict.fromkeys(keywords))
    except TypeError as error:
        return str(error)
    return ""


def digest_of(body: bytes) -> bytes:
    """Return the digest by which workers keep a content."""
    return hashlib.blake2b(body, digest_size=16).digest()


class ReceivedArguments:
    """The arguments of a call on a worker, which must not change.

    Args:
        function: The function.
        args: The positional arguments, encoded.
        keywords: The keyword arguments, encoded.
    """

    def __init__(self, function: CrossingFunction, args: list[bytes], keywords: Mapping[str, bytes]) -> None:
        self._function = function
        self._bodies: dict[int | str, bytes] = {**dict(enumerate(args)), **keywords}
        self._values = {key: function.decode(key, body) for key, body in self._bodies.items()}

    @property
    def args(self) -> tuple[Any, ...]:
        """The positional arguments."""
        return tuple(value for key, value in self._values.items() if isinstance(key, int))

    @property
    def keywords(self) -> dict[str, Any]:
        """The keyword arguments."""
        return {key: value for key, value in self._values.items() if isinstance(key, str)}

    def check_unchanged(self) -> None:
        """Check, after the call, that it has changed none of them in place.

        Raises:
            ArgumentChangedError: It has.
        """
        for key, value in self._values.items():
            if type(value) in _UNCHANGEABLE:
                continue
            if not self._function.is_unchanged(key, value, self._bodies[key]):
                name = self._function.parameter_of(key) or str(key)
                raise ArgumentChangedError(self._function.name, repr(name))
