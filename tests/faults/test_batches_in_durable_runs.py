"""Batches of runs with a journal, in one process; `test_batch_kills` kills it."""

from pathlib import Path

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.errors import ModelStatusError
from nighthawk_async.models import batch as batch_module
from nighthawk_async.parallel import map as parallel_map
from nighthawk_async.testing import ModelServer, cassette
from tests.faults.test_batches import HALF, MODELS, batched_at, direct, double, doubled, failing

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_module, "_FIRST_POLL_SECONDS", 0.01)


@pytest.mark.parametrize("model", MODELS)
async def test_a_run_that_is_cancelled_leaves_its_batch_to_its_next_life(model: str, tmp_path: Path) -> None:
    with nh.journal.open(f"sqlite:///{tmp_path}/runs.db") as store:
        async with ModelServer(doubled) as server:
            executor = direct(batched_at(server, model, max_requests=3))
            server.batches.polls_until_end = None
            with anyio.CancelScope() as scope:
                async with nh.run(executor, journal=store, run_id="run-1") as run:
                    run.task_group.start_soon(_cancel_when_polled, server, scope)
                    await parallel_map(double, range(3))
            assert scope.cancelled_caught
            assert server.batches.all[0].state == "working"
            server.batches.polls_until_end = 1
            async with nh.run(executor, journal=store, run_id="run-1") as run:
                assert await parallel_map(double, range(3)) == [0, 2, 4]
            assert len(server.batches.all) == 1
            assert run.usage_meter.usage.cost == 3 * HALF


@pytest.mark.parametrize("layer", ["response cache", "cassette"])
async def test_a_batch_is_found_again_below_a_response_cache_and_below_a_cassette(
    layer: str, tmp_path: Path
) -> None:
    with nh.journal.open(f"sqlite:///{tmp_path}/runs.db") as store:
        async with ModelServer(doubled) as server:
            executor = direct(batched_at(server, max_requests=3))
            server.batches.polls_until_end = None
            for life in (1, 2):
                between = (
                    nh.resilience.cached()
                    if layer == "response cache"
                    else cassette(tmp_path / f"life-{life}.yaml", mode="all", keep_on_error=True)
                )
                with anyio.CancelScope() as scope:
                    async with between, nh.run(executor, journal=store, run_id="run-1") as run:
                        if life == 1:
                            run.task_group.start_soon(_cancel_when_polled, server, scope)
                        results = await parallel_map(double, range(3))
                assert scope.cancelled_caught == (life == 1)
                server.batches.polls_until_end = 1
            assert results == [0, 2, 4]
            assert len(server.batches.all) == 1
            assert run.usage_meter.usage.cost == 3 * HALF


async def _cancel_when_polled(server: ModelServer, scope: anyio.CancelScope) -> None:
    await server.batches.wait_until(lambda: server.batches.all and server.batches.all[0].polls > 0)
    scope.cancel()


async def test_a_batch_that_all_steps_have_left_is_cancelled_when_the_run_goes_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(batch_module, "_GRACE_SECONDS", 0.01)
    with nh.journal.open(f"sqlite:///{tmp_path}/runs.db") as store:
        async with ModelServer(doubled) as server:
            server.batches.polls_until_end = None
            async with nh.run(direct(batched_at(server, max_requests=1)), journal=store):
                with anyio.CancelScope() as scope:
                    async with anyio.create_task_group() as task_group:
                        task_group.start_soon(_cancel_when_polled, server, scope)
                        await double(1)
                await server.batches.wait_until(lambda: server.batches.all[0].state == "cancelled")


async def test_an_item_that_failed_is_asked_again_by_the_next_life_and_no_other(tmp_path: Path) -> None:
    with nh.journal.open(f"sqlite:///{tmp_path}/runs.db") as store:
        async with ModelServer(failing(1, 400)) as server:
            executor = direct(batched_at(server, max_requests=3, window_seconds=0.05))
            with pytest.raises(ModelStatusError):
                async with nh.run(executor, journal=store, run_id="run-1"):
                    await parallel_map(double, range(3))
            async with nh.run(executor, journal=store, run_id="run-1"):
                assert await parallel_map(double, range(3)) == [0, 2, 4]
            first, second = server.batches.all
            assert [len(first.requests), len(second.requests)] == [3, 1]


async def test_a_batch_that_the_provider_has_forgotten_is_submitted_again(tmp_path: Path) -> None:
    with nh.journal.open(f"sqlite:///{tmp_path}/runs.db") as store:
        for _ in range(2):  # another server, which knows nothing of the first one's batches
            async with ModelServer(doubled) as server:
                if not store.runs():
                    server.batches.polls_until_end = None
                with anyio.CancelScope() as scope:
                    async with nh.run(
                        direct(batched_at(server, max_requests=2)), journal=store, run_id="run-1"
                    ) as run:
                        if server.batches.polls_until_end is None:
                            run.task_group.start_soon(_cancel_when_polled, server, scope)
                        results = await parallel_map(double, range(2))
                assert len(server.batches.all) == 1
    assert results == [0, 2]


async def test_records_of_batches_are_no_obstacle_to_views_and_replays(tmp_path: Path) -> None:
    with nh.journal.open(f"sqlite:///{tmp_path}/runs.db") as store:
        async with ModelServer(failing(1, 503)) as server:
            executor = direct(batched_at(server, max_requests=1))
            async with nh.run(executor, journal=store, run_id="run-1"):
                assert await double(1) == 2
            assert len(server.batches.all) == 2
        kinds = [(each.place, each.kind) for each in store.records("run-1")]
        turn = "run/double()[0]/double#1[0]/turn[0]"
        assert [place for place, kind in kinds if kind == "value"] == [
            f"{turn}/batch[0]",
            f"{turn}/batch[0]/sent[0]",
            f"{turn}/batch[1]",
            f"{turn}/batch[1]/sent[0]",
        ]
        shown = nh.observe.view_as_text(store.tree("run-1").snapshot())
        assert "double" in shown
        assert "batch" not in shown
        async with nh.journal.replay(store, "run-1"), nh.run(executor, journal=store, run_id="run-1"):
            assert await double(1) == 2
