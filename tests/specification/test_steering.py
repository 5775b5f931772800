"""Steering a step while it runs: from the handle of its task, and from what it calls."""

from collections.abc import Awaitable, Callable

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.parallel import NothingToControlError
from nighthawk_async.testing import (
    CallbackExecutor,
    ModelResponse,
    ScriptedModel,
    StepCall,
    StepResponse,
    model_response,
    pass_response,
)
from tests.specification.scripted_steps import PASS, ScriptedSteps, assigning, evaluating

pytestmark = pytest.mark.anyio


class Gate:
    """A tool that takes as long as the test wants."""

    def __init__(self) -> None:
        self.reached = anyio.Event()
        self.opened = anyio.Event()
        self.finished = 0

    async def pass_through(self) -> str:
        self.reached.set()
        await self.opened.wait()
        self.finished += 1
        return "passed"


@nh.natural_function
async def work(gate: object, result: str = "untouched") -> str:
    """natural
    Call <gate> and set <:result>.
    """
    return result


PASS_GATE = evaluating("gate.pass_through()")
DONE = (assigning("result", "'done'"), PASS)


def texts(model: ScriptedModel, request: int) -> list[object]:
    """What the model was told beside its prompt and its results, message by message."""
    messages = model.requests[request].messages[1:]
    return [message.content for message in messages if isinstance(message, nh.models.UserMessage)]


# ---- steer


async def test_what_is_steered_reaches_the_model_at_the_next_turn_in_order_and_once() -> None:
    gate, steps = Gate(), ScriptedSteps(PASS_GATE, evaluating("1"), DONE)
    picture = nh.ImageUrl(url="https://host.test/map.png")
    async with nh.run(steps.executor), nh.open_tasks() as tasks:
        handle = tasks.start(work, gate)
        await gate.reached.wait()
        handle.steer("first")
        handle.steer("second", picture)
        handle.steer("")
        gate.opened.set()
        assert await handle == "done"
    assert texts(steps.model, 0) == []
    assert texts(steps.model, 1) == texts(steps.model, 2) == [("first", "second", picture)]


async def test_a_message_during_the_last_turn_makes_one_more_turn_due() -> None:
    gate = Gate()
    steps = ScriptedSteps((assigning("result", "'rash'"), PASS_GATE, PASS), DONE)
    async with nh.run(steps.executor), nh.open_tasks() as tasks:
        handle = tasks.start(work, gate)
        await gate.reached.wait()
        handle.steer("Wait: say done.")
        gate.opened.set()
        assert await handle == "done"
    assert texts(steps.model, 1) == [("Wait: say done.",)]
    (refusal,) = [result for result in steps.results if result.is_error]
    assert refusal.name == "nh_outcome"
    assert "a message for you arrived" in str(refusal.content)


@pytest.mark.parametrize("transport", ["native", "direct"])
async def test_a_message_during_the_last_turn_counts_with_every_outcome_transport(transport: str) -> None:
    native = '{"result": {"kind": "pass"}}'
    direct = '{"result": {"kind": "pass", "bindings": {"result": "direct"}}}'

    def answer(request: nh.models.ModelRequest) -> ModelResponse:
        if len(model.requests) == 1:
            nh.get_current_step_actor().steer("Sure?")
        return model_response(text=native if transport == "native" else direct)

    model = ScriptedModel(answer)
    configuration = nh.StepExecutorConfiguration(outcome_transport=transport, provided_tools=())  # type: ignore[arg-type]
    async with nh.run(nh.AgentStepExecutor.from_model(model=model, configuration=configuration)):
        assert await work(Gate()) == ("untouched" if transport == "native" else "direct")
    assert texts(model, 1)[-1] == ("Sure?",)
    assert len(model.requests) == 2


async def test_an_outcome_of_the_last_turn_allowed_counts_and_what_nobody_read_is_reported() -> None:
    gate, steps = Gate(), ScriptedSteps((PASS_GATE, *DONE), max_turns=1)
    async with nh.run(steps.executor), nh.open_tasks() as tasks:
        handle = tasks.start(work, gate)
        await gate.reached.wait()
        handle.steer("too late")
        gate.opened.set()
        with pytest.warns(nh.runtime.UndeliveredSteeringWarning, match="'too late'"):
            assert await handle == "done"


