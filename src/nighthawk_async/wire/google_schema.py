"""A JSON Schema in the words that Gemini takes.

The endpoint takes JSON Schema in `parametersJsonSchema` and `responseJsonSchema`, but knows a part of it
alone. What it does not know it ignores at best, so it is said in other words where there are such, and left
out where there are none: the schema then allows more, and what the model writes is checked against the real
type anyway. So a property that leads back to its own object is never required, and a list of itself is one of
anything: the endpoint follows references that lead back inside of properties alone that may be left out.

Source: the description of `response_json_schema` in `types.py` of the official SDK, and "JSON Schema support"
in the provider's documentation of structured output.
"""

from collections.abc import Iterator, Mapping
from typing import Any, TypeGuard

__all__ = ["adapted_schema", "takes_nothing"]

_KEPT = frozenset(
    {
        "$anchor",
        "$id",
        "description",
        "maxItems",
        "maximum",
        "minItems",
        "minimum",
        "propertyOrdering",
        "required",
        "title",
        "type",
    }
)
_FORMATS = frozenset({"date", "date-time", "double", "float", "int32", "int64", "time"})
_ENUMERABLE = frozenset({"integer", "number", "string"})
_LISTS_OF_SCHEMAS = ("anyOf", "oneOf", "prefixItems")
_SINGLE_SCHEMAS = ("items", "additionalProperties")
_ARGUMENT_KEYWORDS = (
    "$ref",
    "additionalProperties",
    "allOf",
    "anyOf",
    "oneOf",
    "patternProperties",
    "properties",
)
_NAMED_SCHEMAS = {"$defs": "$defs", "definitions": "$defs", "properties": "properties"}


def adapted_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A JSON Schema in the words that the endpoint knows.

    Args:
        schema: A JSON Schema; it stays as it is.
    """
    adapted = _adapted(schema)
    targets = {f"#/$defs/{name}": each for name, each in adapted.get("$defs", {}).items()} | {"#": adapted}
    own = {name: set(_references(each)) for name, each in targets.items()}
    cycles = {name: _reached(name, own) for name in own}
    if not any(name in reached for name, reached in cycles.items()):
        return adapted
    definitions = {
        name: _without_cycles(each, f"#/$defs/{name}", cycles, is_optional=False)
        for name, each in adapted.pop("$defs", {}).items()
    }
    adapted = _without_cycles(adapted, "#", cycles, is_optional=False)
    return adapted | ({"$defs": definitions} if definitions else {})


def _adapted_object(schema: Mapping[str, Any]) -> dict[str, Any]:
    adapted = {name: value for name, value in schema.items() if name in _KEPT}
    if schema.get("format") in _FORMATS:
        adapted["format"] = schema["format"]
    for name, theirs in _NAMED_SCHEMAS.items():
        if _is_mapping(named := schema.get(name)):
            adapted[theirs] = {key: _adapted(each) for key, each in named.items()}
    for name in _LISTS_OF_SCHEMAS:
        if _is_list(members := schema.get(name)):
            adapted[name] = [_adapted(each) for each in members]
    if "items" in schema:
        adapted["items"] = _adapted(schema["items"])
    if "additionalProperties" in schema:
        additional: object = schema["additionalProperties"]
        adapted["additionalProperties"] = additional if isinstance(additional, bool) else _adapted(additional)
    _adapt_values(schema, adapted)
    _adapt_bounds(schema, adapted)
    _adapt_references(schema, adapted)
    return adapted


def takes_nothing(schema: Mapping[str, Any]) -> bool:
    """Whether an object schema describes arguments of which there are none.

    Args:
        schema: A JSON Schema.
    """
    return not any(schema.get(name) for name in _ARGUMENT_KEYWORDS)


def _adapted(schema: object) -> dict[str, Any]:
    """The schema inside another; one that is no object, `True` or `False`, is said as one for any value."""
    return _adapted_object(schema) if _is_mapping(schema) else {}


def _adapt_values(schema: Mapping[str, Any], adapted: dict[str, Any]) -> None:
    """Say listed values, and a constant, as an enumeration, which holds texts and numbers alone."""
    listed: object = [schema["const"]] if "const" in schema else schema.get("enum")
    if not _is_list(listed):
        return
    plain = [value for value in listed if _type_of(value) in _ENUMERABLE]
    others = sorted({_type_of(value) for value in listed} - _ENUMERABLE)
    if "array" in others or "object" in others:
        return
    members: list[dict[str, Any]] = [{"type": each} for each in others]
    if plain:
        types = sorted({_type_of(value) for value in plain})
        members.insert(0, {"enum": plain, "type": types if len(types) > 1 else types[0]})
    if len(members) == 1:
        declared = {"type": schema["type"]} if "type" in schema else {}
        adapted.update(members[0] | declared)
    elif members and "anyOf" not in adapted:
        adapted.pop("type", None)
        adapted["anyOf"] = members


def _adapt_bounds(schema: Mapping[str, Any], adapted: dict[str, Any]) -> None:
    """Say exclusive bounds of integers as inclusive ones; those of other numbers come near enough."""
    for theirs, ours, step in (("exclusiveMinimum", "minimum", 1), ("exclusiveMaximum", "maximum", -1)):
        bound: object = schema.get(theirs)
        if isinstance(bound, int | float) and not isinstance(bound, bool):
            is_integer = schema.get("type") == "integer" and isinstance(bound, int)
            adapted.setdefault(ours, bound + step if is_integer else bound)


def _adapt_references(schema: Mapping[str, Any], adapted: dict[str, Any]) -> None:
    """Keep a reference alone, as the endpoint wants it, and what stands beside it around it."""
    all_of: object = schema.get("allOf")
    if isinstance(reference := schema.get("$ref"), str):
        member: dict[str, Any] = {"$ref": reference.replace("#/definitions/", "#/$defs/", 1)}
    elif _is_list(all_of) and len(all_of) == 1:
        member = _adapted(all_of[0])
    else:
        return
    if all(name.startswith("$") for name in adapted):
        adapted.update(member)
    else:
        adapted.setdefault("anyOf", [member])


def _references(schema: Mapping[str, Any]) -> Iterator[str]:
    """The references in an adapted schema, those of its definitions left out."""
    if "$ref" in schema:
        yield schema["$ref"]
    for inner in (*schema.get("properties", {}).values(), *_parts(schema)):
        yield from _references(inner)


def _parts(schema: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The schemas directly inside an adapted one, those of its properties left out."""
    for name in _LISTS_OF_SCHEMAS:
        yield from schema.get(name, ())
    for name in _SINGLE_SCHEMAS:
        if _is_mapping(schema.get(name)):
            yield schema[name]


