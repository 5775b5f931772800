"""The JSON Schemas of a block's answer, all made from its `AnswerForm`. No I/O."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from ..types.outcomes import OutcomeKind
from .answer_form import AnswerForm
from .sent_schemas import terse_schema

__all__ = [
    "flat_schema",
    "object_schema",
    "opened_schema",
    "tool_schema",
    "variant_schemas",
    "wrapped_schema",
]

_Schema = Mapping[str, Any]

_TEXT: _Schema = {"type": "string"}
_NULL: _Schema = {"type": "null"}


@lru_cache(maxsize=1024)
def flat_schema(form: AnswerForm) -> dict[str, Any]:
    """One object schema without a union, for the arguments of `nh_outcome`."""
    properties: dict[str, Any] = {"kind": {"type": "string", "enum": list(form.allowed_kinds)}}
    if form.bindings:
        properties["bindings"] = _bindings_schema(form)
    for kind in form.allowed_kinds:
        for fields in _alternatives(kind, form):
            properties |= fields
    if not form.is_strict:
        return object_schema(properties, required=("kind",)) | _definitions(form)
    nullable = {name: schema if name == "kind" else _or_null(schema) for name, schema in properties.items()}
    return object_schema(nullable) | _definitions(form)


@lru_cache(maxsize=1024)
def tool_schema(form: AnswerForm) -> dict[str, Any]:
    """The flat schema as the tool is sent: in the fewest words, unless the endpoint enforces it as it is."""
    schema = flat_schema(form)
    if form.is_strict:
        return schema
    opened = opened_schema(schema)
    if form.bindings:
        bindings = opened_schema(schema["properties"]["bindings"])
        opened["properties"] = schema["properties"] | {"bindings": bindings}
    return terse_schema(opened)


def opened_schema(schema: _Schema) -> dict[str, Any]:
    """An object's schema without a word on other properties; those are refused anyway when they come."""
    return {name: value for name, value in schema.items() if name != "additionalProperties"}


@lru_cache(maxsize=1024)
def wrapped_schema(form: AnswerForm) -> dict[str, Any]:
    """A union of the variants of all kinds below `result`, for a provider's structured output."""
    variants = [variant for kind in form.allowed_kinds for variant in variant_schemas(kind, form)]
    result = {"anyOf": variants} if len(variants) > 1 else variants[0]
    return object_schema({"result": result}) | _definitions(form)


def variant_schemas(kind: OutcomeKind, form: AnswerForm) -> list[dict[str, Any]]:
    """The object schemas of one kind: one for each way to give what it needs, with exactly its fields."""
    return [_variant(kind, fields, form) for fields in _alternatives(kind, form)]


def object_schema(properties: Mapping[str, Any], required: "tuple[str, ...] | None" = None) -> dict[str, Any]:
    """A closed object; everything is required unless it says what is."""
    names = list(properties if required is None else required)
    schema: dict[str, Any] = {"type": "object", "properties": dict(properties)}
    if names or not properties:
        schema["required"] = names
    return schema | {"additionalProperties": False}


def _variant(kind: OutcomeKind, fields: Mapping[str, _Schema], form: AnswerForm) -> dict[str, Any]:
    # Strict structured output wants every property required, so "left out" is spelled null.
    fields = {
        name: _or_null(schema) if name == "raise_error_type" else schema for name, schema in fields.items()
    }
    properties: dict[str, Any] = {"kind": {"type": "string", "enum": [kind]}}
    if not form.bindings or (kind == "raise" and not form.takes_expressions):
        return object_schema(properties | fields)
    bindings = _bindings_schema(form)
    if form.is_strict and form.takes_expressions:
        bindings = _or_null(bindings)
    properties |= {"bindings": bindings, **fields}
    is_optional = form.takes_expressions and not form.is_strict
    return object_schema(properties, tuple(n for n in properties if n != "bindings" or not is_optional))


def _bindings_schema(form: AnswerForm) -> dict[str, Any]:
    if not form.takes_expressions:
        return object_schema(form.bindings)
    if not form.is_strict:
        return object_schema(form.bindings, ())
    return object_schema({name: _or_null(schema) for name, schema in form.bindings.items()})


def _alternatives(kind: OutcomeKind, form: AnswerForm) -> list[dict[str, Any]]:
    """The ways to give what a kind needs, each as the fields it takes."""
    ways: list[dict[str, Any]] = []
    if kind == "return":
        if form.return_value is not None:
            ways.append({"return_value": form.return_value})
        if form.takes_expressions:
            ways.append({"return_expression": _TEXT})
    elif kind == "raise":
        names = list(form.raise_error_types)
        typed = {"raise_error_type": {"type": "string", "enum": names}} if names else {}
        ways.append({"raise_message": _TEXT, **typed})
        if form.raises_objects:
            ways.append({"raise_expression": _TEXT})
    return ways or [{}]


def _or_null(schema: _Schema) -> dict[str, Any]:
    """The schema, or null."""
    kind = schema.get("type")
    if kind in ("string", "integer", "number", "boolean") and "const" not in schema:
        values = {"enum": [*schema["enum"], None]} if "enum" in schema else {}
        return {**schema, "type": [kind, "null"], **values}
    members = schema["anyOf"] if set(schema) == {"anyOf"} else [schema]
    return dict(schema) if _NULL in members else {"anyOf": [*members, dict(_NULL)]}


def _definitions(form: AnswerForm) -> dict[str, Any]:
    return {"$defs": dict(form.definitions)} if form.definitions else {}
