"""`vote` around async functions: how many calls are made, what they decide, and what is cancelled."""

from functools import partial
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from nighthawk_async.errors import StepAbortedError
from nighthawk_async.resilience import InvalidPolicyError, ResilienceError, VoteError, plurality, vote
from tests.unit.resilience.resilience_support import Script, recorded_events

anyio_test = pytest.mark.anyio


class Voters:
    """An async function whose calls take so many seconds, in order, and then give or raise something.

    Args:
        steps: Of each call, how many seconds it takes, and what it gives, or raises.
    """

    def __init__(self, *steps: tuple[float, object]) -> None:
        self._steps = steps
        self.begun = 0
        self.ended: list[int] = []
        self.cancelled: list[int] = []

    async def call(self) -> Any:
        position = self.begun
        self.begun += 1
        seconds, result = self._steps[position]
        try:
            await anyio.sleep(seconds)
        except anyio.get_cancelled_exc_class():
            self.cancelled.append(position)
            raise
        self.ended.append(position)
        if isinstance(result, BaseException):
            raise result
        return result


class VoterError(Exception):
    pass


# Deciding.


@anyio_test
async def test_three_calls_get_the_same_arguments_and_what_most_return_wins() -> None:
    calls: list[tuple[int, int]] = []

    @vote
    async def add(left: int, *, right: int) -> int:
        calls.append((left, right))
        await checkpoint()
        return left + right if len(calls) > 1 else 0

    assert await add(1, right=2) == 3
    assert set(calls) == {(1, 2)}


@anyio_test
@pytest.mark.virtual_time
async def test_calls_are_made_at_once() -> None:
    voters = Voters((5, "a"), (5, "b"), (5, "a"))
    begin = anyio.current_time()
    assert await vote(voters.call)() == "a"
    assert anyio.current_time() - begin == pytest.approx(5)


@anyio_test
@pytest.mark.virtual_time
async def test_the_rest_is_cancelled_when_the_winner_is_certain() -> None:
    voters = Voters((1, "a"), (9, "b"), (2, "a"), (9, "b"), (3, "a"))
    begin = anyio.current_time()
    assert await vote(voters.call, count=5)() == "a"
    assert anyio.current_time() - begin == pytest.approx(3)
    assert sorted(voters.cancelled) == [1, 3]


@anyio_test
@pytest.mark.virtual_time
async def test_of_values_with_as_many_votes_the_one_wins_that_had_them_first() -> None:
    voters = Voters((1, "a"), (2, "b"), (3, "b"), (4, "a"))
    begin = anyio.current_time()
    assert await vote(voters.call, count=4)() == "b"
    assert anyio.current_time() - begin == pytest.approx(3)


@anyio_test
@pytest.mark.virtual_time
async def test_a_winner_waits_until_enough_calls_have_succeeded() -> None:
    voters = Voters((1, "a"), (2, "a"), (3, VoterError()), (4, "b"), (9, "c"))
    begin = anyio.current_time()
    assert await vote(voters.call, count=5, min_success=3)() == "a"
    assert anyio.current_time() - begin == pytest.approx(4)


@anyio_test
@pytest.mark.virtual_time
async def test_cancelled_calls_are_awaited_and_what_they_raise_is_dropped() -> None:
    begun: list[int] = []
    ended: list[float] = []

    async def call() -> str:
        begun.append(len(begun))
        if begun == [0]:
            await anyio.sleep(1)
            return "a"
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(5)
            ended.append(anyio.current_time())
            raise VoterError

    begin = anyio.current_time()
    assert await vote(call, min_success=1, count=2)() == "a"
    assert ended == [begin + 6]


@anyio_test
@pytest.mark.virtual_time
async def test_another_way_to_decide_sees_all_values_in_the_order_of_the_calls() -> None:
    seen: list[list[int]] = []

    def decide(values: list[int]) -> int:
        seen.append(values)
        return sum(values)

    assert await vote(Voters((3, 1), (2, 2), (1, VoterError()), (1, 4)).call, count=4, decide=decide)() == 7
    assert seen == [[1, 2, 4]]


@anyio_test
@pytest.mark.virtual_time
async def test_an_async_function_may_decide() -> None:
    async def decide(values: list[str]) -> str:
        await anyio.sleep(1)
        return plurality(values)

    assert await vote(Voters((1, "a"), (1, "b"), (1, "b")).call, decide=decide)() == "b"


@anyio_test
async def test_what_deciding_raises_arrives_as_it_is() -> None:
    def decide(values: list[str]) -> str:
        raise VoterError("cannot decide")

    with pytest.raises(VoterError, match="cannot decide"):
        await vote(Script("a").call_async, decide=decide)()


