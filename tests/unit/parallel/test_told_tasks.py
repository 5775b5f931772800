"""What parallel calls and tasks tell whoever watches."""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from nighthawk_async import parallel
from nighthawk_async.observation import find_node_writer
from nighthawk_async.parallel.task_current import find_node
from tests.unit.observe.told_nodes import root

pytestmark = pytest.mark.anyio


async def half(number: int) -> int:
    """Half of an even number; begins something below itself."""
    around = find_node_writer()
    assert around is not None
    around.begin_child("step", "inner").end("completed")
    await anyio.lowlevel.checkpoint()
    if number % 2:
        raise ValueError(f"{number} is odd")
    return number // 2


async def run_map() -> object:
    """All calls return."""
    return await parallel.map(half, [2, 4])


async def run_settle() -> object:
    """One call fails."""
    return await parallel.settle(half, [2, 3])


async def run_stream() -> object:
    """All calls return."""
    async with parallel.stream(half, [2, 4], max_concurrent=1) as results:
        return [result async for result in results]


async def run_gather() -> object:
    """All awaitables return."""
    return await parallel.gather(half(2), half(4))


@pytest.mark.parametrize(
    ("run", "states"),
    [
        (run_map, ("completed", "completed")),
        (run_settle, ("completed", "failed")),
        (run_stream, ("completed", "completed")),
        (run_gather, ("completed", "completed")),
    ],
)
async def test_calls_are_tasks_of_their_group(
    run: Callable[[], Awaitable[object]], states: tuple[str, str]
) -> None:
    kind = run.__name__.removeprefix("run_")
    watched = root()
    with watched.watching():
        await run()
        assert find_node_writer() is watched
    group = watched.find("group")
    assert (group.name, group.state) == (f"parallel.{kind}", "completed")
    tasks = sorted(group.children, key=lambda task: task.name)
    assert [(task.kind, task.name, task.state) for task in tasks] == [
        ("task", f"{kind}[{index}]", state) for index, state in enumerate(states)
    ]
    assert [[child.name for child in task.children] for task in tasks] == [["inner"], ["inner"]]


async def test_a_call_has_its_item_and_what_came_of_it() -> None:
    watched = root()
    with watched.watching():
        await parallel.settle(half, [2, 3])
    first, second = sorted(watched.find("group").children, key=lambda task: task.name)
    assert (first.inputs, first.outputs, first.error) == ({"item": 2}, {"return": 1}, None)
    assert (second.inputs, str(second.error)) == ({"item": 3}, "3 is odd")


async def test_the_losers_of_a_race_and_what_a_failure_ends_are_cancelled() -> None:
    async def wait(number: int) -> int:
        if number:
            await anyio.wait_all_tasks_blocked()
            if number == 2:
                raise ValueError("two")
            return number
        await anyio.sleep_forever()
        return 0

    watched = root()
    with watched.watching():
        assert await parallel.race(wait, [0, 1]) == 1
        with pytest.raises(ValueError, match="two"):
            await parallel.map(wait, [0, 2])
    race, mapped = watched.children
    assert (race.state, {task.name: task.state for task in race.children}) == (
        "completed",
        {"race[0]": "cancelled", "race[1]": "completed"},
    )
    assert (mapped.state, {task.name: task.state for task in mapped.children}) == (
        "failed",
        {"map[0]": "cancelled", "map[1]": "failed"},
    )


async def test_a_stream_that_is_left_early_is_cancelled() -> None:
    watched = root()
    with watched.watching():
        async with parallel.stream(half, [2, 4, 6], max_concurrent=1) as results:
            assert await anext(results) == 1
    group = watched.find("group")
    assert group.state == "cancelled"
    assert all(task.state in ("completed", "cancelled") for task in group.children)


async def test_tasks_with_handles_wait_run_and_end() -> None:
    async def fail() -> None:
        raise ValueError("no")

    watched = root()
    with watched.watching():
        async with parallel.open_tasks("work") as tasks:
            good = tasks.start(half, 8)
            bad = tasks.start(fail)
            long = tasks.start(anyio.sleep_forever, name="long")
            assert watched.find("task", "half").state == "waiting"
            assert await good == 4
            with pytest.raises(ValueError, match="no"):
                await bad
            watched.find("task", "long").control.request_cancel("enough")
            with pytest.raises(parallel.TaskCancelledError, match="enough"):
                await long
            assert find_node_writer() is watched
    assert watched.draw() == [
        "group work: completed",
        "  task half: completed",
        "    step: completed",
        "  task fail: failed",
        "  task long: cancelled",
    ]
    half_node = watched.find("task", "half")
    assert half_node.states == ["waiting", "running", "completed"]
    assert (half_node.inputs, half_node.outputs) == ({"arguments": (8,)}, {"return": 4})
    assert str(half_node.attributes["nighthawk.task.id"]).endswith("work[0]/half[0]")
    assert "enough" in str(watched.find("task", "long").error)


async def test_a_block_of_tasks_that_an_error_leaves_has_failed() -> None:
    async def leave() -> None:
        async with parallel.open_tasks() as tasks:
            tasks.start(anyio.sleep_forever)
            raise ValueError("body")

    watched = root()
    with watched.watching(), pytest.raises(ValueError, match="body"):
        await leave()
    assert watched.draw() == ["group tasks: failed", "  task sleep_forever: cancelled"]


async def test_nothing_is_told_where_nobody_watches() -> None:
    async with parallel.open_tasks() as tasks:
        handle = tasks.start(anyio.lowlevel.checkpoint)
        await handle
    assert await parallel.map(_same, [1, 2]) == [1, 2]


async def _same(number: int) -> int:
    assert find_node_writer() is None
    return number


class Steerable:
    """Something in a task that can be controlled."""

    is_suspended = False

    def __init__(self) -> None:
        self.heard: list[str] = []

    def steer(self, *content: str) -> None:
        """Deliver content."""
        self.heard += content


async def test_a_task_can_be_steered_while_it_runs_something_that_can() -> None:
    first, second = anyio.Event(), anyio.Event()
    control: Any = Steerable()

    async def run() -> None:
        await first.wait()
        node = find_node()
        node.add_control(control)
        await second.wait()
        node.remove_control(control)
        await anyio.sleep_forever()

    watched = root()
    offers: list[bool] = []
    with watched.watching():
        async with parallel.open_tasks() as tasks:
            handle = tasks.start(run)
            task = watched.find("task")
            for event in (first, second, first):
                await anyio.wait_all_tasks_blocked()
                offers.append(hasattr(task.control, "steer"))
                if offers[-1]:
                    task.control.steer("hello")
                event.set()
            handle.cancel()
    assert offers == [False, True, False]
    assert control.heard == ["hello"]
