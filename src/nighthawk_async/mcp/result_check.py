"""Structured results, checked against the schemas of their tools in bounded time.

The package `mcp` would check them too, but it matches the patterns of a schema, and follows references that
multiply: a server could hold the event loop for as long as it likes.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from itertools import chain
from threading import local
from time import perf_counter
from typing import Any

from anyio import from_thread
from mcp_types import CallToolResult

from ..pickling import PicklableError
from ..threads import call_in_thread
from ..types.json import is_json_list, is_json_mapping

_MAX_CHECKS_AT_ONCE = 5_000
"""The number of checks that are made on the event loop; results with more are checked in a thread."""
_MAX_SECONDS_AT_ONCE = 0.005
_MAX_CHECKS = 5_000_000
_CHECKS_BETWEEN_LOOKS = 200
_PARTS_OF_A_CHECK = 8
"""The parts of a container that are looked at in about the time of a check."""
_MAX_FAULT_CHARACTERS = 1_000
_NOT_CHECKED = ("pattern", "patternProperties", "unevaluatedProperties", "unevaluatedItems")
_COMPARED = ("enum", "const", "dependentRequired")
_FOR_EACH_PART = ("items", "contains", "additionalProperties", "propertyNames")
_LISTED = ("allOf", "anyOf", "oneOf", "prefixItems")


class _Remaining(local):
    """The checks that the result of this thread may still have.

    Attributes:
        checks: Their number.
        next_look: The number at which `look` is called next.
        look: Raises where the check has to end before.
    """

    checks = 0
    next_look = 0
    look: Callable[[], None]

    def begin(self, checks: int, look: Callable[[], None]) -> None:
        """Begin to check a result."""
        self.checks = checks
        self.next_look = checks
        self.look = look

    def take(self, checks: int) -> None:
        """Count checks.

        Raises:
            _TooManyChecksError: There are too many.
        """
        self.checks -= checks
        if self.checks < 0:
            raise _TooManyChecksError("its structured content is too large to be checked")
        if self.checks <= self.next_look:
            self.next_look = self.checks - _CHECKS_BETWEEN_LOOKS
            self.look()


class _TooManyChecksError(PicklableError, RuntimeError):
    """A result needs more checks than it may have."""


_remaining = _Remaining()


async def check_result(schema: Mapping[str, Any], result: CallToolResult) -> None:
    """Check that structured content is of the form that its tool promises; patterns are not matched.

    Args:
        schema: The schema of its results.
        result: The result.

    Raises:
        RuntimeError: It is not, or there is none.
    """
    if "structured_content" not in result.model_fields_set:
        raise RuntimeError("it has an output schema, and returned no structured content")
    content = result.structured_content
    if not _validator_class.cache_info().currsize:
        await call_in_thread(_validator_class)  # a second of imports
    try:
        fault = _fault_at_once(schema, content)
    except _TooManyChecksError:
        fault = await call_in_thread(_fault_of, schema, content, _MAX_CHECKS, from_thread.check_cancelled)
    if fault is not None:
        raise RuntimeError(f"its structured content breaks its output schema: {fault}")


def _fault_at_once(schema: Mapping[str, Any], content: object) -> str | None:
    """Return what is wrong with a small result.

    Raises:
        _TooManyChecksError: It is not small enough for the event loop.
    """
    if _weight_of(content, _MAX_CHECKS_AT_ONCE) > _MAX_CHECKS_AT_ONCE:
        raise _TooManyChecksError("it is large")  # one text of a fault has all of it
    end = perf_counter() + _MAX_SECONDS_AT_ONCE

    def look() -> None:
        if perf_counter() > end:
            raise _TooManyChecksError("it takes long")

    return _fault_of(schema, content, _MAX_CHECKS_AT_ONCE, look)


def _fault_of(
    schema: Mapping[str, Any], content: object, max_checks: int, look: Callable[[], None]
) -> str | None:
    _remaining.begin(max_checks, look)
    registry = _module("referencing").Registry()  # references lead nowhere else
    try:
        error = next(_validator_class()(dict(schema), registry=registry).iter_errors(content), None)
    except RecursionError:
        return "it is nested too deeply"
    if error is None:
        return None
    path = ".".join(map(str, error.absolute_path))
    return (f"at {path}: {error.message}" if path else str(error.message))[:_MAX_FAULT_CHARACTERS]


@cache
def _validator_class() -> Any:
    validators = _module("jsonschema.validators")
    given: Mapping[str, Callable[..., Any]] = validators.Draft202012Validator.VALIDATORS
    counted = {name: _counted(name, check) for name, check in given.items()}
    return validators.extend(validators.Draft202012Validator, counted | {"uniqueItems": _check_unique})


def _module(name: str) -> Any:
    """A module that is slow to import, has no types, and comes with the package `mcp`."""
    return import_module(name)


def _counted(name: str, check: Callable[..., Any]) -> Callable[..., Any]:
    def counted(validator: Any, value: Any, instance: Any, schema: Mapping[str, Any]) -> Any:
        _remaining.take(_checks_of(name, value, instance))
        if name in _NOT_CHECKED or (name == "additionalProperties" and "patternProperties" in schema):
            return
        for error in check(validator, value, instance, schema) or ():
            _remaining.take(len(error.message) // _PARTS_OF_A_CHECK)  # it shows all of the value
            yield error

    return counted


def _check_unique(validator: Any, value: Any, instance: Any, schema: Mapping[str, Any]) -> Any:
    """Check `uniqueItems` by texts, since `jsonschema` compares each item with each other one."""
    if value is not True or not is_json_list(instance):
        return
    _remaining.take(1 + _weight_of(instance))
    if len({json.dumps(_comparable(each), sort_keys=True) for each in instance}) < len(instance):
        yield _module("jsonschema.exceptions").ValidationError("two of its items are equal")


def _comparable(value: Any) -> Any:
    """Return data whose JSON is equal for equal values: 1 is 1.0, and neither is true."""
    if is_json_list(value):
        return [_comparable(each) for each in value]
    if is_json_mapping(value):
        return {name: _comparable(each) for name, each in value.items()}
    if isinstance(value, float):
        value = int(value) if value.is_integer() else repr(value)
        return [0, hex(value) if isinstance(value, int) else value]
    return [0, hex(value)] if isinstance(value, int) and not isinstance(value, bool) else value


def _checks_of(name: str, value: Any, instance: Any) -> int:
    """The number of checks that a keyword is like."""
    of_value = _weight_of(value) if name in _COMPARED else _length_of(value)
    of_instance = _length_of(instance)
    if name in _FOR_EACH_PART:
        return 1 + of_instance + of_value * of_instance // _PARTS_OF_A_CHECK
    schemas = of_value if name in _LISTED else 0
    if name == "properties":
        schemas = min(of_value, of_instance)
    return 1 + schemas + (of_value + of_instance) // _PARTS_OF_A_CHECK


def _length_of(value: Any) -> int:
    return len(value) if is_json_list(value) or is_json_mapping(value) else 0


def _weight_of(value: object, most: int | None = None) -> int:
    """The number of parts of data, at any depth; long texts are several. Ends above the number `most`."""
    weight = 0
    level: Sequence[Any] = [value]
    while level:
        inner: list[Any] = []
        for each in level:
            weight += 1
            if isinstance(each, str):
                weight += len(each) // 100
            elif is_json_mapping(each):
                inner.extend(chain(each, each.values()))
            elif is_json_list(each):
                inner.extend(each)
            if most is not None and weight + len(inner) > most:
                return most + 1
        level = inner
    return weight
