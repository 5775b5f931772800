"""`rate_limit`: limit the calls, or the tokens, within any minute.

`models.pacing` decides what counts against the limits, as for the requests to a model. This module is
only the queue: calls start in the order of their arrival, from any thread or event loop.
"""

import threading
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ParamSpec, TypeAlias, TypeVar, overload
from weakref import WeakValueDictionary

from anyio.lowlevel import checkpoint_if_cancelled

from ..kernel.calls import skips_waits
from ..kernel.environment import find_environment, get_environment, using_environment
from ..kernel.usage_meter import UsageMeter
from ..models.pacing import LIMIT_FINDER, CallLimit, Demand, LimitCounts, PacingLimits, Start
from ..parallel import raise_if_cancel_requested
from ..parallel.event_loop import is_loop_thread, is_worker_thread, shared_time
from ..parallel.fair_queue import FairQueue, wake
from ..parallel.task_current import asked_to_end
from ..tracing import note_named_event
from .errors import InvalidPolicyError
from .transforming import Call, Transformer, checked_callable, checked_count
from .waiting import wait_from_sync

_FIRST_GUESS = 1_000
_LEAST_WAIT_SECONDS = 0.001
"""The shortest wait, so that float rounding does not cause a busy loop of empty waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimitStatistics:
    """A snapshot of the statistics of a rate limit.

    Args:
        waiting: Calls that wait for their turn.
        tokens_per_call: The tokens that a call is expected to use when it does not say.
    """

    waiting: int
    tokens_per_call: int


class SharedLimit:
    """A rate limit. Used from any thread and event loop.

    Args:
        limits: The limits.
    """

    def __init__(self, limits: PacingLimits) -> None:
        self.limits = limits
        self._counts = LimitCounts()
        self._lock = threading.Lock()
        self._queue = FairQueue[Start](self._lock)
        self._known_calls = 0
        self._known_tokens = 0

    def statistics(self) -> RateLimitStatistics:
        """Return a snapshot of the statistics."""
        with self._lock:
            return RateLimitStatistics(waiting=len(self._queue), tokens_per_call=self._expected_tokens())

    def enter_nowait(self, tokens: int | None) -> Start | None:
        """Begin a call, or return None when it has to wait.

        Args:
            tokens: The tokens it will use; None for the average of the calls so far.
        """
        with self._lock:
            return None if self._queue else self._begin(self._demand(tokens))

    async def enter(self, tokens: int | None, *, goes_first: bool = False) -> Start:
        """Begin a call when it is its turn. A caller that is cancelled before consumes nothing.

        Args:
            tokens: The tokens it will use; None for the average of the calls so far.
            goes_first: Whether it goes before those that wait, because they cannot go while it waits.

        Raises:
            TaskCancelledError: It would have to wait, and the task of the caller was asked to end. Nothing is
                consumed.
        """
        with self._lock:
            demand = self._demand(tokens)
            turn = self._queue.join(
                lambda: self._begin(demand), goes_first=goes_first, pause=lambda: self._pause(demand)
            )
        with asked_to_end(lambda: wake([turn])):
            return await self._queue.wait(turn, self.give_back)

    def settle(self, start: Start, tokens: int | None) -> None:
        """Record the end of a call.

        Args:
            start: The start of the call.
            tokens: The tokens it used; None when unknown.
        """
        if tokens is None:
            return
        with self._lock:
            self._known_calls += 1
            self._known_tokens += tokens
            self._counts.correct(start, tokens)
        self._move()

    def _demand(self, tokens: int | None) -> Demand:
        expected = self._expected_tokens() if tokens is None else tokens
        return Demand(lane="", input_tokens=expected, limits=self.limits)

    def _expected_tokens(self) -> int:
        return -(-self._known_tokens // self._known_calls) if self._known_calls else _FIRST_GUESS

    def _begin(self, demand: Demand) -> Start | None:
        """Begin a call, or return None when it has to wait."""
        now = shared_time()
        self._counts.forget_before_minute(now)
        return None if self._counts.blocking(demand) else self._counts.begin(demand, now)

    def _pause(self, demand: Demand) -> float:
        """Return the seconds after which a call may begin."""
        raise_if_cancel_requested()
        blocking = self._counts.blocking(demand)
        return max(max(blocking.values()) - shared_time(), _LEAST_WAIT_SECONDS) if blocking else 0.0

    def give_back(self, start: Start) -> None:
        """Return the beginning of a call that does not take place.

        Args:
            start: The start of the call.
        """
        with self._lock:
            self._counts.withdraw(start)
        self._move()

    def _move(self) -> None:
        with self._lock:
            woken = self._queue.move()
        wake(woken)


Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

Tokens: TypeAlias = int | Callable[..., int]
"""The tokens that a call will use: a number, or a function of the call's arguments."""

