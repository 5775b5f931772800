"""OpenTelemetry without a collector: spans on standard output."""

from collections.abc import Callable

from opentelemetry import trace

__all__ = ["show_traces"]


def show_traces() -> Callable[[], None]:
    """Write each span to standard output, soon after it has ended. It needs the extra `otel`.

    Returns:
        Writes what is not written yet, and ends it.
    """
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter

    provider = TracerProvider(resource=Resource.create({"service.name": "triage"}))
    provider.add_span_processor(BatchSpanProcessor(ConsoleSpanExporter()))
    trace.set_tracer_provider(provider)
    return provider.shutdown
