"""Calls on workers in runs with a journal: what is recorded below a call is found again."""

import itertools
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async import parallel
from nighthawk_async.actors import Pool
from nighthawk_async.distributed import WorkerLostError, journal_writers
from nighthawk_async.distributed.services import CallChannel
from nighthawk_async.journal import (
    CallInDoubtError,
    JournalDivergenceError,
    JournalError,
    JournalIdentityError,
    JournalIdentityWarning,
    JournalStore,
    store_thread,
)
from nighthawk_async.journal.parts import PartEnd
from nighthawk_async.journal.recorder import RunRecorder
from tests import durable_worker_functions as functions
from tests.durable_worker_functions import NotingModel, effects_in
from tests.in_memory_workers import InMemoryWorkers
from tests.unit.journal.durable_runs import opened

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["program", "store"], autouse=True)
def way(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The way of records: through the program to a file, or from workers to a server themselves."""
    if request.param == "store":
        server = request.getfixturevalue("postgresql")
        monkeypatch.setenv("NIGHTHAWK_JOURNAL", server.address_of(tmp_path))
    return request.param


Program = Callable[[parallel.Placement | None], Awaitable[Any]]

ITEMS = ("a", "b", "c")


async def live(
    folder: Path, store: Any, program: Program, on: parallel.Placement | None = None, **options: Any
) -> Any:
    """One life of the run; on workers of its own unless a placement is given."""
    executor = nh.AgentStepExecutor.from_model(NotingModel(str(folder)))
    options = {"run_id": "run-1", **options}
    if on is not None:
        async with nh.run(executor, journal=store, **options):
            return await program(on)
    async with InMemoryWorkers(2) as workers, nh.run(executor, journal=store, **options):
        return await program(workers)


async def live_here(folder: Path, store: Any, program: Program) -> Any:
    """One life of the run without workers."""
    executor = nh.AgentStepExecutor.from_model(NotingModel(str(folder)))
    async with nh.run(executor, journal=store, run_id="run-1"):
        return await program(None)


def mapped(folder: Path, function: Callable[[Any], Awaitable[Any]]) -> Program:
    """A program that calls a function for each item."""
    jobs = [(str(folder), item) for item in ITEMS]
    return lambda on: parallel.map(function, jobs, on=on)


async def eventually(path: Path) -> None:
    """Wait for what a worker does."""
    with anyio.fail_after(240):
        while not await anyio.Path(path).exists():  # noqa: ASYNC110
            await anyio.sleep(0.001)


async def lose_worker_of_call(
    workers: InMemoryWorkers, folder: Path, store: JournalStore, kind: str = "result"
) -> None:
    """Lose the worker that waits, when a record of a kind has arrived."""
    await eventually(folder / "waiting")
    with anyio.fail_after(240):
        while all(record.kind != kind for record in store.records("run-1")):  # noqa: ASYNC110
            await anyio.sleep(0.001)
    (name,) = workers.workers
    workers.lose(name)


FUNCTIONS: list[Callable[[Any], Awaitable[Any]]] = [
    functions.handle,
    functions.try_two,
    functions.charge_two,
    functions.stamp_in_thread,  # type: ignore[list-item]
    functions.extract_one,
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda each: each.__name__)
async def test_lives_with_and_without_workers_find_the_same_records(
    tmp_path: Path, function: Callable[[Any], Awaitable[Any]]
) -> None:
    program = mapped(tmp_path, function)
    with opened(tmp_path) as store:
        result = await live(tmp_path, store, program)
        effects, records = effects_in(tmp_path), len(store.records("run-1"))
        assert len(effects) >= len(ITEMS)
        assert await live_here(tmp_path, store, program) == result
        assert await live(tmp_path, store, program) == result
        assert effects_in(tmp_path) == effects
        assert {record.kind for record in store.records("run-1")[records:]} <= {"life", "unhandled"}


async def test_a_call_that_is_placed_again_finds_what_was_recorded(tmp_path: Path) -> None:
    job = (str(tmp_path), "a")
    with opened(tmp_path) as store:
        async with InMemoryWorkers(1) as workers, anyio.create_task_group() as group:
            group.start_soon(lose_worker_of_call, workers, tmp_path, store)
            program: Program = lambda on: parallel.map(functions.charge_then_die_once, [job], on=on)  # noqa: E731
            result = await live(tmp_path, store, program, workers)
        assert effects_in(tmp_path) == ["charged a"] * 2  # one for each of its two places
        assert await live(tmp_path, store, program) == result
        assert await live_here(tmp_path, store, program) == result
    assert len(effects_in(tmp_path)) == 2


async def test_an_effect_whose_worker_was_lost_is_in_doubt(tmp_path: Path) -> None:
    job = (str(tmp_path), "a")
    with opened(tmp_path) as store:
        async with InMemoryWorkers(1) as workers, anyio.create_task_group() as group:
            group.start_soon(lose_worker_of_call, workers, tmp_path, store, "intent")
            with pytest.raises(
                CallInDoubtError, match=r"run/map\[0\]/item\[0\]/charge_in_doubt|charge_slowly"
            ):
                await live(
                    tmp_path, store, lambda on: parallel.map(functions.charge_in_doubt, [job], on=on), workers
                )
    assert effects_in(tmp_path) == ["charged a"]


async def test_an_object_that_nobody_knows_warns_once_on_a_worker(tmp_path: Path) -> None:
    program = mapped(tmp_path, functions.store_item)
    with opened(tmp_path) as store:
        with pytest.warns(
            JournalIdentityWarning, match=r"<session> of the call.*Session.*identity="
        ) as caught:
            await live(tmp_path, store, program)
        assert len(caught) == 1  # of three calls, each with a journal of its own
        await live(tmp_path, store, program)  # nothing is new


async def test_a_strict_store_refuses_such_an_object_on_a_worker(tmp_path: Path) -> None:
    job = (str(tmp_path), "a")
    with opened(tmp_path, strict=True) as store:
        with pytest.raises(JournalIdentityError, match="Session") as refused:
            await live(tmp_path, store, lambda on: parallel.map(functions.store_item, [job], on=on))
        assert "store_in()[0]" in refused.value.place
        assert [record for record in store.records("run-1") if record.kind == "intent"] == []
    assert effects_in(tmp_path) == []


async def test_errors_that_the_program_handled_are_raised_again(tmp_path: Path) -> None:
    async def program(on: parallel.Placement | None) -> list[str]:
        settled = await parallel.settle(functions.fail, [(str(tmp_path), item) for item in ITEMS], on=on)
        found = [repr(error) for error in settled.errors()]
        return [*found, await functions.charge(str(tmp_path), "end")]

    with opened(tmp_path) as store:
        result = await live(tmp_path, store, program)
        effects = effects_in(tmp_path)
        assert (
            await live(tmp_path, store, program)
            == result
            == [*(f"RefusedError('{i}')" for i in ITEMS), result[-1]]
        )
        assert await live_here(tmp_path, store, program) == result
    assert effects_in(tmp_path) == effects
    assert len(effects) == 4


async def test_an_error_that_ended_a_life_is_met_anew(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        for _ in range(2):
            with pytest.raises(functions.RefusedError):
                await live(
                    tmp_path, store, lambda on: parallel.map(functions.fail, [(str(tmp_path), "a")], on=on)
                )
        marks = [record.kind for record in store.records("run-1")]
        tree = nh.observe.view_as_text(store.tree("run-1").snapshot())
    assert effects_in(tmp_path) == ["refused a"]  # nobody can say that it did not happen
    assert "refuse" in tree
    assert "result" in marks


async def test_lost_workers_are_recorded_where_the_program_goes_on(tmp_path: Path) -> None:
    async def program(on: parallel.Placement | None) -> list[str]:
        settled = await parallel.settle(functions.charge_then_wait, [(str(tmp_path), "a")], on=on)
        return [type(settled.errors()[0]).__name__, await functions.charge(str(tmp_path), "end")]

    with opened(tmp_path) as store:
        async with InMemoryWorkers(1, max_placements=1) as workers, anyio.create_task_group() as group:
            group.start_soon(lose_worker_of_call, workers, tmp_path, store)
            result = await live(tmp_path, store, program, workers)
        assert result[0] == WorkerLostError.__name__
        assert await live(tmp_path, store, program) == result
    assert effects_in(tmp_path) == ["charged a", "charged end"]


async def test_calls_of_one_task_have_places_of_their_own(tmp_path: Path) -> None:
    async def program(on: parallel.Placement | None) -> list[str]:
        assert on is not None
        first = await functions.charge(str(tmp_path), "here")
        second = [await parallel.call_placed(on, functions.charge, str(tmp_path), item) for item in ITEMS]
        async with Pool(max_concurrent=2, placement=on) as pool, nh.open_tasks(on=on) as tasks:
            job = await pool.submit(functions.charge, str(tmp_path), "pool")
            task = tasks.start(functions.charge, str(tmp_path), "task")
            return [first, *second, await job, await task]

    with opened(tmp_path) as store:
        result = await live(tmp_path, store, program)
        assert await live(tmp_path, store, program) == result
    assert len(set(result)) == len(result) == 6
    assert len(effects_in(tmp_path)) == 6


async def test_a_race_on_workers_has_the_same_winner_in_every_life(tmp_path: Path) -> None:
    jobs = [(str(tmp_path), item) for item in ITEMS]
    program: Program = lambda on: parallel.race(functions.handle, jobs, on=on)  # noqa: E731
    with opened(tmp_path) as store:
        result = await live(tmp_path, store, program)
        effects = effects_in(tmp_path)
        assert await live(tmp_path, store, program) == result
    assert effects_in(tmp_path) == effects


async def test_a_deadline_around_a_call_expires_in_every_life(tmp_path: Path) -> None:
    """A busy machine may need more seconds for the effect before it expires."""
    for seconds in (0.5, 5.0, 30.0):
        folder = tmp_path / str(seconds)
        folder.mkdir()

        async def program(
            on: parallel.Placement | None, seconds: float = seconds, folder: Path = folder
        ) -> str:
            try:
                async with nh.deadline(seconds):
                    await parallel.map(functions.charge_then_wait, [(str(folder), "a")], on=on)
            except TimeoutError:
                return await functions.charge(str(folder), "late")
            return "in time"

        with opened(tmp_path) as store:
            result = await live(folder, store, program, run_id=folder.name)
            assert result.startswith("late ")
            if not (folder / "waiting").exists():
                continue
            assert await live(folder, store, program, run_id=folder.name) == result
        assert effects_in(folder) == ["charged a", "charged late"]
        return
    pytest.fail("no deadline was long enough for the effect")


async def test_people_answer_calls_on_workers_through_the_store(tmp_path: Path) -> None:
    program: Program = lambda on: parallel.map(  # noqa: E731
        functions.ask_through_store, [(str(tmp_path), "a")], on=on
    )
    results: list[Any] = []
    with opened(tmp_path) as store:

        async def answer() -> None:
            for _ in range(2):
                with anyio.fail_after(240):
                    while not (questions := store.questions("run-1")):  # noqa: ASYNC110
                        await anyio.sleep(0.001)
                if questions[0].kind == "question":
                    await store.answer(questions[0].id, "blue")
                    while store.questions("run-1")[:1] == questions[:1]:  # noqa: ASYNC110
                        await anyio.sleep(0.001)
                else:
                    digest = questions[0].content["digest"]
                    await store.vote(questions[0].id, approve=True, voter="ann", digest=digest)

        async with anyio.create_task_group() as group:
            group.start_soon(answer)
            results.append(await live(tmp_path, store, program))
        assert results == [["blue ship a"]]
        assert await live(tmp_path, store, program) == results[0]


class LosesFirst:
    """People: the worker that asks is lost while they think for the first time."""

    def __init__(self, workers: InMemoryWorkers) -> None:
        self.asked: list[str] = []
        self._workers = workers

    async def ask(self, question: nh.human.Question) -> object:
        self.asked.append(question.id)
        if len(self.asked) == 1:
            (name,) = self._workers.workers
            self._workers.lose(name)
            await anyio.sleep_forever()
        await anyio.lowlevel.checkpoint()
        return "blue"

    async def approve(self, request: nh.human.ApprovalRequest) -> None:
        raise AssertionError


async def test_a_question_of_a_lost_worker_is_asked_again_under_its_id(tmp_path: Path) -> None:
    program: Program = lambda on: parallel.map(functions.ask_handler, ["a"], on=on)  # noqa: E731
    with opened(tmp_path) as store:
        async with InMemoryWorkers(1) as workers:
            people = LosesFirst(workers)
            assert await live(tmp_path, store, program, workers, human=people) == ["blue"]
        first, second = people.asked
        assert first == second
        assert await live(tmp_path, store, program, human=people) == ["blue"]
        assert people.asked == [first, second], "no later life asks"


async def test_messages_are_received_in_the_program(tmp_path: Path) -> None:
    with opened(tmp_path) as store, pytest.raises(JournalError, match="receive them in the program"):
        await live(tmp_path, store, lambda on: parallel.map(functions.receive_something, ["a"], on=on))


async def test_a_replay_makes_the_calls_here(tmp_path: Path) -> None:
    program = mapped(tmp_path, functions.handle)
    with opened(tmp_path) as store:
        result = await live(tmp_path, store, program)
        effects = effects_in(tmp_path)
        with nh.journal.replay(store, "run-1"):
            async with InMemoryWorkers(2) as workers:
                assert await live(tmp_path, store, program, workers) == result
                assert workers.workers == ()
    assert effects_in(tmp_path) == effects


async def test_a_run_with_calls_on_workers_can_be_forked_and_shown(tmp_path: Path) -> None:
    program = mapped(tmp_path, functions.handle)
    with opened(tmp_path) as store:
        await live(tmp_path, store, program)
        tree = nh.observe.view_as_text(store.tree("run-1").snapshot(), outputs=True)
        fork = store.fork("run-1", at="run/map[0]/item[1]/charge()[1]")
        executor = nh.AgentStepExecutor.from_model(NotingModel(str(tmp_path)))
        async with InMemoryWorkers(2) as workers, nh.run(executor, journal=store, run_id=fork):
            await program(workers)
    assert tree.count("charge") >= 6
    assert "noting:model" in tree
    assert effects_in(tmp_path).count("charged b") == 1
    assert effects_in(tmp_path).count("charged b again") == 2


async def test_keys_stay_in_the_program(tmp_path: Path) -> None:
    program = mapped(tmp_path, functions.handle)
    options = {"keys": {"first": b"k" * 32}, "audit_key": b"a" * 32}
    with opened(tmp_path, **options) as store:
        result = await live(tmp_path, store, program)
        assert await live(tmp_path, store, program) == result
        store.verify("run-1")
    assert len(effects_in(tmp_path)) == 12


async def test_a_synchronous_effect_on_the_loop_of_a_worker_in_memory_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path) as store, pytest.raises(JournalError, match="Nothing was begun"):
        await live(
            tmp_path,
            store,
            lambda on: parallel.map(functions.stamp_directly, [(str(tmp_path), "a")], on=on),
        )
    assert effects_in(tmp_path) == []


async def test_a_limit_that_expired_ends_a_call_at_the_first_thing_that_is_new(tmp_path: Path) -> None:
    """A busy machine may need more seconds for what comes before the limit expires."""
    for seconds in (0.3, 3.0, 30.0):
        folder = tmp_path / str(seconds)
        folder.mkdir()
        limit = [seconds]

        async def program(
            on: parallel.Placement | None, folder: Path = folder, limit: list[float] = limit
        ) -> str:
            try:
                async with nh.deadline(limit[0]):
                    await parallel.map(functions.charge_twice_or_wait, [(str(folder), "a")], on=on)
            except TimeoutError:
                return await functions.charge(str(folder), "end")
            return "in time"

        (folder / "slow").touch()
        with opened(tmp_path) as store:
            result = await live(folder, store, program, run_id=folder.name)
            if effects_in(folder) == ["charged end"]:
                continue  # the limit had expired before the first effect
            (folder / "slow").unlink()
            limit[0] = 10_000.0
            with anyio.fail_after(240):
                assert await live(folder, store, program, run_id=folder.name) == result
        assert effects_in(folder) == ["charged a", "charged end"]
        return
    pytest.fail("no attempt was long enough for the first effect")


async def test_a_run_is_not_parked_while_a_call_is_on_a_worker(tmp_path: Path) -> None:
    async def program(on: parallel.Placement | None) -> str:
        assert on is not None
        async with nh.open_tasks() as tasks:
            sleeping = tasks.start(partial(nh.journal.sleep, seconds=0.1), name="sleep")
            result: str = await parallel.call_placed(on, functions.sleep_briefly, (str(tmp_path), "a"))
            await sleeping
            return result

    with opened(tmp_path) as store:
        assert await live(tmp_path, store, program, park_after=0.01) == "a"


async def test_each_placement_may_meet_an_error_of_its_own(tmp_path: Path) -> None:
    job = (str(tmp_path), "a")
    with opened(tmp_path) as store:
        async with InMemoryWorkers(1) as workers, anyio.create_task_group() as group:
            group.start_soon(lose_worker_of_call, workers, tmp_path, store)
            program: Program = lambda on: parallel.map(  # noqa: E731
                functions.be_lost_with_an_open_error, [job], on=on
            )
            result = await live(tmp_path, store, program, workers)
        effects = effects_in(tmp_path)
        assert await live(tmp_path, store, program) == result
        assert await live_here(tmp_path, store, program) == result
    assert effects_in(tmp_path) == effects == ["charged a", "tried a", "tried a"]


async def test_calls_on_workers_make_calls_on_further_workers(tmp_path: Path) -> None:
    program = mapped(tmp_path, functions.place_further)
    with opened(tmp_path) as store:
        result = await live(tmp_path, store, program)
        effects = effects_in(tmp_path)
        assert await live(tmp_path, store, program) == result
    assert effects_in(tmp_path) == effects
    assert len(effects) == 24


async def test_an_effect_asks_whether_the_run_is_still_held_when_the_lease_may_have_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hours = itertools.count(0.0, 3_600.0)
    for module in (journal_writers, store_thread):
        monkeypatch.setattr(module, "lease_clock", hours.__next__)
    asked: list[bool] = []
    hold = RunRecorder.__init__

    def note_holds(self: RunRecorder, **options: Any) -> None:
        hold(self, **options)
        own = self.hold
        self.hold = lambda: asked.append(True) or own()

    monkeypatch.setattr(RunRecorder, "__init__", note_holds)
    with opened(tmp_path) as store:
        await live(tmp_path, store, mapped(tmp_path, functions.charge_two))
    assert len(asked) >= 2 * len(effects_in(tmp_path))  # on the worker, and by it in the program


async def test_a_thread_that_a_call_has_left_behind_records_nothing_more() -> None:
    told: list[bytes] = []
    writer = journal_writers.ProgramWriter(
        cast("CallChannel", SimpleNamespace(tell=lambda _, body: told.append(body)))
    )
    waiting = writer.append([])
    await writer.close(PartEnd)
    with pytest.raises(JournalError, match="has ended"):
        writer.append([])
    with pytest.raises(JournalError, match="has ended"):
        await waiting.wait()


async def test_a_life_that_diverged_on_a_worker_counts_for_nothing(tmp_path: Path) -> None:
    def shouting_before(word: str, item: str, *, crashes: bool = False) -> Program:
        async def program(on: parallel.Placement | None) -> list[str]:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(functions.shout, word)
            results = await parallel.map(functions.handle, [(str(tmp_path), item)], on=on)
            if crashes:
                raise SystemError
            return results

        return program

    with opened(tmp_path) as store:
        with pytest.raises(SystemError):
            await live(tmp_path, store, shouting_before("ann", "a", crashes=True))
        charged = [each for each in effects_in(tmp_path) if each.startswith("charged")]
        with pytest.raises(JournalDivergenceError):
            await live(tmp_path, store, shouting_before("carl", "b"))
        assert await live(tmp_path, store, shouting_before("ann", "a"))
    assert [each for each in effects_in(tmp_path) if each.startswith("charged")] == charged
