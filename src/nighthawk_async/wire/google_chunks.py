"""The wire shapes of Gemini answers.

One shape serves a chunk of a stream and a whole answer. Fields that this library does not use are left out
and ignored; every field may be missing or null. Parts are kept as the bytes they came in, since a signed
response goes back as it came.

Source: `GenerateContentResponse` and `Part` in `types.py` of the official SDK.
"""

from typing import Any

import msgspec

from ..types.usage import Usage
from .usage_counts import total_count

__all__ = ["Candidate", "Chunk", "FunctionCall", "Part", "PromptFeedback", "UsageMetadata"]


class FunctionCall(msgspec.Struct, rename="camel"):
    """A function call, whole; `will_continue` and `partial_args` belong to a form that nobody asked for."""

    id: str | None = None
    name: str | None = None
    args: msgspec.Raw = msgspec.Raw()
    partial_args: list[Any] | None = None
    will_continue: bool | None = None

    @property
    def is_piece(self) -> bool:
        """Whether more of the call is to follow, or this is such a sequel."""
        return bool(self.will_continue) or self.partial_args is not None


class Part(msgspec.Struct, rename="camel"):
    """A piece of the answer; what is neither text nor a function call has no fields here."""

    text: str | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    function_call: FunctionCall | None = None


class Content(msgspec.Struct, rename="camel"):
    """The pieces, in order."""

    parts: list[msgspec.Raw] | None = None


class Candidate(msgspec.Struct, rename="camel"):
    """One of the answers; this library asks for one."""

    index: int | None = None
    content: Content | None = None
    finish_reason: str | None = None
    finish_message: str | None = None


class PromptFeedback(msgspec.Struct, rename="camel"):
    """The provider's judgement of the prompt."""

    block_reason: str | None = None
    block_reason_message: str | None = None


class UsageMetadata(msgspec.Struct, rename="camel"):
    """Consumption since the beginning of the response, as the endpoint counts it."""

    prompt_token_count: int | None = None
    tool_use_prompt_token_count: int | None = None
    cached_content_token_count: int | None = None
    candidates_token_count: int | None = None
    thoughts_token_count: int | None = None

    def to_usage(self) -> Usage:
        """The same as usage of one request: thoughts are output, and results of the server's tools input."""
        thoughts = self.thoughts_token_count or 0
        return Usage(
            requests=1,
            input_tokens=total_count(self.prompt_token_count or 0, self.tool_use_prompt_token_count or 0),
            output_tokens=total_count(self.candidates_token_count or 0, thoughts),
            cache_read_tokens=self.cached_content_token_count or 0,
            reasoning_tokens=thoughts,
        )


class Chunk(msgspec.Struct, rename="camel"):
    """One event of a stream, or a whole answer, or an error in place of either."""

    candidates: list[Candidate] | None = None
    prompt_feedback: PromptFeedback | None = None
    usage_metadata: UsageMetadata | None = None
    response_id: str | None = None
    model_version: str | None = None
    error: msgspec.Raw = msgspec.Raw()
