"""The protocol of Claude Code over its standard input and output, as pure data. No I/O.

One JSON object per line. It streams the events of its model's responses, and sends requests: to call a tool
of the step (as a server of MCP inside the stream), and before and after the tools of its own (as hooks).
"""

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any, TypeAlias, cast

import msgspec
from msgspec import Struct

from ..errors import ModelProtocolError
from ..types.json import is_json_list, is_json_object
from ..types.messages import (
    BinaryContent,
    ImageUrl,
    MultimodalContent,
    ToolCall,
    ToolDefinition,
    ToolResult,
    UserContent,
)
from ..types.model import ModelEvent, ResponseFinished, ToolCallCompleted, ToolCallStarted, UsageReported
from ..types.usage import Usage
from ..wire.anthropic.events import CacheCreation
from ..wire.anthropic.response import AnthropicResponseDecoder
from ..wire.json_text import NOT_JSON
from ..wire.media import WEB_SCHEMES, describe_media, has_scheme
from ..wire.sse import ServerSentEvent

SERVER = "nighthawk"
"""The name of the server of tools that Claude Code sees in its input and output."""

TOOL_NAMES_NOTE = (
    f"In this session the names of the tools above have the prefix `mcp__{SERVER}__`: the block ends when "
    f"you call `mcp__{SERVER}__nh_outcome`."
)
"""The end of the system prompt."""

_HOOK_SECONDS = 1_000_000
"""The time that a hook may take: people are asked in hooks, and may answer days later."""

_HOOKS = ("PreToolUse", "PostToolUse", "PostToolUseFailure", "PostToolBatch")
_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_PDF = "application/pdf"

encode = msgspec.json.encode


def initialize_line(system_prompt: str, *, replaces: bool) -> bytes:
    """The first line: the system prompt, and the hooks that Claude Code calls.

    Args:
        system_prompt: The system prompt.
        replaces: Whether it replaces the one of Claude Code; otherwise it is appended to it.
    """
    hooks = {
        name: [{"matcher": None, "hookCallbackIds": [name], "timeout": _HOOK_SECONDS}] for name in _HOOKS
    }
    prompt = {"systemPrompt" if replaces else "appendSystemPrompt": system_prompt}
    return _request("initialize", {"subtype": "initialize", "hooks": hooks, **prompt})


def interrupt_line() -> bytes:
    """The line that ends what Claude Code does."""
    return _request("interrupt", {"subtype": "interrupt"})


def tools_changed_line(number: int) -> bytes:
    """The line that makes Claude Code ask for the tools again.

    It ignores the notification of MCP for this, but asks all servers when there is a new one, which has none.
    It goes on meanwhile: see `tools_known_line`.

    Args:
        number: The number of times that this was asked for; names the new server.
    """
    servers = {name: {"type": "sdk", "name": name} for name in (SERVER, f"{SERVER}_{number}")}
    return _request(f"tools_{number}", {"subtype": "mcp_set_servers", "servers": servers})


def tools_known_line() -> bytes:
    """The line that asks for the tools that Claude Code knows by now."""
    return _request("tools_known", {"subtype": "mcp_status"})


def user_line(content: Sequence[UserContent]) -> bytes:
    """The line with a message of the user.

    Args:
        content: The message.
    """
    message = {"role": "user", "content": content_blocks(content)}
    return encode({"type": "user", "message": message, "parent_tool_use_id": None, "session_id": "default"})


def hook_line(request_id: str, output: dict[str, Any] | None = None) -> bytes:
    """The answer to a hook; without output, Claude Code goes on.

    Args:
        request_id: The id of the request.
        output: The output of the hook.
    """
    return _response(request_id, output or {})


def mcp_line(request_id: str, message_id: object, result: dict[str, Any]) -> bytes:
    """The answer to a message of MCP.

    Args:
        request_id: The id of the request.
        message_id: The id of the message.
        result: The result.
    """
    return _response(
        request_id, {"mcp_response": {"jsonrpc": "2.0", "id": message_id or 0, "result": result}}
    )


