"""Values that a model gives in another form than their type has in JSON, read where only one is possible.

JSON in a text is the object or the list that it holds, unless the type takes texts; a text of another case or
with other separators is the member of an enumeration, or the literal, that it alone can mean. A value that
fits its type is never changed. Types with code of the user that sees the value first are left alone.
"""

import enum
import json
import operator
import re
from collections.abc import Hashable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from ..types.json import is_json_list, is_json_object
from ..types.outcomes import Reading
from ..wire.json_text import MAX_DEPTH
from ..wire.loose_json import NotOneMeaningError, read_value
from .schemas import CoreSchema, adapted_core_schema, made_once

_Schema: TypeAlias = dict[str, Any]

_SEPARATORS = re.compile(r"[\s_-]+")
_MAX_ALTERNATIVES = 100
"""A limit because recursive aliases may refer to themselves; beyond it, a value is left as it is."""

_LISTS = frozenset({"deque", "frozenset", "generator", "list", "named-tuple", "set", "tuple"})
_OBJECTS = frozenset({"dataclass", "dict", "model", "typed-dict"})
_NUMBERS = frozenset({"bool", "float", "int"})
_TEXTS = frozenset(
    {"bytes", "date", "datetime", "decimal", "multi-host-url", "str", "time", "timedelta", "url", "uuid"}
)
_BOOLEANS = frozenset({"0", "1", "f", "false", "n", "no", "off", "on", "t", "true", "y", "yes"})
_CODE_FIRST = ("function-before", "function-plain", "function-wrap")
_WRAPPERS = frozenset({"custom-error", "default", "function-after", "json-or-python", "lax-or-strict"})
_INNER = ("json_schema", "lax_schema", "schema")
_TEXT: Final[_Schema] = {"type": "str"}
"""Stands for a schema that may take any text."""


class LooseValue:
    """The other forms of the values of one type.

    Args:
        schema: The core schema of the type.
        family: Makes those of the types inside.
    """

    __slots__ = (
        "_family",
        "_fields",
        "_is_list",
        "_is_object",
        "_items",
        "_numbers",
        "_tag",
        "_texts",
        "_values",
    )

    def __init__(self, schema: _Schema, family: "_Family") -> None:
        self._family = family
        alternatives = list(family.alternatives(schema))
        kinds = {each["type"] for each in alternatives}
        if kinds - _LISTS - _OBJECTS - _NUMBERS - _TEXTS - {"choices", "none"}:
            alternatives, kinds = [_TEXT], {"str"}  # a type that may take anything
        takes_texts = bool(kinds & _TEXTS)
        self._numbers = kinds & _NUMBERS
        lists = [each for each in alternatives if each["type"] in _LISTS]
        objects = [each for each in alternatives if each["type"] in _OBJECTS]
        self._is_list = bool(lists) and not takes_texts
        self._is_object = bool(objects) and not takes_texts
        self._texts: _Texts = {} if takes_texts else _texts_of(alternatives)
        self._items = _items_of(lists[0]) if len(lists) == 1 else _Items()
        self._tag: tuple[str, Mapping[Any, _Schema]] | None = _tagged(schema) if objects else None
        alone = objects[0] if len(objects) == 1 and self._tag is None else None
        self._fields = {} if alone is None else family.fields_of(alone)
        self._values = alone.get("values_schema") if alone is not None and alone["type"] == "dict" else None

    @property
    def is_idle(self) -> bool:
        """Whether it leaves every value as it is."""
        has_text_forms = self._is_list or self._is_object or self._texts
        return not (has_text_forms or any(self._items) or self._fields or self._values or self._tag)

    def read(self, value: Any, readings: list[Reading], depth: int = 0) -> Any:
        """The value in the form that its type has in JSON; the value itself where it has no other meaning.

        Args:
            value: A decoded JSON value.
            readings: How it was read is appended.
            depth: How deeply it is nested in others.

        Raises:
            NotOneMeaningError: It is nested too deeply, with what its texts hold.
        """
        if depth > MAX_DEPTH:  # texts inside of texts may hold more than any decoded value
            raise NotOneMeaningError
        if type(value) is str:
            return self._read_text(value, readings, depth)
        if is_json_list(value):
            return self._read_items(value, readings, depth + 1)
        if is_json_object(value):
            return self._read_fields(value, readings, depth + 1)
        return value

    def _read_text(self, text: str, readings: list[Reading], depth: int) -> Any:
        if text in self._texts.get(None, ()):  # as it should be
            return text
        meant = self._texts.get(_plain(text), ())
        if len(meant) == 1 and not (self._numbers and _is_number(text)):
            readings.append("choice")
            return meant[0]
        if not (self._is_list or self._is_object):
            return text
        how: list[Reading] = ["json_text"]
        try:
            value = read_value(text, how)
        except NotOneMeaningError:
            return text
        if (self._is_list and is_json_list(value)) or (self._is_object and is_json_object(value)):
            readings += how
            return self.read(value, readings, depth)
        return text

    def _read_items(self, items: list[Any], readings: list[Reading], depth: int) -> list[Any]:
        first = [self._family.inside(schema) for schema in self._items.first]
        rest = None if self._items.rest is None else self._family.inside(self._items.rest)
        if rest is None and not any(first):
            return items
        inner = [*first, *([rest] * (len(items) - len(first)))]
        changed = [
            item if loose is None else loose.read(item, readings, depth)
            for item, loose in zip(items, inner, strict=False)
        ]
        is_changed = len(changed) == len(items) and any(map(operator.is_not, changed, items))
        return changed if is_changed else items

    def _read_fields(self, fields: dict[str, Any], readings: list[Reading], depth: int) -> dict[str, Any]:
        if self._tag is not None:
            return self._read_tagged(fields, *self._tag, readings, depth)
        changed: dict[str, Any] = {}
        for name, value in fields.items():
            schema = self._fields.get(name, self._values)
            loose = None if schema is None else self._family.inside(schema)
            if loose is not None and (read := loose.read(value, readings, depth)) is not value:
                changed[name] = read
        return fields | changed if changed else fields

    def _read_tagged(
        self,
        fields: dict[str, Any],
        name: str,
        choices: Mapping[Any, _Schema],
        readings: list[Reading],
        depth: int,
    ) -> dict[str, Any]:
        tag = fields.get(name)
        if isinstance(tag, str) and tag not in choices:
            meant = [each for each in choices if isinstance(each, str) and _plain(each) == _plain(tag)]
            if len(meant) != 1:
                return fields
            readings.append("choice")
            tag, fields = meant[0], fields | {name: meant[0]}
        chosen = choices.get(tag) if isinstance(tag, Hashable) else None
        loose = None if chosen is None else self._family.inside(chosen)
        return fields if loose is None else loose.read(fields, readings, depth)


