"""Calls in doubt about which a person decides."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.journal import CallInDoubtError, RunParked

from .durable_runs import AnsweringModel, change_tables, opened

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("database")]


@dataclass
class Receipt:
    """What a payment returns."""

    order: int


class Person:
    """Answers questions in turn.

    Args:
        answers: The answers.
    """

    def __init__(self, *answers: object) -> None:
        self._answers = list(answers)
        self.prompts: list[str] = []

    async def ask(self, question: Any) -> object:
        self.prompts.append(question.prompt)
        await anyio.lowlevel.checkpoint()
        return self._answers.pop(0)

    async def approve(self, request: Any) -> None:
        raise AssertionError("nothing is to be approved")


async def live(
    store: nh.journal.JournalStore, program: Callable[[], Awaitable[Any]], human: Any = None, **options: Any
) -> Any:
    def answer(prompt: str, turn: int) -> nh.testing.ModelResponse:
        raise AssertionError("no model is needed")

    executor = nh.AgentStepExecutor.from_model(AnsweringModel(answer))
    async with nh.run(executor, journal=store, run_id="run-1", human=human, **options):
        return await program()


def forget_result(folder: Path) -> None:
    """Make the call one whose process was killed before its result was durable."""
    change_tables(folder, "DELETE FROM records WHERE kind = 'result'")


class Shop:
    """A function that takes effect, and the number of its calls."""

    def __init__(self) -> None:
        self.calls = 0

        @nh.once
        async def pay(order: int) -> Receipt:
            self.calls += 1
            return Receipt(order)

        @nh.once
        async def mail() -> None:
            self.calls += 1

        @nh.once
        def pay_in_thread(order: int) -> Receipt:
            self.calls += 1
            return Receipt(order)

        self.pay, self.mail, self.pay_in_thread = pay, mail, pay_in_thread


async def test_a_person_says_what_a_call_returned(tmp_path: Path) -> None:
    shop, person = Shop(), Person(True, {"order": 7})
    with opened(tmp_path) as store:
        await live(store, lambda: shop.pay(1))
        forget_result(tmp_path)
        for _ in range(2):
            assert await live(store, lambda: shop.pay(1), person) == Receipt(7)
    assert shop.calls == 1
    assert "run/pay()[0]: pay had begun when its process ended" in person.prompts[0]
    assert person.prompts[1] == "run/pay()[0]: what did pay return?"


async def test_a_call_without_a_result_needs_one_answer(tmp_path: Path) -> None:
    shop, person = Shop(), Person(True)
    with opened(tmp_path) as store:
        await live(store, shop.mail)
        forget_result(tmp_path)
        for _ in range(2):
            assert await live(store, shop.mail, person) is None
    assert shop.calls == 1


async def test_each_denial_counts_for_one_call(tmp_path: Path) -> None:
    shop, person = Shop(), Person(False, False, True)
    with opened(tmp_path) as store:
        await live(store, shop.mail)
        for _ in range(3):
            forget_result(tmp_path)
            await live(store, shop.mail, person)
    assert shop.calls == 3
    assert len(person.prompts) == 3


async def test_a_person_who_fails_leaves_the_call_in_doubt(tmp_path: Path) -> None:
    shop = Shop()
    with opened(tmp_path) as store:
        await live(store, shop.mail)
        forget_result(tmp_path)
        with pytest.raises(CallInDoubtError, match="the question to a person failed"):
            await live(store, shop.mail, Person())
        assert await live(store, shop.mail, Person(True)) is None
    assert shop.calls == 1


async def test_a_run_is_parked_until_somebody_has_decided(tmp_path: Path) -> None:
    shop = Shop()
    with opened(tmp_path) as store:
        await live(store, lambda: shop.pay(1))
        forget_result(tmp_path)
        for value in (True, {"order": 7}):
            with pytest.raises(RunParked):
                await live(store, lambda: shop.pay(1), store.people(), park_after=0.01)
            (question,) = store.questions()
            await store.answer(question.id, value)
        assert await live(store, lambda: shop.pay(1), store.people()) == Receipt(7)
        assert store.questions() == []
    assert shop.calls == 1


async def test_synchronous_calls_ask_a_person_in_worker_threads_only(tmp_path: Path) -> None:
    async def in_thread() -> Receipt:
        return await anyio.to_thread.run_sync(shop.pay_in_thread, 1)

    async def on_loop() -> Receipt:
        return shop.pay_in_thread(1)

    for program in (in_thread, on_loop):
        shop, folder = Shop(), tmp_path / program.__name__
        folder.mkdir()
        with opened(folder) as store:
            await live(store, program)
            forget_result(folder)
            if program is on_loop:
                with pytest.raises(CallInDoubtError, match="nobody knows"):
                    await live(store, program, Person(True))
            else:
                assert await live(store, program, Person(True, {"order": 7})) == Receipt(7)
        assert shop.calls == 1
