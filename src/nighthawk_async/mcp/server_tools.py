"""The tools of a server as a tool set: the model calls them itself."""

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from ..kernel.tool_sets import ForeignTool, check_set_arguments, valid_tool_name
from ..kernel.tools import PROVIDED_TOOL_NAMES, Tool, ToolSearch, ToolSet
from .description import ServerDescription
from .sessions import find_session, session_in_run
from .tool_facts import ToolFacts

_LOGGER = logging.getLogger("nighthawk.mcp")
_PARAMETER = re.compile(r"[A-Za-z0-9_.-]{1,64}", re.ASCII)
"""The names of parameters that every provider takes."""
_LOCAL_ONLY = (
    "its session with a server of the Model Context Protocol belongs to this process. Enter a run with the "
    "server in the function that the worker runs."
)


@dataclass(kw_only=True, eq=False)
class ServerTool(ForeignTool):
    """A tool of a server. It calls the session of the run that it is called in.

    Args:
        name: See `ForeignTool`.
        description: See `ForeignTool`.
        function: See `ForeignTool`.
        metadata: See `ForeignTool`.
        parameters: See `ForeignTool`.
        source: See `ForeignTool`.
        definition_digest: See `ForeignTool`.
        server: The server.
    """

    server: ServerDescription

    local_only_reason: ClassVar[str] = _LOCAL_ONLY

    def is_same(self, other: Tool) -> bool:
        """Whether another one is the same tool of the same server."""
        return (
            isinstance(other, ServerTool) and other.server is self.server and other.own_name == self.own_name
        )


class ServerTools(ToolSet):
    """The tools of a server; see `Server.tools`.

    Args:
        server: The server.
        prefix: The beginning of their names.
        deferred: Whether models have to look for them.
        search: The search for deferred tools.

    Raises:
        ToolRegistrationError: The prefix cannot begin a name, or the search is unknown.
    """

    local_only_reason = _LOCAL_ONLY

    def __init__(self, server: ServerDescription, *, prefix: str, deferred: bool, search: ToolSearch) -> None:
        check_set_arguments(prefix, deferred=deferred, search=search)
        super().__init__(deferred=deferred, search=search)
        self._server = server
        self._prefix = prefix
        self._digests: list[str] = []

    async def prepare(self) -> None:
        """Take the tools that the server has by now; connects to it if the run has not."""
        session = await session_in_run(self._server)
        await session.refresh()
        digests = [tool.digest for tool in session.tools.values()]
        if digests != self._digests:
            made = [self._tool(each) for each in session.tools.values()]
            self.tools = [each for each in made if each.name not in PROVIDED_TOOL_NAMES]
            for each in made:
                if each.name in PROVIDED_TOOL_NAMES:
                    text = "%s: tool %r is left out: it has the name of a provided tool; set prefix="
                    _LOGGER.warning(text, self._server.name, each.name)
            self._digests = digests

    def _tool(self, facts: ToolFacts) -> Tool:
        from .invocations import as_effect  # here, because journals are not loaded before the package mcp is

        own_names = _own_names(facts)

        async def call(arguments: dict[str, object]) -> object:
            session = await session_in_run(self._server)
            given = {own_names.get(name, name): value for name, value in arguments.items()}
            return await session.call_tool(facts, given)

        tool = ServerTool(
            name=facts.name,
            description=facts.description,
            function=as_effect(self._server.name, facts, call),
            parameters=_parameters(facts, own_names),
            source=f"server {self._server.name!r}",
            definition_digest=partial(self._definition_now, facts.name),
            server=self._server,
        )
        return tool.with_prefix(self._prefix) if self._prefix else tool

    def _definition_now(self, tool: str) -> object:
        """The definition of a tool in the run of the caller; None if there is no session."""
        session = find_session(self._server)
        return None if session is None else session.shown_to_people(tool)


def _own_names(facts: ToolFacts) -> Mapping[str, str]:
    """The names of parameters that some provider refuses, by those that models use in their place."""
    own_names: dict[str, str] = {}
    for own_name in facts.properties:
        if _PARAMETER.fullmatch(own_name) is None:
            name = valid_tool_name(own_name)
            while name in own_names or name in facts.properties:
                name += "_"
            own_names[name] = own_name
    return own_names


def _parameters(facts: ToolFacts, own_names: Mapping[str, str]) -> dict[str, Any]:
    """The JSON Schema of the arguments, with the names that models use."""
    schema: dict[str, Any] = {name: each for name, each in facts.input_schema.items() if name != "$schema"}
    if own_names:
        names = {own_name: name for name, own_name in own_names.items()}
        schema["properties"] = {names.get(own, own): each for own, each in facts.properties.items()}
        schema["required"] = [names.get(own, own) for own in facts.required]
    return schema
