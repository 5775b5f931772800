"""Errors that the program handled are raised again in later lives; what ended a life is asked again."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.errors import ModelError, ModelStatusError
from nighthawk_async.journal import JournalDivergenceError

from .durable_runs import live, opened, places, shout
from .test_errors_in_lives import CrashError, FailingModel

pytestmark = pytest.mark.anyio


async def safe(word: str) -> str:
    """Shout a word, or say that it failed, without recording anything of it."""
    try:
        return await shout(word)
    except ModelStatusError:
        return f"no {word}"


async def in_task() -> str:
    async with nh.open_tasks() as tasks:
        result = await tasks.start(safe, "cup")
        await shout("end")
        raise_if_crashing()
        return result


async def in_whole_block() -> str:
    async with nh.open_tasks(at_end="wait") as tasks:
        handle = tasks.start(safe, "cup")
    await shout("end")
    raise_if_crashing()
    return await handle


async def in_owner_of_a_task() -> str:
    async with nh.open_tasks() as tasks:
        handle = tasks.start(shout, "cup")
        try:
            result = await handle
        except ModelStatusError:
            result = "no cup"
        await shout("end")
        raise_if_crashing()
    return result


@nh.natural_function
async def collect() -> str:
    """Await a task, and do more only if it did not fail."""
    result: str = "no cup"
    async with nh.open_tasks() as tasks:
        handle = tasks.start(shout, "cup")
        try:
            result = await handle
        except ModelStatusError:
            return result
    """natural
    Set <:result> to <result> in capitals.
    """
    return result


async def in_function_that_awaits_a_task() -> str:
    result = await collect()
    raise_if_crashing()
    return result


async def in_item_of_a_stream() -> str:
    async with nh.parallel.stream(safe, ["cup"]) as results:
        async for result in results:
            await shout("end")
            raise_if_crashing()
            return result
    raise AssertionError


async def in_item_of_a_map_that_goes_on() -> str:
    async def one(word: str) -> str:
        result = await safe(word)
        if word == "vase":
            raise_if_crashing()
        return result

    return (await nh.parallel.map(one, ["cup", "vase"], max_concurrent=1))[0]


async def in_settle() -> str:
    settled = await nh.parallel.settle(shout, ["cup"])
    raise_if_crashing()
    return "no cup" if settled.failed else "CUP"


async def in_race() -> str:
    won = await nh.parallel.race(shout, ["cup", "vase"], max_concurrent=1)
    raise_if_crashing()
    return "no cup" if won == "VASE" else won


async def in_task_that_was_started_by_hand() -> str:
    results: list[str] = []

    async def one() -> None:
        results.append(await safe("cup"))
        await shout("end")
        raise_if_crashing()

    async with anyio.create_task_group() as group:
        group.start_soon(one)
    return results[0]


class _Crashing:
    is_on = False


def raise_if_crashing() -> None:
    if _Crashing.is_on:
        raise CrashError


@pytest.mark.parametrize(
    "program",
    [
        in_task,
        in_whole_block,
        in_owner_of_a_task,
        in_function_that_awaits_a_task,
        in_item_of_a_stream,
        in_item_of_a_map_that_goes_on,
        in_settle,
        in_race,
        in_task_that_was_started_by_hand,
    ],
)
async def test_an_error_that_was_handled_is_raised_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: Callable[[], Awaitable[str]]
) -> None:
    model = FailingModel()
    with opened(tmp_path) as store:
        monkeypatch.setattr(_Crashing, "is_on", True)
        model.failures["cup"] = ModelStatusError("busy", status=503, is_transient=True)
        await _crash(store, model, program)
        asked = len(model.prompts)
        model.failures.clear()  # asked again, the model would answer
        monkeypatch.setattr(_Crashing, "is_on", False)
        for _ in range(2):
            assert await live(store, model, program) == "no cup"
    assert len(model.prompts) == asked


async def _crash(store: nh.journal.JournalStore, model: Any, program: Callable[[], Awaitable[Any]]) -> None:
    with pytest.raises((CrashError, ExceptionGroup)) as caught:
        await live(store, model, program)
    assert isinstance(caught.value, CrashError) or caught.group_contains(CrashError)


async def test_an_error_that_only_cleanup_follows_is_asked_again(tmp_path: Path) -> None:
    model = FailingModel()
    cleaned: list[str] = []

    @nh.once
    async def clean() -> None:
        cleaned.append("clean")

    async def program() -> tuple[list[str], str]:
        try:
            words = await nh.parallel.map(shout, ["lamp", "cup"])
        finally:
            await clean()
        return words, await shout("end")

    with opened(tmp_path) as store:
        model.failures["cup"] = ModelStatusError("busy", status=503, is_transient=True)
        with pytest.raises(ModelStatusError):
            await live(store, model, program)
        model.failures.clear()
        for _ in range(2):
            assert await live(store, model, program) == (["LAMP", "CUP"], "END")
    assert cleaned == ["clean"]


async def test_work_for_an_error_that_ended_a_life_is_not_missed_in_a_later_one(tmp_path: Path) -> None:
    model = FailingModel()

    async def program() -> str:
        try:
            return await shout("cup")
        except ModelError as error:
            await shout("sorry")
            raise ValueError("no cup") from error

    with opened(tmp_path) as store:
        model.failures["cup"] = ModelStatusError("busy", status=503, is_transient=True)
        with pytest.raises(ValueError, match="no cup"):
            await live(store, model, program)
        model.failures.clear()
        for _ in range(2):
            assert await live(store, model, program) == "CUP"


async def test_a_life_that_ends_with_a_replayed_error_lets_the_next_one_ask(tmp_path: Path) -> None:
    model = FailingModel()
    is_crashing = [True]

    async def program() -> str:
        try:
            return await shout("cup")
        finally:
            await shout("end")
            if is_crashing[0]:
                raise CrashError

    with opened(tmp_path) as store:
        model.failures["cup"] = ModelStatusError("busy", status=503, is_transient=True)
        with pytest.raises(CrashError):
            await live(store, model, program)
        model.failures.clear()
        is_crashing.clear()
        is_crashing.append(False)
        with pytest.raises(ModelStatusError):  # nobody knew yet that it would end a life
            await live(store, model, program)
        assert await live(store, model, program) == "CUP"
        assert places(store, "unhandled") == ["run/shout()[0]/shout#1[0]/turn[0]/failed[1]"]


async def test_an_error_of_an_earlier_life_gives_way_to_the_success_of_a_later_one(tmp_path: Path) -> None:
    model = FailingModel()
    is_crashing = [True]

    async def program() -> tuple[str, str]:
        result = await safe("cup")
        if is_crashing[0]:
            raise CrashError  # nothing was recorded after the error
        return result, await shout("end")

    with opened(tmp_path) as store:
        model.failures["cup"] = ModelStatusError("busy", status=503, is_transient=True)
        with pytest.raises(CrashError):
            await live(store, model, program)
        model.failures.clear()
        with pytest.raises(CrashError):
            await live(store, model, program)
        model.failures["cup"] = ModelStatusError("busy", status=503, is_transient=True)
        is_crashing[0] = False
        for _ in range(2):
            assert await live(store, model, program) == ("CUP", "END")


async def test_attempts_that_failed_are_not_made_again_and_the_last_one_is(tmp_path: Path) -> None:
    model = FailingModel()

    @nh.resilience.retrying(attempts=3, wait=0)
    async def persistent() -> str:
        return await shout("cup")

    with opened(tmp_path) as store:
        model.failures["cup"] = ModelStatusError("busy", status=503, is_transient=True)
        with pytest.raises(ModelStatusError):
            await live(store, model, persistent)
        assert len(model.prompts) == 3
        model.failures.clear()
        for _ in range(2):
            assert await live(store, model, persistent) == "CUP"
    assert len(model.prompts) == 4


async def test_a_vote_that_failed_is_taken_anew(tmp_path: Path) -> None:
    model = FailingModel()

    @nh.resilience.vote(count=3)
    async def poll() -> str:
        return await shout("cup")

    with opened(tmp_path) as store:
        model.failures["cup"] = ModelStatusError("busy", status=503, is_transient=True)
        with pytest.raises(nh.resilience.VoteError):
            await live(store, model, poll)
        model.failures.clear()
        for _ in range(2):
            assert await live(store, model, poll) == "CUP"


async def test_a_call_that_failed_and_now_succeeds_is_refused(tmp_path: Path) -> None:
    is_failing = [True]

    async def read(word: str) -> str:
        if is_failing[0]:
            raise OSError(word)
        return word

    async def program() -> str:
        with suppress(OSError):
            await nh.parallel.map(read, ["cup", "vase"], max_concurrent=1)
        return await shout("end")

    with opened(tmp_path) as store:
        assert await live(store, FailingModel(), program) == "END"
        is_failing[0] = False
        with pytest.raises(JournalDivergenceError, match="now the call succeeded"):
            await live(store, FailingModel(), program)
