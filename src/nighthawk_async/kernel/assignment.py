"""Values that a model hands over: assignments of `nh_assign`, and arguments of natural functions.

The model's code is compiled so that each of its calls asks here for the function to call. A natural function
is then called with validated arguments, or refused with an error of the kind `invalid_input`. Calls by the
program's own code stay as they are.
"""

import ast
import inspect
import operator
import re
import secrets
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from functools import cached_property, lru_cache, partial
from inspect import getattr_static
from keyword import iskeyword
from types import BuiltinFunctionType, CodeType, FunctionType, MethodDescriptorType
from typing import Any, Literal, TypeAlias, cast

from msgspec import Struct
from pydantic import BaseModel, ValidationError

from ..errors import ToolBoundaryError, ToolValidationError
from ..signatures import names_in_scope, read_signature, resolve_references
from ..values.error_text import describe_error, describe_validation_error
from ..values.plain_data import validate_data
from ..values.snapshots import Snapshot
from ..values.validation import NEW, Declared, ItemsAnnotation, can_validate, validate_value, with_unpacked
from .cells import is_of_call, printing_to_cell
from .code_calls import bounded
from .context import (
    Rewriting,
    StepContext,
    compile_tree,
    context_of_code,
    may_need_checks,
    parse_code,
    with_constant,
)
from .declared_types import (
    annotations_of,
    declared_field_type,
    declared_type,
    find_entry,
    find_natural,
    is_checkable,
    origin_of,
)

_TARGET_PATH = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*", re.ASCII)
_ANOTHER_WAY = "Assign another value, or change the object by its methods."


class AssignmentTarget(Struct, frozen=True, kw_only=True):
    """A parsed target path.

    Args:
        root: The name in the step locals.
        fields: The attributes below it; empty for a bare name.
    """

    root: str
    fields: tuple[str, ...]

    def __str__(self) -> str:
        return ".".join((self.root, *self.fields))


def parse_target_path(text: str) -> AssignmentTarget:
    """Parse `name ("." field)*`.

    Raises:
        ToolBoundaryError: The path does not follow the grammar, or a segment starts with `__`.
    """
    if not _TARGET_PATH.fullmatch(text) or any(iskeyword(segment) for segment in text.split(".")):
        raise ToolBoundaryError(
            kind="invalid_input",
            message=f"target_path {text!r} is not of the form name or name.field",
            guidance="Use ASCII identifiers separated by dots, without angle brackets or subscripts.",
        )
    root, *fields = text.split(".")
    for segment in (root, *fields):
        if segment.startswith("__"):
            raise ToolBoundaryError(
                kind="invalid_input",
                message=f"target_path {text!r} has the reserved segment {segment!r}",
                guidance="Segments that start with two underscores cannot be assigned.",
            )
    return AssignmentTarget(root=root, fields=tuple(fields))


MISSING = object()
"""Stands for the value of a name that has none."""


class undoing:  # noqa: N801  (a context manager that reads as a function at its call)
    """Give names their values back if the block raises, or when called. Each assignment enters it twice."""

    __slots__ = ("_before", "_names")

    def __init__(self, names: dict[str, object], before: Mapping[str, object]) -> None:
        self._names = names
        self._before = before

    def __enter__(self) -> None:
        pass

    def __exit__(self, exc_type: object, exc: BaseException | None, traceback: object) -> None:
        if exc is not None:
            self()

    def __call__(self) -> None:
        """Give them back."""
        for name, value in self._before.items():
            if value is MISSING:
                self._names.pop(name, None)
            else:
                self._names[name] = value


def assign(
    context: StepContext,
    target: AssignmentTarget,
    value: object,
    *,
    is_data: bool = False,
    declared: Declared = NEW,
) -> object:
    """Assign a value, or change nothing.

    Args:
        context: The state of the step.
        target: The target.
        value: The value, not yet validated.
        is_data: Whether the value is decoded JSON, and not a Python object.
        declared: The declared type of the value.

    Returns:
        The value as it was stored.

    Raises:
        ToolValidationError: The value does not match the type of the binding or field.
        ToolBoundaryError: The path does not lead to an object, or the object refused the attribute.
    """

    def validate(annotation: object, subject: str) -> object:
        if is_data:
            return validate_data(value, annotation, subject=subject)
        origin = origin_of(value, annotation, declared, context)
        return validate_value(value, annotation, subject=subject, origin=origin)

    if target.fields:
        return _assign_field(context, target, validate)
    annotation = context.binding_types.get(target.root, object)
    stored = validate(annotation, f"write binding '{target.root}'")
    if target.root in context.write_names:
        context.settle(target.root, stored)
        context.assigned_names.add(target.root)
    else:
        context.step_locals[target.root] = stored
        if target.root not in context.helper_names:
            context.lost_names.add(target.root)
    return stored


