"""`deadline` on an event loop: a limit that no handler inside swallows."""

import functools
import gc
from collections.abc import AsyncGenerator, Generator
from typing import Any

import anyio
import anyio.to_thread
import pytest
from anyio import from_thread

from nighthawk_async.parallel import DeadlineExceededError, InvalidLimitError, deadline
from nighthawk_async.parallel.calling import call_any

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


async def test_what_ends_in_time_is_not_touched() -> None:
    with deadline(5) as limit:
        await anyio.sleep(3)
        assert limit.remaining_seconds == 2
    async with deadline(5):
        await anyio.sleep(3)
    with pytest.raises(LookupError, match="own"):
        async with deadline(5):
            raise LookupError("own")


async def test_what_is_late_is_cancelled_and_the_error_tells_the_limit() -> None:
    began = anyio.current_time()
    with pytest.raises(DeadlineExceededError, match="the work exceeded its deadline of 5 seconds") as caught:
        async with deadline(5):
            await anyio.sleep(10)
    assert anyio.current_time() - began == pytest.approx(5)
    assert (caught.value.seconds, caught.value.name) == (5, None)
    message = r"the report exceeded its deadline of 0\.5 seconds"
    with pytest.raises(TimeoutError, match=message), deadline(0.5, name="the report"):
        await anyio.sleep(10)


async def swallow_everything() -> None:
    try:
        await anyio.sleep(10)
    except BaseException:
        return


async def turn_into_another_error() -> None:
    try:
        await anyio.sleep(10)
    except BaseException as error:
        raise LookupError("turned") from error


async def hide_behind_a_shorter_deadline() -> None:
    try:
        with deadline(1):
            with anyio.CancelScope(shield=True):
                await anyio.sleep(10)
    except DeadlineExceededError:
        return


async def hide_behind_a_shield() -> None:
    with anyio.CancelScope(shield=True):
        await anyio.sleep(10)


async def fail_in_a_group() -> None:
    async with anyio.create_task_group() as task_group:
        task_group.start_soon(turn_into_another_error)
        task_group.start_soon(anyio.sleep, 10)


@pytest.mark.parametrize(
    "work",
    [
        swallow_everything,
        turn_into_another_error,
        hide_behind_a_shorter_deadline,
        hide_behind_a_shield,
        fail_in_a_group,
    ],
)
async def test_no_handler_inside_swallows_the_end_of_the_time(work: Any) -> None:
    with pytest.raises(DeadlineExceededError) as caught, deadline(5, name="outer"):
        await work()
    assert caught.value.name == "outer"


@pytest.mark.parametrize(("outer", "inner", "expected"), [(5, 3, "inner"), (3, 5, "outer"), (5, 5, "outer")])
async def test_of_nested_deadlines_the_error_tells_which(outer: float, inner: float, expected: str) -> None:
    with (
        pytest.raises(DeadlineExceededError) as caught,
        deadline(outer, name="outer"),
        deadline(inner, name="inner"),
    ):
        await anyio.sleep(10)
    assert caught.value.name == expected


async def test_after_an_inner_deadline_the_rest_of_the_outer_time_is_left() -> None:
    with deadline(5) as outer:
        with pytest.raises(DeadlineExceededError), deadline(3):
            await anyio.sleep(10)
        assert outer.remaining_seconds == 2
        await anyio.sleep(1)


async def test_a_cancellation_from_around_goes_before_the_deadline() -> None:
    with anyio.move_on_after(3) as scope:
        with deadline(5):
            await anyio.sleep(10)
    assert scope.cancelled_caught
    with anyio.move_on_after(3) as scope:
        with deadline(3):
            await anyio.sleep(10)
    assert scope.cancelled_caught


async def test_an_exit_goes_before_the_deadline() -> None:
    @deadline(5)
    async def leave() -> None:
        await hide_behind_a_shield()
        raise SystemExit(1)

    with pytest.raises(SystemExit):
        await leave()


async def test_no_time_at_all_is_over_at_the_first_wait() -> None:
    reached: list[str] = []

    @deadline(0)
    async def work() -> None:
        reached.append("before")
        await anyio.sleep(1)
        reached.append("after")

    with pytest.raises(DeadlineExceededError):
        await work()
    assert reached == ["before"]


