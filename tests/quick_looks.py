"""Lets tests on asyncio wait briefly for the tasks around them.

`anyio.wait_all_tasks_blocked` looks again only after a tenth of a second where a task of asyncio is still
running. Thousands of tests call it; on Trio it returns as soon as all tasks wait.
"""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from anyio._backends._asyncio import AsyncIOBackend

__all__ = ["looking_quickly"]

_TURNS = 100
"""The number of looks without a pause, each after every task had a turn."""
_CALM_TURNS = 10
"""The number of looks in succession that find all tasks waiting: what wakes one may itself be under way."""


@contextmanager
def looking_quickly() -> Generator[None, None, None]:
    """Look after every turn of the event loop during the `with` statement, and later every millisecond."""
    with patch.object(AsyncIOBackend, "wait_all_tasks_blocked", classmethod(_wait_all_tasks_blocked)):
        yield


async def _wait_all_tasks_blocked(cls: type[AsyncIOBackend]) -> None:
    await cls.checkpoint()
    here, turns, calm = asyncio.current_task(), 0, 0
    while calm < _CALM_TURNS:
        turns += 1
        await asyncio.sleep(0 if turns < _TURNS else 0.001)
        is_busy = any(_runs(task) for task in asyncio.all_tasks() if task is not here)
        calm = 0 if is_busy else calm + 1


def _runs(task: asyncio.Task[Any]) -> bool:
    waiter = getattr(task, "_fut_waiter", None)
    return waiter is None or waiter.done()
