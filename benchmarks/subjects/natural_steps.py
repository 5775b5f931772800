"""Steps of this project, as a user would write them, and what the model answers. No program by itself."""

import gc
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import nighthawk_async as nh

from .harness import EXPECTED, tool_body, tool_started

__all__ = ["open_natural_steps", "scripts_of"]


@nh.natural_function
async def assign() -> int:
    """Let the model set a variable."""
    """natural
    Set <:result> to the answer.
    """
    return result  # noqa: F821


@nh.natural_function
async def look_up() -> None:
    """Let the model call tools."""
    """natural
    Look everything up.
    """


async def wait_for_reply(number: int) -> str:
    """Ask something that takes a while."""
    return await tool_body()


async def note_start(sent_at: str) -> str:
    """Note when this was called."""
    return tool_started(sent_at)


async def assign_step() -> None:
    """One step of kind "assign"."""
    if await assign() != EXPECTED:
        raise AssertionError("the variable got another value")


@asynccontextmanager
async def open_natural_steps(
    base_url: str, kind: str, *, protocol: str = "openai-chat", collector_threshold: int | None = None
) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """Open a run; see `harness`.

    Args:
        base_url: The base URL of the model.
        kind: The kind of the steps.
        protocol: The name of the provider in the model's name.
        collector_threshold: How many more objects there have to be until Python's garbage collector looks at
            the newest ones, as a program sets it that has thousands of steps in flight; None for what Python
            begins with.
    """
    if collector_threshold is not None:
        gc.set_threshold(collector_threshold)
    executor = nh.AgentStepExecutor.from_configuration(
        configuration=nh.StepExecutorConfiguration(
            model=f"{protocol}:gpt-5.4-nano",
            model_settings={"base_url": base_url, "api_key": "none"},
        )
    )
    async with nh.run(executor, tools=[wait_for_reply, note_start]):
        if kind == "assign":
            yield assign_step
        else:
            yield look_up


def scripts_of(*, in_one_trip: bool) -> Mapping[str, Mapping[str, Any]]:
    """The model's scripts.

    Args:
        in_one_trip: Whether the model gives the outcome in the same response as the calls before it, or in
            the next one, as it has to where the outcome is no tool call.
    """
    set_result = {"name": "nh_assign", "arguments": {"target_path": "result", "expression": str(EXPECTED)}}
    waits = [{"name": "wait_for_reply", "arguments": {"number": number}} for number in range(8)]
    start = {"name": "note_start", "arguments": {"sent_at": "{sent_at}"}}
    return {
        "assign": _script([set_result], in_one_trip=in_one_trip),
        "one-tool": _script(waits[:1], in_one_trip=in_one_trip),
        "eight-tools": _script(waits, in_one_trip=in_one_trip),
        "tool-start": _script([start], in_one_trip=False, text="Meanwhile I go on talking. " * 20),
    }


def _script(calls: Sequence[Mapping[str, Any]], *, in_one_trip: bool, text: str = "") -> Mapping[str, Any]:
    end = {"name": "nh_outcome", "arguments": {"kind": "pass"}}
    if in_one_trip:
        return {"turns": [{"text": text, "calls": [*calls, end]}]}
    return {"turns": [{"text": text, "calls": calls}, {"calls": [end]}]}
