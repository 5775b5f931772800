"""Messages that a run sends are effects of the run: recorded, and compared in later lives."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TypeAlias

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.causes import leaves_of
from nighthawk_async.journal import JournalDivergenceError, JournalValueError

from .durable_runs import live, opened, places, query, shouting
from .queue_jobs import note

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("database")]

Store: TypeAlias = nh.journal.JournalStore
Sending: TypeAlias = Callable[[Store, Sequence[int]], Awaitable[None]]


class CrashError(Exception):
    """The end of a life."""


class KilledError(BaseException):
    """The end of a process."""


@nh.once
async def pay(amount: int) -> int:
    return amount


async def in_order(store: Store, numbers: Sequence[int]) -> None:
    """Send messages one after the other."""
    for number in numbers:
        await store.send("other", "box", number)


async def side_by_side(store: Store, numbers: Sequence[int]) -> None:
    """Send messages in tasks that are started by hand."""
    async with anyio.create_task_group() as tasks:
        for number in numbers:
            tasks.start_soon(store.send, "other", "box", number)


async def life(store: Store, send: Sending, numbers: Sequence[int], *, crashes: bool = False) -> None:
    """A life that sends messages, and makes an effect afterwards."""

    async def program() -> None:
        await send(store, numbers)
        await pay(1)
        if crashes:
            raise CrashError

    await live(store, shouting(), program)


def count_messages(store: Store) -> int:
    """The number of messages in all mailboxes."""
    return int(query(store, "SELECT count(*) FROM messages")[0][0])


@pytest.mark.parametrize("send", [in_order, side_by_side])
async def test_each_is_sent_once_in_all_lives_and_another_one_is_refused(
    tmp_path: Path, send: Sending
) -> None:
    with opened(tmp_path) as store:
        for _ in range(2):
            with pytest.raises(CrashError):
                await life(store, send, [1, 2], crashes=True)
        with pytest.raises((JournalDivergenceError, ExceptionGroup)) as error:
            await life(store, send, [1, 3])
        assert all(isinstance(each, JournalDivergenceError) for each in leaves_of(error.value))
        await life(store, send, [1, 2])
        assert count_messages(store) == 2


async def test_one_that_was_sent_and_not_recorded_is_not_sent_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path) as store:
        send = store.mailboxes.send

        async def send_and_die(run_id: str, name: str, body: bytes, message_id: str) -> None:
            await send(run_id, name, body, message_id)
            raise KilledError

        with monkeypatch.context() as patch:
            patch.setattr(store.mailboxes, "send", send_and_die)
            with pytest.raises(KilledError):
                await life(store, in_order, [1])
        await life(store, in_order, [1])
        assert count_messages(store) == 1


async def test_of_messages_with_an_id_the_first_one_counts(tmp_path: Path) -> None:
    async def program(number: int, id_: str) -> None:
        await store.send("other", "box", number, id=id_)
        await pay(1)
        if number == 1:
            raise CrashError

    with opened(tmp_path) as store:
        with pytest.raises(CrashError):
            await live(store, shouting(), lambda: program(1, "a"))
        with pytest.raises(JournalDivergenceError, match="<id>"):
            await live(store, shouting(), lambda: program(2, "b"))
        await live(store, shouting(), lambda: program(2, "a"))
        assert count_messages(store) == 1


async def test_one_that_cannot_be_stored_is_refused_before_anything_is_recorded(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        with pytest.raises(JournalValueError):
            await live(store, shouting(), lambda: store.send("other", "box", object()))
        assert places(store, "intent") == []


async def test_what_an_earlier_version_sent_is_the_same_message(tmp_path: Path) -> None:
    """Earlier versions recorded nothing of it in the run."""

    async def program() -> None:
        await store.send("other", "box", 1, id="a")
        await pay(1)

    with opened(tmp_path) as store:
        with pytest.raises(CrashError):
            await life(store, in_order, [], crashes=True)
        await store.send("other", "box", 1, id="a")
        await live(store, shouting(), program)
        assert count_messages(store) == 1


async def test_a_run_of_an_earlier_version_sends_messages_without_an_id_as_it_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path) as store:
        with monkeypatch.context() as patch:
            patch.setattr("nighthawk_async.journal.run_journal.life_body", lambda trace, identity: b"")
            with pytest.raises(CrashError):
                await life(store, in_order, [], crashes=True)
        await life(store, in_order, [1])
        assert count_messages(store) == 1
        assert places(store, "intent") == ["run/pay()[0]"]


async def test_a_replay_sends_nothing(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        await life(store, in_order, [1])
        with nh.journal.replay(store, "run-1"):
            await life(store, in_order, [1])
        assert count_messages(store) == 1


async def test_a_life_that_has_diverged_writes_nothing_to_stores(tmp_path: Path) -> None:
    async def program() -> None:
        with pytest.raises(JournalDivergenceError):
            await pay(2)
        writes: list[Callable[[], Awaitable[object]]] = [
            lambda: store.send("other", "box", 1),
            lambda: store.send("other", "box", 1, id="a"),
            lambda: store.enqueue(note, 1),
            lambda: store.enqueue(note, 1, key="a"),
            lambda: store.schedule("nightly", note, 1, cron="0 3 * * *"),
            lambda: store.unschedule("nightly"),
            lambda: store.requeue("a"),
            lambda: store.answer("a", 1),
            lambda: store.vote("a", approve=True, voter="ann"),
        ]
        for write in writes:
            with pytest.raises(JournalDivergenceError, match="nothing new begins"):
                await write()
        with pytest.raises(JournalDivergenceError, match="nothing new begins"):
            store.prune(timedelta(0))
        with pytest.raises(JournalDivergenceError, match="nothing new begins"):
            store.fork("run-1", at="run/pay()[0]")

    with opened(tmp_path) as store:
        with pytest.raises(CrashError):
            await life(store, in_order, [], crashes=True)
        with pytest.raises(JournalDivergenceError, match="it has not ended"):
            await live(store, shouting(), program)
        assert count_messages(store) == 0
        assert store.queue_entries() == []
        assert [run.run_id for run in store.runs()] == ["run-1"]
