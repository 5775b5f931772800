"""What the events of requests tell to whoever collects log records, with and without traces."""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from opentelemetry import _logs
from opentelemetry.sdk._logs import LoggerProvider, LogRecordProcessor, ReadWriteLogRecord
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

import nighthawk_async as nh
from nighthawk_async.testing import ModelReply, ModelServer
from tests.tracing import trace_with

from .agents import OUTCOME, act, agent, assign, evaluate
from .test_span_attributes import endpoint_of
from .traces import Traces, id_of, telemetry

pytestmark = pytest.mark.anyio

DETAILS = "gen_ai.client.inference.operation.details"
EXCEPTION = "gen_ai.client.operation.exception"
MESSAGES = {"gen_ai.input.messages", "gen_ai.output.messages"}


class Records(LogRecordProcessor):
    """Keeps the log records of a test."""

    def __init__(self) -> None:
        self.kept: list[Any] = []

    def on_emit(self, log_record: ReadWriteLogRecord) -> None:
        self.kept.append(log_record.log_record)

    def shutdown(self) -> None: ...

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return True

    def named(self, name: str) -> list[Any]:
        return [record for record in self.kept if record.event_name == name]

    def details(self) -> list[dict[str, Any]]:
        return [dict(record.attributes) for record in self.named(DETAILS)]


@pytest.fixture
def records(monkeypatch: pytest.MonkeyPatch) -> Iterator[Records]:
    """The log records of the test."""
    monkeypatch.delenv("OTEL_SEMCONV_STABILITY_OPT_IN", raising=False)
    monkeypatch.delenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", raising=False)
    records, provider = Records(), LoggerProvider()
    provider.add_log_record_processor(records)
    monkeypatch.setattr(_logs, "get_logger_provider", lambda: provider)
    with telemetry():
        yield records
    provider.shutdown()


def listed(value: Any) -> Any:
    """The same with lists for tuples, as JSON has them."""
    return json.loads(json.dumps(value))


async def test_the_event_of_a_request_tells_what_its_span_tells_and_its_content_in_structure(
    traces: Traces, records: Records
) -> None:
    with telemetry(semantic_conventions="latest", capture_content=True):
        async with nh.run(agent(assign("'ü'"))):
            await act("How?")
    spans = traces.named("chat")
    first, second = records.named(DETAILS)
    for span, record in zip(spans, (first, second), strict=True):
        assert record.span_id == id_of(span)
        assert (record.severity_number.value, record.body) == (5, None)
        assert record.timestamp is not None
        told = {
            name: json.loads(value)
            if "messages" in name or name.endswith(("instructions", "definitions"))
            else value
            for name, value in (span.attributes or {}).items()
        }
        assert listed(dict(record.attributes)) == listed(told)
    (question,) = first.attributes["gen_ai.input.messages"]
    assert "How?" in question["parts"][0]["content"]
    (answer,) = first.attributes["gen_ai.output.messages"]
    assert dict(answer["parts"][0]["arguments"]) == {"target_path": "answer", "expression": "'ü'"}


async def test_what_the_model_writes_keeps_its_shape_whatever_its_types(records: Records) -> None:
    call = nh.models.ToolCall(
        id="1", name="nh_eval", arguments='{"expression": "1", "more": [1, "a", null, 2.5, {"b": [true]}]}'
    )
    with telemetry(semantic_conventions="latest", capture_content=True):
        async with nh.run(agent(call)):
            await act()
    (answer,) = records.details()[0]["gen_ai.output.messages"]
    (part,) = answer["parts"]
    assert listed(part["arguments"]["more"]) == [1, "a", None, 2.5, {"b": [True]}]


@pytest.mark.parametrize("is_sampled", [None, False])
async def test_events_need_no_trace(
    monkeypatch: pytest.MonkeyPatch, records: Records, is_sampled: bool | None
) -> None:
    if is_sampled is not None:
        trace_with(monkeypatch, TracerProvider(sampler=ALWAYS_OFF))
    with telemetry(semantic_conventions="latest", capture_content=True):
        async with nh.run(agent()):
            await act()
    (told,) = records.details()
    assert told.keys() >= MESSAGES
    assert told["gen_ai.request.model"] == "some-model"


