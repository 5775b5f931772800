"""Tools that are visible in a scope: registered ones, and the tool sets of `tools=`."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias
from weakref import WeakSet

from msgspec import Struct

from ..errors import ToolRegistrationError
from .tool_function import PROVIDED_TOOL_NAMES, Tool

ToolSearch: TypeAlias = Literal["lexical", "native"]
"""The search for deferred tools: by the words of their texts here, or by the provider."""


class ToolSet:
    """Tools that are offered together; `nighthawk_async.tool_set` makes one of callables.

    Derive from it for tools that have to be fetched: override `prepare`, and assign `tools` there. The tools
    of a step are those at its beginning; later changes count for later steps.

    Args:
        tools: The tools, in the order in which the model sees them.
        deferred: Whether models get the tools only when they look for them.
        search: The search for deferred tools.
    """

    def __init__(
        self, tools: Iterable[Tool] = (), *, deferred: bool = False, search: ToolSearch = "lexical"
    ) -> None:
        self.tools: Sequence[Tool] = tuple(tools)
        self.deferred = deferred
        self.search: ToolSearch = search

    async def prepare(self) -> None:
        """Get the tools ready; awaited at the beginning of each step that sees the set."""

    @property
    def is_prepared_by_step(self) -> bool:
        """Whether the class overrides `prepare`."""
        return type(self).prepare is not ToolSet.prepare


ToolSource: TypeAlias = Callable[..., Any] | Tool | ToolSet
"""An item of `tools=`."""


class OfferedTools(Struct, frozen=True, kw_only=True):
    """The tools of one step.

    Args:
        listed: Those in its first request, by name.
        deferred: Those that its model has to look for, by name.
        search: The search for them; `native` if one of the sets demands it.
    """

    listed: Mapping[str, Tool]
    deferred: Mapping[str, Tool]
    search: ToolSearch = "lexical"


class ToolScope:
    """Tools visible in one scope: the program, a run, a `scope`, or one call of a natural function.

    Args:
        parent: The enclosing scope; None for the program, and for a scope that replaces all tools.
        sets: The tool sets of the scope.

    Raises:
        ToolRegistrationError: Two tools have the same name, or one has that of a provided tool.

    Attributes:
        sets: The tool sets of the scope.
    """

    __slots__ = ("_parent", "_tools", "sets")

    def __init__(self, parent: "ToolScope | None", sets: Sequence[ToolSet] = ()) -> None:
        self._parent = parent
        self._tools: dict[str, Tool] = {}
        self.sets = sets
        if sets:
            self._check_sets()

    @property
    def registered(self) -> Sequence[Tool]:
        """The tools that were registered in this scope itself."""
        return tuple(self._tools.values())

    def find(self, name: str) -> Tool | None:
        """The tool that was registered in this scope itself under a name; None for none."""
        return self._tools.get(name)

    def register(self, tool: Tool, *, overwrite: bool) -> None:
        """Add a tool to this scope.

        Raises:
            ToolRegistrationError: The name belongs to a provided tool, or is taken and `overwrite` is false.
        """
        _check_name(tool)
        if not overwrite and tool.name in self.visible():
            raise ToolRegistrationError(
                f"A tool named {tool.name!r} is visible here already; pass overwrite=True to replace it."
            )
        self._tools[tool.name] = tool

    def visible(self) -> Mapping[str, Tool]:
        """Every tool of this scope and of the enclosing ones, in order, deferred ones included."""
        return {name: tool for scope in self.chain() for name, tool in scope._own().items()}

    async def prepare(self) -> None:
        """Prepare the tool sets of this scope and of the enclosing ones for a step.

        Raises:
            ToolRegistrationError: A tool that was fetched has the name of another one.
        """
        are_new = False
        for scope in self.chain():
            for each in scope.sets:
                if each.is_prepared_by_step:
                    await each.prepare()
                    are_new = True
            if are_new:  # in an enclosing scope, or in this one
                scope._check_sets()

    def offered(self) -> OfferedTools:
        """The tools of a step that begins in this scope.

        A tool of the program whose types cannot be resolved, or have no JSON Schema, is left out, with a log
        record, because it would fail every step of the process.
        """
        chain = list(self.chain())
        visible = {name: tool for name, tool in self.visible().items() if not _is_unusable(tool)}
        if not any(scope.sets for scope in chain):
            return OfferedTools(listed=visible, deferred={})
        are_deferred: dict[str, bool] = {}
        for scope in chain:
            for each in scope.sets:
                for tool in each.tools:  # a tool that is offered in both ways is listed
                    are_deferred[tool.name] = each.deferred and are_deferred.get(tool.name, True)
            are_deferred |= dict.fromkeys(scope._tools, False)
        deferred = {name: tool for name, tool in visible.items() if are_deferred[name]}
        searches = {each.search for scope in chain for each in scope.sets if each.deferred and each.tools}
        return OfferedTools(
            listed={name: tool for name, tool in visible.items() if name not in deferred},
            deferred=deferred,
            search="native" if "native" in searches else "lexical",
        )

    def chain(self) -> Iterator["ToolScope"]:
        """The enclosing scopes, outermost first, and this one."""
        scopes: list[ToolScope] = []
        scope: ToolScope | None = self
        while scope is not None:
            scopes.append(scope)
            scope = scope._parent
        return reversed(scopes)

    def _own(self) -> Mapping[str, Tool]:
        if not self.sets:
            return self._tools
        return {tool.name: tool for each in self.sets for tool in each.tools} | self._tools

    def _check_sets(self) -> None:
        seen = dict({} if self._parent is None else self._parent.visible())
        for each in self.sets:
            for tool in each.tools:
                _check_name(tool)
                other = seen.setdefault(tool.name, tool)
                if not tool.is_same(other):
                    raise ToolRegistrationError(
                        f"Two tools are named {tool.name!r}: {other.origin} and {tool.origin}; give one of "
                        "them another name, as with nighthawk_async.tool_set(…, prefix=…)."
                    )


def _check_name(tool: Tool) -> None:
    if tool.name in PROVIDED_TOOL_NAMES:
        raise ToolRegistrationError(f"{tool.name!r} is the name of a provided tool; choose another name.")


def _is_unusable(tool: Tool) -> bool:
    """Whether a tool belongs to the program and no model can be offered it; said once."""
    if GLOBAL_TOOLS.find(tool.name) is not tool:
        return False
    problem = tool.fault
    if problem is not None and tool not in _reported:
        _reported.add(tool)
        _LOGGER.warning("%s; steps are run without the tool", problem)
    return problem is not None


GLOBAL_TOOLS = ToolScope(None)
"""Tools registered outside every run."""
_reported: WeakSet[Tool] = WeakSet()
_LOGGER = logging.getLogger("nighthawk")
