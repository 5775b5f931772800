"""Pydantic AI: one agent with its tools, over Chat Completions; the agent ends by saying something.

For the kind "tool-start" the agent is given a handler of events, which makes it ask for a stream.
"""

from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from pydantic_ai import Agent, RunContext
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from . import harness
from .two_turns import SENT_AT, call, two_turns

SCRIPTS = two_turns(
    assign=call("assign", name="result", value=harness.EXPECTED),
    wait=call("wait"),
    note=call("note", sent_at=SENT_AT),
)

PROMPTS = {
    "assign": "Set the variable result to forty-two.",
    "one-tool": "Wait once.",
    "eight-tools": "Wait eight times at once.",
    "tool-start": "Take a note.",
}


def make_agent(base_url: str) -> Agent[dict[str, int], str]:
    """The agent; what a run depends on are the variables that its model sets."""
    provider = OpenAIProvider(base_url=base_url, api_key="none")
    agent = Agent(OpenAIChatModel("benchmark", provider=provider), deps_type=dict[str, int])

    @agent.tool
    async def assign(context: RunContext[dict[str, int]], name: str, value: int) -> str:
        """Set a variable."""
        context.deps[name] = value
        return "set"

    @agent.tool_plain
    async def wait() -> str:
        """Wait a moment."""
        return await harness.tool_body()

    @agent.tool_plain
    async def note(sent_at: str) -> str:
        """Take a note of the time."""
        return harness.tool_started(sent_at)

    return agent


async def look_at(context: RunContext[dict[str, int]], events: AsyncIterable[Any]) -> None:
    """Let all events of a stream pass."""
    async for _ in events:
        pass


@asynccontextmanager
async def open_steps(base_url: str, kind: str) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """One agent for all steps, in its own context, so that it keeps one client open."""
    agent = make_agent(base_url)
    handler = look_at if kind == "tool-start" else None

    async def step() -> None:
        variables: dict[str, int] = {}
        await agent.run(PROMPTS[kind], deps=variables, event_stream_handler=handler)
        if kind == "assign" and variables != {"result": harness.EXPECTED}:
            raise ValueError(f"the model set {variables}")

    async with agent:
        yield step


if __name__ == "__main__":
    harness.main(open_steps, SCRIPTS)
