"""A tool: a callable, its JSON Schema, the validation of its arguments; and the tools of a scope."""

import inspect
import logging
import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from types import MethodType
from typing import TYPE_CHECKING, Any, ForwardRef, Generic, Literal, TypeAlias, TypeVar, cast, get_origin
from weakref import WeakSet

from msgspec import Struct
from pydantic import ValidationError

from ..errors import ToolBoundaryError, ToolRegistrationError, ToolValidationError
from ..lazy_exports import LazyModule
from ..signatures import HOW_NAMES_ARE_FOUND, globals_of, names_in_scope, read_signature, resolve_references
from ..types.messages import DeferredTool, ToolDefinition
from ..values.error_text import describe_error, describe_validation_error
from ..values.validation import reason_without_schema, type_name, with_unpacked
from .context import StepContext
from .tool_calls import NO_DEFAULT, ToolArguments, ToolParameter

if TYPE_CHECKING:
    from . import variadic_parameters as variadic
else:
    variadic = LazyModule(f"{__package__}.variadic_parameters")  # most tools take named parameters

_NOT_PLAIN = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.VAR_POSITIONAL,
    inspect.Parameter.VAR_KEYWORD,
)

_STYLES: Mapping[str, re.Pattern[str]] = {
    "GOOGLE": re.compile(
        r"^(?:Args|Arguments|Parameters|Params|Keyword Args|Keyword Arguments)[ \t]*:[ \t]*\n"
        r"(?:[ \t]+\S.*(?:\n|\Z)|[ \t]*\n)+",
        re.MULTILINE,
    ),
    "NUMPYDOC": re.compile(
        r"^(?:Parameters|Params|Arguments|Other Parameters)[ \t]*\n-{3,}[ \t]*\n"
        r"(?:(?!.+\n-{3,}[ \t]*$).*(?:\n|\Z))+?(?=.+\n-{3,}[ \t]*$|\Z)",
        re.MULTILINE,
    ),
    "REST": re.compile(
        r"^:(?:param|parameter|arg|argument|key|keyword|type)\b[^:\n]*:.*(?:\n[ \t]+\S.*)*(?:\n|\Z)",
        re.MULTILINE,
    ),
}
"""The pattern of parameters in each docstring style, by the style names of `docstring_parser`."""


class Documentation(Struct, frozen=True, kw_only=True):
    """A parsed docstring.

    Args:
        description: The docstring without the descriptions of parameters.
        parameters: The description of each parameter.
    """

    description: str
    parameters: dict[str, str]


def read_docstring(text: str, names: Collection[str]) -> Documentation:
    """Parse a docstring in the style of Google, NumPy or Sphinx.

    Args:
        text: The docstring, without its indentation.
        names: The parameters of the function. A docstring that describes other ones is not parsed.
    """
    for style, pattern in _STYLES.items():
        if pattern.search(text):
            parameters = _parameters(text, style)
            if parameters and parameters.keys() <= set(names):
                rest = re.sub(r"\n{3,}", "\n\n", pattern.sub("", text))
                return Documentation(description=rest.strip(), parameters=parameters)
    return Documentation(description=text, parameters={})


def _parameters(text: str, style: str) -> dict[str, str]:
    import docstring_parser  # imported here because few programs have such docstrings

    try:
        parsed = docstring_parser.parse(text, docstring_parser.DocstringStyle[style])
    except docstring_parser.ParseError:
        return {}
    return {
        parameter.arg_name.lstrip("*"): " ".join((parameter.description or "").split())
        for parameter in parsed.params
    }


Dependencies = TypeVar("Dependencies")

TOOL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
"""The form of the names that every provider takes, which are no longer than `MAX_TOOL_NAME_CHARACTERS`."""
MAX_TOOL_NAME_CHARACTERS = 64

