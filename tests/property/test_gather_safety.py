"""Any schedule of reading and changing steps: who shares is told, who reads is left alone."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import anyio
import pytest
from hypothesis import given, strategies as st

import nighthawk_async as nh
from tests.unit.policies.gathered_steps import Play, PlayingExecutor, evaluate, refused

OBJECTS = 3
STEPS = 4

Action: TypeAlias = Literal["read", "read slowly", "change", "change slowly", "change below", "rebind", "end"]
READING: tuple[Action, ...] = ("read", "read slowly", "rebind", "end")
CHANGING: tuple[Action, ...] = (*READING, "change", "change slowly", "change below")

EXPRESSIONS: dict[Action, str] = {
    "read": "(repr(first), sorted(first), first == second, {**first}, first['items'][:])",
    "read slowly": "read_slowly(first)",
    "change": "first.update(count=first.get('count', 0) + 1)",
    "change slowly": "change_slowly(first)",
    "change below": "first['items'].append(len(first['items']))",
}


async def read_slowly(thing: dict[str, Any]) -> str:
    await anyio.lowlevel.checkpoint()
    return repr(thing)


async def change_slowly(thing: dict[str, Any]) -> None:
    await anyio.lowlevel.checkpoint()
    thing["count"] = thing.get("count", 0) + 1
    await anyio.lowlevel.checkpoint()


@nh.natural_function
async def step(first: Any, second: Any, play: Play) -> None:
    """natural
    Work with <first> and <second>.
    """


@dataclass(frozen=True)
class Move:
    """What one step does next; a step begins with its first move and binds two of the objects."""

    number: int
    action: Action
    first: int
    second: int


def schedules(actions: Sequence[Action]) -> st.SearchStrategy[list[Move]]:
    """Lists of moves."""
    numbers, objects = st.integers(0, STEPS - 1), st.integers(0, OBJECTS - 1)
    move = st.builds(Move, number=numbers, action=st.sampled_from(actions), first=objects, second=objects)
    return st.lists(move, max_size=25)


class Player:
    """Carries a schedule out, and knows what must come of every move."""

    def __init__(self) -> None:
        self.objects: list[dict[str, Any]] = [{"items": [0]} for _ in range(OBJECTS)]
        self.actors: dict[int, nh.runtime.StepActor] = {}
        self.ends: dict[int, anyio.Event] = {}
        self.bound: dict[int, list[int]] = {}

    async def play(self, moves: list[Move]) -> None:
        async with (
            nh.run(PlayingExecutor(), concurrent_mutation="error", code="python"),
            anyio.create_task_group() as task_group,
        ):
            for move in moves:
                if move.number not in self.actors:
                    await task_group.start(self.begin, move)
                await self.make(move)
            for end in self.ends.values():
                end.set()

    async def begin(self, move: Move, *, task_status: Any) -> None:
        end = self.ends[move.number] = anyio.Event()

        async def play(actor: nh.runtime.StepActor) -> None:
            self.actors[move.number] = actor
            self.bound[move.number] = [move.first, move.second]
            task_status.started()
            await end.wait()

        await step(self.objects[move.first], self.objects[move.second], play)
        del self.ends[move.number], self.actors[move.number], self.bound[move.number]

    async def make(self, move: Move) -> None:
        if move.action == "end":
            self.ends[move.number].set()
            while move.number in self.actors:
                await anyio.lowlevel.checkpoint()
            return
        actor = self.actors[move.number]
        first, second = self.bound[move.number]
        if move.action == "rebind":
            await actor.settle(actor.post_execute("first, second = second, first"))
            self.bound[move.number] = [second, first]
            return
        before = repr(self.objects)
        error = await refused(evaluate(actor, EXPRESSIONS[move.action]))
        is_change = move.action.startswith("change")
        others = {held for number, pair in self.bound.items() if number != move.number for held in pair}
        assert (error is not None) == (is_change and first in others)
        assert (repr(self.objects) != before) == (is_change and first not in others)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@given(moves=schedules(CHANGING))
def test_exactly_the_changes_of_what_others_have_bound_are_refused_and_undone(
    backend: str, moves: list[Move]
) -> None:
    anyio.run(Player().play, moves, backend=backend)


@given(moves=schedules(READING))
def test_reading_together_is_never_reported(moves: list[Move]) -> None:
    player = Player()
    before = repr(player.objects)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        anyio.run(player.play, moves, backend="trio")
    assert repr(player.objects) == before
