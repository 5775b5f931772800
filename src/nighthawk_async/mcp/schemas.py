"""JSON Schemas of servers, checked before anything is made of them or sent to a provider.

Providers refuse a whole request for one schema that is none. The check follows JSON Schema 2020-12, in a time
that grows with the size of the schema: patterns are compiled, and never matched. The package `jsonschema`
checks schemas too, but needs ten seconds for one of 256 KiB where this needs a tenth of one.
"""

import json
import re
import warnings
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, TypeAlias, TypedDict, cast
from urllib.parse import unquote

import msgspec
from msgspec import Meta

from ..pickling import PicklableError
from ..types.json import is_json_list, is_json_mapping, is_json_object

NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords with schemas by name."""
LISTED = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
"""Keywords with a list of schemas."""
SINGLE = frozenset(
    {"items", "additionalItems", "additionalProperties", "contains", "contentSchema", "propertyNames"}
    | {"unevaluatedItems", "unevaluatedProperties", "not", "if", "then", "else"}
)
"""Keywords with one schema."""


def parts_of(schema: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The schemas directly inside a schema, each with the keyword that holds it."""
    for keyword, value in schema.items():
        if keyword in SINGLE:
            yield keyword, value
        elif keyword in NAMED and is_json_object(value):
            yield from ((keyword, each) for each in value.values())
        elif keyword in LISTED and is_json_list(value):
            yield from ((keyword, each) for each in value)


def pointed_at(document: Mapping[str, Any], reference: str) -> object:
    """The part of a document that a reference of the form `#/a/b` points at; None for any other."""
    found: object = document
    if reference == "#":
        return found
    if not reference.startswith("#/"):
        return None
    for part in reference.removeprefix("#/").split("/"):
        name = part.replace("~1", "/").replace("~0", "~")
        if is_json_mapping(found):
            found = found.get(name, found.get(unquote(name)))  # some write `%20`, as the standard has it
        elif is_json_list(found) and name.isdecimal() and len(name) < 6:
            found = dict(enumerate(found)).get(int(name))
        else:
            return None
    return found


MAX_CHARACTERS = 256 * 1024
"""The size of a definition that is used, in characters of JSON."""
_MAX_JSON_DEPTH = 200
_MAX_DEPTH = 32
_MAX_SCHEMAS = 10_000  # counted as often as they are referred to
_MAX_PATTERN_CHARACTERS = 4_000


class BadSchemaError(PicklableError, ValueError):
    """A JSON Schema is none, or too large."""


def check_json(value: object) -> None:
    """Check that data is JSON which can be sent, and neither too large nor nested too deeply.

    Raises:
        BadSchemaError: It is not.
    """
    level = [value]
    for _ in range(_MAX_JSON_DEPTH):
        level = [inner for each in level for inner in _inner(each)]
        if not level:
            break
    else:
        raise BadSchemaError("it is nested too deeply")
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False)
        text.encode()
    except UnicodeEncodeError:
        raise BadSchemaError("it has a lone surrogate, which is no character") from None
    except ValueError:
        raise BadSchemaError("it has a number that JSON does not have") from None
    if len(text) > MAX_CHARACTERS:
        raise BadSchemaError(f"it has {len(text):,} characters; at most {MAX_CHARACTERS:,} are used")


def _inner(value: object) -> Iterator[object]:
    if is_json_mapping(value):
        yield from value.values()
    elif is_json_list(value):
        yield from value


def checked_schema(schema: object, *, is_object: bool = True) -> dict[str, Any]:
    """Return a schema as it is used: without annotations that are none, and as version 2020-12 has it.

    Args:
        schema: The schema, JSON data that `check_json` has passed.
        is_object: Whether it must be one of objects.

    Raises:
        BadSchemaError: It is no JSON Schema, or too large.
    """
    if not is_json_object(schema):
        raise BadSchemaError("it is no object")
    if not is_object:
        return _Schema(schema).checked()
    used = {"type": "object", **schema}
    if used["type"] != "object":
        raise BadSchemaError(f"its type is {_shown(used['type'])}, not 'object'")
    return _Schema(used).checked()