EFFECT_MARK = "__nighthawk_effect__"
"""The attribute of functions whose calls are effects; see `journal.effect_call.Mode`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext(Generic[Dependencies]):
    """The first argument of a tool whose first parameter is annotated `RunContext[StepContext]`.

    Args:
        deps: The state of the step that called the tool.
        tool_name: The name under which the tool was called.
        tool_call_id: The identifier of the call.
    """

    deps: Dependencies
    tool_name: str
    tool_call_id: str


@dataclass(kw_only=True, eq=False)
class Tool(ABC):
    """A tool that a program offers to models.

    Args:
        name: The name the model uses.
        description: The description that the model reads.
        function: The callable.
        metadata: Anything the host attached.
    """

    name: str
    description: str
    function: Callable[..., object]
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @cached_property
    def definition(self) -> ToolDefinition:
        """The tool as a model sees it; built on first use.

        Raises:
            ToolRegistrationError: It has no JSON Schema.
        """
        return ToolDefinition(
            name=self.name,
            description=self.description,
            parameters=self.json_schema(),
            metadata=self.metadata,
        )

    @property
    def fault(self) -> str | None:
        """The reason why no model can be offered the tool by now; None when it can."""
        try:
            self.definition  # noqa: B018 - built once
        except ToolRegistrationError as error:
            return str(error)
        return None

    @property
    @abstractmethod
    def origin(self) -> str:
        """The callable or the foreign tool, as errors name it."""

    @property
    @abstractmethod
    def parameter_names(self) -> tuple[str, ...]:
        """The names of the parameters that the model sees."""

    @property
    def parameter_types(self) -> Mapping[str, object]:
        """The types of the parameters; those of none where they are not known."""
        return {}

    @property
    @abstractmethod
    def defaults(self) -> dict[str, object]:
        """The defaults of the parameters that have one."""

    @abstractmethod
    def json_schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the arguments.

        Raises:
            ToolRegistrationError: There is none.
        """

    @abstractmethod
    def validated(self, arguments: str) -> dict[str, object]:
        """Return the values of JSON arguments by parameter, without defaults; see `bind`."""

    @abstractmethod
    def bind(self, arguments: str, *, context: StepContext, tool_call_id: str) -> Callable[[], object]:
        """Validate JSON arguments and return a function that makes the call.

        Raises:
            ToolBoundaryError: The arguments are not a JSON object, or do not match the signature.
            ToolRegistrationError: An annotation cannot be resolved.
        """

    def is_same(self, other: "Tool") -> bool:
        """Whether another tool of the same name is this one, so that offering both is no collision."""
        return self is other


