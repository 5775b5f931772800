"""Arguments of natural functions that a step's model calls: they are validated before the function begins.

The model's code is compiled so that each of its calls asks here for the function to call. A natural function
is then called with validated arguments, or refused with an error of the kind `invalid_input`. Calls by the
program's own code stay as they are.
"""

import ast
import inspect
import operator
import secrets
import sys
from collections.abc import Callable, Mapping
from functools import cached_property, lru_cache, partial
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    MethodDescriptorType,
)
from typing import Any, Literal, TypeAlias, cast

from ..errors import ToolBoundaryError, ToolValidationError
from ..signatures import names_in_scope, read_signature, resolve_references
from .annotations import is_checkable
from .declared_types import declared_type
from .expression import compile_tree, context_of_code, parse_code, with_constant
from .natural_entries import find_entry, find_natural
from .step_context import StepContext
from .validation import NEW, Declared, ItemsAnnotation, validate_value, with_unpacked

PreparedCall: TypeAlias = tuple[Callable[..., object], tuple[object, ...], Mapping[str, object]]
"""A function with its positional and its keyword arguments."""

_GUIDANCE = "Call it again with arguments that match its signature."
_NEVER_NATURAL = frozenset({type, BuiltinFunctionType, MethodDescriptorType})
_PLACEHOLDER = f"checks of calls {secrets.token_hex(16)}"
"""The constant that stands for the checks in compiled code: a text that no source text can guess."""


class ArgumentCheck:
    """Validates the arguments of one natural function.

    Args:
        function: The function.
        annotations: Returns its annotations.
        captured: Values of enclosing variables that Python made no cell for.
    """

    def __init__(
        self,
        function: FunctionType,
        *,
        annotations: Callable[[], Mapping[str, object]],
        captured: Mapping[str, object],
    ) -> None:
        self._function = function
        self._annotations = annotations
        self.captured = captured
        self._types: dict[str, object] = {}

    def validated(
        self,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
        *,
        declared: "_Declarations" = ((), {}),
    ) -> tuple[tuple[object, ...], dict[str, object]]:
        """Return the arguments of a call, validated, and positional or by keyword as they were given.

        A value that matches its annotation is returned as the same object; data is converted as that of
        assignments is. Defaults, and parameters whose types cannot be validated, are not checked.

        Args:
            args: The positional arguments.
            kwargs: The keyword arguments.
            declared: Their declared types, as far as they are known.

        Raises:
            ToolBoundaryError: An argument is missing, is one too many, or does not match its annotation.
        """
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise ToolBoundaryError(
                kind="invalid_input", message=f"{self._name}: {error}", guidance=_GUIDANCE
            ) from error
        origins = self._signature.bind_partial(*declared[0], **declared[1]).arguments
        for name, value in bound.arguments.items():
            kind, origin = self._type_of(name), origins.get(name)
            subject = f"argument '{name}' of {self._name}"
            try:
                bound.arguments[name] = validate_value(
                    value,
                    kind,
                    subject=subject,
                    origin=origin.origin(kind, value) if isinstance(origin, Declared) else "new",
                )
            except ToolValidationError as error:
                raise ToolBoundaryError(
                    kind="invalid_input", message=str(error), guidance=_GUIDANCE
                ) from error
        return self._as_given(bound.arguments, len(args), kwargs)

    def _as_given(
        self, values: Mapping[str, Any], positional: int, kwargs: Mapping[str, object]
    ) -> tuple[tuple[object, ...], dict[str, object]]:
        args: list[object] = []
        keywords: dict[str, object] = {}
        for name, parameter in self._signature.parameters.items():
            if name not in values:
                continue
            if parameter.kind is parameter.VAR_POSITIONAL:
                args += values[name]
            elif parameter.kind is parameter.VAR_KEYWORD:
                keywords |= values[name]
            elif len(args) < positional and parameter.kind is not parameter.KEYWORD_ONLY:
                args.append(values[name])
            else:
                keywords[name] = values[name]
        return tuple(args), {name: keywords[name] for name in kwargs}

    @cached_property
    def _signature(self) -> inspect.Signature:
        return read_signature(self._function)

    @property
    def _name(self) -> str:
        return f"{self._function.__qualname__.rpartition('<locals>.')[2]}()"

    def _type_of(self, parameter: str) -> object:
        """The type of a parameter; `object`, which accepts everything, if it has none or none can be checked.

        It is resolved when it is needed, because it may use names that are defined later.
        """
        if parameter not in self._types:
            try:
                found = self._resolved(parameter)
            except Exception:  # an annotation is any expression, and its names may be defined later
                return object
            self._types[parameter] = found if is_checkable(found) else object
        return self._types[parameter]

    def _resolved(self, parameter: str) -> object:
        annotation = self._annotations().get(parameter, object)
        function = self._function
        names = {**self.captured, **names_in_scope(function)}
        if isinstance(annotation, ItemsAnnotation):
            item = resolve_references(annotation.resolvable, function.__globals__, names)
            return annotation.type_of(item)
        return with_unpacked(resolve_references(annotation, function.__globals__, names))


