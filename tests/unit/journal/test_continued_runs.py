"""Runs that continue: what was recorded is not asked for, and not done, again."""

from pathlib import Path

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.errors import ModelStatusError
from nighthawk_async.resilience import fallback, vote
from nighthawk_async.testing import ScriptedExecutor, model_response, return_response, tool_call

from .durable_runs import AnsweringModel, assigning, live, opened, places, shout, shouting

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("database")]


class CrashError(Exception):
    """The end of a life."""


@nh.natural_function
async def collect(item: str, items: list[str]) -> None:
    """Change an object in place."""
    """natural
    Append <item> to <items>.
    """


async def test_recorded_responses_are_not_asked_for_again(tmp_path: Path) -> None:
    model = shouting()

    async def crashing() -> None:
        assert await shout("a") == "A"
        raise CrashError

    async def whole() -> list[str]:
        return [await shout("a"), await shout("b")]

    with opened(tmp_path) as store:
        with pytest.raises(CrashError):
            await live(store, model, crashing)
        assert await live(store, model, whole) == ["A", "B"]
        assert len(model.prompts) == 2
        assert await live(store, model, whole) == ["A", "B"]
    assert len(model.prompts) == 2


async def test_a_run_continues_in_another_store_object(tmp_path: Path) -> None:
    model = shouting()
    with opened(tmp_path) as store:
        await live(store, model, lambda: shout("a"))
    with opened(tmp_path) as store:
        assert await live(store, model, lambda: shout("a")) == "A"
        row = store.runs()[0]
    assert (row.run_id, row.status, row.lives, row.error) == ("run-1", "ended", 2, "")
    assert len(model.prompts) == 1


async def test_objects_are_changed_in_place_in_every_life(tmp_path: Path) -> None:
    def answer(prompt: str, turn: int) -> nh.testing.ModelResponse:
        return model_response(
            tool_call("nh_eval", expression="items.append(item)"), tool_call("nh_outcome", kind="pass")
        )

    model = AnsweringModel(answer)

    async def program() -> list[str]:
        items: list[str] = []
        await collect("x", items)
        await collect("y", items)
        return items

    with opened(tmp_path) as store:
        assert await live(store, model, program) == ["x", "y"]
        assert await live(store, model, program) == ["x", "y"]
    assert len(model.prompts) == 2


async def test_a_step_continues_inside_its_conversation(tmp_path: Path) -> None:
    calls: list[str] = []

    @nh.once
    async def look(word: str) -> str:
        calls.append(word)
        return f"seen {word}"

    @nh.natural_function
    async def inspect(word: str) -> str:
        result: str
        """natural
        <look> at <word>, then set <:result>.
        """
        return result

    def answer(prompt: str, turn: int) -> nh.testing.ModelResponse:
        if turn == 0:
            return model_response(tool_call("nh_assign", target_path="result", expression="look(word)"))
        if len(model.prompts) == 2:
            raise CrashError
        return model_response(tool_call("nh_outcome", kind="pass"))

    model = AnsweringModel(answer)
    with opened(tmp_path) as store:
        with pytest.raises(CrashError):
            await live(store, model, lambda: inspect("w"))
        assert await live(store, model, lambda: inspect("w")) == "seen w"
    assert len(model.prompts) == 3  # the second response, which had not arrived, is asked for again
    assert calls == ["w"]


async def test_an_error_that_ended_a_life_does_not_end_the_next(tmp_path: Path) -> None:
    failures = [ModelStatusError("busy", status=503, is_transient=True)]

    def answer(prompt: str, turn: int) -> nh.testing.ModelResponse:
        if failures:
            raise failures.pop()
        return assigning("loud", "word.upper()")

    model = AnsweringModel(answer)
    with opened(tmp_path) as store:
        with pytest.raises(ModelStatusError):
            await live(store, model, lambda: shout("a"))
        assert await live(store, model, lambda: shout("a")) == "A"


async def test_an_error_that_the_program_has_handled_is_raised_again(tmp_path: Path) -> None:
    asked: list[str] = []

    def answer(prompt: str, turn: int) -> nh.testing.ModelResponse:
        asked.append(prompt)
        if "bad" in prompt:
            raise ModelStatusError("busy", status=503, is_transient=True)
        return assigning("loud", "word.upper()")

    async def shout_bad() -> str:
        return await shout("bad")

    async def shout_good() -> str:
        return await shout("good")

    async def program() -> str:
        return await fallback(shout_bad, shout_good)()

    model = AnsweringModel(answer)
    with opened(tmp_path) as store:
        assert await live(store, model, program) == "GOOD"
        assert await live(store, model, program) == "GOOD"
    assert len(asked) == 2


async def test_a_failed_map_is_done_again_and_a_handled_one_is_not(tmp_path: Path) -> None:
    broken = [True]

    def answer(prompt: str, turn: int) -> nh.testing.ModelResponse:
        if "b" in prompt.partition("LOCALS")[2].partition("GLOBALS")[0].replace("word", "") and broken:
            raise ModelStatusError("busy", status=500)
        return assigning("loud", "word.upper()")

    model = AnsweringModel(answer)

    async def program() -> list[str]:
        return await nh.parallel.map(shout, ["a", "b", "c"])

    async def handling() -> object:
        try:
            return await program()
        except ModelStatusError:
            return await shout("z")

    with opened(tmp_path) as store:
        with pytest.raises(ModelStatusError):
            await live(store, model, program, "failing")
        broken.clear()
        assert await live(store, model, program, "failing") == ["A", "B", "C"]
        broken.append(True)
        assert await live(store, model, handling, "handling") == "Z"
        asked = len(model.prompts)
        broken.clear()
        assert await live(store, model, handling, "handling") == "Z"
        assert len(model.prompts) == asked


