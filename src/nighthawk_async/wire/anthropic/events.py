"""The wire shapes of Anthropic Messages answers.

An event is read in two steps, first its type and then that type's fields, so that unknown events are ignored
whatever they hold. Fields that this library does not use are left out; every field may be missing or null,
since some server leaves it out. Blocks stay plain objects, since they may be sent back unchanged.

Source: `raw_message_stream_event.py` and `message.py` of the official SDK.
"""

from typing import Any

import msgspec

from ...types.usage import Usage
from ..json_text import total_count


class OutputTokens(msgspec.Struct):
    """Parts of the output tokens."""

    thinking_tokens: int | None = None


class ServerToolUse(msgspec.Struct):
    """Uses of the provider's own tools."""

    web_search_requests: int | None = None


class Container(msgspec.Struct):
    """The container in which code of the model runs."""

    id: str | None = None


class CacheCreation(msgspec.Struct):
    """Tokens written to the cache, by the time for which they are kept there."""

    ephemeral_1h_input_tokens: int | None = None


class Iteration(msgspec.Struct):
    """Consumption of one of several passes over a request."""

    type: str | None = None
    input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_creation: CacheCreation | None = None
    output_tokens: int | None = None


_PASSES_BESIDE = frozenset({"advisor_message", "compaction"})


class WireUsage(msgspec.Struct):
    """Consumption so far, as the endpoint counts it; the three counters of input add up."""

    input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_creation: CacheCreation | None = None
    output_tokens: int | None = None
    output_tokens_details: OutputTokens | None = None
    iterations: list[Iteration] | None = None
    server_tool_use: ServerToolUse | None = None

    def updated(self, later: "WireUsage") -> "WireUsage":
        """The same updated by a later report, which replaces the counts, except those that it leaves out."""
        return WireUsage(
            **{
                name: getattr(self if getattr(later, name) is None else later, name)
                for name in self.__struct_fields__
            }
        )

    def to_usage(
        self, *, is_complete: bool, code_executions: int = 0, caches_for_an_hour: bool = False
    ) -> Usage:
        """The same as usage of one request, with the passes that compacted the conversation or gave advice.

        The counters of the message leave these passes out.

        Args:
            is_complete: Whether nothing more will be consumed.
            code_executions: The number of executions of code, which the endpoint does not count.
            caches_for_an_hour: Whether tokens are kept for an hour, if the endpoint does not say how long.
        """
        passes = [self, *(each for each in self.iterations or () if each.type in _PASSES_BESIDE)]
        cache_read = total_count(*(each.cache_read_input_tokens or 0 for each in passes))
        cache_write = total_count(*(each.cache_creation_input_tokens or 0 for each in passes))
        kept = total_count(*(_kept_for_an_hour(each, otherwise=caches_for_an_hour) for each in passes))
        details = self.output_tokens_details or OutputTokens()
        return Usage(
            requests=1,
            input_tokens=total_count(*(each.input_tokens or 0 for each in passes), cache_read, cache_write),
            output_tokens=total_count(*(each.output_tokens or 0 for each in passes)),
            cache_read_tokens=cache_read,
            cache_write_tokens=cache_write,
            cache_write_1h_tokens=kept,
            reasoning_tokens=details.thinking_tokens or 0,
            web_searches=(self.server_tool_use or ServerToolUse()).web_search_requests or 0,
            code_executions=code_executions,
            is_complete=is_complete,
        )


def _kept_for_an_hour(counts: WireUsage | Iteration, *, otherwise: bool) -> int:
    """The tokens written that are kept for an hour; all of them or none, if the endpoint does not say."""
    if counts.cache_creation is None:
        return (counts.cache_creation_input_tokens or 0) if otherwise else 0
    return counts.cache_creation.ephemeral_1h_input_tokens or 0


class StopDetails(msgspec.Struct):
    """The reason of a refusal."""

    category: str | None = None
    explanation: str | None = None


class Message(msgspec.Struct):
    """A response: its beginning in a stream, or all of it."""

    id: str | None = None
    model: str | None = None
    content: list[dict[str, Any]] | None = None
    stop_reason: str | None = None
    stop_details: StopDetails | None = None
    container: Container | None = None
    usage: WireUsage | None = None


class Delta(msgspec.Struct):
    """More of a block, or of the facts about the response."""

    type: str | None = None
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    partial_json: str | None = None
    citation: dict[str, Any] | None = None
    content: str | None = None
    stop_reason: str | None = None
    stop_details: StopDetails | None = None
    container: Container | None = None


class Event(msgspec.Struct):
    """One event of a stream, or a whole answer, or an error in place of either."""

    type: str | None = None
    index: int | None = None
    message: msgspec.Raw = msgspec.Raw()
    content_block: msgspec.Raw = msgspec.Raw()
    delta: msgspec.Raw = msgspec.Raw()
    usage: msgspec.Raw = msgspec.Raw()
    error: msgspec.Raw = msgspec.Raw()