async def test_infinity_is_no_limit() -> None:
    with deadline(float("inf")):
        await anyio.sleep(10**9)


@pytest.mark.parametrize("seconds", [-1, float("nan"), True, "5", None], ids=repr)
async def test_what_is_no_number_of_seconds_is_refused(seconds: Any) -> None:
    with pytest.raises(InvalidLimitError):
        deadline(seconds)


async def test_a_deadline_is_for_one_block() -> None:
    limit = deadline(5)
    assert repr(limit) == "deadline(5)"
    assert limit.remaining_seconds == 5
    with limit:
        pass
    with pytest.raises(RuntimeError, match="one block"):
        limit.__enter__()


async def test_every_call_of_a_decorated_function_has_the_whole_time() -> None:
    @deadline(5)
    async def wait(seconds: float, *, then: str) -> str:
        """Wait."""
        await anyio.sleep(seconds)
        return then

    assert wait.__name__ == "wait"
    assert wait.__doc__ == "Wait."
    assert await wait(4, then="first") == "first"
    assert await wait(4, then="second") == "second"
    with pytest.raises(DeadlineExceededError, match="wait exceeded its deadline of 5 seconds"):
        await wait(6, then="late")


async def test_objects_partials_and_what_gives_awaitables_are_functions_too() -> None:
    class Waiter:
        async def __call__(self, seconds: float) -> str:
            await anyio.sleep(seconds)
            return "waited"

    for function in (Waiter(), functools.partial(Waiter(), 6), lambda *args: Waiter()(*(args or (6,)))):
        limited: Any = deadline(5)(function)
        with pytest.raises(DeadlineExceededError):
            await limited(*(() if isinstance(function, functools.partial) else (6,)))
    assert await deadline(5)(Waiter())(1) == "waited"


@pytest.mark.parametrize(("before", "after", "is_late"), [(3, 1, False), (3, 2, True), (1, 5, True)])
async def test_the_call_and_the_await_of_what_it_gives_have_the_time_together(
    before: int, after: int, is_late: bool
) -> None:
    @deadline(5)
    def work() -> Any:
        from_thread.run(anyio.sleep, before)
        return anyio.sleep(after)

    began = anyio.current_time()
    if is_late:
        with pytest.raises(DeadlineExceededError, match="work exceeded its deadline of 5 seconds"):
            await call_any(work)
        assert anyio.current_time() - began == pytest.approx(5)
    else:
        await call_any(work)


async def test_a_call_that_is_late_itself_leaves_nothing_that_nobody_awaits() -> None:
    @deadline(1)
    def work() -> Any:
        from_thread.run(anyio.sleep, 2)
        return anyio.sleep(1)

    with pytest.raises(DeadlineExceededError):
        await anyio.to_thread.run_sync(work)
    gc.collect()


async def test_generators_are_refused() -> None:
    def generate() -> Generator[int, None, None]:
        yield 1

    async def generate_async() -> AsyncGenerator[int, None]:
        yield 1

    for function in (generate, generate_async):
        for made in (function, functools.partial(function)):
            with pytest.raises(TypeError, match="generator"):
                deadline(5)(made)


async def test_the_deadline_reaches_child_tasks_and_what_threads_do_on_the_event_loop() -> None:
    events: list[str] = []

    async def wait(who: str) -> None:
        try:
            await anyio.sleep(10)
        finally:
            events.append(f"{who} after 5" if anyio.current_time() - began == pytest.approx(5) else who)

    @deadline(5)
    async def work() -> None:
        async with anyio.create_task_group() as task_group:
            task_group.start_soon(wait, "child")
            task_group.start_soon(anyio.to_thread.run_sync, from_thread.run, wait, "thread")

    began = anyio.current_time()
    with pytest.raises(DeadlineExceededError):
        await work()
    assert sorted(events) == ["child after 5", "thread after 5"]


async def test_the_time_can_be_asked_for_in_between() -> None:
    with deadline(50) as limit:
        limit.check()
        with anyio.CancelScope(shield=True):
            await anyio.sleep(49)
        limit.check()
    await anyio.sleep(1)
    with pytest.raises(DeadlineExceededError):
        limit.check()
