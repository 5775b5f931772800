"""Results of servers, screened before the package `mcp` reads them: one bad entry is one bad entry.

The package refuses a whole message for one part that it cannot read. Here a bad entry of a list is left out,
with a line in the log, and a part of a result of no known kind becomes a text that says so.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any, cast

import anyio.lowlevel
from mcp_types import methods
from mcp_types.version import LATEST_HANDSHAKE_VERSION
from pydantic import ValidationError

from ..prompt.plain_text import single_line
from .description import ServerDescription
from .schema_faults import BadSchemaError, check_json, checked_schema

_LOGGER = logging.getLogger("nighthawk.mcp")
_LISTS: Mapping[str, tuple[str, str, str]] = {
    "tools": ("tools/list", "tool", "name"),
    "resources": ("resources/list", "resource", "uri"),
    "resourceTemplates": ("resources/templates/list", "resource template", "uriTemplate"),
    "prompts": ("prompts/list", "prompt", "name"),
}
"""The lists in results: the method, the word for an entry, and the key of its name."""
_DECORATIONS = ("annotations", "_meta", "icons")
_MAX_NAME_CHARACTERS = 100
_MAX_REASON_CHARACTERS = 500


class Screen:
    """Screens the results of one connection.

    Args:
        server: The server.
        version: Returns the version of the protocol; None until it is known.
    """

    def __init__(self, server: ServerDescription, version: Callable[[], str | None]) -> None:
        self._server = server
        self._version = version
        self._tools: dict[str, dict[str, Any]] = {}

    def definition_of(self, tool: str) -> dict[str, Any]:
        """The definition of a tool that was listed, with the schema of its results.

        The package does not get that schema, so that it does not check results: `result_check` does.
        """
        return self._tools[tool]

    def begin_list_of_tools(self) -> None:
        """Forget the tools that were listed: their names may be listed again."""
        self._tools = {}

    async def screened(self, result: dict[str, Any]) -> dict[str, Any]:
        """Return a result as the package can read it.

        Args:
            result: The result, as the server sent it.
        """
        for key in _LISTS:
            if isinstance(result.get(key), list):
                return await self._screened_list(result, key)
        if isinstance(result.get("content"), list):
            return self._screened_content(result)
        if isinstance(result.get("messages"), list) and self._fault("prompts/get", result) is not None:
            return {**result, "messages": [self._message(each) for each in result["messages"]]}
        return result

    async def _screened_list(self, result: dict[str, Any], key: str) -> dict[str, Any]:
        method, word, name_key = _LISTS[key]
        if self._fault(method, {**result, key: []}) is not None:
            return result  # more than an entry is bad: the package raises, and says what
        kept: list[Any] = []
        names = set[str]()
        for entry in cast("list[Any]", result[key]):
            await anyio.lowlevel.cancel_shielded_checkpoint()  # there may be thousands
            name: object = cast("dict[str, object]", entry).get(name_key) if isinstance(entry, dict) else None
            if key == "tools" and isinstance(name, str) and not self._server.options.offers(name):
                continue
            try:
                used = self._used_entry(entry, result, key)
                if key == "tools":
                    used = self._noted(cast("str", name), used, names)
            except BadSchemaError as fault:
                self._log(f"{word} {_shown(name)} is left out", fault)
            else:
                kept.append(used)
        return {**result, key: kept}

    def _noted(self, name: str, tool: dict[str, Any], names: set[str]) -> dict[str, Any]:
        """Note the definition of a tool, and return the part of it that the package gets.

        Raises:
            BadSchemaError: Another tool of the list has the same name; the first one has it.
        """
        if name in names or self._tools.get(name, tool) != tool:
            raise BadSchemaError("a tool of the same name was listed before it")
        names.add(name)
        self._tools[name] = tool
        return {key: each for key, each in tool.items() if key != "outputSchema"}

    def _used_entry(self, entry: Any, result: dict[str, Any], key: str) -> dict[str, Any]:
        """Return an entry as it is used.

        Raises:
            BadSchemaError: It cannot be used.
        """
        if not isinstance(entry, dict):
            raise BadSchemaError("it is no object")
        used = cast("dict[str, Any]", entry)
        check_json(used)
        if key == "tools":
            used = self._used_tool(used, result)
        if (fault := self._fault(_LISTS[key][0], {**result, key: [used]})) is not None:
            raise BadSchemaError(fault)
        return used

    def _used_tool(self, tool: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
        """Return a tool with its schemas as they are used; without that of its results if this is none.

        Raises:
            BadSchemaError: It cannot be used.
        """
        if not tool.get("name"):
            raise BadSchemaError("it has no name")
        if "inputSchema" not in tool:
            raise BadSchemaError("it has no inputSchema")
        try:
            used = {**tool, "inputSchema": checked_schema(tool["inputSchema"])}
        except BadSchemaError as fault:
            raise BadSchemaError(f"its inputSchema cannot be used: {fault}") from None
        output = used.pop("outputSchema", None)
        if output is None:
            return used
        try:
            whole = {**used, "outputSchema": checked_schema(output, is_object=False)}
            if (fault := self._fault("tools/list", {**result, "tools": [whole]})) is None:
                return whole
            if self._fault("tools/list", {**result, "tools": [used]}) is None:
                raise BadSchemaError(fault)
        except BadSchemaError as fault:
            self._log(f"the outputSchema of tool {_shown(tool['name'])} is not used", fault)
        return used

    def _screened_content(self, result: dict[str, Any]) -> dict[str, Any]:
        if self._fault("tools/call", result) is None:
            return result
        used = {**result, "content": [self._part(each) for each in result["content"]]}
        if "structuredContent" in used and self._fault("tools/call", used) is not None:
            others = {name: each for name, each in used.items() if name != "structuredContent"}
            if used["content"] and self._fault("tools/call", others) is None:
                self._log("structuredContent of a result is not used", self._fault("tools/call", used))
                return others
        return used

    def _part(self, part: Any) -> Any:
        """Return a part of a result, or a text in its place."""
        if self._is_part(part):
            return part
        if isinstance(part, dict):
            given = cast("dict[str, Any]", part)
            bare = {name: each for name, each in given.items() if name not in _DECORATIONS}
            if self._is_part(bare):
                return bare
        kind: object = cast("dict[str, Any]", part).get("type") if isinstance(part, dict) else None
        text = f"[a part of the kind {_shown(kind)}, which cannot be read]"
        self._log("a part of a result is replaced", text)
        return {"type": "text", "text": text}

    def _is_part(self, part: object) -> bool:
        result = {"content": [part], "resultType": "complete"}
        return self._fault("tools/call", result) is None

    def _message(self, message: Any) -> Any:
        given = cast("dict[str, Any]", message) if isinstance(message, dict) else {}
        return (
            {**given, "content": self._part(given["content"])} if "content" in given else cast("Any", message)
        )

    def _fault(self, method: str, result: dict[str, Any]) -> str | None:
        """Return the reason why the package could not read a result; None if it can."""
        try:
            methods.parse_server_result(method, self._version() or LATEST_HANDSHAKE_VERSION, result)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            path = [str(each) for each in first["loc"] if not isinstance(each, int)]
            return f"{'.'.join(path[1:] or path)}: {first['msg']}"
        except KeyError:  # a method that this version does not have
            return None
        return None

    def _log(self, text: str, reason: object) -> None:
        _LOGGER.warning(
            "%s: %s: %s", self._server.name, text, single_line(str(reason), _MAX_REASON_CHARACTERS)
        )


def _shown(name: object) -> str:
    return single_line(repr(name) if isinstance(name, str) else "without a name", _MAX_NAME_CHARACTERS)
