"""Tools as their server lists them, and classes whose async methods they are.

Types of Python stand for the schemas: as exact as one line can say, `Any` where Python has none. Only answers
of people are validated with them; servers validate their arguments themselves. Each method is compiled, so
that its parameters are those of its code: prompts, permissions and editors read them from there.
"""

import hashlib
import json
import keyword
import textwrap
import unicodedata
import weakref
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import date, datetime
from functools import cached_property, partial, reduce
from typing import Annotated, Any, Literal, NotRequired, TypeAlias, cast

from annotated_types import Ge, Le, MaxLen, MinLen
from pydantic import AfterValidator, AnyUrl, Field, TypeAdapter
from typing_extensions import TypedDict  # which pydantic demands before Python 3.12

from ..errors import ToolRegistrationError
from ..kernel.tool_sets import valid_tool_name
from ..kernel.tools import EFFECT_MARK
from ..prompt.types import written_type
from ..types.json import is_json_list, is_json_mapping, is_json_object, is_list_or_tuple
from .schemas import pointed_at

Schema: TypeAlias = Mapping[str, Any]

_SIMPLE: Mapping[str, object] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "null": None,
}
_MAX_DEPTH = 4
_MAX_FIELDS = 12
_MAX_LITERALS = 20
_MAX_SCHEMAS = 2_000  # in one document, counted as often as they are referred to
_BOUNDS: Mapping[str, Any] = {"minimum": Ge, "maximum": Le, "minLength": MinLen, "maxLength": MaxLen}


class SchemaTypes:
    """Makes types of the schemas in one document.

    Args:
        document: The document, which references refer to.
    """

    def __init__(self, document: Schema) -> None:
        self._document = document
        self._seen = 0

    def type_of(self, schema: object, depth: int = 0) -> object:
        """Return the type of a schema; `Any` where there is none."""
        self._seen += 1
        if self._seen > _MAX_SCHEMAS or depth > _MAX_DEPTH or not is_json_mapping(schema):
            return Any
        if isinstance(reference := schema.get("$ref"), str):
            return self.type_of(pointed_at(self._document, reference), depth + 1)
        if "const" in schema:
            return _literal([schema["const"]])
        if isinstance(schema.get("enum"), list):
            return _literal(schema["enum"])
        for union in ("anyOf", "oneOf"):
            if isinstance(schema.get(union), list):
                return _union([self.type_of(each, depth) for each in schema[union]])
        kinds = schema.get("type")
        if is_json_list(kinds):
            return _union([self._of_kind(kind, schema, depth) for kind in kinds])
        return self._of_kind(kinds, schema, depth)

    def _of_kind(self, kind: object, schema: Schema, depth: int) -> object:
        if isinstance(kind, str) and kind in _SIMPLE:
            return _SIMPLE[kind]
        if kind == "array":
            item: Any = self.type_of(schema.get("items"), depth + 1)
            return list[item]
        if kind == "object":
            return self._of_object(schema, depth)
        return Any

    def _of_object(self, schema: Schema, depth: int) -> object:
        properties = schema.get("properties")
        if not is_json_mapping(properties) or not properties:
            value: Any = self.type_of(schema.get("additionalProperties"), depth + 1)
            return dict[str, value]
        if len(properties) > _MAX_FIELDS or depth >= _MAX_DEPTH:
            return dict[str, Any]
        required = required_of(schema)
        types = {name: self.type_of(each, depth + 1) for name, each in properties.items()}
        return record_type(types, required)


def record_type(types: Mapping[str, Any], required: Sequence[str]) -> object:
    """Return a `TypedDict`, whose name shows its fields: prompts write it wherever it is mentioned."""
    shown = ", ".join(
        f"{name!r}{'' if name in required else '?'}: {written_type(each)}" for name, each in types.items()
    )
    fields: dict[str, Any] = {
        name: each if name in required else NotRequired[each] for name, each in types.items()
    }
    made: Any = cast("Any", TypedDict)(f"{{{shown}}}", fields)
    made.__module__ = "builtins"  # so that no module is written before the name
    return made


def required_of(schema: Schema) -> tuple[str, ...]:
    """The names of the required properties."""
    required = schema.get("required", ())
    return tuple(map(str, required)) if is_list_or_tuple(required) else ()


def allows_null(annotation: object) -> bool:
    """Whether a type includes None."""
    return annotation is None or annotation is Any or type(None) in getattr(annotation, "__args__", ())


def _literal(values: Sequence[object]) -> object:
    plain = [each for each in values if each is None or isinstance(each, str | int | bool)]
    if len(plain) < len(values) or len(plain) > _MAX_LITERALS:
        kinds = {type(each) for each in values}
        return kinds.pop() if len(kinds) == 1 and kinds <= {str, int, float, bool} else Any
    return Literal[tuple(plain)]


