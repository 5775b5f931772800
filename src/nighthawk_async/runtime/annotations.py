"""Resolving annotations when they are needed. Floor 3."""

from types import CodeType

from ..errors import ExecutionError
from .expression import StepNamespace, compile_expression
from .step_context import StepContext

__all__ = ["resolve_annotation"]


def resolve_annotation(annotation: object, context: StepContext, *, subject: str) -> object:
    """Turn an annotation into a type.

    Args:
        annotation: A type, the text of one, or the compiled expression of one. None stands for `None`'s type.
        context: The step whose names the text may use.
        subject: What is annotated, for the error.

    Raises:
        ExecutionError: The text cannot be resolved.
    """
    if not isinstance(annotation, str | CodeType):
        return annotation
    namespace = StepNamespace(context)
    try:
        value = namespace.run(compile_expression(annotation) if isinstance(annotation, str) else annotation)
        while isinstance(value, str):
            value = namespace.run(compile_expression(value))
    except Exception as error:  # an annotation is any expression
        raise ExecutionError(
            f"step {context.step_id}: the annotation of {subject} cannot be resolved: "
            f"{type(error).__name__}: {error}; names used in it must exist at run time"
        ) from error
    return value
