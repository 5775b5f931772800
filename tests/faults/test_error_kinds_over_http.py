"""Errors of known kinds on their way through steps over HTTP: retries, fallbacks, recordings and journals."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import nighthawk_async as nh
from nighthawk_async.errors import (
    ContentFilterError,
    ModelProviderError,
    ModelStatusError,
    QuotaExhaustedError,
    RateLimitError,
)
from nighthawk_async.recording.exchange import record_error, replay_error
from nighthawk_async.testing import ModelReply, ModelServer, tool_call
from tests.cases import every

from .http_support import SECRET

pytestmark = pytest.mark.anyio

SOON = {"retry-after-ms": "1"}
TOO_LONG = {"message": "Too many.", "type": "invalid_request_error", "code": "context_length_exceeded"}
EMPTY = {"message": "No more.", "type": "insufficient_quota", "code": "insufficient_quota"}
FILTERED = {"message": "Filtered.", "type": None, "code": "content_filter"}
RATE = {"message": "Slower.", "type": "tokens", "code": "rate_limit_exceeded"}
GOOD = ModelReply(
    tool_calls=(
        tool_call("nh_assign", target_path="loud", expression="word.upper()"),
        tool_call("nh_outcome", kind="pass"),
    )
)


def refused(status: int, error: dict[str, Any]) -> ModelReply:
    return ModelReply(status=status, headers=SOON, error=error)


@nh.natural_function
async def shout(word: str) -> str:
    loud: str = ""
    """natural
    Set <:loud> to <word> in capitals.
    """
    return loud


def model_of(server: ModelServer, **settings: Any) -> nh.StepExecutorConfiguration:
    return nh.StepExecutorConfiguration(
        model="openai-chat:tested",
        model_settings={"base_url": server.base_url, "api_key": SECRET, **settings},
    )


FINAL: Sequence[tuple[ModelReply, type[Exception], type[Exception]]] = [
    (refused(400, TOO_LONG), nh.ContextTooLongError, ModelStatusError),
    (refused(500, TOO_LONG), nh.ContextTooLongError, ModelStatusError),
    (ModelReply(text="Th", error=TOO_LONG), nh.ContextTooLongError, ModelProviderError),
    (refused(429, EMPTY), QuotaExhaustedError, ModelStatusError),
    (ModelReply(error=EMPTY), QuotaExhaustedError, ModelProviderError),
    (refused(400, FILTERED), ContentFilterError, ModelStatusError),
    (refused(400, FILTERED), nh.errors.RefusalError, nh.errors.ModelError),
]


@every("reply, kind, form", FINAL)
async def test_what_cannot_become_better_is_not_retried(
    reply: ModelReply, kind: type[Exception], form: type[Exception]
) -> None:
    persistent = nh.resilience.retrying(attempts=3, wait=0)(shout)
    async with ModelServer([reply, GOOD]) as server, nh.run(model_of(server, max_retries=3)):
        with pytest.raises(kind) as raised:
            await persistent("tea")
        assert len(server.requests) == 1
    assert isinstance(raised.value, form)
    assert not raised.value.is_transient  # type: ignore[attr-defined]


async def test_a_rate_limit_is_retried() -> None:
    replies = [refused(429, RATE), refused(429, RATE), GOOD]
    async with ModelServer(replies) as server, nh.run(model_of(server, max_retries=1)):
        with pytest.raises(RateLimitError) as raised:
            await shout("tea")
        assert (raised.value.status, raised.value.error_type) == (429, "tokens")
        assert await shout("tea") == "TEA"


async def test_a_larger_model_takes_what_is_too_long_for_a_small_one() -> None:
    async with ModelServer([refused(400, TOO_LONG)]) as small, ModelServer([GOOD]) as large:

        async def on_large(word: str) -> str:
            with nh.scope(model=model_of(large)):
                return await shout(word)

        patient = nh.resilience.fallback(shout, on_large, on=nh.ContextTooLongError)
        async with nh.run(model_of(small)):
            assert await patient("tea") == "TEA"


@every(
    "provider, word, transport",
    [
        ("anthropic", "model_context_window_exceeded", "tool"),
        ("openai-chat", "model_length", "tool"),
        ("openai-chat", "model_length", "native"),
        ("openai-chat", "model_context_window_exceeded", "direct"),
    ],
)
async def test_an_answer_that_fills_the_context_is_not_asked_for_again(
    provider: str, word: str, transport: nh.executors.OutcomeTransport
) -> None:
    async with ModelServer([ModelReply(text='{"kind": "pa', finish_reason=word)]) as server:
        base_url = server.base_url.removesuffix("/v1") if provider == "anthropic" else server.base_url
        configuration = nh.StepExecutorConfiguration(
            model=f"{provider}:tested",
            model_settings={
                "base_url": base_url,
                "api_key": SECRET,
                "capabilities": {"structured_output": True, "structured_output_with_tools": True},
            },
            outcome_transport=transport,
        )
        async with nh.run(configuration):
            with pytest.raises(nh.ContextTooLongError, match="the context of the model is full") as raised:
                await shout("tea")
        assert len(server.requests) == 1
    assert "{" not in raised.value.message_without_content


async def test_a_request_that_is_not_even_sent_is_too_long_as_well() -> None:
    async with ModelServer([]) as server:
        configuration = model_of(server, capabilities={"context_window": 50})
        async with nh.run(configuration):
            with pytest.raises(nh.ContextTooLongError, match="It was not sent") as raised:
                await nh.resilience.retrying(attempts=3, wait=0)(shout)("tea " * 500)
    assert isinstance(raised.value, nh.executors.ContextWindowError)


async def test_a_later_life_raises_an_error_of_the_same_class(tmp_path: Path) -> None:
    """A step's error that the program handled, and that of an effect; nothing is asked again."""
    seen: list[type[Exception]] = []

    async def upload(word: str) -> str:
        raise ModelStatusError.in_kind("quota_exhausted")("none", status=402)

    async def program(*, ends: bool) -> None:
        for failing in (shout, nh.once(upload)):
            try:
                await failing("tea")
            except nh.ModelError as error:
                seen.append(type(error))
        if not ends:
            raise KeyError("the life ends")

    async with ModelServer([refused(400, TOO_LONG)]) as server:
        with nh.journal.open(f"sqlite:///{tmp_path}/runs.db") as store:
            for ends in (False, True):
                with suppress(KeyError):
                    async with nh.run(model_of(server), journal=store, run_id="run-1"):
                        await program(ends=ends)
        assert len(server.requests) == 1
    assert (
        seen
        == [
            *(ModelStatusError.in_kind("context_too_long"), ModelStatusError.in_kind("quota_exhausted")),
        ]
        * 2
    )


@every("form", [ModelStatusError, ModelProviderError])
async def test_a_recorded_error_is_of_the_same_class(form: type[nh.ModelError]) -> None:
    more: dict[str, Any] = {"status": 400} if form is ModelStatusError else {}
    for kind in ("context_too_long", "content_filter", "quota_exhausted", "overloaded", None):
        error = form.in_kind(kind)("long", error_type="a_code", **more)
        again = replay_error(record_error(error))
        assert type(again) is type(error)
        assert vars(again) == vars(error)
