"""Progress of a step: turns, tool calls in flight, usage; a snapshot of it."""

import reprlib
from collections import Counter
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from ..errors import CorrectionCause
from ..pickling import reduced_with_mappings
from ..prompt.plain_text import single_line
from ..secret_names import HIDDEN, hides_value
from ..types.messages import ToolCall
from ..types.usage import Usage
from .usage_meter import UsageMeter

__all__ = ["StepProgress", "StepSnapshot", "preview_values"]

_PREVIEW_CHARACTERS = 200


class StepProgress:
    """Counts what a step does.

    Args:
        outer: The progress of the step around it, whose usage contains the usage of this one; None for none.

    Attributes:
        turns: How many turns have begun.
        corrections: The number of corrections by cause.
        usage_meter: What the step has used, together with the steps that its tool calls carried out.
    """

    __slots__ = ("_calls", "corrections", "turns", "usage_meter")

    def __init__(self, outer: "StepProgress | None" = None) -> None:
        self.turns = 0
        self.corrections: Counter[CorrectionCause] = Counter()
        self.usage_meter: UsageMeter = UsageMeter(None if outer is None else outer.usage_meter)
        self._calls: dict[object, ToolCall] = {}

    @property
    def calls_in_flight(self) -> tuple[ToolCall, ...]:
        """The tool calls whose results are awaited, in the order of their beginning."""
        return tuple(self._calls.values())

    @contextmanager
    def in_flight(self, call: ToolCall) -> Generator[None, None, None]:
        """Count a tool call as in flight for the extent of the `with` statement."""
        key = object()
        self._calls[key] = call
        try:
            yield
        finally:
            del self._calls[key]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSnapshot:
    """An immutable view of a step at one moment between two messages.

    Args:
        step_id: Which block this is, `python_module:line`.
        locals: The step locals: a copy of the mapping, not of the objects in it.
        local_previews: Each of them as one short line of text, as it was at that moment.
        assigned_names: The write bindings assigned so far.
        turns: How many turns have begun: model requests, those of corrections included.
        tool_calls: The tool calls in flight, in the order of their beginning.
        usage: What the step has used so far, together with the steps that its tool calls carried out.
        is_suspended: Whether it is parked at a turn boundary.
        stop_reason: Why the step was asked to stop; None while nobody asked.
    """

    step_id: str
    locals: Mapping[str, object]
    local_previews: Mapping[str, str]
    assigned_names: frozenset[str]
    turns: int
    tool_calls: tuple[ToolCall, ...]
    usage: Usage
    is_suspended: bool
    stop_reason: str | None

    def __reduce__(self) -> tuple[Any, ...]:
        return reduced_with_mappings(self, self.__dataclass_fields__)


def preview_values(values: Mapping[str, object]) -> Mapping[str, str]:
    """One short line of text for each value, at most 200 characters."""
    return MappingProxyType(
        {name: HIDDEN if hides_value(name, value) else _preview(value) for name, value in values.items()}
    )


def _preview(value: object) -> str:
    try:
        text = _REPR.repr(value)
    except Exception:  # showing runs the value's own code, which may raise anything
        text = f"<{type(value).__name__} that cannot be shown>"
    return single_line(text, _PREVIEW_CHARACTERS)


_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = _REPR.maxlong = _PREVIEW_CHARACTERS
_REPR.maxlist = _REPR.maxtuple = _REPR.maxdict = _REPR.maxset = _REPR.maxfrozenset = 10
