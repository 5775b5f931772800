"""Functions for workers that trace: the module configures OpenTelemetry, as the module of a program does."""

from anyio.lowlevel import checkpoint
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from nighthawk_async.tracing import find_trace_parent

PROVIDER = TracerProvider()


async def current_trace(_: int) -> str | None:
    """Return the current span."""
    await checkpoint()
    return find_trace_parent()


async def parent_of_new_span(_: int) -> tuple[int, int, bool]:
    """Return the trace and the parent of a span that begins on the worker."""
    await checkpoint()
    with PROVIDER.get_tracer("tests").start_as_current_span("on the worker") as span:
        parent = trace.INVALID_SPAN_CONTEXT if span.parent is None else span.parent  # type: ignore[attr-defined]
        return span.get_span_context().trace_id, parent.span_id, parent.is_remote
