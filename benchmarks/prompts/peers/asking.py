"""One agent of pydantic-ai and what it is asked. Runs in the peer's environment."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from pydantic_ai import Agent
from pydantic_ai.messages import UserContent
from pydantic_core import to_json

__all__ = ["Asked", "Called", "as_json", "called"]


class Called(NamedTuple):
    """A call of a tool.

    Args:
        name: The tool's name.
        arguments: Its arguments as JSON.
    """

    name: str
    arguments: str


class Asked(NamedTuple):
    """An agent with its first prompt.

    Args:
        agent: The agent, without a model.
        prompt: The user prompt.
        deps: What its tools need.
        calls: The calls that a reader who makes no mistake needs before it can answer, response by response.
    """

    agent: Agent[Any, Any]
    prompt: str | Sequence[UserContent]
    deps: Any = None
    calls: Sequence[Sequence[Called]] = ()


def called(name: str, **arguments: object) -> Called:
    """A call of a tool."""
    return Called(name, json.dumps(arguments))


def as_json(value: object) -> str:
    """A value as compact JSON, as one puts it into a prompt."""
    return to_json(value).decode()
