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

    On asyncio, user code may await a task that other code cancelled, which raises a cancellation that is not
    the step's. Here it ends only this separate task, and the step's task goes on.

    Raises:
        RuntimeError: Other code had cancelled the awaited task.
        Exception: Any exception raised by the awaitable.
    """
    values: list[object] = []
    failures: list[Exception | SystemExit] = []

    async def run() -> None:
        share_positions()
        try:
            values.append(await awaitable)
        except (Exception, SystemExit) as error:  # a stray `exit()` must not end the program
            failures.append(error)

    try:
        async with BareTaskGroup() as task_group:
            task_group.start_soon(run)
    finally:
        if isinstance(awaitable, CoroutineType):
            awaitable.close()  # cancelled before it began, it would warn that nobody awaited it
    if failures:
        raise failures[0]
    if not values:
        raise RuntimeError("what was awaited had been cancelled")
    return values[0]
