"""`vote`: call a function several times at once and take the most frequent result."""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, ParamSpec, TypeAlias, TypeVar, overload

from ..parallel import is_async_callable
from ..parallel.calling import call_any
from ..tracing import note_named_event
from ..values.error_text import describe_error
from .errors import InvalidPolicyError, VoteError
from .transforming import Call, Transformer, checked_count, function_name
from .voting import Deciding, Tally, Votes, make_calls, make_calls_from_sync, plurality

Decided = TypeVar("Decided")
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

Decide: TypeAlias = Callable[[list[Any]], Any]
"""Makes one value from the values that the calls returned."""


@overload
def vote(
    function: Callable[Parameters, Result], /, *, count: int = 3, min_success: int | None = None
) -> Callable[Parameters, Result]: ...


@overload
def vote(
    function: Callable[Parameters, Coroutine[Any, Any, Result]],
    /,
    *,
    count: int = 3,
    decide: Callable[[list[Result]], Coroutine[Any, Any, Decided]],
    min_success: int | None = None,
) -> Callable[Parameters, Coroutine[Any, Any, Decided]]: ...


@overload
def vote(
    function: Callable[Parameters, Coroutine[Any, Any, Result]],
    /,
    *,
    count: int = 3,
    decide: Callable[[list[Result]], Decided],
    min_success: int | None = None,
) -> Callable[Parameters, Coroutine[Any, Any, Decided]]: ...


@overload
def vote(
    function: Callable[Parameters, Result],
    /,
    *,
    count: int = 3,
    decide: Callable[[list[Result]], Decided],
    min_success: int | None = None,
) -> Callable[Parameters, Decided]: ...


@overload
def vote(*, count: int = 3, min_success: int | None = None) -> "Vote": ...


@overload
def vote(
    *,
    count: int = 3,
    decide: Callable[[list[Result]], Coroutine[Any, Any, Decided]],
    min_success: int | None = None,
) -> Deciding[Result, Decided]: ...


@overload
def vote(
    *, count: int = 3, decide: Callable[[list[Result]], Decided], min_success: int | None = None
) -> Deciding[Result, Decided]: ...


def vote(
    function: Callable[..., Any] | None = None,
    /,
    *,
    count: int = 3,
    decide: Decide = plurality,
    min_success: int | None = None,
) -> Any:
    """Call a function several times at once with the same arguments and take the most frequent result.

        sure = vote(classify, count=5)

        @vote(decide=max)
        async def estimate(text: str) -> int: ...

    Calls may fail as long as enough succeed. The remaining calls are cancelled when the winner is certain, or
    when too many calls have failed. Synchronous functions are called in worker threads, 40 at once; calls
    that have begun are waited for, and their steps are cancelled.

    Other calls cannot make up for errors that express a decision: those that `retrying` never retries,
    `BudgetExceededError` for example. They end the vote and are raised unchanged.

    Args:
        function: The function; None returns a decorator.
        count: The number of calls.
        decide: A function, natural or not, that makes the result from the list of returned values, which is
            in the order of the calls. A synchronous `decide` of an async function is called in a worker
            thread. It sees all values, so no call is cancelled early. By default `plurality`: the value that
            occurs most often; with a tie, the one whose votes came first.
        min_success: The number of calls that must succeed; None for more than half.

    Returns:
        The function with the same parameters, returning what `decide` returns; or a decorator.

    Raises:
        InvalidPolicyError: An argument is invalid.
        TypeError: The function cannot be called, or is a generator, or `decide` is async when the function is
            not.
        VoteError: Raised by the function: too few calls succeeded, or values cannot be compared for equality
            (arrays, for example).
    """
    checked_count("count", count)
    if not callable(decide):
        raise InvalidPolicyError(f"decide is a function, not {decide!r}")
    most = count // 2 + 1 if min_success is None else checked_count("min_success", min_success)
    if most > count:
        raise InvalidPolicyError(f"min_success is at most the count, {count}, not {min_success!r}")
    transformer = Vote(count, min_success=most, decide=decide)
    return transformer if function is None else transformer(function)


class Vote(Transformer):
    """Takes the most frequent result of several calls. Made by `vote`.

    Args:
        count: The number of calls.
        min_success: The number of calls that must succeed.
        decide: Makes the result from the returned values.
    """

    __slots__ = ("_count", "_decide", "_min_success")

    title = "vote"

    def __init__(self, count: int, *, min_success: int, decide: Decide) -> None:
        self._count = count
        self._min_success = min_success
        self._decide = decide

    def check(self, function: object) -> None:
        """Refuse a synchronous function when `decide` is async."""
        super().check(function)
        if is_async_callable(self._decide) and not is_async_callable(function):
            raise TypeError(f"decide is async, but {function_name(function)} is not")

    def run(self, call: Call[Any]) -> Any:
        """Make the calls in worker threads and decide."""
        votes, tally = self._begin()
        make_calls_from_sync(call, tally, title=self.title)
        self._check_success(tally, call.name)
        if votes is not None:
            return votes.leader
        return Call(function=self._decide, args=(tally.values_in_order(),), kwargs={})()

    async def run_async(self, call: Call[Awaitable[Any]]) -> Any:
        """Make the calls and decide."""
        votes, tally = self._begin()
        await make_calls(call, tally, title=self.title)
        self._check_success(tally, call.name)
        return await call_any(self._decide, tally.values_in_order()) if votes is None else votes.leader

    def _begin(self) -> tuple[Votes[Any] | None, Tally[Any]]:
        votes = Votes[Any]() if self._decide is plurality else None
        return votes, Tally(self._count, self._min_success, votes=votes)

    def _check_success(self, tally: Tally[Any], name: str) -> None:
        succeeded, failed = len(tally.values), len(tally.errors)
        counts = {
            "nighthawk.vote.count": self._count,
            "nighthawk.vote.succeeded": succeeded,
            "nighthawk.vote.failed": failed,
        }
        if tally.has_succeeded:
            note_named_event("nighthawk.vote.decided", counts)
            return
        note_named_event("nighthawk.vote.failed", counts)
        errors = tally.errors_in_order()
        what = f"{failed} of {self._count} calls of {name} failed, and {self._min_success} have to succeed"
        message = f"{what}; the first that failed: {describe_error(errors[0])}"
        failure = VoteError(message, errors=errors).without_content(what)
        raise failure from ExceptionGroup(f"the calls of {name} that failed", errors)
