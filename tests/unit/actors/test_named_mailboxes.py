"""Mailboxes found by name."""

import anyio
import pytest

from nighthawk_async.actors import (
    MailboxClosedError,
    NameConflictError,
    NamespaceLeftError,
    UnknownMailboxError,
    UnknownNamespaceError,
    find_mailbox,
    open_mailbox,
    open_namespace,
    send,
    try_send,
)

pytestmark = pytest.mark.anyio


async def test_a_message_is_sent_by_name() -> None:
    with open_namespace("task_group"):
        inbox = open_mailbox("reviewer", capacity=2)
        await send("reviewer", "first")
        assert try_send("reviewer", "second")
        assert not try_send("reviewer", "too many")
        assert inbox.drain() == ["first", "second"]
        assert (inbox.name, inbox.capacity) == ("reviewer", 2)


async def test_sending_by_name_waits_for_room() -> None:
    with open_namespace("task_group"):
        inbox = open_mailbox("reviewer", capacity=1)
        inbox.send_nowait(1)
        async with anyio.create_task_group() as task_group:
            task_group.start_soon(send, "reviewer", 2)
            await anyio.wait_all_tasks_blocked()
            assert [await inbox.receive(), await inbox.receive()] == [1, 2]


async def test_an_unknown_or_closed_mailbox_takes_nothing() -> None:
    with pytest.raises(UnknownMailboxError, match="no mailbox has the name 'nobody'"):
        await send("nobody", 1)
    assert not try_send("nobody", 1)
    assert find_mailbox("nobody") is None
    with open_namespace("run"):
        open_mailbox("reviewer").close()
        with pytest.raises(MailboxClosedError, match="the mailbox 'reviewer' is closed"):
            await send("reviewer", 1)
        assert not try_send("reviewer", 1)


async def test_opening_a_name_again_gives_the_same_mailbox_until_it_is_closed() -> None:
    with open_namespace("run"):
        first = open_mailbox("reviewer")
        assert open_mailbox("reviewer") is first
        with pytest.raises(NameConflictError, match="'reviewer' has the capacity 256 already, not 3"):
            open_mailbox("reviewer", capacity=3)
        first.send_nowait("left")
        first.close()
        assert find_mailbox("reviewer") is first, "what was sent to it can still be received"
        second = open_mailbox("reviewer", capacity=3)
        assert second is find_mailbox("reviewer")
        assert second is not first
        assert try_send("reviewer", "new")
        assert [message async for message in first] == ["left"], (
            "who has the old one still gets what is in it"
        )
        assert second.drain() == ["new"]


async def test_a_closed_mailbox_of_an_inner_extent_hides_an_open_one_of_an_outer_extent() -> None:
    with open_namespace("run"):
        outer = open_mailbox("reviewer")
        with open_namespace("task_group"):
            open_mailbox("reviewer").close()
            with pytest.raises(MailboxClosedError):
                await send("reviewer", 1)
            assert not try_send("reviewer", 1)
        assert outer.drain() == []
        assert try_send("reviewer", 2)
        assert outer.drain() == [2]


async def test_a_refused_capacity_leaves_the_name_free() -> None:
    with open_namespace("run"):
        with pytest.raises(ValueError, match="capacity must be a whole number of at least 1 or None"):
            open_mailbox("reviewer", capacity=0)
        assert find_mailbox("reviewer") is None


async def test_a_scope_says_who_finds_a_mailbox() -> None:
    with open_namespace("run"):
        with open_namespace("task_group"):
            everywhere = open_mailbox("everywhere", scope="process")
            of_run = open_mailbox("reviewer", scope="run")
            assert find_mailbox("reviewer") is of_run
            of_group = open_mailbox("reviewer", scope="task_group")
            assert find_mailbox("reviewer") is of_group
            assert open_mailbox("reviewer") is of_group
        assert of_group.is_closed
        assert find_mailbox("reviewer") is of_run
        assert not of_run.is_closed
    assert of_run.is_closed
    assert find_mailbox("reviewer") is None
    assert find_mailbox("everywhere") is everywhere


async def test_two_runs_do_not_find_each_others_mailboxes() -> None:
    found: dict[str, bool] = {}

    async def work(name: str, other: str) -> None:
        with open_namespace("run"):
            open_mailbox(name)
            await anyio.wait_all_tasks_blocked()
            found[name] = find_mailbox(other) is not None

    async with anyio.create_task_group() as task_group:
        task_group.start_soon(work, "left", "right")
        task_group.start_soon(work, "right", "left")
    assert found == {"left": False, "right": False}


async def test_leaving_a_scope_ends_who_waits_there() -> None:
    ended: list[str] = []

    async def read() -> None:
        inbox = open_mailbox("inbox", capacity=1)
        ended.extend([message async for message in inbox])
        ended.append("end")

    async def write() -> None:
        with pytest.raises(MailboxClosedError):
            await send("full", 2)
        ended.append("refused")

    async with anyio.create_task_group() as task_group:
        with open_namespace("task_group"):
            open_mailbox("full", capacity=1).send_nowait(1)
            task_group.start_soon(read)
            task_group.start_soon(write)
            await anyio.wait_all_tasks_blocked()
            assert ended == []
    assert sorted(ended) == ["end", "refused"]


async def test_an_extent_that_is_not_there_or_has_ended_takes_no_mailbox() -> None:
    with pytest.raises(UnknownNamespaceError, match="no run surrounds the caller"):
        open_mailbox("inbox", scope="run")

    async def open_late() -> None:
        await left.wait()
        with pytest.raises(NamespaceLeftError, match="the mailbox 'inbox' cannot be made: the task_group"):
            open_mailbox("inbox")

    left = anyio.Event()
    async with anyio.create_task_group() as task_group:
        with open_namespace("task_group"):
            task_group.start_soon(open_late)
        left.set()