_KEY = "key:"
_shared: dict[str, SharedLimit] = {}
_named: WeakValueDictionary[str, SharedLimit] = WeakValueDictionary()
"""The limits without a key, by the name of their first function."""
_of_workers: dict[tuple[str, PacingLimits], SharedLimit] = {}
"""Those of functions that only workers have called so far."""
_lock = threading.Lock()


@overload
def rate_limit(
    function: Callable[Parameters, Result],
    /,
    *,
    per_minute: int | None = None,
    tokens_per_minute: int | None = None,
    tokens: Tokens | None = None,
    key: str | None = None,
) -> Callable[Parameters, Result]: ...


@overload
def rate_limit(
    *,
    per_minute: int | None = None,
    tokens_per_minute: int | None = None,
    tokens: Tokens | None = None,
    key: str | None = None,
) -> "RateLimit": ...


def rate_limit(
    function: Callable[..., Any] | None = None,
    /,
    *,
    per_minute: int | None = None,
    tokens_per_minute: int | None = None,
    tokens: Tokens | None = None,
    key: str | None = None,
) -> Any:
    """Make calls wait, so that no more calls begin within any minute than allowed.

        calm = rate_limit(summarize, per_minute=60)

        @rate_limit(per_minute=60, tokens_per_minute=100_000, tokens=2_000, key="the search service")
        async def search(text: str) -> list[str]: ...

    Calls begin in the order of their arrival. A call that is cancelled while it waits consumes nothing;
    neither does one whose task is asked to end, which does not wait or stops waiting. The functions of one
    `RateLimit` share it, as do all functions with the same key, in all threads and on all event loops of the
    process, for as long as it lives. Calls on workers count in the program, too: by the key, or by the name
    of the first function of a `RateLimit`, which a module must define at its top level.

    The usage of a call is not known before it ends. So it reserves `tokens`; when it has ended, the tokens
    that its model requests used count instead. For this the call has a usage meter of its own, within a run.
    Outside runs, and for a call that sends no request through this library, the reservation stays.

    Args:
        function: The function; None returns a decorator for any number of functions.
        per_minute: The greatest number of calls that begin within a minute; None for any number.
        tokens_per_minute: The greatest number of tokens, sent and received, that these calls use; None for
            any number. A call that needs more than that begins when no other call counts.
        tokens: The tokens that a call reserves: a number, or a function that gets the arguments of the call.
            By default the average of the calls so far, and 1,000 before any has ended.
        key: The key of all functions that share the limit; None for a limit of its own.

    Returns:
        The function with the same signature, or a decorator.

    Raises:
        InvalidPolicyError: An argument is invalid, nothing is limited, or the key is in use with other
            limits.
        TaskCancelledError: Raised by the function: its task was asked to end, and it would have to wait.
        TypeError: The function cannot be called, or is a generator.
    """
    if per_minute is None and tokens_per_minute is None:
        raise InvalidPolicyError("rate_limit needs per_minute, tokens_per_minute, or both")
    limits = PacingLimits(
        requests_per_minute=None if per_minute is None else checked_count("per_minute", per_minute),
        tokens_per_minute=(
            None if tokens_per_minute is None else checked_count("tokens_per_minute", tokens_per_minute)
        ),
    )
    if callable(tokens):
        checked_callable("tokens", tokens)
    elif tokens is not None:
        _checked_tokens(tokens)
    transformer = RateLimit(_keyed_limit(key, limits), tokens, name=None if key is None else f"{_KEY}{key}")
    return transformer if function is None else transformer(function)


