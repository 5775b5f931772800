"""Classes whose async methods are the tools of a server, with the signatures that their schemas describe.

Each method is compiled, so that its parameters are those of its code: prompts, permissions and editors read
them from there.
"""

import keyword
import textwrap
import unicodedata
import weakref
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from ..kernel.tools import EFFECT_MARK
from ..types.json import is_json_mapping
from .schema_types import SchemaTypes, allows_null
from .tool_facts import ToolFacts

Invoke: TypeAlias = Callable[[ToolFacts, dict[str, object]], Awaitable[object]]
"""Makes a call of a tool."""
DigestOf: TypeAlias = Callable[[str], object]
"""Returns the definition that the server has for a tool by now, with its digest."""

_NO_IDENTIFIERS = ("self", "_invoke", "_tool", "_given", "__debug__")
_PLAIN = (bool, int, float, str, type(None))
_SESSIONS: weakref.WeakKeyDictionary[type, object] = weakref.WeakKeyDictionary()
"""The session of each class: code that holds an object of the class does not find it there."""
_FACTS: weakref.WeakKeyDictionary[Callable[..., object], ToolFacts] = weakref.WeakKeyDictionary()
"""The tool of each method."""


class ConnectedServer:
    """A server in a run: its tools are async methods. It has no other public attributes and no state.

    `nighthawk_async.mcp.connect` and `servers=` of a run make objects of classes derived from it.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return str(getattr(type(self), "_shown", "<a server>"))


setattr(ConnectedServer, EFFECT_MARK, "once")  # a response cache cannot tell which methods a step will call


class _NotGiven:
    """The default of an argument that the server may also get as null."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "..."


NOT_GIVEN = _NotGiven()


class Parameter:
    """A parameter of a method.

    Args:
        own_name: The name in the schema.
        name: The name in Python.
        annotation: Its type.
        is_required: Whether it has to be given.
        default: Its default, which is not sent: the server fills it in.
    """

    __slots__ = ("annotation", "default", "is_required", "name", "own_name")

    def __init__(
        self, own_name: str, name: str, annotation: object, *, is_required: bool, default: object
    ) -> None:
        self.own_name = own_name
        self.name = name
        self.annotation = annotation
        self.is_required = is_required
        self.default = default

    def is_given(self, value: object) -> bool:
        """Whether a value differs from the default."""
        if self.is_required:
            return True
        return value is not self.default and not (type(value) is type(self.default) and value == self.default)


def parameters_of(tool: ToolFacts) -> list[Parameter]:
    """Return the parameters of a tool, those that have to be given first."""
    types, required, taken = SchemaTypes(tool.input_schema), tool.required, set[str](_NO_IDENTIFIERS)
    parameters: list[Parameter] = []
    for own_name, schema in tool.properties.items():
        name = _python_name(own_name, taken)
        taken.add(name)
        annotation: Any = types.type_of(schema)
        is_required = own_name in required
        default = None if is_required else _default_of(schema, annotation)
        if default is None and not is_required and not allows_null(annotation):
            annotation = annotation | None
        parameters.append(Parameter(own_name, name, annotation, is_required=is_required, default=default))
    return sorted(parameters, key=lambda each: not each.is_required)


def _default_of(schema: object, annotation: object) -> object:
    if not is_json_mapping(schema) or "default" not in schema:
        return NOT_GIVEN if annotation is not Any and allows_null(annotation) else None
    default = schema["default"]
    return default if type(default) in _PLAIN else None


def _python_name(name: str, taken: set[str]) -> str:
    normal = unicodedata.normalize("NFKC", name)  # as Python reads names
    valid = "".join(each if f"_{each}".isidentifier() else "_" for each in normal) or "_"
    if not valid.isidentifier():
        valid = f"_{valid}"
    while keyword.iskeyword(valid) or valid in taken:
        valid += "_"
    return valid


def make_class(name: str, *, text: str, shown: str, session: object) -> type[ConnectedServer]:
    """Return the class of a server in a run, which has no methods yet.

    Args:
        name: The name by which blocks know the server.
        text: The docstring.
        shown: The text of its objects.
        session: The session, for the functions of this room that take its objects.
    """
    title = "".join(part[:1].upper() + part[1:] for part in name.split("_"))
    attributes = {"__slots__": (), "__doc__": text, "__module__": __package__}
    server_class = type(title or name, (ConnectedServer,), {**attributes, "_shown": shown})
    _SESSIONS[server_class] = session
    return server_class


def session_of(server: ConnectedServer) -> Any:
    """Return the session of a server in a run."""
    return _SESSIONS[type(server)]


def set_methods(server_class: type, tools: Sequence[ToolFacts], invoke: Invoke, digest_of: DigestOf) -> None:
    """Give a class the methods of its server; those of tools that are gone are removed."""
    names = {tool.python_name for tool in tools}
    for name, attribute in tuple(vars(server_class).items()):
        if hasattr(attribute, "definition_digest") and name not in names:
            delattr(server_class, name)
    for tool in tools:
        present = vars(server_class).get(tool.python_name)
        if present is None or _FACTS[present].digest != tool.digest:
            method = _method(server_class, tool, invoke)
            method.definition_digest = partial(digest_of, tool.name)
            setattr(server_class, tool.python_name, method)


def _method(server_class: type, tool: ToolFacts, invoke: Invoke) -> Any:
    parameters = parameters_of(tool)
    by_name = {each.name: each for each in parameters}

    def given(values: Mapping[str, object]) -> dict[str, object]:
        return {
            by_name[name].own_name: value for name, value in values.items() if by_name[name].is_given(value)
        }

    shown = "".join(f", {each.name}" for each in parameters)
    packed = ", ".join(f"{each.name!r}: {each.name}" for each in parameters)
    lines = (
        "def _make(_invoke, _tool, _given):",
        f"    async def {tool.python_name}(self{shown}):",
        f"        return await _invoke(_tool, _given({{{packed}}}))",
        f"    return {tool.python_name}",
    )
    names: dict[str, Any] = {"__name__": __package__}
    exec(compile("\n".join(lines), f"<tool {tool.python_name}>", "exec"), names)
    function = names.pop("_make")(invoke, tool, given)  # what decides which tool is called is no global
    function.__defaults__ = tuple(each.default for each in parameters if not each.is_required)
    function.__annotations__ = _annotations(tool, parameters)
    function.__qualname__ = f"{server_class.__qualname__}.{tool.python_name}"
    function.__doc__ = _docstring(tool, parameters)
    _FACTS[function] = tool
    return function


def _annotations(tool: ToolFacts, parameters: Sequence[Parameter]) -> dict[str, object]:
    annotations = {each.name: each.annotation for each in parameters}
    if tool.output_schema is not None:
        schema = tool.wrapped_schema if tool.wrapped_schema is not None else tool.output_schema
        annotations["return"] = SchemaTypes(tool.output_schema).type_of(schema)
    return annotations


def _docstring(tool: ToolFacts, parameters: Sequence[Parameter]) -> str:
    described: list[str] = []
    for each in parameters:
        schema = tool.properties[each.own_name]
        text: object = schema.get("description") if is_json_mapping(schema) else ""
        if isinstance(text, str) and text:
            described.append(f"{each.name}: {' '.join(text.split())}")
    if not described:
        return tool.description
    return f"{tool.description}\n\nArgs:\n{textwrap.indent(chr(10).join(described), '    ')}".strip()
