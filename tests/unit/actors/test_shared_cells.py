"""Shared cells."""

import anyio
import pytest

from nighthawk_async.actors import (
    NamespaceLeftError,
    SharedCell,
    SharedStatistics,
    UnknownNamespaceError,
    UpdateConflictError,
    open_namespace,
    shared_cell,
)

pytestmark = pytest.mark.anyio


def test_setting_gives_the_previous_value() -> None:
    cell = SharedCell("first")
    assert cell.set("second") == "first"
    assert cell.get() == "second"
    assert repr(cell) == "<SharedCell 'second', version 1>"


def test_a_snapshot_holds_until_anything_is_set() -> None:
    cell = SharedCell(1)
    snapshot = cell.snapshot()
    assert (snapshot.value, snapshot.version, snapshot.is_present) == (1, 0, True)
    assert cell.compare_and_set(snapshot, 2)
    assert not cell.compare_and_set(snapshot, 3)
    assert cell.get() == 2


def test_a_value_that_was_changed_and_changed_back_is_noticed() -> None:
    cell = SharedCell("a")
    snapshot = cell.snapshot()
    cell.set("b")
    cell.set("a")
    assert not cell.compare_and_set(snapshot, "c")
    cell.set("a")
    assert cell.snapshot().version == 3, "setting an equal value is a change"
    assert cell.compare_and_set("a", "c"), "a plain value does not tell"
    assert cell.get() == "c"


def test_an_expected_value_is_the_same_or_equal() -> None:
    nothing_equals = float("nan")
    cell: SharedCell[object] = SharedCell(nothing_equals)
    assert not cell.compare_and_set(float("nan"), "set")
    assert cell.compare_and_set(nothing_equals, (1, 2))
    assert cell.compare_and_set((1, 2), "set")


def test_a_snapshot_of_another_cell_is_refused() -> None:
    cell, other = SharedCell(1), SharedCell(1)
    with pytest.raises(ValueError, match="the snapshot was not taken of this cell"):
        cell.compare_and_set(other.snapshot(), 2)
    assert cell.get() == 1


def test_values_are_held_as_they_are() -> None:
    value = [1]
    cell = SharedCell(value)
    assert cell.get() is cell.snapshot().value is value


def test_an_update_sets_what_the_function_makes_of_the_value() -> None:
    cell = SharedCell(1)
    assert cell.update(lambda value: value + 1) == 2
    assert cell.get() == 2


def test_an_update_whose_function_changes_the_cell_is_made_again() -> None:
    cell = SharedCell(0)

    def add_ten(value: int) -> int:
        if value == 0:
            cell.set(5)
        return value + 10

    assert cell.update(add_ten) == cell.get() == 15


def test_an_update_that_never_holds_ends_with_an_error() -> None:
    cell = SharedCell(0)
    with pytest.raises(UpdateConflictError, match="changes the cell that it updates"):
        cell.update(lambda value: cell.set(value + 1))
    assert cell.get() == 100


def test_an_update_with_an_error_changes_nothing() -> None:
    cell = SharedCell(0)
    with pytest.raises(ZeroDivisionError):
        cell.update(lambda value: 1 // value)
    assert cell.statistics().version == 0


def test_an_async_function_cannot_update() -> None:
    cell: SharedCell[object] = SharedCell(0)

    async def double(value: object) -> object:
        return value

    with pytest.raises(TypeError, match="an update takes a plain function"):
        cell.update(double)
    assert cell.get() == 0


async def test_a_change_is_waited_for() -> None:
    cell = SharedCell(0)
    seen: list[tuple[int, int]] = []

    async def watch() -> None:
        version = 0
        while version < 4:
            snapshot = await cell.changed(since=version)
            version = snapshot.version
            seen.append((snapshot.value, version))

    async with anyio.create_task_group() as task_group:
        task_group.start_soon(watch)
        await anyio.wait_all_tasks_blocked()
        cell.set(10)
        await anyio.wait_all_tasks_blocked()
        cell.set(20)
        cell.update(lambda value: value + 1)
        await anyio.wait_all_tasks_blocked()
        assert not cell.compare_and_set(-1, 30)
        await anyio.wait_all_tasks_blocked()
        assert seen == [(10, 1), (21, 3)]
        assert cell.compare_and_set(21, 30)
    assert seen[-1] == (30, 4)


async def test_a_change_that_has_been_is_not_waited_for_and_one_wakes_everybody() -> None:
    cell = SharedCell(0)
    cell.set(1)
    assert (await cell.changed(since=0)).value == 1
    with anyio.CancelScope() as scope:
        scope.cancel()
        await cell.changed(since=0)
    assert scope.cancelled_caught, "it is a checkpoint all the same"
    with anyio.move_on_after(0):
        await cell.changed(since=1)
    async with anyio.create_task_group() as task_group:
        for _ in range(3):
            task_group.start_soon(lambda: cell.changed(since=1))
        await anyio.wait_all_tasks_blocked()
        cell.set(2)


async def test_a_version_that_has_never_been_is_not_waited_for() -> None:
    with pytest.raises(ValueError, match="the version is 0 and has never been 3"):
        await SharedCell(0).changed(since=3)
    for version in (-1, 0.5, float("nan"), True):
        with pytest.raises(ValueError, match="since must be a whole number of at least 0, not"):
            await SharedCell(0).changed(since=version)  # pyright: ignore[reportArgumentType]


def test_everything_is_counted() -> None:
    cell = SharedCell(0)
    cell.get()
    snapshot = cell.snapshot()
    cell.set(1)
    assert not cell.compare_and_set(snapshot, 2)
    assert not cell.compare_and_set(7, 2)
    assert cell.compare_and_set(1, 2)
    cell.update(lambda value: value)
    assert cell.statistics() == SharedStatistics(
        reads=3,
        writes=1,
        compare_and_set_successes=2,
        compare_and_set_failures=2,
        stale_reads=1,
        version=3,
    )


async def test_a_name_means_one_cell_in_the_run_around_the_caller() -> None:
    outside = shared_cell("tokens", initial=0)
    assert shared_cell("tokens", initial=7, scope="process") is outside
    assert outside.get() == 0, "a cell that exists keeps its value"
    with open_namespace("run"):
        cell = shared_cell("tokens", initial=1)
        assert cell is not outside
        with open_namespace("task_group"):
            assert shared_cell("tokens", initial=2) is cell
            inner = shared_cell("tokens", initial=3, scope="task_group")
            assert inner is not cell
            assert shared_cell("tokens", initial=4, scope="process") is outside
        with open_namespace("run"):
            assert shared_cell("tokens", initial=5) is not cell
    with open_namespace("task_group"):
        assert shared_cell("tokens", initial=6) is outside


async def test_a_cell_ends_with_its_scope() -> None:
    with open_namespace("run"):
        first = shared_cell("tokens", initial=0)
    with open_namespace("run") as run:
        assert shared_cell("tokens", initial=0) is not first
        run.leave()
        with pytest.raises(
            NamespaceLeftError, match="the shared cell 'tokens' cannot be made: the run has ended"
        ):
            shared_cell("tokens", initial=0)
    with pytest.raises(UnknownNamespaceError):
        shared_cell("tokens", initial=0, scope="run")
