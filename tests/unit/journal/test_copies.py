"""Copies of runs, and tests that are made of them."""

import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import nighthawk_async as nh
from nighthawk_async.errors import NighthawkError
from nighthawk_async.journal import JournalDivergenceError, JournalError, ReplayEndError
from nighthawk_async.testing import ModelResponse, replay

from .durable_runs import AnsweringModel, assigning, opened, shout

pytestmark = pytest.mark.anyio

SECRET = "sk-proj-0123456789abcdef0123"


@nh.once
async def log_in(name: str) -> dict[str, Any]:
    """An effect that returns a secret."""
    return {"name": name, "password": "hunter2", "when": (1, 2), "note": SECRET}


async def handle() -> list[str]:
    session = await log_in("ann")
    return [await shout(session["name"]), str(session["when"])]


async def with_secret() -> list[str]:
    session = await log_in("ann")
    return [await shout(session["password"])]


async def live(store: Any, program: Callable[[], Awaitable[Any]], *, is_live: bool = False) -> Any:
    """A program that begins a run of its own, as in production."""

    def answer(prompt: str, turn: int) -> ModelResponse:
        assert is_live, "no model is needed"
        return assigning("loud", "word.upper()")

    executor = nh.AgentStepExecutor.from_model(AnsweringModel(answer))
    async with nh.run(executor, journal=store, run_id="order-17"):
        return await program()


@pytest.mark.usefixtures("database")
async def test_a_copied_run_is_a_test(tmp_path: Path) -> None:
    file = tmp_path / "order-17.journal"
    with opened(tmp_path) as store:
        result = await live(store, handle, is_live=True)
        store.copy("order-17", file)
        records = store.records("order-17")
        with pytest.raises(NighthawkError, match="exists already"):
            store.copy("order-17", file)
        with pytest.raises(NighthawkError, match="no run 'order-18'"):
            store.copy("order-18", tmp_path / "other.journal")
        assert not (tmp_path / "other.journal").exists()
        content = file.read_bytes()
        file.chmod(0o444)
        with replay(file):
            assert await live(store, handle) == result
        async with replay(store, "order-17"):
            assert await live(store, handle) == result
        assert store.records("order-17") == records
    assert file.read_bytes() == content
    assert [each for each in os.listdir(tmp_path) if each.startswith("order")] == ["order-17.journal"]
    assert b"hunter2" not in content
    assert SECRET.encode() not in content


async def test_a_changed_program_fails_the_test(tmp_path: Path) -> None:
    async def other_word() -> None:
        session = await log_in("ann")
        await shout(session["name"] + "!")

    async def less() -> None:
        await log_in("ann")

    async def more() -> None:
        await handle()
        await shout("ann")

    async def nothing() -> None:
        pass

    with opened(tmp_path) as store:
        await live(store, handle, is_live=True)
        for changed, error, text in [
            (other_word, JournalDivergenceError, r"run/shout\(\)\[0\]/shout#1\[0\].*<word>"),
            (less, JournalDivergenceError, r"shout\(\)\[0\] there too"),
            (more, ReplayEndError, r"run/shout\(\)\[1\]"),
            (nothing, JournalDivergenceError, r"log_in\(\)\[0\] there too"),
        ]:
            with pytest.raises(error, match=text), replay(f"sqlite:///{tmp_path}/runs.db"):
                await live(store, changed)
        with pytest.raises(JournalError, match="begun no run"), replay(store):
            pass


async def test_a_difference_may_come_from_a_replaced_secret(tmp_path: Path) -> None:
    file = tmp_path / "order-17.journal"
    with opened(tmp_path) as store:
        await live(store, with_secret, is_live=True)
        store.copy("order-17", file)
        with replay(store):
            assert await live(store, with_secret) == ["HUNTER2"]
        with pytest.raises(JournalDivergenceError) as error, replay(file):
            await live(store, with_secret)
    assert error.value.__notes__ == [
        "Secrets in these records were replaced by [redacted], which may be the difference: run/log_in()[0]"
    ]


async def test_texts_to_remove(tmp_path: Path) -> None:
    file = tmp_path / "order-17.journal"
    with opened(tmp_path) as store:
        await live(store, handle, is_live=True)
        store.copy("order-17", file, redact=(lambda text: text.replace("ann", "bob"),))
        with pytest.raises(JournalDivergenceError, match="<word>"), replay(file):
            await live(store, handle)
        exported = [json.loads(line) for line in store.export("order-17")]
    assert exported[2]["content"]["value"]["name"] == "ann"


async def test_which_run(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        await live(store, handle, is_live=True)
        store.fork("order-17", at="run/shout()[0]")
        with pytest.raises(NighthawkError, match="order-17, order-17-fork-1"):
            replay(store)
    with pytest.raises(NighthawkError, match="No such file"):
        replay(tmp_path / "missing.journal")


async def test_nothing_is_left_of_a_copy_that_failed(tmp_path: Path) -> None:
    def fail(text: str) -> str:
        raise ValueError("no redaction")

    with opened(tmp_path) as store:
        await live(store, handle, is_live=True)
        with pytest.raises(JournalError, match="no redaction"):
            store.copy("order-17", tmp_path / "order-17.journal", redact=(fail,))
        with pytest.raises(JournalError, match="cannot be opened"):
            store.copy("order-17", tmp_path / "missing" / "order-17.journal")
    assert sorted(os.listdir(tmp_path)) == ["runs.db", "runs.db-mark"]
