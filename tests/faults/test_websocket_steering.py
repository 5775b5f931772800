"""What a user says while a response is running on a WebSocket goes into it, where the endpoint offers that."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.testing import ModelReply, ModelServer, RecordedRequest, ReplyPacing, cassette, tool_call

from .websocket_support import (
    LANES,
    RawSocket,
    end,
    executor_at,
    hello,
    look_up,
    raw_sockets,
    sent_items,
    work,
)

pytestmark = pytest.mark.anyio

ONE_LANE = {"endpoint_rules": "tests:one-lane"}
PACED = ReplyPacing(between_writes_seconds=0.001, fragment_characters=4)


def items_of(request: RecordedRequest) -> list[dict[str, Any]]:
    """The whole conversation of a request."""
    return [*request.earlier_items, *request.body["input"]]


def texts_of(request: RecordedRequest) -> list[str]:
    """What the user said, apart from the prompt."""
    items = [item for item in items_of(request) if item.get("role") == "user"]
    return [str(item["content"]) for item in items[1:]]


async def steered_step(say: Callable[[Any], None], words: str = "owls") -> str:
    """Run a step as a task; its handle is shown to a function when the first response has begun."""
    async with nh.tasks() as tasks:
        handle = tasks.start(work, words)
        say(handle)
        return await handle.result()
