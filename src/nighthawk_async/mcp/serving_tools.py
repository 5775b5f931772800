"""Functions as tools of a server: their names, descriptions and JSON Schemas, and calling them."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, cast

from msgspec import Struct

from ..errors import NaturalParseError, ToolRegistrationError
from ..kernel.commands import await_value, is_awaitable
from ..kernel.declared_types import is_natural
from ..kernel.tools import MAX_TOOL_NAME_CHARACTERS, ToolFunction, make_tool_function
from ..natural.program import SENTINEL, as_prose, program_body
from ..prompt.callables import describe_callable
from ..threads import call_in_thread
from ..types.messages import BinaryContent, FileUrl, UploadedFile
from .json_data import characters
from .serving_results import ObjectForm, strict_schema

_MAX_DESCRIPTION_CHARACTERS = 2_000
"""The length of a description that is made of a natural block."""


@dataclass(frozen=True, slots=True)
class Served:
    """A function to serve, with facts about it for clients.

        nh.mcp.serve([Served(find_owner, read_only=True), triage], run=…)

    The hints are for clients that decide about approvals and parallel calls. None leaves a hint out; then
    clients must expect the worst: a function that changes things, and not only once.

    Args:
        function: The function.
        name: The name of the tool; None for the name of the function.
        title: The name for people; None for none.
        description: The text that models read; None for the docstring of the function.
        read_only: Whether it changes nothing. Claude Code calls only such tools in parallel.
        destructive: Whether it may delete or overwrite something.
        idempotent: Whether calling it again with the same arguments changes nothing further.
        open_world: Whether it reaches beyond the service, for example the web.
    """

    function: Callable[..., Any]
    _: KW_ONLY
    name: str | None = None
    title: str | None = None
    description: str | None = None
    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None

    @property
    def annotations(self) -> dict[str, bool]:
        """The hints, under the names of the protocol."""
        hints = {
            "readOnlyHint": self.read_only,
            "destructiveHint": self.destructive,
            "idempotentHint": self.idempotent,
            "openWorldHint": self.open_world,
        }
        return {name: value for name, value in hints.items() if value is not None}


class ServedTool(Struct, frozen=True, kw_only=True, eq=False):
    """A tool of a server.

    Args:
        tool: The function, its JSON Schema, and the validation of its arguments.
        definition: The tool as the protocol describes it, in JSON.
        object_form: The form of its results; None unless these are JSON objects.
        is_async: Whether calling it returns at once, with an awaitable.
    """

    tool: ToolFunction
    definition: dict[str, Any]
    object_form: ObjectForm | None
    is_async: bool

    async def call(self, arguments: str) -> object:
        """Validate arguments, and call the function with them; `def` functions run in a worker thread.

        Args:
            arguments: The arguments, a JSON object.

        Raises:
            ToolBoundaryError: They do not match the signature. The function was not called.
            Exception: Any error of the function.
        """
        call = self.tool.call_with(self.tool.validated(arguments))
        result = call() if self.is_async else await call_in_thread(_without_exit, call)
        try:
            return await await_value(result) if is_awaitable(result) else result
        except SystemExit as end:
            raise _refused_exit(end) from end


def _without_exit(call: Callable[[], object]) -> object:
    try:
        return call()
    except SystemExit as end:
        raise _refused_exit(end) from end


def _refused_exit(end: SystemExit) -> RuntimeError:
    """The error of a function that ends the process: it must not end the server."""
    return RuntimeError(f"the function wanted to end the process, with {end.code!r}")


def made_tools(functions: Sequence[Callable[..., Any] | Served]) -> dict[str, ServedTool]:
    """Make the tools of a server, by name.

    Args:
        functions: The functions, and those with facts about them.

    Raises:
        ToolRegistrationError: A function cannot be served, two have the same name, or there are none.
    """
    if isinstance(functions, str) or not isinstance(cast("object", functions), Sequence):
        raise ToolRegistrationError(f"Functions to serve are given as a list, not {functions!r}.")
    tools: dict[str, ServedTool] = {}
    for each in functions:
        made = _made(each if isinstance(each, Served) else Served(each))
        name = made.tool.name
        if name in tools:
            raise ToolRegistrationError(
                f"{tools[name].tool.origin} and {made.tool.origin} are both named {name!r}; "
                "choose another name for one: Served(function, name=…)."
            )
        tools[name] = made
    if not tools:
        raise ToolRegistrationError("There is no function to serve.")
    return tools


def _made(served: Served) -> ServedTool:
    function = served.function
    if not callable(cast("object", function)):
        raise ToolRegistrationError(f"{function!r} is no function to serve.")
    tool = make_tool_function(
        function,
        name=served.name,
        description=served.description if served.description is not None else _block_of(function),
    )
    if len(tool.name) > MAX_TOOL_NAME_CHARACTERS:
        raise ToolRegistrationError(
            f"Tool {tool.name!r}: a name has at most {MAX_TOOL_NAME_CHARACTERS} characters; choose another "
            "one: Served(function, name=…)."
        )
    asynchrony = describe_callable(function).asynchrony
    if asynchrony == "async generator" or inspect.isgeneratorfunction(function):
        raise ToolRegistrationError(
            f"{tool.origin} is a generator, and a tool has one result: serve a function that returns a list."
        )
    if tool.takes_run_context:
        raise ToolRegistrationError(
            f"{tool.origin} takes a RunContext, which only a step has; a served function has none."
        )
    object_form = _object_form(tool)
    return ServedTool(
        tool=tool,
        definition=_definition(served, tool, object_form),
        object_form=object_form,
        is_async=bool(asynchrony),
    )


def _definition(served: Served, tool: ToolFunction, object_form: ObjectForm | None) -> dict[str, Any]:
    optional: dict[str, Any] = {
        "title": characters(served.title or ""),
        "description": characters(tool.description),
        "outputSchema": None if object_form is None else object_form.json_schema,
        "annotations": served.annotations,
    }
    return {
        "name": tool.name,
        "inputSchema": strict_schema(tool.json_schema()),
        **{name: value for name, value in optional.items() if value},
    }


def _block_of(function: Callable[..., Any]) -> str | None:
    """Return the natural block that is a function's docstring, as a description; None for another docstring.

    The names that it refers to are written without brackets.
    """
    docstring = inspect.getdoc(function) or ""
    if not docstring.startswith(SENTINEL):
        return None
    try:
        body = program_body(docstring, filename="<docstring>", line=1)
    except NaturalParseError:  # of a function that is no natural function
        return None
    text = as_prose(body).strip()
    if len(text) <= _MAX_DESCRIPTION_CHARACTERS:
        return text
    return text[: _MAX_DESCRIPTION_CHARACTERS - 1] + "…"


def _object_form(tool: ToolFunction) -> ObjectForm | None:
    """Return the form of the results when their type is one of JSON objects."""
    annotation = tool.return_type
    if annotation is Any or annotation is None or _is_media(annotation):
        return None
    try:
        return ObjectForm(annotation, is_validated=is_natural(tool.function))
    except Exception:  # a type that JSON cannot represent is no mistake: its results become texts
        return None


def _is_media(annotation: object) -> bool:
    """Whether results are images and the like, which are content of a kind of their own."""
    return isinstance(annotation, type) and issubclass(annotation, BinaryContent | FileUrl | UploadedFile)
