"""Annotations, resolved when they are needed, and the declared types of what expressions name.

A value that a block returns is validated when its step ends; a value that Python code returns is validated by
the `ReturnCheck` of the function. Both use `validated_return`.

A value that has a declared type was converted to it already, or belongs to Python code that promises the
type. So an expression that only names such a value is not converted to the same type again. The value of any
other expression is new, and is converted once.
"""

import ast
import functools
import inspect
import operator
import reprlib
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import InitVar
from functools import lru_cache, partial
from types import CodeType, FunctionType, MemberDescriptorType, MethodType, MethodWrapperType, UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
    Literal,
    NamedTuple,
    Never,
    NoReturn,
    Self,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import BaseModel

from ..errors import AnnotationError, ExecutionError, ToolValidationError
from ..natural.tree import CLOSURE_NAMES
from ..signatures import HOW_NAMES_ARE_FOUND, names_in_scope, read_annotations, resolve_references
from ..types.unset import UNSET
from ..values.error_text import describe_error
from ..values.validation import (
    NEW,
    Declared,
    ItemsAnnotation,
    Origin,
    can_validate,
    type_name,
    validate_value,
    with_unpacked,
)
from .context import StepContext, parse_code

_PACKAGE = __name__.partition(".")[0]


class NaturalCall(NamedTuple):
    """The natural function that a callable calls.

    Attributes:
        function: The callable without the arguments that it holds.
        entry: What makes the calls of the function.
        first: The positional arguments that it holds.
        keywords: The keyword arguments that it holds.
    """

    function: Callable[..., object]
    entry: object
    first: tuple[object, ...]
    keywords: Mapping[str, object]


