"""Values given as plain data: the JSON Schema of what is allowed, and the way back to objects.

A value of JSON is validated by pydantic's rules for JSON: the text of a date is one, in strict models too. So
more is accepted than the schema says, "5" for a number for example, but never less.
"""

import json
from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import Any, cast

from pydantic import ValidationError
from pydantic_core import ErrorDetails, PydanticSerializationError, SchemaValidator, to_json

from ..errors import AnnotationError, ToolValidationError
from .core_schemas import CoreSchema, adapted_core_schema, changed, schema_validator, with_inner
from .data_schema import JsonSchemas, json_schemas_of
from .error_text import describe_error
from .validation import reason_without_schema, type_name

__all__ = ["data_schemas", "data_validator", "validate_data"]

_MAX_REPORTED_ERRORS = 5
_MAX_GIVEN = 80
"""Number of characters of what was given that an error quotes."""


def data_schemas(annotations: tuple[object, ...]) -> JsonSchemas:
    """The JSON Schemas of types, for values that are given as data; their definitions are named apart.

    They have no titles. A default stands in them where JSON can hold it.

    Args:
        annotations: The types.

    Raises:
        Exception: A type has no JSON Schema, a plain class for example; `reason_without_schema` says why.
    """
    try:
        return _cached_schemas(cast("tuple[Hashable, ...]", annotations))
    except TypeError as error:
        if "unhashable" not in str(error):
            raise
        return _schemas(annotations)  # Annotated[int, {}]


@lru_cache(maxsize=256)
def _cached_schemas(annotations: tuple[Hashable, ...]) -> JsonSchemas:
    return _schemas(annotations)


def _schemas(annotations: tuple[object, ...]) -> JsonSchemas:
    return json_schemas_of([adapted_core_schema(each).whole for each in annotations])


def validate_data(value: object, annotation: object, *, subject: str, is_whole: bool = True) -> object:
    """Validate a value of JSON against a type.

    Args:
        value: The value as it was decoded: dict, list, str, int, float, bool or None.
        annotation: The type.
        subject: What the value is, for the error: "write binding 'x'".
        is_whole: Whether the data is whole. Of a beginning, what comes last and does not match is left out.

    Returns:
        The object that the data stands for.

    Raises:
        ToolValidationError: The value does not match; the message says where, and what was given there.
        AnnotationError: No value can be validated against the type.
    """
    validator = _validator_of(annotation, subject)
    try:
        text = to_json(value, inf_nan_mode="constants")
        return validator.validate_json(text, allow_partial=not is_whole)
    except ValidationError as error:
        paths = [each["loc"] for each in error.errors(include_url=False, include_input=False)]
        raise _mismatch(subject, annotation, _describe(error, value), *paths) from error
    except PydanticSerializationError as error:
        raise _mismatch(subject, annotation, _describe_unencodable(error)) from error
    except Exception as error:  # a validator of the user's type may raise anything
        raise _mismatch(subject, annotation, describe_error(error)) from error


def _validator_of(annotation: object, subject: str) -> SchemaValidator:
    try:
        try:
            return _cached_validator(cast("Hashable", annotation))
        except TypeError as error:
            if "unhashable" not in str(error):
                raise
            return _build_validator(annotation)
    except Exception as error:  # code of the user's types may raise anything
        raise AnnotationError(
            f"{subject} has the type {type_name(annotation)}, which cannot be given as data: "
            f"{reason_without_schema(error)}"
        ) from error


@lru_cache(maxsize=1024)
def _cached_validator(annotation: Hashable) -> SchemaValidator:
    return _build_validator(annotation)


def _build_validator(annotation: object) -> SchemaValidator:
    return data_validator(adapted_core_schema(annotation))


def data_validator(schema: CoreSchema) -> SchemaValidator:
    """Return a validator of values that are given as data.

    Args:
        schema: The core schema of their type.
    """
    return schema_validator(CoreSchema(*changed(tuple(schema), _relaxed)).whole)


_READ_FROM_TEXT = frozenset(
    {"bytes", "complex", "date", "datetime", "decimal", "enum", "fraction", "frozenset", "ip", "set", "time"}
    | {"timedelta", "tuple", "url", "multi-host-url", "uuid"}
)
"""Kinds of core schemas whose values JSON has in another form."""


def _relaxed(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema, taking JSON's form of values in strict models too, and lists where items come one by one.

    pydantic does the first by itself, except inside of validators that run before or around its own.
    """
    relaxed = with_inner(schema, _relaxed)
    if schema["type"] == "generator":  # it would validate an item when somebody asks for it
        return relaxed | {"type": "list"}
    return relaxed | {"strict": False} if schema["type"] in _READ_FROM_TEXT else relaxed


def _mismatch(
    subject: str, annotation: object, reason: str, *paths: tuple[str | int, ...]
) -> ToolValidationError:
    what = f"{subject} must be {type_name(annotation)}"
    return ToolValidationError(f"{what}: {reason}").without_content(what).about(annotation, *paths)


def _describe(error: ValidationError, value: object) -> str:
    """The first few problems on one line: where, what is wrong and what was given."""
    details = error.errors(include_url=False, include_context=False)
    parts = [_describe_problem(each, value) for each in details[:_MAX_REPORTED_ERRORS]]
    if len(details) > _MAX_REPORTED_ERRORS:
        parts.append(f"and {len(details) - _MAX_REPORTED_ERRORS} more")
    return "; ".join(parts)


def _describe_problem(detail: ErrorDetails, value: object) -> str:
    path, alternative = _path(detail["loc"], value, is_missing=detail["type"] == "missing")
    at = f"at {path}: " if path else ""
    as_what = f" (as {alternative})" if alternative else ""
    if detail["type"] in ("missing", "json_invalid"):
        return f"{at}{detail['msg']}{as_what}"
    return f"{at}{detail['msg']}{as_what}, not {_given(detail['input'])}"


def _path(location: Sequence[int | str], value: object, *, is_missing: bool) -> tuple[str, str]:
    """The path into a value, and which alternatives of unions were tried on the way."""
    path, alternatives = "", list[str]()
    for position, step in enumerate(location):
        is_last = position == len(location) - 1
        if isinstance(value, list) and isinstance(step, int):
            items = cast("list[object]", value)
            path += f"[{step}]"
            value = items[step] if step < len(items) else None
        elif isinstance(value, dict) and (step in value or (is_last and is_missing)):
            fields = cast("dict[object, object]", value)
            text = str(step)
            path += (f".{text}" if path else text) if text.isidentifier() else f"[{text!r}]"
            value = fields.get(step)
        else:
            alternatives.append(str(step))
    return path, ", ".join(alternatives)


def _given(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _MAX_GIVEN else f"{text[:_MAX_GIVEN]}…"


def _describe_unencodable(error: PydanticSerializationError) -> str:
    if "surrogate" in str(error):
        return r"a text in it holds half of a surrogate pair, such as \ud83d, which is no character"
    return "it is nested too deep"
