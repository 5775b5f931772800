"""Budgets over HTTP: what is charged when a request is refused, breaks off, is sent again or is cancelled."""

import asyncio
from decimal import Decimal
from typing import Any

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.models import exchange
from nighthawk_async.models.providers import create_model
from nighthawk_async.policies.budgets.reservation import Entry, reserve
from nighthawk_async.testing import cassette
from nighthawk_async.testing.model_reply import ModelReply
from nighthawk_async.testing.model_server import ModelServer

from .cancellation_points import cancel_at
from .http_support import SECRET, model_at, retry_soon

pytestmark = pytest.mark.anyio

KNOWN = {"max_tokens": 100, "capabilities": {"price": {"input": 1, "output": 4}}}
OUTCOME = nh.models.ToolCall(id="", name="nh_outcome", arguments='{"kind": "pass"}')
GOOD = ModelReply(tool_calls=(OUTCOME,), usage=nh.Usage(requests=1, input_tokens=30, output_tokens=6))
START = (
    b"event: message_start\n"
    b'data: {"type":"message_start","message":{"id":"1","type":"message","role":"assistant","model":"m",'
    b'"content":[],"usage":{"input_tokens":500,"output_tokens":1}}}\n\n'
)
OVERLOADED = b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"x"}}\n\n'


@nh.natural_function
async def act() -> None:
    """natural
    Do something.
    """


def make_budget() -> nh.policies.Budget:
    return nh.budget(tokens=100_000, cost=1)


def run_of(model: nh.models.Model, budget: nh.policies.Budget) -> Any:
    settings: Any = {"max_tokens": 100}
    configuration = nh.StepExecutorConfiguration(model_settings=settings)
    return nh.run(nh.AgentStepExecutor.from_model(model=model, configuration=configuration), budget=budget)


def check_settled(budget: nh.policies.Budget, run: Any) -> None:
    assert budget.reserved == nh.policies.BudgetAmounts()
    usage = run.usage_meter.usage
    assert budget.usage == usage
    assert budget.spent.tokens == usage.input_tokens + usage.output_tokens
    assert budget.cost == usage.cost


async def test_a_good_request_is_charged_what_the_provider_tells() -> None:
    budget = make_budget()
    async with ModelServer([GOOD]) as server, run_of(model_at(server.base_url, **KNOWN), budget) as run:
        await act()
    check_settled(budget, run)
    assert budget.spent.tokens == 36
    assert budget.cost == Decimal("0.000054")


@pytest.mark.parametrize("reply", [ModelReply(status=429), ModelReply(status=400), ModelReply(status=500)])
async def test_a_request_that_is_turned_away_takes_no_tokens(reply: ModelReply) -> None:
    budget = make_budget()
    async with ModelServer([reply]) as server, run_of(model_at(server.base_url, **KNOWN), budget) as run:
        with pytest.raises(nh.errors.ModelStatusError):
            await act()
    check_settled(budget, run)
    assert budget.spent.tokens == 0
    assert budget.spent.turns == 1


async def test_a_refused_connection_takes_no_tokens() -> None:
    async with ModelServer([]) as server:
        url = server.base_url
    budget = make_budget()
    async with run_of(model_at(url, **KNOWN), budget) as run:
        with pytest.raises(nh.errors.ModelConnectionError):
            await act()
    check_settled(budget, run)
    assert budget.spent.tokens == 0


async def test_a_request_refused_before_it_is_encoded_takes_nothing() -> None:
    budget = make_budget()
    async with ModelServer([]) as server:
        capabilities = {"sampling": False, "price": {"input": 1, "output": 4}}
        model = model_at(server.base_url, temperature=0.5, capabilities=capabilities)
        async with run_of(model, budget) as run:
            with pytest.raises(nh.ConfigurationError, match="sampling cannot be configured"):
                await act()
    check_settled(budget, run)
    assert budget.spent.turns == 0


@pytest.mark.parametrize("ending", ["close", "reset"])
async def test_a_stream_that_breaks_off_is_charged_its_input_and_what_had_arrived(ending: Any) -> None:
    reply = ModelReply(text="many words " * 20, ending=ending, ending_after=3)
    budget = make_budget()
    async with ModelServer([reply]) as server, run_of(model_at(server.base_url, **KNOWN), budget) as run:
        with pytest.raises(nh.ModelError):
            await act()
    check_settled(budget, run)
    assert budget.usage.input_tokens > 1_000
    assert 0 < budget.usage.output_tokens <= 100


async def test_attempts_that_failed_are_charged_what_they_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "retry_delay", retry_soon)
    budget = make_budget()
    async with ModelServer([ModelReply(body=START + OVERLOADED), GOOD]) as server:
        settings = {"base_url": server.base_url, "api_key": SECRET, "max_retries": 1, **KNOWN}
        async with run_of(create_model("anthropic:tested", settings=settings, environment={}), budget) as run:
            await act()
    check_settled(budget, run)
    assert budget.usage.input_tokens == 530
    assert budget.usage.retries == 1


LOST = ModelReply(text="many words", ending="reset", ending_after=1)


def retrying(base_url: str, name: str = "openai-chat:tested", **settings: Any) -> nh.models.Model:
    settings = {"base_url": base_url, "api_key": SECRET, "max_retries": 3, **KNOWN, **settings}
    return create_model(name, settings=settings, environment={})