def find_natural(function: object) -> "NaturalCall | None":
    """Find the natural function that a callable calls; None if it calls none.

    Args:
        function: Any object.
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
    entry = find_entry(function)
    if entry is None:
        return None
    return NaturalCall(cast("Callable[..., object]", function), entry, first, keywords)


def is_natural(function: object) -> bool:
    """Whether a callable calls a natural function, which validates what it returns.

    Args:
        function: Any object.
    """
    return find_natural(function) is not None


def promised_type(function: object) -> object:
    """The type of what a natural function returns; UNSET if it is none, or returns anything.

    Args:
        function: Any object.
    """
    found = find_natural(function)
    return UNSET if found is None else getattr(found.entry, "return_type", UNSET)


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


def find_entry(function: object) -> object:
    """Find what makes the calls of a natural function; None for others.

    Args:
        function: Any object.
    """
    while type(function) is FunctionType:
        names = function.__code__.co_freevars
        if CLOSURE_NAMES[2] in names:
            return (function.__closure__ or ())[names.index(CLOSURE_NAMES[2])].cell_contents
        module = str(function.__globals__.get("__name__"))
        if module.partition(".")[0] != _PACKAGE or "__signature__" in function.__dict__:
            return None  # a decorator that may change the arguments
        function = cast("object", function.__dict__.get("__wrapped__"))
    return None


def resolve_annotation(annotation: object, context: StepContext, *, subject: str) -> object:
    """Resolve an annotation to a type.

    Args:
        annotation: A type, the text of one, the compiled expression of one, or the annotation of a variadic
            parameter. A text comes from the function's signature, so its names are resolved in the enclosing
            scope; an expression comes from the function's body.
        context: The step whose names it may use.
        subject: The annotated thing, for the error.

    Raises:
        AnnotationError: It cannot be resolved.
    """
    names = context.enclosing_names
    try:
        if isinstance(annotation, CodeType):
            names = {**names, **context.step_locals}
            annotation = eval(annotation, context.step_globals, names)
        if type(annotation) is type:  # as most are: nothing in it is left to resolve
            return annotation
        if isinstance(annotation, ItemsAnnotation):
            item = resolve_references(annotation.resolvable, context.step_globals, names)
            return annotation.type_of(item)
        return with_unpacked(resolve_references(annotation, context.step_globals, names))
    except Exception as error:  # an annotation is any expression
        raise AnnotationError(
            f"step {context.step_id}: the annotation of {subject} cannot be resolved: "
            f"{describe_error(error)}; {HOW_NAMES_ARE_FOUND}"
        ) from error


def return_type(context: StepContext) -> object:
    """The type of the values that the function returns; `object` if the annotation does not say.

    For a generator, this is the third argument of `Generator`.

    Raises:
        AnnotationError: The annotation cannot be resolved.
    """
    annotation = resolve_annotation(context.return_annotation, context, subject="the return value")
    return returned_type(annotation, is_generator=context.is_generator)


def returned_type(annotation: object, *, is_generator: bool) -> object:
    """Return the type that a function returns according to its annotation; `Self` in it means any value.

    Args:
        annotation: The resolved annotation.
        is_generator: Whether the function is a generator or async generator.
    """
    if is_generator:
        arguments = get_args(annotation)
        has_return = get_origin(annotation) is Generator and len(arguments) == 3
        annotation = arguments[2] if has_return else object
    return _without_self(annotation)


def _without_self(annotation: Any) -> object:
    """The type with `Any` for `Self`, which pydantic supports only inside models."""
    arguments = get_args(annotation)
    if not arguments:
        return Any if annotation is Self else annotation
    changed = tuple(map(_without_self, arguments))
    if all(map(operator.is_, changed, arguments)):
        return annotation
    if get_origin(annotation) in (Union, UnionType):
        return Union[changed]  # noqa: UP007 - of members that are known at run time only
    if get_origin(annotation) is Annotated:
        return Annotated[(changed[0], *annotation.__metadata__)]
    return (
        annotation.copy_with(changed) if hasattr(annotation, "copy_with") else get_origin(annotation)[changed]
    )


_SUBJECT = "the return value"


def validated_return(value: object, annotation: object, *, origin: Origin = "new") -> object:
    """Validate a value that a function is about to return.

    Args:
        value: The value.
        annotation: The type.
        origin: The origin of the value.

    Returns:
        The value itself if validation changed nothing, else the converted value.

    Raises:
        ToolValidationError: It does not match.
        AnnotationError: No value can be validated against the type.
    """
    if _is_never(annotation):
        raise ToolValidationError(f"the function must not return: its annotation is {type_name(annotation)}")
    return validate_value(value, annotation, subject=_SUBJECT, origin=origin)


_VARIADIC_KINDS: tuple[tuple[int, Literal["positional", "keyword"]], ...] = (
    (inspect.CO_VARARGS, "positional"),
    (inspect.CO_VARKEYWORDS, "keyword"),
)


def annotations_of(function: FunctionType) -> Mapping[str, object]:
    """Return the annotations of a function; those of `*args` and `**kwargs` are marked as those of items."""
    annotations: dict[str, object] = read_annotations(function)
    code = function.__code__
    position = code.co_argcount + code.co_kwonlyargcount
    for flag, kind in _VARIADIC_KINDS:
        if not code.co_flags & flag:
            continue
        name = code.co_varnames[position]
        position += 1
        if name in annotations:
            annotations[name] = ItemsAnnotation(annotation=annotations[name], kind=kind)
    return annotations


class ReturnCheck:
    """Validates the values that the Python code of one function returns.

    The annotation is resolved when it is needed, because it may use names that are defined later.

    Args:
        function: The function.
        captured: Values of enclosing variables that Python made no cell for.
        is_generator: Whether it is a generator.
    """

    def __init__(
        self,
        function: FunctionType,
        *,
        captured: Mapping[str, object],
        is_generator: bool,
    ) -> None:
        self._function = function
        self._captured = captured
        self._is_generator = is_generator
        self._annotation: object = UNSET
        self._accepts_none: bool | None = None

    @property
    def annotation(self) -> object:
        """The type of returned values; `object`, which is not checked, if it cannot be resolved or validated.

        It may name what only type checkers know. Then a block that returns a value fails, because its model
        has to know the type; a `return` statement does not.
        """
        if self._annotation is UNSET:
            try:
                annotation = self._resolved()
            except Exception:  # an annotation is any expression, and its names may be defined later
                return object
            self._annotation = annotation if is_checkable(annotation) else object
        return self._annotation

    def _resolved(self) -> object:
        function = self._function
        names = {**self._captured, **names_in_scope(function)}
        annotation = annotations_of(function).get("return", object)
        resolved = with_unpacked(resolve_references(annotation, function.__globals__, names))
        return returned_type(resolved, is_generator=self._is_generator)

    @property
    def accepts_none(self) -> bool:
        """Whether the function may end without a `return` statement."""
        if self._accepts_none is None:
            try:
                self._validated(None, str)
            except ExecutionError:
                self._accepts_none = False
            else:
                self._accepts_none = True
        return self._accepts_none

    def returned(self, value: object, origin: Origin = "new") -> object:
        """Validate the value of a `return` statement.

        Args:
            value: The value.
            origin: Its origin.

        Raises:
            ExecutionError: It does not match the annotation.
        """
        return self._validated(value, lambda: f"returned {reprlib.repr(value)}", origin)

    def fell_off(self) -> object:
        """Return the value of a function that reaches its end.

        Raises:
            ExecutionError: The annotation excludes None.
        """
        return self._validated(None, lambda: "ended without a return statement, so it returned None")

    def _validated(self, value: object, what_happened: Callable[[], str], origin: Origin = "new") -> object:
        annotation = self.annotation
        if annotation is object or annotation is Any:
            return value
        try:
            return validated_return(value, annotation, origin=origin)
        except ToolValidationError as error:
            message = (
                f"{self._name} {what_happened()}, which is not what its annotation promises: {error}; "
                "return what is promised, or change the annotation"
            )
            without_content = f"{self._name}: {error.message_without_content}"
            raise ExecutionError(message).without_content(without_content) from error

    @property
    def _name(self) -> str:
        return f"{self._function.__module__}.{self._function.__qualname__}()"


def _is_never(annotation: object) -> bool:
    return annotation is NoReturn or annotation is Never


def is_checkable(annotation: object) -> bool:
    """Whether pydantic can validate values of a type."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pydantic warns of types that only type checkers use
        return _is_never(annotation) or can_validate(annotation)


