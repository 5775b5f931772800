"""`rate_limit`: who goes when, what a call counts for, and who shares a limit."""

import threading
import uuid
from collections.abc import Callable
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

import nighthawk_async as nh
from nighthawk_async.resilience import InvalidPolicyError, RateLimit, rate_limit
from nighthawk_async.testing import ScriptedExecutor, ScriptedModel, model_response, tool_call
from tests.unit.resilience.resilience_support import Script, recorded_events

anyio_test = pytest.mark.anyio
virtual_time = pytest.mark.virtual_time


class Clocked:
    """Notes who was called, and when, in seconds since the beginning of the test."""

    def __init__(self) -> None:
        self._began_at = anyio.current_time()
        self.calls: list[tuple[Any, float]] = []

    async def call(self, name: Any = None) -> Any:
        self.calls.append((name, round(anyio.current_time() - self._began_at, 1)))
        return name

    @property
    def times(self) -> list[float]:
        return [at for _, at in self.calls]


async def call_together(function: Callable[..., Any], names: range) -> None:
    """Call in the order of the names, all at once."""
    async with anyio.create_task_group() as tasks:
        for name in names:
            tasks.start_soon(function, name)
            await anyio.wait_all_tasks_blocked()


@anyio_test
@virtual_time
async def test_so_many_calls_begin_within_any_minute_in_the_order_in_which_they_came() -> None:
    clocked = Clocked()
    await call_together(rate_limit(clocked.call, per_minute=2), range(5))
    assert clocked.calls == [(0, 0), (1, 0), (2, 60), (3, 60), (4, 120)]


@anyio_test
@virtual_time
async def test_the_minute_slides() -> None:
    clocked = Clocked()
    function = rate_limit(clocked.call, per_minute=2)
    await function()
    await anyio.sleep(40)
    for _ in range(3):
        await function()
    assert clocked.times == [0, 40, 60, 100]


@anyio_test
@virtual_time
async def test_whoever_is_cancelled_while_waiting_takes_nothing() -> None:
    clocked = Clocked()
    function = rate_limit(clocked.call, per_minute=1)
    await function("first")

    async def give_up(name: str) -> None:
        with anyio.move_on_after(30):
            await function(name)

    async with anyio.create_task_group() as tasks:
        for call, name in (
            (give_up, "second"),
            (function, "third"),
            (give_up, "fourth"),
            (function, "fifth"),
        ):
            tasks.start_soon(call, name)
            await anyio.wait_all_tasks_blocked()
    assert clocked.calls == [("first", 0), ("third", 60), ("fifth", 120)]


@anyio_test
@virtual_time
async def test_the_next_one_goes_at_once_when_one_that_needed_more_gives_up() -> None:
    clocked = Clocked()

    async def call(name: str, tokens: int) -> None:
        await clocked.call(name)

    function = rate_limit(call, tokens_per_minute=100, tokens=lambda name, tokens: tokens)
    await function("first", 50)
    async with anyio.create_task_group() as tasks:
        large = anyio.CancelScope()

        async def give_up() -> None:
            with large:
                await function("large", 80)

        tasks.start_soon(give_up)
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(function, "small", 20)
        await anyio.sleep(10)
        assert [name for name, _ in clocked.calls] == ["first"]
        large.cancel()
    assert clocked.calls == [("first", 0), ("small", 10)]


@anyio_test
@virtual_time
async def test_whoever_is_cancelled_when_its_turn_comes_takes_nothing() -> None:
    clocked = Clocked()
    limit = rate_limit(per_minute=2, tokens_per_minute=100, tokens=60)
    first = limit._limit.enter_nowait(60)  # pyright: ignore[reportPrivateUsage]
    assert first is not None
    scope = anyio.CancelScope()

    async def give_up() -> None:
        with scope:
            await limit(clocked.call)("cancelled")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(give_up)
        await anyio.wait_all_tasks_blocked()
        limit._limit.settle(first, 10)  # pyright: ignore[reportPrivateUsage]
        scope.cancel()
    await limit(clocked.call)("next")
    assert clocked.calls == [("next", 0)]