def with_checked_arguments(
    function: Callable[..., object],
    args: tuple[object, ...],
    kwargs: Mapping[str, object],
    declared: "_Declarations" = ((), {}),
) -> PreparedCall:
    """Return a call with validated arguments, if it is the call of a natural function.

    Args:
        function: The function, bound or partial or wrapped by the library.
        args: The positional arguments.
        kwargs: The keyword arguments.
        declared: The declared types of the arguments, as far as they are known.

    Raises:
        ToolBoundaryError: The arguments do not match the signature.
    """
    found = find_natural(function)
    check = None if found is None else _check_of(found.entry)
    if found is None or check is None:
        return function, args, kwargs
    innermost, _, first, held = found
    checked_args, checked_kwargs = check.validated(
        (*first, *args), {**held, **kwargs}, declared=((NEW,) * len(first) + declared[0], declared[1])
    )
    names = [name for name in held if name not in kwargs]
    before, after = [*first, *(held[name] for name in names)], [*checked_args[: len(first)]]
    after += [checked_kwargs[name] for name in names]
    if all(map(operator.is_, before, after)):
        return function, checked_args[len(first) :], {name: checked_kwargs[name] for name in kwargs}
    return innermost, checked_args, checked_kwargs


Sources: TypeAlias = tuple[tuple[str, ...], tuple[tuple[str, str], ...]]
"""The expressions of the positional arguments of a call, and those of its keyword arguments by name."""

_Declarations: TypeAlias = tuple[tuple[Declared, ...], Mapping[str, Declared]]


_NO_SOURCES: Sources = ((), ())


def _declared_arguments(sources: Sources, context: StepContext) -> _Declarations:
    """The declared types of the arguments of a call by the code of a step."""
    return (
        tuple(declared_type(each, context) for each in sources[0]),
        {name: declared_type(each, context) for name, each in sources[1]},
    )


def _check_of(entry: object) -> ArgumentCheck | None:
    return cast("ArgumentCheck | None", getattr(entry, "argument_check", None))


def captured_names(function: FunctionType) -> Mapping[str, object]:
    """Return the values of enclosing variables that a natural function has captured; empty for others.

    Args:
        function: The function.
    """
    check = _check_of(find_entry(function))
    return {} if check is None else check.captured


class _CallChecks:
    """Stands in compiled code, where it gives each call its function."""

    def function_of(self, function: object, sources: Sources) -> object:
        """Return the function of a call; of a natural function, one that validates its arguments."""
        if type(function) in _NEVER_NATURAL or find_natural(function) is None:
            return function
        context = context_of_code(sys._getframe(1))  # pyright: ignore[reportPrivateUsage]
        declared: _Declarations = ((), {}) if context is None else _declared_arguments(sources, context)
        return partial(_call, cast("Callable[..., object]", function), declared)


def _call(
    function: Callable[..., object], declared: _Declarations, /, *args: object, **kwargs: object
) -> object:
    checked, args, kwargs = cast("Any", with_checked_arguments(function, args, kwargs, declared))
    return checked(*args, **kwargs)


def with_checked_calls(text: str, code: CodeType, mode: Literal["eval", "exec"]) -> CodeType:
    """Return code in which the natural functions that it calls validate their arguments.

    Args:
        text: Its text.
        code: The code as it is compiled without the checks.
        mode: Whether it is an expression or statements.
    """
    return (_compile_checked(text, code.co_filename, mode) or code) if "(" in text else code


@lru_cache(maxsize=1024)
def _compile_checked(text: str, filename: str, mode: str) -> CodeType | None:
    """Compile code with the checks; return None if it is nested too deeply for them."""
    try:
        tree = _Checking().visit(parse_code(text, filename=filename, mode=mode))
        checked = compile_tree(tree, filename=filename, mode=mode)
    except (SyntaxError, MemoryError, RecursionError):
        return None
    return with_constant(checked, _PLACEHOLDER, _CallChecks())


class _Checking(ast.NodeTransformer):
    """Passes the function of each call through the checks."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        sources = ast.Constant(value=cast("Any", _sources(node)))  # before the calls in it are changed
        called = cast("ast.Call", self.generic_visit(node))
        checks = ast.Attribute(value=ast.Constant(value=_PLACEHOLDER), attr="function_of", ctx=ast.Load())
        called.func = ast.Call(func=checks, args=[called.func, sources], keywords=[])
        return called


def _sources(call: ast.Call) -> Sources:
    """The expressions of the arguments; none where some are unpacked."""
    if any(isinstance(each, ast.Starred) for each in call.args) or any(
        each.arg is None for each in call.keywords
    ):
        return _NO_SOURCES
    return (
        tuple(map(_source, call.args)),
        tuple((str(each.arg), _source(each.value)) for each in call.keywords),
    )


def _source(argument: ast.expr) -> str:
    """An expression that may have a declared type; empty for others."""
    return ast.unparse(argument) if isinstance(argument, ast.Name | ast.Attribute | ast.Subscript) else ""
