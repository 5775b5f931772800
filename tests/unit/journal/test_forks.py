"""Forks: new runs that begin with what another one did before a place."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.errors import ModelStatusError, NighthawkError
from nighthawk_async.journal import CallInDoubtError, JournalValueError
from nighthawk_async.testing import CallbackExecutor, ModelResponse, pass_response
from tests.unit.policies.human_handlers import answering

from .durable_runs import AnsweringModel, assigning, opened, places, shout

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("database")]

sent: list[tuple[str, str]] = []


@dataclass
class Receipt:
    """The declared type of a result."""

    number: int
    paid: Decimal


@nh.once
async def send(text: str, *, idempotency_key: str = "") -> str:
    """An effect."""
    sent.append((text, idempotency_key))
    return f"sent {text}"


@pytest.fixture(autouse=True)
def _forget() -> None:
    sent.clear()


def capitals(prompt: str, turn: int) -> ModelResponse:
    return assigning("loud", "word.upper()")


async def live(
    store: Any,
    program: Callable[[], Awaitable[Any]],
    run_id: str = "run-1",
    answer: Any = capitals,
    **options: Any,
) -> tuple[Any, int]:
    """One life of a run: its result, and the number of requests to the model."""
    model = AnsweringModel(answer)
    executor = nh.AgentStepExecutor.from_model(model)
    async with nh.run(executor, journal=store, run_id=run_id, **options):
        result = await program()
    return result, len(model.prompts)


async def handle() -> str:
    words = await nh.parallel.map(shout, ["a", "b"])
    receipt = await send("".join(words))
    return f"{receipt} {await shout('c')}"


async def test_a_fork_keeps_what_came_before_and_is_live_from_there(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        await live(store, handle)
        before = store.records("run-1")
        assert store.fork("run-1", at="run/send()[0]", to="other") == "other"
        assert store.fork("run-1", at="run/shout()[0]") == "run-1-fork-1"
        assert store.fork("run-1", at="run/shout()[0]") == "run-1-fork-2"
        assert store.records("run-1") == before
        assert [row.status for row in store.runs() if row.run_id == "other"] == ["parked"]
        assert places(store, "intent", "response", run_id="other") == [
            "run/map[0]/item[0]/shout()[0]/shout#1[0]/turn[0]",
            "run/map[0]/item[1]/shout()[0]/shout#1[0]/turn[0]",
        ]
        assert await live(store, handle, "other") == ("sent AB C", 1)
        assert await live(store, handle, "run-1-fork-1") == ("sent AB C", 1)
        assert await live(store, handle, "run-1") == ("sent AB C", 0)
    assert [text for text, _ in sent] == ["AB", "AB"]  # the second one by the fork before the effect
    assert len({key for _, key in sent}) == 2


async def test_a_fork_inside_of_a_step_asks_for_the_later_turns_alone(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        await live(store, lambda: shout("a"))
        turn = places(store, "response")[0]
        store.fork("run-1", at=turn, to="other")
        assert await live(store, lambda: shout("a"), "other") == ("A", 1)


async def test_the_result_of_a_call_that_had_begun_is_copied(tmp_path: Path) -> None:
    begun, may_end = anyio.Event(), anyio.Event()

    @nh.once
    async def slow() -> str:
        sent.append(("slow", ""))
        begun.set()
        await may_end.wait()
        return "slow"

    async def quick() -> str:
        await begun.wait()
        result = await send("quick")
        may_end.set()
        return result

    async def program() -> list[str]:
        async def one(function: Callable[[], Awaitable[str]]) -> str:
            return await function()

        return await nh.parallel.map(one, [slow, quick])

    with opened(tmp_path) as store:
        await live(store, program)
        store.fork("run-1", at="run/map[0]/item[1]/send()[0]", to="other")
        assert places(store, "result", run_id="other") == ["run/map[0]/item[0]/slow()[0]"]
        assert await live(store, program, "other") == (["slow", "sent quick"], 0)
    assert [text for text, _ in sent] == ["slow", "quick", "quick"]


async def test_a_call_in_doubt_is_not_copied(tmp_path: Path) -> None:
    @nh.once
    async def ship() -> None:
        raise KeyboardInterrupt

    async def program() -> None:
        await send("first")
        await ship()

    with opened(tmp_path) as store:
        with pytest.raises(KeyboardInterrupt):
            await live(store, program)

        async def guarded() -> None:
            await send("first")
            with pytest.raises(CallInDoubtError):
                await ship()
            await send("last")

        await live(store, guarded)
        with pytest.raises(CallInDoubtError, match="Continue run 'run-1' first") as error:
            store.fork("run-1", at="run/send()[1]", to="other")
        assert error.value.place == "run/ship()[0]"
        store.fork("run-1", at="run/ship()[0]", to="other")
        assert [row.run_id for row in store.runs()] == ["run-1", "other"]


async def test_a_fork_within_an_effect_is_refused(tmp_path: Path) -> None:
    @nh.once
    async def outer() -> str:
        return await send("inner")

    with opened(tmp_path) as store:
        await live(store, outer)
        with pytest.raises(NighthawkError, match=r"part of the call run/outer\(\)\[0\]"):
            store.fork("run-1", at="run/outer()[0]/send()[0]")


async def test_an_error_that_the_program_handled_is_one_in_the_fork(tmp_path: Path) -> None:
    def fail_once(prompt: str, turn: int) -> ModelResponse:
        if '"a"' in prompt or "'a'" in prompt:
            raise ModelStatusError("overloaded", status=503, is_transient=False)
        return capitals(prompt, turn)

    async def program() -> str:
        try:
            return await shout("a")
        except ModelStatusError:
            return await send(await shout("b"))

    with opened(tmp_path) as store:
        assert await live(store, program, answer=fail_once) == ("sent B", 2)
        store.fork("run-1", at="run/shout()[1]", to="other")
        assert await live(store, program, "other") == ("sent B", 1)


async def test_an_error_that_ended_the_run_is_none_in_the_fork(tmp_path: Path) -> None:
    failing = True

    def fail(prompt: str, turn: int) -> ModelResponse:
        if failing:
            raise ModelStatusError("overloaded", status=503, is_transient=False)
        return capitals(prompt, turn)

    async def program() -> str:
        return await send(await shout("a"))

    with opened(tmp_path) as store:
        with pytest.raises(ModelStatusError):
            await live(store, program, answer=fail)
        failing = False
        await live(store, program, answer=fail)
        store.fork("run-1", at="run/send()[0]", to="other")
        assert places(store, "failure", run_id="other") == []
        assert await live(store, program, "other") == ("sent A", 0)


async def test_messages_and_their_numbers_are_copied(tmp_path: Path) -> None:
    async def program() -> list[str]:
        first = await nh.journal.receive("post")
        return [first, await send(first), await nh.journal.receive("post")]

    with opened(tmp_path) as store:
        await store.send("run-1", "post", "one")
        await store.send("run-1", "post", "two")
        await live(store, program)
        store.fork("run-1", at="run/send()[0]", to="other")
        assert await live(store, program, "other") == (["one", "sent one", "two"], 0)
        await store.send("other", "post", "three")  # its number is the next one

        async def longer() -> str:
            await program()
            return await nh.journal.receive("post")

        assert await live(store, longer, "other") == ("three", 0)


async def test_values_at_the_place_are_replaced(tmp_path: Path) -> None:
    @nh.once
    async def pay() -> Receipt:
        sent.append(("pay", ""))
        return Receipt(1, Decimal("1.50"))

    async def program() -> list[object]:
        return [
            nh.journal.now(),
            await nh.journal.receive("post"),
            await nh.ask_user("How many?", schema=int),
            await pay(),
            await send("a"),
        ]

    with opened(tmp_path) as store:
        await store.send("run-1", "post", "one")
        (values, _) = await live(store, program, human=answering(3))
        for number, (at, new, index, expected) in enumerate(
            [
                ("run/now()[0]", {"value": "2030-01-01T00:00:00+00:00"}, 0, datetime(2030, 1, 1, tzinfo=UTC)),
                ("run/receive()[0]", {"message": "two"}, 1, "two"),
                ("run/question()[0]", {"answer": 4}, 2, 4),
                ("run/pay()[0]", {"result": {"number": 2, "paid": "2.50"}}, 3, Receipt(2, Decimal("2.50"))),
                ("run/send()[0]", {"result": "sent B"}, 4, "sent B"),
            ]
        ):
            store.fork("run-1", at=at, to=f"other-{number}", set=new)
            (changed, _) = await live(store, program, f"other-{number}", human=answering(3))
            assert changed[index] == expected
            assert changed[:index] == values[:index]
    assert [text for text, _ in sent] == ["pay", "a"] + ["pay", "a"] * 3 + ["a"]


async def test_a_binding_of_an_executor_without_requests_is_replaced(tmp_path: Path) -> None:
    executor = CallbackExecutor(lambda call: pass_response(loud="A"))

    async def one_life(store: Any, run_id: str) -> str:
        async with nh.run(executor, journal=store, run_id=run_id):
            return await shout("a")

    with opened(tmp_path) as store:
        assert await one_life(store, "run-1") == "A"
        store.fork("run-1", at="run/shout()[0]/shout#1[0]", to="other", set={"loud": "B"})
        assert await one_life(store, "other") == "B"


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"at": "run/other()[0]"}, NighthawkError, "has recorded nothing in run/other"),
        ({"at": "run"}, NighthawkError, "has recorded nothing in run"),
        ({"at": "run/send()[0]", "to": "run-1"}, NighthawkError, "there is a run 'run-1' already"),
        (
            {"at": "run/send()[0]", "set": {"value": 1}},
            NighthawkError,
            "no recorded value value; it has result",
        ),
        ({"at": "run/send()[0]", "set": {"result": 1}}, JournalValueError, "of the type str was recorded"),
        (
            {"at": "run/send()[0]", "set": {"result": object()}},
            NighthawkError,
            "of the type str was recorded",
        ),
        (
            {"at": "run/shout()[0]/shout#1[0]/turn[0]", "set": {"response": "x"}},
            NighthawkError,
            "nothing that can be set",
        ),
    ],
)
async def test_what_cannot_be_forked(
    tmp_path: Path, arguments: dict[str, Any], error: type[Exception], text: str
) -> None:
    with opened(tmp_path) as store:
        await live(store, handle)
        with pytest.raises(error, match=text):
            store.fork("run-1", **arguments)
        with pytest.raises(NighthawkError, match="there is no run 'run-2'"):
            store.fork("run-2", at="run/send()[0]")
        assert [row.run_id for row in store.runs()] == ["run-1"]
