"""Runs with batches and uploads, cancelled wherever they wait, leave nothing at the provider."""

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.models import batch as batch_module
from nighthawk_async.testing import ModelReply, ModelServer, RecordedRequest
from tests.faults.cancellation_points import cancel_at
from tests.faults.test_batches import MODELS, batched_at, direct, double, doubled
from tests.faults.test_media_uploads import PDF, executor_at, read, titled

pytestmark = pytest.mark.anyio

MOST_POINTS = 200


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_module, "_FIRST_POLL_SECONDS", 0.001)


@pytest.mark.parametrize("model", MODELS)
async def test_a_run_that_is_cancelled_anywhere_leaves_no_batch_at_work(model: str) -> None:
    async def live() -> None:
        async with nh.run(direct(batched_at(server, model, max_requests=1))):
            assert await double(3) == 6

    async with ModelServer(doubled) as server:
        server.batches.polls_until_end = 2
        for point in range(1, MOST_POINTS):
            if not await cancel_at(point, live):
                break
            assert [each.state for each in server.batches.all if not each.is_ended] == []
        assert point > 5
        await server.wait_until_open(at_most=0)


@pytest.mark.parametrize("model", MODELS)
async def test_a_run_that_is_cancelled_at_any_of_its_requests_leaves_no_batch_at_work(
    model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with ModelServer(doubled) as server:
        server.batches.polls_until_end = 3
        usual = server._serve_beside
        left, scope = 0, anyio.CancelScope()

        async def serve(request: RecordedRequest) -> ModelReply | None:
            nonlocal left
            left -= 1
            if left == 0:
                scope.cancel()
            return await usual(request)

        monkeypatch.setattr(server, "_serve_beside", serve)
        for number in range(1, MOST_POINTS):
            left, scope = number, anyio.CancelScope()
            with scope:
                async with nh.run(direct(batched_at(server, model, max_requests=1))):
                    assert await double(3) == 6
            assert [each.id for each in server.batches.all if not each.is_ended] == []
            if left > 0:
                break
        assert number > 3


@pytest.mark.parametrize("model", MODELS)
async def test_a_step_that_is_cancelled_anywhere_leaves_no_batch_at_work(model: str) -> None:
    async def ask() -> None:
        assert await double(3) == 6

    async with ModelServer(doubled) as server:
        server.batches.polls_until_end = 2
        async with nh.run(direct(batched_at(server, model, max_requests=1))):
            for point in range(1, MOST_POINTS):
                if not await cancel_at(point, ask):
                    break
            assert point >= 3
            await ask()
        assert [each.state for each in server.batches.all if not each.is_ended] == []
        await server.wait_until_open(at_most=0)


@pytest.mark.parametrize("model", ["anthropic:tested", "google:tested"])
async def test_an_upload_that_is_cancelled_anywhere_keeps_no_later_step_from_it(model: str) -> None:
    async def ask() -> None:
        assert await read(PDF) == "Moby Dick"

    async with ModelServer(titled) as server:
        for point in range(1, MOST_POINTS):
            async with nh.run(executor_at(server, model)):
                is_reached = await cancel_at(point, ask)
                with anyio.fail_after(240):
                    await ask()
            if not is_reached:
                break
        assert point > 5
        # A file is left only when its upload was carried out, and the answer was not waited for.
        assert len(server.files.uploaded) - len(server.files.deleted) < point
        await server.wait_until_open(at_most=0)
