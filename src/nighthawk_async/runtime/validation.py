"""Values against types, with pydantic, every adapter built once. Floor 3."""

from collections.abc import Hashable
from functools import lru_cache
from typing import Any, cast

from pydantic import ConfigDict, PydanticUserError, TypeAdapter, ValidationError

from ..errors import ToolValidationError

__all__ = ["describe_validation_error", "json_schema", "type_adapter", "type_name", "validate_value"]

_MAX_REPORTED_ERRORS = 5
_ACCEPTING_EVERYTHING: tuple[object, ...] = (object, Any)


def type_adapter(annotation: object) -> TypeAdapter[Any]:
    """The adapter of a type; the same hashable type gets the same adapter.

    Raises:
        pydantic.PydanticUserError: pydantic cannot make a schema of the annotation.
    """
    if isinstance(annotation, Hashable):
        try:
            return _cached_adapter(annotation)
        except TypeError:  # hashable by its class, but not by its arguments: Annotated[int, {}]
            return _build_adapter(annotation)
    return _build_adapter(annotation)


def _build_adapter(annotation: object) -> TypeAdapter[Any]:
    try:
        return TypeAdapter(cast("Any", annotation), config=ConfigDict(arbitrary_types_allowed=True))
    except PydanticUserError as error:
        if error.code != "type-adapter-config-unused":
            raise
        return TypeAdapter(cast("Any", annotation))


@lru_cache(maxsize=1024)
def _cached_adapter(annotation: Hashable) -> TypeAdapter[Any]:
    return _build_adapter(annotation)


@lru_cache(maxsize=256)
def _cached_schema(adapter: TypeAdapter[Any]) -> dict[str, Any]:
    return adapter.json_schema()


def json_schema(annotation: object) -> dict[str, Any]:
    """The JSON Schema of a type.

    Raises:
        pydantic.PydanticUserError: The type has no JSON Schema, a plain class for example.
    """
    return _cached_schema(type_adapter(annotation))


def validate_value(value: object, annotation: object, *, subject: str) -> object:
    """Validate a value against a type, coercing as pydantic does.

    A value whose class is exactly the annotation is handed back as it is, so that its identity is kept.

    Args:
        value: The value.
        annotation: The type; `object` accepts everything.
        subject: What the value is, for the error: "write binding 'x'".

    Raises:
        ToolValidationError: The value does not match.
    """
    if cast("object", type(value)) is annotation or any(annotation is each for each in _ACCEPTING_EVERYTHING):
        return value
    try:
        return type_adapter(annotation).validate_python(value)
    except ValidationError as error:
        raise ToolValidationError(
            f"{subject} must be {type_name(annotation)}: {describe_validation_error(error)}"
        ) from error
    except PydanticUserError as error:
        raise ToolValidationError(
            f"{subject} has an annotation that cannot be validated, {type_name(annotation)}: {error.message}"
        ) from error


def describe_validation_error(error: ValidationError) -> str:
    """The first few problems of a validation error on one line, without the values."""
    details = error.errors(include_url=False, include_input=False, include_context=False)
    parts = [
        f"at {'.'.join(str(part) for part in detail['loc'])}: {detail['msg']}"
        if detail["loc"]
        else detail["msg"]
        for detail in details[:_MAX_REPORTED_ERRORS]
    ]
    if len(details) > _MAX_REPORTED_ERRORS:
        parts.append(f"and {len(details) - _MAX_REPORTED_ERRORS} more")
    return "; ".join(parts)


def type_name(annotation: object) -> str:
    """A type as a person would write it."""
    if isinstance(annotation, type) and not hasattr(annotation, "__args__"):
        return annotation.__qualname__
    return str(annotation).replace("typing.", "")
