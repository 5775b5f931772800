"""What one request reserves, and what it is charged when it ends."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from decimal import Decimal
from typing import Any

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.hooks import AfterModelRequest, BeforeModelRequest
from nighthawk_async.kernel.commit import InterceptionError
from nighthawk_async.kernel.environment import SourcePolicy, using_policy
from nighthawk_async.prompt.tokens import TokenCounter
from nighthawk_async.testing import ScriptedModel, model_response
from nighthawk_async.values.request_bound import TokenMeasure, find_output_limit, request_text

from .budget_models import DONE, PRICE, StagedModel, act, executor_of, known_model, used

pytestmark = pytest.mark.anyio

ROOM = 1_000_000


async def refused_amount(
    model: nh.models.Model, settings: dict[str, Any] | None = None, **limits: Any
) -> Any:
    """How much a request asks for, as the refusal of a budget that is far too small tells."""
    executor = executor_of(model, model_settings=settings or {})
    budget = nh.budget(**limits)
    async with nh.run(executor, budget=budget):
        with pytest.raises(nh.BudgetExceededError) as caught:
            await act()
    return caught.value.asked


# ---- what is reserved


async def test_a_request_reserves_its_input_and_the_longest_response() -> None:
    short = await refused_amount(known_model(max_output_tokens=50), tokens=1)
    assert await refused_amount(known_model(max_output_tokens=5_050), tokens=1) == short + 5_000
    assert short > 50


async def test_the_settings_of_a_request_say_how_long_its_response_may_be() -> None:
    model = known_model(max_output_tokens=None)
    least = await refused_amount(model, {"max_tokens": 1}, tokens=1)
    assert await refused_amount(model, {"max_completion_tokens": 101}, tokens=1) == least + 100
    for_body, for_more = [
        await refused_amount(
            model,
            {"extra_body": {"generationConfig": {"maxOutputTokens": number}}, "max_tokens": 1},
            tokens=1,
        )
        for number in (201, 301)
    ]
    assert for_more == for_body + 100 > least + 300


async def test_what_a_model_sends_by_itself_says_how_long_its_response_may_be() -> None:
    """A model on this machine, for example, whose answers are short unless a setting says otherwise."""

    class Local(ScriptedModel):
        def settings_of(self, settings: Mapping[str, Any]) -> Mapping[str, Any]:
            return {"max_tokens": 256, **settings}

    capabilities = nh.models.ModelCapabilities(price=PRICE)
    by_itself = await refused_amount(Local([], capabilities=capabilities), tokens=1)
    told = await refused_amount(Local([], capabilities=capabilities), {"max_tokens": 100}, tokens=1)
    assert by_itself == told + 156


@pytest.mark.parametrize(
    "extra",
    [lambda answers: {"n": answers}, lambda answers: {"generationConfig": {"candidateCount": answers}}],
)
async def test_every_answer_that_a_request_asks_for_may_be_as_long_as_the_limit(
    extra: Callable[[int], dict[str, Any]],
) -> None:
    model = known_model(max_output_tokens=50)
    one = await refused_amount(model, {"extra_body": extra(1)}, tokens=1)
    assert await refused_amount(model, {"extra_body": extra(3)}, tokens=1) == one + 2 * 50
    assert await refused_amount(model, {"max_tokens": 40, "extra_body": extra(3)}, tokens=1) == one + 70


async def test_where_nothing_limits_a_response_the_budget_does_and_the_request_says_so() -> None:
    model = known_model(max_output_tokens=None)
    outer = nh.budget(tokens=ROOM, max_output_tokens=900)
    async with nh.run(executor_of(model), budget=outer), nh.budget(tokens=ROOM, max_output_tokens=700):
        await act()
    assert model.requests[0].settings["max_tokens"] == 700
    async with nh.run(executor_of(model, model_settings={"max_tokens": 30}), budget=outer):
        await act()
    assert model.requests[1].settings["max_tokens"] == 30


async def test_a_budget_asks_for_no_longer_response_than_the_model_can_give() -> None:
    model = known_model(max_output_tokens=50)
    async with nh.run(executor_of(model), budget=nh.budget(tokens=ROOM, max_output_tokens=9_000)):
        await act()
    assert model.requests[0].settings["max_tokens"] == 50


async def test_a_response_of_unknown_length_is_refused() -> None:
    model = known_model(max_output_tokens=None)
    async with nh.run(executor_of(model), budget=nh.budget(tokens=ROOM)):
        with pytest.raises(nh.ConfigurationError, match="max_tokens"):
            await act()
    async with nh.run(executor_of(model), budget=nh.budget(turns=1)):
        await act()  # no need to know
    assert len(model.requests) == 1


@pytest.mark.parametrize(
    "settings",
    [
        {"extra_body": {"previous_response_id": "r_1"}},
        {"extra_body": {"conversation": "c_1"}},
        {"extra_body": {"prompt": {"id": "p_1"}}},
        {"cached_content": "notes"},
        {"mcp_servers": [{"type": "url", "url": "https://example.com", "name": "notes"}]},
        {"web_search_options": {}},
    ],
)
async def test_input_that_only_the_provider_knows_is_refused(settings: dict[str, Any]) -> None:
    model = known_model()
    configuration = nh.StepExecutorConfiguration(model_settings=settings)
    executor = nh.AgentStepExecutor.from_model(model=model, configuration=configuration)
    async with nh.run(executor, budget=nh.budget(tokens=ROOM)):
        with pytest.raises(nh.ConfigurationError, match="what it has stored"):
            await act()
    assert model.requests == []


@pytest.mark.parametrize(
    "settings", [{"mcp_servers": []}, {"extra_body": {"mcp_servers": []}}, {"cached_content": ""}]
)
async def test_a_field_that_names_nothing_of_the_provider_is_no_reason_to_refuse(
    settings: dict[str, Any],
) -> None:
    model = known_model()
    configuration = nh.StepExecutorConfiguration(model_settings=settings)
    executor = nh.AgentStepExecutor.from_model(model=model, configuration=configuration)
    async with nh.run(executor, budget=nh.budget(tokens=ROOM)):
        await act()
    assert len(model.requests) == 1


async def test_what_nobody_knows_the_price_of_in_the_end_costs_what_was_set_aside() -> None:
    def price_of_long_responses(name: str, usage: nh.Usage) -> Decimal | None:
        return Decimal("0.25") if usage.output_tokens >= 50 else None

    budget = nh.budget(cost=1, prices=price_of_long_responses)
    async with nh.run(executor_of(known_model(price=None)), budget=budget):
        await act()
    assert (budget.cost, budget.reserved) == (Decimal("0.25"), nh.policies.BudgetAmounts())


async def test_cost_is_reserved_at_the_dearest_price_of_a_token() -> None:
    plain = nh.models.ModelPrice(input=Decimal(2), output=Decimal(10), cache_read=Decimal(1))
    writing = nh.models.ModelPrice(input=Decimal(2), output=Decimal(10), cache_write=Decimal(3))
    tokens = await refused_amount(known_model(price=plain), tokens=1)
    cost = await refused_amount(known_model(price=plain), cost=0)
    assert cost == Decimal(2 * (tokens - 50) + 10 * 50) / 1_000_000
    reading = nh.models.ModelPrice(input=Decimal(2), output=Decimal(10), cache_read=Decimal(3))
    assert await refused_amount(known_model(price=reading), cost=0) > cost
    assert await refused_amount(known_model(price=writing), cost=0) == cost + Decimal(tokens - 50) / 1_000_000


@pytest.mark.parametrize(
    "settings",
    [
        {"prompt_caching": "1h"},
        {"extra_body": {"cache_control": {"type": "ephemeral", "ttl": "1h"}}},
        {"prompt_caching": "5m"},
    ],
)
async def test_cost_is_reserved_for_an_hour_in_the_cache_where_that_is_asked_for(
    settings: dict[str, Any],
) -> None:
    price = nh.models.ModelPrice(
        input=Decimal(2), output=Decimal(10), cache_write=Decimal(3), cache_write_1h=Decimal(4)
    )
    model = known_model(price=price)
    tokens = await refused_amount(model, settings, tokens=1)
    dearest = 3 if settings == {"prompt_caching": "5m"} else 4
    assert (
        await refused_amount(model, settings, cost=0)
        == Decimal(dearest * (tokens - 50) + 10 * 50) / 1_000_000
    )


async def test_a_model_without_a_price_is_refused_under_a_budget_of_cost() -> None:
    model = known_model(price=None)
    async with nh.run(executor_of(model), budget=nh.budget(cost=100)):
        with pytest.raises(nh.ConfigurationError, match="prices="):
            await act()
    assert model.requests == []


async def test_the_user_says_what_a_model_costs() -> None:
    prices = {"scripted:model": nh.models.ModelPrice(input=Decimal(10), output=Decimal(0))}
    outer = nh.budget(cost=100, prices=prices)
    middle = nh.budget(cost=100)
    inner = nh.budget(cost=100, prices=lambda name, usage: Decimal(7) if name == "scripted:model" else None)
    async with nh.run(executor_of(known_model(price=None)), budget=outer), middle, inner:
        await act()
    assert outer.cost == middle.cost == Decimal("0.001")
    assert inner.cost == 7


async def test_the_users_price_goes_before_the_one_that_is_known() -> None:
    free = nh.budget(
        cost=0, prices={"scripted:model": nh.models.ModelPrice(input=Decimal(0), output=Decimal(0))}
    )
    async with nh.run(executor_of(known_model()), budget=free):
        await act()
    assert free.cost == 0


@pytest.mark.parametrize("bad", [-1, "1", float("nan"), True])
async def test_a_price_that_is_no_amount_of_money_is_refused(bad: Any) -> None:
    async with nh.run(executor_of(known_model()), budget=nh.budget(cost=1, prices=lambda name, usage: bad)):
        with pytest.raises(nh.ConfigurationError, match="US dollars"):
            await act()


async def test_a_price_that_fails_after_the_request_leaves_nothing_reserved() -> None:
    def price(name: str, usage: nh.Usage) -> Decimal:
        if usage.input_tokens == 100:
            raise ValueError("no price")
        return Decimal("0.5")

    budget = nh.budget(cost=1, prices=price)
    async with nh.run(executor_of(known_model()), budget=budget):
        with pytest.raises(ValueError, match="no price"):
            await act()
    assert budget.reserved == nh.policies.BudgetAmounts()
    assert budget.cost == Decimal("0.5")  # the whole reservation


def price_until_settled(name: str, usage: nh.Usage) -> Decimal:
    """Gives a price for the longest response only, which is asked before the request."""
    if usage.output_tokens != 50:
        raise ValueError("no price")
    return Decimal("0.5")


class ClosingModel(StagedModel):
    """Remembers that its response was closed."""

    is_closed = False

    @asynccontextmanager
    async def stream(
        self, request: nh.models.ModelRequest
    ) -> AsyncGenerator[AsyncIterator[nh.models.ModelEvent], None]:
        try:
            async with super().stream(request) as events:
                yield events
        finally:
            self.is_closed = True


async def test_a_price_that_fails_after_the_request_leaves_no_response_open() -> None:
    model = ClosingModel()
    async with nh.run(executor_of(model), budget=nh.budget(cost=1, prices=price_until_settled)):
        with pytest.raises(ValueError, match="no price"):
            await act()
        assert model.is_closed


async def test_a_price_that_fails_takes_the_place_of_no_cancellation(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def be_cancelled() -> None:
        scope.cancel()
        await anyio.sleep_forever()

    model = ClosingModel(after=be_cancelled)
    budget = nh.budget(cost=1, prices=price_until_settled)
    async with nh.run(executor_of(model), budget=budget):
        with anyio.CancelScope() as scope:
            await act()
        assert scope.cancelled_caught
    assert model.is_closed
    assert (budget.cost, budget.reserved) == (Decimal("0.5"), nh.policies.BudgetAmounts())
    assert "no price" in caplog.text


@pytest.mark.parametrize("stage", ["before", "after"])
async def test_a_price_that_fails_takes_the_place_of_no_other_failure(stage: str) -> None:
    async def fail() -> None:
        raise nh.errors.ModelConnectionError("broken")

    model = ClosingModel(**{stage: fail})  # type: ignore[arg-type]
    budget = nh.budget(cost=1, prices=price_until_settled)
    async with nh.run(executor_of(model), budget=budget):
        with pytest.raises(nh.errors.ModelConnectionError, match="broken"):
            await act()
    assert model.is_closed
    assert budget.reserved == nh.policies.BudgetAmounts()


async def test_parallel_siblings_cannot_overspend_together() -> None:
    reached = anyio.Event()
    go_on = anyio.Event()

    async def wait() -> None:
        reached.set()
        await go_on.wait()

    each = await refused_amount(known_model(), tokens=1)
    budget = nh.budget(tokens=each + 120)
    executor = executor_of(StagedModel(before=wait))
    async with nh.run(executor, budget=budget), anyio.create_task_group() as tasks:
        tasks.start_soon(act)
        await reached.wait()
        assert budget.reserved.tokens == each
        tasks.start_soon(act)
        await anyio.wait_all_tasks_blocked()
        assert (budget.reserved.tokens, budget.spent.steps) == (each, 2)
        go_on.set()
    assert budget.spent.tokens == 240


# ---- what is charged


async def test_what_was_not_used_is_returned() -> None:
    each = await refused_amount(known_model(), tokens=1)
    budget = nh.budget(tokens=each + 240)
    async with nh.run(executor_of(known_model()), budget=budget):
        for _ in range(3):
            await act()
        with pytest.raises(nh.BudgetExceededError):
            await act()
    assert budget.spent.tokens == 360


async def test_a_provider_that_reports_more_than_was_reserved_is_believed() -> None:
    budget = nh.budget(tokens=5_000)
    model = known_model(model_response(DONE, usage=used(9_000, 50)))
    async with nh.run(executor_of(model), budget=budget):
        await act()
        assert budget.spent.tokens == 9_050
        assert budget.remaining.tokens == 0
        with pytest.raises(nh.BudgetExceededError):
            await act()


async def test_the_cost_that_the_transport_tells_is_charged() -> None:
    budget = nh.budget(cost=1)
    usage = nh.Usage(requests=1, input_tokens=10, output_tokens=5, cost=Decimal("0.25"))
    async with nh.run(executor_of(known_model(model_response(DONE, usage=usage))), budget=budget):
        await act()
    assert budget.cost == Decimal("0.25")


@pytest.mark.parametrize(
    ("error", "turns"),
    [
        (nh.errors.ConnectTimeoutError("no connection"), 0),
        (nh.ConfigurationError("the model lacks it"), 0),
        (nh.errors.ModelStatusError("too many", status=429), 1),
    ],
)
async def test_what_was_never_sent_or_turned_away_takes_no_tokens(error: Exception, turns: int) -> None:
    async def fail() -> None:
        raise error

    budget = nh.budget(tokens=ROOM, cost=5)
    async with nh.run(executor_of(StagedModel(before=fail)), budget=budget) as run:
        with pytest.raises(type(error)):
            await act()
    assert budget.spent.tokens == budget.cost == 0
    assert budget.spent.turns == budget.usage.requests == turns
    assert budget.reserved == nh.policies.BudgetAmounts()
    assert run.usage_meter.usage == budget.usage


async def test_a_request_that_was_sent_and_broke_off_is_charged_its_input_and_what_had_arrived() -> None:
    async def fail() -> None:
        raise nh.errors.ModelConnectionError("broken")

    each = await refused_amount(known_model(), tokens=1)
    before, after = nh.budget(tokens=ROOM), nh.budget(tokens=ROOM)
    for model, budget in (
        (StagedModel(before=fail), before),
        (StagedModel(after=fail, text="abcde" * 2), after),
    ):
        async with nh.run(executor_of(model), budget=budget) as run:
            with pytest.raises(nh.errors.ModelConnectionError):
                await act()
        assert budget.usage == run.usage_meter.usage
        assert not budget.usage.is_complete
        assert budget.reserved.tokens == 0
    assert before.spent.tokens == each - 50
    assert each - 50 < after.spent.tokens <= each - 40
    assert after.usage.cost > before.usage.cost > 0


@pytest.mark.parametrize("stage", ["before", "after"])
async def test_a_request_that_broke_off_while_the_model_may_reason_is_charged_the_longest_response(
    stage: str,
) -> None:
    async def fail() -> None:
        raise nh.errors.ModelConnectionError("broken")

    each = await refused_amount(known_model(), tokens=1)
    model = StagedModel(**{stage: fail})  # type: ignore[arg-type]
    model.capabilities = nh.models.ModelCapabilities(max_output_tokens=50, price=PRICE, reasoning=True)
    reasoning, told_not_to = nh.budget(tokens=ROOM), nh.budget(tokens=ROOM)
    for budget, settings in ((reasoning, {}), (told_not_to, {"reasoning_effort": "none"})):
        async with nh.run(executor_of(model, model_settings=settings), budget=budget):
            with pytest.raises(nh.errors.ModelConnectionError):
                await act()
    assert reasoning.spent.tokens == each
    assert each - 50 <= told_not_to.spent.tokens < each


async def test_an_estimate_never_exceeds_what_was_reserved() -> None:
    async def fail() -> None:
        raise nh.errors.ModelConnectionError("broken")

    each = await refused_amount(known_model(), tokens=1)
    budget = nh.budget(tokens=each)
    async with nh.run(executor_of(StagedModel(after=fail, text="many words " * 500)), budget=budget):
        with pytest.raises(nh.errors.ModelConnectionError):
            await act()
    assert budget.spent.tokens == each


@pytest.mark.parametrize("stage", ["before", "after"])
async def test_a_cancelled_request_is_settled(stage: str) -> None:
    reached = anyio.Event()

    async def hang() -> None:
        reached.set()
        await anyio.sleep_forever()

    budget = nh.budget(tokens=ROOM, cost=9)
    executor = executor_of(StagedModel(**{stage: hang}))  # type: ignore[arg-type]
    async with nh.run(executor, budget=budget) as run, anyio.create_task_group() as tasks:
        tasks.start_soon(act)
        await reached.wait()
        assert budget.reserved.tokens > 0
        tasks.cancel_scope.cancel()
    assert budget.reserved == nh.policies.BudgetAmounts()
    assert budget.spent.tokens > 0
    assert budget.spent.turns == 1
    assert budget.usage == run.usage_meter.usage


async def test_a_request_that_a_source_has_no_answer_for_takes_nothing() -> None:
    class Refuser(SourcePolicy):
        def around_request(
            self, call: nh.policies.ModelCall, open_request: nh.policies.OpenRequest
        ) -> nh.policies.Events:
            raise InterceptionError("no answer")

    budget = nh.budget(tokens=ROOM, turns=5)
    with using_policy(Refuser()):
        async with nh.run(executor_of(known_model()), budget=budget) as run:
            with pytest.raises(InterceptionError):
                await act()
    assert budget.spent.tokens == budget.spent.turns == 0
    assert budget.reserved == nh.policies.BudgetAmounts()
    assert run.usage_meter.usage.requests == 0


async def test_a_refused_request_does_not_count_as_one() -> None:
    async with nh.run(executor_of(known_model()), budget=nh.budget(tokens=1)) as run:
        with pytest.raises(nh.BudgetExceededError):
            await act()
    assert run.usage_meter.usage == nh.Usage()


async def test_the_direct_transport_is_budgeted_as_well() -> None:
    model = ScriptedModel(
        [model_response(text='{"result": {"kind": "pass"}}', usage=used())],
        capabilities=nh.models.ModelCapabilities(structured_output=True, max_output_tokens=50, price=PRICE),
    )
    budget = nh.budget(tokens=ROOM, turns=1, on_exceeded="conclude")
    async with nh.run(executor_of(model, outcome_transport="direct"), budget=budget):
        await act()
        with pytest.raises(nh.BudgetExceededError):
            await act()
    assert budget.spent.tokens == 120
    assert "nearly spent" in str(model.requests[0].messages[-1])


# ---- hooks


async def test_hooks_see_a_request_before_it_is_reserved_and_after_it_is_settled() -> None:
    hooks = nh.Hooks()
    budget = nh.budget(tokens=ROOM)
    seen: list[Any] = []

    @hooks.on(BeforeModelRequest)
    async def shorten(event: BeforeModelRequest) -> nh.hooks.Modify:
        seen.append(budget.reserved.tokens)
        return nh.hooks.Modify(
            nh.models.ModelRequest(messages=event.request.messages, settings={"max_tokens": 9})
        )

    @hooks.on(AfterModelRequest)
    async def look(event: AfterModelRequest) -> None:
        seen.extend([budget.reserved.tokens, event.usage, event.finish_reason, event.error])

    model = known_model()
    async with nh.run(executor_of(model), budget=budget, hooks=hooks):
        await act()
    assert seen == [0, 0, replace(used(), cost=Decimal("0.0002")), "tool_calls", None]
    assert model.requests[0].settings == {"max_tokens": 9}


async def test_a_vetoed_request_is_not_sent_and_takes_nothing() -> None:
    hooks = nh.Hooks()
    hooks.on(BeforeModelRequest, lambda event: nh.hooks.Veto(reason="not today"))
    model, budget = known_model(), nh.budget(turns=5)
    async with nh.run(executor_of(model), budget=budget, hooks=hooks) as run:
        with pytest.raises(nh.ExecutionError, match="not today"):
            await act()
    assert model.requests == []
    assert budget.spent.turns == run.usage_meter.usage.requests == 0


@pytest.mark.parametrize("stage", ["before", "after"])
async def test_hooks_are_not_told_of_the_end_of_a_cancelled_request(stage: str) -> None:
    hooks = nh.Hooks()
    told: list[object] = []
    hooks.on(AfterModelRequest, lambda event: told.append(event))
    reached = anyio.Event()

    async def hang() -> None:
        reached.set()
        await anyio.sleep_forever()

    executor = executor_of(StagedModel(**{stage: hang}))  # type: ignore[arg-type]
    async with nh.run(executor, hooks=hooks), anyio.create_task_group() as tasks:
        tasks.start_soon(act)
        await reached.wait()
        tasks.cancel_scope.cancel()
    assert told == []


@pytest.mark.parametrize("stage", ["before", "after"])
async def test_hooks_learn_why_a_request_failed_and_cannot_hide_it(stage: str) -> None:
    hooks = nh.Hooks()
    errors: list[Exception | None] = []

    @hooks.on(AfterModelRequest)
    async def look(event: AfterModelRequest) -> None:
        errors.append(event.error)
        raise ValueError("the hook fails too")

    async def fail() -> None:
        raise nh.errors.ModelConnectionError("broken")

    async with nh.run(executor_of(StagedModel(**{stage: fail})), hooks=hooks):  # type: ignore[arg-type]
        with pytest.raises(nh.errors.ModelConnectionError) as caught:
            await act()
    assert errors == [caught.value]
    assert "the hook fails too" in str(caught.value.__notes__)


async def test_a_hook_that_fails_after_a_good_request_fails_the_step() -> None:
    hooks = nh.Hooks()

    @hooks.on(AfterModelRequest)
    async def look(event: AfterModelRequest) -> None:
        raise ValueError("the hook fails")

    async with nh.run(executor_of(known_model()), hooks=hooks):
        with pytest.raises(nh.errors.HookError, match="the hook fails"):
            await act()


# ---- measures


def measure(model_name: str) -> TokenMeasure:
    return TokenMeasure(TokenCounter.resolve(encoding_name=None, model_name=model_name), model_name)


def tokens_of(*content: Any) -> int:
    request = nh.models.ModelRequest(messages=(nh.models.UserMessage(content=content),))
    return measure("openai-chat:gpt-4o").most_tokens_of(request, request_text(request))


def test_a_text_has_at_most_as_many_tokens_as_bytes() -> None:
    for text in ("", "a", "word " * 1_000, "語" * 100, "\ud800"):
        assert measure("anthropic:claude").most_tokens(text) <= len(text.encode("utf-8", "replace"))


def test_everything_that_is_sent_is_measured() -> None:
    call = nh.models.ToolCall(id="1", name="find", arguments='{"what": "needle"}')
    result = nh.models.ToolResult(call_id="1", name="find", content=("in the hay",))
    request = nh.models.ModelRequest(
        system_prompt="the system",
        messages=(
            nh.models.UserMessage(content=("the question",)),
            nh.models.AssistantMessage(text="the text", reasoning="the thought", tool_calls=(call,)),
            nh.models.ToolResultsMessage(results=(result,)),
            nh.models.AssistantMessage(
                provider_content=nh.models.ProviderContent(protocol="p", items=({"k": "sealed"},))
            ),
        ),
        tools=(
            nh.models.ToolDefinition(name="find", description="finds things", parameters={"type": "object"}),
        ),
        response_format=nh.models.ResponseFormat(name="answer", schema={"title": "schema"}),
        settings={
            "extra_body": {"instructions": "the instructions"},
            "prediction": {"content": "the prediction"},
            "api_key": "the key",
        },
    )
    measured = request_text(request)
    text = measured.kept + measured.rest
    assert len(measured) == len(text)
    assert "the key" not in text
    for part in (
        "the system",
        "the question",
        "the text",
        "the thought",
        "find",
        "needle",
        "in the hay",
        "sealed",
        "the instructions",
        "the prediction",
    ):
        assert part in text
    for part in ("finds things", "object", "schema"):
        assert part in text


def test_media_count_as_much_as_may_be_feared() -> None:
    nothing = tokens_of()
    picture = tokens_of(nh.BinaryContent(data=b"x", media_type="image/png")) - nothing
    assert picture == tokens_of(nh.ImageUrl(url="https://example.com/a.png")) - nothing > 1_000
    assert tokens_of(nh.BinaryContent(data=bytes(90_000), media_type="application/pdf")) - nothing == 90_000
    assert tokens_of(nh.BinaryContent(data=bytes(6_400_000), media_type="audio/mp3")) - nothing == 100_000
    assert tokens_of(nh.models.DocumentUrl(url="https://example.com/a.pdf")) - nothing > picture
    assert tokens_of(nh.models.UploadedFile(file_id="f", provider_name="p")) - nothing > picture


@pytest.mark.parametrize(
    ("settings", "limit"),
    [
        ({}, 0),
        ({"max_tokens": None}, 0),
        ({"max_tokens": 5, "max_output_tokens": 7}, 7),
        ({"max_tokens": 5, "extra_body": {"max_tokens": 3}}, 5),
        ({"max_tokens": 5, "extra_body": {"max_tokens": 7}}, 7),
        ({"max_tokens": 5, "extra_body": {"other": 3}}, 5),
        ({"max_tokens": 5, "extra_body": {"reasoning": {"max_tokens": 9}}}, 5),
        ({"extra_body": {"reasoning": {"max_tokens": 9}}}, 0),
        ({"max_tokens": 5, "extra_body": {"max_tokens": None}}, 0),
        ({"max_tokens": 5, "extra_body": {"generationConfig": {"maxOutputTokens": 8}}}, 8),
        ({"extra_body": {"generation_config": {"max_output_tokens": 8}}}, 8),
    ],
)
def test_the_limit_of_a_response_is_found_in_settings(settings: dict[str, Any], limit: int) -> None:
    assert find_output_limit(settings) == limit