async def bound_of_a_request() -> int:
    """The most tokens of one request."""
    budget = nh.budget(tokens=1)
    async with ModelServer([]) as server, run_of(model_at(server.base_url, **KNOWN), budget):
        with pytest.raises(nh.BudgetExceededError) as caught:
            await act()
    return int(caught.value.asked)


@pytest.mark.parametrize("limit", ["tokens", "cost"])
@pytest.mark.parametrize("name", ["openai-chat:tested", "anthropic:tested"])
async def test_a_request_is_not_sent_again_where_there_is_no_room_for_another_attempt(
    name: str, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "retry_delay", retry_soon)
    each = await bound_of_a_request()
    most = each + 200 if limit == "tokens" else (each - 100) * Decimal("0.000001") + Decimal("0.0005")
    budget = nh.budget(**{limit: most}, name="tight")
    lost = ModelReply(body=START, ending="reset") if name.startswith("anthropic") else LOST
    async with ModelServer([lost, lost, GOOD]) as server:
        async with run_of(retrying(server.base_url, name), budget) as run:
            with pytest.raises(nh.BudgetExceededError, match="budget tight: no room"):
                await act()
        assert len(server.requests) == 1
    assert budget.reserved == nh.policies.BudgetAmounts()
    assert 0 < getattr(budget.spent, limit) <= most
    assert budget.spent.turns == 1
    assert budget.usage == run.usage_meter.usage


@pytest.mark.parametrize("name", ["openai-chat:tested", "anthropic:tested"])
async def test_a_request_that_only_others_leave_no_room_to_send_again_ends_with_its_own_error(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "retry_delay", retry_soon)
    each = await bound_of_a_request()
    budget = nh.budget(tokens=2 * each + 500)
    others = reserve([Entry(budget.account, {"tokens": each})])
    lost = ModelReply(body=START, ending="reset") if name.startswith("anthropic") else LOST
    async with ModelServer([lost, GOOD]) as server, run_of(retrying(server.base_url, name), budget) as run:
        with pytest.raises(nh.ModelError) as caught:
            await act()
        assert any("others have set aside" in note for note in caught.value.__notes__)
        assert (len(server.requests), caught.value.retries) == (1, 0)
        assert (budget.reserved.tokens, budget.spent.turns) == (each, 1)
        others.cancel()
        await act()
    check_settled(budget, run)


async def test_an_attempt_that_told_nothing_is_estimated_although_another_one_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(exchange, "retry_delay", retry_soon)
    input_tokens = await bound_of_a_request() - 100
    budget = make_budget()
    async with ModelServer([LOST, LOST, GOOD]) as server, run_of(retrying(server.base_url), budget) as run:
        await act()
    check_settled(budget, run)
    assert (budget.usage.requests, budget.usage.retries) == (1, 2)
    assert budget.usage.input_tokens == 2 * input_tokens + 30
    assert budget.usage.output_tokens == 6


async def test_attempts_that_were_turned_away_need_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "retry_delay", retry_soon)
    budget = nh.budget(tokens=await bound_of_a_request(), turns=1)
    away = ModelReply(status=503)
    async with ModelServer([away, away, GOOD]) as server, run_of(retrying(server.base_url), budget) as run:
        await act()
    check_settled(budget, run)
    assert (budget.spent.tokens, budget.usage.retries) == (36, 2)


async def test_wherever_a_step_is_cancelled_nothing_stays_reserved() -> None:
    wait, is_reached = 1, True
    async with ModelServer(lambda request: GOOD) as server:
        while is_reached:
            budget = make_budget()
            run: Any = run_of(model_at(server.base_url, **KNOWN), budget)

            async def carry_out(run: Any = run) -> None:
                async with run:
                    await act()

            is_reached = await cancel_at(wait, carry_out)
            check_settled(budget, run)
            assert budget.spent.tokens <= 100_000
            wait += 1
    assert wait > 10
    assert budget.spent.tokens == 36


@pytest.mark.parametrize("anyio_backend", [pytest.param(("asyncio", {}), id="asyncio")])
async def test_a_native_cancellation_leaves_nothing_reserved(anyio_backend: object) -> None:
    budget = make_budget()
    reached = anyio.Event()

    def hang(request: object) -> ModelReply:
        reached.set()
        return ModelReply(text="many words " * 20, ending="hang", ending_after=4)

    async with ModelServer(hang) as server, run_of(model_at(server.base_url, **KNOWN), budget) as run:
        task = asyncio.create_task(act())  # type: ignore[arg-type]
        with anyio.fail_after(240):
            await reached.wait()
        assert budget.reserved.tokens > 0
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        check_settled(budget, run)
    assert budget.usage.input_tokens > 1_000


async def test_a_replayed_request_is_charged_what_it_took_when_it_was_recorded(tmp_path: Any) -> None:
    file = tmp_path / "steps.yaml"
    recorded, replayed = make_budget(), make_budget()
    async with ModelServer([GOOD]) as server:
        model = model_at(server.base_url, **KNOWN)
        with cassette(file, mode="all"):
            async with run_of(model, recorded):
                await act()
    with cassette(file, mode="none"):
        async with run_of(model, replayed) as run:
            await act()
    check_settled(replayed, run)
    assert replayed.spent.tokens == recorded.spent.tokens == 36
