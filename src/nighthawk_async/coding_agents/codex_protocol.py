"""Messages of `codex app-server`: JSON-RPC, a line each, without the field `jsonrpc`. No I/O.

    initialize → thread/start → turn/start → (item/tool/call …) → turn/completed

`decode` gives the messages that a driver acts on, by kind; those it may ignore are None. Fields that are not
used are not read, so that other versions may add some.
"""

from base64 import b64encode
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias, cast

import msgspec
from msgspec import Raw, Struct

from ..types.messages import BinaryContent, ImageUrl, UserContent
from ..types.usage import Usage
from ..wire.media import describe_media

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


class _Line(Struct, frozen=True):
    id: RequestId | None = None
    method: str = ""
    params: Raw = Raw(b"{}")
    result: Raw = Raw(b"")
    error: RpcError | None = None


class _ToolCall(Struct, frozen=True, rename="camel"):
    thread_id: str
    call_id: str
    tool: str
    arguments: Raw


class _Approval(Struct, frozen=True, rename="camel"):
    thread_id: str
    item_id: str


class _QuestionText(Struct, frozen=True):
    id: str


class _Questions(Struct, frozen=True, rename="camel"):
    thread_id: str
    item_id: str
    questions: list[_QuestionText]


class _RawItem(Struct, frozen=True):
    type: str = ""
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None


class _RawItemParams(Struct, frozen=True, rename="camel"):
    thread_id: str
    item: _RawItem


class _Delta(Struct, frozen=True, rename="camel"):
    thread_id: str
    delta: str
    item_id: str = ""


class _Tokens(Struct, frozen=True, rename="camel"):
    input_tokens: int = 0
    cached_input_tokens: int = 0
    cache_write_input_tokens: int = 0
    output_tokens: int = 0
    reasoning_output_tokens: int = 0


class _ResponseParams(Struct, frozen=True, rename="camel"):
    thread_id: str
    usage: _Tokens | None = None


class _ItemParams(Struct, frozen=True, rename="camel"):
    thread_id: str
    item: Mapping[str, Any]


class _Failure(Struct, frozen=True, rename="camel"):
    message: str = ""
    codex_error_info: str | Mapping[str, Any] | None = None
    additional_details: str | None = None


class _Turn(Struct, frozen=True):
    id: str
    status: str = ""
    error: _Failure | None = None


class _TurnParams(Struct, frozen=True, rename="camel"):
    thread_id: str
    turn: _Turn


class _ErrorParams(Struct, frozen=True, rename="camel"):
    thread_id: str
    error: _Failure
    will_retry: bool = False


class _WarningParams(Struct, frozen=True):
    message: str = ""
    summary: str = ""


_CONFIRMATION = "mcp_tool_call_approval_"
_NATIVE_ITEMS = frozenset(("commandExecution", "fileChange", "webSearch", "mcpToolCall", "imageView"))
_CALL_ITEMS = frozenset(("function_call", "custom_tool_call", "local_shell_call"))
_ANSWER_ITEMS = frozenset(("function_call_output", "custom_tool_call_output"))
_LINE = msgspec.json.Decoder(_Line)


def decode(line: bytes) -> ServerMessage | None:
    """Decode a line of the server.

    Args:
        line: The line.

    Returns:
        The message; None for one that needs no attention.

    Raises:
        ValueError: The line is no message of the protocol.
    """
    message = _LINE.decode(line)
    if message.method and message.id is not None:
        return _request(message.id, message.method, message.params)
    if message.method:
        decoder = _NOTIFICATIONS.get(message.method)
        return None if decoder is None else decoder(message.params)
    if message.id is None:
        raise ValueError("neither a request nor a response")
    if message.error is not None:
        return Response(id=message.id, result={}, error=message.error)
    if not bytes(message.result):
        raise ValueError("a response without a result")
    result = msgspec.json.decode(message.result, type=dict[str, Any] | None)
    return Response(id=message.id, result=result or {})