class _Family:
    """The types that refer to one another."""

    def __init__(self, core_schema: CoreSchema) -> None:
        self._core_schema = core_schema  # kept alive, because schemas are known by their identity
        self._definitions: Mapping[str, _Schema] = {each["ref"]: each for each in core_schema.definitions}
        self._made: dict[int, LooseValue] = {}

    def inside(self, schema: _Schema) -> LooseValue | None:
        """The other forms of a type; None if there are none."""
        made = self._made.get(id(schema))
        if made is None:
            made = self._made[id(schema)] = LooseValue(schema, self)
        return None if made.is_idle else made

    def alternatives(self, schema: _Schema) -> Iterator[_Schema]:
        """The schemas that describe a value itself, without their wrappers; enumerations as `choices`."""
        waiting = [schema]
        for each in waiting:  # which grows meanwhile
            if len(waiting) > _MAX_ALTERNATIVES:
                yield _TEXT
                return
            match each["type"]:
                case "definition-ref":
                    waiting.append(self._definitions.get(each["schema_ref"], _TEXT))
                case "nullable":
                    yield {"type": "none"}
                    waiting.append(each["schema"])
                case "union" | "tagged-union":
                    waiting += _choices(each["choices"])
                case "chain":
                    waiting.append(each["steps"][0])
                case "function-wrap" if _is_ours(each):
                    waiting.append(each["schema"] | {"takes_names": True})
                case "enum" if "missing" in each:
                    yield _TEXT  # code of the user looks for the member
                case "model" if each.get("root_model"):
                    waiting.append(each["schema"])
                case "enum" | "literal":
                    yield {"type": "choices", "choices": _members_of(each)}
                case kind if kind in _WRAPPERS:
                    waiting.append(next(each[name] for name in _INNER if name in each))
                case kind if kind in _OBJECTS and _sees_value_first(each):
                    yield _TEXT
                case _:
                    yield each

    def fields_of(self, schema: _Schema) -> dict[str, _Schema]:
        """The schemas of an object's fields by their names in data."""
        while "fields" not in schema or schema["type"] in ("dataclass", "model"):
            inner = schema.get("schema")
            if inner is None:
                return {}
            schema = inner
        fields: Any = schema["fields"]
        listed = fields.items() if is_json_object(fields) else [(each["name"], each) for each in fields]
        named: dict[str, _Schema] = {}
        for name, each in listed:
            alias = each.get("validation_alias", name)
            named[name] = each["schema"]
            paths = alias if is_json_list(alias) and all(map(is_json_list, alias)) else [[alias]]
            for path in paths:
                if is_json_list(path) and len(path) == 1 and isinstance(path[0], str):
                    named[path[0]] = each["schema"]
        return named


