"""Shared cells and maps: whatever comes between reading and writing, compare-and-set tells."""

from dataclasses import dataclass

import anyio
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import given, strategies as st

from nighthawk_async.actors import SharedCell, SharedMap, Snapshot, shared_maps


@given(
    pauses=st.lists(st.lists(st.integers(0, 3), max_size=6), max_size=8), cancelled=st.sets(st.integers(0, 7))
)
@pytest.mark.anyio
async def test_no_increment_is_lost_or_doubled(pauses: list[list[int]], cancelled: set[int]) -> None:
    cell = SharedCell(0)
    entries: SharedMap[str, int] = SharedMap({"count": 0})
    done = [0, 0]

    async def increment_cell(pause: int) -> None:
        while True:
            snapshot = cell.snapshot()
            for _ in range(pause):
                await checkpoint()
            if cell.compare_and_set(snapshot, snapshot.value + 1):
                done[0] += 1
                return

    async def increment_entry(pause: int) -> None:
        while True:
            snapshot = entries.snapshot("count")
            for _ in range(pause):
                await checkpoint()
            if entries.compare_and_set("count", snapshot, (snapshot.value or 0) + 1):
                done[1] += 1
                return

    async def work(number: int) -> None:
        with anyio.CancelScope() as scope:
            for index, pause in enumerate(pauses[number]):
                if number in cancelled and index == 2:
                    scope.cancel()
                await increment_cell(pause)
                await increment_entry(pause)

    async with anyio.create_task_group() as task_group:
        for number in range(len(pauses)):
            task_group.start_soon(work, number)
    assert [cell.get(), entries.get("count")] == done
    if not cancelled:
        assert done == [sum(map(len, pauses))] * 2
    for statistics, successes in ((cell.statistics(), done[0]), (entries.statistics(), done[1])):
        assert statistics.compare_and_set_successes == statistics.version == successes
        assert statistics.compare_and_set_failures == statistics.stale_reads


KEYS = st.sampled_from("abc")
VALUES = st.integers(0, 2)  # few values, so that old ones come back
OPERATIONS = st.one_of(
    st.tuples(st.just("set"), KEYS, VALUES),
    st.tuples(st.just("delete"), KEYS, st.just(0)),
    st.tuples(st.just("snapshot"), KEYS, st.just(0)),
    st.tuples(st.just("compare_and_set"), st.integers(0, 20), VALUES),
    st.tuples(st.just("compare_value_and_set"), KEYS, VALUES),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A snapshot, and how often its key had been changed when it was taken."""

    key: str
    snapshot: Snapshot[int | None]
    changes: int


class Model:
    """A plain dictionary beside a shared map, which never forgets how often a key was changed."""

    def __init__(self) -> None:
        self.map: SharedMap[str, int] = SharedMap({"a": 0})
        self.entries = {"a": 0}
        self.changes = {"a": 0, "b": 0, "c": 0}
        self.taken: list[Taken] = []
        self.refused_too_often = 0

    def do(self, name: str, where: str | int, value: int) -> None:
        if name == "compare_and_set":
            self.compare_and_set(int(where), value)
        else:
            getattr(self, name)(where, value)
        assert dict(self.map.items()) == self.entries
        assert self.map.statistics().version == sum(self.changes.values())

    def set(self, key: str, value: int) -> None:
        assert self.map.set(key, value) == self.entries.get(key)
        self.change(key, value)

    def delete(self, key: str, _: int) -> None:
        assert self.map.delete(key) == self.entries.get(key)
        if key in self.entries:
            del self.entries[key]
            self.changes[key] += 1

    def snapshot(self, key: str, _: int) -> None:
        snapshot = self.map.snapshot(key)
        assert (snapshot.value, snapshot.is_present) == (self.entries.get(key), key in self.entries)
        assert all(each.snapshot.version <= snapshot.version for each in self.taken if each.key == key)
        self.taken.append(Taken(key=key, snapshot=snapshot, changes=self.changes[key]))

    def compare_and_set(self, place: int, value: int) -> None:
        if not self.taken:
            return
        taken = self.taken[place % len(self.taken)]
        is_current = taken.changes == self.changes[taken.key]
        if self.map.compare_and_set(taken.key, taken.snapshot, value):
            assert is_current, "somebody was faster, and nothing told"
            self.change(taken.key, value)
        elif is_current:
            assert not taken.snapshot.is_present, "a key that is there is compared exactly"
            self.refused_too_often += 1

    def compare_value_and_set(self, key: str, value: int) -> None:
        is_equal = self.entries.get(key) == value
        assert self.map.compare_and_set(key, value, value + 1) == is_equal
        if is_equal:
            self.change(key, value + 1)

    def change(self, key: str, value: int) -> None:
        self.entries[key] = value
        self.changes[key] += 1


@given(operations=st.lists(OPERATIONS, max_size=60))
def test_a_map_compares_exactly_however_often_its_keys_come_and_go(
    operations: list[tuple[str, str | int, int]],
) -> None:
    model = Model()
    for operation in operations:
        model.do(*operation)
    assert model.refused_too_often == 0


@given(operations=st.lists(OPERATIONS, max_size=60), known_deletions=st.integers(1, 2))
def test_a_map_that_forgets_deletions_refuses_too_often_but_never_accepts_too_much(
    operations: list[tuple[str, str | int, int]], known_deletions: int
) -> None:
    model = Model()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared_maps, "KNOWN_DELETIONS", known_deletions)
        for operation in operations:
            model.do(*operation)
