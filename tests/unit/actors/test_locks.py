"""Named mutexes, semaphores and gates: who comes in, when, and what is left when somebody does not."""

import asyncio
import gc
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import anyio
import anyio.to_thread
import pytest
from anyio.abc import TaskStatus

from nighthawk_async.actors import (
    LockReentryError,
    LockTimeoutError,
    NameConflictError,
    NamespaceLeftError,
    Permit,
    UnknownNamespaceError,
    acquire_gate,
    acquire_mutex,
    acquire_semaphore,
    gate,
    lock_statistics,
    mutex,
    open_namespace,
    semaphore,
)

pytestmark = pytest.mark.anyio

Enter = Callable[..., AbstractAsyncContextManager[Permit]]


@pytest.fixture
def key(request: pytest.FixtureRequest) -> str:
    """A key that no other test uses."""
    return request.node.name


def held(key: str) -> int:
    """How many permits of a key are not free."""
    return sum(statistics.held for statistics in lock_statistics(key=key))


def waiting(key: str) -> int:
    """How many requests for a key wait."""
    return sum(statistics.waiting for statistics in lock_statistics(key=key))


@asynccontextmanager
async def another_task_in(block: AbstractAsyncContextManager[Permit]) -> AsyncIterator[anyio.Event]:
    """Let another task hold a lock until the event is set, or until the block ends."""
    leave = anyio.Event()

    async def hold(*, task_status: TaskStatus[None]) -> None:
        async with block:
            task_status.started()
            await leave.wait()

    async with anyio.create_task_group() as task_group:
        await task_group.start(hold)
        yield leave
        leave.set()


async def test_a_mutex_lets_one_task_in_at_a_time_in_the_order_of_asking(key: str) -> None:
    inside: list[int] = []
    order: list[int] = []

    async def work(number: int) -> None:
        async with mutex(key):
            inside.append(number)
            order.append(number)
            await anyio.wait_all_tasks_blocked()
            assert inside == [number]
            inside.remove(number)

    async with another_task_in(mutex(key)) as leave, anyio.create_task_group() as task_group:
        for number in range(4):
            task_group.start_soon(work, number)
            await anyio.wait_all_tasks_blocked()
        assert (waiting(key), order) == (4, [])
        leave.set()
    assert order == [0, 1, 2, 3]


async def test_keys_kinds_and_loops_do_not_disturb_each_other(key: str) -> None:
    async def enter_elsewhere() -> int:
        async with mutex(key, timeout=0):
            return held(key)

    async with mutex(key), mutex(f"{key} too"), gate(key, limit=1), semaphore(key, capacity=1):
        assert await anyio.to_thread.run_sync(anyio.run, enter_elsewhere) == 1
        assert held(key) == 3


async def test_permits_come_back_on_every_way_out(key: str) -> None:
    async def return_from_it() -> str:
        async with mutex(key):
            return "returned"

    async def cancel_inside(scope: anyio.CancelScope) -> None:
        async with mutex(key):
            scope.cancel()
            await anyio.sleep_forever()

    permits: list[Permit] = []
    for _ in range(3):
        async with mutex(key) as permit:
            assert held(key) == 1
            permits.append(permit)
            continue
    assert [permit.is_released for permit in permits] == [True] * 3
    assert await return_from_it() == "returned"
    with pytest.raises(OSError, match="inside"):
        async with mutex(key):
            raise OSError("inside")
    with anyio.CancelScope() as scope:
        await cancel_inside(scope)
    assert scope.cancelled_caught
    assert held(key) == 0
    (statistics,) = lock_statistics("mutex", key)
    assert statistics.acquired == statistics.released == 6


@pytest.mark.parametrize(
    ("enter", "kind"),
    [
        (mutex, "mutex"),
        (lambda key, **options: semaphore(key, capacity=1, **options), "semaphore"),
        (lambda key, **options: gate(key, limit=1, **options), "gate"),
    ],
)
@pytest.mark.virtual_time
async def test_entering_raises_when_the_time_is_over(key: str, enter: Enter, kind: str) -> None:
    began = anyio.current_time()
    async with another_task_in(enter(key)):
        with pytest.raises(LockTimeoutError) as caught:
            async with enter(key, timeout=2.5):
                pytest.fail("the lock is held by another task")
        assert isinstance(caught.value, TimeoutError)
        assert (caught.value.kind, caught.value.key, caught.value.seconds) == (kind, key, 2.5)
        assert str(caught.value) == f"the {kind} {key!r} could not be acquired within 2.5 seconds"
        assert anyio.current_time() == began + 2.5
        assert waiting(key) == 0
    async with enter(key, timeout=2.5):
        assert held(key) == 1


