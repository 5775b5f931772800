"""Votes: concurrent calls, the tally of their results, and the most frequent value.

The calls run concurrently until the remaining ones cannot change the result. `vote(decide=…)` and
`ensemble(reconcile=…)` give decorators that change the result of a function.
"""

from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, Generic, ParamSpec, Protocol, TypeAlias, TypeVar, overload

from anyio import CapacityLimiter

from ..kernel.environment import find_environment, run_from_sync
from ..parallel import Failed, Outcome, cancel_requested, raise_if_cancel_requested
from ..parallel.calling import call_any
from ..parallel.calls import CallOptions, Calls
from ..policies.attempts.resilience import may_be_retried
from ..policies.attempts.samples import using_sample
from ..values.error_text import describe_error
from .errors import InvalidPolicyError, VoteError
from .transforming import Call
from .waiting import wait_from_sync

Value = TypeVar("Value")


def plurality(values: Iterable[Value]) -> Value:
    """Return the value that occurs most often; with a tie, the one that reached that count first.

    Values are compared with `==`, so they need not be hashable.

    Args:
        values: The values, at least one.

    Raises:
        InvalidPolicyError: There are no values.
        VoteError: Two values cannot be compared for equality.
    """
    votes = Votes[Value]()
    for value in values:
        votes.add(value)
    return votes.leader


class Votes(Generic[Value]):
    """Counts values, equal ones together."""

    __slots__ = ("_counts", "_leading", "_values")

    def __init__(self) -> None:
        self._values: list[Value] = []
        self._counts: list[int] = []
        self._leading = 0

    @property
    def leader(self) -> Value:
        """The value with the most votes; with a tie, the one that reached that count first.

        Raises:
            InvalidPolicyError: There are no votes yet.
        """
        if not self._values:
            raise InvalidPolicyError("plurality needs at least one value")
        return self._values[self._leading]

    def add(self, value: Value) -> None:
        """Count a vote.

        Args:
            value: The value that the vote is for.

        Raises:
            VoteError: The value cannot be compared with another one.
        """
        position = self._position(value)
        self._counts[position] += 1
        if self._counts[position] > self._counts[self._leading]:
            self._leading = position

    def is_certain(self, outstanding: int) -> bool:
        """Whether the leader stays the leader whatever the outstanding votes are.

        A possible tie does not matter: the leader reached that count first.

        Args:
            outstanding: The greatest number of votes still to come.
        """
        if not self._values:
            return False
        others = (count for position, count in enumerate(self._counts) if position != self._leading)
        return self._counts[self._leading] >= max(others, default=0) + outstanding

    def _position(self, value: Value) -> int:
        for position, known in enumerate(self._values):
            if _is_same(known, value):
                return position
        self._values.append(value)
        self._counts.append(0)
        return len(self._values) - 1


def _is_same(one: object, other: object) -> bool:
    """Whether two values count as the same; an object that is not equal to itself, like NaN, does too."""
    try:
        return one is other or bool(one == other)
    except Exception as error:  # arrays compare element by element, which is neither true nor false
        raise VoteError(
            f"{type(other).__name__} does not say whether two values are equal, so there is no plurality; "
            f"give decide=… to a vote, or reconcile=… to an ensemble ({describe_error(error)})",
            errors=[error],
        ) from error


Decided_co = TypeVar("Decided_co", covariant=True)
Owner = TypeVar("Owner")
Parameters = ParamSpec("Parameters")
Value_contra = TypeVar("Value_contra", contravariant=True)


class Deciding(Protocol[Value_contra, Decided_co]):
    """A decorator that makes a function return what was decided from several of its results."""

    @overload
    def __call__(
        self, function: "staticmethod[Parameters, Coroutine[Any, Any, Value_contra]]", /
    ) -> "staticmethod[Parameters, Coroutine[Any, Any, Decided_co]]": ...

    @overload
    def __call__(  # type: ignore[overload-overlap]  # a static method is taken for a plain function too
        self, function: "staticmethod[Parameters, Value_contra]", /
    ) -> "staticmethod[Parameters, Decided_co]": ...

    @overload
    def __call__(
        self, function: "classmethod[Owner, Parameters, Coroutine[Any, Any, Value_contra]]", /
    ) -> "classmethod[Owner, Parameters, Coroutine[Any, Any, Decided_co]]": ...

    @overload
    def __call__(
        self, function: "classmethod[Owner, Parameters, Value_contra]", /
    ) -> "classmethod[Owner, Parameters, Decided_co]": ...

    @overload
    def __call__(
        self, function: Callable[Parameters, Coroutine[Any, Any, Value_contra]], /
    ) -> Callable[Parameters, Coroutine[Any, Any, Decided_co]]: ...

    @overload
    def __call__(
        self, function: Callable[Parameters, Value_contra], /
    ) -> Callable[Parameters, Decided_co]: ...


