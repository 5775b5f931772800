"""How many steps of a run are in flight at once."""

import threading
from contextvars import copy_context
from functools import partial

import anyio
import anyio.to_thread
import pytest

import nighthawk_async as nh
from nighthawk_async.kernel.run_state import StepAdmission, SyncBackend
from nighthawk_async.testing import (
    CallbackExecutor,
    ModelReply,
    ModelServer,
    RecordedRequest,
    ScriptedExecutor,
    StepCall,
    StepResponse,
    pass_response,
    tool_call,
)
from tests.specification.scripted_steps import PASS, ScriptedSteps, evaluating

pytestmark = pytest.mark.anyio


@nh.natural_function
async def work(number: int) -> None:
    """natural
    Work on <number>.
    """


@nh.natural_function
def work_in_thread(number: int) -> None:
    """natural
    Work on <number>.
    """


class Slow:
    """An executor whose steps wait until the test lets them go on, and that counts those in flight."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.in_flight = self.most_in_flight = 0
        self.gate = anyio.Event()
        self.executor = CallbackExecutor(self._answer)

    async def _answer(self, call: StepCall) -> StepResponse:
        self.begun.append(int(str(call.step_locals["number"])))
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            await self.gate.wait()
            await anyio.lowlevel.checkpoint()
        finally:
            self.in_flight -= 1
        return pass_response()


@pytest.mark.parametrize("value", [0, -1, True, 1.5, "2"])
async def test_a_limit_is_a_positive_integer(value: object) -> None:
    with pytest.raises(nh.NighthawkError, match="max_concurrent_steps must be a positive integer or None"):
        nh.run(ScriptedExecutor(), max_concurrent_steps=value)  # type: ignore[arg-type]


async def test_no_more_steps_are_in_flight_than_allowed() -> None:
    slow = Slow()
    async with nh.run(slow.executor, max_concurrent_steps=3), nh.open_tasks(at_end="wait") as tasks:
        for number in range(10):
            tasks.start(work, number)
        await anyio.wait_all_tasks_blocked()
        assert len(slow.begun) == 3
        slow.gate.set()
    assert sorted(slow.begun) == list(range(10))
    assert slow.most_in_flight == 3


async def test_the_first_step_to_ask_is_the_first_to_begin() -> None:
    slow = Slow()
    async with nh.run(slow.executor, max_concurrent_steps=1), nh.open_tasks(at_end="wait") as tasks:
        for number in range(10):
            tasks.start(work, number)
            await anyio.wait_all_tasks_blocked()
        slow.gate.set()
    assert slow.begun == list(range(10))


async def test_without_a_limit_every_step_begins() -> None:
    slow = Slow()
    async with nh.run(slow.executor, max_concurrent_steps=None), nh.open_tasks(at_end="wait") as tasks:
        for number in range(10):
            tasks.start(work, number)
        await anyio.wait_all_tasks_blocked()
        assert sorted(slow.begun) == list(range(10))
        slow.gate.set()


async def test_who_is_cancelled_while_waiting_gives_its_place_to_the_next() -> None:
    slow = Slow()
    async with nh.run(slow.executor, max_concurrent_steps=1) as run, nh.open_tasks(at_end="wait") as tasks:
        handles: list[nh.parallel.TaskHandle[None]] = []
        for number in range(4):
            handles.append(tasks.start(work, number))
            await anyio.wait_all_tasks_blocked()
        handles[1].cancel()
        await handles[1].wait_ended()
        slow.gate.set()
    assert slow.begun == [0, 2, 3]
    assert run.usage_meter.steps == 3


async def test_who_is_cancelled_in_flight_gives_its_place_to_the_next() -> None:
    slow = Slow()
    async with nh.run(slow.executor, max_concurrent_steps=1), nh.open_tasks(at_end="wait") as tasks:
        first = tasks.start(work, 0)
        await anyio.wait_all_tasks_blocked()
        tasks.start(work, 1)
        await anyio.wait_all_tasks_blocked()
        first.cancel()
        await first.wait_ended()
        await anyio.wait_all_tasks_blocked()
        assert slow.begun == [0, 1]
        slow.gate.set()


async def test_who_is_cancelled_at_the_moment_of_its_admission_passes_it_on() -> None:
    admission = StepAdmission(1)
    entered: list[str] = []

    async def enter(name: str) -> None:
        place = await admission.enter()
        entered.append(name)
        admission.leave(place)

    with anyio.fail_after(240):
        place = await admission.enter()
        async with anyio.create_task_group() as outer, anyio.create_task_group() as doomed:
            doomed.start_soon(enter, "doomed")
            await anyio.wait_all_tasks_blocked()
            outer.start_soon(enter, "next")
            await anyio.wait_all_tasks_blocked()
            doomed.cancel_scope.cancel()  # and without a checkpoint in between the place becomes free
            admission.leave(place)
    assert entered == ["next"]
    with anyio.fail_after(240):
        await enter("later")


async def test_the_steps_that_a_step_in_flight_brings_about_do_not_wait_for_it() -> None:
    inner = ScriptedExecutor(default_response=pass_response())

    async def delegate() -> None:
        with nh.scope(step_executor=inner):
            await work(1)
            await anyio.to_thread.run_sync(work_in_thread, 2)
            async with nh.open_tasks(at_end="wait") as tasks:
                tasks.start(work, 3)

    steps = ScriptedSteps(evaluating("delegate()"), PASS)
    async with nh.run(steps.executor, max_concurrent_steps=1):
        with nh.scope(implicit_references={"delegate": delegate}), anyio.fail_after(240):
            await work(0)
    assert len(inner.calls) == 3


async def test_inner_steps_at_the_same_time_take_no_places() -> None:
    slow = Slow()

    async def delegate() -> None:
        with nh.scope(step_executor=slow.executor):
            await nh.parallel.map(work, range(20))

    steps = ScriptedSteps(evaluating("delegate()"), PASS)
    async with nh.run(steps.executor, max_concurrent_steps=1), nh.open_tasks(at_end="wait") as tasks:
        with nh.scope(implicit_references={"delegate": delegate}):
            tasks.start(work, 0)
        await anyio.wait_all_tasks_blocked()
        assert slow.in_flight == 20
        slow.gate.set()


class LeavesBehind(Slow):
    """The step with the number 0 leaves tasks behind that carry out further steps, and ends."""

    def __init__(self, tasks: nh.parallel.Tasks, *, further: int) -> None:
        super().__init__()
        self._tasks, self._further = tasks, further
        self.may_begin = anyio.Event()
        self.may_end = anyio.Event()

    async def _answer(self, call: StepCall) -> StepResponse:
        if call.step_locals["number"] != 0:
            return await super()._answer(call)
        for number in range(1, self._further + 1):
            self._tasks.start(self._go_on, number)
        await self.may_end.wait()
        return pass_response()

    async def _go_on(self, number: int) -> None:
        await self.may_begin.wait()
        await work(number)


@pytest.mark.parametrize("is_late", [True, False], ids=["later", "in the moment of its end"])
async def test_the_tasks_that_an_ended_step_left_behind_ask_like_everybody_else(is_late: bool) -> None:
    async with nh.open_tasks(at_end="wait") as left:
        slow = LeavesBehind(left, further=6)
        async with nh.run(slow.executor, max_concurrent_steps=2):
            slow.may_end.set()
            if not is_late:
                slow.may_begin.set()
            await work(0)
            slow.may_begin.set()
            await anyio.wait_all_tasks_blocked()
            assert len(slow.begun) == 2
            slow.gate.set()
            while len(slow.begun) < 6 or slow.in_flight:
                await anyio.lowlevel.checkpoint()
    assert slow.most_in_flight == 2


async def test_a_place_becomes_free_when_the_last_step_at_it_has_ended() -> None:
    async with nh.open_tasks(at_end="wait") as left:
        slow = LeavesBehind(left, further=1)
        async with nh.run(slow.executor, max_concurrent_steps=1), nh.open_tasks(at_end="wait") as tasks:
            first = tasks.start(work, 0)
            slow.may_begin.set()
            await anyio.wait_all_tasks_blocked()
            assert slow.begun == [1]  # part of the first one, which is in flight
            slow.may_end.set()
            await first
            second = tasks.start(work, 2)
            await anyio.wait_all_tasks_blocked()
            assert slow.begun == [1]
            slow.gate.set()
            await second
    assert slow.most_in_flight == 1


async def test_steps_of_worker_threads_are_admitted_in_turn_with_the_others() -> None:
    slow = Slow()
    async with nh.run(slow.executor, max_concurrent_steps=1), nh.open_tasks(at_end="wait") as tasks:
        first = tasks.start(work, 0)
        await anyio.wait_all_tasks_blocked()
        tasks.start(work_in_thread, 1)
        slow.gate.set()
        await first
    assert slow.begun == [0, 1]
    assert slow.most_in_flight == 1


@pytest.mark.parametrize("sync_backend", ["asyncio", "trio"])
async def test_a_limit_holds_across_the_event_loops_of_a_run(sync_backend: SyncBackend) -> None:
    in_flight: list[int] = []
    most: list[int] = []

    async def answer(call: StepCall) -> StepResponse:
        in_flight.append(1)
        most.append(len(in_flight))
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        in_flight.pop()
        return pass_response()

    executor = CallbackExecutor(answer)
    async with nh.run(executor, sync_backend=sync_backend, max_concurrent_steps=2):
        threads = [
            threading.Thread(target=partial(copy_context().run, work_in_thread, number))
            for number in range(5)
        ]
        for thread in threads:
            thread.start()
        await nh.parallel.map(work, range(20))
        for thread in threads:
            await anyio.to_thread.run_sync(thread.join)
    assert len(executor.calls) == 25
    assert max(most) <= 2


async def test_a_run_inside_a_run_counts_its_own_steps() -> None:
    slow, inner = Slow(), ScriptedExecutor(default_response=pass_response())
    async with nh.run(slow.executor, max_concurrent_steps=1), nh.open_tasks(at_end="wait") as tasks:
        tasks.start(work, 0)
        await anyio.wait_all_tasks_blocked()
        async with nh.run(inner):
            await work(1)
        slow.gate.set()


def test_a_limit_holds_in_a_script_without_an_event_loop() -> None:
    executor = ScriptedExecutor(default_response=pass_response())
    with nh.run(executor, max_concurrent_steps=1):
        for number in range(3):
            work_in_thread(number)
    assert len(executor.calls) == 3


async def test_a_limit_on_steps_composes_with_the_limit_of_a_model() -> None:
    asked: list[int] = []
    most: list[int] = []

    async def reply(request: RecordedRequest) -> ModelReply:
        asked.append(1)
        most.append(len(asked))
        await anyio.wait_all_tasks_blocked()
        asked.pop()
        return ModelReply(tool_calls=(tool_call("nh_outcome", kind="pass"),))

    async with ModelServer(reply) as server:
        settings = {"base_url": server.base_url, "max_concurrent_requests": 2}
        executor = nh.AgentStepExecutor.from_configuration(
            configuration=nh.StepExecutorConfiguration(model="openai-chat:any", model_settings=settings)
        )
        async with nh.run(executor, max_concurrent_steps=4) as run:
            await nh.parallel.map(work, range(12), max_concurrent=6)
    assert run.usage_meter.steps == 12
    assert max(most) <= 2