def _reached(name: str, references: Mapping[str, set[str]]) -> set[str]:
    """Return the definitions that a definition refers to, directly or not."""
    reached: set[str] = set()
    left = list(references[name])
    while left:
        each = left.pop()
        if each not in reached and each in references:
            reached.add(each)
            left.extend(references[each])
    return reached


def _without_cycles(
    schema: dict[str, Any], home: str, cycles: Mapping[str, set[str]], *, is_optional: bool
) -> dict[str, Any]:
    """An adapted schema where every reference that leads back stands in a property that may be left out."""
    if "$ref" in schema:
        leads_back = home in cycles.get(schema["$ref"], ())
        return {} if leads_back and not is_optional else schema
    changed = dict(schema)
    if properties := schema.get("properties"):
        changed["properties"] = {
            name: _without_cycles(each, home, cycles, is_optional=True) for name, each in properties.items()
        }
        changed["required"] = [
            name
            for name in schema.get("required", ())
            if not any(home in cycles.get(each, ()) for each in _references(properties.get(name, {})))
        ]
        if not changed["required"]:
            del changed["required"]
    for name in _LISTS_OF_SCHEMAS:
        if name in schema:
            changed[name] = [
                _without_cycles(each, home, cycles, is_optional=is_optional) for each in schema[name]
            ]
    for name in _SINGLE_SCHEMAS:
        if _is_mapping(inner := schema.get(name)):
            changed[name] = _without_cycles(dict(inner), home, cycles, is_optional=is_optional)
    return changed


def _type_of(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case Mapping():
            return "object"
        case _:
            return "array"


def _is_mapping(value: object) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(value, Mapping)


def _is_list(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list | tuple)