async def test_a_step_is_steered_with_content_only() -> None:
    gate, steps = Gate(), ScriptedSteps(PASS_GATE, DONE)
    async with nh.run(steps.executor), nh.open_tasks() as tasks:
        handle = tasks.start(work, gate)
        await gate.reached.wait()
        with pytest.raises(nh.NighthawkError, match="not with 3"):
            handle.steer("fine", 3)
        gate.opened.set()
        await handle
    assert texts(steps.model, 1) == []


async def test_only_a_step_in_flight_can_be_steered() -> None:
    gate, steps = Gate(), ScriptedSteps(PASS)
    go_on = anyio.Event()

    async def around() -> None:
        await work(gate)
        await go_on.wait()

    async with nh.run(steps.executor), nh.open_tasks() as tasks:
        handle = tasks.start(around)
        with pytest.raises(NothingToControlError):
            handle.steer("too early")
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(NothingToControlError):
            handle.steer("too late")
        go_on.set()
        await handle
        for act in (lambda: handle.steer("late"), handle.suspend, handle.resume, lambda: handle.stop("late")):
            with pytest.raises(nh.parallel.TaskEndedError):
                act()


async def test_a_snapshot_that_a_step_no_longer_gives_because_it_ends_says_so() -> None:
    steps = ScriptedSteps(*DONE)
    told: set[type[BaseException]] = set()

    async def look_on(handle: nh.parallel.TaskHandle[str]) -> None:
        while handle.status in ("pending", "running"):
            try:
                await handle.snapshot()
            except (nh.NighthawkError, nh.parallel.ParallelError) as error:
                told.add(type(error))
            await anyio.lowlevel.checkpoint()

    async with nh.run(steps.executor), nh.open_tasks() as tasks, anyio.create_task_group() as task_group:
        handle = tasks.start(work, Gate())
        for _ in range(5):
            task_group.start_soon(look_on, handle)
    assert nh.parallel.TaskEndedError in told
    assert told <= {nh.parallel.TaskEndedError, NothingToControlError}


async def test_a_handle_controls_the_step_that_began_last_of_several_at_once() -> None:
    gates, steps = [Gate(), Gate()], ScriptedSteps(PASS_GATE, PASS_GATE, DONE, DONE)
    second_ended = anyio.Event()

    async def begin_second_later() -> None:
        await gates[0].reached.wait()
        await work(gates[1])
        second_ended.set()

    async def both() -> None:
        await nh.parallel.gather(work(gates[0]), begin_second_later())

    async with nh.run(steps.executor), nh.open_tasks() as tasks:
        handle = tasks.start(both)
        await gates[1].reached.wait()
        assert (await handle.snapshot()).locals["gate"] is gates[1]
        gates[1].opened.set()
        await second_ended.wait()
        assert (await handle.snapshot()).locals["gate"] is gates[0]
        gates[0].opened.set()


async def test_the_innermost_step_of_a_task_is_steered() -> None:
    gate, inner = Gate(), ScriptedSteps(PASS_GATE, DONE)
    outer = ScriptedSteps(evaluating("delegate()"), PASS)

    async def delegate() -> str:
        with nh.scope(step_executor=inner.executor):
            return await work(gate)

    async with nh.run(outer.executor), nh.open_tasks() as tasks:
        with nh.scope(implicit_references={"delegate": delegate}):
            handle = tasks.start(work, gate)
        await gate.reached.wait()
        handle.steer("for the inner one")
        gate.opened.set()
        await handle
    assert texts(inner.model, 1) == [("for the inner one",)]
    assert texts(outer.model, 1) == []


# ---- suspend and resume


async def test_suspending_lets_a_running_tool_finish_and_asks_the_model_nothing_more() -> None:
    gate, steps = Gate(), ScriptedSteps(PASS_GATE, DONE)
    async with nh.run(steps.executor), nh.open_tasks() as tasks:
        handle = tasks.start(work, gate)
        await gate.reached.wait()
        handle.suspend()
        handle.suspend()
        assert not (await handle.snapshot()).is_suspended
        gate.opened.set()
        await handle.wait_suspended()
        handle.suspend()
        await anyio.wait_all_tasks_blocked()
        assert (await handle.snapshot()).is_suspended
        assert (gate.finished, len(steps.model.requests)) == (1, 1)
        handle.resume()
        assert await handle == "done"


