"""A step with several attempts is cancelled wherever it waits: nothing of it stays behind."""

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.resilience import Baseline, retrying
from nighthawk_async.testing import ScriptedModel, model_response, pass_response, tool_call
from tests.specification.attempts import work
from tests.unit.resilience.ensemble_support import ModelsExecutor

from .cancellation_points import cancel_at

pytestmark = pytest.mark.anyio

BASELINE = Baseline(timeout=60, retries=retrying(attempts=2, wait=0.001), fallback_models=["test:spare"])
WRONG, RIGHT = "'many'", "7"


def inner_executor(model: str) -> nh.AgentStepExecutor:
    """The model of the run never succeeds; the spare one does."""
    value = RIGHT if model == "test:spare" else WRONG
    calls = (
        tool_call("nh_assign", target_path="result", expression=value),
        tool_call("nh_outcome", kind="pass"),
    )
    return nh.AgentStepExecutor.from_model(
        model=ScriptedModel(lambda request: model_response(*calls)),
        configuration=nh.StepExecutorConfiguration(max_turns=1),
    )


class Executor(ModelsExecutor):
    """Carries steps out with the scripted model that its configuration names."""

    async def run_step_async(self, **step: object) -> tuple[nh.executors.StepOutcome, dict[str, object]]:
        return await inner_executor(self.configuration.model).run_step_async(**step)  # type: ignore[arg-type]

    def with_configuration(self, configuration: nh.StepExecutorConfiguration) -> "Executor":
        return Executor(lambda model, call: pass_response(), configuration=configuration)


async def test_a_step_that_is_cancelled_at_any_moment_of_any_attempt_leaves_nothing_behind() -> None:
    budget = nh.budget(turns=10_000)
    committed: list[int] = []

    async def work_and_commit() -> None:
        try:
            committed.append(await work())
        except (
            nh.errors.StepLimitError
        ):  # cancelled as an attempt failed: that error counts, there is no other one
            assert nh.parallel.cancel_requested()

    executor = Executor(lambda model, call: pass_response())
    async with nh.run(executor, resilience=BASELINE, budget=budget, max_concurrent_steps=1):
        wait = 0
        while True:
            wait += 1
            is_cancelled = await cancel_at(wait, work_and_commit)
            assert budget.reserved.turns == 0
            if not is_cancelled:
                break
        with anyio.fail_after(240):
            assert await work() == 7  # the place is free
    assert set(committed) == {7}
    assert wait > 20
