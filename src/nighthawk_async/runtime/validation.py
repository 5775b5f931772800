"""Values against types, with pydantic, every adapter built once."""

from collections.abc import Hashable
from functools import lru_cache
from typing import Any, Never, NoReturn, Self, cast

from pydantic import (
    ConfigDict,
    PydanticUndefinedAnnotation,
    PydanticUserError,
    TypeAdapter,
    ValidationError,
)

from ..errors import AnnotationError, ToolValidationError
from ..prompt.annotations import written_type
from .error_text import describe_error, describe_validation_error
from .instance_checks import Validator, compiled
from .variadics import as_written

__all__ = [
    "can_validate",
    "check_type",
    "reason_without_schema",
    "type_adapter",
    "type_name",
    "validate_value",
]

_WITHOUT_PARTS = frozenset[object](
    {str, int, float, bool, bytes, complex, type(None), list, dict, set, frozenset, tuple, bytearray}
)
"""Types whose instances hold nothing that the type by itself says anything about."""


def type_adapter(annotation: object) -> TypeAdapter[Any]:
    """The adapter of a type; the same hashable type gets the same adapter.

    Raises:
        pydantic.PydanticUserError: pydantic cannot make a schema of the annotation.
    """
    try:
        return _cached_adapter(cast("Hashable", annotation))
    except TypeError:  # not hashable: Annotated[int, {}]
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


def check_type(annotation: object, *, subject: str) -> None:
    """Find out whether values can be validated against a type, before there is one.

    Args:
        annotation: The type.
        subject: What is annotated, for the error: "write binding 'x'".

    Raises:
        AnnotationError: They cannot.
    """
    if not _accepts_everything(annotation) and not _is_without_parts(annotation):
        _validator_of(annotation, subject)


def _validator_of(annotation: object, subject: str) -> Validator:
    try:
        return compiled(annotation)
    except Exception as error:  # code of the user's types may raise anything
        raise AnnotationError(
            f"{subject} has the type {type_name(annotation)}, which cannot be validated: "
            f"{reason_without_schema(error)} Use a type that pydantic can validate, or object, which takes "
            "every value."
        ) from error


def can_validate(annotation: object) -> bool:
    """Whether values can be validated against a type.

    Args:
        annotation: The type.
    """
    try:
        check_type(annotation, subject="")
    except AnnotationError:
        return False
    return True


def validate_value(value: object, annotation: object, *, subject: str) -> object:
    """Validate a value against a type, coercing as pydantic does.

    Instances of pydantic models and dataclasses are validated too, those inside of the value included, with
    the validators of their classes. A value that matches as it is is handed back as the very same object, and
    so is each of those instances.

    Args:
        value: The value.
        annotation: The type; `object` accepts everything.
        subject: What the value is, for the error: "write binding 'x'".

    Raises:
        ToolValidationError: The value does not match.
        AnnotationError: No value can be validated against the type.
    """
    if _accepts_everything(annotation):
        return value
    if annotation is NoReturn or annotation is Never:
        raise _mismatch(subject, annotation, "no value is one")
    if cast("object", type(value)) is annotation and _is_without_parts(annotation):
        return value
    validator = _validator_of(annotation, subject)
    try:
        return validator.validated(value)
    except ValidationError as error:
        paths = [each["loc"] for each in error.errors(include_url=False, include_input=False)]
        raise _mismatch(subject, annotation, describe_validation_error(error), *paths) from error
    except Exception as error:  # a validator of the user's type may raise anything
        raise _mismatch(subject, annotation, describe_error(error)) from error


def _accepts_everything(annotation: object) -> bool:
    return annotation is object or annotation is Any or annotation is Self


def _is_without_parts(annotation: object) -> bool:
    return isinstance(annotation, type) and annotation in _WITHOUT_PARTS


def reason_without_schema(error: Exception) -> str:
    """Return the reason why a type has no validator or no JSON Schema, as one sentence.

    Args:
        error: What pydantic, or code of the user's types, raised.
    """
    is_pydantic = isinstance(error, PydanticUserError | PydanticUndefinedAnnotation)
    text = error.message if is_pydantic else describe_error(error)
    lines = text.splitlines() or [type(error).__name__]
    said = lines[-1].strip() if lines[0].endswith(":") else lines[0]  # pydantic's core leads up to the reason
    return f"{said.rstrip('.')}."


def _mismatch(
    subject: str, annotation: object, reason: str, *paths: tuple[str | int, ...]
) -> ToolValidationError:
    what = f"{subject} must be {type_name(annotation)}"
    return ToolValidationError(f"{what}: {reason}").without_content(what).about(annotation, *paths)


def type_name(annotation: object) -> str:
    """A type as a person would write it, by its own name."""
    return written_type(as_written(annotation))