async def test_the_winner_of_a_race_wins_in_every_life(tmp_path: Path) -> None:
    slow = {"a": anyio.Event(), "b": anyio.Event()}

    async def run_one(word: str) -> str:
        await slow[word].wait()
        return await shout(word)

    async def program() -> str:
        return await nh.parallel.race(run_one, ["a", "b"])

    model = shouting()
    with opened(tmp_path) as store:
        slow["b"].set()
        assert await live(store, model, program) == "B"
        slow["a"].set()
        slow["b"] = anyio.Event()
        slow["b"].set()
        assert await live(store, model, program) == "B"
    assert len(model.prompts) == 1


async def test_the_votes_that_counted_count_in_every_life(tmp_path: Path) -> None:
    begun: list[int] = []

    async def ballot() -> str:
        begun.append(1)
        return await shout("a")

    model = shouting()

    async def program() -> str:
        return await vote(count=3)(ballot)()

    with opened(tmp_path) as store:
        assert await live(store, model, program) == "A"
        asked = len(model.prompts)
        begun.clear()
        assert await live(store, model, program) == "A"
    assert len(model.prompts) == asked
    assert len(begun) == 3  # two equal votes of three decide; the third does again what it had done


async def test_a_stream_gives_results_in_the_recorded_order(tmp_path: Path) -> None:
    gates = {word: anyio.Event() for word in "abc"}

    async def run_one(word: str) -> str:
        await gates[word].wait()
        return await shout(word)

    async def program(order: str) -> list[str]:
        results: list[str] = []
        async with nh.parallel.stream(run_one, ["a", "b", "c"]) as stream:
            for word in order:
                gates[word].set()
                results.append(await anext(stream))
        return results

    model = shouting()
    with opened(tmp_path) as store:
        assert await live(store, model, lambda: program("cab")) == ["C", "A", "B"]
        for event in gates.values():
            event.set()
        assert await live(store, model, lambda: program("abc")) == ["C", "A", "B"]
    assert len(model.prompts) == 3


async def test_tasks_that_were_started_by_hand_are_told_apart_by_their_arguments(tmp_path: Path) -> None:
    async def program(words: str) -> dict[str, str]:
        results: dict[str, str] = {}

        async def one(word: str) -> None:
            results[word] = await shout(word)

        async with anyio.create_task_group() as group:
            for word in words:
                group.start_soon(one, word)
        return results

    model = shouting()
    with opened(tmp_path) as store:
        expected = {"a": "A", "b": "B", "c": "C"}
        assert await live(store, model, lambda: program("abc")) == expected
        assert await live(store, model, lambda: program("cba")) == expected
    assert len(model.prompts) == 3


async def test_tasks_that_could_not_be_told_apart_are_refused(tmp_path: Path) -> None:
    class Order:
        pass

    @nh.once
    async def pay(order: Order) -> None: ...

    async def program() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(pay, Order())
            group.start_soon(pay, Order())

    with opened(tmp_path) as store, pytest.raises(ExceptionGroup) as caught:
        await live(store, shouting(), program)
    assert caught.group_contains(nh.parallel.AmbiguousPlaceError, match=r"pay\(\)")


async def test_executors_without_a_model_are_answered_from_the_journal(tmp_path: Path) -> None:
    executor = ScriptedExecutor(responses=[return_response("len(word)")])

    @nh.natural_function
    async def count(word: str) -> int:
        """natural
        Return the length of <word>.
        """
        raise AssertionError

    with opened(tmp_path) as store:
        for _ in range(2):
            async with nh.run(executor, journal=store, run_id="run-1"):
                assert await count("four") == 4
    assert len(executor.calls) == 1


async def test_a_run_inside_a_run_is_recorded_with_it(tmp_path: Path) -> None:
    model = shouting()

    async def program() -> str:
        async with nh.run(nh.AgentStepExecutor.from_model(model)):
            return await shout("a")

    with opened(tmp_path) as store:
        await live(store, model, program)
        assert await live(store, model, program) == "A"
        assert places(store, "response") == ["run/run[0]/shout()[0]/shout#1[0]/turn[0]"]
    assert len(model.prompts) == 1


async def test_values_of_the_journal_are_the_same_in_every_life(tmp_path: Path) -> None:
    async def program() -> list[object]:
        return [nh.journal.now(), nh.journal.random(), nh.journal.now()]

    with opened(tmp_path) as store:
        first = await live(store, shouting(), program)
        assert await live(store, shouting(), program) == first
    assert first[0] != first[2]
    assert await live_without(program) != first


async def live_without(program: object) -> object:
    assert callable(program)
    async with nh.run(nh.AgentStepExecutor.from_model(shouting())):
        return await program()
