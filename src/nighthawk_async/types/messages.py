"""The messages of a conversation with a model."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from .content import UserContent

__all__ = [
    "AssistantMessage",
    "Message",
    "ProviderContent",
    "ToolCall",
    "ToolResult",
    "ToolResultsMessage",
    "UserMessage",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A call that the model asks for.

    Args:
        id: The identifier that ties the result to the call.
        name: The name of the tool.
        arguments: The arguments as the JSON text the model wrote; not yet parsed, possibly invalid.
    """

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """The result of a tool call.

    Args:
        call_id: The `ToolCall.id` this answers.
        name: The name of the tool.
        content: What the model sees, in order.
        is_error: Whether the call failed.
    """

    call_id: str
    name: str
    content: tuple[UserContent, ...]
    is_error: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class UserMessage:
    """A message to the model, its items in order."""

    content: tuple[UserContent, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderContent:
    """A whole response in its provider's own form: what it wants back unchanged, in its order.

    Reasoning items, thinking blocks and signatures stand among the text and the tool calls, and a provider
    may refuse a conversation in which one of them is missing or moved.

    Args:
        protocol: The wire protocol that understands the items.
        items: The items as JSON objects, in order.
    """

    protocol: str
    items: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AssistantMessage:
    """One response of the model.

    Args:
        text: The visible text; empty when there was none.
        reasoning: The reasoning text the provider showed; empty when there was none.
        tool_calls: The calls it asked for, in order.
        provider_content: The same in the provider's own form, when it wants more back than text and tool
            calls. A request of the same protocol sends it in their place; other protocols ignore it.
    """

    text: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    provider_content: ProviderContent | None = None

    @property
    def content(self) -> tuple[UserContent, ...]:
        """The visible text, if there is any: other messages have their items here."""
        return (self.text,) if self.text else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResultsMessage:
    """The results of all calls of one response, in the order of the calls."""

    results: tuple[ToolResult, ...]

    @property
    def content(self) -> tuple[UserContent, ...]:
        """The contents of all results for the model, in order."""
        return tuple(item for result in self.results for item in result.content)


Message: TypeAlias = UserMessage | AssistantMessage | ToolResultsMessage
"""One entry of a conversation; the system prompt stands apart from it."""
