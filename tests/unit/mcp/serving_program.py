"""Functions that a server in a process of its own serves; they print wherever they can."""

import os
import sys
from pathlib import Path
from typing import Any

import anyio

import nighthawk_async as nh
from nighthawk_async.testing import CallbackExecutor, StepCall, StepResponse, pass_response

print("printed at the import")


@nh.natural_function
async def stars(review: str) -> int:
    """Count the stars of a review."""
    count: int
    """natural
    Set <:count> to the number of stars that <review> gives.
    """
    return count


async def shout(text: str) -> str:
    """Make a text louder."""
    print("printed by a function")
    os.write(1, b"written to the descriptor\n")
    await anyio.run_process(
        [sys.executable, "-c", "print('printed by a child')"], stdin=None, stdout=None, stderr=None
    )
    assert sys.stdin.read() == ""
    return text.upper()


async def hang(marks: str) -> str:
    """Wait for ever; a file tells what becomes of it."""
    file = anyio.Path(marks)
    await file.write_text("begun")
    try:
        await anyio.sleep_forever()
    finally:
        Path(marks).write_text("cancelled")  # noqa: ASYNC240  (nothing can be awaited any more)
    return "never"


def count_asterisks(call: StepCall) -> StepResponse:
    return pass_response(count=str(call.step_locals["review"]).count("*"))


def make_run() -> Any:
    """Return a run that counts asterisks in place of a model."""
    return nh.run(CallbackExecutor(count_asterisks))
