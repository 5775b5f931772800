"""JSON Schemas of servers, checked before anything is made of them or sent to a provider.

Providers refuse a whole request for one schema that is none. The check follows JSON Schema 2020-12, in a time
that grows with the size of the schema: patterns are compiled, and never matched.
"""

import json
import math
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias, cast

from .schema_parts import LISTED, NAMED, SINGLE, parts_of

MAX_CHARACTERS = 256 * 1024
"""The size of a definition that is used, in characters of JSON."""
_MAX_JSON_DEPTH = 200
_MAX_DEPTH = 32
_MAX_SCHEMAS = 10_000  # counted as often as they are referred to
_MAX_PATTERN_CHARACTERS = 4_000
_TYPES = ("string", "integer", "number", "boolean", "object", "array", "null")

Check: TypeAlias = Callable[[Any], str | None]
"""Returns the fault of a keyword's value; None if it has none."""


class BadSchemaError(ValueError):
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
    if isinstance(value, Mapping):
        yield from cast("Mapping[str, object]", value).values()
    elif isinstance(value, list):
        yield from cast("list[object]", value)


def checked_schema(schema: object, *, is_object: bool = True) -> dict[str, Any]:
    """Return a schema as it is used: without annotations that are none, and as version 2020-12 has it.

    Args:
        schema: The schema, JSON data that `check_json` has passed.
        is_object: Whether it must be one of objects.

    Raises:
        BadSchemaError: It is no JSON Schema, or too large.
    """
    if not isinstance(schema, dict):
        raise BadSchemaError("it is no object")
    given = cast("dict[str, Any]", schema)
    if not is_object:
        return _Schema(given).checked()
    used = {"type": "object", **given}
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
        if not isinstance(schema, dict):
            raise BadSchemaError(f"{_at(path)}{_shown(schema)} is no schema")
        if depth > _MAX_DEPTH:
            raise BadSchemaError(f"its schemas are nested more than {_MAX_DEPTH} deep")
        used: dict[str, Any] = {}
        for keyword, value in cast("dict[str, Any]", schema).items():
            if (is_annotation := _ANNOTATIONS.get(keyword)) is not None and not is_annotation(value):
                continue
            if (check := _CHECKS.get(keyword)) is not None and (fault := check(value)) is not None:
                raise BadSchemaError(f"{_at(path)}{keyword!r} {fault}")
            used[keyword] = self._used_value(keyword, value, f"{path}/{keyword}", depth + 1)
        made = _as_2020(used)
        self._made[id(made)] = made
        return made

    def _used_value(self, keyword: str, value: Any, path: str, depth: int) -> Any:
        if keyword in NAMED:
            named = cast("dict[str, Any]", value)
            return {name: self._used(each, f"{path}/{name}", depth) for name, each in named.items()}
        is_tuple = keyword == "items" and _is_list(value)  # as before 2020-12
        if keyword in LISTED or is_tuple:
            listed = cast("list[Any]", value)
            return [self._used(each, f"{path}/{at}", depth) for at, each in enumerate(listed)]
        return self._used(value, path, depth) if keyword in SINGLE else value

    def resolved(self, reference: str) -> object:
        """The schema that a reference refers to.

        Raises:
            BadSchemaError: There is none in the document.
        """
        found: object = self._document
        if reference.startswith("#/"):
            for part in reference.removeprefix("#/").split("/"):
                name = part.replace("~1", "/").replace("~0", "~")
                if isinstance(found, Mapping):
                    found = cast("Mapping[str, object]", found).get(name)
                elif isinstance(found, list) and name.isdecimal() and len(name) < 6:
                    found = dict(enumerate(cast("list[object]", found))).get(int(name))
                else:
                    found = None
        elif reference != "#":
            found = self._anchors.get(reference)
        if not isinstance(found, dict | bool):
            raise BadSchemaError(f"'$ref' {_shown(reference)} refers to no schema in it")
        if (
            isinstance(found, dict) and id(cast("object", found)) not in self._made
        ):  # nothing else says that it is one
            self._made[id(cast("object", found))] = cast("object", found)
            self._used(cast("object", found), f"/{reference}", 0)
        return cast("object", found)


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
        if not isinstance(schema, dict):
            return 1
        given = cast("dict[str, Any]", schema)
        key = id(given)
        if key in self._counts or key in self._open:
            return self._counts.get(key, 1)
        self._check_end(given, 0)
        if len(self._open) > _MAX_OPEN:
            raise BadSchemaError("its references are nested too deeply")
        self._open.add(key)
        parts = list(parts_of(given))
        total = 1 + sum(self.count(each) for keyword, each in parts if keyword not in _DEFINITIONS)
        total += sum(map(self.count, self._referenced(given)))
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
        if not isinstance(schema, dict):
            return
        given = cast("dict[str, Any]", schema)
        key = id(given)
        if key not in self._endless:
            self._endless[key] = depth <= _MAX_OPEN
            for each in (each for keyword, each in parts_of(given) if keyword in _IN_PLACE):
                self._check_end(each, depth + 1)
            for each in self._referenced(given):
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
        if isinstance(each, dict):
            yield from _anchors(cast("dict[str, Any]", each))


