"""Awaitable values of user code, and awaiting them."""

import inspect
from collections.abc import Awaitable
from types import CoroutineType, GeneratorType
from typing import TypeGuard

from ..actors import BareTaskGroup
from ..parallel.task_current import share_positions


def is_awaitable(value: object) -> TypeGuard[Awaitable[object]]:
    """Whether a value is awaitable, from its type alone: no code of the value runs, `__class__` included."""
    kind = type(value)
    if issubclass(kind, GeneratorType):
        return inspect.isawaitable(value)
    return hasattr(kind, "__await__")


async def await_value(awaitable: Awaitable[object]) -> object:
    """Await in a task of its own.

    On asyncio user code may await something that somebody else cancelled, and so raise a cancellation that
    is not the step's. A task group takes that for the end of its task, while the step's own goes on.

    Raises:
        RuntimeError: The awaited task had been cancelled by somebody else.
        Exception: Whatever awaiting raised.
    """
    values: list[object] = []
    failures: list[Exception | SystemExit] = []

    async def run() -> None:
        share_positions()
        try:
            values.append(await awaitable)
        except (Exception, SystemExit) as error:  # a stray `exit()` ends nothing
            failures.append(error)

    try:
        async with BareTaskGroup() as task_group:
            task_group.start_soon(run)
    finally:
        if isinstance(awaitable, CoroutineType):
            awaitable.close()  # cancelled before it began, it would complain that nobody awaited it
    if failures:
        raise failures[0]
    if not values:
        raise RuntimeError("what was awaited had been cancelled")
    return values[0]
