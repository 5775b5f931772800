"""Cancellations that nobody meant for the task that gets them."""

import asyncio

import anyio
import pytest

from nighthawk_async.actors.task_group import (
    ForeignCancellationError,
    is_cancelled,
    raising_foreign_cancellations,
)

pytestmark = pytest.mark.anyio

only_asyncio = pytest.mark.parametrize("anyio_backend", ["asyncio"])


async def await_something_cancelled() -> None:
    future = asyncio.get_running_loop().create_future()
    future.cancel()
    await future


@only_asyncio
async def test_the_cancellation_of_something_awaited_is_an_error() -> None:
    with pytest.raises(ForeignCancellationError) as caught, raising_foreign_cancellations():
        await await_something_cancelled()
    assert isinstance(caught.value.__cause__, asyncio.CancelledError)


@only_asyncio
async def test_it_is_an_error_after_an_inner_scope_was_cancelled() -> None:
    async def cancel_a_scope_first() -> None:
        with anyio.CancelScope() as inner:
            inner.cancel()
            await anyio.sleep_forever()
        await await_something_cancelled()

    with pytest.raises(ForeignCancellationError), raising_foreign_cancellations():
        await cancel_a_scope_first()


@only_asyncio
async def test_it_is_an_error_behind_a_shield() -> None:
    with anyio.CancelScope() as outer:
        outer.cancel()
        with anyio.CancelScope(shield=True):
            with pytest.raises(ForeignCancellationError), raising_foreign_cancellations():
                await await_something_cancelled()
            assert not is_cancelled()


@only_asyncio
async def test_it_is_no_error_when_the_task_is_cancelled_too() -> None:
    with anyio.CancelScope() as outer:
        outer.cancel()
        with pytest.raises(asyncio.CancelledError), raising_foreign_cancellations():
            await await_something_cancelled()


@pytest.mark.parametrize("is_late", [False, True])
async def test_a_cancellation_of_the_task_goes_on(is_late: bool) -> None:
    with anyio.CancelScope() as outer:
        with raising_foreign_cancellations():
            if is_late:
                outer.deadline = anyio.current_time()
            else:
                outer.cancel()
            await anyio.sleep_forever()
    assert outer.cancelled_caught


async def test_errors_go_on_and_so_does_whoever_is_done() -> None:
    with raising_foreign_cancellations():
        assert not is_cancelled()
    with pytest.raises(ValueError, match="mine"), raising_foreign_cancellations():
        raise ValueError("mine")
