"""Steps within steps: how deep they may be, and how deep ones end."""

import asyncio
import pickle
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import anyio
import anyio.to_thread
import pytest

import nighthawk_async as nh
from nighthawk_async import observe
from nighthawk_async.hooks import StepFinished, StepStarted
from nighthawk_async.resilience import Baseline, retrying
from nighthawk_async.testing import (
    CallbackExecutor,
    ModelResponse,
    ScriptedModel,
    StepCall,
    StepResponse,
    model_response,
    pass_response,
    return_response,
    tool_call,
)
from nighthawk_async.types.messages import ToolResultsMessage
from nighthawk_async.types.model import ModelRequest

pytestmark = pytest.mark.anyio

DONE = tool_call("nh_outcome", kind="pass")
DEFAULT = 16


@nh.natural_function
async def dive(level: int, below: Any) -> None:
    """natural
    Go on from <level> with <below>.
    """


@nh.natural_function
def dive_in_thread(level: int, below: Any) -> None:
    """natural
    Go on from <level> with <below>.
    """


class Recursion:
    """An executor whose steps each call a function that makes the next, until it says how to end.

    Args:
        at_bottom: Is called at the deepest level.
        depth: Which level that is; None for no end.
        by_model: Whether a model makes the calls; else the executor makes them as Python code.
        function: What makes a step.
    """

    def __init__(
        self,
        at_bottom: Callable[[], Awaitable[object]] = anyio.lowlevel.checkpoint,
        *,
        depth: int | None = None,
        by_model: bool = False,
        function: Callable[[int, Any], Any] = dive,
    ) -> None:
        self.levels: list[int] = []
        self.errors: list[str] = []
        self._at_bottom = at_bottom
        self._depth = depth
        self._function = function
        executor = nh.AgentStepExecutor.from_model(model=ScriptedModel(self._answer))
        self.executor: Any = executor if by_model else CallbackExecutor(self._respond)

    async def below(self, level: int) -> None:
        """What is below a level."""
        self.levels.append(level)
        if level == self._depth:
            await self._at_bottom()
        else:
            await self._function(level + 1, self.below)

    def below_in_thread(self, level: int) -> None:
        """The same for synchronous functions."""
        self.levels.append(level)
        if level != self._depth:
            self._function(level + 1, nh.blocking(self.below_in_thread))

    async def _respond(self, call: StepCall) -> StepResponse:
        await self.below(call.step_locals["level"])  # type: ignore[arg-type]
        return pass_response()

    def _answer(self, request: ModelRequest) -> ModelResponse:
        last = request.messages[-1]
        if not isinstance(last, ToolResultsMessage):
            return model_response(tool_call("nh_eval", expression="below(level)"))
        self.errors += [str(result.content[0]) for result in last.results if result.is_error]
        return model_response(DONE)


# ---- the limit


async def test_a_model_that_calls_its_own_function_is_told_where_the_limit_is() -> None:
    recursion = Recursion(by_model=True)
    async with nh.run(recursion.executor):
        await dive(1, recursion.below)
    assert recursion.levels == list(range(1, DEFAULT + 1))
    (error,) = recursion.errors
    assert "NestedStepLimitError" in error
    assert f"max_depth allows {DEFAULT}" in error


@pytest.mark.parametrize("max_depth", [1, 2, 5])
async def test_python_code_gets_the_error_and_the_step_has_not_begun(max_depth: int) -> None:
    recursion = Recursion()
    hooks, told = nh.Hooks(), list[str]()
    hooks.on(StepStarted, StepFinished)(lambda event: told.append(type(event).__name__))
    async with nh.run(recursion.executor, max_depth=max_depth, hooks=hooks) as run:
        with pytest.raises(
            nh.errors.StepLimitError, match=rf"test_step_nesting:\d+: .* number {max_depth + 1} of"
        ):
            await dive(1, recursion.below)
    assert recursion.levels == list(range(1, max_depth + 1))
    assert told == ["StepStarted"] * max_depth + ["StepFinished"] * max_depth
    assert run.usage_meter.steps == max_depth


async def test_a_limit_of_one_lets_any_number_run_beside_each_other() -> None:
    recursion = Recursion(depth=1)
    async with nh.run(recursion.executor, max_depth=1):
        await nh.parallel.map(lambda _: dive(1, recursion.below), range(50))
        await dive(1, recursion.below)
    assert recursion.levels == [1] * 51


@pytest.mark.parametrize("value", [0, -1, True, 1.5, "2"])
async def test_what_is_no_positive_integer_is_refused(value: Any) -> None:
    with pytest.raises(nh.NighthawkError, match="max_depth must be a positive integer"):
        nh.run(Recursion().executor, max_depth=value)
    async with nh.run(Recursion().executor):
        with pytest.raises(nh.NighthawkError, match="max_depth must be a positive integer"):
            nh.scope(max_depth=value)


