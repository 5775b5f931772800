"""Policies around natural functions, in the lives of a run: places stay, and answers are not recorded."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

import nighthawk_async as nh
from nighthawk_async.journal import JournalStore
from nighthawk_async.policies import FunctionCall, FunctionProceed

from .durable_runs import AnsweringModel, opened, places, shout, shout_synchronously, shouting

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("database")]


class CrashError(Exception):
    """The end of a life."""


class Through(nh.Policy):
    """Only goes on."""

    async def around_function(self, call: FunctionCall, proceed: FunctionProceed) -> Any:
        return await proceed()


class Kept(nh.Policy):
    """Answers from what it has kept by the first argument."""

    def __init__(self, kept: dict[str, str]) -> None:
        self.kept = kept

    async def around_function(self, call: FunctionCall, proceed: FunctionProceed) -> Any:
        word = call.arguments.get("word")
        if word in self.kept:
            return self.kept[word]
        return await proceed()


async def life(
    store: JournalStore, model: AnsweringModel, program: Callable[[], Awaitable[Any]], *policies: nh.Policy
) -> Any:
    executor = nh.AgentStepExecutor.from_model(model)
    async with nh.run(executor, journal=store, run_id="run-1", policies=policies):
        return await program()


@nh.natural_function
async def both(first: str, second: str) -> str:
    """Shout two words."""
    loud: str
    """natural
    Set <:loud> to <first> in capitals.
    """
    return f"{loud} {await shout(second)} {await anyio.to_thread.run_sync(shout_synchronously, second)}"


def answering() -> AnsweringModel:
    from .durable_runs import assigning

    return AnsweringModel(
        lambda prompt, turn: assigning("loud", "first.upper()" if "<first>" in prompt else "word.upper()")
    )


async def program(*, crashes: bool) -> list[str]:
    shouted = [await both("a", "b"), await shout("c")]
    shouted += await nh.parallel.map(shout, ["d", "e"])
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(shout, "f")
        tasks.start_soon(anyio.to_thread.run_sync, shout_synchronously, "g")
    if crashes:
        raise CrashError
    return [*shouted, await shout("h")]


SHOUTED = ["A B B", "C", "D", "E", "H"]


@pytest.mark.parametrize("first", [(), (Through(),)])
@pytest.mark.parametrize("second", [(), (Through(), Through())])
async def test_a_run_is_found_again_with_and_without_a_policy_around_its_functions(
    tmp_path: Path, first: tuple[nh.Policy, ...], second: tuple[nh.Policy, ...]
) -> None:
    model = answering()
    with opened(tmp_path) as store:
        with pytest.raises(CrashError):
            await life(store, model, lambda: program(crashes=True), *first)
        assert len(model.prompts) == 8
        for _ in range(2):
            assert await life(store, model, lambda: program(crashes=False), *second) == SHOUTED
        assert len(model.prompts) == 9
        with nh.journal.replay(store, "run-1"):
            assert await life(store, model, lambda: program(crashes=False), *first) == SHOUTED


async def test_places_are_the_same_with_and_without_a_policy(tmp_path: Path) -> None:
    found: list[list[str]] = []
    for policies in ((), (Through(),)):
        folder = tmp_path / str(len(policies))
        folder.mkdir()
        with opened(folder) as store:
            await life(store, answering(), lambda: program(crashes=False), *policies)
            found.append(sorted(places(store, "step")))
    assert found[0] == found[1] != []


async def test_what_a_policy_answers_is_not_recorded_and_moves_no_other_call(tmp_path: Path) -> None:
    async def words() -> list[str]:
        return [await shout(word) for word in ("a", "b", "c")]

    model = shouting()
    with opened(tmp_path) as store:
        assert await life(store, model, words, Kept({"b": "kept"})) == ["A", "kept", "C"]
        recorded = places(store, "step")
        assert len(recorded) == 2
        assert await life(store, model, words, Kept({"b": "kept"})) == ["A", "kept", "C"]
        assert len(model.prompts) == 2
        with pytest.raises(nh.journal.JournalDivergenceError):  # it has to answer in each life
            await life(store, model, words)
        assert places(store, "step") == recorded


async def test_a_policy_that_answers_what_was_recorded_is_a_changed_program(tmp_path: Path) -> None:
    async def words() -> list[str]:
        return [await shout(word) for word in ("a", "b")]

    model = shouting()
    with opened(tmp_path) as store:
        assert await life(store, model, words) == ["A", "B"]
        with pytest.raises(nh.journal.JournalDivergenceError):
            await life(store, model, words, Kept({"a": "kept"}))


async def test_steps_of_a_policy_are_in_the_place_of_the_call(tmp_path: Path) -> None:
    class Twice(nh.Policy):
        async def around_function(self, call: FunctionCall, proceed: FunctionProceed) -> Any:
            with nh.scope(policies=[], mode="replace"):
                before = await shout("before")
            value = await proceed()
            with nh.scope(policies=[], mode="replace"):
                return f"{before} {value} {await shout('after')}"

    async def words() -> list[str]:
        return [await shout(word) for word in ("a", "b")]

    model = shouting()
    with opened(tmp_path) as store:
        for _ in range(2):
            assert await life(store, model, words, Twice()) == ["BEFORE A AFTER", "BEFORE B AFTER"]
        assert len(model.prompts) == 6
        assert [place.count("shout()") for place in places(store, "step")] == [2, 1, 2, 2, 1, 2]


async def test_changed_arguments_are_those_of_the_record(tmp_path: Path) -> None:
    class Longer(nh.Policy):
        def __init__(self, more: str) -> None:
            self.more = more

        async def around_function(self, call: FunctionCall, proceed: FunctionProceed) -> Any:
            return await proceed(call.changed(arguments={"word": call.arguments["word"] + self.more}))

    async def word() -> str:
        return await shout("a")

    model = shouting()
    with opened(tmp_path) as store:
        for _ in range(2):
            assert await life(store, model, word, Longer("b")) == "AB"
        assert len(model.prompts) == 1
        with pytest.raises(nh.journal.JournalDivergenceError):
            await life(store, model, word, Longer("c"))


def test_a_run_of_a_script_is_found_again(tmp_path: Path) -> None:
    model = shouting()
    executor = nh.AgentStepExecutor.from_model(model)
    with opened(tmp_path) as store:
        for policies in ((), Through(), ()):
            with nh.run(executor, journal=store, run_id="run-1", policies=policies):
                assert [shout_synchronously("a"), shout_synchronously("b")] == ["A", "B"]
    assert len(model.prompts) == 2
