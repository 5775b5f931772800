"""Names and the extents in which they stand for something."""

import gc
import weakref

import anyio
import anyio.from_thread
import anyio.to_thread
import pytest

from nighthawk_async.actors import (
    Family,
    NamespaceKind,
    NamespaceLeftError,
    UnknownNamespaceError,
    find_namespace,
    open_namespace,
)

pytestmark = pytest.mark.anyio


class Box:
    """Something with a name, that can be closed."""

    closed: list[str]

    def __init__(self, label: str = "box", closed: list[str] | None = None) -> None:
        self.label = label
        self.closed = [] if closed is None else closed

    def close(self) -> None:
        self.closed.append(self.label)


BOXES: Family[Box] = Family(title="box", close=Box.close)
NUMBERS: Family[int] = Family(title="number")


async def test_a_name_stands_for_one_thing_of_each_family() -> None:
    with open_namespace("run") as namespace:
        box = namespace.get_or_add(BOXES, "name", Box)
        assert namespace.get_or_add(BOXES, "name", Box) is box
        assert namespace.find(NUMBERS, "name") is None
        assert namespace.get_or_add(NUMBERS, "name", lambda: 3) == 3
        namespace.get_or_add(BOXES, "another", Box)
        assert namespace.names(BOXES) == ("name", "another")
        assert namespace.names(NUMBERS) == ("name",)


async def test_a_removed_thing_frees_its_name_and_is_not_closed() -> None:
    with open_namespace("run") as namespace:
        box = namespace.get_or_add(BOXES, "name", Box)
        assert namespace.remove(BOXES, "name") is box
        assert namespace.remove(BOXES, "name") is None
        assert namespace.find(BOXES, "name") is None
    assert box.closed == []


async def test_the_innermost_namespace_is_found_or_the_innermost_of_a_kind() -> None:
    process = find_namespace()
    assert process.kind == "process"
    assert find_namespace("process") is process
    with open_namespace("run") as outer_run, open_namespace("run") as run:
        assert find_namespace() is find_namespace("run") is run
        with open_namespace("task_group") as task_group:
            assert find_namespace() is find_namespace("task_group") is task_group
            assert find_namespace("run") is run
            assert find_namespace("process") is process
            assert list(task_group.outward()) == [task_group, run, outer_run, process]
    assert find_namespace() is process
    assert list(process.outward()) == [process]


@pytest.mark.parametrize("kind", ["run", "task_group"])
async def test_a_kind_that_surrounds_nobody_is_an_error(kind: NamespaceKind) -> None:
    with pytest.raises(UnknownNamespaceError, match=f"no {kind} surrounds the caller"):
        find_namespace(kind)


async def test_a_search_goes_outward_and_the_nearest_wins() -> None:
    outer, inner = Box("outer"), Box("inner")
    find_namespace("process").get_or_add(NUMBERS, "everywhere", lambda: 7)
    with open_namespace("run") as run, open_namespace("task_group") as task_group:
        run.get_or_add(BOXES, "name", lambda: outer)
        assert task_group.search(BOXES, "name") is outer
        task_group.get_or_add(BOXES, "name", lambda: inner)
        assert task_group.search(BOXES, "name") is inner
        assert run.search(BOXES, "name") is outer
        assert task_group.search(NUMBERS, "everywhere") == 7
        assert task_group.search(BOXES, "nowhere") is None


async def test_leaving_closes_the_latest_first_and_frees_the_names() -> None:
    closed: list[str] = []
    with open_namespace("run") as namespace:
        for label in ("first", "second"):
            namespace.get_or_add(BOXES, label, lambda label=label: Box(label, closed))
        namespace.get_or_add(NUMBERS, "number", lambda: 1)
        assert not namespace.is_left
    assert closed == ["second", "first"]
    assert namespace.is_left
    assert namespace.find(BOXES, "first") is None
    with pytest.raises(NamespaceLeftError, match="the box 'first' cannot be made: the run has ended"):
        namespace.get_or_add(BOXES, "first", Box)


async def test_leaving_closes_everything_even_when_a_thing_cannot_be_closed() -> None:
    def fail(_: Box) -> None:
        raise OSError("stuck")

    stuck: Family[Box] = Family(title="stuck box", close=fail)
    box = Box()
    with pytest.raises(OSError, match="stuck"), open_namespace("run") as namespace:
        assert {namespace.get_or_add(BOXES, "first", lambda: box), namespace.get_or_add(stuck, "second", Box)}
    assert box.closed == ["box"]
    assert find_namespace().kind == "process"


async def test_tasks_started_inside_see_the_namespace_and_siblings_do_not_see_each_others() -> None:
    seen: list[object] = []

    async def open_one() -> None:
        with open_namespace("task_group") as namespace:
            namespace.get_or_add(BOXES, "name", Box)
            await anyio.wait_all_tasks_blocked()
            seen.append(namespace.parent)
            assert find_namespace() is namespace
            assert namespace.names(BOXES) == ("name",)

    with open_namespace("run") as run:
        async with anyio.create_task_group() as task_group:
            task_group.start_soon(open_one)
            task_group.start_soon(open_one)
        assert seen == [run, run]
        assert run.names(BOXES) == ()


async def test_another_event_loop_sees_the_extent_but_not_what_is_named_here() -> None:
    box = Box()
    with open_namespace("run") as namespace:
        namespace.get_or_add(BOXES, "name", lambda: box)

        async def name_one() -> tuple[bool, bool]:
            elsewhere = Box()
            is_hidden = namespace.find(BOXES, "name") is None
            return is_hidden, namespace.get_or_add(BOXES, "name", lambda: elsewhere) is elsewhere

        assert await anyio.to_thread.run_sync(anyio.run, name_one) == (True, True)
        assert namespace.find(BOXES, "name") is box
    assert box.closed == ["box"]


def test_a_namespace_may_surround_event_loops_and_end_after_them() -> None:
    box = Box()

    async def name_one() -> None:
        find_namespace("run").get_or_add(BOXES, "name", lambda: box)
        assert find_namespace("process").find(BOXES, "name") is None

    with open_namespace("run") as namespace:
        anyio.run(name_one)
        assert find_namespace() is namespace
    assert namespace.is_left
    assert box.closed == [], "its event loop has ended: nobody waits for it"


def test_without_an_event_loop_there_is_nothing_to_name() -> None:
    with pytest.raises(anyio.NoEventLoopError):
        find_namespace()
    with open_namespace("run") as namespace, pytest.raises(anyio.NoEventLoopError):
        namespace.find(BOXES, "name")


def test_names_do_not_keep_a_finished_event_loop_alive() -> None:
    loops: list[weakref.ref[object]] = []

    async def name_one() -> None:
        find_namespace("process").get_or_add(BOXES, "name", Box)
        loops.append(weakref.ref(anyio.lowlevel.current_token().native_token))

    anyio.run(name_one)
    gc.collect()
    assert loops[0]() is None
