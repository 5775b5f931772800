"""`JournalStoreContract`: what a store of journals promises, as tests."""

from abc import abstractmethod
from pathlib import Path
from typing import ClassVar

import anyio

from ...errors import NighthawkError
from ...journal import JournalStore, RunInProgressError, Worker, receive
from ...journal.effects import once
from ...runs import run
from .promises import Contract, broken, check, in_time
from .steps import AddingModel, add_up

_RUN = "contract-run"


class JournalStoreContract(Contract):
    """The promises of a `JournalStore`. Derive from it, and say how to open the store.

        class TestOurDatabase(JournalStoreContract):
            def open_store(self, folder: Path) -> nh.journal.JournalStore:
                return nh.journal.open(f"postgresql://…/{new_or_known_database_of(folder)}")

    It shows whether a database, a disk or a proxy in front of a database keeps runs as it should, or a class
    derived from `JournalStore`.

    Attributes:
        calls: The number of calls that a test enqueues for two workers.
    """

    calls: ClassVar[int] = 6

    @abstractmethod
    def open_store(self, folder: Path) -> JournalStore:
        """Open the store of a folder: an empty one at first, and again with the same folder the same one."""
        raise NotImplementedError

    async def test_a_run_continues_in_another_store_object(self, tmp_path: Path) -> None:
        """A later life of a run, with the store opened anew, gets the recorded answers, and asks no model."""
        with self.open_store(tmp_path) as store:
            first = await self._live(store)
        with self.open_store(tmp_path) as store:
            second = await self._live(store)
        did = f"both lives gave {first[0]!r} and {second[0]!r}, after {first[1]} and {second[1]} requests"
        check(first == (42, 2) and second == (42, 0), did)

    async def test_an_effect_happens_once_in_all_lives(self, tmp_path: Path) -> None:
        """A call of a `once` function that has ended is not made again, although its run has failed."""
        paid: list[str] = []

        @once
        async def pay(name: str) -> str:
            paid.append(name)
            return f"paid {name}"

        for is_failing in (True, False):
            found: list[str] = []
            with self.open_store(tmp_path) as store:
                try:
                    async with run(AddingModel(), journal=store, run_id=_RUN):
                        found.append(await pay("Ada"))
                        if is_failing:
                            raise InterruptedError
                except InterruptedError:
                    pass
            check(found == ["paid Ada"], f"a life has got {found!r}")
        check(paid == ["Ada"], f"it was made {len(paid)} times")

    async def test_records_are_those_that_were_written(self, tmp_path: Path) -> None:
        """Every store object has the same runs and records, and the chain of the records is whole."""
        with self.open_store(tmp_path) as store:
            await self._live(store)
            rows, records = store.runs(), store.records(_RUN)
            with self.open_store(tmp_path) as other:
                is_same = (other.runs(), other.records(_RUN)) == (rows, records)
            check(is_same and records, f"another store object has other rows than {rows!r}, or other records")
            check([row.status for row in rows] == ["ended"], f"the rows of its runs are {rows!r}")
            verified = store.verify()
        check(len(verified) == 1, f"it has verified {verified!r}")

    async def test_a_run_is_open_once(self, tmp_path: Path) -> None:
        """While one store object works on a run, another one raises a RunInProgressError."""
        caught: Exception | None = None
        with self.open_store(tmp_path) as store, self.open_store(tmp_path) as other:
            async with run(AddingModel(), journal=store, run_id=_RUN):
                try:
                    await self._live(other)
                except Exception as error:
                    caught = error
        check(isinstance(caught, RunInProgressError), f"it raised {caught!r}")

    async def test_runs_share_a_store(self, tmp_path: Path) -> None:
        """Runs at the same time have nothing of each other."""
        found: dict[int, int] = {}

        async def live(number: int) -> None:
            async with run(AddingModel(), journal=store, run_id=f"run-{number}"):
                found[number] = await add_up([number, 100])

        with self.open_store(tmp_path) as store:
            async with anyio.create_task_group() as group:
                for number in range(6):
                    group.start_soon(live, number)
        expected = {number: number + 100 for number in range(6)}
        check(found == expected, f"numbers and their sums with 100 were {found!r}")

    async def test_a_message_is_received_once(self, tmp_path: Path) -> None:
        """Messages are received in the order of sending, each once in all lives; an equal id counts once."""
        received: list[object] = []
        with self.open_store(tmp_path) as store:
            for value, id in (("a", "1"), ("a", "1"), ("b", "2")):
                await store.send(_RUN, "letters", value, id=id)
        for lives in (1, 2):
            with self.open_store(tmp_path) as store:
                async with run(AddingModel(), journal=store, run_id=_RUN):
                    for _ in range(lives):
                        received.append(await receive("letters", timeout=self.patience_seconds))
        check(received == ["a", "a", "b"], f"two lives have received {received!r}")

    async def test_a_queued_call_is_made_once(self, tmp_path: Path) -> None:
        """Each call in a queue is made by one of its workers, and a key counts once."""
        with self.open_store(tmp_path) as store, self.open_store(tmp_path) as other:
            model = AddingModel()
            for number in (*range(self.calls), *range(self.calls)):
                await store.enqueue(add_up, [number, 100], key=f"call-{number}")
            found: list[object] = []
            ended = in_time(self.patience_seconds, "the calls had not ended")
            async with ended, anyio.create_task_group() as group:
                for each in (store, other):
                    group.start_soon(_worker(each, model).serve)
                for number in range(self.calls):
                    found.append(await store.result(f"call-{number}"))
                group.cancel_scope.cancel()
        check(found == [number + 100 for number in range(self.calls)], f"the results were {found!r}")
        asked = len(model.requests)
        check(asked == 2 * self.calls, f"{self.calls} calls of two requests each made {asked} requests")

    def test_it_works_on_both_event_loops(self, tmp_path: Path) -> None:
        """A run that began on asyncio continues on Trio, with the same store object."""
        found: list[tuple[int, int]] = []
        with self.open_store(tmp_path) as store:
            for backend in ("asyncio", "trio"):
                try:
                    found.append(anyio.run(self._live, store, backend=backend))
                except Exception as error:
                    broken(f"on {backend}, it raised {error!r}")
        check(found == [(42, 2), (42, 0)], f"results and requests of both lives were {found!r}")

    def test_it_is_closed_again_without_effect(self, tmp_path: Path) -> None:
        """Closing a store again has no effect, and a store that is not there yet has no runs."""
        store = self.open_store(tmp_path)
        try:
            rows = store.runs()
        finally:
            store.close()
        check(rows == [], f"a new store has the runs {rows!r}")
        store.close()

    async def test_an_unknown_run_is_an_error(self, tmp_path: Path) -> None:
        """A run that the store has not has no records, and its tree cannot be shown."""
        with self.open_store(tmp_path) as store:
            records = store.records("no-such-run")
            check(not records, f"a run that is not there has the records {records!r}")
            try:
                store.tree("no-such-run")
            except NighthawkError:
                return
        broken("it has shown the tree of a run that is not there")

    async def _live(self, store: JournalStore) -> tuple[int, int]:
        """One life of a run: the sum of 19 and 23, and the number of requests that were made for it."""
        model = AddingModel()
        async with run(model, journal=store, run_id=_RUN):
            return await add_up([19, 23]), len(model.requests)
        raise AssertionError("unreachable")


def _worker(store: JournalStore, model: AddingModel) -> Worker:
    return Worker(store, [add_up], run=lambda run_id: run(model, journal=store, run_id=run_id))
