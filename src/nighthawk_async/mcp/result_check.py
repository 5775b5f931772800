"""Structured results, checked against the schemas of their tools in bounded time.

The package `mcp` would check them too, but it matches the patterns of a schema, and follows references that
multiply: a server could hold the event loop for as long as it likes.
"""

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from threading import local
from typing import Any

from mcp_types import CallToolResult

from ..pickling import PicklableError
from ..threads import call_in_thread
from ..types.json import is_json_list

_MAX_CHECKS_AT_ONCE = 5_000
"""The number of keywords that are checked on the event loop; results with more are checked in a thread."""
_MAX_CHECKS = 2_000_000
_MAX_UNIQUE_ITEMS = 1_000
_WITH_PATTERNS = ("pattern", "patternProperties", "unevaluatedProperties")


class _Remaining(local):
    """The number of checks that the result of this thread may still have."""

    checks = 0


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
    try:
        fault = _fault_of(schema, result.structured_content, _MAX_CHECKS_AT_ONCE)
    except _TooManyChecksError:
        fault = await call_in_thread(_fault_of, schema, result.structured_content, _MAX_CHECKS)
    if fault is not None:
        raise RuntimeError(f"its structured content breaks its output schema: {fault}")


def _fault_of(schema: Mapping[str, Any], content: object, max_checks: int) -> str | None:
    _remaining.checks = max_checks
    registry = _module("referencing").Registry()  # references lead nowhere else
    try:
        error = next(_validator_class()(dict(schema), registry=registry).iter_errors(content), None)
    except RecursionError:
        return "it is nested too deeply"
    if error is None:
        return None
    path = ".".join(map(str, error.absolute_path))
    return f"at {path}: {error.message}" if path else str(error.message)


@cache
def _validator_class() -> Any:
    validators = _module("jsonschema.validators")
    given: Mapping[str, Callable[..., Any]] = validators.Draft202012Validator.VALIDATORS
    counted = {name: _counted(name, check) for name, check in given.items()}
    return validators.extend(validators.Draft202012Validator, counted)


def _module(name: str) -> Any:
    """A module that is slow to import, has no types, and comes with the package `mcp`."""
    return import_module(name)


def _is_long(value: object) -> bool:
    return is_json_list(value) and len(value) > _MAX_UNIQUE_ITEMS


def _counted(name: str, check: Callable[..., Any]) -> Callable[..., Any]:
    def counted(validator: Any, value: Any, instance: Any, schema: Mapping[str, Any]) -> Any:
        _remaining.checks -= 1
        if _remaining.checks < 0:
            raise _TooManyChecksError("its structured content is too large to be checked")
        if name in _WITH_PATTERNS or (name == "additionalProperties" and "patternProperties" in schema):
            return ()
        if name == "uniqueItems" and _is_long(instance):
            return ()
        return check(validator, value, instance, schema) or ()

    return counted
