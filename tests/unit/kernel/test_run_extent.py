"""Being inside a run in tasks that were not started in it."""

from contextvars import Context
from typing import Any

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.testing import CallbackExecutor, pass_response

pytestmark = pytest.mark.anyio


@nh.natural_function
async def stars(review: str) -> int:
    count: int
    """natural
    Set <:count> to the number of stars that <review> gives.
    """
    return count


executor = CallbackExecutor(lambda call: pass_response(count=3))


async def test_a_task_from_elsewhere_carries_steps_out_in_the_run() -> None:
    run_is_entered, is_done = anyio.Event(), anyio.Event()
    made = nh.run(executor)

    async def hold_the_run() -> None:
        async with made:
            run_is_entered.set()
            await is_done.wait()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(hold_the_run)
        await run_is_entered.wait()
        with pytest.raises(nh.NighthawkError, match="No run is active"):
            await stars("***")
        async with made.extent("request"):
            assert nh.get_execution_ref() == made.execution_ref
            assert await stars("***") == 3
            assert nh.current_task().id == "run/request[0]"
        async with made.extent():
            assert nh.current_task().id == "run/extent[0]"
        assert nh.current_task().id == "main"
        assert made.usage_meter.steps == 1
        is_done.set()


async def test_a_run_has_no_extent_before_and_after() -> None:
    made = nh.run(executor)
    for _ in range(2):
        with pytest.raises(nh.NighthawkError, match="Only an active run"):
            async with made.extent():
                pass
        if not made.usage_meter.steps:
            async with made:
                await stars("***")


async def test_the_connections_of_the_loop_stay_while_somebody_is_inside() -> None:
    """A run that was entered with `with` holds none itself."""
    events: list[str] = []

    class Executor:
        async def run_step_async(self, **details: Any) -> Any:
            raise AssertionError("not called")

    async def use() -> None:
        from nighthawk_async.kernel.environment import get_environment

        resources = get_environment().run_state.current_resources()
        assert resources is not None
        await resources.use("key", Opened)

    class Opened:
        async def __aenter__(self) -> None:
            events.append("opened")

        async def __aexit__(self, *exc_details: object) -> None:
            events.append("closed")

    made = nh.run(executor)
    context = Context()
    context.run(made.__enter__)
    async with made.extent():
        await use()
        async with made.extent():
            await use()
        assert events == ["opened"]
    assert events == ["opened", "closed"]
    context.run(made.__exit__, None, None, None)


async def test_a_scope_can_be_given_its_id() -> None:
    async with nh.run(executor):
        async with nh.scope(scope_id="mine"):
            assert nh.get_execution_ref().scope_id == "mine"
        with pytest.raises(nh.NighthawkError, match="scope_id must be a text"):
            nh.scope(scope_id=5)  # type: ignore[arg-type]
