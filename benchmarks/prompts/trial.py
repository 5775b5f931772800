"""The blocks on a real model: how many it gets right, and what that takes."""

import time
from collections.abc import AsyncIterator, Iterable, Mapping
from decimal import Decimal

import anyio
import msgspec

import nighthawk_async as nh

from .block import Block

__all__ = ["Tried", "try_block", "try_blocks"]


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one block on a model.

    Args:
        name: The block's name.
        is_right: Whether the checker took the result.
        steps: Steps that the function took.
        usage: What its requests consumed.
        seconds: How long it took.
        corrections: How often its model was told that something was wrong, by cause.
        failure: What went wrong, if anything.
    """

    name: str
    is_right: bool
    steps: int
    usage: nh.Usage
    seconds: float
    corrections: Mapping[str, int]
    failure: str | None = None

    @property
    def cost(self) -> Decimal | None:
        """US dollars; None where a price is unknown."""
        return None if self.usage.unpriced_requests else self.usage.cost


async def try_blocks(
    blocks: Iterable[Block], configuration: nh.StepExecutorConfiguration, *, limit_seconds: float
) -> AsyncIterator[Tried]:
    """Try blocks, one after the other. One that fails is counted, and the next one follows.

    Args:
        blocks: The blocks.
        configuration: The model and its settings.
        limit_seconds: When a block is given up.
    """
    executor = nh.AgentStepExecutor.from_configuration(configuration=configuration)
    for block in blocks:
        yield await try_block(block, executor, limit_seconds=limit_seconds)


async def try_block(block: Block, executor: nh.AgentStepExecutor, *, limit_seconds: float) -> Tried:
    """Try one block.

    Args:
        block: The block.
        executor: What carries out its steps.
        limit_seconds: When it is given up.
    """
    failure: str | None = None
    began = time.monotonic()
    async with nh.run(executor):
        try:
            with anyio.fail_after(limit_seconds):
                result = await block.call()
            if not block.is_right(result):
                failure = f"not right: {result!r}"
        except TimeoutError:
            failure = f"given up after {limit_seconds:g} s"
        except Exception as error:  # whatever a model makes of a block must not end the others
            failure = f"{type(error).__name__}: {error}"
        meter = nh.get_usage_meter()
    return Tried(
        name=block.name,
        is_right=failure is None,
        steps=meter.steps,
        usage=meter.usage,
        seconds=time.monotonic() - began,
        corrections=meter.corrections,
        failure=failure,
    )