class _Schema:
    """One document.

    Args:
        document: The document, which references refer to.
    """

    def __init__(self, document: dict[str, Any]) -> None:
        self._document = document
        self._made: dict[int, object] = {}
        self._anchors: dict[str, Any] = {}

    def checked(self) -> dict[str, Any]:
        """Return it as it is used."""
        made: dict[str, Any] = self._used(self._document, "", 0)
        self._document = made
        self._anchors = dict(_anchors(made))
        _References(self).count(made)
        return made

    def _used(self, schema: object, path: str, depth: int) -> Any:
        """Return a schema as it is used, with those inside."""
        if isinstance(schema, bool):
            return schema
        if not is_json_object(schema):
            raise BadSchemaError(f"{_at(path)}{_shown(schema)} is no schema")
        if depth > _MAX_DEPTH:
            raise BadSchemaError(f"its schemas are nested more than {_MAX_DEPTH} deep")
        given = _as_2020(schema)
        if (fault := _fault_of(given)) is not None:
            raise BadSchemaError(f"{_at(path)}{fault}")
        made = {
            keyword: self._used_value(keyword, value, f"{path}/{keyword}", depth + 1)
            for keyword, value in given.items()
        }
        self._made[id(made)] = made
        return made

    def _used_value(self, keyword: str, value: Any, path: str, depth: int) -> Any:
        if keyword in NAMED:
            return {name: self._used(each, f"{path}/{name}", depth) for name, each in value.items()}
        if keyword in LISTED:
            return [self._used(each, f"{path}/{at}", depth) for at, each in enumerate(value)]
        return self._used(value, path, depth) if keyword in SINGLE else value

    def resolved(self, reference: str) -> object:
        """The schema that a reference refers to.

        Raises:
            BadSchemaError: There is none in the document.
        """
        is_name = reference in self._anchors
        found = self._anchors[reference] if is_name else pointed_at(self._document, reference)
        if isinstance(found, bool):
            return found
        if not is_json_object(found):
            raise BadSchemaError(f"'$ref' {_shown(reference)} refers to no schema in it")
        if id(found) not in self._made:  # nothing else says that it is one
            self._made[id(found)] = found
            self._used(found, f"/{reference}", 0)
        return found


_IN_PLACE = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas")
"""Keywords whose schemas are about the same value."""
_DEFINITIONS = ("$defs", "definitions")
_MAX_OPEN = 250


class _References:
    """Follows the references of a document: each leads to a schema, and none to itself.

    Args:
        schema: The document.
    """

    def __init__(self, schema: _Schema) -> None:
        self._schema = schema
        self._counts: dict[int, int] = {}
        self._open: set[int] = set()
        self._endless: dict[int, bool] = {}

    def count(self, schema: object) -> int:
        """Return the number of schemas in a schema, counted as often as they are referred to.

        Raises:
            BadSchemaError: There are too many, or a reference is none.
        """
        if not is_json_object(schema):
            return 1
        key = id(schema)
        if key in self._counts or key in self._open:
            return self._counts.get(key, 1)
        self._check_end(schema, 0)
        if len(self._open) > _MAX_OPEN:
            raise BadSchemaError("its references are nested too deeply")
        self._open.add(key)
        parts = list(parts_of(schema))
        total = 1 + sum(self.count(each) for keyword, each in parts if keyword not in _DEFINITIONS)
        total += sum(map(self.count, self._referenced(schema)))
        self._open.remove(key)
        if total > _MAX_SCHEMAS:
            raise BadSchemaError(f"it has more than {_MAX_SCHEMAS:,} parts")
        self._counts[key] = total
        for keyword, each in parts:
            if keyword in _DEFINITIONS:
                self.count(each)
        return total

    def _referenced(self, schema: Mapping[str, Any]) -> list[object]:
        return [self._schema.resolved(schema[each]) for each in ("$ref", "$dynamicRef") if each in schema]

    def _check_end(self, schema: object, depth: int) -> None:
        """Check that a schema does not refer to itself without going into its value."""
        if not is_json_object(schema):
            return
        key = id(schema)
        if key not in self._endless:
            self._endless[key] = depth <= _MAX_OPEN
            for each in (each for keyword, each in parts_of(schema) if keyword in _IN_PLACE):
                self._check_end(each, depth + 1)
            for each in self._referenced(schema):
                self._check_end(each, depth + 1)
            self._endless[key] = depth > _MAX_OPEN
        if self._endless[key]:
            raise BadSchemaError("a '$ref' in it refers to itself")


