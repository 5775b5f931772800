"""The way of one ordinary step through the library; run as a program, it prints figures as JSON.

A function is called for the third time: its model assigns one value and ends the block. Calls are counted
when a frame is entered first, not when a coroutine goes on, and comprehensions are left out, which some
versions of Python call as functions.
"""

import json
import sys
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import anyio

import nighthawk_async as nh
from nighthawk_async.testing import ModelReply, ModelServer, ScriptedModel, model_response
from tests.docs.followed_step import CALLS, PACKAGE, stars

COMPREHENSIONS = ("<genexpr>", "<listcomp>", "<dictcomp>", "<setcomp>")
THIRD = 3


class Way(NamedTuple):
    """The way of a step: the files that it passes, and how often it goes from one to another."""

    files: int
    changes: int


async def follow(executor: nh.AgentStepExecutor) -> Way:
    """The way of the third call."""
    way: list[str] = []
    entered: dict[int, FrameType] = {}  # kept, so that no other frame gets the identity of one

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and id(frame) not in entered and frame.f_code.co_name not in COMPREHENSIONS:
            entered[id(frame)] = frame
            file = Path(frame.f_code.co_filename)
            if PACKAGE in file.parents and "testing" not in file.relative_to(PACKAGE).parts:
                way.append(file.name if file.parent == PACKAGE else f"{file.parent.name}/{file.name}")

    async with nh.run(executor):
        for _ in range(1, THIRD):
            await stars("ab")
        sys.setprofile(note)
        try:
            assert await stars("abcd") == 4
        finally:
            sys.setprofile(None)
    changes = sum(before != after for before, after in pairwise(way))
    return Way(len(set(way)), changes)


async def follow_both() -> dict[str, Way]:
    """The way of a step with a scripted model, and over HTTP."""
    model = ScriptedModel([model_response(*CALLS) for _ in range(THIRD)])
    scripted = await follow(nh.AgentStepExecutor.from_model(model=model))
    with ModelServer.in_thread([ModelReply(tool_calls=CALLS) for _ in range(THIRD)]) as server:
        settings = {"base_url": server.base_url, "api_key": "none"}
        configuration = nh.StepExecutorConfiguration(
            model="openai-chat:gpt-5.4-nano", model_settings=settings
        )
        http = await follow(nh.AgentStepExecutor.from_configuration(configuration=configuration))
    return {"scripted": scripted, "http": http}


if __name__ == "__main__":
    print(json.dumps(anyio.run(follow_both, backend=sys.argv[1])))
