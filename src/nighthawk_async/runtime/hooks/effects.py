"""What the answer of a hook brings about. Floor 3."""

import reprlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar, cast

from opentelemetry import trace

from ...errors import HookError, StepAbortedError, StepRejectedError, ToolBoundaryError
from ..oversight.abort import Abort
from .answers import HookFunction, Modify, Veto
from .events import BeforeToolCall, HookEvent
from .registry import hook_name
from .rules import EVENT_RULES

__all__ = ["obey", "record_hook"]

Event = TypeVar("Event")

_ANSWER = "nighthawk.hook.answer"
_REASON = "nighthawk.hook.reason"


def obey(event: Event, function: HookFunction[Any], answer: object) -> Event:
    """Do what a hook answered.

    Args:
        event: What happens.
        function: The hook.
        answer: Its answer.

    Returns:
        The event, as the answer modifies it.

    Raises:
        ToolBoundaryError: It vetoes a tool call.
        StepRejectedError: It vetoes something else.
        StepAbortedError: It ends the step.
        HookError: The event does not allow it.
    """
    if answer is None:
        return event
    rule = EVENT_RULES[type(event)]
    match answer:
        case Veto(reason=reason) if rule.deed is not None:
            record_hook("answered", function, type(event), {_ANSWER: "veto", _REASON: reason})
            raise _veto_error(event, answer, function, rule.deed)
        case Abort(reason=reason) if rule.deed is not None:
            record_hook("answered", function, type(event), {_ANSWER: "abort", _REASON: reason})
            raise StepAbortedError(reason, step_id=_step_id(event))
        case Modify(value=value) if rule.checked_value is not None:
            try:
                changes = {rule.modified_field: rule.checked_value(value)}
            except TypeError as error:
                raise _answer_error(event, answer, function, str(error)) from None
            record_hook("answered", function, type(event), {_ANSWER: "modify"})
            return replace(cast("Any", event), **changes)
        case _:
            allowed = ", ".join((*rule.allowed_answers, "None"))
            raise _answer_error(event, answer, function, f"allowed: {allowed}")


def _veto_error(event: object, veto: Veto, function: HookFunction[Any], deed: str) -> Exception:
    cause = ToolBoundaryError(kind="oversight", message=veto.reason, guidance=veto.guidance)
    if isinstance(event, BeforeToolCall):
        return cause
    guidance = f" ({veto.guidance})" if veto.guidance else ""
    error = StepRejectedError(
        f"step {_step_id(event)}: hook {hook_name(function)} vetoed {deed}: {veto.reason}{guidance}"
    )
    error.__cause__ = cause
    return error


def _answer_error(event: object, answer: object, function: HookFunction[Any], problem: str) -> HookError:
    name = hook_name(function)
    given = type(answer).__name__ if isinstance(answer, Veto | Modify | Abort) else reprlib.repr(answer)
    return HookError(f"hook {name} answered {given} to {type(event).__name__}; {problem}", hook=name)


def _step_id(event: object) -> str | None:
    return event.execution_ref.step_id if isinstance(event, HookEvent) else None


def record_hook(verb: str, function: HookFunction[Any], event_type: type, details: Mapping[str, str]) -> None:
    """Tell the current span what a hook did, if it is recorded.

    Args:
        verb: What it did: `answered` or `failed`.
        function: The hook.
        event_type: The type of the event.
        details: Further attributes.
    """
    span = trace.get_current_span()
    if span.is_recording():
        attributes = {"nighthawk.hook.name": hook_name(function), "nighthawk.hook.event": event_type.__name__}
        span.add_event(f"nighthawk.hook.{verb}", {**attributes, **details})
