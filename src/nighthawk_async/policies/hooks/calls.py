"""Calling the active hooks of an event.

Hooks run in the task in which the event happens, one after the other: those of enclosing scopes first, each
`Hooks` object in the order of its registrations. A `Hooks` object is not called for events that its own hooks
cause, so that a hook may call natural functions.
"""

import inspect
import logging
import reprlib
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeAlias, TypeVar, cast

import anyio

from ...errors import HookError, StepAbortedError, StepRejectedError, ToolBoundaryError
from ...kernel.commands import await_value, is_awaitable
from ...kernel.commit import ask_early, wants_value, with_changes
from ...kernel.events import BeforeToolCall, FinishedEvent, HookEvent
from ...kernel.features import Feature
from ...kernel.reports import HookAnswer, HookAnswered, HookFailed
from ...parallel import TaskCancelledError, cancel_requested, is_async_callable
from ...tracing import note_event
from ...types.outcomes import Abort
from ...types.unset import UNSET
from ...values.error_text import callable_name, describe_error
from .registry import Hooks
from .rules import EVENT_RULES, HookFunction, Modify, Veto

Event = TypeVar("Event")


def obey(event: Event, function: HookFunction[Any], answer: object) -> Event:
    """Apply the answer of a hook.

    Args:
        event: The event.
        function: The hook.
        answer: Its answer.

    Returns:
        The event, as the answer modifies it.

    Raises:
        ToolBoundaryError: The answer vetoes a tool call.
        StepRejectedError: The answer vetoes something else.
        StepAbortedError: The answer ends the step.
        HookError: The event does not allow the answer.
    """
    if answer is None:
        return event
    rule = EVENT_RULES[type(event)]
    match answer:
        case Veto(reason=reason) if rule.action is not None:
            _note_answer(function, type(event), "veto", reason)
            raise _veto_error(event, answer, function, rule.action)
        case Abort(reason=reason) if rule.action is not None:
            _note_answer(function, type(event), "abort", reason)
            raise StepAbortedError(reason, step_id=_step_id(event))
        case Modify(value=value) if rule.checked_value is not None:
            try:
                changes = {rule.modified_field: rule.checked_value(value)}
            except TypeError as error:
                raise _answer_error(event, answer, function, str(error)) from None
            _note_answer(function, type(event), "modify")
            return with_changes(event, **changes)
        case _:
            allowed = ", ".join((*rule.allowed_answers, "None"))
            raise _answer_error(event, answer, function, f"allowed: {allowed}")


def _veto_error(event: object, veto: Veto, function: HookFunction[Any], action: str) -> Exception:
    cause = ToolBoundaryError(kind="oversight", message=veto.reason, guidance=veto.guidance)
    cause.without_content("vetoed by a hook")
    if isinstance(event, BeforeToolCall):
        return cause
    guidance = f" ({veto.guidance})" if veto.guidance else ""
    what = f"step {_step_id(event)}: hook {callable_name(function)} vetoed {action}"
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


def _note_answer(
    function: HookFunction[Any], event_type: type, answer: HookAnswer, reason: str | None = None
) -> None:
    note_event(
        HookAnswered(hook=callable_name(function), event=event_type.__name__, answer=answer, reason=reason)
    )


Registration: TypeAlias = tuple[Hooks, HookFunction[Any]]
"""A hook, and the object that holds it."""

_LOGGER = logging.getLogger("nighthawk")
_SECONDS_AFTER_CANCELLATION = 5.0
_answering = Feature[tuple[Hooks, ...]](())


def answering_hooks() -> tuple[Hooks, ...]:
    """Return the objects whose hooks are being called around the caller: they are not called for it."""
    return _answering.get()


async def emit(hooks: Sequence[Hooks], event: Event) -> Event:
    """Call the active hooks of an event.

    Args:
        hooks: The active hooks.
        event: The event.

    Returns:
        The event, as hooks have modified it.

    Raises:
        ToolBoundaryError: A hook vetoed a tool call.
        StepRejectedError: A hook vetoed something else.
        StepAbortedError: A hook ended the step.
        HookError: A hook raised, or gave an answer that the event does not allow.
    """
    for registration in _registrations(hooks, type(event)):
        event = obey(event, registration[1], await _ask(registration, event))
    return event


async def emit_early(
    hooks: Sequence[Hooks],
    event: Event,
    *,
    among: Sequence[Registration] | None,
    shown: list[object],
) -> tuple[Event, tuple[Registration, ...]]:
    """Call hooks for a commit that may have no return value yet; raises as `emit` does.

    Args:
        hooks: The active hooks.
        event: The commit.
        among: The hooks to call; None for the active ones.
        shown: A list to which everything that is shown to hooks is added.

    Returns:
        The event, as hooks have modified it, and the hooks that have not decided because they want the return
        value.
    """
    undecided: list[Registration] = []
    for registration in _registrations(hooks, type(event)) if among is None else among:
        shown.append(event)
        answer = await ask_early(event, partial(_ask, registration, event))
        if answer is UNSET:
            undecided.append(registration)
        else:
            event = obey(event, registration[1], answer)
    return event, tuple(undecided)


async def notify(hooks: Sequence[Hooks], event: object) -> None:
    """Notify every active hook of an event that hooks cannot change, even when other hooks fail.

    Args:
        hooks: The active hooks.
        event: The event.

    Raises:
        HookError: Hooks failed: the first one, with notes on the others.
    """
    failure: BaseException | None = None
    for registration in _registrations(hooks, type(event)):
        try:
            obey(event, registration[1], await _ask(registration, event))
        except HookError as error:
            failure = _ending_with(failure, error)
    if failure is not None:
        raise failure


def is_answering(hooks: Hooks) -> bool:
    """Whether a hook of the object is running here, so that the object is not called for this event."""
    return hooks in _answering.get()


