"""A step with hooks, cancelled at every moment of its life: each beginning that was told has its end."""

from collections import Counter
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

import nighthawk_async as nh
from nighthawk_async.policies.hooks.rules import EVENT_RULES
from nighthawk_async.testing import ScriptedModel, model_response, tool_call

pytestmark = pytest.mark.anyio

MAX_TICKS = 400
DURING_CLEANUP = {"RunFinished", "ScopeFinished", "StepFinished"}


@nh.natural_function
async def act(result: int = 0) -> int:
    """natural
    Set <:result>.
    """
    return result


class Watch:
    """Hooks that wait at every event, and what they were told."""

    def __init__(self) -> None:
        self.hooks = nh.Hooks()
        self.began: list[str] = []
        self.ended: list[str] = []
        self.before_cancellation = (0, 0)
        for event_type, rule in EVENT_RULES.items():
            if not rule.is_synchronous:
                self.hooks.on(event_type, self._look)

    async def _look(self, event: Any) -> None:
        name = type(event).__name__
        self.began.append(name)
        await checkpoint()
        await checkpoint()
        self.ended.append(name)


def scripted_executor() -> nh.AgentStepExecutor:
    calls = (
        tool_call("nh_assign", target_path="result", expression="3"),
        tool_call("nh_outcome", kind="pass"),
    )
    return nh.AgentStepExecutor.from_model(model=ScriptedModel([model_response(*calls)]))


async def live(watch: Watch, results: list[int]) -> None:
    async with nh.run(scripted_executor(), hooks=watch.hooks), nh.scope():
        results.append(await act())


async def cancelled_after(ticks: int) -> tuple[Watch, list[int], bool]:
    """What was told of a run that was cancelled after so many ticks; whether it was."""
    watch, results = Watch(), list[int]()
    async with anyio.create_task_group() as task_group:

        async def run() -> None:
            await live(watch, results)
            finished.set()

        finished = anyio.Event()
        task_group.start_soon(run)
        for _ in range(ticks):
            await checkpoint()
        watch.before_cancellation = len(watch.began), len(watch.ended)
        task_group.cancel_scope.cancel()
    return watch, results, not finished.is_set()


async def test_each_beginning_has_its_end_wherever_the_run_is_cancelled() -> None:
    for ticks in range(MAX_TICKS):
        watch, results, was_cancelled = await cancelled_after(ticks)
        told = Counter(watch.began)
        for noun in ("Run", "Scope", "Step"):
            assert told[f"{noun}Started"] == told[f"{noun}Finished"] <= 1, (ticks, watch.began)
        if not was_cancelled:
            assert watch.began == watch.ended
            assert results == [3]
            return
        began, ended = watch.before_cancellation
        cleanup = [name for name in watch.began[began:] if name in DURING_CLEANUP]
        # The cancellation may have found a hook in the end of a good step; later ones are shielded from it.
        assert watch.ended[ended:] in (cleanup, cleanup[1:]), (ticks, watch.began)
    raise AssertionError(f"the run took more than {MAX_TICKS} ticks")