@dataclass(kw_only=True, eq=False)
class ToolFunction(Tool):
    """A tool made from a Python callable, whose signature gives the schema.

    Args:
        name: The name the model uses.
        description: The description that the model reads.
        function: The callable.
        metadata: Anything the host attached.
        takes_run_context: Whether the first parameter receives a `RunContext`.
        parameter_descriptions: The descriptions of the parameters in the docstring.
    """

    takes_run_context: bool
    parameter_descriptions: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def origin(self) -> str:
        """The module and the name of the callable."""
        target = _without_partial(self.function)
        name = getattr(target, "__qualname__", type(target).__qualname__)
        return f"{getattr(target, '__module__', None) or type(target).__module__}.{name}"

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """The names of the parameters that the model sees."""
        return tuple(parameter.name for parameter in self._parameters)

    @property
    def parameter_types(self) -> Mapping[str, object]:
        """The types of the parameters; empty where an annotation cannot be resolved."""
        try:
            return {name: each.annotation for name, each in self._arguments.parameters.items()}
        except ToolRegistrationError:
            return {}

    def json_schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the arguments.

        Raises:
            ToolRegistrationError: An annotation cannot be resolved, or has no JSON Schema.
        """
        try:
            return self._arguments.json_schema()
        except ToolRegistrationError:
            raise
        except Exception as error:  # code of the user's types may raise anything
            raise self._without_schema(error) from error

    def bind(self, arguments: str, *, context: StepContext, tool_call_id: str) -> Callable[[], object]:
        """Validate JSON arguments and return a function that makes the call; see `Tool.bind`."""
        values = self.validated(arguments)
        if not self.takes_run_context:
            return self.call_with(values)
        run_context = RunContext(deps=context, tool_name=self.name, tool_call_id=tool_call_id)
        return self.call_with(values, run_context)

    def call_with(self, values: Mapping[str, object], *first: object) -> Callable[[], object]:
        """Return a function that makes the call with validated values.

        Args:
            values: The values by parameter, as `validated` returns them.
            first: The arguments before them.
        """
        if self._is_plain:
            return partial(self.function, *first, **values)
        by_position, by_keyword = variadic.passed(self._parameters, values)
        return partial(self.function, *first, *by_position, **by_keyword)

    def is_same(self, other: Tool) -> bool:
        """Whether another tool calls the same function, or the same method of the same object."""
        if not isinstance(other, ToolFunction):
            return False
        mine, others = self.function, other.function
        if isinstance(mine, MethodType) and isinstance(others, MethodType):
            return mine.__self__ is others.__self__ and mine.__func__ is others.__func__
        return mine is others

    @property
    def defaults(self) -> dict[str, object]:
        """The defaults of the parameters that have one."""
        defaults = {each.name: self._default_of(each) for each in self._parameters}
        return {name: default for name, default in defaults.items() if default is not NO_DEFAULT}

    def validated(self, arguments: str) -> dict[str, object]:
        """Return the values of JSON arguments by parameter, without defaults; see `bind`."""
        try:
            return self._without_conflict(self._arguments.validated(arguments or "{}"))
        except (ToolRegistrationError, ToolBoundaryError):
            raise
        except Exception as error:  # a user's validator may raise anything
            is_expected = isinstance(error, ValidationError)
            reason = describe_validation_error(error) if is_expected else describe_error(error)
            if isinstance(error, ValidationError):
                error = self._mismatch(error)
            raise self._refusal(reason) from error

    def _without_conflict(self, values: dict[str, object]) -> dict[str, object]:
        if self._is_plain:
            return values
        conflict = variadic.conflict_in(list(read_signature(self.function).parameters.values()), values)
        if conflict is not None:
            raise self._refusal(conflict)
        return values

    def _refusal(self, reason: str) -> ToolBoundaryError:
        return ToolBoundaryError(
            kind="invalid_input",
            message=f"arguments of {self.name}: {reason}",
            guidance="Call the tool again with arguments that match its schema.",
        )

    def _mismatch(self, error: ValidationError) -> Exception:
        """The error for the first parameter whose type an argument does not match."""
        parameter, *path = error.errors(include_url=False, include_input=False)[0]["loc"] or ("",)
        for each in self._parameters:
            if each.name == parameter:
                mismatch = ToolValidationError(str(error)).without_content(f"arguments of {self.name}")
                mismatch.__cause__ = error
                return mismatch.about(self._type_of(each), tuple(path))
        return error

    @cached_property
    def return_type(self) -> object:
        """The annotation of the callable's return value, resolved; `Any` without one.

        Raises:
            ToolRegistrationError: It cannot be resolved.
        """
        return self._resolved(read_signature(self.function).return_annotation, "its return value")

    def _type_of(self, parameter: inspect.Parameter) -> object:
        annotation = self._resolved(parameter.annotation, repr(parameter.name))
        if self._is_plain:
            return with_unpacked(annotation)
        return variadic.whole_type(parameter, annotation)

    def _default_of(self, parameter: inspect.Parameter) -> object:
        default = parameter.default
        if not self._is_plain:
            default = variadic.default_of(parameter, self._type_of(parameter))
        return NO_DEFAULT if default is parameter.empty else default

    def _resolved(self, annotation: object, subject: str) -> object:
        if annotation is inspect.Parameter.empty:
            return Any
        try:
            return resolve_references(annotation, globals_of(self.function), names_in_scope(self.function))
        except Exception as error:  # an annotation is any expression
            raise ToolRegistrationError(
                f"Tool {self.name!r}: the annotation of {subject} cannot be resolved: "
                f"{describe_error(error)}; {HOW_NAMES_ARE_FOUND}"
            ) from error

    def _without_schema(self, error: Exception) -> ToolRegistrationError:
        """Return the error for the first parameter whose type has no schema."""
        for name, parameter in self._arguments.parameters.items():
            try:
                ToolArguments(parameters={name: parameter}).json_schema()
            except Exception as reason:  # code of the user's types may raise anything
                return ToolRegistrationError(
                    f"Tool {self.name!r} has no JSON Schema: its parameter '{name}' has the type "
                    f"{type_name(parameter.annotation)}: {reason_without_schema(reason)} Use a type of JSON "
                    "values, such as a pydantic model."
                )
        return ToolRegistrationError(f"Tool {self.name!r} has no JSON Schema: {reason_without_schema(error)}")

    @cached_property
    def _parameters(self) -> list[inspect.Parameter]:
        return self._read_parameters()

    @cached_property
    def _is_plain(self) -> bool:
        return not any(parameter.kind in _NOT_PLAIN for parameter in self._parameters)

    def _read_parameters(self) -> list[inspect.Parameter]:
        parameters = list(read_signature(self.function).parameters.values())
        return parameters[1:] if self.takes_run_context else parameters

    @cached_property
    def _arguments(self) -> ToolArguments:
        return ToolArguments(
            parameters={
                parameter.name: ToolParameter(
                    annotation=self._type_of(parameter),
                    description=self.parameter_descriptions.get(parameter.name, ""),
                    default=self._default_of(parameter),
                )
                for parameter in self._read_parameters()  # names may have come to exist meanwhile
            }
        )


def make_tool_function(
    function: Callable[..., object],
    *,
    name: str | None = None,
    description: str | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> ToolFunction:
    """Check a callable and make a tool of it, for `tools=` and `nighthawk_async.tool_set`.

    Args:
        function: The callable.
        name: The tool's name; None for the function's name.
        description: The text that the model reads; None for the function's docstring.
        metadata: Data to attach to the tool's definition.

    Raises:
        ToolRegistrationError: The name or the signature cannot be offered to a model.
    """
    tool_name = name if name is not None else getattr(function, "__name__", type(function).__name__)
    if not TOOL_NAME.fullmatch(tool_name):
        raise ToolRegistrationError(
            f"Tool name {tool_name!r} must be ASCII and match ^[A-Za-z_][A-Za-z0-9_]*$; "
            "pass name=… to choose one."
        )
    try:
        parameters = list(read_signature(function).parameters.values())
    except (TypeError, ValueError) as error:
        raise ToolRegistrationError(
            f"Tool {tool_name!r} has no signature that can be read: {error}"
        ) from error
    documentation = read_docstring(
        inspect.getdoc(_without_partial(function)) or "", [parameter.name for parameter in parameters]
    )
    takes_run_context = bool(parameters) and _is_run_context(function, parameters[0])
    return ToolFunction(
        name=tool_name,
        description=documentation.description if description is None else description,
        function=function,
        takes_run_context=takes_run_context,
        metadata=dict(metadata or {}),
        parameter_descriptions=documentation.parameters,
    )


def _is_run_context(function: Callable[..., object], parameter: inspect.Parameter) -> bool:
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        return False  # it is passed as the first argument
    annotation = parameter.annotation
    if annotation is parameter.empty:
        return parameter.name == "run_context"
    if isinstance(annotation, ForwardRef):
        annotation = annotation.__forward_arg__
    if isinstance(annotation, str):
        return re.match(r"(?:\w+\.)*RunContext\b", annotation) is not None
    return annotation is RunContext or get_origin(annotation) is RunContext


def _without_partial(function: Callable[..., object]) -> Callable[..., object]:
    while isinstance(function, partial):
        function = cast("partial[object]", function).func
    return function


OUTCOME_TOOL_NAME = "nh_outcome"
FIND_TOOL_NAME = "nh_find_tools"
SKILL_TOOL_NAME = "nh_skill"
PROGRESS_TOOL_NAME = "nh_progress"
PROVIDED_TOOL_NAMES = (
    *("nh_eval", "nh_assign", "nh_exec", PROGRESS_TOOL_NAME),
    *(FIND_TOOL_NAME, SKILL_TOOL_NAME, OUTCOME_TOOL_NAME),
)


ToolSearchFunction: TypeAlias = Callable[
    [str, Sequence[DeferredTool]], Iterable[str] | Awaitable[Iterable[str]]
]
"""A search of the program's own: from a query and the deferred tools to the names of some of them."""

ToolSearch: TypeAlias = Literal["lexical", "native"] | ToolSearchFunction
"""The search for deferred tools: by the words of their texts here, by the provider, or by a function."""


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
        searches: The functions that search them, by the names of the tools.
    """

    listed: Mapping[str, Tool]
    deferred: Mapping[str, Tool]
    search: Literal["lexical", "native"] = "lexical"
    searches: Mapping[str, ToolSearchFunction] = {}


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
        searched = [each for scope in chain for each in scope.sets if each.deferred and each.tools]
        return OfferedTools(
            listed={name: tool for name, tool in visible.items() if name not in deferred},
            deferred=deferred,
            search="native" if any(each.search == "native" for each in searched) else "lexical",
            searches={
                tool.name: each.search
                for each in searched
                if not isinstance(each.search, str)
                for tool in each.tools
                if tool.name in deferred
            },
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