@pytest.mark.virtual_time
async def test_acquiring_gives_none_when_the_time_is_over(key: str) -> None:
    async with another_task_in(mutex(key)) as leave:
        assert await acquire_mutex(key, timeout=0.25) is None
        leave.set()
        permit = await acquire_mutex(key, timeout=0.25)
        assert permit is not None
        with permit:
            assert held(key) == 1
    assert held(key) == 0


async def test_without_time_a_lock_is_taken_only_when_it_is_free(key: str) -> None:
    async with another_task_in(mutex(key)), another_task_in(gate(key, limit=1)):
        assert await acquire_mutex(key, timeout=0) is None
        assert await acquire_gate(key, limit=1, timeout=0) is None
        permit = await acquire_semaphore(key, capacity=1, timeout=0)
        assert permit is not None
        assert permit.release()


async def test_a_cancelled_wait_leaves_nothing_behind_and_the_next_comes_in(key: str) -> None:
    entered: list[str] = []

    async def enter(name: str) -> None:
        async with mutex(key):
            entered.append(name)

    async with another_task_in(mutex(key)) as leave, anyio.create_task_group() as task_group:
        async with anyio.create_task_group() as cancelled:
            cancelled.start_soon(enter, "cancelled")
            await anyio.wait_all_tasks_blocked()
            task_group.start_soon(enter, "next")
            await anyio.wait_all_tasks_blocked()
            assert waiting(key) == 2
            cancelled.cancel_scope.cancel()
        assert waiting(key) == 1
        leave.set()
    assert entered == ["next"]
    assert held(key) == 0


async def test_a_lock_granted_in_the_moment_of_cancellation_goes_to_the_next(key: str) -> None:
    entered: list[str] = []

    async def enter(name: str) -> None:
        async with mutex(key):
            await anyio.lowlevel.checkpoint()
            entered.append(name)

    permit = await acquire_mutex(key)
    assert permit is not None
    async with anyio.create_task_group() as task_group, anyio.create_task_group() as cancelled:
        cancelled.start_soon(enter, "cancelled")
        await anyio.wait_all_tasks_blocked()
        task_group.start_soon(enter, "next")
        await anyio.wait_all_tasks_blocked()
        permit.release()
        cancelled.cancel_scope.cancel()
    assert entered == ["next"]
    assert held(key) == 0


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("is_held", [True, False])
async def test_a_cancellation_of_asyncios_own_loses_no_permit(key: str, is_held: bool) -> None:
    permit = await acquire_mutex(key) if is_held else None
    task = asyncio.create_task(_enter(key))
    await asyncio.sleep(0)  # it stands in the queue, or yields with the lock in its hands
    assert held(key) == 1
    if permit is not None:
        permit.release()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert held(key) == waiting(key) == 0
    (statistics,) = lock_statistics("mutex", key)
    assert (statistics.acquired, statistics.cancelled) == (int(is_held), 1)


async def _enter(key: str) -> None:
    async with mutex(key):
        pytest.fail("it was cancelled before")


async def test_entering_is_a_checkpoint_and_a_cancelled_task_takes_nothing(key: str) -> None:
    seen: list[str] = []

    async def look() -> None:
        seen.append("looked")

    async with anyio.create_task_group() as task_group:
        task_group.start_soon(look)
        for _ in range(2):  # after the second one, whatever was ready before the first has run
            async with mutex(key):
                pass
        assert seen == ["looked"]
    with anyio.CancelScope() as scope:
        scope.cancel()
        async with mutex(f"{key} cancelled"):
            pytest.fail("the task is cancelled")
    assert scope.cancelled_caught
    assert lock_statistics(key=f"{key} cancelled") == ()


async def test_a_permit_is_released_once(key: str) -> None:
    async with semaphore(key, capacity=3, permits=2) as permit:
        assert (permit.kind, permit.key, permit.permits) == ("semaphore", key, 2)
        assert repr(permit) == f"<Permit for 2 of the semaphore {key!r}, held>"
        assert permit.release()
        assert held(key) == 0
        assert not permit.release()
    assert repr(permit).endswith("released>")
    assert held(key) == 0
    (statistics,) = lock_statistics(key=key)
    assert statistics.released == 1


