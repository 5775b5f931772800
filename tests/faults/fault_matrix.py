"""What the fault matrix is made of: protocols, faults, ends. The rows are in `fault_matrix_rows`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from nighthawk_async.errors import ModelError
from nighthawk_async.testing.model_reply import ModelReply


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoken:
    """A protocol.

    Args:
        provider: The provider that speaks it.
        events_before_text: Events of a reply before its first text.
        events_within_call: Events of a reply without text up to the middle of its first call; 0 where calls
            are not streamed.
        passing: An error in the stream that may pass.
        lasting: An error in the stream that will not pass.
        too_long: The finish reason of a reply that reached its limit.
    """

    provider: str
    events_before_text: int
    events_within_call: int
    passing: Mapping[str, Any]
    lasting: Mapping[str, Any]
    too_long: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Succeeds:
    """The request succeeds.

    Args:
        text: The whole text; None for any.
        calls: The names and arguments of the tool calls, in order.
        reason: The finish reason.
    """

    text: str | None = "Hello, world"
    calls: tuple[tuple[str, str], ...] = ()
    reason: str = "stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fails:
    """The request fails.

    Args:
        error: The class of the error.
        text: The text before it.
        is_transient: What the error says of another attempt.
        is_retried: Whether there is another attempt.
    """

    error: type[ModelError]
    text: str = ""
    is_transient: bool = False
    is_retried: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A row of the matrix.

    Args:
        name: What goes wrong.
        reply: Makes the reply for a protocol.
        end: How the request ends.
        exceptions: How it ends otherwise, by provider.
        settings: Settings of the request.
    """

    name: str
    reply: Callable[[Spoken], ModelReply]
    end: Succeeds | Fails
    exceptions: Mapping[str, Succeeds | Fails] = field(default_factory=dict[str, Succeeds | Fails])
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def end_for(self, provider: str) -> Succeeds | Fails:
        """How the request ends at a provider."""
        return self.exceptions.get(provider, self.end)


PROTOCOLS = (
    Spoken(
        provider="openai-chat",
        events_before_text=1,
        events_within_call=3,
        passing={"message": "busy", "type": "overloaded_error"},
        lasting={"message": "no", "type": "invalid_request_error"},
        too_long="length",
    ),
    Spoken(
        provider="openai-responses",
        events_before_text=4,
        events_within_call=4,
        passing={"message": "busy", "code": "server_error"},
        lasting={"message": "no", "code": "invalid_prompt"},
        too_long="max_output_tokens",
    ),
    Spoken(
        provider="anthropic",
        events_before_text=3,
        events_within_call=5,
        passing={"message": "busy", "type": "overloaded_error"},
        lasting={"message": "no", "type": "invalid_request_error"},
        too_long="max_tokens",
    ),
    Spoken(
        provider="google",
        events_before_text=0,
        events_within_call=0,
        passing={"message": "busy", "code": 503, "status": "UNAVAILABLE"},
        lasting={"message": "no", "code": 400, "status": "INVALID_ARGUMENT"},
        too_long="MAX_TOKENS",
    ),
)
