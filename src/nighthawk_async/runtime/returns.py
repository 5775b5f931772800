"""Validation of returned values against annotations, whichever way a function returns.

What a block returns is validated when its step ends, what Python code returns by the `ReturnCheck` of the
function; both come to `validated_return`.
"""

import reprlib
import warnings
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any, Never, NoReturn

from ..errors import ExecutionError, ToolValidationError
from ..types.unset import UNSET
from .annotations import resolve_references, returned_type
from .validation import can_validate, type_name, validate_value

__all__ = ["ReturnCheck", "validated_return", "variables_of"]

_SUBJECT = "the return value"


def validated_return(value: object, annotation: object) -> object:
    """Validate what a function is about to return.

    Args:
        value: The value.
        annotation: The type.

    Returns:
        The value itself where validation changed nothing of it, else what it was converted to.

    Raises:
        ToolValidationError: It does not match.
        AnnotationError: No value can be validated against the type.
    """
    if _is_never(annotation):
        raise ToolValidationError(f"the function must not return: its annotation is {type_name(annotation)}")
    return validate_value(value, annotation, subject=_SUBJECT)


class ReturnCheck:
    """Validates what the Python code of one function returns.

    The annotation is resolved when it is needed, because it may name what comes later.

    Args:
        function: The function.
        annotations: Gives its annotations.
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
        """The type of what is returned; `object` where it cannot be resolved or validated, so is not checked.

        It may name what exists for type checkers alone. A block that returns a value fails then, because its
        model has to know the type; a `return` statement need not.
        """
        if self._annotation is UNSET:
            try:
                annotation = self._resolved()
            except Exception:  # an annotation is any expression, and what it names may come later
                return object
            self._annotation = annotation if _is_checkable(annotation) else object
        return self._annotation

    def _resolved(self) -> object:
        function = self._function
        names = {**self._captured, **variables_of(function)}
        annotation = self._annotations().get("return", object)
        resolved = resolve_references(annotation, function.__globals__, names)
        return returned_type(resolved, is_generator=self._is_generator)

    @property
    def accepts_none(self) -> bool:
        """Whether the function may come to its end."""
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

    def returned(self, value: object) -> object:
        """Validate what a `return` statement returns.

        Raises:
            ExecutionError: It is not what the annotation promises.
        """
        return self._validated(value, lambda: f"returned {reprlib.repr(value)}")

    def fell_off(self) -> object:
        """Return the value of a function that reaches its end.

        Raises:
            ExecutionError: The annotation excludes None.
        """
        return self._validated(None, lambda: "came to its end without a return, so it returned None")

    def _validated(self, value: object, what_happened: Callable[[], str]) -> object:
        annotation = self.annotation
        if annotation is object or annotation is Any:
            return value
        try:
            return validated_return(value, annotation)
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


def _is_checkable(annotation: object) -> bool:
    """Whether pydantic can validate values of a type."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it accepts everything for a type of type checkers, and says so
        return _is_never(annotation) or can_validate(annotation)


def variables_of(function: FunctionType) -> dict[str, object]:
    """The variables that a function closes over, those without a value left out.

    Args:
        function: The function.
    """
    variables: dict[str, object] = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            variables[name] = cell.cell_contents
        except ValueError:
            continue
    return variables