_MISSING = object()


def declared_type(expression: str, context: StepContext) -> Declared:
    """The declared type of the value of an expression.

    Args:
        expression: The expression, not yet evaluated.
        context: The state of the step.
    """
    node = _parsed(expression)
    return NEW if node is None else _type_of(node, context)


def origin_of(value: object, annotation: object, declared: Declared, context: StepContext) -> Origin:
    """The origin of the value of an expression.

    Args:
        value: The value.
        annotation: The type that it must have.
        declared: The declared type of the expression.
        context: The state of the step.
    """
    origin = declared.origin(annotation, value)
    name = context.converted_name(value, annotation) if origin == "new" else None
    if name is None:
        return origin
    return "changed" if context.changes.is_changed(name) else "converted"


def settle_copies(statements: str, context: StepContext) -> None:
    """Note which names the statements have set to values that need no conversion.

    Looked at are the assignments of the statements themselves, not those inside loops, functions or branches.

    Args:
        statements: The statements, which have been executed.
        context: The state of the step.
    """
    for name, value in _assigned(statements).items():
        context.copies.pop(name, None)
        if name not in context.step_locals:
            continue
        held = context.step_locals[name]
        declared = NEW if value is None else _type_of(value, context)
        if name not in context.binding_types:
            if declared is not NEW:
                context.copies[name] = declared, held
            continue
        origin = origin_of(held, context.binding_types[name], declared, context)
        if origin in ("converted", "changed"):
            context.settle(name, held)
            if origin == "changed":
                context.changes.mark(name, held)
        elif origin == "declared":
            context.declared[name] = held
        elif value is not None:
            context.converted.pop(name, None)  # an equal number may be the same object