def _anchors(schema: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The schemas with a name of their own, by the reference to it."""
    for keyword in ("$anchor", "$dynamicAnchor"):
        if keyword in schema:
            yield f"#{schema[keyword]}", schema
    for _, each in parts_of(schema):
        if is_json_object(each):
            yield from _anchors(each)


_NOT_USED = ("$vocabulary", "$recursiveAnchor")
_ANNOTATIONS: Mapping[str, type] = {
    **dict.fromkeys(("title", "description", "$comment", "contentMediaType", "contentEncoding"), str),
    **dict.fromkeys(("deprecated", "readOnly", "writeOnly"), bool),
    "examples": list,
}
"""Keywords that restrict nothing, and the types of their values; others are left out."""


def _as_2020(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema without annotations that are none, and with tuples and dependencies as in 2020-12."""
    used: dict[str, Any] = {
        keyword: value
        for keyword, value in schema.items()
        if keyword not in _NOT_USED and isinstance(value, _ANNOTATIONS.get(keyword, object))
    }
    if isinstance(items := used.get("items"), list):
        del used["items"]
        if items:
            used["prefixItems"] = items
        if (others := used.pop("additionalItems", None)) is not None:
            used["items"] = others
    if isinstance(used.get("dependencies"), dict):
        dependencies: dict[str, object] = used.pop("dependencies")
        names: dict[str, object] = {
            name: each for name, each in dependencies.items() if isinstance(each, list)
        }
        schemas = {name: each for name, each in dependencies.items() if name not in names}
        used.setdefault("dependentRequired", names)
        used.setdefault("dependentSchemas", schemas)
    return used


def _at(path: str) -> str:
    return f"at {path[1:][:200]}: " if path else ""


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"


_Kind: TypeAlias = Literal["string", "integer", "number", "boolean", "object", "array", "null"]
_Count: TypeAlias = Annotated[int, Meta(ge=0)]
_Schemas: TypeAlias = Annotated[list[Any], Meta(min_length=1)]
_Name: TypeAlias = Annotated[str, Meta(pattern=r"^[A-Za-z_][-A-Za-z0-9._]*$")]
_Keywords = TypedDict(
    "_Keywords",
    {
        "$id": Annotated[str, Meta(pattern="^[^#]*#?$")],
        "$schema": str,
        "$anchor": _Name,
        "$dynamicAnchor": _Name,
        "$ref": str,
        "$dynamicRef": str,
        "$recursiveRef": str,
        "$defs": dict[str, Any],
        "definitions": dict[str, Any],
        "type": _Kind | Annotated[list[_Kind], Meta(min_length=1)],
        "enum": Annotated[list[Any], Meta(min_length=1)],
        "allOf": _Schemas,
        "anyOf": _Schemas,
        "oneOf": _Schemas,
        "prefixItems": _Schemas,
        "properties": dict[str, Any],
        "patternProperties": dict[str, Any],
        "dependentSchemas": dict[str, Any],
        "dependentRequired": dict[str, list[str]],
        "dependencies": dict[str, Any],
        "required": list[str],
        "minimum": int | float,
        "maximum": int | float,
        "exclusiveMinimum": int | float,
        "exclusiveMaximum": int | float,
        "multipleOf": Annotated[float, Meta(gt=0)],
        "minLength": _Count,
        "maxLength": _Count,
        "minItems": _Count,
        "maxItems": _Count,
        "minProperties": _Count,
        "maxProperties": _Count,
        "minContains": _Count,
        "maxContains": _Count,
        "uniqueItems": bool,
        "format": str,
        "pattern": str,
    },
    total=False,
)
"""The keywords that are checked, and their types; schemas inside are checked as such."""


def _fault_of(schema: Mapping[str, Any]) -> str | None:
    """Return the fault of a schema's own keywords; None if they have none."""
    try:
        found = msgspec.convert(schema, _Keywords)
    except msgspec.ValidationError as error:
        reason, _, path = str(error).partition(" - at `$.")
        keyword = re.split(r"[`.\[]", path)[0]
        return f"{keyword!r} is {_shown(schema.get(keyword))}: {reason}"
    lists: dict[str, Any] = {**found.get("dependentRequired", {})}
    lists |= {each: found.get(each) for each in ("type", "required")}
    for name, listed in lists.items():
        names = cast("list[str]", listed) if isinstance(listed, list) else []
        if len(set(names)) < len(names):
            return f"{name!r} is {_shown(names)}, which has a name twice"
    patterns = [*found.get("patternProperties", ()), *([found["pattern"]] if "pattern" in found else ())]
    return next((fault for fault in map(_pattern_fault, patterns) if fault is not None), None)


_OTHER_DIALECTS = (
    (re.compile(r"\\[pP](\{[^}]*\}|\w)"), r"\\w"),
    (re.compile(r"\\[ux]\{[0-9a-fA-F]+\}|\\c[A-Za-z]|\\[zZGXRhHkK](?![\w<{])"), "x"),
    (re.compile(r"\(\?<(?=[A-Za-z_])"), "(?P<"),
    (re.compile(r"\\k<(\w+)>"), r"(?P=\1)"),
    (re.compile(r"\(\?<[=!]"), "(?="),
    (re.compile(r"\[\^\]"), "."),
    (re.compile(r"\(\?[A-Za-z]+\)"), ""),
)
"""Parts of patterns that other languages have, and parts of Python's that stand for them in the check."""


def _pattern_fault(pattern: str) -> str | None:
    if len(pattern) > _MAX_PATTERN_CHARACTERS:
        return f"a pattern has {len(pattern):,} characters; at most {_MAX_PATTERN_CHARACTERS:,} are used"
    ours = pattern
    for theirs, replacement in _OTHER_DIALECTS:
        ours = theirs.sub(replacement, ours)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(ours)
    except (re.error, OverflowError, RecursionError) as error:
        return f"{_shown(pattern)} is no regular expression: {error}"
    return None
