"""Usage of model requests, and the progress of a step with its turns and tool calls."""

import reprlib
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol

from ..errors import CorrectionCause
from ..pickling import reduced_with_mappings
from ..prompt.plain_text import single_line
from ..secret_names import HIDDEN, hides_value
from ..types.messages import ToolCall
from ..types.usage import Usage


class UsageReceiver(Protocol):
    """Receives what meters count, from any thread."""

    def add(self, model_name: str, usage: Usage) -> None:
        """Receive the usage of one model request."""
        ...

    def count_step(self) -> None:
        """Receive a step that begins."""
        ...

    def count_correction(self, cause: CorrectionCause) -> None:
        """Receive a correction of the model."""
        ...


class UsageMeter:
    """Adds up usage per model, and passes every addition on to the meter of the enclosing scope.

    Steps on several threads may share a meter. Its copies and pickles are snapshots.

    Args:
        parent: The meter of the enclosing scope; None for the outermost.
        receiver: Receives everything that is counted, if this is the outermost meter; None for nothing.
    """

    __slots__ = ("_by_model", "_corrections", "_lock", "_parent", "_receiver", "_steps")

    def __init__(self, parent: "UsageMeter | None" = None, *, receiver: UsageReceiver | None = None) -> None:
        self._parent = parent
        self._receiver: UsageReceiver | None = receiver if parent is None else parent._receiver
        self._by_model: dict[str, Usage] = {}
        self._steps = 0
        self._corrections: dict[CorrectionCause, int] = {}
        self._lock = threading.Lock()

    def __getstate__(self) -> tuple[dict[str, Usage], int, dict[CorrectionCause, int]]:
        """Return the usage so far, for copies and pickles, which pass nothing on to an enclosing scope."""
        with self._lock:
            return dict(self._by_model), self._steps, dict(self._corrections)

    def __setstate__(self, state: tuple[dict[str, Usage], int, dict[CorrectionCause, int]]) -> None:
        self._by_model, self._steps, self._corrections = state
        self._parent, self._receiver, self._lock = None, None, threading.Lock()

    @property
    def usage(self) -> Usage:
        """The usage so far, of all models together."""
        return sum(self.usage_by_model.values(), Usage())

    @property
    def usage_by_model(self) -> Mapping[str, Usage]:
        """The usage so far, by model id; a snapshot."""
        with self._lock:
            return dict(self._by_model)

    @property
    def steps(self) -> int:
        """The number of steps that have begun."""
        return self._steps

    @property
    def corrections(self) -> Mapping[CorrectionCause, int]:
        """The number of corrections by cause; a snapshot."""
        with self._lock:
            return dict(self._corrections)

    def add(self, model_name: str, usage: Usage) -> None:
        """Count the usage of one model request here and in every enclosing scope.

        Args:
            model_name: The model id.
            usage: The usage; impossible numbers are left out.
        """
        usage = usage.credible()
        meter: UsageMeter | None = self
        while meter is not None:
            with meter._lock:
                counted = meter._by_model.get(model_name)
                meter._by_model[model_name] = usage if counted is None else counted + usage
            meter = meter._parent
        if self._receiver is not None:
            self._receiver.add(model_name, usage)

    def count_step(self) -> None:
        """Count a step that begins, here and in every enclosing scope."""
        for meter in self._path():
            with meter._lock:
                meter._steps += 1
        if self._receiver is not None:
            self._receiver.count_step()

    def count_correction(self, cause: CorrectionCause) -> None:
        """Count a correction of the model, here and in every enclosing scope.

        Args:
            cause: The cause of the correction.
        """
        for meter in self._path():
            with meter._lock:
                meter._corrections[cause] = meter._corrections.get(cause, 0) + 1
        if self._receiver is not None:
            self._receiver.count_correction(cause)

    def _path(self) -> "Iterator[UsageMeter]":
        meter: UsageMeter | None = self
        while meter is not None:
            yield meter
            meter = meter._parent


_PREVIEW_CHARACTERS = 200


class StepProgress:
    """Counts what a step does.

    Args:
        parent: The progress of the parent step, whose usage includes that of this one; None for none.

    Attributes:
        turns: The number of turns that have begun.
        corrections: The number of corrections by cause.
        usage_meter: The usage of the step, including that of the steps that its tool calls executed.
    """

    __slots__ = ("_calls", "corrections", "turns", "usage_meter")

    def __init__(self, parent: "StepProgress | None" = None) -> None:
        self.turns = 0
        self.corrections: Counter[CorrectionCause] = Counter()
        self.usage_meter: UsageMeter = UsageMeter(None if parent is None else parent.usage_meter)
        self._calls: dict[object, ToolCall] = {}

    @property
    def calls_in_flight(self) -> tuple[ToolCall, ...]:
        """The tool calls without a result yet, in the order of their beginning."""
        return tuple(self._calls.values())

    def in_flight(self, call: ToolCall) -> "_InFlight":
        """Count a tool call as in flight during the `with` statement."""
        return _InFlight(self._calls, call)


class _InFlight:
    __slots__ = ("_call", "_calls")

    def __init__(self, calls: dict[object, ToolCall], call: ToolCall) -> None:
        self._calls = calls
        self._call = call

    def __enter__(self) -> None:
        self._calls[self] = self._call

    def __exit__(self, *exc_details: object) -> None:
        del self._calls[self]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSnapshot:
    """An immutable view of a step at one moment between two messages.

    Args:
        step_id: The block, `python_module:line`.
        locals: The step locals: a copy of the mapping, not of the objects in it.
        local_previews: One short line of text for each of them, made at that moment.
        assigned_names: The write bindings assigned so far.
        turns: The number of turns that have begun: model requests, those of corrections included.
        tool_calls: The tool calls in flight, in the order of their beginning.
        usage: The usage of the step so far, including that of the steps that its tool calls executed.
        is_suspended: Whether it is parked at a turn boundary.
        stop_reason: The reason for which the step was asked to stop; None if it was not.
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
    except Exception:  # previews run the value's own code, which may raise anything
        text = f"<{type(value).__name__} that cannot be shown>"
    return single_line(text, _PREVIEW_CHARACTERS)


_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = _REPR.maxlong = _PREVIEW_CHARACTERS
_REPR.maxlist = _REPR.maxtuple = _REPR.maxdict = _REPR.maxset = _REPR.maxfrozenset = 10
