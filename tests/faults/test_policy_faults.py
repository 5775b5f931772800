"""Policies that fail or are cancelled at any await: what has begun ends, and nothing stays set aside."""

from collections import Counter
from collections.abc import Awaitable, Callable
from decimal import Decimal
from typing import Literal, TypeVar

import anyio
import anyio.lowlevel
import pytest

import nighthawk_async as nh
from nighthawk_async import hooks as nhh
from nighthawk_async.testing import ModelResponse, ScriptedModel, model_response, tool_call
from tests.unit.observe.told_nodes import ENDS, root
from tests.unit.telemetry.traces import traced

pytestmark = pytest.mark.anyio

Result = TypeVar("Result")

PRICE = nh.models.ModelPrice(input=Decimal(1), output=Decimal(5))
DONE = tool_call("nh_outcome", kind="pass")


@nh.natural_function
async def inner(result: int = 0) -> int:
    """natural
    Set <:result>.
    """
    return result


@nh.natural_function
async def outer(result: int = 0) -> int:
    """natural
    Set <:result> to what <inner> gives.
    """
    return result


def assign(expression: str) -> nh.models.ToolCall:
    return tool_call("nh_assign", target_path="result", expression=expression)


def respond(request: nh.models.ModelRequest) -> ModelResponse:
    if "<inner>" not in str(request.messages[0]):
        return model_response(assign("42"), DONE)
    return model_response(assign("await inner()") if len(request.messages) == 1 else DONE)


class InventoryError(Exception):
    """What a policy raises."""


class Faulty(nh.Policy):
    """Waits in every method; one of the waits ends badly.

    Args:
        number: Which, from 1.
        cancel: Cancels what goes on; None to raise.
    """

    def __init__(self, number: int, cancel: Callable[[], None] | None) -> None:
        self.number = number
        self.cancel = cancel
        self.waits = 0
        self.steps = 0

    async def wait(self) -> None:
        self.waits += 1
        if self.waits == self.number:
            if self.cancel is None:
                raise InventoryError
            self.cancel()
        await anyio.lowlevel.checkpoint()

    async def around_step(self, proceed: Callable[[], Awaitable[Result]]) -> Result:
        self.steps += 1
        try:
            await self.wait()
            end = await proceed()
            await self.wait()
        finally:
            self.steps -= 1
        return end

    async def before_request(self, call: nh.policies.ModelCall) -> None:
        await self.wait()

    async def after_request(self, call: nh.policies.ModelCall) -> None:
        await self.wait()

    async def before_tool_call(self, call: nh.models.ToolCall) -> nh.models.ToolCall:
        await self.wait()
        return call

    async def after_tool_call(self, result: nh.models.ToolResult) -> nh.models.ToolResult:
        await self.wait()
        return result

    async def before_commit(self, commit: nh.oversight.StepCommit) -> None:
        await self.wait()


async def is_reached(number: int, fault: Literal["raised", "cancelled"]) -> bool:
    """Let the wait of a number end badly in a step with one within it; return whether it came to that."""
    scope = anyio.CancelScope()
    policy = Faulty(number, scope.cancel if fault == "cancelled" else None)
    told: Counter[str] = Counter()
    hooks = nh.Hooks()
    hooks.on(nhh.StepStarted, lambda event: told.update(["started"]))
    hooks.on(nhh.StepFinished, lambda event: told.update(["finished"]))
    budget = nh.budget(tokens=100_000, cost=1, turns=3, seconds=1_000)
    capabilities = nh.models.ModelCapabilities(max_output_tokens=50, price=PRICE)
    executor = nh.AgentStepExecutor.from_model(model=ScriptedModel(respond, capabilities=capabilities))
    watched, value = root(), None
    with scope, watched.watching():
        try:
            async with nh.run(executor, policies=policy, hooks=hooks, budget=budget, max_concurrent_steps=1):
                value = await outer()
        except InventoryError:
            assert fault == "raised"
    assert [node.kind for node in watched.walk() if node.state not in ENDS] == ["tree"]
    assert (budget.reserved.tokens, budget.reserved.cost, budget.reserved.turns) == (0, 0, 0)
    assert (policy.steps, told["started"]) == (0, told["finished"])
    is_reached = policy.waits >= number
    assert is_reached or value == 42
    return is_reached


@pytest.mark.parametrize("fault", ["raised", "cancelled"])
async def test_a_policy_that_fails_at_any_of_its_awaits_leaves_nothing_open(
    fault: Literal["raised", "cancelled"], monkeypatch: pytest.MonkeyPatch
) -> None:
    number = 1
    with traced(monkeypatch) as traces:
        while await is_reached(number, fault):
            number += 1
    traces.check()
    assert number > 15
