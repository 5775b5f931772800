"""Hooks are told when a request is about to be sent again, and one that fails there ends the step."""

from typing import Any

import pytest

import nighthawk_async as nh
from nighthawk_async.hooks import AfterModelRequest, BeforeModelRequest, Retry
from nighthawk_async.testing.model_reply import ModelReply
from nighthawk_async.testing.model_server import ModelServer

from .http_support import model_at

pytestmark = pytest.mark.anyio

BUSY = ModelReply(status=503, headers={"retry-after-ms": "1"}, text="busy")
DONE = ModelReply(tool_calls=(nh.models.ToolCall(id="", name="nh_outcome", arguments='{"kind": "pass"}'),))


@nh.natural_function
async def act() -> None:
    """natural
    Do something.
    """


async def act_at(server: ModelServer, hooks: nh.Hooks, **policies: Any) -> None:
    model = model_at(server.base_url, max_retries=2)
    async with nh.run(nh.AgentStepExecutor.from_model(model=model), hooks=hooks, **policies):
        await act()


async def test_each_retry_of_a_request_is_told_between_its_beginning_and_its_end() -> None:
    told, hooks = list[Any](), nh.Hooks()
    hooks.on(BeforeModelRequest, Retry, AfterModelRequest)(told.append)
    async with ModelServer([BUSY, BUSY, DONE]) as server:
        await act_at(server, hooks)
    assert [type(event) for event in told] == [BeforeModelRequest, Retry, Retry, AfterModelRequest]
    for attempt, event in enumerate(told[1:3], start=1):
        assert (event.name, event.attempt) == ("openai-chat:tested", attempt)
        assert isinstance(event.error, nh.errors.ModelStatusError)
        assert 0 < event.wait_seconds < 1
        assert event.execution_ref.step_id is not None


async def test_a_request_that_is_not_sent_again_is_no_retry() -> None:
    told, hooks = list[Any](), nh.Hooks()
    hooks.on(Retry, told.append)
    async with ModelServer([ModelReply(status=400, text="no")]) as server:
        with pytest.raises(nh.errors.ModelStatusError):
            await act_at(server, hooks)
    assert told == []


async def test_a_hook_that_fails_at_a_retry_ends_the_step_and_nothing_is_sent_again() -> None:
    hooks, budget = nh.Hooks(), nh.budget(turns=5)

    @hooks.on(Retry)
    async def page_somebody(event: Retry) -> None:
        raise OSError("the pager is offline")

    async with ModelServer([BUSY, DONE]) as server:
        with pytest.raises(nh.errors.HookError, match="page_somebody failed at Retry: OSError"):
            await act_at(server, hooks, budget=budget)
        assert len(server.requests) == 1
    assert budget.reserved == nh.policies.BudgetAmounts()
    assert budget.spent.turns == 1
