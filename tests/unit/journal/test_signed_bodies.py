"""Votes, answers, messages and calls in queues that were changed or moved in a store with an audit key."""

import os
import stat
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

import nighthawk_async as nh
from nighthawk_async.journal import JournalAuditError, JournalKeyError

from . import durable_runs
from .durable_runs import change, live, opened, query, shouting

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("database")]

AUDIT_KEY = b"a" * 32
LARGE = "x" * 100_000


async def ask(
    store: nh.journal.JournalStore, run_id: str, action: str, park_after: float | None = None
) -> Any:
    """One life of a run that asks for an approval."""
    async with nh.run(
        nh.AgentStepExecutor.from_model(shouting()),
        journal=store,
        run_id=run_id,
        park_after=park_after,
        human=store.people(),
    ):
        return (await nh.request_approval(action, arguments={"text": LARGE})).approvers


async def park(store: nh.journal.JournalStore, run_id: str, action: str) -> nh.journal.QuestionRow:
    with pytest.raises(nh.journal.RunParked):
        await ask(store, run_id, action, park_after=0.01)
    (question,) = store.questions(run_id=run_id)
    return question


@pytest.mark.parametrize("reason", ["", LARGE])
async def test_a_vote_does_not_count_for_another_question(tmp_path: Path, reason: str) -> None:
    with opened(tmp_path, audit_key=AUDIT_KEY) as store:
        small, great = await park(store, "run-1", "send a mail"), await park(store, "run-2", "delete all")
        digest = small.content["digest"]
        await store.vote(small.id, approve=True, voter="ada", digest=digest, reason=reason)
        change(
            store,
            "INSERT INTO votes (question_id, number, body) SELECT ?, number, body FROM votes "
            "WHERE question_id = ?",
            *(great.id, small.id),
        )
        change(store, "UPDATE questions SET status = 'answered' WHERE question_id = ?", great.id)
        assert await ask(store, "run-1", "send a mail") == ("ada",)
        with pytest.raises(JournalAuditError, match="another row"):
            await ask(store, "run-2", "delete all")
        with pytest.raises(JournalAuditError, match="run-2"):
            store.verify("run-2")
        store.verify("run-1")


async def test_an_earlier_vote_cannot_be_removed(tmp_path: Path) -> None:
    with opened(tmp_path, audit_key=AUDIT_KEY) as store:
        question = await park(store, "run-1", "send a mail")
        digest = question.content["digest"]
        await store.vote(question.id, approve=True, voter="ada", digest=digest)
        change(store, "UPDATE questions SET status = 'open' WHERE question_id = ?", question.id)
        await store.vote(question.id, approve=False, voter="ada", digest=digest)
        change(store, "DELETE FROM votes WHERE number = 1")
        with pytest.raises(JournalAuditError, match="removed"):
            await ask(store, "run-1", "send a mail")


async def test_a_vote_that_has_not_counted_cannot_be_skipped(tmp_path: Path) -> None:
    with opened(tmp_path, audit_key=AUDIT_KEY) as store:
        question = await park(store, "run-1", "send a mail")
        digest = question.content["digest"]
        await store.vote(question.id, approve=False, voter="ada", digest=digest)
        change(store, "UPDATE questions SET status = 'open' WHERE question_id = ?", question.id)
        await store.vote(question.id, approve=True, voter="bob", digest=digest)
        change(store, "UPDATE votes SET has_counted = 1 WHERE number = 1")
        with pytest.raises(nh.errors.ApprovalDeniedError):
            await ask(store, "run-1", "send a mail")


async def test_a_vote_on_something_else_in_another_store_does_not_count(tmp_path: Path) -> None:
    bodies: list[Any] = []
    for action in ("send a mail", "delete all"):
        folder = tmp_path / action
        folder.mkdir()
        with opened(folder, audit_key=AUDIT_KEY) as store:
            question = await park(store, "run-1", action)
            if not bodies:
                await store.vote(question.id, approve=True, voter="ada", digest=question.content["digest"])
                bodies = query(store, "SELECT number, body FROM votes")
                continue
            for number, body in bodies:
                sql = "INSERT INTO votes (question_id, number, body) VALUES (?, ?, ?)"
                change(store, sql, question.id, number, body)
            with pytest.raises(JournalAuditError, match="another row"):
                await ask(store, "run-1", action)