def _request(id: RequestId, method: str, params: Raw) -> ServerMessage:
    match method:
        case "item/tool/call":
            call = msgspec.json.decode(params, type=_ToolCall)
            return ToolCallRequest(
                id=id,
                thread_id=call.thread_id,
                call_id=call.call_id,
                tool=call.tool,
                arguments=bytes(call.arguments).decode(),
            )
        case "item/commandExecution/requestApproval" | "item/fileChange/requestApproval":
            approval = msgspec.json.decode(params, type=_Approval)
            fields = msgspec.json.decode(params, type=dict[str, Any])
            shown = ("command", "cwd", "reason", "grantRoot")
            return ApprovalRequest(
                id=id,
                thread_id=approval.thread_id,
                item_id=approval.item_id,
                tool="shell" if method.startswith("item/command") else "apply_patch",
                arguments={name: fields[name] for name in shown if fields.get(name) is not None},
            )
        case "item/tool/requestUserInput":
            asked = msgspec.json.decode(params, type=_Questions)
            names = [each.id for each in asked.questions]
            if names != [f"{_CONFIRMATION}{asked.item_id}"]:
                return OtherRequest(id=id, method=method)
            return ServerToolRequest(
                id=id, thread_id=asked.thread_id, call_id=asked.item_id, question_id=names[0]
            )
        case _:
            return OtherRequest(id=id, method=method)


def _raw_item(params: Raw) -> CallAnnounced | CallAnswered | None:
    item = msgspec.json.decode(params, type=_RawItemParams)
    if item.item.call_id is None:
        return None
    if item.item.type in _CALL_ITEMS:
        arguments = item.item.arguments
        return CallAnnounced(
            thread_id=item.thread_id,
            call_id=item.item.call_id,
            name=item.item.name or item.item.type,
            is_readable=arguments is None or _is_json(arguments),
        )
    if item.item.type in _ANSWER_ITEMS:
        return CallAnswered(thread_id=item.thread_id, call_id=item.item.call_id)
    return None


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return False
    return True


def _text(params: Raw) -> TextAdded:
    delta = msgspec.json.decode(params, type=_Delta)
    return TextAdded(thread_id=delta.thread_id, kind="text", text=delta.delta)


def _reasoning(params: Raw) -> TextAdded:
    delta = msgspec.json.decode(params, type=_Delta)
    return TextAdded(thread_id=delta.thread_id, kind="reasoning", text=delta.delta)


def _output(params: Raw) -> NativeOutput:
    delta = msgspec.json.decode(params, type=_Delta)
    return NativeOutput(thread_id=delta.thread_id, call_id=delta.item_id, text=delta.delta)


def _response_completed(params: Raw) -> ResponseCompleted:
    completed = msgspec.json.decode(params, type=_ResponseParams)
    tokens = completed.usage
    if tokens is None:
        return ResponseCompleted(thread_id=completed.thread_id, usage=None)
    usage = Usage(
        requests=1,
        input_tokens=tokens.input_tokens,
        output_tokens=tokens.output_tokens,
        cache_read_tokens=tokens.cached_input_tokens,
        cache_write_tokens=tokens.cache_write_input_tokens,
        reasoning_tokens=tokens.reasoning_output_tokens,
    )
    return ResponseCompleted(thread_id=completed.thread_id, usage=usage)


def _item_started(params: Raw) -> NativeItem | None:
    return _native_item(params, has_ended=False)


def _item_completed(params: Raw) -> NativeItem | None:
    return _native_item(params, has_ended=True)


def _native_item(params: Raw, *, has_ended: bool) -> NativeItem | None:
    decoded = msgspec.json.decode(params, type=_ItemParams)
    kind, call_id = decoded.item.get("type"), decoded.item.get("id")
    if kind not in _NATIVE_ITEMS or not isinstance(call_id, str):
        return None
    status = decoded.item.get("status")
    return NativeItem(
        thread_id=decoded.thread_id,
        call_id=call_id,
        kind=kind,
        has_ended=has_ended,
        status=status if isinstance(status, str) else "",
        details=decoded.item,
    )


def _failure(failure: _Failure) -> TurnFailure:
    info, status = failure.codex_error_info, None
    if isinstance(info, Mapping):
        name, fields = next(iter(info.items()), ("", None))
        found: object = cast("Mapping[str, object]", fields).get("httpStatusCode") if fields else None
        info, status = name, found if isinstance(found, int) else None
    details = f" ({failure.additional_details})" if failure.additional_details else ""
    return TurnFailure(message=f"{failure.message}{details}", kind=info or "", http_status=status)