async def test_a_permit_may_be_released_by_another_task(key: str) -> None:
    async def release(permit: Permit) -> None:
        assert permit.release()

    permit = await acquire_mutex(key)
    assert permit is not None
    async with anyio.create_task_group() as task_group:
        task_group.start_soon(release, permit)
    async with mutex(key):
        assert held(key) == 1


async def test_a_lost_permit_is_told_of(key: str) -> None:
    async def lose() -> None:
        await acquire_mutex(key)
        gc.collect()

    with pytest.warns(ResourceWarning, match="mutex .*, held> was lost without being released"):
        await lose()


async def test_a_task_that_holds_a_mutex_cannot_wait_for_it(key: str) -> None:
    async with mutex(key):
        with pytest.raises(LockReentryError, match="the task holds the mutex"):
            async with mutex(key):
                pytest.fail("it would have waited for itself")
        with pytest.raises(LockReentryError):
            await acquire_mutex(key, timeout=1)
        async with mutex(f"{key} too"):
            assert held(key) == 1
    async with mutex(key):
        assert held(key) == 1


async def test_a_task_that_handed_its_permit_over_waits_for_who_releases_it(key: str) -> None:
    order: list[str] = []

    async def work(permit: Permit) -> None:
        await anyio.wait_all_tasks_blocked()
        assert waiting(key) == 1
        order.append("released")
        permit.release()

    permit = await acquire_mutex(key)
    assert permit is not None
    async with anyio.create_task_group() as task_group:
        task_group.start_soon(work, permit)
        async with mutex(key):
            order.append("entered")
    assert order == ["released", "entered"]


async def test_the_task_in_the_block_of_a_permit_holds_the_mutex(key: str) -> None:
    async def work(permit: Permit) -> None:
        with permit:
            with pytest.raises(LockReentryError):
                await acquire_mutex(key)
            await anyio.wait_all_tasks_blocked()

    permit = await acquire_mutex(key)
    assert permit is not None
    async with anyio.create_task_group() as task_group:
        task_group.start_soon(work, permit)
        await anyio.wait_all_tasks_blocked()
        async with mutex(key):
            assert permit.is_released
    with permit:  # released before: its block holds nothing
        async with mutex(key):
            assert held(key) == 1
    assert held(key) == 0


async def test_a_child_of_the_holder_waits_like_any_other_task(key: str) -> None:
    entered: list[str] = []

    async def enter() -> None:
        async with mutex(key):
            entered.append("child")

    async with anyio.create_task_group() as task_group, mutex(key):
        task_group.start_soon(enter)
        await anyio.wait_all_tasks_blocked()
        assert waiting(key) == 1
        entered.append("holder")
    assert entered == ["holder", "child"]


async def test_a_task_is_not_taken_for_a_holder_that_has_ended(key: str) -> None:
    permits: list[Permit] = []

    async def acquire_and_end() -> None:
        permit = await acquire_mutex(key)
        assert permit is not None
        permits.append(permit.__enter__())

    async def enter() -> None:
        async with mutex(key):
            pass

    async with anyio.create_task_group() as task_group:
        task_group.start_soon(acquire_and_end)
        await anyio.wait_all_tasks_blocked()
        for _ in range(50):  # one of them is likely to stand where the ended task stood in memory
            gc.collect(0)
            task_group.start_soon(enter)
            await anyio.wait_all_tasks_blocked()
        assert waiting(key) == 50
        assert permits.pop().release()
    assert held(key) == 0


async def test_a_request_for_many_permits_is_not_overtaken(key: str) -> None:
    order: list[int] = []

    async def take(permits: int) -> None:
        async with semaphore(key, capacity=4, permits=permits):
            order.append(permits)
            await anyio.wait_all_tasks_blocked()

    async with anyio.create_task_group() as task_group, semaphore(key, capacity=4, permits=2):
        for permits in (4, 1, 2):
            task_group.start_soon(take, permits)
            await anyio.wait_all_tasks_blocked()
        assert (held(key), waiting(key), order) == (2, 3, [])
    assert order[0] == 4
    assert sorted(order[1:]) == [1, 2]


