"""Responses that the program did not read to their end: what is kept of them, and how they are replayed."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import anyio
import pytest

from nighthawk_async.agent.model_call import open_stream
from nighthawk_async.testing import CassetteMissError, cassette
from nighthawk_async.types.model import (
    ModelCapabilities,
    ModelEvent,
    ModelRequest,
    ResponseFinished,
    TextDelta,
)

from .cassette_support import ask, collect, content_of, request_of

pytestmark = pytest.mark.anyio


class SlowModel:
    """Says a word and then nothing for an hour; asked for something fast, it answers at once."""

    name = "slow:model"
    capabilities = ModelCapabilities()

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[ModelEvent], None]:
        async with aclosing(self._events(is_fast="fast" in str(request.messages))) as events:
            yield events

    async def _events(self, *, is_fast: bool) -> AsyncGenerator[ModelEvent, None]:
        yield TextDelta(text="Well")
        if not is_fast:
            await anyio.sleep(3_600)
        yield ResponseFinished(reason="stop")


class NoSlowModel(SlowModel):
    """Must not be asked."""

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[ModelEvent], None]:
        raise AssertionError("it was asked")
        yield


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tape.yaml"


async def race(model: SlowModel) -> list[str]:
    """Ask twice; the first answer cancels the other. Gives what came of both."""
    seen: list[str] = []

    async def compete(question: str) -> None:
        async with open_stream(model, request_of(question)) as events:
            async for event in events:
                seen.append(f"{question}: {type(event).__name__}")
        tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(compete, "slow")
        tasks.start_soon(compete, "fast")
    return sorted(seen)


async def test_the_loser_of_a_race_loses_again(path: Path) -> None:
    with cassette(path) as tape:
        first = await race(SlowModel())
    assert tape.recorded == 2
    with cassette(path) as tape:
        assert await race(NoSlowModel()) == first
    assert tape.unused == ()
    assert "cancelled_after_seconds" in content_of(path)


@pytest.mark.virtual_time
async def test_a_time_limit_is_reached_again(path: Path) -> None:
    for model in (SlowModel(), NoSlowModel()):
        with cassette(path), anyio.move_on_after(20) as scope:
            await ask(model, "slow")
        assert scope.cancelled_caught
    assert "cancelled_after_seconds: 20.0" in content_of(path)


@pytest.mark.virtual_time
async def test_a_program_that_no_longer_cancels_is_told_so_and_does_not_hang(path: Path) -> None:
    with cassette(path), anyio.move_on_after(20):
        await ask(SlowModel(), "slow")
    began = anyio.current_time()
    with pytest.raises(CassetteMissError, match="was cancelled when it was recorded"), cassette(path):
        await ask(NoSlowModel(), "slow")
    assert anyio.current_time() - began == pytest.approx(50)


@pytest.mark.virtual_time
async def test_a_request_that_was_cancelled_before_any_event_waits_on_entering(path: Path) -> None:
    class Silent(SlowModel):
        @asynccontextmanager
        async def stream(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[ModelEvent], None]:
            await anyio.sleep(3_600)
            yield self._events(is_fast=True)

    for model in (Silent(), NoSlowModel()):
        with cassette(path), anyio.move_on_after(20) as scope:
            async with open_stream(model, request_of("slow")):
                raise AssertionError("there is no response")
        assert scope.cancelled_caught


async def test_a_response_that_was_left_early_can_be_left_early_again(path: Path) -> None:
    for model in (SlowModel(), NoSlowModel()):
        with cassette(path):
            async with open_stream(model, request_of("slow")) as events:
                assert await anext(events) == TextDelta(text="Well")
    assert "left_early: true" in content_of(path)
    with pytest.raises(CassetteMissError, match="was left before its end"), cassette(path):
        await collect(NoSlowModel(), "slow")


async def test_a_response_that_was_not_read_at_all_can_be_opened_again(path: Path) -> None:
    for model in (SlowModel(), NoSlowModel()):
        with cassette(path) as tape:
            async with open_stream(model, request_of("slow")):
                pass
    assert tape.replayed == 1


async def test_a_response_whose_last_event_came_is_whole_whatever_happens_then(path: Path) -> None:
    for model in (SlowModel(), NoSlowModel()):
        with cassette(path), anyio.CancelScope() as scope:
            async with open_stream(model, request_of("fast")) as events:
                async for event in events:
                    if isinstance(event, ResponseFinished):
                        scope.cancel()
                        await anyio.sleep(1)
    assert not {"left_early", "cancelled"} & set(content_of(path).split())
    with cassette(path):
        assert len(await collect(NoSlowModel(), "fast")) == 2


async def test_a_failure_of_the_program_while_it_reads_is_its_own(path: Path) -> None:
    async def read_and_fail() -> None:
        async with open_stream(SlowModel(), request_of("slow")) as events:
            await anext(events)
            raise ZeroDivisionError

    with cassette(path), pytest.raises(ZeroDivisionError):
        await read_and_fail()
    assert "left_early: true" in content_of(path)
    assert "error" not in content_of(path)


async def test_replaying_is_cancellable_at_every_event(path: Path) -> None:
    with cassette(path):
        await ask(SlowModel(), "fast")
    with cassette(path), anyio.CancelScope() as scope:
        scope.cancel()
        await ask(NoSlowModel(), "fast")
        raise AssertionError("it was cancelled")
    assert scope.cancelled_caught
