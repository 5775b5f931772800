"""Steering, suspending and stopping what a task runs, from its handle."""

from collections.abc import Callable
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from nighthawk_async.parallel import (
    AlreadyResumedError,
    NothingToControlError,
    NotSuspendedError,
    TaskCancelledError,
    TaskEndedError,
    TaskError,
    TaskHandle,
    cancel_requested,
    open_tasks,
)
from nighthawk_async.parallel.task_current import Parking, controlled_by
from nighthawk_async.parallel.task_node import TaskNode

pytestmark = pytest.mark.anyio


class Loop:
    """Something that runs turn after turn and can be controlled, as a step can."""

    def __init__(self) -> None:
        self.turns: list[object] = []
        self.steered: list[object] = []
        self.asked_to_end: list[str | None] = []
        self.stop_reason: str | None = None
        self.in_turn = anyio.Event()
        self.next_turn = anyio.Event()
        self._inputs: list[object] = []
        self._parking = Parking("loop")
        self.steer: Callable[..., None] = lambda *content: self.steered.extend(content)
        self.suspend = self._parking.suspend
        self.wait_suspended = self._parking.wait_suspended

    @property
    def is_suspended(self) -> bool:
        return self._parking.is_suspended

    def resume(self, input: object = None) -> None:
        self._parking.resume()
        self._inputs += [] if input is None else [input]

    async def snapshot(self) -> object:
        return tuple(self.turns)

    def stop(self, reason: str) -> None:
        self.stop_reason = reason

    def request_cancel(self, reason: str | None) -> None:
        self.asked_to_end.append(reason)
        self._parking.release()

    def go_on(self) -> None:
        """Let the turn in progress end."""
        self.next_turn.set()

    async def run(self, turns: int = 1_000) -> str:
        try:
            with controlled_by(self):
                return await self._run_turns(turns)
        finally:
            self._parking.close()

    async def _run_turns(self, turns: int) -> str:
        for _ in range(turns):
            await self._parking.park()
            if self.stop_reason is not None:
                raise RuntimeError(self.stop_reason)
            if cancel_requested():
                return "asked to end"
            self.turns.append(tuple(self._inputs))
            self._inputs.clear()
            self.in_turn.set()
            await self.next_turn.wait()
            self.next_turn = anyio.Event()
        return "done"


async def turn(loop: Loop) -> None:
    """Let one turn end, and whatever follows happen."""
    loop.go_on()
    await anyio.wait_all_tasks_blocked()


async def test_what_a_task_runs_parks_at_its_next_boundary_and_goes_on_with_the_input() -> None:
    loop = Loop()
    async with open_tasks() as tasks:
        handle = tasks.start(loop.run)
        await loop.in_turn.wait()
        handle.suspend()
        assert handle.status == "running"
        handle.suspend()
        await turn(loop)
        assert handle.status == "suspended"
        handle.suspend()
        await handle.wait_suspended()
        assert await handle.snapshot() == ((),)
        handle.resume("go on")
        await anyio.wait_all_tasks_blocked()
        assert handle.status == "running"
        assert loop.turns == [(), ("go on",)]
        await turn(loop)
        assert loop.turns == [(), ("go on",), ()]
        handle.cancel()


async def test_what_is_resumed_without_an_input_goes_on_without_one() -> None:
    loop = Loop()
    async with open_tasks() as tasks:
        handle = tasks.start(loop.run)
        await loop.in_turn.wait()
        handle.suspend()
        await turn(loop)
        handle.resume()
        await anyio.wait_all_tasks_blocked()
        assert loop.turns == [(), ()]
        handle.cancel()


async def test_resuming_what_runs_is_an_error() -> None:
    loop = Loop()
    async with open_tasks() as tasks:
        handle = tasks.start(loop.run)
        await loop.in_turn.wait()
        with pytest.raises(NotSuspendedError, match="the loop is not suspended"):
            handle.resume()
        handle.cancel()


async def test_of_two_that_resume_at_once_the_second_is_told() -> None:
    loop = Loop()
    async with open_tasks() as tasks:
        handle = tasks.start(loop.run)
        await loop.in_turn.wait()
        handle.suspend()
        await turn(loop)
        handle.resume("first")
        with pytest.raises(AlreadyResumedError, match="was resumed already"):
            handle.resume("second")
        await anyio.wait_all_tasks_blocked()
        assert loop.turns[1:] == [("first",)]
        handle.cancel()


async def test_a_suspension_can_be_taken_back_before_the_boundary() -> None:
    loop = Loop()
    async with open_tasks() as tasks:
        handle = tasks.start(loop.run)
        await loop.in_turn.wait()
        handle.suspend()
        handle.resume("never parked")
        with pytest.raises(AlreadyResumedError):
            handle.resume()
        await turn(loop)
        assert handle.status == "running"
        assert loop.turns[1:] == [("never parked",)]
        handle.cancel()


