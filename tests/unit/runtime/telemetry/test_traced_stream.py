"""A traced response tells budgets what the response tells, and no more."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

import nighthawk_async as nh
from nighthawk_async.runtime.told_usage import (
    TellsConsumption,
    TellsUsage,
    may_have_consumed,
    usage_so_far,
)
from nighthawk_async.telemetry.traced_stream import traced_stream
from nighthawk_async.testing import ScriptedModel

USAGE = nh.Usage(requests=1, input_tokens=3)
REQUEST = nh.ModelRequest(messages=())


class _Plain:
    async def __aenter__(self) -> Any: ...
    async def __aexit__(self, *exc_details: object) -> None: ...


class _WithUsage(_Plain):
    usage = USAGE


class _WithConsumption(_Plain):
    may_have_consumed = False


class _WithBoth(_WithUsage, _WithConsumption):
    pass


@asynccontextmanager
async def _generated() -> AsyncGenerator[AsyncIterator[nh.ModelEvent]]:
    yield aiter(())  # type: ignore[call-overload]


@pytest.mark.parametrize("made", [_Plain, _WithUsage, _WithConsumption, _WithBoth, _generated])
def test_what_is_traced_tells_the_same(made: Any) -> None:
    stream: AbstractAsyncContextManager[AsyncIterator[nh.ModelEvent]] = made()
    told = traced_stream(stream, ScriptedModel([]), REQUEST)
    assert isinstance(told, TellsUsage) == isinstance(stream, TellsUsage)
    assert isinstance(told, TellsConsumption) == isinstance(stream, TellsConsumption)
    assert usage_so_far(told) == usage_so_far(stream)
    assert may_have_consumed(told) == may_have_consumed(stream)
