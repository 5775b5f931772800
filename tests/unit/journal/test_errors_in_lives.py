"""Errors over several lives: handled ones are raised again, and those that ended a life are not."""

import re
from pathlib import Path

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.errors import ModelStatusError
from nighthawk_async.journal import CallInDoubtError, JournalError, JournalStoreError
from nighthawk_async.testing import ModelResponse, model_response, tool_call

from .durable_runs import AnsweringModel, assigning, live, opened, shout
from .test_effects import forget_result

pytestmark = pytest.mark.anyio


class CrashError(Exception):
    """The end of a life."""


class FailingModel(AnsweringModel):
    """Shouts, except for words that it fails for.

    Attributes:
        failures: The errors, by word.
    """

    def __init__(self) -> None:
        super().__init__(self._shout)
        self.failures: dict[str, Exception] = {}

    def _shout(self, prompt: str, turn: int) -> ModelResponse:
        for word, error in self.failures.items():
            if re.search(rf"\b{word}\b", prompt):
                raise error
        return assigning("loud", "word.upper()")


async def test_a_map_that_failed_in_one_life_is_whole_in_all_later_ones(tmp_path: Path) -> None:
    model = FailingModel()

    async def program() -> tuple[list[str], str]:
        return await nh.parallel.map(shout, ["lamp", "cup", "vase"]), await shout("end")

    with opened(tmp_path) as store:
        model.failures["cup"] = ModelStatusError("busy", status=500)
        with pytest.raises(ModelStatusError):
            await live(store, model, program)
        model.failures.clear()
        expected = (["LAMP", "CUP", "VASE"], "END")
        assert await live(store, model, program) == expected
        assert await live(store, model, program) == expected


async def test_each_life_may_meet_another_error_at_one_place(tmp_path: Path) -> None:
    model = FailingModel()

    async def program() -> str:
        try:
            return await shout("cup")
        except ModelStatusError as error:
            if error.status == 503:
                raise
            return await shout("end")

    with opened(tmp_path) as store:
        model.failures["cup"] = ModelStatusError("busy", status=503)
        with pytest.raises(ModelStatusError):
            await live(store, model, program)
        model.failures["cup"] = ModelStatusError("too long", status=400)
        assert await live(store, model, program) == "END"
        asked = len(model.prompts)
        assert await live(store, model, program) == "END"
    assert len(model.prompts) == asked


async def test_an_error_at_the_end_of_a_run_that_ended_is_raised_again(tmp_path: Path) -> None:
    model = FailingModel()

    async def program() -> str:
        try:
            return await shout("cup")
        except ModelStatusError:
            return "nothing"

    with opened(tmp_path) as store:
        model.failures["cup"] = ModelStatusError("busy", status=503)
        assert await live(store, model, program) == "nothing"
        model.failures.clear()
        assert await live(store, model, program) == "nothing"
    assert len(model.prompts) == 1


async def test_a_race_whose_first_call_failed_is_won_by_the_same_one(tmp_path: Path) -> None:
    model = FailingModel()
    model.failures["cup"] = ModelStatusError("busy", status=503)

    async def program() -> str:
        return await nh.parallel.race(shout, ["cup", "vase"], max_concurrent=1)

    with opened(tmp_path) as store:
        assert await live(store, model, program) == "VASE"
        model.failures.clear()
        assert await live(store, model, program) == "VASE"


async def test_a_store_that_is_closed_during_a_map_fails_it_by_its_name(tmp_path: Path) -> None:
    with opened(tmp_path) as store:

        async def one(word: str) -> str:
            if word == "cup":
                await anyio.wait_all_tasks_blocked()
                store.close()
            return await shout(word)

        with pytest.raises(JournalStoreError, match="is closed"):
            await live(store, FailingModel(), lambda: nh.parallel.map(one, ["cup"]))


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_call_whose_reconciliation_fails_stays_in_doubt(tmp_path: Path, is_async: bool) -> None:
    paid: list[int] = []
    is_reachable = [False]

    def find(order: int) -> str:
        if not is_reachable[0]:
            raise ConnectionError("no network")
        return "found"

    def pay_now(order: int) -> str:
        paid.append(order)
        return "paid"

    async def pay_soon(order: int) -> str:
        return pay_now(order)

    pay = nh.once(reconcile=find)(pay_soon if is_async else pay_now)  # noqa: F841  (the block calls it)

    @nh.natural_function
    async def settle_order(order: int) -> str:
        receipt: str
        """natural
        <pay> the <order>, and set <:receipt>.
        """
        return receipt

    def answer(prompt: str, turn: int) -> ModelResponse:
        if turn == 0:
            return model_response(tool_call("nh_assign", target_path="receipt", expression="pay(order)"))
        if not is_reachable[0]:
            raise CrashError
        return model_response(tool_call("nh_outcome", kind="pass"))

    model = AnsweringModel(answer)
    with opened(tmp_path) as store:
        with pytest.raises(CrashError):
            await live(store, model, lambda: settle_order(7))
        forget_result(tmp_path)
        with pytest.raises(CallInDoubtError, match="ConnectionError: no network") as caught:
            await live(store, model, lambda: settle_order(7))
        assert isinstance(caught.value.__cause__, ConnectionError)
        is_reachable[0] = True
        assert await live(store, model, lambda: settle_order(7)) == "found"
    assert paid == [7]


async def test_calls_that_fail_at_the_same_moment_are_decided_once(tmp_path: Path) -> None:
    both = anyio.Event()

    async def fail(word: str) -> None:
        await both.wait()
        raise ValueError(word)

    async def program() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(_set_later, both)
            await nh.parallel.map(fail, ["lamp", "cup"])

    with opened(tmp_path) as store, pytest.raises(ExceptionGroup) as caught:
        await live(store, FailingModel(), program)
    assert caught.group_contains(ValueError, match="lamp")
    assert caught.group_contains(ValueError, match="cup")
    assert not caught.group_contains(JournalError)


async def _set_later(event: anyio.Event) -> None:
    await anyio.wait_all_tasks_blocked()
    event.set()
