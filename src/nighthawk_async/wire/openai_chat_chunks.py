"""The wire shapes of Chat Completions answers.

One shape serves a chunk of a stream and a whole answer. Fields that this library does not use are left out
and ignored; every field may be missing or null, since some server leaves it out.

Source: `chat_completion_chunk.py` and `chat_completion.py` of the official SDK.
"""

from typing import Any, cast

import msgspec

from ..types.usage import Usage
from .response_json import as_object

__all__ = ["Choice", "Chunk", "Delta", "FunctionFragment", "ToolCallDelta", "WireUsage"]


class FunctionFragment(msgspec.Struct):
    """A function's name, once, and more of its arguments; some servers send these as an object."""

    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class ToolCallDelta(msgspec.Struct):
    """A fragment of a tool call; Google signs calls in `extra_content`."""

    index: int | None = None
    id: str | None = None
    function: FunctionFragment | None = None
    extra_content: Any = None


class Delta(msgspec.Struct):
    """More of the answer, or all of it.

    OpenRouter sends reasoning in `reasoning_details` as well; Mistral sends the content of a model that
    thinks as a list of parts (`TextChunk` and `ThinkChunk` of its SDK).
    """

    content: str | list[Any] | None = None
    refusal: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    reasoning_details: Any = None
    extra_content: Any = None
    tool_calls: list[ToolCallDelta] | None = None
    function_call: FunctionFragment | None = None

    @property
    def text(self) -> str:
        """The visible text of the content."""
        return self.content if isinstance(self.content, str) else _text_of(self.content, "text")

    @property
    def thinking(self) -> str:
        """The reasoning text in the content."""
        return "" if isinstance(self.content, str) else _text_of(self.content, "thinking")


class Choice(msgspec.Struct):
    """One of the answers; this library asks for one."""

    index: int | None = None
    delta: Delta | None = None
    message: Delta | None = None
    finish_reason: str | None = None
    error: msgspec.Raw = msgspec.Raw()


class PromptTokens(msgspec.Struct):
    """Parts of the input tokens."""

    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class CompletionTokens(msgspec.Struct):
    """Parts of the output tokens."""

    reasoning_tokens: int | None = None


class WireUsage(msgspec.Struct):
    """Consumption, as the endpoint counts it."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: PromptTokens | None = None
    completion_tokens_details: CompletionTokens | None = None

    def to_usage(self) -> Usage:
        """The same as usage of one request."""
        prompt = self.prompt_tokens_details or PromptTokens()
        completion = self.completion_tokens_details or CompletionTokens()
        received, reasoning = self.completion_tokens or 0, completion.reasoning_tokens or 0
        if reasoning > received >= 0:  # some servers count it beside the completion
            received += reasoning
        return Usage(
            requests=1,
            input_tokens=self.prompt_tokens or 0,
            output_tokens=received,
            cache_read_tokens=prompt.cached_tokens or 0,
            cache_write_tokens=prompt.cache_write_tokens or 0,
            reasoning_tokens=reasoning,
        )


class Chunk(msgspec.Struct):
    """One event of a stream, or a whole answer, or an error in place of either."""

    id: Any = None
    model: Any = None
    choices: list[Choice] | None = None
    usage: WireUsage | None = None
    error: msgspec.Raw = msgspec.Raw()
    object: str | None = None


def _text_of(parts: object, kind: str) -> str:
    """The text of all parts of one kind; a part holds a text, or in its turn parts with a text."""
    if not isinstance(parts, list):
        return ""
    texts: list[str] = []
    for part in map(as_object, cast("list[object]", parts)):
        if part.get("type") == kind:
            inner: object = part.get(kind)
            texts.append(inner if isinstance(inner, str) else _text_of(inner, "text"))
    return "".join(texts)
