"""Reports of a program's work for traces, metrics and log records, as typed activities and events.

Who makes spans of them is not known here (`telemetry`). Where the program has not loaded OpenTelemetry, a
report costs one look at a variable.

OpenTelemetry's own context is carried from here to where something is carried out.
"""

import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from contextvars import Token
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

if TYPE_CHECKING:
    from opentelemetry.context import Context as TraceContext


class Span(Protocol):
    """Takes what is reported of one activity, for traces and metrics."""

    def active(self) -> AbstractContextManager[object]:
        """Make it the current span for the extent of the `with` statement, which does not end it."""
        ...

    def note(self, event: object) -> None:
        """Something happens in it.

        Args:
            event: The typed event.
        """
        ...

    def end(self, error: BaseException | None) -> None:
        """It has ended. Ending it again changes nothing.

        Args:
            error: The error or cancellation that ended it; None when all went well.
        """
        ...


class Tracing(Protocol):
    """Makes traces, metrics and log records of what is reported."""

    def begin(self, activity: object) -> Span | None:
        """An activity begins, below the current span.

        Args:
            activity: The typed activity; see `runtime.activities`.

        Returns:
            Its span; None when nobody wants one.
        """
        ...

    def note(self, event: object) -> None:
        """Something happens in the current span.

        Args:
            event: The typed event.
        """
        ...

    def collects(self) -> bool:
        """Whether there is a trace here, or somebody collects metrics or log records."""
        ...


class NamedEvent(NamedTuple):
    """An event that has no type of its own.

    Args:
        name: The name of the event.
        attributes: Its attributes: no text of an error, which may quote data.
    """

    name: str
    attributes: Mapping[str, str | int | float]


_offered: Tracing | None = None


def offer_tracing(module: ModuleType) -> None:
    """Report to a module that makes traces, metrics and log records, where OpenTelemetry is loaded.

    Args:
        module: A module with the functions of `Tracing`; most programs never ask it for anything.
    """
    global _offered
    _offered = cast("Tracing", module)


def find_tracing() -> Tracing | None:
    """Return the tracing that activities and events are reported to; None for none."""
    return _offered if "opentelemetry.trace" in sys.modules else None


def begin_span(activity: object) -> Span | None:
    """Report that an activity begins; None when nobody wants a span of it.

    Args:
        activity: The typed activity.
    """
    tracing = find_tracing()
    return None if tracing is None else tracing.begin(activity)


def note_event(event: object) -> None:
    """Report an event to the current span.

    Args:
        event: The typed event.
    """
    tracing = find_tracing()
    if tracing is not None:
        tracing.note(event)


def note_named_event(name: str, attributes: Mapping[str, str | int | float]) -> None:
    """Report an event that has no type of its own to the current span.

    Args:
        name: The name of the event.
        attributes: Its attributes: no text of an error, which may quote data.
    """
    tracing = find_tracing()
    if tracing is not None:
        tracing.note(NamedEvent(name=name, attributes=attributes))


class traced:  # noqa: N801  (a context manager that reads as a function at its call)
    """Trace an activity for the extent of the `with` statement; gives its span, None when nobody wants one.

    Args:
        activity: The typed activity.
    """

    __slots__ = ("_active", "_activity", "_span")

    def __init__(self, activity: object) -> None:
        self._activity = activity
        self._span: Span | None = None

    def __enter__(self) -> Span | None:
        self._span = begin_span(self._activity)
        if self._span is not None:
            self._active = self._span.active()
            self._active.__enter__()
        return self._span

    def __exit__(self, exc_type: object, exc: BaseException | None, traceback: object) -> None:
        if self._span is not None:
            self._active.__exit__(None, None, None)
            self._span.end(exc)


def find_trace_context() -> "TraceContext | None":
    """The trace context in force; None where there is no trace, recorded or not."""
    if "opentelemetry.trace" not in sys.modules:  # nobody has a trace who has not loaded it
        return None
    from opentelemetry import context as otel_context
    from opentelemetry import trace

    context = otel_context.get_current()
    return context if context and trace.get_current_span(context).get_span_context().is_valid else None


class using_trace_context:  # noqa: N801  (a context manager that reads as a function at its call)
    """Put a trace context in force for the extent of the `with` statement.

    It must not surround a `yield`: a generator may be closed in another context than that in which it began.
    So may a coroutine that nobody has ended. That other context stays as it is then, and nobody is told.

    Args:
        context: The context; None changes nothing.
    """

    __slots__ = ("_context", "_token")

    def __init__(self, context: "TraceContext | None") -> None:
        self._context = context
        self._token: Token[TraceContext] | None = None

    def __enter__(self) -> None:
        if self._context is not None:
            from opentelemetry import context as otel_context

            self._token = otel_context.attach(self._context)

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._token is None:
            return
        try:
            self._token.var.reset(self._token)
        except ValueError:  # another context, with which `otel_context.detach` fills the log
            return