def tool_result_line(request_id: str, message_id: object, result: ToolResult) -> bytes:
    """The answer to the call of a tool of the step.

    Args:
        request_id: The id of the request.
        message_id: The id of the message.
        result: The result.
    """
    content = [_tool_block(item) for item in result.content]
    return mcp_line(request_id, message_id, {"content": content, "isError": result.is_error})


def admitted_hook_line(request_id: str, arguments: object | None) -> bytes:
    """The answer to `PreToolUse` for a call that is allowed; the permission mode still applies.

    Args:
        request_id: The id of the request.
        arguments: Its arguments, where they were changed; None otherwise.
    """
    if arguments is None:
        return hook_line(request_id)
    output = {"hookEventName": "PreToolUse", "updatedInput": arguments}
    return hook_line(request_id, {"hookSpecificOutput": output})


def refused_hook_line(request_id: str, reason: str) -> bytes:
    """The answer to `PreToolUse` for a call that is refused.

    Args:
        request_id: The id of the request.
        reason: The reason, for the model.
    """
    output = {
        "hookEventName": "PreToolUse",
        "permissionDecision": "deny",
        "permissionDecisionReason": reason,
    }
    return hook_line(request_id, {"hookSpecificOutput": output})


def rewritten_hook_line(request_id: str, output: object) -> bytes:
    """The answer to `PostToolUse` that replaces the result of the call.

    Args:
        request_id: The id of the request.
        output: The result, in the form that the tool has.
    """
    specific = {"hookEventName": "PostToolUse", "updatedToolOutput": output}
    return hook_line(request_id, {"hookSpecificOutput": specific})


def permission_line(request_id: str, *, arguments: object, refusal: str | None) -> bytes:
    """The answer to a call that Claude Code asks about.

    Args:
        request_id: The id of the request.
        arguments: Its arguments.
        refusal: The reason why it is refused; None if it is allowed.
    """
    if refusal is not None:
        return _response(request_id, {"behavior": "deny", "message": refusal})
    return _response(request_id, {"behavior": "allow", "updatedInput": arguments})


def unknown_request_line(request_id: str) -> bytes:
    """The answer to a request that is not understood."""
    response = {"subtype": "error", "request_id": request_id, "error": "unsupported request"}
    return encode({"type": "control_response", "response": response})


def tool_description(tool: ToolDefinition) -> dict[str, Any]:
    """A tool as a server of MCP lists it.

    Claude Code makes the calls of one response one after the other, each when the one before has ended, but
    for read-only tools. The step keeps the order of calls by itself.

    Args:
        tool: The tool.
    """
    return {
        "name": tool.name,
        "description": tool.description,
        "inputSchema": {**tool.parameters},
        "annotations": {"readOnlyHint": True},
    }


def content_blocks(content: Sequence[UserContent]) -> list[dict[str, Any]]:
    """A message as blocks. Images and PDFs are sent as they are, other media by their descriptions.

    Args:
        content: The message.
    """
    return [_block(item) for item in content]


def is_sent_in_prompt(item: MultimodalContent) -> bool:
    """Whether a message can hold a medium as it is.

    Args:
        item: The medium.
    """
    if isinstance(item, BinaryContent):
        return item.media_type in _IMAGES or item.media_type == _PDF
    return isinstance(item, ImageUrl) and has_scheme(item, WEB_SCHEMES)


def is_sent_in_result(item: MultimodalContent) -> bool:
    """Whether the result of a tool can hold a medium as it is.

    Args:
        item: The medium.
    """
    return isinstance(item, BinaryContent) and item.media_type in _IMAGES


def _block(item: UserContent) -> dict[str, Any]:
    if isinstance(item, str):
        return {"type": "text", "text": item}
    if not is_sent_in_prompt(item):
        return {"type": "text", "text": f"[{describe_media(item)}]"}
    if isinstance(item, BinaryContent):
        kind = "image" if item.media_type in _IMAGES else "document"
        data = base64.b64encode(item.data).decode()
        return {"type": kind, "source": {"type": "base64", "media_type": item.media_type, "data": data}}
    assert isinstance(item, ImageUrl)
    return {"type": "image", "source": {"type": "url", "url": item.url}}