@made_once
def loose_value(annotation: object) -> LooseValue | None:
    """The other forms of the values of a type; None if there are none.

    Args:
        annotation: The type.
    """
    core_schema = adapted_core_schema(annotation)
    return _Family(core_schema).inside(core_schema.schema)


def _choices(choices: Any) -> Iterator[_Schema]:
    """The choices of a union; those of a plain one may have labels."""
    for each in choices.values() if is_json_object(choices) else choices:
        yield each[0] if isinstance(each, tuple) else each


def _is_ours(schema: _Schema) -> bool:
    """Whether a function is one with which the library extends a schema of pydantic's to other data."""
    inner = schema["schema"]["type"]
    module = type(schema["function"]["function"]).__module__
    return inner in ("enum", "literal", "typed-dict") and module == adapted_core_schema.__module__


def _sees_value_first(schema: _Schema) -> bool:
    """Whether code of the user is given an object's data before pydantic, and may take texts."""
    while (inner := schema.get("schema")) is not None:
        if schema["type"] in _CODE_FIRST:
            return True
        schema = inner
    return schema["type"] == "function-plain"


def _tagged(schema: _Schema) -> tuple[str, Mapping[Any, _Schema]] | None:
    """The field that tells the members of a union apart, and the members; None for other types."""
    while schema["type"] in ("nullable", "default"):
        schema = schema["schema"]
    if schema["type"] != "tagged-union" or not isinstance(schema["discriminator"], str):
        return None
    return schema["discriminator"], schema["choices"]


class _Items(NamedTuple):
    """The schemas of the items of a list.

    Attributes:
        first: Those of its first items.
        rest: That of all others; None for an unknown one.
    """

    first: tuple[_Schema, ...] = ()
    rest: _Schema | None = None


def _items_of(schema: _Schema) -> _Items:
    if schema["type"] != "tuple":
        return _Items(rest=schema.get("items_schema"))
    items: list[_Schema] = schema["items_schema"]
    variadic: int | None = schema.get("variadic_item_index")
    if variadic is None:
        return _Items(tuple(items))
    return _Items(tuple(items[:variadic]), items[variadic] if variadic == len(items) - 1 else None)


class _Member(NamedTuple):
    """A member of an enumeration or a literal type.

    Attributes:
        data: Its form in JSON.
        accepted: The texts that pydantic accepts for it.
        texts: The texts that mean it.
    """

    data: Any
    accepted: tuple[str, ...]
    texts: tuple[str, ...]


def _members_of(schema: _Schema) -> list[_Member]:
    takes_names = schema["type"] == "enum" and "takes_names" in schema
    return [_member(each, takes_names) for each in schema.get("members", schema.get("expected", ()))]


def _member(member: Any, takes_names: bool) -> _Member:
    name = () if not isinstance(member, enum.Enum) else (member.name,)
    value: Any = member.value if isinstance(member, enum.Enum) else member
    data = value if isinstance(value, str | int | float | None) else "".join(name)
    text = data if isinstance(data, str) else json.dumps(data)
    accepted = (*((data,) if isinstance(data, str) else ()), *(name if takes_names else ()))
    longer = tuple(f"{type(member).__name__}.{each}" for each in name)
    return _Member(data, accepted, (text, *name, *longer))


_Texts: TypeAlias = Mapping[str | None, tuple[Any, ...]]


def _texts_of(alternatives: list[_Schema]) -> _Texts:
    """The texts that each text may mean, by its plain form; under None, those that are as they should be."""
    members: list[_Member] = [each for schema in alternatives for each in schema.get("choices", ())]
    meanings: dict[str | None, list[Any]] = {}
    for member in members:
        for text in member.texts:
            known = meanings.setdefault(_plain(text), [])
            if not any(type(member.data) is type(other) and member.data == other for other in known):
                known.append(member.data)
    if {"type": "none"} in alternatives:  # which these words may mean as well
        for text in meanings.keys() & {"none", "null"}:
            meanings[text].append(None)
    accepted = tuple(text for member in members for text in member.accepted)
    return {text: tuple(each) for text, each in meanings.items()} | ({None: accepted} if accepted else {})


def _is_number(text: str) -> bool:
    """Whether pydantic may take a text for a number or a truth value."""
    try:
        float(text)
    except ValueError:
        return text.strip().casefold() in _BOOLEANS
    return True


def _plain(text: str) -> str:
    """A text without its case and separators."""
    return _SEPARATORS.sub(" ", text.strip().casefold())
