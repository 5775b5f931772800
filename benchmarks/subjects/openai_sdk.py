"""The official OpenAI SDK: the loop over Chat Completions of its guide to function calling, written by hand.

The guide calls the functions one after the other; here they run at once, as whoever writes such a loop for
async functions would have it. A response is asked for in one piece, except for the kind "tool-start": there
it is streamed, and the calls come from the completion that the SDK puts together.
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import openai

from . import harness
from .two_turns import SENT_AT, call, two_turns

MODEL = "benchmark"

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


def describe(tool: str, description: str, **parameters: str) -> dict[str, Any]:
    """A function as the protocol wants it told."""
    return {
        "type": "function",
        "function": {
            "name": tool,
            "description": description,
            "parameters": {
                "type": "object",
                "properties": {each: {"type": kind} for each, kind in parameters.items()},
                "required": list(parameters),
                "additionalProperties": False,
            },
            "strict": True,
        },
    }


TOOLS = [
    describe("assign", "Set a variable.", name="string", value="integer"),
    describe("wait", "Wait a moment."),
    describe("note", "Take a note of the time.", sent_at="string"),
]


class Conversation:
    """One step: the messages, and the variables that the model sets."""

    def __init__(self, client: openai.AsyncOpenAI, prompt: str) -> None:
        self.variables: dict[str, int] = {}
        self._client = client
        self._messages: list[Any] = [{"role": "user", "content": prompt}]

    async def run(self, *, is_streamed: bool) -> None:
        """Ask until the model calls nothing more."""
        while True:
            message = await (self._streamed() if is_streamed else self._whole())
            self._messages.append(message)
            if not message.tool_calls:
                return
            results = [""] * len(message.tool_calls)
            async with anyio.create_task_group() as group:
                for place, each in enumerate(message.tool_calls):
                    group.start_soon(self._call, each, results, place)
            for each, result in zip(message.tool_calls, results, strict=True):
                self._messages.append({"role": "tool", "tool_call_id": each.id, "content": result})

    async def _whole(self) -> Any:
        completion = await self._client.chat.completions.create(
            model=MODEL, messages=self._messages, tools=TOOLS
        )
        return completion.choices[0].message

    async def _streamed(self) -> Any:
        async with self._client.chat.completions.stream(
            model=MODEL, messages=self._messages, tools=TOOLS
        ) as stream:
            completion = await stream.get_final_completion()
        return completion.choices[0].message

    async def _call(self, tool_call: Any, results: list[str], place: int) -> None:
        arguments = json.loads(tool_call.function.arguments)
        match tool_call.function.name:
            case "assign":
                self.variables[arguments["name"]] = arguments["value"]
                results[place] = "set"
            case "wait":
                results[place] = await harness.tool_body()
            case "note":
                results[place] = harness.tool_started(arguments["sent_at"])
            case name:
                raise LookupError(f"the model calls {name}")


@asynccontextmanager
async def open_steps(base_url: str, kind: str) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """One client for all steps, with the SDK's own limits."""

    async def step() -> None:
        conversation = Conversation(client, PROMPTS[kind])
        await conversation.run(is_streamed=kind == "tool-start")
        if kind == "assign" and conversation.variables != {"result": harness.EXPECTED}:
            raise ValueError(f"the model set {conversation.variables}")

    async with openai.AsyncOpenAI(base_url=base_url, api_key="none") as client:
        yield step


if __name__ == "__main__":
    harness.main(open_steps, SCRIPTS)