def _turn_started(params: Raw) -> TurnStarted:
    turn = msgspec.json.decode(params, type=_TurnParams)
    return TurnStarted(thread_id=turn.thread_id, turn_id=turn.turn.id)


def _turn_completed(params: Raw) -> TurnCompleted:
    turn = msgspec.json.decode(params, type=_TurnParams)
    return TurnCompleted(
        thread_id=turn.thread_id,
        turn_id=turn.turn.id,
        status=turn.turn.status,
        failure=None if turn.turn.error is None else _failure(turn.turn.error),
    )


def _error(params: Raw) -> Retry | None:
    error = msgspec.json.decode(params, type=_ErrorParams)
    return Retry(thread_id=error.thread_id, failure=_failure(error.error)) if error.will_retry else None


def _warning(params: Raw) -> Warned:
    warning = msgspec.json.decode(params, type=_WarningParams)
    return Warned(text=warning.message or warning.summary)


_NOTIFICATIONS = {
    "rawResponseItem/completed": _raw_item,
    "rawResponse/completed": _response_completed,
    "item/agentMessage/delta": _text,
    "item/reasoning/summaryTextDelta": _reasoning,
    "item/reasoning/textDelta": _reasoning,
    "item/started": _item_started,
    "item/completed": _item_completed,
    "item/commandExecution/outputDelta": _output,
    "turn/started": _turn_started,
    "turn/completed": _turn_completed,
    "error": _error,
    "warning": _warning,
    "configWarning": _warning,
}


def request(id: RequestId, method: str, params: Mapping[str, Any]) -> bytes:
    """The line of a request."""
    return msgspec.json.encode({"id": id, "method": method, "params": params})


def notification(method: str) -> bytes:
    """The line of a notification."""
    return msgspec.json.encode({"method": method})


def tool_response(id: RequestId, content: list[dict[str, str]], *, is_error: bool) -> bytes:
    """The line of the answer to a `ToolCallRequest`.

    Args:
        id: The id of the request.
        content: The content as the protocol has it, `inputText` and `inputImage`.
        is_error: Whether the call failed.
    """
    return msgspec.json.encode({"id": id, "result": {"contentItems": content, "success": not is_error}})


def decision_response(id: RequestId, *, is_allowed: bool) -> bytes:
    """The line of the answer to an `ApprovalRequest`."""
    return msgspec.json.encode({"id": id, "result": {"decision": "accept" if is_allowed else "decline"}})


def confirmation_response(id: RequestId, question_id: str, *, is_allowed: bool) -> bytes:
    """The line of the answer to a `ServerToolRequest`."""
    chosen = {"answers": ["Allow" if is_allowed else "Cancel"]}
    return msgspec.json.encode({"id": id, "result": {"answers": {question_id: chosen}}})


def refusal(id: RequestId, method: str) -> bytes:
    """The line that refuses a request of the server."""
    return msgspec.json.encode({"id": id, "error": {"code": -32601, "message": f"{method} is not supported"}})


def input_items(content: Iterable[UserContent]) -> list[dict[str, Any]]:
    """Messages of a user."""
    items: list[dict[str, Any]] = []
    for item in content:
        url = _image(item)
        if url is None:
            items.append({"type": "text", "text": _text_item(item), "text_elements": []})
        else:
            items.append({"type": "image", "url": url})
    return items


def result_items(content: Iterable[UserContent]) -> list[dict[str, str]]:
    """The result of a call."""
    items: list[dict[str, str]] = []
    for item in content:
        url = _image(item)
        if url is None:
            items.append({"type": "inputText", "text": _text_item(item)})
        else:
            items.append({"type": "inputImage", "imageUrl": url})
    return items


def text_of_content(content: Iterable[UserContent]) -> str:
    """The content as text."""
    return "\n".join(map(_text_item, content))


def _text_item(item: UserContent) -> str:
    return item if isinstance(item, str) else f"[{describe_media(item)}]"


def _image(item: UserContent) -> str | None:
    """The address of an image; None for what is none."""
    if isinstance(item, ImageUrl):
        return item.url
    if isinstance(item, BinaryContent) and item.media_type.startswith("image/"):
        return f"data:{item.media_type};base64,{b64encode(item.data).decode()}"
    return None