async def test_small_requests_go_on_when_the_great_one_before_them_gives_up(key: str) -> None:
    async def take(permits: int) -> None:
        async with semaphore(key, capacity=4, permits=permits):
            await anyio.sleep_forever()

    async with anyio.create_task_group() as task_group, semaphore(key, capacity=4, permits=2):
        async with anyio.create_task_group() as great:
            great.start_soon(take, 4)
            await anyio.wait_all_tasks_blocked()
            task_group.start_soon(take, 1)
            task_group.start_soon(take, 1)
            await anyio.wait_all_tasks_blocked()
            assert (held(key), waiting(key)) == (2, 2 + 1)
            great.cancel_scope.cancel()
        await anyio.wait_all_tasks_blocked()
        assert (held(key), waiting(key)) == (4, 0)
        task_group.cancel_scope.cancel()
    assert held(key) == 0


async def test_a_gate_lets_in_no_more_than_its_limit(key: str) -> None:
    inside = 0
    greatest = 0

    async def work() -> None:
        nonlocal inside, greatest
        async with gate(key, limit=3):
            inside += 1
            greatest = max(greatest, inside)
            await anyio.wait_all_tasks_blocked()
            inside -= 1

    async with anyio.create_task_group() as task_group:
        for _ in range(8):
            task_group.start_soon(work)
    assert greatest == 3
    assert held(key) == 0


async def test_a_key_has_one_capacity_also_when_nobody_uses_it(key: str) -> None:
    async with semaphore(key, capacity=4), gate(key, limit=2):
        with pytest.raises(NameConflictError, match=r"the semaphore .* was made for 4 permits, not 5"):
            await acquire_semaphore(key, capacity=5)
    with pytest.raises(NameConflictError, match=r"the gate .* was made for 2 permits, not 3"):
        async with gate(key, limit=3):
            pytest.fail("the gate is another")
    async with semaphore(key, capacity=4, permits=4):
        assert held(key) == 4


async def test_what_can_never_be_is_refused_at_once(key: str) -> None:
    with pytest.raises(ValueError, match="has 4 permits and can never give 5"):
        semaphore(key, capacity=4, permits=5)
    with pytest.raises(ValueError, match="has 4 permits and can never give 5"):
        acquire_semaphore(key, capacity=4, permits=5)
    assert lock_statistics(key=key) == ()


@pytest.mark.parametrize("number", [0, -1, 1.5, True, None, "4"])
def test_a_number_of_permits_is_whole_and_positive(number: object) -> None:
    wanted = "must be a whole number of at least 1, not"
    with pytest.raises(ValueError, match=f"the capacity of the semaphore 'key' {wanted}"):
        semaphore("key", capacity=number)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match=f"the number of permits of the semaphore 'key' {wanted}"):
        semaphore("key", capacity=4, permits=number)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match=f"the limit of the gate 'key' {wanted}"):
        gate("key", limit=number)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("timeout", [-1, float("nan"), -0.001, True, "3"])
def test_a_timeout_is_a_number_and_not_negative(timeout: object) -> None:
    with pytest.raises(ValueError, match="the timeout of the mutex 'key' must be a number of seconds"):
        mutex("key", timeout=timeout)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="the timeout of the mutex 'key' must be a number of seconds"):
        acquire_mutex("key", timeout=timeout)  # pyright: ignore[reportArgumentType]


async def test_a_key_belongs_to_the_innermost_extent_of_its_scope(key: str) -> None:
    with open_namespace("run"):
        async with mutex(key, scope="run"), mutex(key):
            with open_namespace("run"):
                async with mutex(key, scope="run", timeout=0):
                    scopes = [statistics.scope for statistics in lock_statistics("mutex", key)]
                    assert scopes == ["run", "run", "process"]
                with open_namespace("task_group"), pytest.raises(LockReentryError):
                    await acquire_mutex(key, timeout=0)
            assert len(lock_statistics("mutex", key)) == 2


async def test_a_scope_must_surround_the_caller_and_still_be_open(key: str) -> None:
    with pytest.raises(UnknownNamespaceError, match="no run surrounds the caller"):
        await acquire_mutex(key, scope="run")

    async def enter_late(opened: anyio.Event) -> None:
        await opened.wait()
        with pytest.raises(NamespaceLeftError):
            await acquire_mutex(key, scope="run")

    async with anyio.create_task_group() as task_group:
        left = anyio.Event()
        with open_namespace("run"):
            task_group.start_soon(enter_late, left)
            permit = await acquire_mutex(key, scope="run")
            assert permit is not None
        assert permit.release(), "what is held is given back also after the extent has ended"
        left.set()
