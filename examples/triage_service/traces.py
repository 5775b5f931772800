"""OpenTelemetry without a collector: spans on standard output."""

from opentelemetry import trace

__all__ = ["show_traces"]


def show_traces() -> None:
    """Write each span to standard output when it ends. It needs the extra `otel`."""
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter

    provider = TracerProvider(resource=Resource.create({"service.name": "triage"}))
    provider.add_span_processor(BatchSpanProcessor(ConsoleSpanExporter()))
    trace.set_tracer_provider(provider)