async def test_what_a_step_is_resumed_with_comes_after_what_was_steered_before() -> None:
    gate, steps = Gate(), ScriptedSteps(PASS_GATE, DONE)
    async with nh.run(steps.executor), nh.open_tasks() as tasks:
        handle = tasks.start(work, gate)
        await gate.reached.wait()
        handle.steer("first")
        handle.suspend()
        gate.opened.set()
        await handle.wait_suspended()
        handle.steer("second")
        handle.resume(["third", "fourth"])
        handle.steer("fifth")
        await handle
    assert texts(steps.model, 1) == [("first", "second", "third", "fourth", "fifth")]


async def test_a_step_that_was_asked_to_park_does_so_before_it_commits() -> None:
    gate, steps = Gate(), ScriptedSteps((PASS_GATE, PASS), DONE)
    async with nh.run(steps.executor), nh.open_tasks() as tasks:
        handle = tasks.start(work, gate)
        await gate.reached.wait()
        handle.suspend()
        gate.opened.set()
        await handle.wait_suspended()
        assert handle.status == "suspended"
        handle.resume("Not yet.")
        assert await handle == "done"
    assert texts(steps.model, 1) == [("Not yet.",)]


async def test_resuming_what_is_not_suspended_and_resuming_twice_are_errors() -> None:
    gate, steps = Gate(), ScriptedSteps(PASS_GATE, DONE)
    async with nh.run(steps.executor), nh.open_tasks() as tasks:
        handle = tasks.start(work, gate)
        await gate.reached.wait()
        with pytest.raises(nh.parallel.NotSuspendedError):
            handle.resume("lost")
        handle.suspend()
        gate.opened.set()
        await handle.wait_suspended()
        handle.resume("kept")
        with pytest.raises(nh.parallel.AlreadyResumedError):
            handle.resume("refused")
        await handle
    assert texts(steps.model, 1) == [("kept",)]


async def parked(tasks: nh.parallel.Tasks, gate: Gate) -> nh.parallel.TaskHandle[str]:
    handle = tasks.start(work, gate)
    await gate.reached.wait()
    handle.suspend()
    gate.opened.set()
    await handle.wait_suspended()
    return handle


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(lambda handle: handle.cancel("enough"), id="cancelled"),
        pytest.param(lambda handle: handle.cancel_gracefully(60, "enough"), id="cancelled gracefully"),
    ],
)
async def test_a_parked_step_obeys_cancellation(end: Callable[[nh.parallel.TaskHandle[str]], object]) -> None:
    gate, steps = Gate(), ScriptedSteps(PASS_GATE, DONE)
    async with nh.run(steps.executor), nh.open_tasks() as tasks:
        handle = await parked(tasks, gate)
        ending = end(handle)
        if isinstance(ending, Awaitable):
            await ending
        with pytest.raises(nh.parallel.TaskCancelledError, match="enough") as caught:
            await handle
    assert not caught.value.forced
    assert len(steps.model.requests) == 1


async def test_a_parked_step_can_be_stopped() -> None:
    gate, steps = Gate(), ScriptedSteps(PASS_GATE, DONE)
    async with nh.run(steps.executor), nh.open_tasks() as tasks:
        handle = await parked(tasks, gate)
        handle.stop("enough")
        with pytest.raises(nh.ExecutionError, match="was stopped: enough"):
            await handle


@pytest.mark.virtual_time
async def test_a_parked_step_ends_with_its_deadline() -> None:
    gate, steps = Gate(), ScriptedSteps(PASS_GATE, DONE)

    @nh.deadline(30)
    async def limited() -> str:
        return await work(gate)

    async with nh.run(steps.executor), nh.open_tasks() as tasks:
        handle = tasks.start(limited)
        await gate.reached.wait()
        handle.suspend()
        gate.opened.set()
        await handle.wait_suspended()
        with pytest.raises(nh.parallel.DeadlineExceededError):
            await handle