async def test_a_scope_narrows_the_limit_for_the_steps_inside() -> None:
    recursion = Recursion()
    async with nh.run(recursion.executor):
        async with nh.scope(max_depth=3):
            with pytest.raises(nh.errors.NestedStepLimitError):
                await dive(1, recursion.below)
        assert recursion.levels == [1, 2, 3]
        async with nh.scope(max_depth=1_000):  # the run's limit holds as well
            with pytest.raises(nh.errors.NestedStepLimitError):
                await dive(1, recursion.below)
    assert len(recursion.levels) == 3 + DEFAULT


async def test_a_scope_inside_a_step_counts_from_there() -> None:
    inner = Recursion()

    async def at_bottom() -> None:
        async with nh.scope(step_executor=inner.executor, max_depth=2):
            with pytest.raises(nh.errors.NestedStepLimitError):
                await dive(1, inner.below)

    outer = Recursion(at_bottom, depth=4)
    async with nh.run(outer.executor):
        await dive(1, outer.below)
    assert (outer.levels, inner.levels) == ([1, 2, 3, 4], [1, 2])


async def test_a_run_within_a_step_neither_forgets_nor_exceeds_the_outer_limit() -> None:
    inner = Recursion()

    async def at_bottom() -> None:
        async with nh.run(inner.executor, max_depth=100):
            with pytest.raises(nh.errors.NestedStepLimitError):
                await dive(1, inner.below)

    outer = Recursion(at_bottom, depth=4)
    async with nh.run(outer.executor, max_depth=10):
        await dive(1, outer.below)
    assert len(inner.levels) == 6


async def test_a_task_that_a_step_left_behind_is_not_within_it() -> None:
    """Each step starts a task of the run that makes the next step, and ends."""
    done = anyio.Event()

    async def respond(call: StepCall) -> StepResponse:
        level: Any = call.step_locals["level"]
        if level == 40:
            done.set()
        else:
            run.task_group.start_soon(later, level + 1, await_step(ended[-1]))
        return pass_response()

    ended = [anyio.Event()]

    async def await_step(event: anyio.Event) -> None:
        await event.wait()

    async def later(level: int, before: Awaitable[None]) -> None:
        await before
        ended.append(anyio.Event())
        await dive(level, None)
        ended[-1].set()

    async with nh.run(CallbackExecutor(respond)) as run:
        await dive(1, None)
        ended[0].set()
        await done.wait()


async def test_nothing_tries_a_step_again_that_is_too_deep() -> None:
    recursion = Recursion()
    baseline = Baseline(retries=retrying(attempts=3, wait=0))
    async with nh.run(recursion.executor, max_depth=3, resilience=baseline):
        with pytest.raises(nh.errors.NestedStepLimitError):
            await dive(1, recursion.below)
    assert recursion.levels == [1, 2, 3]


def test_the_error_pickles() -> None:
    error = pickle.loads(pickle.dumps(nh.errors.NestedStepLimitError("step a:1: too deep")))
    assert type(error) is nh.errors.NestedStepLimitError
    assert isinstance(error, nh.errors.StepLimitError)
    assert str(error) == "step a:1: too deep"


# ---- synchronous functions


@pytest.mark.parametrize("sync_backend", ["trio", "asyncio"])
def test_synchronous_functions_have_the_same_limit(sync_backend: Any) -> None:
    levels: list[int] = []

    def respond(call: StepCall) -> StepResponse:
        levels.append(call.step_locals["level"])  # type: ignore[arg-type]
        dive_in_thread(levels[-1] + 1, None)
        return pass_response()

    run = nh.run(CallbackExecutor(respond), sync_backend=sync_backend, max_depth=5)
    with run, pytest.raises(nh.errors.NestedStepLimitError):
        dive_in_thread(1, None)
    assert levels == [1, 2, 3, 4, 5]


def test_event_loops_that_wait_for_each_other_are_bounded_whatever_the_limit() -> None:
    def respond(call: StepCall) -> StepResponse:
        dive_in_thread(call.step_locals["level"] + 1, None)  # type: ignore[operator]
        return pass_response()

    executor = CallbackExecutor(respond)
    with nh.run(executor, max_depth=500), pytest.raises(nh.errors.NestedStepLimitError, match="`async def`"):
        dive_in_thread(1, None)
    assert len(executor.calls) == 64


@contextmanager
def two_threads() -> Iterator[None]:
    """Have an event loop with two worker threads for each level."""
    limiter = anyio.to_thread.current_default_thread_limiter()
    before, limiter.total_tokens = limiter.total_tokens, 2
    yield
    limiter.total_tokens = before