async def test_no_input_is_lost_when_it_is_suspended_again_at_once() -> None:
    loop = Loop()
    async with open_tasks() as tasks:
        handle = tasks.start(loop.run)
        await loop.in_turn.wait()
        handle.suspend()
        await turn(loop)
        handle.resume("first")
        handle.suspend()
        await anyio.wait_all_tasks_blocked()
        assert handle.status == "suspended"
        handle.resume("second")
        await anyio.wait_all_tasks_blocked()
        assert loop.turns[1:] == [("first", "second")]
        handle.cancel()


async def test_what_is_suspended_is_cancelled_where_it_stands() -> None:
    loop = Loop()
    async with open_tasks() as tasks:
        handle = tasks.start(loop.run)
        await loop.in_turn.wait()
        handle.suspend()
        await turn(loop)
        handle.cancel("enough")
        with pytest.raises(TaskCancelledError, match="enough"):
            await handle
    assert loop.turns == [()]


async def test_what_is_suspended_ends_by_itself_when_asked_gracefully() -> None:
    loop = Loop()
    async with open_tasks() as tasks:
        handle = tasks.start(loop.run)
        await loop.in_turn.wait()
        handle.suspend()
        await turn(loop)
        assert await handle.cancel_gracefully(float("inf"), "enough") == "completed"
        assert await handle == "asked to end"
    assert loop.asked_to_end == ["enough"]


async def test_what_begins_in_a_task_that_was_asked_to_end_is_told() -> None:
    loop = Loop()
    go = anyio.Event()

    async def run_later() -> str:
        await go.wait()
        return await loop.run()

    async with open_tasks() as tasks, anyio.create_task_group() as task_group:
        handle = tasks.start(run_later)
        await anyio.wait_all_tasks_blocked()
        task_group.start_soon(handle.cancel_gracefully, float("inf"), "enough")
        await anyio.wait_all_tasks_blocked()
        go.set()
        assert await handle == "asked to end"
    assert loop.asked_to_end == ["enough"]


async def test_content_and_the_wish_to_stop_reach_what_runs() -> None:
    loop = Loop()
    async with open_tasks() as tasks:
        handle = tasks.start(loop.run)
        await loop.in_turn.wait()
        handle.steer("look", 1)
        handle.steer("there")
        handle.stop("wrong way")
        loop.go_on()
        with pytest.raises(RuntimeError, match="wrong way"):
            await handle
    assert loop.steered == ["look", 1, "there"]


async def test_the_innermost_of_what_runs_is_controlled() -> None:
    outer, inner = Loop(), Loop()

    async def run_both() -> None:
        with controlled_by(outer):
            await inner.run(1)
            go = anyio.Event()
            ends.append(go)
            await go.wait()

    ends: list[anyio.Event] = []
    async with open_tasks() as tasks:
        handle = tasks.start(run_both)
        await inner.in_turn.wait()
        handle.steer("inner")
        await turn(inner)
        handle.steer("outer")
        ends[0].set()
    assert [inner.steered, outer.steered] == [["inner"], ["outer"]]


async def test_a_part_that_ends_before_another_takes_its_own_control_away() -> None:
    first, second = Loop(), Loop()
    async with open_tasks() as tasks:

        async def run_both() -> None:
            async with anyio.create_task_group() as task_group:
                task_group.start_soon(first.run, 1)
                await first.in_turn.wait()
                task_group.start_soon(second.run, 1)

        handle = tasks.start(run_both)
        await second.in_turn.wait()
        await turn(first)
        handle.steer("second")
        second.go_on()
    assert second.steered == ["second"]


async def test_waiting_for_a_suspension_ends_with_what_should_be_suspended() -> None:
    loop = Loop()
    told: list[str] = []

    async def wait_for(handle: TaskHandle[str]) -> None:
        try:
            await handle.wait_suspended()
        except TaskEndedError as error:
            told.append(str(error))

    async with anyio.create_task_group() as task_group, open_tasks() as tasks:
        handle = tasks.start(loop.run, 1)
        await loop.in_turn.wait()
        task_group.start_soon(wait_for, handle)
        await anyio.wait_all_tasks_blocked()
        loop.go_on()
    assert told == ["the loop has ended"]


def _calls(handle: TaskHandle[Any]) -> dict[str, Callable[[], object]]:
    return {
        "steer": lambda: handle.steer("content"),
        "suspend": handle.suspend,
        "resume": handle.resume,
        "stop": lambda: handle.stop("reason"),
    }


@pytest.mark.parametrize("call", ["steer", "suspend", "resume", "stop"])
async def test_a_task_that_runs_nothing_of_the_kind_cannot_be_controlled(call: str) -> None:
    async with open_tasks() as tasks:
        handle = tasks.start(anyio.sleep_forever)
        for _ in range(2):  # pending, then running
            with pytest.raises(NothingToControlError, match="runs nothing at present"):
                _calls(handle)[call]()
            await anyio.wait_all_tasks_blocked()
        handle.cancel()


