"""Resolving annotations when they are needed."""

import operator
from collections.abc import Generator, Iterator, Mapping
from types import CodeType, SimpleNamespace, UnionType
from typing import Annotated, Any, ForwardRef, Self, Union, get_args, get_origin, get_type_hints

from ..errors import AnnotationError
from .error_text import describe_error
from .expression import compile_expression, mentioned_names
from .step_context import StepContext
from .variadics import ItemsAnnotation, with_unpacked

__all__ = ["names_in_texts", "resolve_annotation", "resolve_references", "return_type", "returned_type"]


def resolve_annotation(annotation: object, context: StepContext, *, subject: str) -> object:
    """Turn an annotation into a type.

    Args:
        annotation: A type, the text of one, the compiled expression of one, or the annotation of a variadic
            parameter. A text stands in the function's signature, so it means names from around the function;
            an expression stands in the function's body.
        context: The step whose names it may use.
        subject: What is annotated, for the error.

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
            f"{describe_error(error)}; names used in it must exist at run time"
        ) from error


def resolve_references(
    annotation: object, global_names: dict[str, Any], local_names: Mapping[str, object]
) -> object:
    """Replace the texts in an annotation, `list["Item"]` for example, by the types they name.

    Args:
        annotation: A type, or the text of one.
        global_names: The globals of the module where it stands.
        local_names: Names that hide them.
    """
    while isinstance(annotation, str):
        annotation = eval(compile_expression(annotation), global_names, local_names)
    if annotation is None or (isinstance(annotation, type) and not hasattr(annotation, "__args__")):
        return annotation
    holder = SimpleNamespace(__annotations__={"annotation": annotation})
    return get_type_hints(holder, global_names, local_names, include_extras=True)["annotation"]


def names_in_texts(annotation: object) -> Iterator[str]:
    """The names that the texts in an annotation mention; none of a text that is no expression.

    Args:
        annotation: A type, or the text of one.
    """
    match annotation:
        case str(text) | ForwardRef(__forward_arg__=text):
            try:
                expression = f"({text},)" if text.lstrip().startswith("*") else text  # that of `*args`
                yield from mentioned_names(compile_expression(expression))
            except SyntaxError:
                return
        case _:
            for argument in get_args(annotation):
                yield from names_in_texts(argument)


def return_type(context: StepContext) -> object:
    """The type of what the function returns, `object` where the annotation does not say.

    A generator's annotation is about the generator; what it returns is the third argument of `Generator`.

    Raises:
        AnnotationError: The annotation cannot be resolved.
    """
    annotation = resolve_annotation(context.return_annotation, context, subject="the return value")
    return returned_type(annotation, is_generator=context.is_generator)


def returned_type(annotation: object, *, is_generator: bool) -> object:
    """Return the type that a function returns by its annotation; `Self` in it is any value.

    Args:
        annotation: The annotation, resolved.
        is_generator: Whether the function is a generator or async generator.
    """
    if is_generator:
        arguments = get_args(annotation)
        has_return = get_origin(annotation) is Generator and len(arguments) == 3
        annotation = arguments[2] if has_return else object
    return _without_self(annotation)


def _without_self(annotation: Any) -> object:
    """The same type with `Any` for `Self`, which pydantic knows inside of models only."""
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
