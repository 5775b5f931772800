"""Runs over a loopback model server, for calls on workers."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import anyio

import nighthawk_async as nh
from nighthawk_async.testing.model_reply import ModelReply, ReplyPacing

OUTCOME = nh.models.ToolCall(id="", name="nh_outcome", arguments='{"kind": "pass"}')
USED = nh.Usage(requests=1, input_tokens=30, output_tokens=6)
DONE = ModelReply(tool_calls=(OUTCOME,), usage=USED)

HANGING = ModelReply(pacing=ReplyPacing(first_byte_seconds=3_600))
PRICES = {"openai-chat:m": nh.models.ModelPrice(input=Decimal(1), output=Decimal(4))}


def executor_of(base_url: str, **settings: Any) -> nh.AgentStepExecutor:
    """An executor whose model is at a server."""
    given: Any = {"base_url": base_url, "max_tokens": 100, **settings}
    return nh.AgentStepExecutor.from_configuration(
        configuration=nh.StepExecutorConfiguration(model="openai-chat:m", model_settings=given)
    )


async def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds, which nothing here can signal."""
    with anyio.fail_after(240):
        while not holds():  # noqa: ASYNC110
            await anyio.sleep(0.002)
