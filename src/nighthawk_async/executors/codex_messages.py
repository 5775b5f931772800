"""The messages of Codex that a driver acts on, by kind; `codex_protocol` reads and writes their lines."""

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from ..types.usage import Usage

RequestId: TypeAlias = int | str
"""The id of a request; those of the two sides are independent."""


class RpcError(Struct, frozen=True):
    """The error of a response."""

    message: str = ""
    code: int = 0


class Response(Struct, frozen=True, kw_only=True):
    """The response to a request of ours."""

    id: RequestId
    result: Mapping[str, Any]
    error: RpcError | None = None


class ToolCallRequest(Struct, frozen=True, kw_only=True):
    """A call of one of our tools, to be answered with `tool_response`."""

    id: RequestId
    thread_id: str
    call_id: str
    tool: str
    arguments: str


class ApprovalRequest(Struct, frozen=True, kw_only=True):
    """A native call that is to leave the sandbox, to be answered with `decision_response`."""

    id: RequestId
    thread_id: str
    item_id: str
    tool: Literal["shell", "apply_patch"]
    arguments: Mapping[str, Any]


class ServerToolRequest(Struct, frozen=True, kw_only=True):
    """A call of a tool of an MCP server that is to be confirmed, with `confirmation_response`."""

    id: RequestId
    thread_id: str
    call_id: str
    question_id: str


class OtherRequest(Struct, frozen=True, kw_only=True):
    """A request that needs a person or an account, to be answered with `refusal`."""

    id: RequestId
    method: str


class CallAnnounced(Struct, frozen=True, kw_only=True):
    """The model has asked for a call, in the order of its response.

    Args:
        thread_id: The thread.
        call_id: The id of the call.
        name: The tool, one of ours or of Codex.
        is_readable: Whether its arguments are JSON; if not, Codex refuses the call by itself.
    """

    thread_id: str
    call_id: str
    name: str
    is_readable: bool = True


class CallAnswered(Struct, frozen=True, kw_only=True):
    """The model's call has a result that it will get."""

    thread_id: str
    call_id: str


class TextAdded(Struct, frozen=True, kw_only=True):
    """A piece of the visible text, or of the reasoning."""

    thread_id: str
    kind: Literal["text", "reasoning"]
    text: str


class ResponseCompleted(Struct, frozen=True, kw_only=True):
    """One response of the model is complete; None when its usage was not reported."""

    thread_id: str
    usage: Usage | None


class NativeItem(Struct, frozen=True, kw_only=True):
    """A command, a change of files or a search, when it starts and when it ends."""

    thread_id: str
    call_id: str
    kind: str
    has_ended: bool
    status: str
    details: Mapping[str, Any]


class NativeOutput(Struct, frozen=True, kw_only=True):
    """A piece of the output of a command."""

    thread_id: str
    call_id: str
    text: str


class TurnFailure(Struct, frozen=True, kw_only=True):
    """The error of a turn.

    Args:
        message: The text.
        kind: The kind in the words of the protocol; empty for none.
        http_status: The status of the endpoint; None for none.
    """

    message: str
    kind: str = ""
    http_status: int | None = None


class TurnStarted(Struct, frozen=True, kw_only=True):
    """A turn has started; from now on it can be steered and interrupted."""

    thread_id: str
    turn_id: str


class TurnCompleted(Struct, frozen=True, kw_only=True):
    """A turn has ended."""

    thread_id: str
    turn_id: str
    status: str
    failure: TurnFailure | None


class Retry(Struct, frozen=True, kw_only=True):
    """A request to the model failed, and is sent again."""

    thread_id: str
    failure: TurnFailure


class Warned(Struct, frozen=True, kw_only=True):
    """A warning, for the log."""

    text: str


ThreadMessage: TypeAlias = (
    ToolCallRequest
    | ApprovalRequest
    | ServerToolRequest
    | CallAnnounced
    | CallAnswered
    | TextAdded
    | ResponseCompleted
    | NativeItem
    | NativeOutput
    | TurnStarted
    | TurnCompleted
    | Retry
)
"""A message that belongs to one thread."""

ServerMessage: TypeAlias = Response | OtherRequest | Warned | ThreadMessage
"""A message of the server."""