@pytest.mark.parametrize("depth", [5, 40])
async def test_worker_threads_that_wait_for_deeper_steps_never_use_up_those_of_deeper_levels(
    depth: int,
) -> None:
    """With two threads for each level, three chains at once still end."""
    recursion = Recursion(depth=depth, by_model=True, function=dive_in_thread)
    below = nh.blocking(recursion.below_in_thread)
    async with nh.run(recursion.executor, max_depth=50):
        with two_threads(), anyio.fail_after(240):
            await nh.parallel.map(lambda _: dive(1, below), range(3))
    assert sorted(set(recursion.levels)) == list(range(1, depth + 1))
    assert recursion.errors == []


async def test_synchronous_functions_of_tasks_have_threads_at_every_level() -> None:
    levels: list[int] = []

    async def below(level: int) -> None:
        async with nh.open_tasks(at_end="wait") as tasks:
            tasks.start(in_thread, level)

    def in_thread(level: int) -> None:
        levels.append(level)
        if level < 5:
            dive_in_thread(level + 1, below)

    async with nh.run(Recursion(by_model=True).executor):
        with two_threads(), anyio.fail_after(240):
            await nh.parallel.map(lambda _: dive(1, below), range(3))
    assert sorted(levels) == [level for level in range(1, 6) for _ in range(3)]


@pytest.mark.parametrize("is_async", [True, False])
async def test_worker_threads_that_wait_for_steps_leave_some_for_these(is_async: bool) -> None:
    """Outside of steps as well, threads that wait are other ones than those that are waited for."""

    async def call_in_thread(call: StepCall) -> StepResponse:
        await nh.blocking(len)("abc")
        return pass_response()

    class InThread:
        def run_step(self, **step: Any) -> tuple[nh.executors.StepOutcome, dict[str, object]]:
            return nh.executors.PassStepOutcome(), {}

    executor: Any = CallbackExecutor(call_in_thread) if is_async else InThread()
    async with nh.run(executor) as run:
        with two_threads(), anyio.fail_after(240):
            async with nh.open_tasks(at_end="wait") as tasks:
                for _ in range(5):
                    tasks.start(dive_in_thread, 1, None)
    assert run.usage_meter.steps == 5


async def test_a_synchronous_executor_has_threads_at_every_level() -> None:

    class InThread:
        def run_step(
            self,
            *,
            processed_natural_program: str,
            step_context: nh.StepContext,
            binding_names: list[str],
            allowed_step_kinds: tuple[str, ...],
        ) -> tuple[nh.executors.StepOutcome, dict[str, object]]:
            level: Any = step_context.step_locals["level"]
            if level < 5:
                dive_in_thread(level + 1, None)
            return nh.executors.PassStepOutcome(), {}

    async with nh.run(InThread()) as run:
        with two_threads(), anyio.fail_after(240):
            await nh.parallel.map(lambda _: dive(1, None), range(3))
    assert run.usage_meter.steps == 15


# ---- deep steps


