"""Reports of a program's work for traces, metrics and log records, as typed activities and events.

This module does not know the code that makes spans of them (`telemetry`). If the program has not loaded
OpenTelemetry, a report costs one read of a variable.

It also carries OpenTelemetry's own context to the task or thread that executes.
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
    """Receives the reports about one activity, for traces and metrics."""

    def active(self) -> AbstractContextManager[object]:
        """Make it the current span during the `with` statement, which does not end it."""
        ...

    def note(self, event: object) -> None:
        """Report an event in it.

        Args:
            event: The typed event.
        """
        ...

    def end(self, error: BaseException | None) -> None:
        """Report its end, once. A tool call may end before, with its agent: then this changes nothing.

        Args:
            error: The error or cancellation that ended it; None when all went well.
        """
        ...


class Tracing(Protocol):
    """Makes traces, metrics and log records of reports."""

    def begin(self, activity: object) -> Span | None:
        """Report that an activity begins, below the current span.

        Args:
            activity: The typed activity; see `kernel.reports`.

        Returns:
            Its span; None when nothing records it.
        """
        ...

    def note(self, event: object) -> None:
        """Report an event in the current span.

        Args:
            event: The typed event.
        """
        ...

    def collects(self) -> bool:
        """Whether there is a current trace, or metrics or log records are collected."""
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
        module: A module with the functions of `Tracing`; most programs never load it.
    """
    global _offered
    _offered = cast("Tracing", module)


def find_tracing() -> Tracing | None:
    """Return the tracing that activities and events are reported to; None for none."""
    return _offered if "opentelemetry.trace" in sys.modules else None


def begin_span(activity: object) -> Span | None:
    """Report that an activity begins; return its span, None when nothing records it.

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
    """Trace an activity during the `with` statement; yields its span, None when nothing records it.

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


def find_trace_parent() -> str | None:
    """Return the current span as a `traceparent` header of W3C Trace Context; None without a trace."""
    if "opentelemetry.trace" not in sys.modules:
        return None
    from opentelemetry import trace

    span = trace.get_current_span().get_span_context()
    if not span.is_valid:
        return None
    return f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags:02x}"


def trace_context_of(trace_parent: str | None) -> "TraceContext | None":
    """Return the trace context of a header `traceparent`; None for none, or if OpenTelemetry is not loaded.

    Args:
        trace_parent: The header, as `find_trace_parent` returns it.
    """
    if trace_parent is None or "opentelemetry.trace" not in sys.modules:
        return None
    from opentelemetry import trace

    _, trace_id, span_id, flags = trace_parent.split("-")
    parent = trace.SpanContext(
        trace_id=int(trace_id, 16),
        span_id=int(span_id, 16),
        is_remote=True,
        trace_flags=trace.TraceFlags(int(flags, 16)),
    )
    return trace.set_span_in_context(trace.NonRecordingSpan(parent))


def find_trace_context() -> "TraceContext | None":
    """Return the active trace context; None without a trace, recorded or not."""
    if "opentelemetry.trace" not in sys.modules:  # without it there is no trace
        return None
    from opentelemetry import context as otel_context, trace

    context = otel_context.get_current()
    return context if context and trace.get_current_span(context).get_span_context().is_valid else None


class using_trace_context:  # noqa: N801  (a context manager that reads as a function at its call)
    """Activate a trace context during the `with` statement.

    It must not surround a `yield`: a generator may be closed in a different context from the one in which it
    began. An unfinished coroutine may be closed so as well; then the other context is left unchanged.

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
        except ValueError:  # another context, for which `otel_context.detach` would log an error
            return
