"""Waits between attempts, which a later life skips as far as the earlier one came."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

import nighthawk_async as nh
from nighthawk_async.errors import ModelStatusError
from nighthawk_async.resilience import Baseline, retrying

from .durable_runs import live, opened, shout
from .test_errors_in_lives import FailingModel

pytestmark = pytest.mark.anyio

FOR_EVER = 1_000_000.0


@contextmanager
def busy(model: FailingModel) -> Iterator[None]:
    """Let the first request fail."""
    model.failures["cup"] = ModelStatusError("busy", status=503, is_transient=True)
    yield
    model.failures.clear()


async def test_the_waits_of_a_baseline_are_skipped(tmp_path: Path) -> None:
    model = FailingModel()

    async def program(wait: float) -> str:
        baseline = Baseline(retries=retrying(wait=wait, on_retry=lambda retry: model.failures.clear()))
        with nh.scope(resilience=baseline):
            return await shout("cup")

    with opened(tmp_path) as store, busy(model):
        assert await live(store, model, lambda: program(0)) == "CUP"
        with anyio.fail_after(240):
            assert await live(store, model, lambda: program(FOR_EVER)) == "CUP"
    assert len(model.prompts) == 2


@pytest.mark.parametrize("is_async", [True, False])
async def test_the_waits_of_a_retried_function_are_skipped(tmp_path: Path, is_async: bool) -> None:
    model = FailingModel()
    calls: list[int] = []

    @nh.natural_function
    def shout_now(word: str) -> str:
        loud: str
        """natural
        Set <:loud> to <word> in capitals.
        """
        return loud

    def life(wait: float) -> str:
        retried = retrying(shout_now, wait=wait, on_retry=lambda retry: model.failures.clear())
        with nh.run(nh.AgentStepExecutor.from_model(model), journal=store, run_id="run-1"):
            return retried("cup")

    async def program(wait: float) -> str:
        return await retrying(shout, wait=wait, on_retry=lambda retry: model.failures.clear())("cup")

    with opened(tmp_path) as store, busy(model):
        for wait in (0.0, FOR_EVER):
            with anyio.fail_after(240):
                if is_async:
                    result = await live(store, model, lambda: program(wait))  # noqa: B023
                else:
                    result = await anyio.to_thread.run_sync(life, wait, abandon_on_cancel=True)
            assert result == "CUP"
            calls.append(len(model.prompts))
    assert calls == [2, 2]
