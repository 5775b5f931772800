"""The task of a step actor: it begins with the first message, in the context of the step."""

from contextvars import ContextVar
from typing import Any

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.testing import CallbackExecutor, StepCall, StepResponse, pass_response

pytestmark = pytest.mark.anyio

variable: ContextVar[str] = ContextVar("variable", default="nothing")


@nh.natural_function
async def act() -> None:
    """natural
    Act.
    """


async def test_messages_are_carried_out_in_the_context_of_the_step_whoever_sends_the_first_one() -> None:
    actors: list[nh.runtime.StepActor] = []
    has_begun, was_looked_at = anyio.Event(), anyio.Event()
    seen: list[Any] = []

    async def evaluate(call: StepCall) -> StepResponse:
        actor = nh.get_current_step_actor()
        actors.append(actor)
        has_begun.set()
        await was_looked_at.wait()
        seen.append(await actor.settle(actor.post_evaluate("variable.get()")))
        return pass_response()

    async def look_on() -> None:
        await has_begun.wait()
        variable.set("of whoever looks on")
        await actors[0].snapshot()
        was_looked_at.set()

    async with nh.run(CallbackExecutor(evaluate), code="python"), anyio.create_task_group() as task_group:
        task_group.start_soon(look_on)
        variable.set("of the step")
        await act()
    assert seen == ["of the step"]


async def test_the_task_of_a_step_begins_with_its_first_message() -> None:
    counts: list[int] = []

    def count_tasks() -> None:
        counts.append(sum("StepActor" in (task.name or "") for task in anyio.get_running_tasks()))

    async def look(call: StepCall) -> StepResponse:
        actor = nh.get_current_step_actor()
        count_tasks()
        await actor.settle(actor.post_evaluate("1"))
        count_tasks()
        return pass_response()

    async with nh.run(CallbackExecutor(look)):
        await act()
    assert counts == [0, 1]