@pytest.mark.parametrize("call", ["steer", "suspend", "resume", "stop"])
async def test_a_task_that_has_ended_cannot_be_controlled(call: str) -> None:
    loop = Loop()
    loop.go_on()
    async with open_tasks() as tasks:
        handle = tasks.start(loop.run, 1)
        assert await handle == "done"
    with pytest.raises(TaskEndedError, match="has ended: it is completed"):
        _calls(handle)[call]()
    with pytest.raises(TaskEndedError, match="has ended"):
        await handle.snapshot()
    with pytest.raises(TaskEndedError, match="has ended"):
        await handle.wait_suspended()


async def test_everyone_who_waits_for_a_suspension_hears_of_it_though_one_resumes_at_once() -> None:
    place = Parking("step")
    heard: list[int] = []

    async def wait_and_resume(number: int) -> None:
        await place.wait_suspended()
        heard.append(number)
        if place.is_suspended:
            place.resume()

    place.suspend()
    async with anyio.create_task_group() as task_group:
        for number in range(3):
            task_group.start_soon(wait_and_resume, number)
        await anyio.wait_all_tasks_blocked()
        with anyio.fail_after(240):
            await place.park()
        place.close()
    assert sorted(heard) == [0, 1, 2]


async def test_who_waits_for_a_suspension_that_ends_at_once_hears_of_it() -> None:
    place = Parking("step")
    waits = anyio.Event()

    async def wait_suspended() -> None:
        waits.set()
        await place.wait_suspended()

    async with anyio.create_task_group() as task_group:
        place.suspend()
        task_group.start_soon(place.park)
        await anyio.wait_all_tasks_blocked()
        with anyio.fail_after(240):
            async with anyio.create_task_group() as waiting:
                waiting.start_soon(wait_suspended)
                await waits.wait()
                place.resume()


async def test_a_suspension_that_is_over_is_not_the_next_one() -> None:
    place = Parking("step")
    async with anyio.create_task_group() as task_group:
        place.suspend()
        task_group.start_soon(place.park)
        await place.wait_suspended()
        place.resume()
        await anyio.wait_all_tasks_blocked()
        with anyio.move_on_after(0.01) as scope:
            await place.wait_suspended()
        assert scope.cancelled_caught


async def test_a_place_that_is_closed_takes_no_wishes() -> None:
    place = Parking("step")
    place.suspend()
    place.close()
    place.close()
    place.release()
    for call in (place.suspend, place.resume):
        with pytest.raises(TaskEndedError, match="the step has ended"):
            call()
    with pytest.raises(TaskEndedError):
        await place.park()
    assert place.state == "ended"


async def test_after_a_release_nothing_parks_any_more() -> None:
    place = Parking("step")
    place.suspend()
    place.release()
    await place.park()
    place.suspend()
    await place.park()
    assert place.state == "running"


async def test_after_a_cancelled_wait_at_the_boundary_it_can_be_suspended_again() -> None:
    place = Parking("step")
    place.suspend()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await place.park()
    assert place.state == "running"
    place.suspend()
    assert place.state == "suspending"
    place.resume()
    await place.park()
    assert place.state == "running"


async def test_one_thing_controls_a_task_once_at_a_time() -> None:
    loop = Loop()
    for _ in range(2):
        with controlled_by(loop):
            with pytest.raises(TaskError, match=r"is controlled by .* already"), controlled_by(loop):
                pass
            with controlled_by(Loop()):
                pass


async def test_what_controls_a_task_is_told_apart_by_identity_and_may_end_in_any_order() -> None:
    loops = [Uncomparable() for _ in range(3)]
    node = TaskNode(id="run", name="run", parent=None, owner=None)
    for loop in loops:
        node.add_control(loop)
    for loop in reversed(loops[1:]):
        node.remove_control(loop)
    assert node.control is loops[0]
    node.remove_control(loops[0])
    assert node.control is None


class Uncomparable(Loop):
    """What neither can be compared nor has a hash."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise NotImplementedError


async def test_waiting_until_a_task_is_suspended_begins_before_its_first_work() -> None:
    loop = Loop()

    async def suspend_and_go_on() -> None:
        await handle.wait_suspended()
        handle.resume()
        await anyio.wait_all_tasks_blocked()
        loop.go_on()

    async with open_tasks() as tasks, anyio.create_task_group() as waiting:
        handle = tasks.start(loop.run, 2)
        waiting.start_soon(suspend_and_go_on)
        await loop.in_turn.wait()
        handle.suspend()
        loop.go_on()
        assert await handle == "done"
    async with open_tasks() as tasks:
        handle = tasks.start(checkpoint)
        with pytest.raises(TaskEndedError, match="has ended: it is completed"):
            await handle.wait_suspended()
