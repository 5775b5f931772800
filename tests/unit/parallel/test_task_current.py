"""Who the current task is, its task-local values, and what others add to tasks."""

import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import ModuleType

import anyio
import anyio.to_thread
import pytest

from nighthawk_async import parallel
from nighthawk_async.actors import Mailbox, MailboxClosedError
from nighthawk_async.parallel import (
    TaskError,
    TaskValueError,
    cancel_requested,
    current_task,
    open_tasks,
    task_values,
)
from nighthawk_async.parallel.task_current import (
    asked_to_end,
    find_positions,
    find_task,
    open_task_root,
    using_positions,
)
from nighthawk_async.parallel.task_node import Positions, TaskHooks, install_task_hooks
from nighthawk_async.types.execution import ExecutionRef

pytestmark = pytest.mark.anyio


@contextmanager
def installed(hooks: TaskHooks) -> Generator[None]:
    before = install_task_hooks(hooks)
    try:
        yield
    finally:
        install_task_hooks(before)


@pytest.fixture
def _without_hooks() -> Generator[None]:
    with installed(TaskHooks()):
        yield


async def identify() -> tuple[str, str, str | None, str]:
    task = current_task()
    return task.id, task.name, task.parent_id, task.root_id


@pytest.mark.usefixtures("_without_hooks")
async def test_outside_every_run_the_event_loop_has_one_root() -> None:
    task = current_task()
    assert (task.id, task.name, task.parent_id, task.root_id) == ("main", "main", None, "main")
    assert (task.run_id, task.scope_id, task.step_id) == (None, None, None)
    assert current_task() == task


async def test_a_task_knows_its_parent_and_its_root() -> None:
    async def start_one() -> tuple[str, str, str | None, str]:
        async with open_tasks() as tasks:
            return await tasks.start(identify)

    with open_task_root("run"):
        async with open_tasks() as tasks:
            handle = tasks.start(start_one)
            assert await handle == (
                "run/tasks[0]/start_one[0]/tasks[0]/identify[0]",
                "identify",
                "run/tasks[0]/start_one[0]",
                "run",
            )


async def test_plain_tasks_and_threads_are_part_of_the_task_around_them() -> None:
    found: list[str] = []

    async def look_around() -> None:
        async with anyio.create_task_group() as task_group:
            task_group.start_soon(look)
        found.append(await anyio.to_thread.run_sync(lambda: current_task().id))

    async def look() -> None:
        found.append(current_task().id)

    async with open_tasks(at_end="wait") as tasks:
        handle = tasks.start(look_around)
    assert found == [handle.id, handle.id]
    assert await anyio.to_thread.run_sync(lambda: current_task().id) == "main"


def test_without_a_task_and_an_event_loop_there_is_no_current_task() -> None:
    with pytest.raises(anyio.NoEventLoopError):
        current_task()
    with open_task_root("run"):
        assert current_task().id == "run"


def test_a_root_inside_a_task_is_a_task_below_it() -> None:
    with open_task_root("run"), open_task_root("inner"):
        task = current_task()
    assert (task.id, task.parent_id, task.root_id) == ("run/inner[0]", "run", "run")


async def test_values_flow_into_tasks_and_never_back_or_sideways() -> None:
    values = task_values()
    seen: dict[str, object] = {}
    ready = anyio.Event()

    async def look(name: str) -> None:
        current_task().values.set("own", name)
        await ready.wait()
        seen[name] = (values.get("shared"), values.get("own"), values.get("later", "nothing"))

    with open_task_root("run"):
        values.set("shared", 1)
        async with open_tasks() as tasks:
            tasks.start(look, "a")
            tasks.start(look, "b")
            values.set("shared", 2)  # before the tasks run: they began when they were started
            values.set("later", 3)
            await anyio.wait_all_tasks_blocked()
            ready.set()
        assert values.get("own") is None
        assert values.names() == ("shared", "later")
    assert seen == {"a": (1, "a", "nothing"), "b": (1, "b", "nothing")}
    assert values.names() == ()


async def test_changing_a_container_changes_nobody_elses_value() -> None:
    values = task_values()
    ready = anyio.Event()

    async def look() -> object:
        await ready.wait()
        values.get("items")[0].append("child's")
        return values.get("items")

    with open_task_root("run"):
        items = [["set"]]
        values.set("items", items)
        async with open_tasks() as tasks:
            handle = tasks.start(look)
            items[0].append("parent's")
            values.get("items").append("parent's")
            ready.set()
            assert await handle == [["set"]]
        assert values.get("items") == [["set"]]


async def test_a_changed_container_counts_once_it_is_set_again() -> None:
    values = task_values()

    async def add() -> object:
        values.set("items", [*values.get("items"), "child's"])
        return values.get("items")

    with open_task_root("run"):
        values.set("items", ["parent's"])
        async with open_tasks() as tasks:
            assert await tasks.start(add) == ["parent's", "child's"]
        assert values.get("items") == ["parent's"]


def test_a_value_that_cannot_be_copied_is_refused_and_the_old_one_stays() -> None:
    with open_task_root("run"):
        task_values().set("value", 1)
        with pytest.raises(TaskValueError, match="'value' of type lock cannot be copied"):
            task_values().set("value", threading.Lock())
        assert task_values().get("value") == 1


def test_an_object_that_is_meant_to_be_shared_says_so() -> None:
    class Shared:
        def __deepcopy__(self, memo: object) -> "Shared":
            return self

    shared = Shared()
    with open_task_root("run"):
        task_values().set("shared", [shared])
        assert task_values().get("shared")[0] is shared


