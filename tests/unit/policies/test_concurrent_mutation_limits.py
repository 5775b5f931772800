"""How far the guard looks, and what it says when it cannot put an object back."""

import ctypes
import io
import threading
from array import array
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.policies.shared_objects.bound_objects import (
    MAX_WATCHED_DEPTH,
    MAX_WATCHED_ITEMS,
    MAX_WATCHED_OBJECTS,
    ConcurrentMutationError,
)
from tests.unit.policies.gathered_steps import execute, holding, refusal_of, refused, step, strict_run

pytestmark = pytest.mark.anyio


async def test_an_object_too_large_to_be_remembered_is_compared_by_its_size_and_stays_changed() -> None:
    thing = [0] * (MAX_WATCHED_ITEMS + 1)
    async with strict_run(), holding(thing):
        assert await refusal_of("thing.__setitem__(0, 1)", thing) is None
        error = await refusal_of("thing.append(1)", thing)
    assert error is not None
    assert not error.is_restored
    assert thing[-1] == 1


async def test_changes_are_looked_for_four_objects_deep() -> None:
    depths = range(MAX_WATCHED_DEPTH + 2)
    thing: list[Any] = []
    for _ in depths:
        thing = [thing]
    told: list[bool] = []
    async with strict_run(), holding(thing):
        for depth in depths:
            error = await refusal_of(f"thing{'[0]' * depth}.append(1)", thing)
            told.append(error is not None)
    assert told == [depth <= MAX_WATCHED_DEPTH for depth in depths]


async def test_of_many_objects_the_first_are_looked_at() -> None:
    thing: list[list[int]] = [[] for _ in range(2 * MAX_WATCHED_OBJECTS)]
    async with strict_run(), holding(thing):
        assert await refusal_of("thing[0].append(1)", thing) is not None
        assert await refusal_of("thing[-1].append(1)", thing) is None


async def test_objects_that_hold_each_other_are_looked_at_once() -> None:
    thing: list[Any] = [1]
    thing.append({"self": thing})
    async with strict_run(), holding(thing):
        assert await refusal_of("repr(thing)", thing) is None
        error = await refusal_of("thing[1].clear()", thing)
    assert error is not None
    assert thing[1]["self"] is thing


class Stubborn:
    """Keys of a dictionary that cannot be put in again."""

    is_broken = False

    def __hash__(self) -> int:
        if self.is_broken:
            raise ValueError("no hash today")
        return 1

    def __eq__(self, other: object) -> bool:
        return self is other


async def test_what_cannot_be_put_back_is_said_not_to_be() -> None:
    key = Stubborn()
    thing = {key: 1}

    async def play(actor: nh.runtime.StepActor) -> None:
        error = await refused(execute(actor, "next(iter(thing)).is_broken = True; thing.clear()"))
        assert error is not None
        assert not error.is_restored

    async with strict_run(), holding(thing):
        await step(thing, play)


async def test_a_step_that_has_ended_is_nobody_s_caller() -> None:
    thing, may_go_on = [1], anyio.Event()
    told: list[object] = []

    async def later() -> None:
        await may_go_on.wait()
        async with holding(thing):
            told.append(await refusal_of("thing.append(2)", thing))

    async with strict_run() as run:

        async def play(_: nh.runtime.StepActor) -> None:
            run.task_group.start_soon(later)

        await step(thing, play)
        may_go_on.set()
    assert isinstance(told[0], ConcurrentMutationError)


# ---- the limits that the guard's documentation names


class Counter:
    """Guards itself with a lock, and keeps what it has computed."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.count = 0
        self._square: int | None = None

    def increase(self) -> None:
        with self.lock:
            self.count += 1

    @property
    def square(self) -> int:
        if self._square is None:
            self._square = self.count**2
        return self._square


class Label:
    """A key that can change."""

    text = "a"


def columns() -> Any:
    return ctypes.create_string_buffer(4)  # as arrays and data frames do, it holds what no attribute shows


@pytest.mark.parametrize(
    ("make", "expression"),
    [
        pytest.param(lambda: array("i", [1]), "thing.append(2)", id="array"),
        pytest.param(columns, "thing.__setitem__(0, b'x')", id="memory of an extension type"),
        pytest.param(lambda: iter([1, 2]), "next(thing)", id="iterator"),
        pytest.param(lambda: (number for number in (1, 2)), "next(thing)", id="generator"),
        pytest.param(lambda: [iter([1, 2])], "next(thing[0])", id="iterator in a list"),
        pytest.param(lambda: io.StringIO(), "thing.write('x')", id="file"),
        pytest.param(lambda: ValueError([1]), "thing.args[0].append(2)", id="exception"),
        pytest.param(lambda: {Label(): 1}, "setattr(next(iter(thing)), 'text', 'b')", id="key"),
        pytest.param(
            lambda: OrderedDict([((1,), 1), ((2,), 2)]), "thing.move_to_end((1,))", id="order of other keys"
        ),
    ],
)
async def test_what_python_code_cannot_see_is_not_noticed(make: Callable[[], Any], expression: str) -> None:
    thing = make()
    async with strict_run(), holding(thing):
        assert await refusal_of(expression, thing) is None


async def test_a_cache_that_is_filled_by_hand_is_taken_for_a_change_unless_it_is_declared() -> None:
    thing = Counter()
    async with strict_run(), holding(thing):
        assert await refusal_of("thing.square", thing) is not None
        nh.shared(thing)
        assert await refusal_of("thing.square", thing) is None


async def test_an_object_that_holds_a_lock_is_put_back_and_its_lock_let_be() -> None:
    thing = Counter()
    lock = thing.lock
    async with strict_run(), holding(thing):
        assert await refusal_of("thing.lock.acquire()", thing) is None
        lock.release()
        error = await refusal_of("thing.increase()", thing)
    assert error is not None
    assert error.is_restored
    assert (thing.count, thing.lock) == (0, lock)
    assert not lock.locked()
