"""The values of an answer while it streams, from the events of a response. No I/O.

An answer is the JSON object of an outcome with `bindings` and `return_value`: as the arguments of the call of
`nh_outcome`, or, below `result` or by itself, as the text.
"""

from collections.abc import Iterator
from typing import Any, cast

from msgspec import Struct

from ..errors import AnnotationError, ToolValidationError
from ..runtime.annotations import return_type
from ..runtime.environment import find_environment
from ..runtime.plain_data import validate_data
from ..runtime.step import PartialListeners
from ..runtime.step_context import StepContext
from ..types.model import (
    ModelEvent,
    ResponseFinished,
    TextDelta,
    ToolCallArgumentsDelta,
    ToolCallCompleted,
    ToolCallStarted,
)
from ..types.partial_values import RETURN_NAME
from ..types.unset import UNSET
from .open_json import JsonSoFar, OpenJson
from .partial_data import growing_type
from .provided_tools import OUTCOME_TOOL_NAME

__all__ = ["PartialAnswer", "find_partial_answer"]


class _Shown(Struct, frozen=True, kw_only=True):
    """A value as it was shown last.

    Args:
        part: The data that it was made of.
        is_whole: Whether that is all of it.
        value: What was shown; UNSET for nothing.
    """

    part: object
    is_whole: bool
    value: object


class PartialAnswer:
    """Reads one response, and reports the values of its answer whenever more of them are there.

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
        """Take in one event of the response."""
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
        self._listeners.tell(values, self._attempt)

    def _has_more(self, so_far: JsonSoFar) -> bool:
        has_more = False
        for name, value, levels, is_text_open in _values_in(so_far, self._context):
            has_more |= self._show(name, value, levels, is_text_open)
        return has_more

    def _show(self, name: str, value: object, levels: int, is_text_open: bool) -> bool:
        """Show a value as far as it is there; gives whether it is another one than before."""
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
        try:
            shown = validate_data(part, annotation, subject=name, is_whole=is_whole)
        except (ToolValidationError, AnnotationError):
            shown = UNSET
        self._shown[name] = _Shown(part=part, is_whole=is_whole, value=shown)
        return shown is not UNSET or (before is not None and before.value is not UNSET)

    def _type_of(self, name: str) -> object:
        if name == RETURN_NAME:
            return return_type(self._context)
        return self._context.binding_types.get(name, object)


def find_partial_answer() -> PartialAnswer | None:
    """Return a reader for the next response of the step in progress; None without listeners."""
    environment = find_environment()
    step = None if environment is None else environment.step
    if step is None or step.partial_listeners is None:
        return None
    return PartialAnswer(step.context, step.partial_listeners)


def _values_in(so_far: JsonSoFar, context: StepContext) -> Iterator[tuple[str, object, int, bool]]:
    """The values of an answer: the name of each, what is there, and what of it goes on, as in `JsonSoFar`.

    `null` may stand for no value, so it is none.
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
    """The names of an object's fields, and what of each goes on: of the last one, if the object does."""
    last = next(reversed(fields), None) if levels > 0 else None
    for name in fields:
        is_last = name == last
        yield name, levels - 1 if is_last else 0, is_last and is_text_open
