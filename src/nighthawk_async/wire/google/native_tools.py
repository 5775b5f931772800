"""Native tools in the Gemini API: their form in requests, and their calls in answers.

Beside functions, the endpoint is asked to include the calls of its own tools in the answer, and wants them
back. Code and its result are parts of their own. The searches that it bills are in the grounding metadata.

Source: `Tool`, `ToolConfig`, `GoogleSearch`, `FileSearch`, `Part`, `ToolCall`, `ToolResponse` and
`GroundingMetadata` in `types.py` of the official SDK, and "Combine built-in tools and function calling" of
the provider's documentation.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from ...types.model import ModelEvent
from ...types.native_tools import (
    CodeExecution,
    FileSearch,
    NativeCallFinished,
    NativeCallStarted,
    NativeTool,
    WebSearch,
)
from ...types.usage import Usage
from ..json_text import NOT_JSON, decode_json
from ..native_tools import refuse_options, shown_json
from .citations import GroundingMetadata

_PROTOCOL = "Gemini"


def encode_native_tool(tool: NativeTool) -> dict[str, Any]:
    """A native tool as an entry of `tools`.

    Args:
        tool: The tool.

    Raises:
        ConfigurationError: It has an option that the protocol lacks.
    """
    match tool:
        case WebSearch():
            options = ("max_uses", "allowed_domains", "blocked_domains", "user_location", "context_size")
            refuse_options(tool, *options, protocol=_PROTOCOL)
            return {"googleSearch": {}}
        case CodeExecution():
            refuse_options(tool, "container", protocol=_PROTOCOL)
            return {"codeExecution": {}}
        case FileSearch():
            refuse_options(tool, "max_uses", protocol=_PROTOCOL)
            search: dict[str, Any] = {"fileSearchStoreNames": list(tool.vector_store_ids)}
            return {"fileSearch": search if tool.max_results is None else search | {"topK": tool.max_results}}


class ServerCall(msgspec.Struct, rename="camel"):
    """A call of one of the provider's tools, or its response."""

    id: str | None = None
    tool_type: str | None = None
    args: msgspec.Raw = msgspec.Raw()
    response: msgspec.Raw = msgspec.Raw()


class ExecutableCode(msgspec.Struct, rename="camel"):
    """Code of the model that the provider runs."""

    id: str | None = None
    language: str | None = None
    code: str | None = None


class CodeResult(msgspec.Struct, rename="camel"):
    """The result of the code before it."""

    id: str | None = None
    outcome: str | None = None
    output: str | None = None


class NativePart(msgspec.Struct, rename="camel"):
    """The fields of a part that concern native tools."""

    tool_call: ServerCall | None = None
    tool_response: ServerCall | None = None
    executable_code: ExecutableCode | None = None
    code_execution_result: CodeResult | None = None


_decode_part = msgspec.json.Decoder(NativePart).decode
_FIELDS = (b"toolCall", b"toolResponse", b"executableCode", b"codeExecutionResult")
NAMES = {"GOOGLE_SEARCH_WEB": "web_search", "FILE_SEARCH": "file_search"}
"""The names of native tools by the provider's words."""

GOOD_OUTCOMES = frozenset({"OUTCOME_OK", "OUTCOME_UNSPECIFIED"})
"""The outcomes of code that did not fail."""


class NativeCalls:
    """The native calls of one response."""

    def __init__(self) -> None:
        self._arguments: dict[str, str] = {}
        self._code_id = ""
        self._searched: list[str] = []
        self._queries: set[str] = set()
        self.has_any = False
        """Whether the response holds a part that the provider wants back."""
        self._code_executions = self._file_searches = 0

    @property
    def uses(self) -> Usage:
        """The uses so far."""
        return Usage(
            web_searches=len(self._queries) or len(self._searched),
            code_executions=self._code_executions,
            file_searches=self._file_searches,
        )

    def ground(self, metadata: GroundingMetadata) -> None:
        """Take the sources of an answer, which list all searches so far.

        Args:
            metadata: The sources.
        """
        self._queries.update(metadata.web_search_queries or ())

    def take(self, raw: msgspec.Raw) -> list[ModelEvent]:
        """Take a part; other parts are ignored.

        Args:
            raw: The part as it came.

        Raises:
            msgspec.DecodeError: It does not match its type.
        """
        data = bytes(raw)
        if not any(name in data for name in _FIELDS):
            return []
        part = _decode_part(data)
        events: list[ModelEvent] = []
        if part.tool_call is not None:
            events.append(self._start(part.tool_call))
        if part.tool_response is not None:
            events.append(self._finish(part.tool_response))
        if part.executable_code is not None:
            events.append(self._start_code(part.executable_code))
        if part.code_execution_result is not None:
            events.append(self._finish_code(part.code_execution_result))
        self.has_any = self.has_any or bool(events)
        return events

    def _start(self, call: ServerCall) -> NativeCallStarted:
        name, id = _name_of(call), call.id or f"{_name_of(call)}_{len(self._arguments)}"
        self._arguments[id] = _text(call.args)
        if name == "web_search":
            self._searched.append(id)
        self._file_searches += name == "file_search"
        return NativeCallStarted(id=id, name=name, arguments=self._arguments[id])

    def _finish(self, response: ServerCall) -> NativeCallFinished:
        name = _name_of(response)
        id = response.id or next((each for each in self._arguments if each.startswith(f"{name}_")), name)
        return NativeCallFinished(
            id=id, name=name, arguments=self._arguments.get(id, ""), result=_text(response.response)
        )

    def _start_code(self, code: ExecutableCode) -> NativeCallStarted:
        self._code_executions += 1
        self._code_id = code.id or f"code_execution_{self._code_executions}"
        arguments = {"language": code.language, "code": code.code}
        given = {name: value for name, value in arguments.items() if value is not None}
        self._arguments[self._code_id] = shown_json(given)
        arguments = self._arguments[self._code_id]
        return NativeCallStarted(id=self._code_id, name="code_execution", arguments=arguments)

    def _finish_code(self, result: CodeResult) -> NativeCallFinished:
        id = result.id or self._code_id or "code_execution"
        shown = {"outcome": result.outcome, "output": result.output}
        return NativeCallFinished(
            id=id,
            name="code_execution",
            arguments=self._arguments.get(id, ""),
            result=shown_json({name: value for name, value in shown.items() if value is not None}),
            is_error=result.outcome is not None and result.outcome not in GOOD_OUTCOMES,
        )


def _name_of(call: ServerCall) -> str:
    kind = call.tool_type or "native_tool"
    return NAMES.get(kind, kind.lower())


def _text(raw: msgspec.Raw) -> str:
    return shown_json(decode_json(bytes(raw))) if bytes(raw) else ""


def calls_in(items: Iterable[Mapping[str, Any]]) -> list[ModelEvent]:
    """The native calls in the parts of a whole response, and their results; none in parts of another form.

    Args:
        items: The parts.
    """
    calls = NativeCalls()
    try:
        return [event for part in items for event in calls.take(msgspec.Raw(msgspec.json.encode(part)))]
    except NOT_JSON:  # a transcript that was edited
        return []
