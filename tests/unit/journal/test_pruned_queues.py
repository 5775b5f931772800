"""Pruning of calls in queues and of questions: nothing is made again, and nothing is lost that is needed."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import nighthawk_async as nh
from nighthawk_async.journal import JournalKeyError, JournalValueError, RunParked, RunPrunedError
from tests.unit.journal import queue_jobs
from tests.unit.journal.queue_jobs import Order, fail, note, serving, ship, worker_of

from .durable_runs import change, change_tables, live, opened, query, shouting

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("database")]

NOW = timedelta(0)
SECRET = "my secret word"
VOTER = "ann.of.the.accounts"
"""Long enough that random bytes do not contain it by chance."""
OLD, NEW = {"2026-05": b"o" * 32}, {"2026-11": b"n" * 32}


@pytest.fixture(autouse=True)
def _nothing_made() -> None:
    queue_jobs.made.clear()


async def test_a_pruned_call_is_not_made_again(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        await store.enqueue(note, 1, key="run-1")
        async with serving(worker_of(store, note)):
            await store.result("run-1")
            trial = store.prune(NOW, dry_run=True)
            report = store.prune(NOW)
            assert (trial.runs, trial.queue_entries) == (report.runs, report.queue_entries)
            assert (report.runs, report.queue_entries) == (("run-1",), 1)
            assert store.queue_entries() == []
            with pytest.raises(RunPrunedError, match="'run-1'"):
                await store.enqueue(note, 1, key="run-1")
            with pytest.raises(RunPrunedError, match="'run-1'"):
                await store.result("run-1")
            with pytest.raises(RunPrunedError, match="'run-1'"):
                await store.requeue("run-1")
            await store.result(await store.enqueue(note, 2))
        assert queue_jobs.made == [1, 2]


async def test_a_later_life_enqueues_nothing_that_was_pruned(tmp_path: Path) -> None:
    async def program() -> str:
        return await store.enqueue(note, 1)

    with opened(tmp_path) as store:
        run_id = await live(store, shouting(), program)
        async with serving(worker_of(store, note)):
            await store.result(run_id)
        change(store, "UPDATE runs SET status = 'parked' WHERE run_id = 'run-1'")
        assert store.prune(NOW).runs == (run_id,)
        assert await live(store, shouting(), program) == run_id
        assert store.queue_entries() == []


async def test_a_time_that_was_pruned_is_not_enqueued_again(tmp_path: Path) -> None:
    yesterday = datetime.now(UTC).timestamp() - 86_400
    with opened(tmp_path) as store:
        await store.schedule("nightly", note, 1, cron="0 3 * * *")
        for _ in range(2):
            change_tables(tmp_path, f"UPDATE schedules SET next_at = {yesterday}")
            async with serving(worker_of(store, note)):
                await store.result(await store.enqueue(note, 2))
            store.prune(NOW)
        assert sorted(queue_jobs.made, key=str) == [1, 2, 2]


@pytest.mark.parametrize("status", ["queued", "claimed", "parked"])
async def test_a_run_that_a_worker_has_still_to_serve_is_kept(tmp_path: Path, status: str) -> None:
    with opened(tmp_path) as store:
        await store.enqueue(fail, 1, key="run-1")
        async with serving(worker_of(store, fail)):
            with pytest.raises(LookupError):
                await store.result("run-1")
        change(store, "UPDATE queue_entries SET status = ?", status)
        assert store.prune(NOW, statuses=["failed"]).runs == ()
        change(store, "UPDATE queue_entries SET status = 'failed'")
        assert store.prune(NOW, statuses=["failed"]).runs == ("run-1",)


async def test_arguments_that_do_not_fit_are_an_error_of_a_run_that_can_be_pruned(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        await store.enqueue(note, 1, key="run-1")
        await store.enqueue(ship, Order(1, ()), key="other")
        ((arguments,),) = query(store, "SELECT arguments FROM queue_entries WHERE run_id = 'other'")
        change(store, "UPDATE queue_entries SET arguments = ? WHERE run_id = 'run-1'", arguments)
        async with serving(worker_of(store, note)):
            with pytest.raises(JournalValueError, match="the argument 'value'"):
                await store.result("run-1")
        assert [(run.run_id, run.status) for run in store.runs()] == [("run-1", "failed")]
        assert store.prune(NOW, statuses=["failed"]).queue_entries == 1


async def ask() -> object:
    return await nh.ask_user(SECRET)


async def approve() -> None:
    await nh.request_approval("ship", arguments={"to": SECRET})


async def park(store: nh.journal.JournalStore, program: object, run_id: str) -> nh.journal.QuestionRow:
    """Have a run wait for people."""
    executor = nh.AgentStepExecutor.from_model(shouting())
    with pytest.raises(RunParked):
        async with nh.run(executor, journal=store, run_id=run_id, human=store.people(), park_after=0):
            await program()  # type: ignore[operator]
    (question,) = store.questions(run_id)
    return question


async def finish(store: nh.journal.JournalStore, program: object, run_id: str) -> object:
    """The next life."""
    executor = nh.AgentStepExecutor.from_model(shouting())
    async with nh.run(executor, journal=store, run_id=run_id, human=store.people()):
        return await program()  # type: ignore[operator]


def stored(store: nh.journal.JournalStore) -> bytes:
    """Everything that is stored of questions and votes."""
    tables = ("questions", "votes", "blobs", "records", "runs")
    rows = [row for table in tables for row in query(store, f"SELECT * FROM {table}")]
    return b"\n".join(each if isinstance(each, bytes) else str(each).encode() for row in rows for each in row)


@pytest.mark.parametrize("size", [1, 10_000], ids=["small", "large"])
async def test_questions_answers_and_votes_are_encrypted_and_pruned(tmp_path: Path, size: int) -> None:
    with opened(tmp_path, keys=OLD) as store:
        question = await park(store, ask, "asking")
        request = await park(store, approve, "approving")
        assert question.content["prompt"] == SECRET
        await store.answer(question.id, SECRET * size)
        await store.vote(
            request.id, approve=True, voter=VOTER, digest=request.content["digest"], reason=SECRET * size
        )
        assert SECRET.encode() not in stored(store)
        assert VOTER.encode() not in stored(store)
    with opened(tmp_path) as store:
        with pytest.raises(JournalKeyError, match="2026-05"):
            await store.answer(question.id, "b")
        with pytest.raises(JournalKeyError, match="2026-05"):
            await store.vote(request.id, approve=False, voter=VOTER)
    with opened(tmp_path, keys={**OLD, **NEW}, active_key="2026-11") as store:
        store.reencrypt()
        assert b"2026-05" not in stored(store)
        assert SECRET.encode() not in stored(store)
    with opened(tmp_path, keys=NEW) as store:
        assert await finish(store, ask, "asking") == SECRET * size
        await finish(store, approve, "approving")
        report = store.prune(NOW)
        assert (set(report.runs), report.questions) == ({"asking", "approving"}, 2)
        counts = "SELECT (SELECT count(*) FROM questions), (SELECT count(*) FROM votes), count(*) FROM blobs"
        assert query(store, counts) == [(0, 0, 0)]
        with pytest.raises(nh.NighthawkError, match="there is no question"):
            await store.answer(question.id, "b")
