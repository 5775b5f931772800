"""Arguments of natural functions that a step's model calls: they are validated before the function begins.

The model's code is compiled so that each of its calls asks here for the function to call. A natural function
is then called with validated arguments, or refused with an error of the kind `invalid_input`. Calls by the
program's own code stay as they are.
"""

import ast
import functools
import inspect
import operator
import secrets
from collections.abc import Callable, Mapping
from functools import cached_property, lru_cache, partial
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    MethodWrapperType,
)
from typing import Any, Literal, TypeAlias, cast

from ..errors import ToolBoundaryError, ToolValidationError
from ..natural.tree import CLOSURE_NAMES
from ..types.unset import UNSET
from .annotations import is_checkable, resolve_references, variables_of
from .expression import compile_tree, parse_code, with_constant
from .validation import ItemsAnnotation, validate_value, with_unpacked

PreparedCall: TypeAlias = tuple[Callable[..., object], tuple[object, ...], Mapping[str, object]]
"""A function with its positional and its keyword arguments."""

_PACKAGE = __name__.partition(".")[0]
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
        self, args: tuple[object, ...], kwargs: Mapping[str, object]
    ) -> tuple[tuple[object, ...], dict[str, object]]:
        """Return the arguments of a call, validated, and positional or by keyword as they were given.

        A value that matches its annotation is returned as the same object; data is converted as that of
        assignments is. Defaults, and parameters whose types cannot be validated, are not checked.

        Raises:
            ToolBoundaryError: An argument is missing, is one too many, or does not match its annotation.
        """
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise ToolBoundaryError(
                kind="invalid_input", message=f"{self._name}: {error}", guidance=_GUIDANCE
            ) from error
        for name, value in bound.arguments.items():
            subject = f"argument '{name}' of {self._name}"
            try:
                bound.arguments[name] = validate_value(value, self._type_of(name), subject=subject)
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
        return inspect.signature(self._function)

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
        names = {**self.captured, **variables_of(function)}
        if isinstance(annotation, ItemsAnnotation):
            item = resolve_references(annotation.resolvable, function.__globals__, names)
            return annotation.type_of(item)
        return with_unpacked(resolve_references(annotation, function.__globals__, names))


def with_checked_arguments(
    function: Callable[..., object], args: tuple[object, ...], kwargs: Mapping[str, object]
) -> PreparedCall:
    """Return a call with validated arguments, if it is the call of a natural function.

    Args:
        function: The function, bound or partial or wrapped by the library.
        args: The positional arguments.
        kwargs: The keyword arguments.

    Raises:
        ToolBoundaryError: The arguments do not match the signature.
    """
    found = _find_natural(function)
    if found is None:
        return function, args, kwargs
    innermost, check, first, held = found
    checked_args, checked_kwargs = check.validated((*first, *args), {**held, **kwargs})
    names = [name for name in held if name not in kwargs]
    before, after = [*first, *(held[name] for name in names)], [*checked_args[: len(first)]]
    after += [checked_kwargs[name] for name in names]
    if all(map(operator.is_, before, after)):
        return function, checked_args[len(first) :], {name: checked_kwargs[name] for name in kwargs}
    return innermost, checked_args, checked_kwargs


def _find_natural(
    function: object,
) -> tuple[Callable[..., object], ArgumentCheck, tuple[object, ...], Mapping[str, object]] | None:
    """Find the natural function that a callable calls, and the arguments that the callable holds already.

    Returns:
        The callable without those arguments, its check, and the arguments; None if it calls none.
    """
    first: tuple[object, ...] = ()
    keywords: Mapping[str, object] = {}
    while True:
        kind = type(function)
        if kind is MethodType:
            method = cast("MethodType", function)
            first, function = (method.__self__, *first), method.__func__
        elif kind is functools.partial:
            held = cast("partial[object]", function)
            first, keywords = (*held.args, *first), {**held.keywords, **keywords}
            function = held.func
        elif kind is MethodWrapperType and cast("MethodWrapperType", function).__name__ == "__call__":
            function = cast("MethodWrapperType", function).__self__
        elif kind is not FunctionType and type(declared := getattr(kind, "__call__", None)) is FunctionType:  # noqa: B004
            first, function = (function, *first), declared
        else:
            break
    check = _find_check(function)
    return None if check is None else (cast("Callable[..., object]", function), check, first, keywords)


def _find_check(function: object) -> ArgumentCheck | None:
    return cast("ArgumentCheck | None", getattr(_find_entry(function), "argument_check", None))


def promised_type(function: object) -> object:
    """The type of what a natural function returns; UNSET if it is none, or returns anything.

    Args:
        function: Any object.
    """
    found = _find_natural(function)
    return UNSET if found is None else getattr(_find_entry(found[0]), "return_type", UNSET)


def static_attribute(owner: object, name: str, default: object = None) -> object:
    """The attribute of an object, as far as it is found without running code.

    Args:
        owner: The object.
        name: The name of the attribute.
        default: The result where none is found.
    """
    found: Any = inspect.getattr_static(owner, name, default)
    if isinstance(found, staticmethod | classmethod):
        return cast("Any", found).__func__
    if isinstance(found, MemberDescriptorType):  # of a class with slots
        try:
            return found.__get__(owner, type(owner))
        except AttributeError:
            return default
    return found


def _find_entry(function: object) -> object:
    """Find what makes the calls of a natural function; None for others."""
    while type(function) is FunctionType:
        names = function.__code__.co_freevars
        if CLOSURE_NAMES[2] in names:
            return (function.__closure__ or ())[names.index(CLOSURE_NAMES[2])].cell_contents
        module = str(function.__globals__.get("__name__"))
        if module.partition(".")[0] != _PACKAGE or "__signature__" in function.__dict__:
            return None  # a decorator that may change the arguments
        function = cast("object", function.__dict__.get("__wrapped__"))
    return None


def captured_names(function: FunctionType) -> Mapping[str, object]:
    """Return the values of enclosing variables that a natural function has captured; empty for others.

    Args:
        function: The function.
    """
    check = _find_check(function)
    return {} if check is None else check.captured


class _CallChecks:
    """Stands in compiled code, where it gives each call its function."""

    def function_of(self, function: object) -> object:
        """Return the function of a call; of a natural function, one that validates its arguments."""
        if type(function) in _NEVER_NATURAL or _find_natural(function) is None:
            return function
        return partial(_call, cast("Callable[..., object]", function))


def _call(function: Callable[..., object], /, *args: object, **kwargs: object) -> object:
    checked, args, kwargs = cast("Any", with_checked_arguments(function, args, kwargs))
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
        called = cast("ast.Call", self.generic_visit(node))
        checks = ast.Attribute(value=ast.Constant(value=_PLACEHOLDER), attr="function_of", ctx=ast.Load())
        called.func = ast.Call(func=checks, args=[called.func], keywords=[])
        return called