@anyio_test
async def test_a_call_that_is_cancelled_already_takes_nothing() -> None:
    limit = rate_limit(per_minute=1)
    clocked = Clocked()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await limit(clocked.call)()
    assert clocked.calls == []
    await limit(clocked.call)()
    assert len(clocked.calls) == 1


@anyio_test
@virtual_time
async def test_calls_reserve_tokens() -> None:
    clocked = Clocked()
    await call_together(rate_limit(clocked.call, tokens_per_minute=100, tokens=40), range(5))
    assert clocked.times == [0, 0, 60, 60, 120]


@anyio_test
@virtual_time
async def test_a_call_that_needs_more_than_there_ever_is_goes_when_nothing_else_counts() -> None:
    clocked = Clocked()
    function = rate_limit(clocked.call, tokens_per_minute=100, tokens=lambda name: 1_000 if name == 1 else 1)
    await call_together(function, range(3))
    assert clocked.times == [0, 60, 120]


@anyio_test
@virtual_time
async def test_both_limits_hold() -> None:
    clocked = Clocked()
    function = rate_limit(
        clocked.call, per_minute=2, tokens_per_minute=100, tokens=lambda name: 90 if name == 2 else 10
    )
    await call_together(function, range(4))
    assert clocked.times == [0, 0, 60, 60]


@nh.natural_function
async def answer() -> str:
    """natural
    Set <:result> to an answer.
    """
    result: str
    return result


@nh.natural_function
def answer_here() -> str:
    """natural
    Set <:result> to an answer.
    """
    result: str
    return result


def agent(*tokens: int) -> nh.AgentStepExecutor:
    """Its model answers as often as there are numbers, which are the tokens that it uses."""
    calls = (
        tool_call("nh_assign", target_path="result", expression="'yes'"),
        tool_call("nh_outcome", kind="pass"),
    )
    answers = [model_response(*calls, usage=nh.Usage(requests=1, input_tokens=each)) for each in tokens]
    configuration = nh.StepExecutorConfiguration()
    return nh.AgentStepExecutor.from_model(model=ScriptedModel(answers), configuration=configuration)


@anyio_test
@virtual_time
async def test_what_a_call_really_used_counts_when_it_has_ended() -> None:
    clocked = Clocked()

    @rate_limit(tokens_per_minute=100, tokens=60)
    async def ask() -> str:
        await clocked.call()
        return await answer()

    async with nh.run(agent(30, 30, 80, 30)) as run:
        assert [await ask() for _ in range(4)] == ["yes"] * 4
        assert clocked.times == [0, 0, 60, 120]
        assert run.usage_meter.usage.input_tokens == 170


@anyio_test
@virtual_time
async def test_what_becomes_free_when_a_call_ends_is_given_to_the_one_that_waits() -> None:
    clocked = Clocked()

    @rate_limit(tokens_per_minute=100, tokens=60)
    async def ask(name: int) -> str:
        await clocked.call(name)
        await anyio.sleep(5)
        return await answer()

    async with nh.run(agent(10, 10)):
        await call_together(ask, range(2))
    assert clocked.times == [0, 5]


@anyio_test
async def test_the_reservation_follows_what_calls_take() -> None:
    limit = rate_limit(tokens_per_minute=10_000)
    assert limit.statistics().tokens_per_call == 1_000
    async with nh.run(agent(30, 41)):
        await limit(answer)()
        assert limit.statistics().tokens_per_call == 30
        await limit(answer)()
        assert limit.statistics().tokens_per_call == 36


def test_synchronous_natural_functions_count_too() -> None:
    limit = rate_limit(tokens_per_minute=10_000)
    with nh.run(agent(30)):
        assert limit(answer_here)() == "yes"
    assert limit.statistics().tokens_per_call == 30


@anyio_test
@virtual_time
async def test_the_reservation_stays_when_nobody_knows_what_a_call_used() -> None:
    clocked = Clocked()
    function = rate_limit(clocked.call, tokens_per_minute=100, tokens=60)
    async with nh.run(agent()):
        await function()
        await function()
    assert clocked.times == [0, 60]


