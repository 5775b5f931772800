"""One object around a request: what its source knows is charged, shown and traced, in every combination."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, ExitStack
from typing import Any, Literal

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.agent.model_call import open_stream, usage_so_far
from nighthawk_async.ports import ForwardedStream, ResponseStream
from nighthawk_async.testing import ScriptedExecutor
from tests.unit.observe.told_nodes import root
from tests.unit.policies.budget_models import PRICE
from tests.unit.telemetry.traces import traced

pytestmark = pytest.mark.anyio

REQUEST = nh.models.ModelRequest(messages=(nh.models.UserMessage(content=("Hello",)),))
REPORTED = nh.Usage(requests=1, input_tokens=30, output_tokens=7)
EVENTS = (
    nh.models.TextDelta(text="So"),
    nh.models.UsageReported(usage=REPORTED),
    nh.models.ResponseFinished(reason="stop"),
)

Ending = Literal["to its end", "left early", "opening fails", "breaks off", "closing fails", "is cancelled"]
ENDINGS: tuple[Ending, ...] = (
    *("to its end", "left early", "opening fails"),
    *("breaks off", "closing fails", "is cancelled"),
)


class Source(AbstractAsyncContextManager["Source"], AsyncIterator[nh.models.ModelEvent]):
    """A response of which nothing is known but its events."""

    def __init__(self, ending: Ending) -> None:
        self._ending = ending
        self._events = iter(EVENTS)
        self.is_closed = False

    async def __aenter__(self) -> Any:
        if self._ending == "opening fails":
            raise nh.errors.ModelConnectionError("no connection")
        return self

    async def __aexit__(self, *exc_details: object) -> None:
        self.is_closed = True
        if self._ending == "closing fails":
            raise nh.errors.ModelConnectionError("not closed")

    async def __anext__(self) -> nh.models.ModelEvent:
        event = next(self._events, None)
        if event is None:
            raise StopAsyncIteration
        if isinstance(event, nh.models.UsageReported):
            if self._ending == "breaks off":
                raise nh.errors.ModelConnectionError("broken off")
            if self._ending == "is cancelled":
                await anyio.sleep_forever()
        return event


class KnowingSource(Source, ResponseStream):  # type: ignore[misc]
    """A response that knows its usage."""

    @property
    def usage(self) -> nh.Usage | None:
        return nh.Usage(requests=1, input_tokens=11, output_tokens=3)


class UnconsumingSource(Source, ResponseStream):  # type: ignore[misc]
    """A response that knows that nothing was consumed."""

    @property
    def may_have_consumed(self) -> bool:
        return False


class Endpoint:
    """A model that answers with sources of a class."""

    name = "openai-chat:sourced"
    capabilities = nh.models.ModelCapabilities(max_output_tokens=50, price=PRICE)

    def __init__(self, source: type[Source], ending: Ending) -> None:
        self.source = source(ending)

    def stream(self, request: nh.models.ModelRequest) -> Source:
        return self.source


async def read(stream: Any, ending: Ending) -> None:
    with anyio.CancelScope() as scope:
        async with stream as events:
            async for _ in events:
                if ending == "left early":
                    break
                if ending == "is cancelled":
                    scope.cancel()


async def what_becomes_of(
    source: type[Source], ending: Ending, *parts: str, monkeypatch: pytest.MonkeyPatch
) -> tuple[Any, ...]:
    """Send a request with parts around it; return its error, what it used, and what a budget was charged."""
    model = Endpoint(source, ending)
    watched, error = root(), None
    budget = nh.budget(tokens=10_000, turns=5)
    with ExitStack() as stack:
        traces = stack.enter_context(traced(monkeypatch)) if "span" in parts else None
        arguments: Any = {"budget": budget} if "budget" in parts else {}
        async with nh.run(ScriptedExecutor(responses=[]), **arguments):
            with watched.watching() if "node" in parts else ExitStack():
                stream = open_stream(model, REQUEST)
                try:
                    await read(stream, ending)
                except nh.errors.ModelConnectionError as raised:
                    error = str(raised)
    assert model.source.is_closed == (ending != "opening fails")
    if traces is not None:
        traces.check()
        assert len(traces.named("chat")) == 1
    if "node" in parts:
        assert watched.find("model_request").state == {
            "to its end": "completed",
            "left early": "cancelled",
            "is cancelled": "cancelled",
        }.get(ending, "failed")
    spent = budget.spent
    return error, usage_so_far(stream), (spent.tokens, spent.turns, spent.cost)


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("source", [Source, KnowingSource, UnconsumingSource])
@pytest.mark.parametrize("budget", [(), ("budget",)])
async def test_who_watches_changes_nothing(
    source: type[Source], ending: Ending, budget: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    error, usage, spent = await what_becomes_of(source, ending, *budget, monkeypatch=monkeypatch)
    assert (error is None) == (ending in ("to its end", "left early", "is cancelled"))
    if source is not UnconsumingSource:
        assert (spent[1] > 0) == bool(budget)
    for parts in (["node"], ["span"], ["node", "span"]):
        seen = await what_becomes_of(source, ending, *budget, *parts, monkeypatch=monkeypatch)
        assert (seen[0], seen[2]) == (error, spent), parts
        if budget or source is KnowingSource:
            assert seen[1].input_tokens == usage.input_tokens, parts


@pytest.mark.parametrize(
    ("source", "ending", "tokens"),
    [
        (Source, "to its end", 37),
        (KnowingSource, "to its end", 14),  # it knows better than its events
        (UnconsumingSource, "to its end", 37),
        (UnconsumingSource, "opening fails", 0),
        (KnowingSource, "breaks off", 14),
        (UnconsumingSource, "breaks off", 0),
        (UnconsumingSource, "is cancelled", 0),
    ],
)
async def test_what_a_source_knows_is_charged(
    source: type[Source], ending: Ending, tokens: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for parts in ([], ["node", "span"]):
        *_, spent = await what_becomes_of(source, ending, "budget", *parts, monkeypatch=monkeypatch)
        assert spent[0] == tokens


async def test_a_source_that_says_nothing_is_charged_for_what_it_may_have_consumed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    *_, broken = await what_becomes_of(Source, "breaks off", "budget", monkeypatch=monkeypatch)
    assert broken[0] > 0


async def test_the_check_of_a_resend_reaches_the_source_through_whatever_forwards_it() -> None:
    checks: list[object] = []

    class Resending(KnowingSource):
        def check_resends(self, check: object) -> None:
            checks.append(check)

    class Forwarding(ForwardedStream):
        async def __aenter__(self) -> Any:
            await self.enter_source(Resending("to its end"))
            return self

        async def __aexit__(self, *exc_details: object) -> None: ...

    class Forwarder(Endpoint):
        def stream(self, request: nh.models.ModelRequest) -> Any:
            return Forwarding()

    for arguments in ({}, {"budget": nh.budget(tokens=10_000)}):
        async with nh.run(ScriptedExecutor(responses=[]), **arguments):  # type: ignore[arg-type]
            await read(open_stream(Forwarder(Source, "to its end"), REQUEST), "to its end")
    assert len(checks) == 1


async def test_without_anything_around_it_the_response_is_that_of_the_model() -> None:
    model = Endpoint(Source, "to its end")
    assert open_stream(model, REQUEST) is model.source
