"""Tool sets of callables, tools whose schema comes from elsewhere, and `@nh.tool` (specification 8.3)."""

import hashlib
import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar, cast, overload

from ..errors import ToolRegistrationError
from ..signatures import keep_names
from ..types.messages import ToolCall
from .context import StepContext
from .environment import current_tool_scope
from .tool_calls import parsed_arguments
from .tools import (
    MAX_TOOL_NAME_CHARACTERS,
    TOOL_NAME,
    Tool,
    ToolSearch,
    ToolSet,
    ToolSource,
    make_tool_function,
)

_DIGEST_CHARACTERS = 8
_FOREIGN_CHARACTER = re.compile(r"[^A-Za-z0-9_]", re.ASCII)


def valid_tool_name(name: str) -> str:
    """Return a name that every provider takes, made from one that comes from elsewhere.

    Other characters than ASCII letters and digits become underscores. A name of more than 64 characters is
    cut off, and ends with a digest of the whole.
    """
    valid = _FOREIGN_CHARACTER.sub("_", name)
    if not valid or valid[0].isdigit():
        valid = f"_{valid}"
    if len(valid) <= MAX_TOOL_NAME_CHARACTERS:
        return valid
    digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:_DIGEST_CHARACTERS]
    return f"{valid[: MAX_TOOL_NAME_CHARACTERS - _DIGEST_CHARACTERS - 1]}_{digest}"


@dataclass(kw_only=True, eq=False)
class ForeignTool(Tool):
    """A tool with a JSON Schema of its own, such as one of a server. Its owner validates the arguments.

    Its calls are like those of other tools: permissions, approvals, hooks, budgets and the journal apply. In
    a durable run, a call is begun at most once; decorate the function with `nighthawk_async.repeatable` if
    it may be repeated.

    Args:
        name: Its name where it comes from. The model uses a name that providers take: other characters than
            ASCII letters and digits become underscores.
        description: The description that the model reads.
        function: The function, async or not. It gets the arguments in one mapping, and raises
            `ToolBoundaryError` for arguments that do not fit.
        metadata: Anything the host attached.
        parameters: The JSON Schema of the arguments, an object schema.
        source: The server or library that it comes from, for errors; empty for none.
        definition_digest: Returns the definition that the tool has by now, with its digest, as plain data;
            people see it, and approvals are bound to it. None where definitions do not change.

    Raises:
        ToolRegistrationError: The schema is not that of an object.
    """

    parameters: Mapping[str, Any]
    source: str = ""
    definition_digest: Callable[[], object] | None = None

    def __post_init__(self) -> None:
        self.own_name = self.name
        self.name = valid_tool_name(self.name)
        kind: object = cast("Mapping[str, object]", self.parameters).get("type")
        if kind != "object":
            raise ToolRegistrationError(
                f"Tool {self.own_name!r}: its JSON Schema must be one of type 'object', not {kind!r}."
            )

    @property
    def origin(self) -> str:
        """The name where it comes from, and the source."""
        return f"{self.own_name!r} of {self.source}" if self.source else repr(self.own_name)

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """The names of the properties."""
        return tuple(self._properties)

    @property
    def defaults(self) -> dict[str, object]:
        """The defaults in the schema; the owner of the tool fills them in."""
        return {
            name: cast("Mapping[str, object]", schema)["default"]
            for name, schema in self._properties.items()
            if isinstance(schema, Mapping) and "default" in schema
        }

    @property
    def _properties(self) -> Mapping[str, object]:
        return self.parameters.get("properties", {})

    def json_schema(self) -> dict[str, Any]:
        """Return the given JSON Schema."""
        return dict(self.parameters)

    def validated(self, arguments: str) -> dict[str, object]:
        """Return the arguments; only their JSON is checked.

        Raises:
            ToolBoundaryError: They are not a JSON object.
        """
        return parsed_arguments(ToolCall(id="", name=self.name, arguments=arguments))

    def bind(self, arguments: str, *, context: StepContext, tool_call_id: str) -> Callable[[], object]:
        """Return a function that makes the call; see `Tool.bind`."""
        return partial(self.function, self.validated(arguments))

    def with_prefix(self, prefix: str) -> "ForeignTool":
        """Return the tool under its name with a prefix."""
        renamed = replace(self, name=f"{prefix}{self.own_name}")
        renamed.own_name = self.own_name
        return renamed