@pytest.fixture
def default_recursion_limit() -> Any:
    """The recursion limit that Python has by default."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1_000)
    yield
    sys.setrecursionlimit(before)


@pytest.mark.usefixtures("default_recursion_limit")
@pytest.mark.parametrize("by_model", [True, False])
@pytest.mark.parametrize("depth", [200, pytest.param(500, marks=pytest.mark.weekly)])
async def test_deep_steps_are_cancelled(depth: int, by_model: bool) -> None:
    reached, ended = anyio.Event(), list[type[BaseException]]()

    async def sleep() -> None:
        reached.set()
        try:
            await anyio.sleep_forever()
        except BaseException as error:
            ended.append(type(error))
            raise

    before = len(anyio.get_running_tasks())
    recursion = Recursion(sleep, depth=depth, by_model=by_model)
    hooks, finished = nh.Hooks(), list[bool]()
    hooks.on(StepFinished)(lambda event: finished.append(event.is_cancelled))
    run = nh.run(recursion.executor, max_depth=depth, hooks=hooks)
    async with run, anyio.create_task_group() as task_group:
        task_group.start_soon(dive, 1, recursion.below)
        await reached.wait()
        task_group.cancel_scope.cancel()
    assert ended == [anyio.get_cancelled_exc_class()]
    assert finished == [True] * depth
    assert len(anyio.get_running_tasks()) == before


@pytest.mark.usefixtures("default_recursion_limit")
@pytest.mark.parametrize("by_model", [True, False])
async def test_deep_steps_are_cancelled_with_everything_around_them(by_model: bool) -> None:
    """Time limits, budgets, attempts, checks, oversight and observers add scopes and frames to each level."""
    reached, depth = anyio.Event(), 120

    async def sleep() -> None:
        reached.set()
        await anyio.sleep_forever()

    recursion = Recursion(sleep, depth=depth, by_model=by_model)
    run = nh.run(
        recursion.executor,
        max_depth=depth,
        max_concurrent_steps=1,
        budget=nh.budget(seconds=3_600),
        step_budget=nh.budget(seconds=3_600),
        resilience=Baseline(timeout=3_600, retries=1),
        verify=lambda proposal: None,
        hooks=nh.Hooks(),
    )
    with observe.recording() as tree:
        async with run, anyio.create_task_group() as task_group:
            task_group.start_soon(dive, 1, recursion.below)
            await reached.wait()
            task_group.cancel_scope.cancel()
        steps = [node for node in tree.snapshot().walk() if node.kind == "step"]
    assert [step.state for step in steps] == ["cancelled"] * depth


@pytest.mark.usefixtures("default_recursion_limit")
@pytest.mark.parametrize("by_model", [True, False])
async def test_deep_steps_end_normally(by_model: bool, all_cases: bool) -> None:
    depth = 300 if all_cases else 200
    recursion = Recursion(depth=depth, by_model=by_model)
    async with nh.run(recursion.executor, max_depth=depth) as run:
        await dive(1, recursion.below)
    assert recursion.levels == list(range(1, depth + 1))
    assert (run.usage_meter.steps, recursion.errors) == (depth, [])


@pytest.mark.usefixtures("default_recursion_limit")
async def test_an_error_of_a_deep_step_leaves_bare() -> None:
    async def fail() -> None:
        raise LookupError("at the bottom")

    recursion = Recursion(fail, depth=100)
    async with nh.run(recursion.executor, max_depth=100):
        with pytest.raises(LookupError, match="at the bottom") as caught:
            await dive(1, recursion.below)
    assert caught.value.__context__ is None


async def test_an_error_of_a_deep_step_takes_the_place_of_a_cancellation() -> None:
    reached = anyio.Event()

    async def fail_when_cancelled() -> None:
        reached.set()
        try:
            await anyio.sleep_forever()
        finally:
            raise LookupError("while ending")

    recursion = Recursion(fail_when_cancelled, depth=40)
    errors: list[str] = []

    async def watched(scope: anyio.CancelScope) -> None:
        with scope:
            try:
                await dive(1, recursion.below)
            except LookupError as error:
                errors.append(str(error))

    scope = anyio.CancelScope()
    async with nh.run(recursion.executor, max_depth=40), anyio.create_task_group() as task_group:
        task_group.start_soon(watched, scope)
        await reached.wait()
        scope.cancel()
    assert errors == ["while ending"]


LEVEL: ContextVar[str] = ContextVar("level", default="none")


async def test_context_variables_flow_into_deep_steps_and_not_out_of_them() -> None:
    seen: list[str] = []

    async def look() -> None:
        seen.append(LEVEL.get())
        LEVEL.set("inside")

    recursion = Recursion(look, depth=40)
    async with nh.run(recursion.executor, max_depth=40):
        LEVEL.set("around")
        await dive(1, recursion.below)
    assert (seen, LEVEL.get()) == (["around"], "around")


async def test_a_deadline_reaches_deep_steps() -> None:
    recursion = Recursion(anyio.sleep_forever, depth=60)
    async with nh.run(recursion.executor, max_depth=60):
        with anyio.move_on_after(0.5) as scope:
            await dive(1, recursion.below)
    assert scope.cancelled_caught


async def test_a_value_of_a_deep_step_is_returned() -> None:
    @nh.natural_function
    async def count(level: int) -> int:
        """natural
        Return <level> and what is below.
        """
        return 0

    async def respond(call: StepCall) -> StepResponse:
        level: Any = call.step_locals["level"]
        below = 0 if level == 100 else await count(level + 1)
        return return_response(f"{below + 1}")

    async with nh.run(CallbackExecutor(respond), max_depth=100):
        assert await count(1) == 100


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("by_model", [True, False])
async def test_a_task_that_asyncio_cancels_ends_its_deep_steps(by_model: bool) -> None:
    reached, before = anyio.Event(), asyncio.all_tasks()

    async def sleep() -> None:
        reached.set()
        await anyio.sleep_forever()

    recursion = Recursion(sleep, depth=100, by_model=by_model)
    async with nh.run(recursion.executor, max_depth=100):
        task = asyncio.get_running_loop().create_task(dive(1, recursion.below))
        await reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert task.cancelled()
    assert asyncio.all_tasks() == before


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_an_event_loop_that_cancels_every_task_ends_deep_steps() -> None:
    reached = anyio.Event()

    async def sleep() -> None:
        reached.set()
        await anyio.sleep_forever()

    recursion = Recursion(sleep, depth=40)
    before = asyncio.all_tasks()
    async with nh.run(recursion.executor, max_depth=40):
        task = asyncio.get_running_loop().create_task(dive(1, recursion.below))
        await reached.wait()
        for each in asyncio.all_tasks() - before:
            each.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert asyncio.all_tasks() == before