def _tool_block(item: UserContent) -> dict[str, Any]:
    if isinstance(item, BinaryContent) and item.media_type in _IMAGES:
        data = base64.b64encode(item.data).decode()
        return {"type": "image", "data": data, "mimeType": item.media_type}
    return {"type": "text", "text": item if isinstance(item, str) else f"[{describe_media(item)}]"}


def _request(request_id: str, request: dict[str, Any]) -> bytes:
    return encode({"type": "control_request", "request_id": request_id, "request": request})


def _response(request_id: str, response: dict[str, Any]) -> bytes:
    wrapped = {"subtype": "success", "request_id": request_id, "response": response}
    return encode({"type": "control_response", "response": wrapped})


_PREFIX = f"mcp__{SERVER}__"
_EXCERPT = 300

NATIVE = "ClaudeCode."
"""The beginning of the names of native tools, as the step knows them."""


class Answer(Struct, frozen=True):
    """A line to write at once."""

    line: bytes


class ToolsKnown(Struct, frozen=True):
    """The names of the step's tools that Claude Code knows; None if it does not say."""

    names: frozenset[str] | None


class ResponseBegan(Struct, frozen=True):
    """A response begins."""


class ResponsePart(Struct, frozen=True):
    """A part of the response. Native tools have names of the form `ClaudeCode.Bash`."""

    event: ModelEvent


class ResponseEnded(Struct, frozen=True):
    """The response is complete, with its usage and the name of its model."""

    usage: Usage
    model: str


class ToolRequested(Struct, frozen=True):
    """Call a tool of the step, and answer with `tool_result_line`."""

    request_id: str
    message_id: Any
    call: ToolCall


class NativeRequested(Struct, frozen=True):
    """Decide about a native call, and answer with `allow_line` or `deny_line`."""

    request_id: str
    call: ToolCall


class PermissionAsked(Struct, frozen=True):
    """Decide about a native call that Claude Code would ask a person about; after `NativeRequested`."""

    request_id: str
    call: ToolCall


class NativeFinished(Struct, frozen=True):
    """A native call was carried out; answer with `hook_line`."""

    request_id: str
    call_id: str
    name: str
    output: Any
    is_error: bool


class ResultSeen(Struct, frozen=True):
    """The result of a call, as the model gets it."""

    call_id: str
    text: str
    is_error: bool


class BatchFinished(Struct, frozen=True):
    """All calls of a response have results; the model is asked again after the answer, `hook_line`."""

    request_id: str
    is_of_helper: bool


class HelperResponded(Struct, frozen=True):
    """The model has answered an agent that the agent has started. Its output is only counted at the end."""

    message_id: str
    usage: Usage
    model: str


class RequestRefused(Struct, frozen=True):
    """A request to the model failed with an HTTP status, and is to be sent again."""

    status: int | None
    error: str


class Finished(Struct, frozen=True):
    """Claude Code has stopped, and waits for another message of the user.

    Args:
        kind: `success`, or the kind of its failure.
        is_error: Whether it gave up.
        text: Its last words, or the failure.
        status: The HTTP status of a failed request, when it is known.
        usages: The usage of everything so far, by model, with its cost.
    """

    kind: str
    is_error: bool
    text: str
    status: int | None
    usages: Mapping[str, Usage]


Effect: TypeAlias = (
    Answer
    | ResponseBegan
    | ResponsePart
    | ResponseEnded
    | ToolsKnown
    | ToolRequested
    | NativeRequested
    | PermissionAsked
    | NativeFinished
    | ResultSeen
    | BatchFinished
    | HelperResponded
    | RequestRefused
    | Finished
)


class _Line(Struct):
    """A line; the other fields are read according to its type."""

    type: str
    event: msgspec.Raw = msgspec.Raw()
    parent_tool_use_id: str | None = None