@pytest.mark.parametrize("column", ["ends_at = 1.0", "run_id = 'run-2'"])
async def test_a_question_stays_that_of_its_run_and_time(tmp_path: Path, column: str) -> None:
    with opened(tmp_path, audit_key=AUDIT_KEY) as store:
        question = await park(store, "run-1", "send a mail")
        change(store, f"UPDATE questions SET {column}")
        with pytest.raises(JournalAuditError, match="another row"):
            await store.vote(question.id, approve=True, voter="ada", digest=question.content["digest"])


async def test_gaps_and_what_has_not_begun_are_found_by_verify(tmp_path: Path) -> None:
    with opened(tmp_path, audit_key=AUDIT_KEY) as store:
        await park(store, "run-1", "send a mail")
        for word in ("first", "second", "third"):
            await store.send("run-1", "mails", word, id=word)
        await store.send("run-9", "mails", "for later")
        store.verify()
        change(store, "DELETE FROM messages WHERE number = 2")
        with pytest.raises(JournalAuditError, match="removed"):
            store.verify("run-1")
        change(store, "DELETE FROM messages WHERE run_id = 'run-1'")
        change(store, "UPDATE messages SET name = 'others'")
        with pytest.raises(JournalAuditError, match="run-9"):
            store.verify()


async def test_an_answer_does_not_count_for_another_question(tmp_path: Path) -> None:
    async def life(store: nh.journal.JournalStore, run_id: str, park_after: float | None = None) -> Any:
        async with nh.run(
            nh.AgentStepExecutor.from_model(shouting()),
            journal=store,
            run_id=run_id,
            park_after=park_after,
            human=store.people(),
        ):
            return await nh.ask_user(run_id)

    with opened(tmp_path, audit_key=AUDIT_KEY) as store:
        for run_id in ("run-1", "run-2"):
            with pytest.raises(nh.journal.RunParked):
                await life(store, run_id, 0.01)
        (first,), (second,) = store.questions(run_id="run-1"), store.questions(run_id="run-2")
        await store.answer(first.id, "yes")
        change(
            store,
            "UPDATE questions SET status = 'answered', answer = (SELECT answer FROM questions "
            "WHERE question_id = ?) WHERE question_id = ?",
            *(first.id, second.id),
        )
        with pytest.raises(JournalAuditError, match="another row"):
            await life(store, "run-2")
        change(store, "UPDATE questions SET body = ? WHERE question_id = ?", b"\x90", first.id)
        with pytest.raises(JournalAuditError, match="no audit key"):
            store.verify("run-1")


async def test_an_error_leaves_a_run_that_is_being_parked_bare(tmp_path: Path) -> None:
    async def life(park_after: float) -> Any:
        async with nh.run(
            nh.AgentStepExecutor.from_model(shouting()),
            journal=store,
            run_id="run-1",
            park_after=park_after,
            human=store.people(),
        ):
            return await nh.ask_user("How many?")

    with opened(tmp_path, audit_key=AUDIT_KEY) as store:
        with pytest.raises(nh.journal.RunParked):
            await life(0.01)
        change(store, "UPDATE questions SET answer = ?, status = 'answered'", b"\x01")
        for _ in range(5):  # whether the wait or the parking finds it first
            with pytest.raises(JournalAuditError, match="inserted"):
                await life(0)