def _union(types: Sequence[object]) -> object:
    distinct = [each for position, each in enumerate(types) if each not in types[:position]]
    if Any in distinct or not distinct:
        return Any
    if distinct == [None]:
        return None
    ordered: list[Any] = sorted(distinct, key=lambda each: each is None)
    return reduce(lambda union, each: union | each, ordered)


def form_type(schema: Schema) -> object | None:
    """Return the type of the answers to a form; None for a form without fields, which is a yes or no.

    Answers are plain data: a date stays a text.

    Args:
        schema: The JSON Schema: an object of texts, numbers, booleans and choices.
    """
    properties = schema.get("properties")
    if not is_json_mapping(properties) or not properties:
        return None
    required, types = required_of(schema), SchemaTypes(schema)
    fields: dict[str, Any] = {}
    for name, each in properties.items():
        field = _field(each, types.type_of(each))
        fields[name] = field if name in required else NotRequired[field]
    return cast("Any", TypedDict)("Form", fields)


def _field(schema: object, annotation: object) -> Any:
    given: Schema = schema if is_json_mapping(schema) else {}
    metadata: list[object] = [make(given[name]) for name, make in _BOUNDS.items() if name in given]
    if (check := _FORMATS.get(str(given.get("format")))) is not None and annotation is str:
        metadata.append(AfterValidator(check))
    shown = {name: given[name] for name in ("title", "description") if isinstance(given.get(name), str)}
    return Annotated[(cast("Any", annotation), *metadata, Field(**shown))]


def _written_as(kind: Any) -> Any:
    adapter = TypeAdapter[object](kind)

    def check(text: str) -> str:
        adapter.validate_python(text)
        return text

    return check


def _check_email(text: str) -> str:
    name, at, host = text.rpartition("@")
    if not (name and at and host) or any(each.isspace() for each in text):
        raise ValueError("an e-mail address has the form name@host")
    return text


_FORMATS: Mapping[str, Any] = {
    "email": _check_email,
    "uri": _written_as(AnyUrl),
    "date": _written_as(date),
    "date-time": _written_as(datetime),
}
"""Checks of the formats that the protocol allows."""


_WRAPPED = "result"


class ToolFacts:
    """One tool of a server.

    Args:
        name: The name that the server knows it by.
        description: The description; empty for none.
        input_schema: The JSON Schema of the arguments, an object schema.
        output_schema: The JSON Schema of structured results; None for none.
        hints: The annotations of the tool, by their names in the protocol.
        definition: The whole definition, as the server sent it.
    """

    def __init__(
        self,
        name: str,
        description: str,
        *,
        input_schema: Schema,
        output_schema: Schema | None,
        hints: Mapping[str, object],
        definition: Mapping[str, object],
    ) -> None:
        self.name = name
        self.description = description
        self.input_schema: Schema = {"type": "object", **input_schema}
        self.output_schema = output_schema
        self.is_read_only = hints.get("readOnlyHint") is True
        self.is_repeatable = self.is_read_only or hints.get("idempotentHint") is True
        self._definition = definition

    @cached_property
    def digest(self) -> str:
        """The digest of the definition, to which approvals are bound."""
        text = json.dumps(self._definition, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()

    @cached_property
    def python_name(self) -> str:
        """The name of its method."""
        name = valid_tool_name(self.name).lstrip("_") or "tool"
        name = f"tool_{name}" if name[0].isdigit() else name
        return f"{name}_" if keyword.iskeyword(name) else name

    @property
    def properties(self) -> Schema:
        """The schemas of its arguments, by name."""
        properties = self.input_schema.get("properties")
        return properties if is_json_mapping(properties) else {}

    @property
    def required(self) -> tuple[str, ...]:
        """The names of the arguments that have to be given."""
        return required_of(self.input_schema)

    @cached_property
    def wrapped_schema(self) -> object | None:
        """The schema of the value that servers put into `{"result": …}`; None if they do not."""
        properties: object = None if self.output_schema is None else self.output_schema.get("properties")
        if not is_json_mapping(properties):
            return None
        return properties[_WRAPPED] if list(properties) == [_WRAPPED] else None

    def unwrapped(self, structured: object) -> object:
        """Return a structured result as the value that it is."""
        if self.wrapped_schema is None or not is_json_object(structured):
            return structured
        return structured[_WRAPPED] if list(structured) == [_WRAPPED] else structured


def check_method_names(server: str, tools: Sequence[ToolFacts]) -> None:
    """Check that no two tools have methods of the same name.

    Raises:
        ToolRegistrationError: Two tools have one.
    """
    seen: dict[str, str] = {}
    for tool in tools:
        other = seen.setdefault(tool.python_name, tool.name)
        if other != tool.name:
            raise ToolRegistrationError(
                f"Server {server!r} has two tools whose method would be {tool.python_name!r}: {other!r} and "
                f"{tool.name!r}; leave one of them out with only=…."
            )


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
