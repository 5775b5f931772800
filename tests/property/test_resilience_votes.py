"""A vote that ends early gives what it would have given with all votes, in whatever order they come."""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, TypeAlias

import anyio
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import given, strategies as st

from nighthawk_async.parallel import Failed, Succeeded
from nighthawk_async.resilience import VoteError, plurality, vote
from nighthawk_async.resilience.voting import Tally, Votes

Vote: TypeAlias = int | None
"""What a call returns; None when it fails."""

FAILED = object()

MOST = 9


class CallError(Exception):
    """What a call raises that fails."""


def with_all_votes(votes: Sequence[Vote], min_success: int) -> object:
    """What is decided when all calls have ended, in this order."""
    values = [value for value in votes if value is not None]
    return plurality(values) if len(values) >= min_success else FAILED


def tally_after(votes: Sequence[Vote], count: int, min_success: int) -> tuple[Tally[int], Votes[int]]:
    counted = Votes[int]()
    tally = Tally[int](count, min_success, votes=counted)
    for position, value in enumerate(votes):
        tally.take(position, Failed(CallError()) if value is None else Succeeded(value))
    return tally, counted


@st.composite
def elections(draw: st.DrawFn) -> tuple[list[Vote], int]:
    """Votes in the order in which they come, and how many calls have to succeed."""
    votes = draw(st.lists(st.none() | st.integers(0, 3), min_size=1, max_size=MOST))
    return votes, draw(st.integers(1, len(votes)))


@given(elections())
def test_the_early_answer_is_the_answer_with_all_votes(election: tuple[list[Vote], int]) -> None:
    votes, min_success = election
    tally, counted = tally_after(votes, len(votes), min_success)
    assert tally.is_settled
    assert (counted.leader if tally.has_succeeded else FAILED) == with_all_votes(votes, min_success)


def continuations(outstanding: int) -> Iterator[tuple[Vote, ...]]:
    """How it may go on; 8 is new."""
    return product((None, 0, 1, 2, 8), repeat=outstanding)


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_it_is_settled_exactly_when_nothing_can_change_any_more(count: int) -> None:
    for begun in range(count):
        for votes in product((None, 0, 1, 2), repeat=begun):
            for min_success in range(1, count + 1):
                tally, _ = tally_after(votes, count, min_success)
                ends = {with_all_votes([*votes, *rest], min_success) for rest in continuations(count - begun)}
                assert tally.is_settled == (len(ends) == 1), (votes, min_success)


class Polls:
    """Calls that end one after the other, in a given order."""

    def __init__(self, votes: Sequence[Vote]) -> None:
        self._votes = votes
        self._begun = 0
        self._may_end = [anyio.Event() for _ in votes]
        self._has_ended = [anyio.Event() for _ in votes]
        self.in_flight = 0

    async def call(self) -> Any:
        position = self._begun
        self._begun += 1
        self.in_flight += 1
        try:
            await self._may_end[position].wait()
        finally:
            self.in_flight -= 1
            self._has_ended[position].set()
        if self._votes[position] is None:
            raise CallError
        return self._votes[position]

    async def end_in(self, order: Sequence[int]) -> None:
        while self._begun < len(self._votes):
            await checkpoint()
        for position in order:
            self._may_end[position].set()
            await self._has_ended[position].wait()
            for _ in range(3):
                await checkpoint()


@pytest.mark.anyio
@given(elections(), st.data())
async def test_calls_in_any_order_give_what_all_votes_would_and_leave_none_in_flight(
    election: tuple[list[Vote], int], data: st.DataObject
) -> None:
    votes, min_success = election
    order: list[int] = data.draw(st.permutations(range(len(votes))))
    polls = Polls(votes)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(polls.end_in, order)
        try:
            result = await vote(polls.call, count=len(votes), min_success=min_success)()
        except VoteError:
            result = FAILED
        assert polls.in_flight == 0
    assert result == with_all_votes([votes[position] for position in order], min_success)


@pytest.mark.anyio
@given(elections(), st.data())
async def test_a_cancellation_at_any_moment_leaves_no_call_in_flight(
    election: tuple[list[Vote], int], data: st.DataObject
) -> None:
    votes, min_success = election
    polls = Polls(votes)
    turns = data.draw(st.integers(0, 4 * len(votes) + 4))
    results: list[object] = []

    async def poll() -> None:
        try:
            results.append(await vote(polls.call, count=len(votes), min_success=min_success)())
        except VoteError:
            results.append(FAILED)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(polls.end_in, range(len(votes)))
        tasks.start_soon(poll)
        for _ in range(turns):
            await checkpoint()
        tasks.cancel_scope.cancel()
    assert polls.in_flight == 0
    assert results in ([], [with_all_votes(votes, min_success)])