def emit_sync(hooks: Sequence[Hooks], event: Event) -> Event:
    """Call the active hooks of an event that happens in synchronous code; see `emit`.

    Raises:
        HookError: A hook is async.
    """
    for registration in _registrations(hooks, type(event)):
        event = obey(event, registration[1], _ask_sync(registration, event))
    return event


async def emit_finished(hooks: Sequence[Hooks], event: FinishedEvent) -> None:
    """Notify every active hook that something has ended, even when other hooks fail.

    The error that ended it stays the primary one: the failure of a hook becomes a note on it. After a
    cancellation each hook is shielded for five seconds, and failures are logged.

    Args:
        hooks: The active hooks.
        event: The event of the end, with its error.

    Raises:
        HookError: There was no error before, and a hook failed.
    """
    ending = event.error
    for registration in _registrations(hooks, type(event)):
        try:
            if ending is None or isinstance(ending, Exception):
                obey(event, registration[1], await _ask(registration, event))
            else:
                await _ask_in_time(registration, event)
        except anyio.get_cancelled_exc_class() as cancelled:
            ending = cancelled
        except HookError as error:
            ending = _ending_with(ending, error)
    if ending is not None and ending is not event.error:
        raise ending


def emit_finished_sync(hooks: Sequence[Hooks], event: object, error: BaseException | None) -> None:
    """Notify every active hook that something has ended in synchronous code; see `emit_finished`.

    Args:
        hooks: The active hooks.
        event: The event of the end.
        error: The error or cancellation that ended it; None for success.

    Raises:
        HookError: There was no error before, and a hook failed, or is async.
    """
    ending = error
    for registration in _registrations(hooks, type(event)):
        try:
            obey(event, registration[1], _ask_sync(registration, event))
        except HookError as failure:
            ending = _ending_with(ending, failure)
    if ending is not None and ending is not error:
        raise ending


def refuse_async_hooks(hooks: Sequence[Hooks], *event_types: type) -> None:
    """Refuse async hooks early, when a run or scope is entered in synchronous code.

    Raises:
        HookError: A hook of one of the events is async.
    """
    for event_type in event_types:
        for _, function in _registrations(hooks, event_type):
            if is_async_callable(function):
                remedy = "make it `def`, or enter the run or scope with `async with`"
                raise _async_hook_error(function, event_type, remedy)


def has_async_hook(hooks: Sequence[Hooks], event_type: type) -> bool:
    """Whether a hook of an event is async."""
    return any(is_async_callable(function) for _, function in _registrations(hooks, event_type))


def _registrations(hooks: Sequence[Hooks], event_type: type) -> list[Registration]:
    """Return a snapshot of the registered hooks to call."""
    answering = _answering.get()
    return [
        (each, function)
        for each in hooks
        if each not in answering
        for function in each.functions_for(event_type)
    ]


async def call_alone(registration: Registration, event: object) -> object:
    """Call one hook for an event of another process, and return its answer, which is applied there.

    Args:
        registration: The hook.
        event: The event.

    Raises:
        Exception: Any exception raised by the hook.
    """
    hooks, function = registration
    with _answering.active((*_answering.get(), hooks)):
        answer = cast("object", function(event))
        return await await_value(answer) if is_awaitable(answer) else answer


async def _ask(registration: Registration, event: object) -> object:
    hooks, function = registration
    with _answered_by(hooks, function, type(event)):
        answer = cast("object", function(event))
        return await await_value(answer) if is_awaitable(answer) else answer


async def _ask_in_time(registration: Registration, event: FinishedEvent) -> None:
    with anyio.move_on_after(_SECONDS_AFTER_CANCELLATION, shield=True) as limit:
        obey(event, registration[1], await _ask(registration, event))
    if limit.cancelled_caught:
        _LOGGER.warning(
            "hook %s took longer than %g seconds at %s, after a cancellation, and was cancelled",
            callable_name(registration[1]),
            _SECONDS_AFTER_CANCELLATION,
            type(event).__name__,
        )


def _ask_sync(registration: Registration, event: object) -> object:
    hooks, function = registration
    with _answered_by(hooks, function, type(event)):
        answer = cast("object", function(event))
    if is_awaitable(answer):
        if inspect.iscoroutine(answer):
            answer.close()
        raise _async_hook_error(function, type(event), "make it `def`")
    return answer


@contextmanager
def _answered_by(hooks: Hooks, function: HookFunction[Any], event_type: type) -> Generator[None, None, None]:
    before = _answering.set((*_answering.get(), hooks))
    try:
        yield
    except Exception as error:
        if isinstance(error, TaskCancelledError) and cancel_requested():
            raise  # the task was asked to end, so a step of the hook was cancelled
        if wants_value():
            raise  # the hook is called again with the value
        name = callable_name(function)
        note_event(HookFailed(hook=name, event=event_type.__name__, error_type=type(error).__name__))
        what = f"hook {name} failed at {event_type.__name__}"
        failed = HookError(f"{what}: {describe_error(error)}", hook=name)
        raise failed.without_content(f"{what}: {type(error).__name__}") from error
    finally:
        _answering.reset(before)


def _async_hook_error(function: HookFunction[Any], event_type: type, remedy: str) -> HookError:
    name = callable_name(function)
    return HookError(
        f"hook {name} is async, but this {event_type.__name__} happens in synchronous code: {remedy}",
        hook=name,
    )


def _ending_with(ending: BaseException | None, error: HookError) -> BaseException:
    """Return the error with which work ends after a hook has failed."""
    if ending is None:
        return error
    if isinstance(ending, Exception):
        ending.add_note(str(error))
    else:
        _LOGGER.warning("%s", error, exc_info=error)
    return ending
