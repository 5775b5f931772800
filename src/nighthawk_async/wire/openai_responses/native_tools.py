"""Native tools in Responses: their form in requests, and their calls in answers.

A call is one output item, with its arguments and, where the request includes it, its result. Items go back
unchanged.

Source: `web_search_tool_param.py`, `tool_param.py`, `file_search_tool_param.py`, `response_includable.py`,
`response_function_web_search.py`, `response_code_interpreter_tool_call.py` and
`response_file_search_tool_call.py` of the official SDK.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

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
from ..json_text import as_object
from ..native_tools import location_fields, refuse_options, shown_json

_PROTOCOL = "OpenAI Responses"

_RESULTS = {
    "web_search": "web_search_call.action.sources",
    "code_execution": "code_interpreter_call.outputs",
    "file_search": "file_search_call.results",
}
"""The names by which a request includes results, by the tool."""


def encode_native_tool(tool: NativeTool) -> dict[str, Any]:
    """A native tool as an entry of `tools`.

    Args:
        tool: The tool.

    Raises:
        ConfigurationError: It has an option that the protocol lacks.
    """
    match tool:
        case WebSearch():
            return _encode_web_search(tool)
        case CodeExecution():
            return {"type": "code_interpreter", "container": tool.container or {"type": "auto"}}
        case FileSearch():
            encoded: dict[str, Any] = {
                "type": "file_search",
                "vector_store_ids": list(tool.vector_store_ids),
            }
            return encoded if tool.max_results is None else encoded | {"max_num_results": tool.max_results}


def _encode_web_search(tool: WebSearch) -> dict[str, Any]:
    refuse_options(tool, "blocked_domains", protocol=_PROTOCOL)
    encoded: dict[str, Any] = {"type": "web_search"}
    if tool.allowed_domains:
        encoded["filters"] = {"allowed_domains": list(tool.allowed_domains)}
    if tool.user_location is not None:
        encoded["user_location"] = {"type": "approximate", **location_fields(tool.user_location)}
    if tool.context_size is not None:
        encoded["search_context_size"] = tool.context_size
    return encoded


def included_results(tools: Sequence[NativeTool]) -> list[str]:
    """The names of the results that a request includes.

    Args:
        tools: The native tools.
    """
    return [_RESULTS[tool.name] for tool in tools]


def encode_limit(tools: Sequence[NativeTool], given: object) -> dict[str, int]:
    """The limit of native calls of a response; none without `max_uses`.

    The protocol counts the calls of all native tools together, so the lowest number limits them all: no tool
    is then used more often than it may be.

    Args:
        tools: The native tools.
        given: The setting `max_tool_calls`.
    """
    limits = [each.max_uses for each in tools if not isinstance(each, CodeExecution) and each.max_uses]
    if not limits:
        return {}
    return {"max_tool_calls": min(*limits, given) if isinstance(given, int) else min(limits)}


NATIVE_ITEMS: Mapping[str, str] = {
    "web_search_call": "web_search",
    "code_interpreter_call": "code_execution",
    "file_search_call": "file_search",
    "image_generation_call": "image_generation",
    "mcp_call": "mcp",
}
"""The names of native tools by the type of the items that hold their calls."""

ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    "web_search_call": ("action",),
    "code_interpreter_call": ("code", "container_id"),
    "file_search_call": ("queries",),
    "mcp_call": ("server_label", "name", "arguments"),
}
"""The fields of an item that are arguments, by its type."""

OUTPUTS: Mapping[str, tuple[str, ...]] = {
    "web_search_call": ("results",),
    "code_interpreter_call": ("outputs",),
    "file_search_call": ("results",),
    "mcp_call": ("output", "error"),
}
"""The fields of an item that may hold the result, by its type."""

FAILED = frozenset({"failed", "incomplete"})
"""The statuses of calls that failed."""


def started(type: str | None, id: str | None) -> NativeCallStarted:
    """The beginning of a native call.

    Args:
        type: The type of its item.
        id: The id of its item.
    """
    kind = type or ""
    return NativeCallStarted(id=id or kind, name=NATIVE_ITEMS[kind])


def finished(item: Mapping[str, Any]) -> NativeCallFinished:
    """The end of a native call.

    Args:
        item: Its item, as the provider sent it when it was done.
    """
    type = str(item.get("type"))
    arguments = {name: item[name] for name in ARGUMENTS.get(type, ()) if item.get(name) is not None}
    results = [item[name] for name in OUTPUTS.get(type, ()) if item.get(name) is not None]
    action = dict(as_object(arguments.pop("action", None)))
    results += [sources] if (sources := action.pop("sources", None)) else []
    arguments |= action
    return NativeCallFinished(
        id=str(item.get("id") or type),
        name=NATIVE_ITEMS[type],
        arguments=shown_json(arguments or None),
        result=shown_json(results[0] if results else None),
        is_error=item.get("status") in FAILED or bool(item.get("error")),
    )


def calls_in(items: Iterable[Mapping[str, Any]]) -> list[ModelEvent]:
    """The native calls in the items of a whole response, and their results.

    Args:
        items: The items.
    """
    return [finished(item) for item in items if item.get("type") in NATIVE_ITEMS]


def count_uses(items: Sequence[Mapping[str, Any]], billed_searches: int | None) -> Usage:
    """The uses of native tools in a response.

    Args:
        items: The items of its native calls.
        billed_searches: The searches that the provider bills; None when it does not say.
    """
    types = [str(item.get("type")) for item in items]
    searches = [item for item in items if item.get("type") == "web_search_call" and _is_search(item)]
    return Usage(
        web_searches=len(searches) if billed_searches is None else billed_searches,
        code_executions=types.count("code_interpreter_call"),
        file_searches=types.count("file_search_call"),
    )


def _is_search(item: Mapping[str, Any]) -> bool:
    """Whether a call searches the web; the others open a page, or look for words in it."""
    return as_object(item.get("action")).get("type", "search") == "search"