def _assign_field(
    context: StepContext, target: AssignmentTarget, validate: Callable[[object, str], object]
) -> object:
    owner = _resolve_owner(context, target)
    field = target.fields[-1]
    stored = validate(_field_type(owner, field), f"field '{target}'")
    root = context.step_locals[target.root]
    context.changes.remember((target.root,))  # the owner may be part of any of the objects
    with _unchanged_on_failure(root, owner, target):
        setattr(owner, field, stored)
    context.changes.mark(target.root, root)
    if target.root in context.write_names:
        context.assigned_names.add(target.root)
    return stored


@contextmanager
def _unchanged_on_failure(
    root: object, owner: object, target: AssignmentTarget
) -> Generator[None, None, None]:
    """Restore the state if a setter or validator refuses a value half way.

    Restored are the owner, the object that stores the attribute for it, and everything reachable from it and
    from the root of the path. Changes that a setter makes elsewhere, in a global variable for example, stay.
    """
    descriptor = getattr_static(type(owner), target.fields[-1], None)
    before = Snapshot(owner, descriptor, root)
    try:
        yield
    except BaseException as error:  # a user's property, `__setattr__` or validator may raise anything
        before.restore()
        if isinstance(error, KeyboardInterrupt) and is_of_call(error):
            raise
        if isinstance(error, ValidationError):
            what = f"field '{target}'"
            message = f"{what}: {describe_validation_error(error)}"
            raise ToolValidationError(message).without_content(f"{what} does not take the value") from error
        what = f"cannot assign '{target}'"
        message = f"{what}: {describe_error(error)}"
        refused = ToolBoundaryError(kind="execution", message=message, guidance=_ANOTHER_WAY)
        raise refused.without_content(what) from error


def _resolve_owner(context: StepContext, target: AssignmentTarget) -> object:
    if target.root not in context.step_locals:
        raise ToolBoundaryError(
            kind="resolution",
            message=f"'{target.root}' is not a local name of this step",
            guidance="Assign to a field of a name shown under LOCALS.",
        )
    owner = context.step_locals[target.root]
    for field in target.fields[:-1]:
        try:
            owner = getattr(owner, field)
        except Exception as error:  # a property of the user's object may raise anything
            raise ToolBoundaryError(
                kind="resolution",
                message=f"cannot reach '{target}' at '.{field}': {describe_error(error)}",
                guidance="Assign to a field that its object has.",
            ) from error
    return owner


def _field_type(owner: object, field: str) -> object:
    """The declared type of a field.

    It is `object` if the owner's class declares none that values can be validated against, or if it validates
    assignments itself.
    """
    if isinstance(owner, BaseModel) and owner.model_config.get("validate_assignment"):
        return object
    declared = declared_field_type(owner, field)
    return declared if can_validate(declared) else object


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
        captured: Values of enclosing variables that Python made no cell for.
    """

    def __init__(
        self,
        function: FunctionType,
        *,
        captured: Mapping[str, object],
    ) -> None:
        self._function = function
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
        function = self._function
        annotation = annotations_of(function).get(parameter, object)
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
        return printing_to_cell(function), args, kwargs
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
        """Return the function of a call, with the bounds of those written in C.

        That of a natural function validates its arguments.
        """
        if type(function) in _NEVER_NATURAL and function is not print:
            return bounded(function)
        if find_natural(function) is None:
            return printing_to_cell(cast("Callable[..., object]", function))
        context = context_of_code(sys._getframe(1))  # pyright: ignore[reportPrivateUsage]
        declared: _Declarations = ((), {}) if context is None else _declared_arguments(sources, context)
        return partial(_call, cast("Callable[..., object]", function), declared)


def _call(
    function: Callable[..., object], declared: _Declarations, /, *args: object, **kwargs: object
) -> object:
    checked, args, kwargs = cast("Any", with_checked_arguments(function, args, kwargs, declared))
    return checked(*args, **kwargs)


def with_checked_calls(
    text: str, code: CodeType, mode: Literal["eval", "exec"], rewriting: Rewriting | None = None
) -> CodeType:
    """Return code in which the natural functions that it calls validate their arguments; see `cells` too.

    Args:
        text: Its text.
        code: The code as it is compiled without the checks.
        mode: Whether it is an expression or statements.
        rewriting: A change of it; None for none.

    Raises:
        ToolBoundaryError: It is nested too deeply for the change.
        SyntaxError: It may run for long by itself, and is nested too deeply for the checks that end it.
    """
    needs_checks = may_need_checks(text)
    if mode == "eval" and rewriting is None and "(" not in text and not needs_checks:
        return code
    checked = _compile_checked(text, code.co_filename, mode, rewriting)
    if checked is None and rewriting is not None:
        raise ToolBoundaryError(kind="invalid_input", message="the code is nested too deeply")
    if checked is None and needs_checks:
        raise SyntaxError("the code is nested too deeply")
    return checked or code


@lru_cache(maxsize=1024)
def _compile_checked(
    text: str, filename: str, mode: str, rewriting: Rewriting | None = None
) -> CodeType | None:
    """Compile code with the checks; return None if it is nested too deeply for them."""
    try:
        tree = _Checking().visit(parse_code(text, filename=filename, mode=mode))
        checked = compile_tree(tree, text, filename=filename, mode=mode, rewriting=rewriting)
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