class RateLimit(Transformer):
    """Makes calls wait for their turn. Made by `rate_limit`.

    Args:
        limit: The limit, which may be shared.
        tokens: The tokens that a call reserves; None for the average.
        name: The name of the limit in all processes; None for that of its first function.
    """

    __slots__ = ("_limit", "_name", "_tokens")

    title = "rate_limit"

    def __init__(self, limit: SharedLimit, tokens: Tokens | None, *, name: str | None) -> None:
        self._limit = limit
        self._tokens = tokens
        self._name = name

    def check(self, function: object) -> None:
        """Refuse a function that cannot be transformed, and take the name of the first one."""
        super().check(function)
        if self._name is None:
            self._name = _name_of(function)
            if self._name:
                self._limit = _named_limit(self._name, self._limit)

    def statistics(self) -> RateLimitStatistics:
        """Return a snapshot of the statistics."""
        return self._limit.statistics()

    def run(self, call: Call[Any]) -> Any:
        """Call the function when it is its turn."""
        if skips_waits():  # an earlier life of the run has waited for that turn
            return call()
        limit, start = self._enter_here(self._reserved(call))
        with self._settling(limit, start):
            return call()

    async def run_async(self, call: Call[Awaitable[Any]]) -> Any:
        """Call the function when it is its turn."""
        await checkpoint_if_cancelled()
        if skips_waits():
            return await call()
        limit, start = await self._enter(self._reserved(call), self._found_limit())
        with self._settling(limit, start):
            return await call()

    def _found_limit(self) -> CallLimit:
        """Return the limit of all processes: on workers, it is kept in the program."""
        find = LIMIT_FINDER.get()
        return self._limit if find is None or not self._name else find(self._name, self._limit.limits)

    def _enter_here(self, tokens: int | None) -> tuple[CallLimit, Start]:
        blocks_loop = is_loop_thread()
        # A worker that blocks its event loop cannot ask the program.
        limit = self._limit if blocks_loop else self._found_limit()
        if blocks_loop or not is_worker_thread():
            start = limit.enter_nowait(tokens)  # no event loop is needed
            if start is not None:
                return limit, start
        # Calls queued before one that blocks its event loop may be on that loop and could never begin.
        return wait_from_sync(partial(self._enter, goes_first=blocks_loop), tokens, limit)

    async def _enter(
        self, tokens: int | None, limit: CallLimit, *, goes_first: bool = False
    ) -> tuple[CallLimit, Start]:
        start = limit.enter_nowait(tokens)
        if start is not None:
            return limit, start
        began_at = shared_time()
        start = await limit.enter(tokens, goes_first=goes_first)
        waited = {"nighthawk.rate_limit.wait_seconds": start.at - began_at}
        note_named_event("nighthawk.rate_limit.waited", waited)
        return limit, start

    def _reserved(self, call: Call[Any]) -> int | None:
        if not callable(self._tokens):
            return self._tokens
        return _checked_tokens(self._tokens(*call.args, **call.kwargs))

    @property
    def _settles(self) -> bool:
        """Whether the actual usage of calls can be known and matters."""
        return self._limit.limits.tokens_per_minute is not None and find_environment() is not None

    @contextmanager
    def _settling(self, limit: CallLimit, start: Start) -> Generator[None, None, None]:
        """Count the usage of a call, by a meter of its own, instead of its reservation."""
        if not self._settles:
            limit.settle(start, None)
            yield
            return
        environment = get_environment()
        meter = UsageMeter(environment.usage_meter)
        try:
            with using_environment(replace(environment, usage_meter=meter)):
                yield
        finally:
            usage = meter.usage
            used = usage.input_tokens + usage.output_tokens
            known = used if usage.is_complete else max(used, start.tokens)
            limit.settle(start, known if usage.requests else None)


def shared_limit(name: str, limits: PacingLimits) -> SharedLimit:
    """Return the limit of a name, for calls on workers; it is made if this process has none.

    Args:
        name: The key of the limit, after "key:", or the name of its first function.
        limits: Its numbers.

    Raises:
        InvalidPolicyError: The key is in use with other limits.
    """
    if name.startswith(_KEY):
        return _keyed_limit(name.removeprefix(_KEY), limits)
    with _lock:
        found = _named.get(name)
        if found is None or found.limits != limits:
            found = _of_workers.setdefault((name, limits), SharedLimit(limits))
            _named.setdefault(name, found)
        return found


def _named_limit(name: str, limit: SharedLimit) -> SharedLimit:
    """Return the limit under the name of a function: that of its calls on workers, if there were any."""
    with _lock:
        known = _of_workers.get((name, limit.limits), limit)
        _named[name] = known
        return known


def _name_of(function: object) -> str:
    """Return the name of a function in all processes; empty if only this one knows it."""
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str) or "<" in name:
        return ""
    return f"{'__main__' if module == '__mp_main__' else module}:{name}"


def _keyed_limit(key: object, limits: PacingLimits) -> SharedLimit:
    if key is None:
        return SharedLimit(limits)
    if not isinstance(key, str):
        raise InvalidPolicyError(f"key is a text, not {key!r}")
    with _lock:
        shared = _shared.setdefault(key, SharedLimit(limits))
    if shared.limits != limits:
        there, here = _numbers(shared.limits), _numbers(limits)
        raise InvalidPolicyError(f"the rate limit {key!r} exists with other numbers: {there}, not {here}")
    return shared


def _numbers(limits: PacingLimits) -> str:
    return f"per_minute={limits.requests_per_minute}, tokens_per_minute={limits.tokens_per_minute}"


def _checked_tokens(tokens: object) -> int:
    if isinstance(tokens, int) and not isinstance(tokens, bool) and tokens >= 0:
        return tokens
    raise InvalidPolicyError(
        f"tokens is a whole number, at least 0, or a function that gives one, not {tokens!r}"
    )