class _ModelUsage(Struct, rename="camel"):
    """The usage of one model so far."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_input_tokens: int = 0
    cache_creation_input_tokens: int = 0
    cost_usd: float = msgspec.field(name="costUSD", default=0.0)


class _MessageUsage(Struct):
    """The usage of one response."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_input_tokens: int = 0
    cache_creation_input_tokens: int = 0
    cache_creation: CacheCreation = msgspec.field(default_factory=CacheCreation)

    def usage(self) -> Usage:
        read, written = self.cache_read_input_tokens, self.cache_creation_input_tokens
        return Usage(
            requests=1,
            input_tokens=self.input_tokens + read + written,
            output_tokens=self.output_tokens,
            cache_read_tokens=read,
            cache_write_tokens=written,
            cache_write_1h_tokens=self.cache_creation.ephemeral_1h_input_tokens or 0,
        ).credible()


class ClaudeCodeProtocol:
    """Decodes the lines of one process.

    Attributes:
        tools: The tools of the step that it is offered from now on.
    """

    def __init__(self) -> None:
        self.tools: Sequence[ToolDefinition] = ()
        self._decoder: AnthropicResponseDecoder | None = None
        self._usage = Usage(requests=1, is_complete=False)
        self._helped: set[str] = set()
        self._kinds: Mapping[str, Callable[[dict[str, Any]], list[Effect]]] = {
            "assistant": self._assistant,
            "control_request": self._control_request,
            "control_response": self._control_response,
            "result": self._result,
            "system": self._system,
            "user": self._user,
        }

    def receive(self, line: bytes) -> list[Effect]:
        """Take a line, and return what it asks for. Lines of unknown types ask for nothing.

        Args:
            line: The line.

        Raises:
            ModelProtocolError: It is no message.
        """
        if not line.strip():
            return []
        try:
            head = msgspec.json.decode(line, type=_Line)
            if head.type == "stream_event":
                return [] if head.parent_tool_use_id else self._stream_event(bytes(head.event))
            if head.type == "assistant" and not head.parent_tool_use_id:  # it was streamed
                return []
            take = self._kinds.get(head.type)
            return [] if take is None else take(msgspec.json.decode(line))
        except (*NOT_JSON, *_MALFORMED) as error:
            raise ModelProtocolError(f"it wrote a line that is no message: {_excerpt(line)}") from error

    def _stream_event(self, event: bytes) -> list[Effect]:
        kind = msgspec.json.decode(event, type=_Line).type
        effects: list[Effect] = []
        if kind == "message_start":
            self._decoder = AnthropicResponseDecoder()
            self._usage = Usage(requests=1, is_complete=False)
            effects.append(ResponseBegan())
        decoder = self._decoder
        if decoder is None:
            return []
        for part in decoder.feed(ServerSentEvent(data=event)):
            match part:
                case UsageReported():
                    self._usage = part.usage
                    effects.append(ResponsePart(part))
                case ResponseFinished():
                    self._decoder = None
                    effects.append(ResponsePart(replace(part, provider_content=None)))
                    effects.append(ResponseEnded(self._usage, part.model_name or ""))
                case _:
                    effects.append(ResponsePart(_renamed(part)))
        return effects

    def _control_request(self, line: dict[str, Any]) -> list[Effect]:
        request_id, request = _text(line, "request_id"), _mapping(line["request"])
        match request.get("subtype"):
            case "mcp_message":
                is_own = request.get("server_name") == SERVER
                return self._mcp_message(request_id, _mapping(request["message"]), is_own=is_own)
            case "hook_callback":
                return self._hook(request_id, _mapping(request["input"]))
            case "can_use_tool":
                name, call_id = _text(request, "tool_name"), _text(request, "tool_use_id")
                return [PermissionAsked(request_id, _native_call(call_id, name, request.get("input")))]
            case _:
                return [Answer(unknown_request_line(request_id))]

    def _control_response(self, line: dict[str, Any]) -> list[Effect]:
        response = _mapping(line["response"])
        if response.get("request_id") != "tools_known":
            return []
        if response.get("subtype") != "success":
            return [ToolsKnown(None)]
        servers: list[object] = _mapping(response["response"])["mcpServers"]
        own = [each for each in map(_mapping, servers) if each.get("name") == SERVER]
        tools = [_mapping(tool) for each in own for tool in cast("list[object]", each.get("tools") or [])]
        return [ToolsKnown(frozenset(_text(tool, "name") for tool in tools))]

    def _mcp_message(self, request_id: str, message: dict[str, Any], *, is_own: bool) -> list[Effect]:
        message_id, parameters = message.get("id"), _mapping(message.get("params") or {})
        match message.get("method"):
            case "initialize":
                result: dict[str, Any] = {
                    "protocolVersion": parameters.get("protocolVersion", "2025-06-18"),
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": SERVER, "version": "1"},
                }
            case "tools/list":
                result = {"tools": [tool_description(tool) for tool in self.tools] if is_own else []}
            case "tools/call":
                meta = _mapping(parameters.get("_meta") or {})
                call = ToolCall(
                    id=str(meta.get("claudecode/toolUseId") or message_id),
                    name=_text(parameters, "name"),
                    arguments=encode(parameters.get("arguments") or {}).decode(),
                )
                return [ToolRequested(request_id, message_id, call)]
            case _:
                result = {}
        return [Answer(mcp_line(request_id, message_id, result))]

    def _hook(self, request_id: str, given: dict[str, Any]) -> list[Effect]:
        event, name = given.get("hook_event_name"), str(given.get("tool_name", ""))
        if event == "PostToolBatch":
            return [BatchFinished(request_id, is_of_helper="agent_id" in given)]
        if event not in ("PreToolUse", "PostToolUse", "PostToolUseFailure") or name.startswith(_PREFIX):
            return [Answer(hook_line(request_id))]
        call_id = _text(given, "tool_use_id")
        if event == "PreToolUse":
            return [NativeRequested(request_id, _native_call(call_id, name, given.get("tool_input")))]
        is_error = event == "PostToolUseFailure"
        output = given.get("error") if is_error else given.get("tool_response")
        return [NativeFinished(request_id, call_id, name, output, is_error)]

    def _assistant(self, line: dict[str, Any]) -> list[Effect]:
        message = _mapping(line["message"])
        message_id, model = _text(message, "id"), plain_model_name(_text(message, "model"))
        if message_id in self._helped:  # one line per block
            return []
        self._helped.add(message_id)
        counted = msgspec.convert(message.get("usage") or {}, _MessageUsage)
        return [HelperResponded(message_id, counted.usage(), model)]

    def _system(self, line: dict[str, Any]) -> list[Effect]:
        if line.get("subtype") != "api_retry":
            return []
        status, error = line.get("error_status"), str(line.get("error", ""))
        return [RequestRefused(status if isinstance(status, int) else None, error)]

    def _user(self, line: dict[str, Any]) -> list[Effect]:
        content = _mapping(line["message"]).get("content")
        if not is_json_list(content):
            return []
        blocks = [_mapping(each) for each in content if not isinstance(each, str)]
        return [
            ResultSeen(
                str(each.get("tool_use_id", "")), shown_text(each.get("content")), bool(each.get("is_error"))
            )
            for each in blocks
            if each.get("type") == "tool_result"
        ]

    def _result(self, line: dict[str, Any]) -> list[Effect]:
        status = line.get("api_error_status")
        errors = line.get("errors")
        text = line.get("result") or ("; ".join(map(str, errors)) if errors else "")
        return [
            Finished(
                kind=str(line.get("subtype", "")),
                is_error=bool(line.get("is_error")) or line.get("subtype") != "success",
                text=str(text)[:_EXCERPT],
                status=status if isinstance(status, int) else None,
                usages=_usages(_mapping(line.get("modelUsage") or {})),
            )
        ]


