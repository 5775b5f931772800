"""Pools found by name."""

import anyio
import pytest

from nighthawk_async.actors import (
    NameConflictError,
    NamespaceLeftError,
    Pool,
    PoolClosedError,
    UnknownNamespaceError,
    find_pool,
    open_namespace,
)

from .pool_jobs import Held

pytestmark = pytest.mark.anyio


async def test_many_submitters_find_a_pool_by_its_name() -> None:
    held = Held()

    async def submit(number: int) -> None:
        pool = find_pool("shared")
        assert pool is not None
        await pool.submit(held.job, number)

    async with Pool(max_concurrent=2, name="shared") as pool:
        async with anyio.create_task_group() as task_group:
            for number in range(5):
                task_group.start_soon(submit, number)
        assert pool.statistics().submitted == 5
        held.release_all()
    assert sorted(held.begun) == [0, 1, 2, 3, 4]


async def test_a_name_is_free_before_the_pool_is_entered_and_after_it_is_left() -> None:
    pool = Pool(max_concurrent=1, name="crawl")
    assert find_pool("crawl") is None
    async with pool:
        assert find_pool("crawl") is pool
    assert find_pool("crawl") is None
    async with Pool(max_concurrent=1, name="crawl") as other:
        assert find_pool("crawl") is other


async def test_a_name_is_free_after_an_error_too() -> None:
    with pytest.raises(OSError, match="broken"):
        async with Pool(max_concurrent=1, name="crawl"):
            raise OSError("broken")
    assert find_pool("crawl") is None


async def test_jobs_find_their_pool_while_it_is_being_left() -> None:
    found: list[Pool | None] = []

    async def find() -> None:
        await anyio.wait_all_tasks_blocked()
        found.append(find_pool("crawl"))

    async with Pool(max_concurrent=1, name="crawl") as pool:
        pool.submit_nowait(find)
    assert found == [pool]


async def test_a_name_stands_for_one_pool_in_an_extent() -> None:
    async with Pool(max_concurrent=1, name="crawl") as pool:
        with pytest.raises(NameConflictError, match="crawl"):
            async with Pool(max_concurrent=1, name="crawl"):
                pytest.fail("the name was given twice")
        assert find_pool("crawl") is pool
        with open_namespace("run"):
            assert find_pool("crawl") is pool
            async with Pool(max_concurrent=1, name="crawl") as inner:
                assert find_pool("crawl") is inner
            assert find_pool("crawl") is pool


async def test_the_scope_says_in_which_extent_the_name_stands() -> None:
    with open_namespace("run"):
        with open_namespace("task_group"):
            pool = Pool(max_concurrent=1, name="crawl", scope="run")
            await pool.__aenter__()
        assert find_pool("crawl") is pool
        await pool.__aexit__(None, None, None)
    with pytest.raises(UnknownNamespaceError):
        await Pool(max_concurrent=1, name="crawl", scope="run").__aenter__()


async def test_leaving_an_extent_closes_its_pools() -> None:
    held = Held()
    with open_namespace("run"):
        pool = Pool(max_concurrent=1, name="crawl")
        await pool.__aenter__()
        handle = await pool.submit(held.job, 0)
    assert pool.is_closed
    with pytest.raises(PoolClosedError, match="'crawl'"):
        await pool.submit(held.job, 1)
    held.release_all()
    await pool.__aexit__(None, None, None)
    assert handle.status == "completed"


async def test_no_pool_is_named_in_an_extent_that_has_ended() -> None:
    with open_namespace("run") as namespace:
        pool = Pool(max_concurrent=1, name="crawl")
        namespace.leave()
        with pytest.raises(NamespaceLeftError):
            await pool.__aenter__()