# ---- stop, and cancelling with grace


async def test_a_stopped_step_fails_although_its_model_has_just_ended_it() -> None:
    gate, steps = Gate(), ScriptedSteps((PASS_GATE, *DONE))
    async with nh.run(steps.executor), nh.open_tasks() as tasks:
        handle = tasks.start(work, gate)
        await gate.reached.wait()
        handle.stop("wrong way")
        gate.opened.set()
        with pytest.raises(nh.ExecutionError, match="was stopped: wrong way"):
            await handle


async def test_a_step_that_is_cancelled_gracefully_finishes_its_turn_and_begins_no_other() -> None:
    gate, steps = Gate(), ScriptedSteps(PASS_GATE, DONE)
    async with nh.run(steps.executor), nh.open_tasks() as tasks, anyio.create_task_group() as task_group:
        handle = tasks.start(work, gate)
        await gate.reached.wait()
        task_group.start_soon(handle.cancel_gracefully, 60, "shutting down")
        await anyio.wait_all_tasks_blocked()
        gate.opened.set()
        with pytest.raises(nh.parallel.TaskCancelledError, match="shutting down") as caught:
            await handle
    assert not caught.value.forced
    assert (gate.finished, len(steps.model.requests)) == (1, 1)


async def test_an_outcome_that_is_there_counts_although_the_task_was_asked_to_end() -> None:
    gate, steps = Gate(), ScriptedSteps((PASS_GATE, *DONE))
    async with nh.run(steps.executor), nh.open_tasks() as tasks, anyio.create_task_group() as task_group:
        handle = tasks.start(work, gate)
        await gate.reached.wait()
        task_group.start_soon(handle.cancel_gracefully, 60)
        await anyio.wait_all_tasks_blocked()
        gate.opened.set()
        assert await handle == "done"


async def test_a_step_and_the_steps_of_its_tools_end_one_after_the_other_when_cancelled_gracefully() -> None:
    gate, inner = Gate(), ScriptedSteps(PASS_GATE, DONE)
    outer = ScriptedSteps(evaluating("delegate()"), PASS)

    async def delegate() -> str:
        with nh.scope(step_executor=inner.executor):
            return await work(gate)

    async with nh.run(outer.executor), nh.open_tasks() as tasks, anyio.create_task_group() as task_group:
        with nh.scope(implicit_references={"delegate": delegate}):
            handle = tasks.start(work, gate)
        await gate.reached.wait()
        task_group.start_soon(handle.cancel_gracefully, 60)
        await anyio.wait_all_tasks_blocked()
        gate.opened.set()
        with pytest.raises(nh.parallel.TaskCancelledError) as caught:
            await handle
    assert not caught.value.forced
    assert (gate.finished, len(inner.model.requests), len(outer.model.requests)) == (1, 1, 1)


@pytest.mark.virtual_time
async def test_a_step_that_does_not_finish_its_turn_within_the_grace_is_cancelled_by_force() -> None:
    gate, steps = Gate(), ScriptedSteps(PASS_GATE, DONE)
    async with nh.run(steps.executor), nh.open_tasks() as tasks:
        handle = tasks.start(work, gate)
        await gate.reached.wait()
        assert await handle.cancel_gracefully(5) == "cancelled"
        with pytest.raises(nh.parallel.TaskCancelledError) as caught:
            await handle
    assert caught.value.forced


async def test_a_task_that_was_asked_to_end_begins_no_further_step() -> None:
    gate, steps = Gate(), ScriptedSteps((PASS_GATE, *DONE), DONE)

    async def twice() -> None:
        await work(gate)
        await work(gate)

    async with nh.run(steps.executor), nh.open_tasks() as tasks, anyio.create_task_group() as task_group:
        handle = tasks.start(twice)
        await gate.reached.wait()
        task_group.start_soon(handle.cancel_gracefully, 60)
        await anyio.wait_all_tasks_blocked()
        gate.opened.set()
        with pytest.raises(nh.parallel.TaskCancelledError):
            await handle
    assert len(steps.model.requests) == 1


# ---- snapshots