class Tally(Generic[Value]):
    """The outcomes of the calls.

    Args:
        count: The number of calls.
        min_success: The number of calls that must succeed.
        votes: Counts the values when a plurality decides; None when a function decides, which needs all
            values.

    Attributes:
        values: The values of the calls that returned, by position, in the order in which they ended.
        errors: The errors of the calls that raised, likewise.
        final_error: An error that other calls cannot make up for: it expresses a decision, or values cannot
            be compared.
        is_settled: Whether the calls in flight can no longer change the result.
    """

    __slots__ = ("_votes", "count", "errors", "final_error", "is_settled", "min_success", "values")

    def __init__(self, count: int, min_success: int, *, votes: Votes[Value] | None) -> None:
        self.count = count
        self.min_success = min_success
        self.values: dict[int, Value] = {}
        self.errors: dict[int, Exception] = {}
        self.final_error: Exception | None = None
        self.is_settled = False
        self._votes = votes

    @property
    def has_succeeded(self) -> bool:
        """Whether enough calls have succeeded."""
        return len(self.values) >= self.min_success

    def take(self, position: int, outcome: Outcome[Value]) -> None:
        """Record the outcome of a call. Calls that end after the tally is settled do not count.

        Args:
            position: The position of the call, from 0.
            outcome: The outcome of that call.
        """
        if self.is_settled:
            return
        if isinstance(outcome, Failed):
            self._take_error(position, outcome.error)
        else:
            self._take_value(position, outcome.value)
        self.is_settled = self._is_settled()

    def values_in_order(self) -> list[Value]:
        """The results of the calls that returned, in the order of the calls."""
        return [self.values[position] for position in sorted(self.values)]

    def errors_in_order(self) -> list[Exception]:
        """The errors of the calls that raised, in the order of the calls."""
        return [self.errors[position] for position in sorted(self.errors)]

    def _take_value(self, position: int, value: Value) -> None:
        self.values[position] = value
        try:
            if self._votes is not None:
                self._votes.add(value)
        except VoteError as error:
            self.final_error = error

    def _take_error(self, position: int, error: Exception) -> None:
        self.errors[position] = error
        if not may_be_retried(error):
            self.final_error = error

    def _is_settled(self) -> bool:
        if self.final_error is not None or len(self.errors) > self.count - self.min_success:
            return True
        outstanding = self.count - len(self.values) - len(self.errors)
        return self._votes is not None and self.has_succeeded and self._votes.is_certain(outstanding)


MakeCall: TypeAlias = Callable[[int, Callable[[], Awaitable[Any]]], Awaitable[Any]]
"""Makes one of the calls; receives its position, from 0, and a function that returns its awaitable."""

_MOST_THREADS = 40


async def make_calls(
    call: Call[Awaitable[Any]], tally: Tally[Any], *, title: str, wrap: MakeCall | None = None
) -> None:
    """Make the calls of an async function concurrently. Cancels and awaits the rest once settled.

    Args:
        call: The function that is called.
        tally: Says how many calls to make, records the outcomes, and knows when it is settled.
        title: The name of the purpose of the calls.
        wrap: Makes each call, in the task of the call; None to await it as it is.

    Raises:
        Exception: An error that other calls cannot make up for.
    """
    await _make_calls(call, tally, title, wrap)


def make_calls_from_sync(
    call: Call[Any], tally: Tally[Any], *, title: str, wrap: MakeCall | None = None
) -> None:
    """Make the calls of a synchronous function in worker threads. Waits for those that it cannot interrupt.

    In a worker thread of an event loop, the calls belong to that loop. Anywhere else within a run, they
    belong to the run's portal; without a run, to a temporary event loop that lasts as long as they do.

    Raises:
        TaskCancelledError: The task of the caller was asked to end while calls waited for a thread.
    """

    async def make_in_threads() -> None:
        # A limiter of its own: nested calls would otherwise wait for the threads that their callers hold.
        threads = CapacityLimiter(min(tally.count, _MOST_THREADS))
        in_thread = call if cancel_requested() else lambda: _begin_unless_ending(call)
        await _make_calls(lambda: call_any(in_thread, limiter=threads), tally, title, wrap)

    if find_environment() is None:
        wait_from_sync(make_in_threads)
    else:
        run_from_sync(make_in_threads)


def _begin_unless_ending(call: Call[Any]) -> Any:
    """Call, unless the task of the caller was asked to end while the call waited for a thread."""
    raise_if_cancel_requested()
    return call()


async def _make_calls(
    call: Callable[[], Awaitable[Any]], tally: Tally[Any], title: str, wrap: MakeCall | None
) -> None:
    async def make_one(position: int) -> Any:
        with using_sample(position):
            return await (call() if wrap is None else wrap(position, call))

    def take(position: int, outcome: Outcome[Any]) -> None:
        tally.take(position, outcome)
        if tally.is_settled:
            calls.decide(is_failure=tally.final_error is not None or not tally.has_succeeded)

    calls = Calls(make_one, range(tally.count), take, CallOptions(title=title))
    await calls.run()
    if tally.final_error is not None:
        raise tally.final_error
