"""JSON Schemas in the subset that Anthropic's structured output takes, and refusals of what it does not.

The endpoint refuses the whole request for one keyword it does not know. Constraints that it cannot enforce,
such as a minimum, move into the description, where the model reads them; the caller validates the answer
anyway. Objects are closed, which only narrows the answer. Schemas that would be narrowed to nothing, a value
of any type or an object with free keys, are refused, and so is a schema that contains itself.

`find_parameter_problem` and `find_problem` are the rules of the endpoint; see `wire.schema_rules`.

Sources: "Structured outputs", "JSON Schema limitations", of the provider's documentation, and the schema
transformation of the official SDK; the endpoint's error message, property keys match
`^[a-zA-Z0-9_.-]{1,64}$`.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any, TypeGuard, cast
from urllib.parse import unquote

from ...errors import ConfigurationError
from ...types.json import is_json_list, is_json_mapping, is_list_or_tuple
from ..schema_rules import SchemaLocation, schemas_in

_ROOT = "#"


def find_recursion(schema: Mapping[str, Any]) -> str | None:
    """The reference by which a schema contains itself; None when it does not.

    Args:
        schema: A JSON Schema whose values are schemas all the way down: its constants are no objects.
    """
    return _find(schema, schema, (_ROOT,), set())


def _find(part: object, root: object, open_references: tuple[str, ...], done: set[str]) -> str | None:
    """The same for a part, inside the targets of open references; finished ones are not followed again."""
    if is_json_mapping(part):
        reference = part.get("$ref")
        if isinstance(reference, str) and reference not in done:
            if reference in open_references:
                return reference
            found = _find(_target(root, reference), root, (*open_references, reference), done)
            if found is not None:
                return found
            done.add(reference)
        inner: Sequence[object] = tuple(part.values())
    elif is_list_or_tuple(part):
        inner = part
    else:
        return None
    return next((found for each in inner if (found := _find(each, root, open_references, done))), None)


def _target(root: object, reference: str) -> object:
    """Return the target of a reference inside the document; None if there is none."""
    if not reference.startswith(f"{_ROOT}/"):
        return None
    target = root
    for token in reference.split("/")[1:]:
        name = unquote(token).replace("~1", "/").replace("~0", "~")
        if is_json_mapping(target):
            target = target.get(name)
        elif is_list_or_tuple(target) and name.isdecimal():
            target = dict(enumerate(target)).get(int(name))
        else:
            return None
    return target


_MAX_OPTIONAL = 24
"""The greatest number of optional properties of all objects together."""
_MAX_STRICT_TOOLS = 20
_MAX_UNIONS = 16
"""The greatest number of values of several types."""

_NULL = {"type": "null"}


def fitted_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema within the limits.

    If it is too large, an object that occurs in it several times becomes a definition, and if that is not
    enough, optional values are never null.

    Args:
        schema: A schema in the form that the endpoint accepts.

    Raises:
        ConfigurationError: It is still too large.
    """
    if _is_within_limits(schema):
        return schema
    fitted = _with_shared_objects(schema)
    if _is_within_limits(fitted):
        return fitted
    fitted = cast("dict[str, Any]", _without_optional_nulls(fitted))
    if _is_within_limits(fitted):
        return fitted
    raise ConfigurationError(
        "The structured output of the Anthropic Messages protocol cannot carry schemas with more than "
        f"{_MAX_OPTIONAL} properties that may be left out or more than {_MAX_UNIONS} of several types. "
        f"It has {_count_optional(fitted)} and {_count_unions(fitted)}; let values travel through tools."
    )


class StrictTools:
    """The tools of one request whose arguments the endpoint is to enforce, as many as its limits allow.

    Source: "Structured outputs", "Schema complexity limits", of the provider's documentation. The limits hold
    for all strict tools and the response format together.

    Args:
        response_schema: The schema of the response, in the form that the endpoint accepts; None for none.
    """

    def __init__(self, response_schema: Mapping[str, Any] | None) -> None:
        self._tools = 0
        self._optional = _count_optional(response_schema)
        self._unions = _count_unions(response_schema)

    def add(self, parameters: Mapping[str, Any]) -> dict[str, Any] | None:
        """The schema of a strict tool; None when it cannot be one, or the limits are reached.

        Args:
            parameters: The schema of its arguments.
        """
        try:
            schema = supported_schema(parameters)
        except ConfigurationError:  # it would be narrowed to nothing
            return None
        optional, unions = self._optional + _count_optional(schema), self._unions + _count_unions(schema)
        if self._tools == _MAX_STRICT_TOOLS or optional > _MAX_OPTIONAL or unions > _MAX_UNIONS:
            return None
        self._tools, self._optional, self._unions = self._tools + 1, optional, unions
        return schema


