"""One agent of pydantic-ai and what it is asked. Runs in the peer's environment."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from pydantic_ai import Agent
from pydantic_ai.messages import UserContent
from pydantic_core import to_json

__all__ = ["Asked", "as_json"]


class Asked(NamedTuple):
    """An agent with its first prompt.

    Args:
        agent: The agent, without a model.
        prompt: The user prompt.
        deps: What its tools need.
    """

    agent: Agent[Any, Any]
    prompt: str | Sequence[UserContent]
    deps: Any = None


def as_json(value: object) -> str:
    """A value as compact JSON, as one puts it into a prompt."""
    return to_json(value).decode()
