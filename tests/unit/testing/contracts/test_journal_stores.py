"""Both databases keep the promises of stores, and each broken store is found."""

import re
import shutil
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.journal import JournalStore
from nighthawk_async.testing.contracts import JournalStoreContract
from tests.unit.journal.conftest import postgresql_server
from tests.unit.journal.postgresql_server import PostgresqlServer

from .suites import broken_promises, promises_of

__all__ = ["postgresql_server"]


def open_sqlite(folder: Path, kind: type[JournalStore] = JournalStore) -> JournalStore:
    store = nh.journal.open(f"sqlite:///{folder}/runs.db")
    store.__class__ = kind
    return store


class TestSqlite(JournalStoreContract):
    def open_store(self, folder: Path) -> JournalStore:
        return open_sqlite(folder)


class TestEncrypted(JournalStoreContract):
    def open_store(self, folder: Path) -> JournalStore:
        return nh.journal.open(f"sqlite:///{folder}/runs.db", keys={"k": bytes(32)}, audit_key=bytes(32))


class TestPostgresql(JournalStoreContract):
    @pytest.fixture(autouse=True)
    def _serving(self, postgresql_server: PostgresqlServer) -> Iterator[None]:
        self.server = postgresql_server
        yield
        postgresql_server.clear()

    def open_store(self, folder: Path) -> JournalStore:
        return nh.journal.open(self.server.address_of(folder))


numbers = count()


def open_another(folder: Path) -> JournalStore:
    """A store that is another one each time."""
    return nh.journal.open(f"sqlite:///{folder}/runs-{next(numbers)}.db")


def open_copy(folder: Path) -> JournalStore:
    """A store that begins as a copy of the last one, as if two programs wrote files of their own."""
    number = next(numbers)
    for each in folder.glob("last.db*"):
        shutil.copy(each, folder / each.name.replace("last", str(number)))
    return nh.journal.open(f"sqlite:///{folder}/{number}.db")


class IgnoresIds(JournalStore):
    async def send(self, run_id: str, name: str, value: object, *, id: str | None = None) -> None:
        await super().send(run_id, name, value)


class IgnoresKeys(JournalStore):
    async def enqueue(self, function: Any, /, *args: Any, **options: Any) -> str:
        run_id = await super().enqueue(function, *args, **options)
        await super().enqueue(function, *args, **{**options, "key": f"{run_id}-{next(numbers)}"})
        return run_id


class MixesRuns(JournalStore):
    def open_run(self, run_id: str, park_after: float | None = None) -> Any:
        return super().open_run("the only one", park_after)


class BoundToALoop(JournalStore):
    token: Any = None

    def open_run(self, run_id: str, park_after: float | None = None) -> Any:
        token = anyio.lowlevel.current_token()
        self.token = self.token or token
        assert self.token == token, "another event loop"
        return super().open_run(run_id, park_after)


class ClosesOnce(JournalStore):
    is_closed = False

    def close(self) -> None:
        assert not self.is_closed, "closed before"
        self.is_closed = True
        super().close()


class ShowsEverything(JournalStore):
    def tree(self, run_id: str, *, at: str | None = None) -> Any:
        return None


def opening(kind: type[JournalStore]) -> Callable[[Path], JournalStore]:
    return lambda folder: open_sqlite(folder, kind)


BROKEN: list[tuple[str, Callable[[Path], JournalStore], str, str]] = [
    ("another", open_another, "test_a_run_continues_in_another_store_object", "after 2 and 2 requests"),
    ("another", open_another, "test_an_effect_happens_once_in_all_lives", "it was made 2 times"),
    ("another", open_another, "test_records_are_those_that_were_written", "another store object has other"),
    ("copy", open_copy, "test_a_run_is_open_once", "it raised None"),
    ("runs", opening(MixesRuns), "test_runs_share_a_store", "sub-exceptions?"),
    ("ids", opening(IgnoresIds), "test_a_message_is_received_once", "received .'a', 'a', 'a'"),
    ("keys", opening(IgnoresKeys), "test_a_queued_call_is_made_once", "calls of two requests each made"),
    ("loop", opening(BoundToALoop), "test_it_works_on_both_event_loops", "on trio, it raised AssertionError"),
    ("close", opening(ClosesOnce), "test_it_is_closed_again_without_effect", "closed before"),
    ("tree", opening(ShowsEverything), "test_an_unknown_run_is_an_error", "it has shown the tree"),
]


@pytest.mark.parametrize(("what", "make", "test", "did"), BROKEN, ids=[each[2] for each in BROKEN])
def test_a_broken_store_is_found(
    what: str, make: Callable[[Path], JournalStore], test: str, did: str, tmp_path: Path
) -> None:
    class Suite(JournalStoreContract):
        patience_seconds = 10.0

        def open_store(self, folder: Path) -> JournalStore:
            return make(folder)

    found = broken_promises(Suite, only=test, tmp_path=tmp_path)
    assert re.search(did, found.get(test, ""), re.DOTALL), found


def test_each_promise_has_a_store_that_breaks_it() -> None:
    assert {each[2] for each in BROKEN} == promises_of(JournalStoreContract)
