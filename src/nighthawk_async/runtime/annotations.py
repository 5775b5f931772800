"""Resolution of annotations when they are needed, and validation of returned values against them.

A value that a block returns is validated when its step ends; a value that Python code returns is validated by
the `ReturnCheck` of the function. Both use `validated_return`.
"""

import operator
import reprlib
import warnings
from collections.abc import Callable, Generator, Mapping
from types import CodeType, FunctionType, UnionType
from typing import (
    Annotated,
    Any,
    Never,
    NoReturn,
    Self,
    Union,
    get_args,
    get_origin,
)

from ..errors import AnnotationError, ExecutionError, ToolValidationError
from ..signatures import HOW_NAMES_ARE_FOUND, names_in_scope, resolve_references
from ..types.unset import UNSET
from .error_text import describe_error
from .step_context import StepContext
from .validation import ItemsAnnotation, Origin, can_validate, type_name, validate_value, with_unpacked


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


class ReturnCheck:
    """Validates the values that the Python code of one function returns.

    The annotation is resolved when it is needed, because it may use names that are defined later.

    Args:
        function: The function.
        annotations: Returns its annotations.
        captured: Values of enclosing variables that Python made no cell for.
        is_generator: Whether it is a generator.
    """

    def __init__(
        self,
        function: FunctionType,
        *,
        annotations: Callable[[], Mapping[str, object]],
        captured: Mapping[str, object],
        is_generator: bool,
    ) -> None:
        self._function = function
        self._annotations = annotations
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
        annotation = self._annotations().get("return", object)
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

    @property
    def accepts_values(self) -> bool:
        """Whether the function may return anything at all."""
        return not _is_never(self.annotation)

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