@lru_cache(maxsize=256)
def _parsed(expression: str) -> ast.expr | None:
    try:
        tree = parse_code(expression.strip(), filename="<expression>", mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None
    return tree.body if isinstance(tree, ast.Expression) else None


@lru_cache(maxsize=64)
def _assigned(statements: str) -> Mapping[str, ast.expr | None]:
    """The names that statements assign, each with its last value; None where that is no whole expression."""
    values: dict[str, ast.expr | None] = {}
    try:
        tree = parse_code(statements, filename="<statements>", mode="exec")
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return values
    for statement in tree.body if isinstance(tree, ast.Module) else ():
        match statement:
            case ast.Assign(targets=targets, value=value):
                found: ast.expr | None = value
            case ast.AnnAssign(target=target, value=value) if value is not None:
                targets, found = [target], value
            case _:
                targets, found = [], None
        whole = {target.id for target in targets if isinstance(target, ast.Name)}
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
                values[node.id] = found if node.id in whole else None
    return values


def _type_of(node: ast.expr, context: StepContext) -> Declared:
    match node:
        case ast.Name(id=name):
            return _type_of_variable(name, context)
        case ast.Attribute(value=owner, attr=name):
            found = _value_of(owner, context)
            return NEW if found is _MISSING else Declared(declared_field_type(found, name))
        case ast.Subscript(value=container):
            declared = _type_of(container, context)
            if declared.values is not None:
                return NEW
            return Declared(_item_type(declared.annotation), declared.is_converted)
        case ast.Await(value=inner) | ast.NamedExpr(value=inner):
            return _type_of(inner, context)
        case ast.IfExp(body=first, orelse=second):
            return _type_of_one((first, second), context)
        case ast.BoolOp(values=values):
            return _type_of_one(values, context)
        case ast.Call(func=function):
            found = _value_of(function, context)
            return NEW if found is _MISSING else Declared(promised_type(found), is_converted=True)
        case _:
            return NEW


def _type_of_one(nodes: Sequence[ast.expr], context: StepContext) -> Declared:
    """The declared type of one of several expressions; where not all have it, only the values of those do."""
    found = [(node, _type_of(node, context)) for node in nodes]
    declared = [(node, each) for node, each in found if each.annotation is not UNSET]
    kinds = [each.annotation for _, each in declared]
    if not kinds or any(kind != kinds[0] for kind in kinds):
        return NEW
    is_converted = all(each.is_converted for _, each in declared)
    if len(declared) == len(found) and all(each.values is None for _, each in declared):
        return Declared(kinds[0], is_converted)
    values: list[object] = []
    for node, each in declared:
        values += (_value_of(node, context),) if each.values is None else each.values
    return Declared(kinds[0], is_converted, tuple(each for each in values if each is not _MISSING))


def _type_of_variable(name: str, context: StepContext) -> Declared:
    value = context.step_locals.get(name, _MISSING)
    if value is _MISSING:
        return NEW
    if name in context.binding_types:
        is_converted = context.is_converted(name, value)
        is_valid = is_converted or context.initial_values.get(name, _MISSING) is value
        return Declared(context.binding_types[name], is_converted) if is_valid else NEW
    declared, copied = context.copies.get(name, (NEW, _MISSING))
    if copied is value:
        return cast("Declared", declared)
    if context.initial_variables.get(name, _MISSING) is not value:
        return NEW
    try:
        annotation = context.variable_annotations[name]
        return Declared(resolve_annotation(annotation, context, subject=f"'{name}'"))
    except Exception:  # an annotation is any expression
        return NEW


def _value_of(node: ast.expr, context: StepContext) -> object:
    """The value of a dotted name, as far as it is found without running code."""
    match node:
        case ast.Name(id=name):
            return context.step_locals.get(name, context.visible_globals.get(name, _MISSING))
        case ast.Attribute(value=owner, attr=name):
            found = _value_of(owner, context)
            return _MISSING if found is _MISSING else static_attribute(found, name, _MISSING)
        case _:
            return _MISSING


def declared_field_type(owner: object, field: str) -> object:
    """The type that the class of an object declares for a field; `object` if it declares none.

    Args:
        owner: The object.
        field: The name of the field.
    """
    if isinstance(owner, BaseModel):
        info = type(owner).model_fields.get(field)
        return object if info is None else info.rebuild_annotation()
    try:
        declared = get_type_hints(type(owner), include_extras=True).get(field, object)
    except Exception:  # an annotation is any expression; one that raises gives no type
        return object
    if get_origin(declared) in (ClassVar, Final):
        return next(iter(get_args(declared)))
    return object if declared in (ClassVar, Final) or isinstance(declared, InitVar) else declared


def _item_type(container: object) -> object:
    arguments = get_args(container)
    kind: Any = get_origin(container)
    if not isinstance(kind, type):
        return UNSET
    if issubclass(kind, Mapping):
        return arguments[1] if len(arguments) == 2 else UNSET
    if issubclass(kind, tuple):
        return arguments[0] if len(arguments) == 2 and arguments[1] is Ellipsis else UNSET
    return arguments[0] if len(arguments) == 1 and issubclass(kind, Sequence) else UNSET