@pytest.mark.parametrize("text", ["hello", LARGE])
async def test_a_message_is_that_of_its_run_mailbox_and_number(tmp_path: Path, text: str) -> None:
    async def receive() -> list[Any]:
        return [await nh.journal.receive("mails", timeout=0) for _ in range(2)]

    with opened(tmp_path, audit_key=AUDIT_KEY) as store:
        for run_id in ("run-1", "run-2", "run-3", "run-4"):
            await store.send(run_id, "mails", f"{run_id} {text}", id="first")
            await store.send(run_id, "mails", f"again {text}", id="second")
        change(
            store,
            "UPDATE messages SET body = (SELECT body FROM messages WHERE run_id = 'run-1' AND number = 1) "
            "WHERE run_id = 'run-2' AND number = 1",
        )
        change(store, "UPDATE messages SET number = number + 7 WHERE run_id = 'run-3' AND number = 1")
        change(store, "DELETE FROM messages WHERE run_id = 'run-4' AND number = 1")
        assert await live(store, shouting(), receive) == [f"run-1 {text}", f"again {text}"]
        for run_id in ("run-2", "run-3", "run-4"):
            with pytest.raises(JournalAuditError):
                await live(store, shouting(), receive, run_id)


def add(number: int) -> int:
    """Return the next number."""
    return number + 1


async def test_arguments_and_results_are_those_of_their_run(tmp_path: Path) -> None:
    with opened(tmp_path, audit_key=AUDIT_KEY) as store:
        await store.enqueue(add, 1, key="run-1")
        await store.enqueue(add, 1_000_000, key="run-2")
        change(
            store,
            "UPDATE queue_entries SET arguments = (SELECT arguments FROM queue_entries "
            "WHERE run_id = 'run-2') WHERE run_id = 'run-1'",
        )
        with pytest.raises(JournalAuditError, match="another row"):
            await store.enqueue(add, 1, key="run-1")


async def test_a_key_is_given_to_a_store_that_has_bodies_already(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        question = await park(store, "run-1", "send a mail")
        await store.vote(question.id, approve=True, voter="ada", digest=question.content["digest"])
        await store.send("run-1", "mails", "hello")
        await store.enqueue(add, 1, key="run-2")
    with opened(tmp_path, audit_key=AUDIT_KEY) as store:
        with pytest.raises(JournalAuditError, match="reencrypt"):
            store.verify("run-1")
        store.reencrypt()
        store.verify("run-1")
        assert await ask(store, "run-1", "send a mail") == ("ada",)
    with opened(tmp_path, audit_key=b"b" * 32) as store:
        with pytest.raises(JournalAuditError, match="another"):
            store.verify("run-1")
        store.reencrypt()
        store.verify("run-1")
    with opened(tmp_path) as store:
        store.reencrypt()
        assert len(query(store, "SELECT body FROM messages")) == 1
        store.verify("run-1")


async def test_nothing_is_written_with_another_key_alone(tmp_path: Path) -> None:
    with opened(tmp_path, keys={"november": b"n" * 32}) as store:
        await store.send("run-1", "mails", "hello")
    with opened(tmp_path, keys={"december": b"d" * 32}) as store:
        for write in (
            lambda: store.send("run-1", "mails", "hello"),
            lambda: store.enqueue(add, 1),
            lambda: live(store, shouting(), anyio.lowlevel.checkpoint, "run-2"),
        ):
            with pytest.raises(JournalKeyError, match="november") as caught:
                await write()
            assert caught.value.key_id == "november"
        tables = ("messages", "queue_entries", "runs", "records")
        counts = [query(store, f"SELECT count(*) FROM {table}")[0][0] for table in tables]
        assert counts == [1, 0, 0, 0]
        assert query(store, "SELECT key_id FROM encryption_keys") == [("november",)]


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no modes of files")
async def test_a_file_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    if durable_runs.server is not None:
        pytest.skip("a server has its own files")
    before = os.umask(0)
    try:
        with opened(tmp_path) as store:
            await store.send("run-1", "mails", LARGE)
            modes = [mode_of(tmp_path / f"runs.db{end}") for end in ("", "-shm", "-wal")]
            assert modes == [0o600] * 3
    finally:
        os.umask(before)
    (tmp_path / "runs.db").chmod(0o640)  # by an administrator, for a group that reads it
    with opened(tmp_path) as store:
        await store.send("run-1", "mails", LARGE)
    assert mode_of(tmp_path / "runs.db") == 0o640
