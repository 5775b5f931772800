"""Functions and steps that the benchmarks of placements have workers make."""

import os

import anyio.lowlevel

import nighthawk_async as nh
from nighthawk_async.testing import CallbackExecutor, StepCall, StepResponse, pass_response

__all__ = ["compute", "computing_executor", "double", "process_id", "rate"]

ROUNDS = 150_000


async def double(number: int) -> int:
    """Switch tasks once, and return twice the number."""
    await anyio.lowlevel.checkpoint()
    return 2 * number


async def process_id(_: int) -> int:
    """The process of the worker."""
    return os.getpid()


def compute(call: StepCall) -> StepResponse:
    """Answer a step after some 10 ms of processor time, as a model in this process does."""
    total = 0
    for number in range(ROUNDS):
        total += number & 7
    return pass_response(stars=total % 5)


def computing_executor() -> CallbackExecutor:
    """An executor whose steps compute."""
    return CallbackExecutor(compute)


@nh.natural_function
async def rate(text: str) -> int:
    """Rate a text."""
    stars: int = -1
    """natural
    Set <:stars> to the number of stars that <text> gives.
    """
    return stars
