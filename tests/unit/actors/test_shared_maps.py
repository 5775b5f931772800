"""Shared maps."""

import anyio
import pytest

from nighthawk_async.actors import (
    SharedMap,
    SharedStatistics,
    UpdateConflictError,
    open_namespace,
    shared_map,
)
from nighthawk_async.actors.shared_maps import KNOWN_DELETIONS

pytestmark = pytest.mark.anyio


def test_values_are_set_read_and_deleted() -> None:
    initial = {"a": 1}
    numbers = SharedMap(initial)
    initial["b"] = 5
    assert numbers.get("a") == 1
    assert numbers.get("b") is None
    assert numbers.get("b", "none") == "none"
    assert numbers.set("b", 2) is None
    assert numbers.set("b", 3) == 2
    assert numbers.items() == (("a", 1), ("b", 3))
    assert numbers.delete("a") == 1
    assert numbers.delete("a") is None
    assert numbers.items() == (("b", 3),)
    assert repr(numbers) == "<SharedMap of 1 keys, version 3>"


def test_every_key_has_a_version_of_its_own() -> None:
    numbers = SharedMap({"a": 1, "b": 2})
    snapshot = numbers.snapshot("a")
    numbers.set("b", 3)
    numbers.delete("b")
    assert numbers.compare_and_set("a", snapshot, 10)
    assert not numbers.compare_and_set("a", snapshot, 11)
    assert numbers.items() == (("a", 10),)


def test_versions_survive_deletion() -> None:
    numbers = SharedMap({"a": 1})
    present = numbers.snapshot("a")
    numbers.delete("a")
    absent = numbers.snapshot("a")
    assert not numbers.compare_and_set("a", present, 2)
    numbers.set("a", 1)
    assert not numbers.compare_and_set("a", present, 2), "deleted, and set to the same value again"
    assert not numbers.compare_and_set("a", absent, 2)
    numbers.delete("a")
    assert not numbers.compare_and_set("a", absent, 2), "set, and deleted again"
    assert numbers.compare_and_set("a", numbers.snapshot("a"), 2)


def test_a_snapshot_may_expect_that_there_is_nothing() -> None:
    numbers: SharedMap[str, int | None] = SharedMap()
    absent = numbers.snapshot("a")
    assert (absent.value, absent.is_present) == (None, False)
    assert not numbers.compare_and_set("a", None, 1), "a plain value expects a value"
    assert numbers.compare_and_set("a", absent, None)
    assert numbers.snapshot("a").is_present
    assert numbers.compare_and_set("a", None, 1)
    assert numbers.delete("a") == 1


def test_keys_that_come_and_go_do_not_take_memory_for_ever() -> None:
    numbers: SharedMap[int, int] = SharedMap()
    forgotten, known = numbers.snapshot(-1), numbers.snapshot(0)
    for key in range(KNOWN_DELETIONS):
        numbers.set(key, key)
        numbers.delete(key)
    assert not numbers.compare_and_set(0, known, 1)
    assert numbers.compare_and_set(-1, forgotten, 1), "nothing had to be forgotten yet"
    numbers.delete(-1)
    before = numbers.snapshot(-2)
    numbers.set(KNOWN_DELETIONS, 0)
    numbers.delete(KNOWN_DELETIONS)
    assert not numbers.compare_and_set(0, known, 1)
    assert not numbers.compare_and_set(-2, before, 1), "refused once, to be safe"
    assert numbers.compare_and_set(-2, numbers.snapshot(-2), 1)
    assert len(numbers._deletions) == KNOWN_DELETIONS


def test_a_snapshot_of_another_key_or_map_is_refused() -> None:
    numbers, others = SharedMap({"a": 1, "b": 1}), SharedMap({"a": 1})
    for snapshot in (numbers.snapshot("b"), others.snapshot("a")):
        with pytest.raises(ValueError, match="the snapshot was not taken of the key 'a' of this map"):
            numbers.compare_and_set("a", snapshot, 2)


def test_an_update_begins_with_the_default() -> None:
    numbers: SharedMap[str, int] = SharedMap()
    assert numbers.update("a", lambda value: value + 1, default=10) == 11
    assert numbers.update("a", lambda value: value + 1, default=10) == 12


def test_an_update_that_never_holds_ends_with_an_error() -> None:
    numbers = SharedMap({"a": 0})
    with pytest.raises(UpdateConflictError, match="changes the key 'a' that it updates"):
        numbers.update("a", lambda value: numbers.set("a", value + 1) or 0, default=0)
    numbers.update("a", lambda _: numbers.set("b", 1) or 0, default=0)
    assert numbers.items() == (("a", 0), ("b", 1))


def test_an_async_function_cannot_update() -> None:
    numbers: SharedMap[str, object] = SharedMap()

    async def double(value: object) -> object:
        return value

    with pytest.raises(TypeError, match="an update takes a plain function"):
        numbers.update("a", double, default=0)
    assert numbers.items() == ()


async def test_a_change_of_any_key_is_waited_for() -> None:
    numbers: SharedMap[str, int] = SharedMap()
    seen: list[int] = []

    async def watch() -> None:
        for _ in range(2):
            seen.append(await numbers.changed(since=seen[-1] if seen else 0))

    async with anyio.create_task_group() as task_group:
        task_group.start_soon(watch)
        await anyio.wait_all_tasks_blocked()
        assert numbers.delete("a") is None
        await anyio.wait_all_tasks_blocked()
        assert seen == []
        numbers.set("a", 1)
        await anyio.wait_all_tasks_blocked()
        assert seen == [1]
        numbers.delete("a")
    assert seen == [1, 2]


def test_everything_is_counted() -> None:
    numbers = SharedMap({"a": 1})
    stale = numbers.snapshot("a")
    numbers.get("a")
    numbers.items()
    numbers.set("a", 2)
    numbers.delete("b")
    numbers.compare_and_set("a", stale, 3)
    numbers.compare_and_set("a", 7, 3)
    numbers.compare_and_set("a", 2, 3)
    numbers.delete("a")
    assert numbers.statistics() == SharedStatistics(
        reads=3,
        writes=2,
        compare_and_set_successes=1,
        compare_and_set_failures=2,
        stale_reads=1,
        version=3,
    )


async def test_a_name_means_one_map_in_its_scope() -> None:
    with open_namespace("run"):
        memo = shared_map("memo", initial={"a": 1})
        with open_namespace("task_group"):
            assert shared_map("memo", initial={"b": 2}) is memo
            assert shared_map("memo", scope="task_group") is not memo
        assert memo.items() == (("a", 1),)
    with open_namespace("run"):
        assert shared_map("memo").items() == ()


def test_a_key_that_was_set_again_takes_no_place_among_the_known_deletions() -> None:
    numbers: SharedMap[str, int] = SharedMap({"again": 0})
    numbers.delete("again")
    numbers.set("again", 1)
    unknown = numbers.snapshot("unknown")
    for number in range(KNOWN_DELETIONS):
        numbers.set(f"key {number}", number)
        numbers.delete(f"key {number}")
    assert numbers.compare_and_set("unknown", unknown, 1)
