"""The values of an answer while it streams, from the events of a response. No I/O.

An answer is the JSON object of an outcome with `bindings` and `return_value`: as the arguments of the call of
`nh_outcome`, or, below `result` or by itself, as the text.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

from msgspec import Struct
from pydantic_core import from_json

from ..errors import AnnotationError, ToolValidationError
from ..kernel.context import StepContext
from ..kernel.declared_types import return_type
from ..kernel.step import PartialListeners
from ..kernel.tools import OUTCOME_TOOL_NAME
from ..types.execution import RETURN_NAME
from ..types.model import (
    ModelEvent,
    ResponseFinished,
    TextDelta,
    ToolCallArgumentsDelta,
    ToolCallCompleted,
    ToolCallStarted,
)
from ..types.unset import UNSET
from ..values.plain_data import validate_data
from ..values.schemas import CoreSchema, adapted_core_schema, made_once
from .schemas import optional_parts_of

_STRUCTURE = re.compile(r'["{}\[\],:]')
_IN_STRING = re.compile(r'["\\]')

_GROWTH = 32
"""The text is decoded again when it has grown by this share: in total at most 33 times its length."""


class JsonSoFar(Struct, frozen=True, kw_only=True):
    """Data of the beginning of a JSON object.

    An unfinished value is always the last of its container, so it is found by its depth.

    Args:
        data: The object. A number at the end of the text is left out, because a digit may follow; so are
            `true`, `false` and `null`.
        open_levels: The number of unfinished objects and lists, the object itself included: it, the last
            value in it, the last value in that.
        is_text_open: Whether the last value of the innermost of them is an unfinished text.
    """

    data: dict[str, Any]
    open_levels: int
    is_text_open: bool


class OpenJson:
    """Collects fragments of the text of one JSON object.

    Every character is scanned once, apart from decoding.
    """

    __slots__ = (
        "_certain_end",
        "_is_in_string",
        "_is_in_value",
        "_last_mark",
        "_length",
        "_next_look",
        "_open",
        "_pending",
        "_skips_one",
        "_text",
    )

    def __init__(self) -> None:
        self._text = ""
        self._pending: list[str] = []
        self._length = 0
        self._next_look = 1
        self._open: list[str] = []
        self._last_mark = ""
        self._is_in_string = False
        self._is_in_value = False
        self._skips_one = False
        self._certain_end = 0

    @property
    def is_empty(self) -> bool:
        """Whether nothing was fed."""
        return not self._length

    @property
    def is_due(self) -> bool:
        """Whether enough was fed since the last decoding to make another one worth its cost."""
        return self._length >= self._next_look

    def feed(self, fragment: str) -> None:
        """Add the next fragment."""
        self._pending.append(fragment)
        self._length += len(fragment)

    def look(self) -> JsonSoFar | None:
        """Return the data of the text so far; None when it cannot begin a JSON object."""
        self._next_look = self._length + 1 + self._length // _GROWTH
        new = "".join(self._pending)
        self._pending.clear()
        start = len(self._text)
        self._text += new
        self._scan(start)
        end = None if self._is_in_string else self._certain_end
        try:
            data: object = from_json(self._text[:end], allow_partial="trailing-strings")
        except ValueError:
            return None
        if not isinstance(data, dict):
            return None
        return JsonSoFar(
            data=cast("dict[str, Any]", data),
            open_levels=len(self._open),
            is_text_open=self._is_in_string and self._is_in_value,
        )

    def _scan(self, position: int) -> None:
        """Update, from that position on, what is open at the end of the text."""
        text = self._text
        if self._skips_one and position < len(text):
            self._skips_one = False
            position += 1
        while mark := (_IN_STRING if self._is_in_string else _STRUCTURE).search(text, position):
            position = mark.end()
            if mark[0] == "\\":
                self._skips_one = position == len(text)
                position += 1
            else:
                self._take(mark[0])
                self._certain_end = position

    def _take(self, mark: str) -> None:
        if mark == '"':
            self._is_in_string = not self._is_in_string
            is_item = bool(self._open) and self._open[-1] == "["
            self._is_in_value = is_item or self._last_mark == ":"
            return
        self._last_mark = mark
        if mark in "{[":
            self._open.append(mark)
        elif mark in "}]" and self._open:
            self._open.pop()


_Schema = dict[str, Any]

_LISTS = frozenset({"deque", "frozenset", "generator", "list", "set"})
_CLASSES = frozenset({"call", "custom-error", "dataclass", "model"})
_FIELDS = frozenset({"arguments", "dict", "typed-dict"})
_INNER = ("schema", "json_schema", "lax_schema")
"""The keys under which schemas hold the one schema that validates JSON input."""

_ANYTHING: Final[_Schema] = {"type": "any"}
_UNKNOWN: Final[_Schema] = {"type": "unknown"}
_SOMETHING_MADE: Final[_Schema] = {"type": "model"}
"""Schemas of fields that a function processes."""

_MAX_ALTERNATIVES = 100
"""A limit because recursive aliases may refer to themselves; beyond it, a value is shown when complete."""


class GrowingType:
    """The growth rules of a type.

    Args:
        core_schema: Its schema.
    """

    __slots__ = ("_definitions", "_schema")

    def __init__(self, core_schema: CoreSchema) -> None:
        self._schema = core_schema.schema
        self._definitions: Mapping[str, _Schema] = {each["ref"]: each for each in core_schema.definitions}

    def shown_part(self, value: object, open_levels: int, *, is_text_open: bool) -> object:
        """The part of an unfinished value that may be shown; UNSET for none.

        Args:
            value: The value as decoded so far.
            open_levels: The number of unfinished objects and lists in it, itself included.
            is_text_open: Whether the last value of the innermost one, or the value itself, is an unfinished
                text.
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
        """The schemas that describe a value itself, without their wrappers."""
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


