"""Usage of model requests and the progress of a step; the conversation of a task's last step.

A task keeps the conversation of its last step alone. Tasks inherit copies of the context variables, so a step
also knows the task that ran it: other tasks do not see it, and do not keep its conversation alive.
"""

import reprlib
import threading
import weakref
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias

from msgspec import Struct

from ..errors import CorrectionCause
from ..parallel.task_current import find_task
from ..pickling import reduced_with_mappings
from ..prompt.plain_text import single_line
from ..secret_names import HIDDEN, hides_value
from ..types.messages import AssistantMessage, Message, ToolCall
from ..types.outcomes import OutcomeKind, Reading
from ..types.usage import Usage
from ..values.error_text import describe_error
from .features import Feature


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

    def count_reading(self, reading: Reading) -> None:
        """Receive the form in which an answer or a call was read."""
        ...


_State: TypeAlias = tuple[dict[str, Usage], int, dict[CorrectionCause, int], dict[Reading, int]]


class UsageMeter:
    """Adds up usage per model, and passes every addition on to the meter of the enclosing scope.

    Steps on several threads may share a meter. Its copies and pickles are snapshots.

    Args:
        parent: The meter of the enclosing scope; None for the outermost.
        receiver: Receives everything that is counted, if this is the outermost meter; None for nothing.
    """

    __slots__ = ("_by_model", "_corrections", "_lock", "_parent", "_readings", "_receiver", "_steps")

    def __init__(self, parent: "UsageMeter | None" = None, *, receiver: UsageReceiver | None = None) -> None:
        self._parent = parent
        self._receiver: UsageReceiver | None = receiver if parent is None else parent._receiver
        self._by_model: dict[str, Usage] = {}
        self._steps = 0
        self._corrections: dict[CorrectionCause, int] = {}
        self._readings: dict[Reading, int] = {}
        self._lock = threading.Lock()

    def __getstate__(self) -> _State:
        """Return the usage so far, for copies and pickles, which pass nothing on to an enclosing scope."""
        with self._lock:
            return dict(self._by_model), self._steps, dict(self._corrections), dict(self._readings)

    def __setstate__(self, state: _State) -> None:
        self._by_model, self._steps, self._corrections, *readings = state
        self._readings = readings[0] if readings else {}  # pickles of older versions have none
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

    @property
    def readings(self) -> Mapping[Reading, int]:
        """The number of answers and calls that were read leniently, by the form of reading; a snapshot."""
        with self._lock:
            return dict(self._readings)

    def add(self, model_name: str, usage: Usage, *others: "UsageMeter") -> None:
        """Count the usage of one model request here and in every enclosing scope.

        Args:
            model_name: The model id.
            usage: The usage; impossible numbers are left out.
            others: Meters in which it is counted as well, and in every scope that encloses them.
        """
        usage = usage.credible()
        for innermost in (self, *others):
            meter: UsageMeter | None = innermost
            while meter is not None:
                with meter._lock:
                    counted = meter._by_model.get(model_name)
                    meter._by_model[model_name] = usage if counted is None else counted + usage
                meter = meter._parent
            if innermost._receiver is not None:
                innermost._receiver.add(model_name, usage)

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

    def count_reading(self, reading: Reading) -> None:
        """Count an answer or a call that was read leniently, here and in every enclosing scope.

        Args:
            reading: The form in which it was read.
        """
        for meter in self._path():
            with meter._lock:
                meter._readings[reading] = meter._readings.get(reading, 0) + 1
        if self._receiver is not None:
            self._receiver.count_reading(reading)

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
        readings: The number of answers and calls that were read leniently, by the form of reading.
        usage_meter: The usage of the step, including that of the steps that its tool calls executed.
    """

    __slots__ = ("_calls", "corrections", "readings", "turns", "usage_meter")

    def __init__(self, parent: "StepProgress | None" = None) -> None:
        self.turns = 0
        self.corrections: Counter[CorrectionCause] = Counter()
        self.readings: Counter[Reading] = Counter()
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


def begins_turn(messages: Sequence[Message], index: int) -> bool:
    """Whether a message is a response that begins a turn, rather than go on after a pause of the provider.

    Args:
        messages: Messages, oldest first.
        index: The index of the message.
    """
    before = messages[index - 1] if index else None
    return isinstance(messages[index], AssistantMessage) and not isinstance(before, AssistantMessage)


class KeptConversation(Struct, frozen=True, kw_only=True, eq=False):
    """The conversation of a step with its model, as its task keeps it.

    Args:
        model: The id of the model; empty for an agent of the program's own.
        system_prompt: The system prompt.
        messages: All messages, oldest first. The last calls may lack results.
        tools: The names of the tools that were offered, without the one that delivers the outcome.
        past: The number of the first messages that are an earlier conversation.
    """

    model: str
    system_prompt: str
    messages: tuple[Message, ...]
    tools: tuple[str, ...]
    past: int = 0


class LastStep:
    """The facts of one step that its task keeps until it begins another one.

    The `with` statement holds the step. Nothing here refers to the values of the step or to its error.

    Args:
        step_id: The block.

    Attributes:
        conversation: The conversation of its last attempt; None if its executor reported none.
        usage_meter: The usage of its last attempt; None if it could not be prepared.
        outcome: The kind of its outcome; None if it has none.
        error: Its error, in words; None if it did not fail.
    """

    __slots__ = ("__weakref__", "_task", "conversation", "error", "outcome", "step_id", "usage_meter")

    def __init__(self, step_id: str) -> None:
        task, before = find_task(), _last_step.get()
        if before is not None and before.is_of(task):
            before.conversation = None  # other contexts may still have it
        self.step_id = step_id
        self.conversation: KeptConversation | None = None
        self.usage_meter: UsageMeter | None = None
        self.outcome: OutcomeKind | None = None
        self.error: str | None = None
        self._task = weakref.ref(task, partial(_forget_conversation, weakref.ref(self)))

    def is_of(self, task: object) -> bool:
        """Whether a task ran it.

        Args:
            task: The task, as `parallel.task_current.find_task` returns it.
        """
        return self._task() is task

    def __enter__(self) -> "LastStep":
        _last_step.set(None)  # so that nothing that begins within the step inherits it
        return self

    def __exit__(self, exc_type: object, exc: BaseException | None, traceback: object) -> None:
        if exc is not None:
            self.outcome = None
            self.error = "cancelled" if "Cancelled" in type(exc).__name__ else describe_error(exc)
        _last_step.set(self)


_last_step = Feature[LastStep | None](None)


def find_last_step() -> LastStep | None:
    """Return the last step that the task of the caller has ended; None for none."""
    last = _last_step.get()
    return last if last is not None and last.is_of(find_task()) else None


def _forget_conversation(last: "weakref.ref[LastStep]", task: object) -> None:
    """Forget the conversation of a step whose task has ended."""
    step = last()
    if step is not None:
        step.conversation = None
