"""The tools of the setting `extra_body`, which are added to those of a request in any protocol.

They would replace the library's tools otherwise, without which a step cannot end. Those that the provider
carries out by itself are recognized, because they consume tokens and money.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeGuard

from ..errors import ConfigurationError
from ..types.json import is_json_mapping, is_list_or_tuple

_DECLARATIONS = ("functionDeclarations", "function_declarations")
"""The protocol's names of the list in which a tool of the Gemini API holds functions."""
_TYPES_OF_MANY = frozenset({"custom", "function", "mcp", "namespace"})
"""The types of tools of which a request may hold several; names or labels distinguish them."""

_NATIVE_TYPES = {
    "web_search": "web_search",
    "google_search": "web_search",
    "code_execution": "code_execution",
    "code_interpreter": "code_execution",
    "file_search": "file_search",
}
"""The common names of native tools by the beginning of the providers' words for them."""
_OF_CLIENTS = ("bash_", "computer", "memory_", "text_editor_", "tool_search")
"""The beginnings of the types of tools that clients carry out, and of the search for tools, which is free."""
_CAPITAL = re.compile(r"(?<=[a-z])[A-Z]")


def with_more_tools(own: Sequence[Mapping[str, Any]], more: object) -> list[Mapping[str, Any]]:
    """The tools of a request with those of `extra_body` after them.

    Args:
        own: The tools of the request, in the form of the protocol.
        more: The `tools` of `extra_body`.

    Raises:
        ConfigurationError: They are no list of objects, or one of them has the name of another.
    """
    if not _are_tools(more):
        raise ConfigurationError(
            "Model setting 'extra_body': 'tools' is a list of objects in the form of the protocol, which are "
            f"added to the tools of the request; it is {_described(more)}."
        )
    known = {name for tool in own for name in _tool_names(tool)}
    for name in (name for tool in more for name in _tool_names(tool)):
        if name in known:
            raise ConfigurationError(
                f"Model setting 'extra_body' holds the tool {name!r}, which the request offers already; "
                "leave it out, or give it another name."
            )
        known.add(name)
    return _with_one_list_of_functions([*own, *more])


def added_native_tools(more: object) -> Iterator[tuple[str, int | None]]:
    """The tools of `extra_body` that the provider carries out by itself, with the most uses of one request.

    A tool has its common name, of `types.native_tools`, or else the provider's; None is no limit.

    Args:
        more: The `tools` of `extra_body`.
    """
    for tool in filter(_is_tool, more) if is_list_or_tuple(more) else ():
        for word in _native_words(tool):
            name = _CAPITAL.sub(lambda found: f"_{found[0].lower()}", word)
            common = (each for beginning, each in _NATIVE_TYPES.items() if name.startswith(beginning))
            limit: object = tool.get("max_uses")
            yield next(common, name), limit if isinstance(limit, int) and limit > 0 else None


def _native_words(tool: Mapping[str, Any]) -> list[str]:
    """The provider's words for the native tools in an object: its type, or its fields in the Gemini API."""
    kind: object = tool.get("type")
    if isinstance(kind, str):
        is_native = kind == "mcp" or not (kind in _TYPES_OF_MANY or kind.startswith(_OF_CLIENTS))
        return [kind] if is_native else []
    if "name" in tool or "function" in tool:
        return []
    return [word for word in tool if word not in _DECLARATIONS]


def _described(value: object) -> str:
    if not is_list_or_tuple(value):
        return "None" if value is None else type(value).__name__
    wrong = next(each for each in value if not _is_tool(each))
    return f"a list with {'an empty object' if wrong == {} else type(wrong).__name__}"


def _are_tools(value: object) -> TypeGuard[Sequence[Mapping[str, Any]]]:
    return is_list_or_tuple(value) and all(map(_is_tool, value))


def _is_tool(value: object) -> TypeGuard[Mapping[str, Any]]:
    return is_json_mapping(value) and bool(value)


def _tool_names(tool: Mapping[str, Any]) -> Iterator[str]:
    """The names that no other tool of a request may have: of functions, or the type of a native tool."""
    functions: list[object] = [tool, tool.get("function")]
    for name in _DECLARATIONS:
        if is_list_or_tuple(declared := tool.get(name)):
            functions += declared
    names = [each.get("name") for each in functions if is_json_mapping(each)]
    yield from (name for name in names if isinstance(name, str))
    kind: object = tool.get("type")
    if not any(names) and isinstance(kind, str) and kind not in _TYPES_OF_MANY:
        yield kind


def _with_one_list_of_functions(tools: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The tools of the Gemini API with all functions in one of them; some models refuse several lists."""
    declared = [
        each
        for tool in tools
        for name in _DECLARATIONS
        if is_list_or_tuple(functions := tool.get(name))
        for each in functions
    ]
    if not declared:
        return tools
    joined: list[Mapping[str, Any]] = []
    has_list = False
    for tool in tools:
        others = {name: value for name, value in tool.items() if name not in _DECLARATIONS}
        if len(others) < len(tool) and not has_list:
            others, has_list = {**others, _DECLARATIONS[0]: declared}, True
        if others:
            joined.append(others)
    return joined
