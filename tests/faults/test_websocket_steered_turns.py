"""Steered turns are turns like others: for hooks, traces, the tree, limits, fallbacks and durable runs."""

from contextlib import suppress
from dataclasses import replace
from typing import Any

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async import observe
from nighthawk_async.hooks import AfterModelRequest, BeforeModelRequest, Hooks
from nighthawk_async.testing import ModelReply, ModelServer, RecordedRequest
from tests.unit.telemetry.traces import traced

from .steering_support import (
    ESSAY,
    Said,
    SpeakOnce,
    about,
    begun,
    ended,
    item_done,
    run_step,
    said_in,
    talkative,
)
from .websocket_support import LANES, RawSocket, end, executor_at, work

pytestmark = pytest.mark.anyio


def reporting(request: RecordedRequest) -> ModelReply:
    reply = talkative(request)
    usage = nh.models.Usage(requests=1, input_tokens=100, output_tokens=10 if reply.tool_calls else 7)
    return replace(reply, usage=usage)


async def test_hooks_traces_and_the_tree_show_a_steered_turn_like_any_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hooks = Hooks()
    seen: list[Any] = []

    @hooks.on(BeforeModelRequest)
    def note_request(event: BeforeModelRequest) -> None:
        seen.append([str(item) for item in getattr(event.request.messages[-1], "content", ())][-1])

    @hooks.on(AfterModelRequest)
    def note_end(event: AfterModelRequest) -> None:
        seen.append((event.finish_reason, event.error, event.usage and event.usage.output_tokens))

    with traced(monkeypatch) as traces, observe.recording() as tree:
        async with ModelServer(reporting) as server:
            executor = executor_at(server.base_url, **LANES)
            async with nh.run(executor, policies=SpeakOnce(), hooks=hooks) as run:
                assert await work("owls") == "brief"
                metered = run.usage_meter.usage
    assert len(server.requests) == 2
    assert seen[1::2] == [("steered", None, 7), ("tool_calls", None, 10)]
    assert seen[2] == "Be brief."
    (step,) = [view for view in tree.snapshot().walk() if view.kind == "step"]
    requests = [view for view in step.children if view.kind == "model_request"]
    shown = [(view.state, view.attributes["gen_ai.response.finish_reasons"]) for view in requests]
    assert shown == [("completed", "steered"), ("completed", "tool_calls")]
    assert [view.usage.output_tokens for view in requests] == [7, 10]
    assert (metered.requests, metered.output_tokens) == (2, 17)
    spans = traces.named("chat")
    assert len({span.parent.span_id for span in spans if span.parent}) == 1
    reasons = [(span.attributes or {})["gen_ai.response.finish_reasons"] for span in spans]
    assert reasons == [("steered",), ("tool_call",)]
    assert [(span.attributes or {})["gen_ai.usage.output_tokens"] for span in spans] == [7, 10]
    traces.check()


async def steered_once(socket: RawSocket, said: Said) -> None:
    """A response that a word ends, and the beginning of the answer to the word."""
    await socket.read()
    await socket.write(begun("resp_1"), item_done(ESSAY))
    said.say("Be brief.")
    steer = await socket.read()
    with suppress(anyio.BrokenResourceError):  # the step may end before
        await socket.write(about("accepted", steer), ended("resp_1", ESSAY, steered=True), begun("resp_2"))


async def test_a_budget_or_the_turns_of_a_step_that_refuse_the_next_turn_close_the_socket() -> None:
    for limit, error in (("turns", nh.errors.BudgetExceededError), ("max_turns", nh.errors.StepLimitError)):
        left = anyio.Event()

        async def serve(socket: RawSocket, said: Said, limit: str = limit, left: anyio.Event = left) -> None:
            if limit == "turns":
                await steered_once(socket, said)
            else:  # the only turn cannot be steered: no answer to the word could be read
                await socket.read()
                await socket.write(begun("resp_1"), item_done(ESSAY))
                said.say("Be brief.")
                await socket.write(ended("resp_1", ESSAY))
            assert await socket.read() is None
            left.set()

        with pytest.raises(error):
            await run_step(serve, until=left, **{limit: 1})


async def test_another_model_gets_the_words_where_the_first_one_fails_after_them() -> None:
    sockets: list[RawSocket] = []

    async def serve(socket: RawSocket, said: Said) -> None:
        sockets.append(socket)
        if len(sockets) == 1:
            await steered_once(socket, said)  # and the socket dies, as every other one

    async with ModelServer(lambda request: end("brief")) as other:
        spare = nh.StepExecutorConfiguration(
            "openai-chat:spare", model_settings={"base_url": other.base_url, "api_key": "key"}
        )
        baseline = nh.resilience.Baseline(fallback_models=[spare])
        result, _, messages = await run_step(serve, resilience=baseline)
        asked = other.requests[0].body["messages"]
    assert result == "brief"
    assert said_in(messages) == ["Be brief."]
    assert asked[-1]["content"] == "Be brief."