_MALFORMED = (KeyError, TypeError, ValueError, AttributeError)


def _usages(given: dict[str, Any]) -> Mapping[str, Usage]:
    usages: dict[str, Usage] = {}
    for model, each in given.items():
        counted = msgspec.convert(each, _ModelUsage)
        read, written = counted.cache_read_input_tokens, counted.cache_creation_input_tokens
        usage = Usage(
            input_tokens=counted.input_tokens + read + written,
            output_tokens=counted.output_tokens,
            cache_read_tokens=read,
            cache_write_tokens=written,
            cost=Decimal(str(counted.cost_usd)),
        )
        name = plain_model_name(model)
        usages[name] = usages.get(name, Usage()) + usage.credible()
    return usages


def plain_model_name(name: str) -> str:
    """The name of a model without the marks that Claude Code adds, as in `claude-opus-4-8[1m]`.

    Args:
        name: The name.
    """
    return name.partition("[")[0]


def _renamed(event: ModelEvent) -> ModelEvent:
    """The event with the names of tools as the step knows them."""
    match event:
        case ToolCallStarted():
            return replace(event, name=_own_name(event.name))
        case ToolCallCompleted():
            return replace(event, call=replace(event.call, name=_own_name(event.call.name)))
        case _:
            return event


def _own_name(name: str) -> str:
    return name.removeprefix(_PREFIX) if name.startswith(_PREFIX) else f"{NATIVE}{name}"