@made_once
def growing_type(annotation: object) -> GrowingType | None:
    """Return the growth rules of a type; None for a type whose values cannot be given as data.

    Args:
        annotation: The type.
    """
    return GrowingType(adapted_core_schema(annotation))


def _choices(choices: Any) -> Iterator[_Schema]:
    """The choices of a union; those of a plain one may have labels."""
    listed = cast("Mapping[str, Any]", choices).values() if isinstance(choices, dict) else choices
    for each in cast("Sequence[Any]", listed):
        yield each[0] if isinstance(each, tuple) else each


def _inner(schema: _Schema) -> _Schema | None:
    return next((schema[name] for name in _INNER if isinstance(schema.get(name), dict)), None)


class _Shown(Struct, frozen=True, kw_only=True):
    """A value as it was shown last.

    Args:
        part: The data that it was made from.
        is_whole: Whether the data is complete.
        value: The value that was shown; UNSET for none.
    """

    part: object
    is_whole: bool
    value: object


class PartialAnswer:
    """Reads one response, and reports the values of its answer whenever more of them are available.

    Args:
        context: The step that the response is for.
        listeners: The listeners to the values.
    """

    __slots__ = ("_attempt", "_call", "_context", "_json", "_listeners", "_shown")

    def __init__(self, context: StepContext, listeners: PartialListeners) -> None:
        self._context = context
        self._listeners = listeners
        self._attempt = 0
        self._call: int | None = None
        self._json = OpenJson()
        self._shown: dict[str, _Shown] = {}

    def feed(self, event: ModelEvent) -> None:
        """Process one event of the response."""
        match event:
            case TextDelta() if self._call is None:
                self._take(event.text)
            case ToolCallStarted(name=name) if name == OUTCOME_TOOL_NAME:
                self._begin_call(event.index)
            case ToolCallArgumentsDelta() if event.index == self._call:
                self._take(event.fragment)
            case ToolCallCompleted() if event.call.name == OUTCOME_TOOL_NAME:
                if event.index != self._call:
                    self._begin_call(event.index)
                if self._json.is_empty:
                    self._take(event.call.arguments)
                self._look()
            case ResponseFinished() if self._call is None:
                self._look()
            case _:
                pass

    def _begin_call(self, index: int) -> None:
        self._attempt = 0
        self._call = index
        self._json = OpenJson()
        self._shown.clear()

    def _take(self, fragment: str) -> None:
        self._json.feed(fragment)
        if self._json.is_due:
            self._look()

    def _look(self) -> None:
        if not self._listeners.are_wanted:
            return
        so_far = self._json.look()
        if so_far is None or not self._has_more(so_far):
            return
        values = {name: shown.value for name, shown in self._shown.items() if shown.value is not UNSET}
        self._attempt = self._attempt or self._listeners.begin_attempt()
        self._listeners.deliver(values, self._attempt)

    def _has_more(self, so_far: JsonSoFar) -> bool:
        has_more = False
        for name, value, levels, is_text_open in _values_in(so_far, self._context):
            has_more |= self._show(name, value, levels, is_text_open)
        return has_more

    def _show(self, name: str, value: object, levels: int, is_text_open: bool) -> bool:
        """Show a value as far as it is available; returns whether it has changed."""
        annotation = self._type_of(name)
        is_whole = not levels and not is_text_open
        before = self._shown.get(name)
        part = value
        if not is_whole:
            growing = growing_type(annotation)
            part = UNSET if growing is None else growing.shown_part(value, levels, is_text_open=is_text_open)
            if part is UNSET:
                return False
        if before is not None and before.is_whole == is_whole and before.part == part:
            return False
        optional = optional_parts_of(annotation)
        given = part if optional is None else optional.without_nulls(part)
        try:
            shown = validate_data(given, annotation, subject=name, is_whole=is_whole)
        except (ToolValidationError, AnnotationError):
            shown = UNSET
        self._shown[name] = _Shown(part=part, is_whole=is_whole, value=shown)
        return shown is not UNSET or (before is not None and before.value is not UNSET)

    def _type_of(self, name: str) -> object:
        if name == RETURN_NAME:
            return return_type(self._context)
        return self._context.binding_types.get(name, object)


