"""Effects of a hook's answer."""

import reprlib
from collections.abc import Mapping
from typing import Any, TypeVar

from opentelemetry import trace

from ...errors import HookError, StepAbortedError, StepRejectedError, ToolBoundaryError
from ...runtime.error_text import callable_name
from ...runtime.events import BeforeToolCall, HookEvent
from ...runtime.late_value import with_changes
from ...runtime.tracing import shows_content
from ...types.outcomes import Abort
from .answers import HookFunction, Modify, Veto
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
            _record_reason(function, type(event), "veto", reason)
            raise _veto_error(event, answer, function, rule.deed)
        case Abort(reason=reason) if rule.deed is not None:
            _record_reason(function, type(event), "abort", reason)
            raise StepAbortedError(reason, step_id=_step_id(event))
        case Modify(value=value) if rule.checked_value is not None:
            try:
                changes = {rule.modified_field: rule.checked_value(value)}
            except TypeError as error:
                raise _answer_error(event, answer, function, str(error)) from None
            record_hook("answered", function, type(event), {_ANSWER: "modify"})
            return with_changes(event, **changes)
        case _:
            allowed = ", ".join((*rule.allowed_answers, "None"))
            raise _answer_error(event, answer, function, f"allowed: {allowed}")


def _veto_error(event: object, veto: Veto, function: HookFunction[Any], deed: str) -> Exception:
    cause = ToolBoundaryError(kind="oversight", message=veto.reason, guidance=veto.guidance)
    cause.without_content("vetoed by a hook")
    if isinstance(event, BeforeToolCall):
        return cause
    guidance = f" ({veto.guidance})" if veto.guidance else ""
    what = f"step {_step_id(event)}: hook {callable_name(function)} vetoed {deed}"
    error = StepRejectedError(f"{what}: {veto.reason}{guidance}").without_content(what)
    error.__cause__ = cause
    return error


def _answer_error(event: object, answer: object, function: HookFunction[Any], problem: str) -> HookError:
    name, kind, asked = callable_name(function), type(answer).__name__, type(event).__name__
    given = kind if isinstance(answer, Veto | Modify | Abort) else reprlib.repr(answer)
    error = HookError(f"hook {name} answered {given} to {asked}; {problem}", hook=name)
    return error.without_content(f"hook {name} answered {kind} to {asked}")


def _step_id(event: object) -> str | None:
    return event.execution_ref.step_id if isinstance(event, HookEvent) else None


def _record_reason(function: HookFunction[Any], event_type: type, answer: str, reason: str) -> None:
    """Tell what a hook answered; its reason may quote arguments."""
    details = {_ANSWER: answer, _REASON: reason} if shows_content() else {_ANSWER: answer}
    record_hook("answered", function, event_type, details)


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
        attributes = {
            "nighthawk.hook.name": callable_name(function),
            "nighthawk.hook.event": event_type.__name__,
        }
        span.add_event(f"nighthawk.hook.{verb}", {**attributes, **details})