def _native_call(call_id: str, name: str, arguments: object) -> ToolCall:
    return ToolCall(id=call_id, name=_own_name(name), arguments=encode(arguments or {}).decode())


def _mapping(value: object) -> dict[str, Any]:
    if not is_json_object(value):
        raise TypeError("an object was expected")
    return value


def _text(holder: dict[str, Any], name: str) -> str:
    value = holder[name]
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string")
    return value


def _excerpt(line: bytes) -> str:
    text = line.decode(errors="replace").strip()
    return repr(text if len(text) <= _EXCERPT else f"{text[:_EXCERPT]}…")


def shown_text(content: object) -> str:
    """The text of a tool result: itself, or that of its blocks; other blocks by their kind.

    Args:
        content: The content, as Claude Code writes it.
    """
    if isinstance(content, str):
        return content
    if not is_json_list(content):
        return "" if content is None else encode(content).decode()
    texts: list[str] = []
    for block in content:
        item = block if is_json_object(block) else {"text": str(block)}
        texts.append(str(item["text"]) if "text" in item else f"[{item.get('type', 'content')}]")
    return "\n".join(texts)


_TEXT_FIELDS = ("content", "result", "output")
"""The fields of which one holds the text, in the results of most tools."""


def native_content(output: object) -> tuple[UserContent, ...]:
    """Return the result of a native tool as content: its text where that is known, else its JSON.

    Args:
        output: The result, as Claude Code gives it to hooks.
    """
    return (_text_of(output),)


def rewritten_output(output: object, content: tuple[UserContent, ...]) -> object | None:
    """Return the result of a native tool with another text; None if the tool has no place for it.

    Args:
        output: The result, as Claude Code gave it to hooks.
        content: The content that replaces it.
    """
    text = "\n".join(item if isinstance(item, str) else f"[{describe_media(item)}]" for item in content)
    if isinstance(output, str):
        return text
    if not is_json_object(output):
        return None
    if isinstance(output.get("stdout"), str):
        return {**output, "stdout": text, "stderr": ""}
    file: object = output.get("file")
    if is_json_object(file) and isinstance(file.get("content"), str):
        lines = text.count("\n") + 1
        counts = {"numLines": lines, "startLine": 1, "totalLines": lines}
        return {**output, "file": {**file, "content": text, **counts}}
    field = next((name for name in _TEXT_FIELDS if isinstance(output.get(name), str)), None)
    return None if field is None else {**output, field: text}


def _text_of(output: object) -> str:
    if isinstance(output, str):
        return output
    if is_json_object(output):
        if isinstance(output.get("stdout"), str):
            return "\n".join(filter(None, (output["stdout"], str(output.get("stderr") or ""))))
        file: object = output.get("file")
        if is_json_object(file) and isinstance(file.get("content"), str):
            return file["content"]
        for name in _TEXT_FIELDS:
            if isinstance(output.get(name), str):
                return output[name]
    return "" if output is None else encode(output).decode()
