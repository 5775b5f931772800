"""What every placement does: this event loop, worker processes, and workers on Ray."""

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic import SecretStr

import nighthawk_async as nh
from nighthawk_async import parallel
from nighthawk_async.actors import Pool
from nighthawk_async.distributed import CrossingError, Processes, RayWorkers
from tests.worker_functions import (
    Key,
    TooBigError,
    double,
    double_in_thread,
    keep,
    make_event,
    small_only,
    tenant_and_deadline,
    wait_for_ever,
)

pytestmark = pytest.mark.anyio

PLACEMENTS: dict[str, Callable[[], AbstractAsyncContextManager[parallel.Placement]]] = {
    "here": parallel.Here,
    "processes": lambda: Processes(2),
    "ray": lambda: RayWorkers(2, num_cpus=0),
}


@pytest.fixture(scope="module", params=PLACEMENTS)
def make_placement(request: pytest.FixtureRequest) -> Callable[[], AbstractAsyncContextManager[Any]]:
    if request.param == "ray":
        request.getfixturevalue("ray_address")
    return PLACEMENTS[request.param]


@pytest.fixture(scope="module")
async def placement(
    anyio_backend: object, make_placement: Callable[[], AbstractAsyncContextManager[parallel.Placement]]
) -> AsyncGenerator[parallel.Placement, None]:
    async with make_placement() as placement:
        yield placement


async def eventually(path: Path) -> None:
    """Wait for what another process does, which nothing here can signal."""
    with anyio.fail_after(240):
        while not await anyio.Path(path).exists():  # noqa: ASYNC110
            await anyio.sleep(0.005)


@pytest.mark.parametrize("function", [double, double_in_thread], ids=lambda each: each.__name__)
async def test_results_are_in_the_order_of_the_items(placement: parallel.Placement, function: Any) -> None:
    assert await parallel.map(function, range(20), on=placement) == [2 * each for each in range(20)]


async def test_a_value_crosses_with_everything_that_it_holds(placement: parallel.Placement) -> None:
    row = [1]
    key = Key(theToken=SecretStr("sk-1"), lines=[row])
    key.lines.append(key.lines[0])
    key._note = "private"
    (kept,) = await parallel.map(keep, [key], on=placement)
    assert kept == key
    assert kept.token.get_secret_value() == "sk-1"
    assert (kept._note, kept.model_fields_set) == ("private", {"token", "lines"})
    assert kept.lines[0] is kept.lines[1]


async def test_a_result_that_cannot_cross_is_refused_before_the_call(placement: parallel.Placement) -> None:
    if isinstance(placement, parallel.Here):
        pytest.skip("nothing crosses")
    with pytest.raises(CrossingError, match=r"the result of .*make_event.*Event"):
        await parallel.map(make_event, [1], on=placement)


async def test_an_error_arrives_as_it_was_raised(placement: parallel.Placement) -> None:
    with pytest.raises(TooBigError, match="10 is too big") as caught:
        await parallel.map(small_only, range(20), max_concurrent=1, on=placement)
    assert caught.value.number == 10


async def test_failures_are_outcomes_of_settle(placement: parallel.Placement) -> None:
    settled = await parallel.settle(small_only, [1, 10, 2], on=placement)
    assert [type(each).__name__ for each in settled.outcomes] == ["Succeeded", "Failed", "Succeeded"]


async def test_results_stream(placement: parallel.Placement) -> None:
    async with parallel.stream(double, range(5), on=placement) as results:
        assert sorted([each async for each in results]) == [0, 2, 4, 6, 8]


async def test_the_first_result_wins_a_race(placement: parallel.Placement) -> None:
    assert await parallel.race(double, [4], on=placement) == 8


async def test_a_pool_and_tasks_use_it(placement: parallel.Placement) -> None:
    async with Pool(max_concurrent=2, placement=placement) as pool:
        handle = await pool.submit(double, 3)
        assert await handle == 6
    async with nh.open_tasks(on=placement) as tasks:
        assert await tasks.start(double, 4) == 8


async def test_a_cancellation_reaches_the_call(placement: parallel.Placement, tmp_path: Path) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(parallel.call_placed, placement, wait_for_ever, str(tmp_path))
        await eventually(tmp_path / "begun")
        group.cancel_scope.cancel()
    assert (tmp_path / "cleaned").exists()
    assert await parallel.map(double, [1], on=placement) == [2]


async def test_a_cancellation_of_the_whole_block_reaches_the_call(
    make_placement: Callable[[], AbstractAsyncContextManager[parallel.Placement]], tmp_path: Path
) -> None:
    async def call() -> None:
        async with make_placement() as placement:
            await parallel.call_placed(placement, wait_for_ever, str(tmp_path))

    async with anyio.create_task_group() as group:
        group.start_soon(call)
        await eventually(tmp_path / "begun")
        group.cancel_scope.cancel()
    assert (tmp_path / "cleaned").exists()


async def test_values_and_the_deadline_of_the_caller_flow_in(placement: parallel.Placement) -> None:
    nh.parallel.task_values().set("tenant", "acme")
    with anyio.fail_after(300):
        ((tenant, seconds),) = await parallel.map(tenant_and_deadline, [0], on=placement)
    assert tenant == "acme"
    assert 0 < seconds <= 300


async def test_a_placement_is_entered_once(placement: parallel.Placement) -> None:
    with pytest.raises(parallel.PlacementClosedError):
        await placement.__aenter__()  # type: ignore[attr-defined]


async def test_a_placement_that_was_left_starts_nothing(
    make_placement: Callable[[], AbstractAsyncContextManager[parallel.Placement]],
) -> None:
    async with make_placement() as placement:
        pass
    with pytest.raises(parallel.PlacementClosedError):
        await parallel.map(double, [1], on=placement)