async def test_a_snapshot_shows_what_the_step_is_doing() -> None:
    gate, steps = Gate(), ScriptedSteps(assigning("result", "'x' * 1000"), PASS_GATE, DONE)
    async with nh.run(steps.executor), nh.open_tasks() as tasks:
        handle = tasks.start(work, gate)
        await gate.reached.wait()
        view: nh.runtime.StepSnapshot = await handle.snapshot()
        gate.opened.set()
        await handle
    assert view.turns == 2
    assert [(call.name, call.arguments) for call in view.tool_calls] == [
        (PASS_GATE.name, PASS_GATE.arguments)
    ]
    assert (view.usage.requests, view.usage.input_tokens) == (2, 20)
    assert view.local_previews["result"].startswith("'xxx")
    assert len(view.local_previews["result"]) <= 200
    assert view.locals["gate"] is gate
    with pytest.raises(TypeError):
        view.local_previews["result"] = ""  # type: ignore[index]


async def test_a_snapshot_survives_values_that_cannot_be_shown() -> None:
    class Hidden:
        def __repr__(self) -> str:
            raise ValueError

    views: list[nh.runtime.StepSnapshot] = []

    async def look(call: StepCall) -> StepResponse:
        views.append(await nh.get_current_step_actor().snapshot())
        return pass_response()

    async with nh.run(CallbackExecutor(look)):
        await work(Hidden())
    assert "Hidden" in views[0].local_previews["gate"]


async def test_the_usage_of_a_step_contains_that_of_the_steps_of_its_tools() -> None:
    inner = ScriptedSteps(evaluating("1"), PASS)
    outer = ScriptedSteps(evaluating("delegate()"), evaluating("look()"), PASS)
    views: list[nh.runtime.StepSnapshot] = []

    async def delegate() -> str:
        with nh.scope(step_executor=inner.executor):
            return await work(Gate())

    async def look() -> None:
        views.append(await nh.get_current_step_actor().snapshot())

    async with nh.run(outer.executor) as run:
        with nh.scope(implicit_references={"delegate": delegate, "look": look}):
            await work(Gate())
    assert views[0].usage.requests == 4
    assert run.usage_meter.usage.requests == 5


# ---- executors and agents without turns


async def test_an_executor_without_turns_can_be_stopped_and_parked_before_its_step_commits() -> None:
    reached, go_on = anyio.Event(), anyio.Event()

    async def answer(call: StepCall) -> StepResponse:
        reached.set()
        await go_on.wait()
        return pass_response(result="done")

    async with nh.run(CallbackExecutor(answer)), nh.open_tasks() as tasks:
        handle = tasks.start(work, Gate())
        await reached.wait()
        handle.suspend()
        go_on.set()
        await handle.wait_suspended()
        handle.resume()
        assert await handle == "done"
        go_on = anyio.Event()
        stopped = tasks.start(work, Gate())
        await anyio.wait_all_tasks_blocked()
        stopped.stop("enough")
        go_on.set()
        with pytest.raises(nh.ExecutionError, match="was stopped: enough"):
            await stopped


async def test_what_an_executor_without_turns_is_steered_with_is_reported() -> None:
    def answer(call: StepCall) -> StepResponse:
        nh.get_current_step_actor().steer("Nobody reads this.")
        return pass_response()

    async with nh.run(CallbackExecutor(answer)):
        with pytest.warns(nh.runtime.UndeliveredSteeringWarning, match="Nobody reads this"):
            await work(Gate())


async def test_an_agent_of_ones_own_takes_part_by_its_turn_boundaries() -> None:
    seen: list[tuple[nh.models.UserContent, ...]] = []
    reached, go_on = anyio.Event(), anyio.Event()

    class Patient:
        async def run(self, task: nh.executors.AgentTask) -> nh.executors.StepOutcome:
            while True:
                seen.append(await task.turn_boundary())
                reached.set()
                await go_on.wait()
                if await task.may_end():
                    return nh.executors.PassStepOutcome()

    async with nh.run(nh.AgentStepExecutor.from_agent(agent=Patient())), nh.open_tasks() as tasks:
        handle = tasks.start(work, Gate())
        await reached.wait()
        handle.steer("once more")
        go_on.set()
        await handle
    assert seen == [(), ("once more",)]