def test_a_deleted_value_is_gone_for_whoever_deleted_it() -> None:
    values = task_values()
    with open_task_root("run"):
        values.set("name", None)
        assert values.get("name", "default") is None
        with open_task_root("inner"):
            assert values.delete("name")
            assert not values.delete("name")
            assert values.get("name", "default") == "default"
        assert values.names() == ("name",)


@pytest.mark.usefixtures("_without_hooks")
async def test_without_hooks_a_task_has_no_mailbox() -> None:
    async with open_tasks() as tasks:
        handle = tasks.start(identify)
        with pytest.raises(TaskError, match="tasks have no mailbox"):
            handle.mailbox.close()


async def test_a_task_reads_what_others_send_to_the_mailbox_of_its_handle() -> None:
    async def add_up() -> int:
        mailbox = current_task().mailbox
        return await mailbox.receive() + await mailbox.receive()

    hooks = TaskHooks(make_mailbox=lambda task_id: Mailbox[int](name=task_id))
    with installed(hooks):
        async with open_tasks() as tasks:
            handle = tasks.start(add_up)
            handle.mailbox.send_nowait(1)
            await handle.mailbox.send(2)
            assert await handle == 3
            with pytest.raises(MailboxClosedError, match=r"add_up\[0\]"):
                handle.mailbox.send_nowait(3)
            untouched = tasks.start(identify)
            await untouched
            with pytest.raises(MailboxClosedError):
                untouched.mailbox.send_nowait(3)


async def test_items_have_ids_and_mailboxes_of_their_own() -> None:
    mailboxes: dict[int, Mailbox[int]] = {}
    both_are_there = [anyio.Event()]

    async def exchange(number: int) -> tuple[str, str, str | None, int]:
        task = current_task()
        in_thread = await anyio.to_thread.run_sync(current_task)
        assert in_thread.mailbox is task.mailbox
        mailboxes[number] = task.mailbox
        if len(mailboxes) == 2:
            both_are_there[0].set()
        await both_are_there[0].wait()
        mailboxes[1 - number].send_nowait(number)
        return task.id, task.name, task.parent_id, await task.mailbox.receive()

    async def exchange_twice(number: int) -> list[tuple[str, str, str | None, int]]:
        before = current_task().id
        inner = await parallel.gather(exchange(0), exchange(1))
        assert current_task().id == before
        return inner

    hooks = TaskHooks(make_mailbox=lambda task_id: Mailbox[int](name=task_id))
    with installed(hooks), open_task_root("run"):
        assert await parallel.map(exchange, range(2)) == [
            ("run/map[0]/item[0]", "item", "run", 1),
            ("run/map[0]/item[1]", "item", "run", 0),
        ]
        for mailbox in mailboxes.values():
            with pytest.raises(MailboxClosedError, match=r"item"):
                mailbox.send_nowait(3)
        mailboxes.clear()
        both_are_there[0] = anyio.Event()
        assert await parallel.map(exchange_twice, [None], max_concurrent=1) == [
            [
                ("run/map[1]/item[0]/gather[0]/item[0]", "item", "run/map[1]/item[0]", 1),
                ("run/map[1]/item[0]/gather[0]/item[1]", "item", "run/map[1]/item[0]", 0),
            ]
        ]
        assert current_task().id == "run"


async def test_items_are_asked_to_end_with_the_task_around_them() -> None:
    async def wait_for_request(number: int) -> bool:
        async with open_tasks() as tasks:
            inner = tasks.start(wait_in_task)
            await inner
        return cancel_requested()

    async def wait_in_task() -> None:
        with asked_to_end(asked.set):
            await asked.wait()

    asked = anyio.Event()
    async with open_tasks() as tasks:
        handle = tasks.start(parallel.map, wait_for_request, [0])
        await anyio.wait_all_tasks_blocked()
        with anyio.fail_after(30):
            await handle.cancel_gracefully(30)
            assert await handle == [True]


async def test_the_hook_says_which_run_scope_and_step_the_caller_is_in() -> None:
    def find_execution() -> ExecutionRef:
        return ExecutionRef(run_id="r", scope_id="s", step_id="module:3")

    with installed(TaskHooks(find_execution=find_execution)):
        task = current_task()
    assert (task.run_id, task.scope_id, task.step_id) == ("r", "s", "module:3")


async def test_the_extent_of_a_block_is_open_from_its_first_to_its_last_task() -> None:
    events: list[str] = []

    @contextmanager
    def extent() -> Generator[None]:
        events.append("open")
        try:
            yield
        finally:
            events.append("close")

    async def work() -> None:
        await anyio.wait_all_tasks_blocked()
        events.append("work")

    with installed(TaskHooks(open_scope=extent)):
        async with open_tasks(at_end="wait") as tasks:
            tasks.start(work)
            events.append("body")
        with pytest.raises(ValueError, match="bad"):
            async with open_tasks(at_end="wait"):
                raise ValueError("bad")
    assert events == ["open", "body", "work", "close", "open", "close"]


async def test_what_changes_within_positions_of_their_own_stays_after_them() -> None:
    before = find_positions()
    with using_positions(Positions("apart")):
        task_values().set("language", "fr")
        assert find_positions().path == "apart"
    assert task_values().get("language") == "fr"
    assert find_positions() is before


async def test_a_loop_that_another_thread_is_loading_does_not_run_here(
    anyio_backend_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module is in `sys.modules` from the beginning of its import, without what it has later."""
    other = {"trio": "asyncio", "asyncio": "trio.lowlevel"}[anyio_backend_name]
    own = find_task()
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, other, ModuleType(other))
        found = find_task()
    assert found is own
    assert found is not threading.current_thread()
