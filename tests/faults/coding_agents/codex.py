"""Codex from npm, and a model that answers it from a script."""

import json
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import nighthawk_async as nh
from nighthawk_async.testing import ModelReply, ModelServer, RecordedRequest
from nighthawk_async.types.messages import ToolCall
from tests.npm_packages import find_binary

_NUMBERS = count(1)
OUTPUTS = ("function_call_output", "custom_tool_call_output")


def call(name: str, /, **arguments: Any) -> ToolCall:
    """A call of a tool."""
    return ToolCall(id=f"call_{next(_NUMBERS)}", name=name, arguments=json.dumps(arguments))


def calls(*each: ToolCall, **fields: Any) -> ModelReply:
    """A response with calls."""
    return ModelReply(tool_calls=each, **fields)


def ends(kind: str = "pass", **fields: Any) -> ModelReply:
    """A response that ends the block."""
    return calls(call("nh_outcome", kind=kind, **fields))


def custom_item(name: str, text: str) -> dict[str, Any]:
    """A call whose input is text, as Codex knows it."""
    call_id = f"call_{next(_NUMBERS)}"
    fields = {"id": f"ctc_{call_id}", "call_id": call_id, "name": name, "input": text}
    return {"type": "custom_tool_call", "status": "completed", **fields}


def function_item(made: ToolCall) -> dict[str, Any]:
    """A call of a function, for a response that holds other calls too."""
    fields = {"id": f"fc_{made.id}", "call_id": made.id, "name": made.name, "arguments": made.arguments}
    return {"type": "function_call", "status": "completed", **fields}


def custom_call(name: str, text: str) -> ModelReply:
    """A response with a call whose input is text."""
    return several(custom_item(name, text))


def several(*items: dict[str, Any]) -> ModelReply:
    """A response with calls of any kind."""
    usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
    events: list[dict[str, Any]] = [{"type": "response.created", "response": {"id": "resp_1"}}]
    for number, item in enumerate(items):
        for what in ("added", "done"):
            events.append({"type": f"response.output_item.{what}", "output_index": number, "item": item})
    events.append({"type": "response.completed", "response": {"id": "resp_1", "usage": usage}})
    body = b"".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n".encode() for e in events)
    return ModelReply(body=body, headers={"content-type": "text/event-stream"})


def results(request: RecordedRequest) -> list[str]:
    """The results of calls that a request sends, as texts, in order."""
    return [
        each["output"] if isinstance(each["output"], str) else json.dumps(each["output"])
        for each in request.body["input"]
        if each["type"] in OUTPUTS
    ]


def texts(request: RecordedRequest) -> list[str]:
    """The messages of the user in a request."""
    return [
        part["text"]
        for each in request.body["input"]
        if each["type"] == "message" and each["role"] == "user"
        for part in each["content"]
    ]


class Scripted:
    """A model that gives one reply after the other, and keeps the requests."""

    def __init__(self, *replies: ModelReply | Callable[[RecordedRequest], ModelReply]) -> None:
        self._replies: Iterator[Any] = iter(replies)
        self.requests: list[RecordedRequest] = []

    def __call__(self, request: RecordedRequest) -> ModelReply:
        self.requests.append(request)
        reply = next(self._replies)
        return reply(request) if callable(reply) else reply


def command() -> str:
    """The path of Codex; skips the test when it is not installed."""
    return find_binary("@openai/codex", "bin/codex.js")


def executor(
    server: ModelServer, model: str = "gpt-5.4", *, executable: str | None = None, **options: Any
) -> nh.AgentStepExecutor:
    """An executor that asks a server through Codex; options are settings, or of the configuration."""
    fields = {
        name: options.pop(name) for name in nh.StepExecutorConfiguration.model_fields if name in options
    }
    settings = {
        "executable": executable or command(),
        "base_url": server.base_url,
        "api_key": "key",
        **options,
    }
    tools = ("nh_eval", "nh_assign", "nh_exec")  # Codex calls what is on offer alone
    fields = {"provided_tools": tools, **fields}
    configuration = nh.StepExecutorConfiguration(model=f"codex:{model}", model_settings=settings, **fields)
    return nh.AgentStepExecutor.from_configuration(configuration)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A directory to work in."""
    folder = tmp_path / "repository"
    folder.mkdir()
    return folder