@pytest.mark.parametrize(
    ("settings", "on_spans", "in_events"),
    [
        ({}, False, False),
        ({"capture_content": False}, False, False),
        ({"capture_content": "no_content"}, False, False),
        ({"capture_content": "span_only"}, True, False),
        ({"capture_content": "event_only"}, False, True),
        ({"capture_content": "span_and_event"}, True, True),
        ({"capture_content": True}, True, True),
        ({"capture_content": True, "semantic_conventions": "baseline"}, True, False),
        ({"capture_content": "event_only", "semantic_conventions": "baseline"}, False, False),
    ],
)
async def test_content_is_shown_where_somebody_wants_it(
    traces: Traces, records: Records, settings: dict[str, Any], on_spans: bool, in_events: bool
) -> None:
    with telemetry(**{"semantic_conventions": "latest", **settings}):
        async with nh.run(agent(evaluate("1"))):
            await act()
    shown = {name for span in traces.spans for name in span.attributes or {}}
    assert (shown >= MESSAGES, bool(records.kept)) == (on_spans, in_events)
    assert on_spans or shown.isdisjoint(MESSAGES | {"gen_ai.tool.call.arguments", "gen_ai.tool.call.result"})


@pytest.mark.parametrize(
    ("word", "on_spans", "in_events"),
    [
        ("SPAN_ONLY", True, False),
        ("event_only", False, True),
        ("span_and_event", True, True),
        ("1", True, True),
        ("no_content", False, False),
        ("whatever", False, False),
    ],
)
async def test_an_environment_variable_says_where(
    monkeypatch: pytest.MonkeyPatch,
    traces: Traces,
    records: Records,
    word: str,
    on_spans: bool,
    in_events: bool,
) -> None:
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", word)
    monkeypatch.setenv("OTEL_SEMCONV_STABILITY_OPT_IN", "gen_ai_latest_experimental")
    with telemetry():
        async with nh.run(agent()):
            await act()
    assert (traces.attributes("chat").keys() >= MESSAGES, bool(records.details())) == (on_spans, in_events)


async def test_keys_are_redacted_in_events_too(records: Records) -> None:
    key, own = "sk-0123456789abcdef-key", 'quoted"secret'
    with telemetry(semantic_conventions="latest", capture_content=True):
        async with (
            ModelServer([ModelReply(tool_calls=(evaluate(repr(own)), OUTCOME))]) as server,
            nh.run(endpoint_of(server, extra_headers={"x-own-token": own})),
        ):
            await act(f"What is {key}, and {own}?")
    (told,) = records.details()
    assert isinstance(told["gen_ai.input.messages"], tuple | list)
    assert "[redacted]" in str(told)
    assert key not in str(told)
    assert "quoted" not in str(told)


async def test_a_failed_request_has_an_event_with_the_class_of_its_error_and_without_its_text(
    traces: Traces, records: Records
) -> None:
    with telemetry(semantic_conventions="latest"):
        async with ModelServer([ModelReply(status=400, text="no")]) as server, nh.run(endpoint_of(server)):
            with pytest.raises(nh.errors.ModelStatusError):
                await act()
    (record,) = records.kept
    assert (record.event_name, record.severity_number.value) == (EXCEPTION, 13)
    assert dict(record.attributes) == {"exception.type": "nighthawk_async.errors.ModelStatusError"}
    assert record.span_id == id_of(traces.only("chat"))


class Broken:
    """Breaks off after its first word."""

    name = "broken:model"
    capabilities = nh.models.ModelCapabilities()

    @asynccontextmanager
    async def stream(
        self, request: nh.models.ModelRequest
    ) -> AsyncGenerator[AsyncIterator[nh.models.ModelEvent]]:
        yield self._events()

    async def _events(self) -> AsyncGenerator[nh.models.ModelEvent]:
        yield nh.models.TextDelta(text="one")
        raise nh.errors.ModelConnectionError("broken")


async def test_a_response_that_breaks_off_tells_what_arrived_and_how_it_ended(
    traces: Traces, records: Records
) -> None:
    with telemetry(semantic_conventions="latest", capture_content=True):
        async with nh.run(nh.AgentStepExecutor.from_model(model=Broken())):
            with pytest.raises(nh.errors.ModelConnectionError):
                await act()
    (told,) = records.details()
    assert told["error.type"] == "ModelConnectionError"
    assert listed(told["gen_ai.response.finish_reasons"]) == ["error"]
    assert listed(told["gen_ai.output.messages"]) == [
        {"role": "assistant", "parts": [{"type": "text", "content": "one"}]}
    ]
    assert traces.attributes("chat")["gen_ai.response.finish_reasons"] == ("error",)
    assert len(records.named(EXCEPTION)) == 1


def test_content_is_shown_nowhere_else() -> None:
    with telemetry(), pytest.raises(nh.ConfigurationError, match="'everywhere'"):
        nh.telemetry.configure_telemetry(capture_content="everywhere")  # type: ignore[arg-type]
