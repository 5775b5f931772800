"""Forms that servers ask people to fill in, as types that answers are validated against."""

from collections.abc import Mapping
from datetime import date, datetime
from typing import Annotated, Any, NotRequired, cast

from annotated_types import Ge, Le, MaxLen, MinLen
from pydantic import AfterValidator, AnyUrl, Field, TypeAdapter
from typing_extensions import TypedDict

from .schema_types import Schema, SchemaTypes, required_of

_BOUNDS: Mapping[str, Any] = {"minimum": Ge, "maximum": Le, "minLength": MinLen, "maxLength": MaxLen}


def form_type(schema: Schema) -> object | None:
    """Return the type of the answers to a form; None for a form without fields, which is a yes or no.

    Answers are plain data: a date stays a text.

    Args:
        schema: The JSON Schema: an object of texts, numbers, booleans and choices.
    """
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or not properties:
        return None
    required, types = required_of(schema), SchemaTypes(schema)
    fields: dict[str, Any] = {}
    for name, each in cast("Mapping[str, object]", properties).items():
        field = _field(each, types.type_of(each))
        fields[name] = field if name in required else NotRequired[field]
    return cast("Any", TypedDict)("Form", fields)


def _field(schema: object, annotation: object) -> Any:
    given: Schema = cast("Schema", schema) if isinstance(schema, Mapping) else {}
    metadata: list[object] = [make(given[name]) for name, make in _BOUNDS.items() if name in given]
    if (check := _FORMATS.get(str(given.get("format")))) is not None and annotation is str:
        metadata.append(AfterValidator(check))
    shown = {name: given[name] for name in ("title", "description") if isinstance(given.get(name), str)}
    return Annotated[(cast("Any", annotation), *metadata, Field(**shown))]


def _written_as(kind: Any) -> Any:
    adapter = TypeAdapter[object](kind)

    def check(text: str) -> str:
        adapter.validate_python(text)
        return text

    return check


def _check_email(text: str) -> str:
    name, at, host = text.rpartition("@")
    if not (name and at and host) or any(each.isspace() for each in text):
        raise ValueError("an e-mail address has the form name@host")
    return text


_FORMATS: Mapping[str, Any] = {
    "email": _check_email,
    "uri": _written_as(AnyUrl),
    "date": _written_as(date),
    "date-time": _written_as(datetime),
}
"""Checks of the formats that the protocol allows."""