def _is_within_limits(schema: object) -> bool:
    return _count_optional(schema) <= _MAX_OPTIONAL and _count_unions(schema) <= _MAX_UNIONS


def _count_optional(schema: object) -> int:
    return sum(
        name not in _required(each)
        for each in _parts(schema)
        if _is_object(each)
        for name in each["properties"]
    )


def _count_unions(schema: object) -> int:
    return sum(1 for each in _parts(schema) if isinstance(each.get("anyOf"), list))


def _with_shared_objects(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with one definition for all objects that are the same."""
    counts = Counter(_text(each) for each in _parts(schema) if _is_object(each))
    given: object = schema.get("$defs", {})
    definitions: dict[str, Any] = dict(given) if is_json_mapping(given) else {}
    names: dict[str, str] = {}

    def share(part: object) -> object:
        if is_json_list(part):
            return [share(each) for each in part]
        if not is_json_mapping(part):
            return part
        if not _is_object(part) or counts[text := _text(part)] < 2:
            return {name: share(each) for name, each in part.items()}
        if text not in names:
            names[text] = next(name for at in count(1) if (name := f"Shared{at}") not in definitions)
            definitions[names[text]] = {}  # the name is taken
            definitions[names[text]] = {name: share(each) for name, each in part.items()}
        return {"$ref": f"#/$defs/{names[text]}"}

    shared = {name: share(each) for name, each in schema.items()}
    if not names:
        return shared
    own = cast("dict[str, Any]", shared.get("$defs", {}))
    return shared | {"$defs": {**own, **{name: definitions[name] for name in names.values()}}}


def _is_object(schema: Mapping[str, Any]) -> bool:
    return schema.get("type") == "object" and is_json_mapping(schema.get("properties"))


def _text(schema: object) -> str:
    return json.dumps(schema, sort_keys=True, default=str)


def _without_optional_nulls(part: object) -> object:
    if is_json_list(part):
        return [_without_optional_nulls(each) for each in part]
    if not is_json_mapping(part):
        return part
    changed = {name: _without_optional_nulls(each) for name, each in part.items()}
    properties: object = changed.get("properties")
    if changed.get("type") == "object" and is_json_mapping(properties):
        required = _required(changed)
        changed["properties"] = {
            name: each if name in required else _without_null(each) for name, each in properties.items()
        }
    return changed


def _required(schema: Mapping[str, Any]) -> Sequence[object]:
    required: object = schema.get("required")
    return required if is_list_or_tuple(required) else ()


def _without_null(schema: Any) -> Any:
    """A schema without the alternative null."""
    given: list[Any] = schema.get("anyOf", [])
    left = [each for each in given if each != _NULL]
    if len(left) == len(given) or not left:
        return schema
    if len(left) > 1:
        return schema | {"anyOf": left}
    if "$ref" in left[0]:  # a reference stands alone
        return left[0]
    return left[0] | {name: each for name, each in schema.items() if name != "anyOf"}


def _parts(part: object) -> Iterator[Mapping[str, Any]]:
    """The objects inside of a document."""
    if is_json_mapping(part):
        yield part
        for each in part.values():
            yield from _parts(each)
    elif is_json_list(part):
        for each in part:
            yield from _parts(each)


_Schema = Mapping[str, Any]

_DEFINITIONS = ("$defs", "definitions")
_UNIONS = {"anyOf": "anyOf", "oneOf": "anyOf", "allOf": "allOf"}
_FORMATS = frozenset(
    {"date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uri", "uuid"}
)
_TYPES = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
# These hold nothing that the model must know.
_DROPPED = frozenset({"$schema", "$id", "$comment", "discriminator"})


def supported_schema(schema: _Schema) -> dict[str, Any]:
    """The schema as the endpoint accepts it.

    Args:
        schema: A JSON Schema.

    Raises:
        ConfigurationError: The subset cannot express a part of it, it contains itself, or it is too large.
    """
    encoded = _encode(schema)
    if (reference := find_recursion(encoded)) is not None:
        raise ConfigurationError(
            "The structured output of the Anthropic Messages protocol cannot carry a schema that contains "
            f"itself, as this one does by {_quoted(reference)}. Let the value travel through tools."
        )
    return fitted_schema(encoded)


def _encode(given: object) -> dict[str, Any]:
    # `true` and `false` are schemas as well, of any value and of none.
    schema: _Schema = given if is_json_mapping(given) else {}
    left = {name: value for name, value in schema.items() if name not in _DROPPED}
    encoded: dict[str, Any] = {}
    for place in _DEFINITIONS:
        if is_json_mapping(definitions := left.pop(place, None)):
            encoded[place] = {name: _encode(each) for name, each in definitions.items()}
    if "$ref" in left:  # a reference stands alone
        return encoded | {"$ref": left["$ref"]}
    encoded |= _encode_kind(left)
    left.pop("additionalProperties", None)
    for name in ("title", "description"):
        if name in left:
            encoded[name] = left.pop(name)
    if left:
        encoded["description"] = _described(encoded.get("description"), left)
    return encoded


def _encode_kind(left: dict[str, Any]) -> dict[str, Any]:
    """Encode the kinds of values; their keywords are removed from the rest of the schema."""
    if literals := {name: left.pop(name) for name in ("enum", "const") if _has_plain_values(left, name)}:
        left.pop("type", None)
        return literals
    for name, encoded_name in _UNIONS.items():
        if _is_list(left.get(name)):
            left.pop("type", None)
            return {encoded_name: [_encode(each) for each in left.pop(name)]}
    kind: object = left.get("type")
    if _is_list(kind):
        return {"anyOf": _split_types(kind, left)}
    if not isinstance(kind, str) or kind not in _TYPES:
        raise ConfigurationError(
            "The structured output of the Anthropic Messages protocol needs a type for every value; the "
            f"schema has none in {_quoted(left)}."
        )
    details = _encode_details(kind, left)
    return {"type": left.pop("type")} | details


def _split_types(kinds: Sequence[object], left: dict[str, Any]) -> list[dict[str, Any]]:
    """A variant for each of several types; keywords about all of them stay above."""
    words = {name: left.pop(name) for name in ("title", "description", "default") if name in left}
    variants = [_encode({**left, "type": kind}) for kind in kinds]
    left.clear()
    left.update(words)
    return variants


def _encode_details(kind: str, left: dict[str, Any]) -> dict[str, Any]:
    if kind == "object":
        return _encode_object(left)
    if kind == "array":
        details = {"items": _encode(left.pop("items"))} if "items" in left else {}
        return details | ({"minItems": left.pop("minItems")} if left.get("minItems") in (0, 1) else {})
    is_known = kind == "string" and str(left.get("format")) in _FORMATS
    return {"format": left.pop("format")} if is_known else {}


def _encode_object(left: dict[str, Any]) -> dict[str, Any]:
    given: object = left.get("properties")
    properties: _Schema = given if is_json_mapping(given) else {}
    if not properties and left.get("additionalProperties", "properties" not in left) is not False:
        raise ConfigurationError(
            "The structured output of the Anthropic Messages protocol cannot carry objects with free keys; "
            f"the schema has one in {_quoted(left)}. Name its keys, or let the value travel through tools."
        )
    left.pop("properties", None)
    encoded: dict[str, Any] = {
        "properties": {name: _encode(each) for name, each in properties.items()},
        "additionalProperties": False,
    }
    return encoded | ({"required": left.pop("required")} if _is_list(left.get("required")) else {})


def _described(description: object, left: _Schema) -> str:
    rules = ", ".join(f"{name}: {_quoted(value)}" for name, value in left.items())
    return f"{description} ({rules})" if description else f"({rules})"


def _has_plain_values(schema: _Schema, name: str) -> bool:
    """Whether a schema lists its values under that name, at least one, all scalars."""
    if name not in schema:
        return False
    values: object = schema[name] if name == "enum" else [schema[name]]
    return _is_list(values) and all(each is None or isinstance(each, str | int | float) for each in values)


def _quoted(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 200 else text[:200] + "…"


def _is_list(value: object) -> TypeGuard[Sequence[object]]:
    """Whether a value is a list that is not empty."""
    return is_list_or_tuple(value) and bool(value)


_PROPERTY = re.compile(r"[a-zA-Z0-9_.-]{1,64}", re.ASCII)


def find_parameter_problem(parameters: Mapping[str, Any]) -> str | None:
    """See `wire.schema_rules.SchemaRules`."""
    for name in parameters.get("properties", {}):
        if not _PROPERTY.fullmatch(name):
            return (
                f"Anthropic's endpoint refuses the parameter name {name!r}; it takes at most 64 ASCII "
                "letters, digits, underscores, dots and hyphens. Rename the parameter."
            )
    return None


def find_problem(schema: Mapping[str, Any], place: SchemaLocation) -> str | None:
    """See `wire.schema_rules.SchemaRules`."""
    names = (name for _, each in schemas_in(schema) for name in _property_names(each))
    if bad := next((name for name in names if not _PROPERTY.fullmatch(name)), None):
        return f"Anthropic's endpoint refuses the property name {bad!r}"
    if place == "response":
        try:
            supported_schema(schema)
        except ConfigurationError as error:
            return str(error).partition("; ")[0].rstrip(".")
    return None


def _property_names(schema: Mapping[str, Any]) -> Mapping[str, object]:
    properties = schema.get("properties")
    return properties if is_json_mapping(properties) else {}