def _as_2020(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema with the items of a tuple as version 2020-12 has them."""
    if not isinstance(items := schema.get("items"), list):
        return schema
    used = {name: each for name, each in schema.items() if name not in ("items", "additionalItems")}
    if items:
        used["prefixItems"] = items
    if "additionalItems" in schema:
        used["items"] = schema["additionalItems"]
    return used


def _at(path: str) -> str:
    return f"at {path[1:][:200]}: " if path else ""


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"


def _is_list(value: object) -> bool:
    return isinstance(value, list)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_bool(value: object) -> bool:
    return isinstance(value, bool)


_ANNOTATIONS: Mapping[str, Callable[[object], bool]] = {
    **dict.fromkeys(("title", "description", "$comment", "contentMediaType", "contentEncoding"), _is_text),
    **dict.fromkeys(("deprecated", "readOnly", "writeOnly"), _is_bool),
    "examples": _is_list,
}
"""Keywords that restrict nothing, and whether a value is one; others are left out."""


def _text_fault(value: object) -> str | None:
    return None if isinstance(value, str) else f"is {_shown(value)}, not a text"


def _bool_fault(value: object) -> str | None:
    return None if isinstance(value, bool) else f"is {_shown(value)}, neither true nor false"


def _number_fault(value: object) -> str | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return None if is_number else f"is {_shown(value)}, not a number"


def _positive_fault(value: Any) -> str | None:
    fault = _number_fault(value)
    return f"is {_shown(value)}, not above zero" if fault is None and value <= 0 else fault


def _count_fault(value: Any) -> str | None:
    is_count = _number_fault(value) is None and value >= 0 and value == int(value)
    return None if is_count else f"is {_shown(value)}, not a number from 0"


def _names_fault(value: object) -> str | None:
    if not _is_list(value):
        return f"is {_shown(value)}, not a list of names"
    names = cast("list[object]", value)
    if not all(isinstance(each, str) for each in names):
        return f"is {_shown(names)}, not a list of names"
    return None if len(set(names)) == len(names) else "has a name twice"


def _named_fault(value: object) -> str | None:
    return None if isinstance(value, dict) else f"is {_shown(value)}, not an object with schemas"


def _listed_fault(value: object) -> str | None:
    return None if _is_list(value) and value else f"is {_shown(value)}, not a list of schemas"


def _type_fault(value: object) -> str | None:
    kinds = cast("list[object]", value) if _is_list(value) else [value]
    if not kinds or not all(isinstance(each, str) and each in _TYPES for each in kinds):
        return f"is {_shown(value)}, which is no type of JSON Schema"
    return "has a type twice" if len(set(kinds)) < len(kinds) else None


def _enum_fault(value: object) -> str | None:
    return None if _is_list(value) and value else f"is {_shown(value)}, not a list of values"


def _dependencies_fault(value: object) -> str | None:
    if not isinstance(value, dict):
        return f"is {_shown(value)}, not an object"
    faults = map(_names_fault, cast("dict[str, object]", value).values())
    return next((f"has an item that {fault}" for fault in faults if fault is not None), None)


_OTHER_DIALECTS = (
    (re.compile(r"\\[pP](\{[^}]*\}|\w)"), r"\\w"),
    (re.compile(r"\\u\{[0-9a-fA-F]+\}|\\c[A-Za-z]|\\[zZGXRhHkK](?![\w<{])"), "x"),
    (re.compile(r"\(\?<(?=[A-Za-z_])"), "(?P<"),
    (re.compile(r"\\k<(\w+)>"), r"(?P=\1)"),
    (re.compile(r"\(\?<[=!]"), "(?="),
    (re.compile(r"\[\^\]"), "."),
    (re.compile(r"\(\?[A-Za-z]+\)"), ""),
)
"""Parts of patterns that other languages have, and parts of Python's that stand for them in the check."""


def _pattern_fault(value: object) -> str | None:
    if not isinstance(value, str):
        return f"is {_shown(value)}, not a text"
    if len(value) > _MAX_PATTERN_CHARACTERS:
        return f"has {len(value):,} characters; at most {_MAX_PATTERN_CHARACTERS:,} are used"
    pattern = value
    for theirs, ours in _OTHER_DIALECTS:
        pattern = theirs.sub(ours, pattern)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        return f"is {_shown(value)}, which is no regular expression: {error}"
    return None


def _patterns_fault(value: object) -> str | None:
    if not isinstance(value, dict):
        return _named_fault(value)
    faults = map(_pattern_fault, cast("dict[str, object]", value))
    return next((f"has a name that {fault}" for fault in faults if fault is not None), None)


_CHECKS: Mapping[str, Check] = {
    **dict.fromkeys(NAMED, _named_fault),
    **dict.fromkeys(LISTED, _listed_fault),
    **dict.fromkeys(("$ref", "$dynamicRef", "$anchor", "$dynamicAnchor", "$id", "$schema"), _text_fault),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _number_fault),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), _count_fault),
    **dict.fromkeys(("minProperties", "maxProperties", "minContains", "maxContains"), _count_fault),
    "patternProperties": _patterns_fault,
    "multipleOf": _positive_fault,
    "uniqueItems": _bool_fault,
    "format": _text_fault,
    "type": _type_fault,
    "enum": _enum_fault,
    "required": _names_fault,
    "dependentRequired": _dependencies_fault,
    "pattern": _pattern_fault,
}
"""The check of each keyword; those with one schema are checked as schemas."""
