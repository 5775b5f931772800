"""A recorded exchange stands for the events it was made of, up to how texts were cut."""

from decimal import Decimal

import pytest
from hypothesis import given, strategies as st

from nighthawk_async import errors
from nighthawk_async.recording.exchange import (
    RecordedExchange,
    record_error,
    record_events,
    replay_error,
    replay_events,
)
from nighthawk_async.types.messages import ProviderContent, ToolCall
from nighthawk_async.types.model import (
    ModelEvent,
    ReasoningDelta,
    ResponseFinished,
    TextDelta,
    ToolCallArgumentsDelta,
    ToolCallCompleted,
    ToolCallStarted,
    UsageReported,
)
from nighthawk_async.types.usage import Usage


def replayed(*events: ModelEvent) -> list[ModelEvent]:
    exchange = RecordedExchange(step=(), model="a:b", digest="", request={}, **record_events(events))
    return replay_events(exchange)


def call_events(index: int, arguments: str) -> list[ModelEvent]:
    call = ToolCall(id=f"c{index}", name="look", arguments=arguments)
    return [
        ToolCallStarted(index=index, id=call.id, name=call.name),
        *([ToolCallArgumentsDelta(index=index, fragment=arguments)] if arguments else []),
        ToolCallCompleted(index=index, call=call),
    ]


def test_a_whole_response_comes_back_in_its_order() -> None:
    content = ProviderContent(protocol="anthropic", items=({"type": "thinking", "signature": None},))
    finish = ResponseFinished(
        reason="tool_calls",
        provider_content=content,
        provider_reason="tool_use",
        response_id="r1",
        model_name="m",
    )
    events: list[ModelEvent] = [
        ReasoningDelta(text="Hm."),
        TextDelta(text="Well:"),
        *call_events(0, '{"a": 1}'),
        ReasoningDelta(text="And"),
        *call_events(1, ""),
        TextDelta(text="Done"),
        UsageReported(usage=Usage(requests=1, input_tokens=3, retries=2, cost=Decimal("0.00123"))),
        finish,
    ]
    again = replayed(*events)
    assert again == events
    last = again[-1]
    assert isinstance(last, ResponseFinished)
    assert (last.provider_reason, last.response_id, last.model_name) == ("tool_use", "r1", "m")


def test_deltas_come_back_as_one() -> None:
    events = [TextDelta(text="a"), TextDelta(text=""), TextDelta(text="b"), ReasoningDelta(text="c")]
    assert replayed(*events) == [TextDelta(text="ab"), ReasoningDelta(text="c")]


def test_calls_whose_fragments_are_mixed_come_back_one_after_the_other() -> None:
    one, two = call_events(0, "{}"), call_events(1, "[]")
    assert replayed(one[0], two[0], two[1], one[1], one[2], two[2]) == [*one, *two]


def test_a_call_that_was_never_complete_stays_incomplete() -> None:
    events = call_events(3, '{"a"')[:2]
    assert replayed(*call_events(0, "{}"), *events) == [*call_events(0, "{}"), *events]


def test_the_last_report_of_usage_counts() -> None:
    early, late = (UsageReported(usage=Usage(requests=1, output_tokens=tokens)) for tokens in (1, 9))
    assert replayed(early, TextDelta(text="a"), late) == [TextDelta(text="a"), late]


TEXTS = st.text(max_size=5)
INDEXES = st.integers(0, 3)
EVENTS = st.one_of(
    st.builds(TextDelta, text=TEXTS),
    st.builds(ReasoningDelta, text=TEXTS),
    st.builds(ToolCallStarted, index=INDEXES, id=TEXTS, name=TEXTS),
    st.builds(ToolCallArgumentsDelta, index=INDEXES, fragment=TEXTS),
    st.builds(
        ToolCallCompleted,
        index=INDEXES,
        call=st.builds(ToolCall, id=TEXTS, name=TEXTS, arguments=TEXTS),
    ),
    st.builds(UsageReported, usage=st.builds(Usage, requests=st.just(1), cost=st.decimals(0, 9, places=4))),
    st.builds(ResponseFinished, reason=st.sampled_from(["stop", "length"])),
)


@given(st.lists(EVENTS, max_size=12))
def test_whatever_came_a_replay_of_a_replay_is_the_replay(events: list[ModelEvent]) -> None:
    once = replayed(*events)
    assert replayed(*once) == once
    for kind in (TextDelta, ReasoningDelta):
        texts = ["".join(each.text for each in all if isinstance(each, kind)) for all in (events, once)]
        assert texts[0] == texts[1]
    calls = [[each.call for each in all if isinstance(each, ToolCallCompleted)] for all in (events, once)]
    assert calls[0] == calls[1]


@pytest.mark.parametrize(
    "error",
    [
        errors.ModelStatusError("busy", status=503, is_transient=True, retry_after_seconds=1.5),
        errors.ModelProviderError("overloaded", error_type="overloaded_error", is_transient=True),
        errors.IdleTimeoutError("silent"),
        errors.ModelConnectionError("gone", is_transient=True),
        errors.ModelProtocolError("garbage"),
        errors.UnsupportedContentError("no images"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_comes_back_as_it_was(error: errors.ModelError | errors.ConfigurationError) -> None:
    if isinstance(error, errors.ModelError):
        error.retries = 2
    again = replay_error(record_error(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again) == vars(error)


def test_an_error_of_a_class_of_the_users_own_comes_back_as_the_librarys() -> None:
    class TooSlow(errors.IdleTimeoutError):
        pass

    assert type(replay_error(record_error(TooSlow("silent")))) is errors.IdleTimeoutError