def _values_in(so_far: JsonSoFar, context: StepContext) -> Iterator[tuple[str, object, int, bool]]:
    """The values of an answer: the name, the data so far, and the open parts of each, as in `JsonSoFar`.

    `null` may mean that there is no value, so it counts as none.
    """
    answer, levels = so_far.data, so_far.open_levels
    if set(answer) == {"result"} and isinstance(answer["result"], dict):
        answer, levels = cast("dict[str, Any]", answer["result"]), max(0, levels - 1)
    last = next(reversed(answer), None)
    bindings = answer.get("bindings")
    if isinstance(bindings, dict):
        named = cast("dict[str, object]", bindings)
        inside = levels - 1 if last == "bindings" else 0
        for name, levels_of_value, is_text_open in _openness(named, inside, so_far.is_text_open):
            if name in context.write_names and named[name] is not None:
                yield name, named[name], levels_of_value, is_text_open
    if answer.get("kind") == "return" and "return" in context.allowed_kinds:
        for name, levels_of_value, is_text_open in _openness(answer, levels, so_far.is_text_open):
            if name == "return_value" and answer[name] is not None:
                yield RETURN_NAME, answer[name], levels_of_value, is_text_open


def _openness(fields: dict[str, Any], levels: int, is_text_open: bool) -> Iterator[tuple[str, int, bool]]:
    """The names of an object's fields, and the open parts of each: only the last can have any."""
    last = next(reversed(fields), None) if levels > 0 else None
    for name in fields:
        is_last = name == last
        yield name, levels - 1 if is_last else 0, is_last and is_text_open
