"""Results of servers, screened before the package `mcp` reads them: one bad entry is one bad entry.

The package refuses a whole message for one part that it cannot read. Here a bad entry of a list, and any
other bad part that is not needed, is left out, with a line in the log. A part of the content of a result that
cannot be read becomes a text that says so.
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

import anyio.lowlevel
from mcp_types import methods
from mcp_types.version import LATEST_HANDSHAKE_VERSION, MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from ..pickling import PicklableError
from ..prompt.plain_text import single_line
from ..types.json import is_json_list, is_json_object
from .description import ServerDescription
from .schemas import BadSchemaError, check_json, checked_schema

_LOGGER = logging.getLogger("nighthawk.mcp")
_LISTS: Mapping[str, tuple[str, str, str]] = {
    "tools": ("tools/list", "tool", "name"),
    "resources": ("resources/list", "resource", "uri"),
    "resourceTemplates": ("resources/templates/list", "resource template", "uriTemplate"),
    "prompts": ("prompts/list", "prompt", "name"),
}
"""The lists in results: the method, the word for an entry, and the key of its name."""
_STRUCTURED = "structuredContent"
_DECORATIONS = ("annotations", "_meta", "icons")
MAX_ENTRIES = 5_000
"""The most entries of a list that are used, over all of its pages."""
_MAX_PARTS = 10_000
_MAX_NAME_CHARACTERS = 100
_MAX_REASON_CHARACTERS = 500
_MAX_LINES = 100  # of the log, for the bad entries of one list


class RefusedResultError(PicklableError, ValueError):
    """A result is not used at all."""


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

        The package does not get that schema, so that it does not check results: `results.check_result` does.
        """
        return self._tools[tool]

    def begin_list_of_tools(self) -> None:
        """Forget the tools that were listed: their names may be listed again."""
        self._tools = {}

    async def screened(self, result: dict[str, Any]) -> dict[str, Any]:
        """Return a result as the package can read it.

        Args:
            result: The result, as the server sent it.

        Raises:
            RefusedResultError: It has too many parts.
        """
        if "protocolVersion" in result or "supportedVersions" in result:
            return self._screened_greeting(result)
        for key in _LISTS:
            if isinstance(result.get(key), list):
                result = await self._screened_list(result, key)
        for key in ("content", "messages", "contents"):
            parts: object = result.get(key)
            if is_json_list(parts) and len(parts) > _MAX_PARTS:
                raise RefusedResultError(
                    f"its result has {len(parts):,} parts; at most {_MAX_PARTS:,} are used"
                )
        if isinstance(result.get("content"), list) or "structuredContent" in result:
            return await self._screened_content(result)
        if isinstance(result.get("messages"), list) and self._faults("prompts/get", result):
            return {**result, "messages": [self._message(each) for each in result["messages"]]}
        return result

    def _screened_greeting(self, result: dict[str, Any]) -> dict[str, Any]:
        """Return the first result of a server, with defaults in place of bad descriptions of itself."""
        method = "initialize" if "protocolVersion" in result else "server/discover"
        needed = ("protocolVersion", "supportedVersions", "serverInfo", "capabilities")
        used = self._without_bad_parts(method, result, needed=needed)
        if not (faults := self._faults(method, used)):
            return used
        default: dict[str, Any] = {"name": self._server.name, "version": "unknown"}
        bare: dict[str, Any] = {**used, "serverInfo": default, "capabilities": {}}
        if self._faults(method, bare):  # the package raises, and says what is bad
            return used
        self._log("its description of itself is used in parts", "; ".join(map(_text_of, faults)))
        if not self._faults(method, {**bare, "serverInfo": used.get("serverInfo")}):
            bare["serverInfo"] = used.get("serverInfo")
        given: object = used.get("capabilities")
        offered: Mapping[str, object] = given if is_json_object(given) else {"tools": {}}
        capabilities: dict[str, Any] = {}
        for name in ("tools", "resources", "prompts", "logging", "completions"):
            if name in offered:
                is_bad = self._faults(method, {**bare, "capabilities": {name: offered[name]}})
                capabilities[name] = {} if is_bad else offered[name]
        return {**bare, "capabilities": capabilities}

    def _without_bad_parts(
        self, method: str, result: dict[str, Any], *, needed: Collection[str]
    ) -> dict[str, Any]:
        """Return a result without the parts that cannot be read, except those that are needed."""
        used = result
        faults = self._faults(method, used)
        tried = set[object](needed)
        while found := [
            (each, fault) for fault in faults for each in fault["loc"] if each in used.keys() - tried
        ]:
            name, fault = found[0]
            tried.add(name)
            others = {each: value for each, value in used.items() if each != name}
            left = self._faults(method, others)
            if all(name not in each["loc"] for each in left):
                self._log(f"{name!r} of a result is not used", _text_of(fault))
                used, faults = others, left
        return used

    async def _screened_list(self, result: dict[str, Any], key: str) -> dict[str, Any]:
        method, word, name_key = _LISTS[key]
        entries: list[Any] = result[key]
        if len(entries) > MAX_ENTRIES:
            self._log(f"only {MAX_ENTRIES:,} entries of a list are used", f"it has {len(entries):,}")
            entries = entries[:MAX_ENTRIES]
        result = self._without_bad_parts(method, {**result, key: []}, needed=[key])
        if self._faults(method, result):
            return {**result, key: entries}  # the package raises, and says what is bad
        kept: list[Any] = []
        names = set[str]()
        bad = 0
        for entry in entries:
            await anyio.lowlevel.cancel_shielded_checkpoint()  # there may be thousands
            name: object = entry.get(name_key) if is_json_object(entry) else None
            if key == "tools" and isinstance(name, str) and not self._server.options.offers(name):
                continue
            try:
                used = self._used_entry(entry, result, key)
                if key == "tools":
                    used = self._noted(cast("str", name), used, names)
            except BadSchemaError as fault:
                bad += 1
                if bad <= _MAX_LINES:
                    self._log(f"{word} {_shown(name)} is left out", fault)
            else:
                kept.append(used)
        if bad > _MAX_LINES:
            self._log(f"{bad - _MAX_LINES:,} more are left out", f"of {len(entries):,} in one list")
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
        if not is_json_object(entry):
            raise BadSchemaError("it is no object")
        used = entry
        check_json(used)
        if key == "tools":
            used = self._used_tool(used, result)
        if faults := self._faults(_LISTS[key][0], {**result, key: [used]}):
            raise BadSchemaError(_text_of(faults[0]))
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
            if not (faults := self._faults("tools/list", {**result, "tools": [whole]})):
                return whole
            if not self._faults("tools/list", {**result, "tools": [used]}):
                raise BadSchemaError(_text_of(faults[0]))
        except BadSchemaError as fault:
            self._log(f"the outputSchema of tool {_shown(tool['name'])} is not used", fault)
        return used

    async def _screened_content(self, result: dict[str, Any]) -> dict[str, Any]:
        if self._is_readable("tools/call", result):
            return result
        kept = {name: each for name, each in result.items() if each is not None or name == _STRUCTURED}
        given: Any = kept.get("content", [])
        if not is_json_list(given):
            return result  # the package raises, and says so
        content: list[Any] = []
        bad = 0
        for each in given:
            await anyio.lowlevel.cancel_shielded_checkpoint()  # there may be thousands
            content.append(self._part(each))
            bad += content[-1] is not each
        if bad:
            self._log("the content of a result", f"{bad:,} of {len(content):,} parts cannot be read")
        kept["content"] = content
        used = self._without_bad_parts("tools/call", kept, needed=("content", _STRUCTURED, "isError"))
        if _STRUCTURED in used and (faults := self._faults("tools/call", used)):
            others = {name: each for name, each in used.items() if name != _STRUCTURED}
            if content and not self._faults("tools/call", others):
                self._log("structuredContent of a result is not used", _text_of(faults[0]))
                return others
        return used

    def _part(self, part: Any) -> Any:
        """Return a part of a result, or a text in its place."""
        if self._is_part(part):
            return part
        if is_json_object(part):
            bare = {name: each for name, each in part.items() if name not in _DECORATIONS}
            if self._is_part(bare):
                return bare
        kind: object = part.get("type") if is_json_object(part) else None
        text = f"[a part of the kind {_shown(kind)}, which cannot be read]"
        return {"type": "text", "text": text}

    def _is_part(self, part: object) -> bool:
        result = {"content": [part], "resultType": "complete"}
        return self._is_readable("tools/call", result)

    def _message(self, message: Any) -> Any:
        given = message if is_json_object(message) else {}
        return {**given, "content": self._part(given["content"])} if "content" in given else message

    def _is_readable(self, method: str, result: dict[str, Any]) -> bool:
        try:
            self._parse(method, result)
        except (ValueError, RecursionError):
            return False
        return True

    def _faults(self, method: str, result: dict[str, Any]) -> Sequence[Mapping[str, Any]]:
        """Return the reasons why the package could not read a result."""
        try:
            self._parse(method, result)
        except ValidationError as error:
            return error.errors(include_url=False, include_input=False)
        except (ValueError, RecursionError) as error:  # it is nested too deeply
            return [{"loc": (), "msg": str(error)}]
        return []

    def _parse(self, method: str, result: dict[str, Any]) -> None:
        default = MODERN_PROTOCOL_VERSIONS[-1] if method == "server/discover" else LATEST_HANDSHAKE_VERSION
        with suppress(KeyError):  # a method that this version does not have
            methods.parse_server_result(method, self._version() or default, result)

    def _log(self, text: str, reason: object) -> None:
        _LOGGER.warning(
            "%s: %s: %s", self._server.name, text, single_line(str(reason), _MAX_REASON_CHARACTERS)
        )


def _text_of(fault: Mapping[str, Any]) -> str:
    path = [str(each) for each in fault["loc"] if not isinstance(each, int)]
    return ": ".join(filter(None, (".".join(path[1:] or path), fault["msg"])))


def _shown(name: object) -> str:
    return single_line(repr(name) if isinstance(name, str) else "without a name", _MAX_NAME_CHARACTERS)