@anyio_test
async def test_values_that_cannot_be_compared_end_the_vote() -> None:
    class Incomparable:
        def __eq__(self, other: object) -> bool:
            raise VoterError("not comparable")

    async def call() -> Incomparable:
        return Incomparable()

    with pytest.raises(VoteError, match="not comparable") as caught:
        await vote(call)()
    assert isinstance(caught.value.__cause__, VoterError)


# Failing.


@anyio_test
async def test_calls_may_fail_as_long_as_more_than_half_succeed() -> None:
    assert await vote(Script(VoterError(), "a").call_async)() == "a"
    with pytest.raises(VoteError):
        await vote(Script(VoterError(), VoterError(), "a").call_async)()


@anyio_test
@pytest.mark.virtual_time
async def test_it_fails_at_once_when_not_enough_calls_can_succeed() -> None:
    voters = Voters((1, VoterError("first")), (9, "a"), (2, VoterError("second")))
    begin = anyio.current_time()
    with pytest.raises(VoteError, match=r"2 of 3 calls of Voters\.call failed, and 2 have") as caught:
        await vote(voters.call)()
    assert anyio.current_time() - begin == pytest.approx(2)
    assert voters.cancelled == [1]
    assert isinstance(caught.value, ResilienceError)
    assert [str(error) for error in caught.value.errors] == ["first", "second"]
    assert isinstance(caught.value.__cause__, ExceptionGroup)
    assert caught.value.__cause__.exceptions == caught.value.errors
    assert "VoterError: first" in str(caught.value)


@anyio_test
@pytest.mark.virtual_time
async def test_what_somebody_decided_ends_the_vote_and_arrives_as_it_is() -> None:
    error = StepAbortedError("a person said so")
    voters = Voters((1, error), (9, "a"), (9, "a"))
    begin = anyio.current_time()
    with pytest.raises(StepAbortedError) as caught:
        await vote(voters.call, min_success=1)()
    assert caught.value is error
    assert anyio.current_time() - begin == pytest.approx(1)
    assert sorted(voters.cancelled) == [1, 2]


@anyio_test
async def test_an_exit_is_no_failure_of_a_call() -> None:
    with pytest.raises(SystemExit):
        await vote(Script("a", SystemExit(), "b").call_async)()


@anyio_test
@pytest.mark.virtual_time
async def test_whoever_is_cancelled_cancels_all_calls() -> None:
    voters = Voters((1, "a"), (9, "b"), (9, "c"))
    with anyio.move_on_after(5) as scope:
        await vote(voters.call)()
    assert scope.cancelled_caught
    assert sorted(voters.cancelled) == [1, 2]


@anyio_test
@pytest.mark.virtual_time
async def test_a_cancellation_is_not_turned_into_a_failure_by_calls_that_fail_because_of_it() -> None:
    async def call() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            raise VoterError

    with anyio.move_on_after(5) as scope:
        await vote(call)()
    assert scope.cancelled_caught


# Arguments.


@anyio_test
async def test_it_decorates_functions_methods_and_partials() -> None:
    class Voter:
        @vote(count=2)
        async def method(self, value: str) -> str:
            return value

        @vote(count=2)
        @staticmethod
        async def static(value: str) -> str:
            return value

    assert await Voter().method("a") == "a"
    assert await Voter.static("b") == "b"
    assert await vote(partial(Voter.static, "c"))() == "c"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"count": 0}, "count is a whole number, at least 1"),
        ({"count": 2.5}, "count is a whole number"),
        ({"min_success": 0}, "min_success is a whole number, at least 1"),
        ({"count": 3, "min_success": 4}, "min_success is at most the count, 3"),
        ({"decide": "most"}, "decide is a function"),
        ({"decide": None}, "decide is a function"),
    ],
    ids=str,
)
def test_arguments_that_make_no_sense_are_refused_at_once(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidPolicyError, match=message):
        vote(**arguments)


def test_an_async_function_cannot_decide_for_a_synchronous_one() -> None:
    async def decide(values: list[int]) -> int:
        return values[0]

    with pytest.raises(TypeError, match="decide is async, but len is not"):
        vote(len, decide=decide)


# In a trace.


@anyio_test
async def test_the_current_span_shows_the_decision() -> None:
    with recorded_events() as events:
        await vote(Script("a").call_async, count=3, decide=max)()
        with pytest.raises(VoteError):
            await vote(Script(VoterError()).call_async, count=1)()
    names = ["nighthawk.vote.count", "nighthawk.vote.succeeded", "nighthawk.vote.failed"]
    assert [(name, [attributes[each] for each in names]) for name, attributes in events] == [
        ("nighthawk.vote.decided", [3, 3, 0]),
        ("nighthawk.vote.failed", [1, 0, 1]),
    ]
