"""Parts of a value still arriving that may be shown already, by its type. Pure.

A text, a list, a set, a tuple, a dict and a TypedDict grow. Everything else is shown when it is whole: a
number, a member of an enumeration, a date, an instance of a model or of a dataclass.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, cast

from ..runtime.core_schemas import CoreSchema, adapted_core_schema
from ..types.unset import UNSET

__all__ = ["GrowingType", "growing_type"]

_Schema = dict[str, Any]

_LISTS = frozenset({"deque", "frozenset", "generator", "list", "set"})
_CLASSES = frozenset({"call", "custom-error", "dataclass", "model"})
_FIELDS = frozenset({"arguments", "dict", "typed-dict"})
_INNER = ("schema", "json_schema", "lax_schema")
"""Where schemas hold the one schema by which they validate what JSON gives."""

_ANYTHING: Final[_Schema] = {"type": "any"}
_UNKNOWN: Final[_Schema] = {"type": "unknown"}
_SOMETHING_MADE: Final[_Schema] = {"type": "model"}
"""What a function makes of fields."""

_MAX_ALTERNATIVES = 100
"""A recursive alias may stand for itself; then what goes on is shown when it is whole."""


class GrowingType:
    """A type, as far as it says what grows.

    Args:
        core_schema: Its schema.
    """

    __slots__ = ("_definitions", "_schema")

    def __init__(self, core_schema: CoreSchema) -> None:
        self._schema = core_schema.schema
        self._definitions: Mapping[str, _Schema] = {each["ref"]: each for each in core_schema.definitions}

    def shown_part(self, value: object, open_levels: int, *, is_text_open: bool) -> object:
        """The part of a value that goes on which may be shown; UNSET for none.

        Args:
            value: The value as it was decoded so far.
            open_levels: How many objects and lists in it go on, itself included.
            is_text_open: Whether the last value of the innermost one, or the value itself, is a text that
                goes on.
        """
        return self._part(value, self._schema, open_levels, is_text_open)

    def _part(self, value: object, schema: _Schema, levels: int, is_text_open: bool) -> object:
        if not levels and not is_text_open:
            return value
        alternatives = tuple(self._alternatives(schema))
        kinds = {each["type"] for each in alternatives}
        if not levels:
            return value if kinds & {"str", "any"} else UNSET
        if isinstance(value, list):
            items = cast("list[object]", value)
            inner = next(self._item_schemas(alternatives, max(0, len(items) - 1)), None)
            return UNSET if inner is None else self._list_part(items, inner, levels - 1, is_text_open)
        if not isinstance(value, dict) or kinds & _CLASSES:
            return UNSET
        fields = cast("dict[str, object]", value)
        last = next(reversed(fields), "")
        inner = next(self._field_schemas(alternatives, last), None)
        return UNSET if inner is None else self._dict_part(fields, last, inner, levels - 1, is_text_open)

    def _list_part(self, items: list[object], inner: _Schema, levels: int, is_text_open: bool) -> object:
        if not items:
            return items
        last = self._part(items[-1], inner, levels, is_text_open)
        return items[:-1] if last is UNSET else [*items[:-1], last]

    def _dict_part(
        self, fields: dict[str, object], name: str, inner: _Schema, levels: int, is_text_open: bool
    ) -> object:
        if not fields:
            return fields
        last = self._part(fields[name], inner, levels, is_text_open)
        rest = {each: value for each, value in fields.items() if each != name}
        return rest if last is UNSET else {**rest, name: last}

    def _alternatives(self, schema: _Schema) -> Iterator[_Schema]:
        """The schemas that say what a value is, without those around them."""
        waiting = [schema]
        for each in waiting:  # which grows meanwhile
            if len(waiting) > _MAX_ALTERNATIVES:
                return
            if each["type"] == "definition-ref":
                waiting.append(self._definitions.get(each["schema_ref"], _UNKNOWN))
            elif each["type"] in ("union", "tagged-union"):
                waiting += _choices(each["choices"])
            elif each["type"] == "chain":
                waiting.append(each["steps"][0])
            elif each["type"] not in _CLASSES and (inner := _inner(each)) is not None:
                is_made = each["type"].startswith("function-") and inner["type"] in _FIELDS
                waiting.append(_SOMETHING_MADE if is_made else inner)
            else:
                yield each

    def _item_schemas(self, alternatives: Sequence[_Schema], position: int) -> Iterator[_Schema]:
        """The schemas of one item, of the alternatives that are lists in JSON."""
        for each in alternatives:
            if each["type"] == "any":
                yield _ANYTHING
            elif each["type"] in _LISTS:
                yield each.get("items_schema", _ANYTHING)
            elif each["type"] == "tuple":
                items = each["items_schema"]
                index = min(position, each.get("variadic_item_index", position))
                yield items[index] if index < len(items) else _UNKNOWN

    def _field_schemas(self, alternatives: Sequence[_Schema], name: str) -> Iterator[_Schema]:
        """The schemas of one field, of the alternatives that are objects in JSON."""
        for each in alternatives:
            if each["type"] == "any":
                yield _ANYTHING
            elif each["type"] == "dict":
                yield each.get("values_schema", _ANYTHING)
            elif each["type"] == "typed-dict":
                named = cast("Mapping[str, _Schema]", each["fields"])
                aliased = {field.get("validation_alias", key): field for key, field in named.items()}
                field = aliased.get(name, named.get(name))
                yield _UNKNOWN if field is None else field["schema"]


def growing_type(annotation: object) -> GrowingType | None:
    """Return the growth rules of a type; None for a type whose values cannot be given as data.

    Args:
        annotation: The type.
    """
    try:
        return _cached(annotation)
    except TypeError:  # not hashable: Annotated[int, {}]
        return _made(annotation)


def _made(annotation: object) -> GrowingType | None:
    try:
        return GrowingType(adapted_core_schema(annotation))
    except Exception:  # code of the user's types may raise anything
        return None


_cached = lru_cache(maxsize=1024)(_made)


def _choices(choices: Any) -> Iterator[_Schema]:
    """The choices of a union; those of a plain one may have labels."""
    listed = cast("Mapping[str, Any]", choices).values() if isinstance(choices, dict) else choices
    for each in cast("Sequence[Any]", listed):
        yield each[0] if isinstance(each, tuple) else each


def _inner(schema: _Schema) -> _Schema | None:
    return next((schema[name] for name in _INNER if isinstance(schema.get(name), dict)), None)
