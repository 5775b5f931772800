"""Names that a database cannot store: they are refused, and end no run of the store."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import nighthawk_async as nh
from nighthawk_async.errors import NighthawkError
from nighthawk_async.journal import JournalStore, JournalValueError
from tests.unit.journal.queue_jobs import note, ship_all, worker_of

from .durable_runs import live, opened, shout, shouting

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("database")]

Use = Callable[[JournalStore, str], Awaitable[Any]]


async def _at_once(function: Callable[[], object]) -> None:
    function()


USES: dict[str, Use] = {
    "send to": lambda store, name: store.send(name, "reply", "x"),
    "send in": lambda store, name: store.send("run-2", name, "x"),
    "send as": lambda store, name: store.send("run-2", "reply", "x", id=name),
    "receive": lambda store, name: nh.journal.receive(name),
    "enqueue as": lambda store, name: store.enqueue(note, 1, key=name),
    "enqueue in": lambda store, name: store.enqueue(note, 1, queue=name),
    "enqueue with": lambda store, name: store.enqueue(ship_all, **{name: 1}),
    "result": lambda store, name: store.result(name),
    "requeue": lambda store, name: store.requeue(name),
    "schedule": lambda store, name: store.schedule(name, note, 1, cron="0 3 * * *"),
    "schedule in": lambda store, name: store.schedule("a", note, 1, cron="0 3 * * *", queue=name),
    "schedule at": lambda store, name: store.schedule("a", note, 1, cron=f"0 3 * * {name}"),
    "schedule where": lambda store, name: store.schedule("a", note, 1, cron="0 3 * * *", timezone=name),
    "unschedule": lambda store, name: store.unschedule(name),
    "find values": lambda store, name: store.find_values(name, ("a",)),
    "records": lambda store, name: _at_once(lambda: store.records(name)),
    "tree": lambda store, name: _at_once(lambda: store.tree(name)),
    "questions": lambda store, name: _at_once(lambda: store.questions(name)),
    "verify": lambda store, name: _at_once(lambda: store.verify(name)),
    "fork": lambda store, name: _at_once(lambda: store.fork(name, at="run")),
    "fork to": lambda store, name: _at_once(lambda: store.fork("run-1", at="run/shout()[0]", to=name)),
    "worker": lambda store, name: _at_once(lambda: worker_of(store, note, queue=name)),
    "run": lambda store, name: live(store, shouting(), lambda: shout("a"), name),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.parametrize("name", ["a\0b", "a\ud800b"], ids=["NUL", "surrogate"])
async def test_a_name_that_cannot_be_stored_is_refused_and_a_run_beside_it_goes_on(
    tmp_path: Path, use: Use, name: str
) -> None:
    async def program() -> str:
        first = await shout("a")
        with pytest.raises(JournalValueError, match=r"(NUL|surrogate)"):
            await use(store, name)
        return first + await shout("b")

    with opened(tmp_path) as store:
        assert await live(store, shouting(), program) == "AB"
        assert [row.status for row in store.runs()] == ["ended"]
        assert store.queue_entries() == []


@pytest.mark.parametrize("text", ["a\ud800b"])
async def test_votes_and_answers_that_cannot_be_stored_are_refused(tmp_path: Path, text: str) -> None:
    async def program() -> str:
        first = await shout("a")
        with pytest.raises(JournalValueError):
            await store.vote("abc", approve=False, voter=text)
        with pytest.raises(JournalValueError):
            await store.vote("abc", approve=False, voter="ann", reason=text)
        with pytest.raises(JournalValueError):
            await store.answer("abc", text)
        with pytest.raises(NighthawkError, match="no question"):
            await store.answer(text, "b")
        return first + await shout("b")

    with opened(tmp_path) as store:
        assert await live(store, shouting(), program) == "AB"


async def test_a_refused_task_of_the_store_ends_no_run(tmp_path: Path) -> None:
    async def program() -> str:
        first = await shout("a")
        with pytest.raises(NighthawkError, match="there is no run 'unknown'"):
            store.fork("unknown", at="run")
        with pytest.raises(NighthawkError, match="there is a run 'run-1' already"):
            store.fork("run-1", at="run/shout()[0]", to="run-1")
        return first + await shout("b")

    with opened(tmp_path) as store:
        assert await live(store, shouting(), program) == "AB"
