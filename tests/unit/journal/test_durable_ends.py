"""Effects that return only when their end is durable, and what a doubt says."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

import nighthawk_async as nh
from nighthawk_async.journal import CallInDoubtError, JournalStoreError, RunTakenOverError
from nighthawk_async.journal.records import Record
from nighthawk_async.journal.store_thread import commit_listeners
from nighthawk_async.testing import ModelResponse, model_response, tool_call

from .durable_runs import AnsweringModel, change, change_tables, live, opened, places, shouting
from .test_effects import CrashError, forget_result, no_model

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("database")]

committed: list[str] = []
"""The places of results that are durable."""


@pytest.fixture(autouse=True)
def watched_commits() -> Iterator[None]:
    committed.clear()

    def note(when: str, records: Sequence[Record]) -> None:
        if when == "after":
            committed.extend(record.place for record in records if record.kind == "result")

    commit_listeners.append(note)
    yield
    commit_listeners.remove(note)


@contextmanager
def held_commits(kind: str = "result") -> Iterator[tuple[threading.Event, threading.Event]]:
    """Hold the commits of records of a kind; the first event says that one is reached, the other goes on."""
    reached, goes_on = threading.Event(), threading.Event()

    def hold(when: str, records: Sequence[Record]) -> None:
        if when == "before" and any(record.kind == kind for record in records):
            reached.set()
            goes_on.wait(60)

    commit_listeners.append(hold)
    try:
        yield reached, goes_on
    finally:
        goes_on.set()
        commit_listeners.remove(hold)


def find_nothing(*args: Any) -> None:
    return None


def raising(error: Exception | None) -> str:
    if error is not None:
        raise error
    return "done"


def effects(error: Exception | None) -> dict[str, Callable[[], Any]]:
    @nh.once
    async def once() -> str:
        return raising(error)

    @nh.once
    def once_synchronously() -> str:
        return raising(error)

    @nh.once(reconcile=find_nothing, durable=True)
    async def reconciled() -> str:
        return raising(error)

    class Desk:
        @nh.once
        async def serve(self) -> str:
            return raising(error)

    async def in_thread() -> str:
        return await anyio.to_thread.run_sync(once_synchronously)

    async def on_loop() -> str:
        return once_synchronously()

    return {
        "async": once,
        "thread": in_thread,
        "loop": on_loop,
        "reconcile": reconciled,
        "method": lambda: Desk().serve(),
    }


@pytest.mark.parametrize("durability", ["response", "effect"])
@pytest.mark.parametrize("name", effects(None))
@pytest.mark.parametrize("fails", [False, True])
async def test_when_an_effect_returns_its_end_is_durable(
    tmp_path: Path, name: str, fails: bool, durability: Any
) -> None:
    call = effects(ValueError("no") if fails else None)[name]

    async def program() -> int:
        if fails:
            with pytest.raises(ValueError, match="no"):
                await call()
        else:
            assert await call() == "done"
        return len(committed)

    with opened(tmp_path, durability=durability) as store:
        assert await live(store, no_model(), program) == 1


async def test_a_tool_that_is_an_effect_has_a_durable_end_before_the_model_goes_on(tmp_path: Path) -> None:
    seen: list[int] = []

    def note(text: str) -> str:
        return text

    def answer(prompt: str, turn: int) -> ModelResponse:
        if turn == 0:
            return model_response(tool_call("note", text="a"))
        seen.append(len(committed))
        return model_response(tool_call("nh_outcome", kind="pass", bindings={"loud": "A"}))

    async def program() -> str:
        from .durable_runs import shout

        async with nh.scope(tools=[note]):
            return await shout("a")

    with opened(tmp_path) as store:
        assert await live(store, AnsweringModel(answer), program) == "A"
    assert seen == [1]


async def test_who_does_not_want_to_wait_says_so(tmp_path: Path) -> None:
    @nh.once(durable=False)
    async def quick(number: int) -> int:
        return number

    @nh.once(reconcile=find_nothing)
    async def reconciled(number: int) -> int:
        return number

    @nh.repeatable
    async def read(number: int) -> int:
        return number

    async def program() -> None:
        for call in (quick, reconciled, read):
            with held_commits() as (reached, _):
                with anyio.fail_after(240):
                    assert await call(1) == 1
                await anyio.to_thread.run_sync(reached.wait, 60)

    with opened(tmp_path) as store:
        await live(store, no_model(), program)


@pytest.mark.parametrize("in_thread", [False, True])
async def test_who_is_cancelled_while_the_end_becomes_durable_leaves_and_nothing_is_lost(
    tmp_path: Path, in_thread: bool
) -> None:
    calls: list[int] = []

    @nh.once
    async def pay(order: int) -> int:
        calls.append(order)
        return order

    @nh.once
    def pay_in_thread(order: int) -> int:
        calls.append(order)
        return order

    async def call() -> int:
        return await (anyio.to_thread.run_sync(pay_in_thread, 1) if in_thread else pay(1))

    async def program(*, is_cancelled: bool) -> None:
        if not is_cancelled:
            assert await call() == 1
            return
        scope = anyio.CancelScope()
        with held_commits() as (reached, goes_on):

            async def cancel() -> None:
                await anyio.to_thread.run_sync(reached.wait, 60)
                scope.cancel()
                if in_thread:
                    goes_on.set()  # a thread cannot be interrupted

            async with anyio.create_task_group() as group:
                group.start_soon(cancel)
                with scope:
                    await call()
        raise CrashError

    with opened(tmp_path) as store:
        with pytest.raises(CrashError):
            await live(store, no_model(), lambda: program(is_cancelled=True))
        await live(store, no_model(), lambda: program(is_cancelled=False))
        assert len(places(store, "result")) == 1
    assert calls == [1]


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("name", ["async", "thread"])
async def test_a_store_that_fails_says_that_the_call_was_made(tmp_path: Path, name: str, fails: bool) -> None:
    call = effects(ValueError("no") if fails else None)[name]

    def fail(when: str, records: Sequence[Record]) -> None:
        if when == "before" and any(record.kind == "result" for record in records):
            raise OSError("no room")

    commit_listeners.append(fail)
    try:
        with opened(tmp_path) as store:
            with pytest.raises(
                JournalStoreError, match=r"was made and has .*not known whether .*no room"
            ) as caught:
                await live(store, no_model(), call)
            assert ("has raised ValueError" if fails else "has returned") in str(caught.value)
            commit_listeners.remove(fail)
            with pytest.raises(CallInDoubtError):
                await live(store, no_model(), call)
    finally:
        if fail in commit_listeners:
            commit_listeners.remove(fail)


async def test_who_has_lost_the_run_meanwhile_is_told_that_the_call_was_made(tmp_path: Path) -> None:
    async def program() -> None:
        @nh.once
        async def pay() -> None:
            await anyio.to_thread.run_sync(change, store, "UPDATE runs SET epoch = epoch + 1")

        await pay()

    text = r"pay was made and has returned, .*in doubt"
    with opened(tmp_path) as store, pytest.raises(RunTakenOverError, match=text):
        await live(store, no_model(), program)


async def test_a_doubt_names_the_key_and_the_arguments(tmp_path: Path) -> None:
    keys: list[str] = []

    class Desk:
        @nh.once
        async def pay(
            self, order: int, *, api_key: str, notes: dict[str, str], text: str, idempotency_key: str = ""
        ) -> None:
            keys.append(idempotency_key)

    async def program() -> None:
        notes = {"password": "hunter2", "to": "ann"}
        await Desk().pay(17, api_key="k-123456789", notes=notes, text="sk-ant-api03-" + "x" * 90 + " y" * 500)

    with opened(tmp_path) as store:
        await live(store, no_model(), program)
        forget_result(tmp_path)
        with pytest.raises(CallInDoubtError) as caught:
            await live(store, no_model(), program)
    text = str(caught.value)
    assert keys[0] == caught.value.idempotency_key
    assert keys[0] in text
    assert "pay(" in text
    assert "order=17" in text
    assert "ann" in text
    assert not any(secret in text for secret in ("k-123456789", "hunter2", "sk-ant-api03-x"))
    assert set(caught.value.arguments) == {"order", "api_key", "notes", "text"}
    assert len(caught.value.arguments["text"]) <= 250


async def test_a_doubt_about_an_end_that_a_person_has_decided_is_over_when_the_call_returns(
    tmp_path: Path,
) -> None:
    class Person:
        async def ask(self, question: Any) -> object:
            return True

        async def approve(self, request: Any) -> None:
            raise AssertionError

    @nh.once
    async def pay() -> None:
        pass

    async def program() -> int:
        await pay()
        return len(committed)

    with opened(tmp_path) as store:
        await live(store, no_model(), program)
        change_tables(tmp_path, "DELETE FROM records WHERE kind = 'result'")
        committed.clear()
        executor = nh.AgentStepExecutor.from_model(shouting())
        async with nh.run(executor, journal=store, run_id="run-1", human=Person()):
            assert await program() == 1