@anyio_test
@virtual_time
async def test_a_failed_call_counts_with_what_it_used_and_an_unknown_part_as_reserved() -> None:
    limit = rate_limit(tokens_per_minute=10_000, tokens=500)

    @limit
    async def ask(usage: nh.Usage) -> None:
        nh.get_usage_meter().add("model", usage)
        raise nh.ExecutionError("failed")

    async with nh.run(agent()):
        for usage in (nh.Usage(requests=1, input_tokens=20), nh.Usage(requests=1, is_complete=False)):
            with pytest.raises(nh.ExecutionError):
                await ask(usage)
    assert limit.statistics().tokens_per_call == (20 + 500) / 2


# Sharing.


def new_key() -> str:
    return uuid.uuid4().hex


@anyio_test
@virtual_time
async def test_functions_of_one_limit_and_limits_of_one_key_share_it() -> None:
    clocked = Clocked()
    key = new_key()
    limit = rate_limit(per_minute=2, key=key)
    for function in (
        limit(clocked.call),
        limit(clocked.call),
        rate_limit(clocked.call, per_minute=2, key=key),
    ):
        await function()
    assert clocked.times == [0, 0, 60]


@anyio_test
@virtual_time
async def test_limits_without_a_key_share_nothing() -> None:
    clocked = Clocked()
    for _ in range(3):
        await rate_limit(clocked.call, per_minute=1)()
    assert clocked.times == [0, 0, 0]


def test_a_key_has_one_set_of_numbers() -> None:
    key = new_key()
    rate_limit(per_minute=2, key=key)
    with pytest.raises(InvalidPolicyError, match=r"other numbers: per_minute=2, .* not per_minute=3"):
        rate_limit(per_minute=3, key=key)
    with pytest.raises(InvalidPolicyError, match="exists with other numbers"):
        rate_limit(per_minute=2, tokens_per_minute=100, key=key)


@anyio_test
@virtual_time
async def test_worker_threads_wait_on_the_clock_of_their_loop_and_can_be_cancelled() -> None:
    began_at = anyio.current_time()
    calls: list[float] = []

    def call() -> None:
        calls.append(anyio.from_thread.run_sync(anyio.current_time) - began_at)

    function = rate_limit(call, per_minute=1)
    await anyio.to_thread.run_sync(function)
    await anyio.to_thread.run_sync(function)
    with anyio.move_on_after(30) as scope:
        await anyio.to_thread.run_sync(function)
    assert scope.cancelled_caught
    assert calls == pytest.approx([0, 60])


def test_threads_and_event_loops_share_a_limit() -> None:
    limit = rate_limit(per_minute=3)
    called: list[str] = []

    async def call_async() -> None:
        called.append("async")

    def call() -> None:
        called.append("sync")

    anyio.run(limit(call_async), backend="trio")
    anyio.run(limit(call_async), backend="asyncio")
    thread = threading.Thread(target=limit(call))
    thread.start()
    thread.join()
    assert called == ["async", "async", "sync"]
    with pytest.raises(nh.parallel.DeadlineExceededError), nh.deadline(0.01):
        limit(call)()
    assert len(called) == 3


def age(limit: RateLimit, seconds: float) -> None:
    """Let the calls of a limit have begun so many seconds earlier."""
    for start in limit._limit._counts._recent:  # pyright: ignore[reportPrivateUsage]
        start.at -= seconds


def test_a_thread_without_an_event_loop_waits_for_its_turn() -> None:
    limit = rate_limit(per_minute=1)
    function = limit(lambda: "called")
    assert function() == "called"
    age(limit, 59.98)
    assert function() == "called"


@anyio_test
async def test_a_call_that_blocks_its_event_loop_does_not_wait_for_calls_on_that_loop() -> None:
    limit = rate_limit(per_minute=1)
    order: list[str] = []

    async def call_async() -> None:
        order.append("async")

    await limit(call_async)()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(limit(call_async))
        await anyio.wait_all_tasks_blocked()
        age(limit, 59.98)
        with pytest.warns(RuntimeWarning, match="blocks it"):
            limit(lambda: order.append("sync"))()
        age(limit, 60)
        limit._limit._move()  # pyright: ignore[reportPrivateUsage]
    assert order == ["async", "sync", "async"]