def tool_set(
    tools: Iterable[Callable[..., Any] | Tool],
    *,
    prefix: str = "",
    deferred: bool = False,
    search: ToolSearch = "lexical",
) -> ToolSet:
    """Make a tool set, for `tools=` of `run`, `scope`, `step` and `natural_function`.

        github = nh.tool_set([list_issues, close_issue, …], prefix="github_", deferred=True)
        with nh.scope(tools=[github]): ...

    Args:
        tools: The tools: callables as `nighthawk_async.tool` takes them, and tools made by
            `nighthawk_async.runtime.make_tool_function` or `nighthawk_async.runtime.ForeignTool`.
        prefix: The beginning of their names.
        deferred: Whether models get the tools only when they look for them: the first request offers one tool
            for all, `nh_find_tools(query)`, and the found ones are appended to the tools of later requests of
            the step.
        search: The search for deferred tools: `lexical` compares words of names, descriptions and parameters;
            `native` demands the search of the model's provider, and where there is none, a step raises
            `ConfigurationError`; a function takes the query and a sequence of
            `nighthawk_async.runtime.DeferredTool`, and returns the names of those that match, best first. It
            may be async. A name of no such tool ends the step with a
            `nighthawk_async.errors.ToolSearchError`.

    Raises:
        ToolRegistrationError: A tool or the prefix has a name that cannot be offered, the search is unknown,
            or the tools to be searched are not deferred.
    """
    check_set_arguments(prefix, deferred=deferred, search=search)
    made = [_with_prefix(_made(each), prefix) for each in tools]
    return ToolSet(made, deferred=deferred, search=search)


def check_set_arguments(prefix: str, *, deferred: bool, search: ToolSearch) -> None:
    """Check the arguments of a tool set; see `tool_set`.

    Raises:
        ToolRegistrationError: The prefix cannot begin a name, the search is unknown, or the tools to be
            searched are not deferred.
    """
    if prefix and not TOOL_NAME.fullmatch(prefix):
        raise ToolRegistrationError(
            f"prefix must be ASCII and match ^[A-Za-z_][A-Za-z0-9_]*$, not {prefix!r}."
        )
    if search not in ("lexical", "native") and not callable(search):
        raise ToolRegistrationError(
            f"search must be 'lexical', 'native', or a function of the query and the tools, not {search!r}."
        )
    if search != "lexical" and not deferred:
        raise ToolRegistrationError(f"search={search!r} is for deferred tools; pass deferred=True.")


def sets_of(tools: Sequence[ToolSource]) -> tuple[ToolSet, ...]:
    """Return the argument `tools=` as tool sets.

    Raises:
        ToolRegistrationError: It is no sequence of tools.
    """
    if isinstance(cast("object", tools), str | Mapping | ToolSet) or not isinstance(
        cast("object", tools), Iterable
    ):
        hint = " Put it into a list: tools=[…]." if isinstance(tools, ToolSet) or callable(tools) else ""
        raise ToolRegistrationError(
            f"tools must be a sequence of callables, tools and tool sets, not {tools!r}.{hint}"
        )
    return tuple(each if isinstance(each, ToolSet) else ToolSet([_made(each)]) for each in tools)


def _made(tool: Callable[..., Any] | Tool) -> Tool:
    if isinstance(tool, Tool):
        return tool
    if not callable(tool):
        hint = " Did you mean its tools()?" if callable(getattr(tool, "tools", None)) else ""  # a server's
        raise ToolRegistrationError(
            f"{tool!r} is no tool: neither a callable, nor a tool, nor a tool set.{hint}"
        )
    keep_names(tool, inspect.currentframe())
    return make_tool_function(tool)


def _with_prefix(tool: Tool, prefix: str) -> Tool:
    if not prefix:
        return tool
    return (
        tool.with_prefix(prefix) if isinstance(tool, ForeignTool) else replace(tool, name=prefix + tool.name)
    )


Function = TypeVar("Function", bound=Callable[..., object])


@overload
def tool(function: Function, /) -> Function: ...


@overload
def tool(
    *,
    name: str | None = None,
    overwrite: bool = False,
    description: str | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Callable[[Function], Function]: ...


def tool(
    function: Function | None = None,
    /,
    *,
    name: str | None = None,
    overwrite: bool = False,
    description: str | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Function | Callable[[Function], Function]:
    """Register a callable as a tool, offered to models through their tool-calling interface.

    The tool is registered in the innermost scope: the call of a natural function, the scope, the run, else
    the program; it disappears with that. A first parameter annotated `RunContext[StepContext]` (or without
    annotation and named `run_context`) receives the context and is not shown to the model. The callable
    itself is returned.

    Args:
        function: The callable, when the decorator is used without parentheses.
        name: The tool's name; None for the function's name.
        overwrite: Whether to replace a visible tool of the same name.
        description: The text that the model reads; None for the function's docstring.
        metadata: Data to attach to the tool's definition.

    Raises:
        ToolRegistrationError: The name or the signature cannot be offered, or the name is taken.
    """

    def register(target: Function) -> Function:
        keep_names(target, inspect.currentframe())
        made = make_tool_function(target, name=name, description=description, metadata=metadata)
        current_tool_scope().register(made, overwrite=overwrite)
        return target

    return register if function is None else register(function)
