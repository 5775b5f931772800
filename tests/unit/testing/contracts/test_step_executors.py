"""The library's own executors keep the promises of executors, and each broken one is found."""

import re
from typing import Any

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.testing import CallbackExecutor, StepCall, StepResponse, pass_response
from nighthawk_async.testing.contracts import StepExecutorContract
from nighthawk_async.testing.contracts.steps import AddingModel

from .suites import broken_promises, promises_of


def add_up(call: StepCall) -> StepResponse:
    return pass_response(total=sum(call.step_locals["numbers"]))


class TestCallbackExecutor(StepExecutorContract):
    def make_executor(self) -> nh.executors.StepExecutor:
        return CallbackExecutor(add_up)


class TestAgentWithAModel(StepExecutorContract):
    def make_executor(self) -> nh.executors.StepExecutor:
        return nh.AgentStepExecutor.from_model(AddingModel())


class Adding:
    async def run(self, task: nh.executors.AgentTask) -> nh.executors.StepOutcome:
        arguments = '{"target_path": "total", "expression": "sum(numbers)"}'
        await task.begin_tool_call(nh.models.ToolCall(id="1", name="nh_assign", arguments=arguments))()
        return nh.executors.PassStepOutcome()


class TestAgentOfItsOwn(StepExecutorContract):
    def make_executor(self) -> nh.executors.StepExecutor:
        return nh.AgentStepExecutor.from_agent(agent=Adding())


class Synchronous:
    def run_step(self, *, step_context: Any, **_: object) -> Any:
        return nh.executors.PassStepOutcome(), {"total": sum(step_context.step_locals["numbers"])}


class TestSynchronousExecutor(StepExecutorContract):
    def make_executor(self) -> nh.executors.StepExecutor:
        return Synchronous()


PASS = nh.executors.PassStepOutcome()


class Own:
    """An executor that keeps all promises; each of those below breaks one."""

    async def run_step_async(self, *, step_context: Any, **_: Any) -> Any:
        await anyio.lowlevel.checkpoint()
        return PASS, {"total": sum(step_context.step_locals["numbers"])}


class TestOwnExecutor(StepExecutorContract):
    def make_executor(self) -> nh.executors.StepExecutor:
        return Own()


class NoExecutor:
    run_step_async = None


class Wrong(Own):
    async def run_step_async(self, **given: Any) -> Any:
        return PASS, {"total": 41}


class Constant(Own):
    answer: Any = PASS

    async def run_step_async(self, **given: Any) -> Any:
        return self.answer


class Words(Constant):
    answer = "pass", {"total": 42}


class TooMuch(Constant):
    answer = PASS, {"total": 42, "sum": 42}


class AlwaysReturns(Own):
    async def run_step_async(self, **given: Any) -> Any:
        _, bindings = await super().run_step_async(**given)
        return nh.executors.ReturnStepOutcome(return_expression="sum(numbers)"), bindings


class Once(Own):
    is_used = False

    async def run_step_async(self, **given: Any) -> Any:
        if self.is_used:
            raise RuntimeError("used before")
        self.is_used = True
        return await super().run_step_async(**given)


class SharesState(Own):
    async def run_step_async(self, *, step_context: Any, **_: Any) -> Any:
        self.numbers = step_context.step_locals["numbers"]
        await anyio.lowlevel.checkpoint()
        return PASS, {"total": sum(self.numbers)}


class Alone(Own):
    is_busy = False

    async def run_step_async(self, **given: Any) -> Any:
        assert not self.is_busy, "busy"
        self.is_busy = True
        try:
            return await super().run_step_async(**given)
        finally:
            self.is_busy = False


class Swallows(Own):
    async def run_step_async(self, **given: Any) -> Any:
        try:
            await anyio.lowlevel.checkpoint()
            await anyio.lowlevel.checkpoint()
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await anyio.lowlevel.checkpoint()
        return await Constant.run_step_async(Constant(), **given)


class StaysBusy(Own):
    def __init__(self) -> None:
        self.room = anyio.Semaphore(1)

    async def run_step_async(self, **given: Any) -> Any:
        await self.room.acquire()
        answer = await super().run_step_async(**given)
        self.room.release()
        return answer


class BoundToALoop(Own):
    token: Any = None

    async def run_step_async(self, **given: Any) -> Any:
        token = anyio.lowlevel.current_token()
        self.token = self.token or token
        assert self.token == token, "another event loop"
        return await super().run_step_async(**given)


ANSWER, CANCELLED = "test_a_step_has_its_answer", "test_a_cancellation_at_any_time_ends_a_step"
BROKEN: list[tuple[type[Any], str, str]] = [
    (NoExecutor, "test_it_is_an_executor", "is no step executor"),
    (Wrong, ANSWER, "the sum of .19, 23. was 41"),
    (Constant, ANSWER, "it returned PassStepOutcome.*, not an outcome and bindings"),
    (Words, ANSWER, "the outcome is 'pass'"),
    (TooMuch, ANSWER, "and the write bindings total"),
    (AlwaysReturns, "test_it_ends_with_an_allowed_kind", "ReturnStepOutcome.*the block allows pass"),
    (Once, "test_steps_are_run_one_after_the_other", "used before"),
    (SharesState, "test_steps_are_run_at_once", "their sums with 100 were"),
    (Alone, "test_runs_share_an_executor", "sub-exceptions?"),
    (Swallows, CANCELLED, "its step went on and gave"),
    (StaysBusy, CANCELLED, "had not ended"),
    (BoundToALoop, "test_it_works_on_both_event_loops", "on trio, it raised AssertionError"),
]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize(("kind", "test", "did"), BROKEN, ids=lambda each: getattr(each, "__name__", None))
def test_a_broken_executor_is_found(backend: str, kind: type[Any], test: str, did: str) -> None:
    class Suite(StepExecutorContract):
        patience_seconds = 2.0

        def make_executor(self) -> nh.executors.StepExecutor:
            return kind()

    found = broken_promises(Suite, only=test, backend=backend)
    assert re.search(did, found.get(test, ""), re.DOTALL), found


def test_each_promise_has_an_executor_that_breaks_it() -> None:
    assert {each[1] for each in BROKEN} == promises_of(StepExecutorContract)