def test_a_thread_wakes_a_call_that_waits_on_an_event_loop() -> None:
    limit = rate_limit(tokens_per_minute=100, tokens=60)
    waiting = threading.Event()

    async def call_async() -> str:
        return "called"

    async def main() -> str:
        async def tell() -> None:
            await anyio.wait_all_tasks_blocked()
            waiting.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(tell)
            return await limit(call_async)()
        raise AssertionError("not reached")

    results: list[str] = []
    threads = [
        threading.Thread(target=lambda backend=backend: results.append(anyio.run(main, backend=backend)))
        for backend in ("asyncio", "trio")
    ]
    for thread in threads:
        waiting.clear()
        start = limit._limit.enter_nowait(60)  # pyright: ignore[reportPrivateUsage]
        assert start is not None
        thread.start()
        waiting.wait(240)
        limit._limit.settle(start, 0)  # pyright: ignore[reportPrivateUsage]
        thread.join(240)
        age(limit, 61)  # the clocks of threads and loops may differ by a moment
    assert results == ["called", "called"]


@anyio_test
@virtual_time
async def test_the_current_span_shows_how_long_a_call_waited() -> None:
    clocked = Clocked()
    function = rate_limit(clocked.call, per_minute=1)
    with recorded_events() as events:
        await function()
        await function()
    ((name, attributes),) = events
    assert name == "nighthawk.rate_limit.waited"
    assert attributes == {"nighthawk.rate_limit.wait_seconds": pytest.approx(60)}


@anyio_test
async def test_the_statistics_tell_how_many_wait() -> None:
    limit = rate_limit(per_minute=1)
    async with anyio.create_task_group() as tasks:
        for name in range(3):
            tasks.start_soon(limit(Clocked().call), name)
        await anyio.wait_all_tasks_blocked()
        assert limit.statistics().waiting == 2
        tasks.cancel_scope.cancel()
    assert limit.statistics().waiting == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "needs per_minute, tokens_per_minute, or both"),
        ({"per_minute": 0}, "per_minute is a whole number"),
        ({"per_minute": 0.5}, "per_minute is a whole number"),
        ({"tokens_per_minute": -1}, "tokens_per_minute is a whole number"),
        ({"tokens_per_minute": 1, "tokens": -1}, "tokens is a whole number"),
        ({"tokens_per_minute": 1, "tokens": "many"}, "tokens is a whole number"),
        ({"tokens_per_minute": 1, "tokens": anyio.sleep}, "tokens is not async, but sleep is"),
        ({"per_minute": 1, "key": 5}, "key is a text"),
    ],
)
def test_arguments_that_make_no_sense_are_refused_at_once(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidPolicyError, match=message):
        rate_limit(**arguments)


def test_an_estimate_that_makes_no_sense_is_refused_before_the_call() -> None:
    called: list[int] = []
    function = rate_limit(called.append, tokens_per_minute=10, tokens=lambda value: -value)
    with pytest.raises(InvalidPolicyError, match="tokens is a whole number"):
        function(5)
    assert called == []


@anyio_test
@pytest.mark.parametrize("is_async", [True, False], ids=["async", "sync"])
async def test_a_call_whose_tokens_are_counted_is_no_scope_for_hooks(is_async: bool) -> None:
    hooks, told = nh.Hooks(), list[str]()

    @hooks.on(nh.hooks.ScopeStarted, nh.hooks.ScopeFinished)
    async def note(event: object) -> None:
        await anyio.lowlevel.checkpoint()
        told.append(type(event).__name__)

    limit = rate_limit(tokens_per_minute=10, tokens=1)
    async with nh.run(ScriptedExecutor(), hooks=hooks):
        if is_async:
            assert await limit(Script("called").call_async)() == "called"
        else:
            assert await anyio.to_thread.run_sync(limit(Script("called").call)) == "called"
    assert told == []
