"""The names of the program that code in a sandbox can use: those that the prompt shows."""

from collections.abc import Iterator
from typing import cast, get_args

from ..kernel.context import StepContext
from ..types.unset import UNSET


def visible_value(name: str, context: StepContext) -> object:
    """The value of a name; UNSET for one that the prompt does not show."""
    if name in context.step_locals and name not in context.inherited_names:
        return context.step_locals[name]
    if name in context.referenced_globals:
        return context.referenced_globals[name]
    if name in context.raise_error_types:
        return context.raise_error_types[name]
    value: object = context.step_globals.get(name, UNSET)
    is_shown = isinstance(value, type) and any(each is value for each in _shown_types(context))
    return value if is_shown else UNSET


def _shown_types(context: StepContext) -> Iterator[object]:
    yield from context.shown_types
    annotations = (*context.binding_types.values(), *context.parameter_annotations.values())
    yield from _classes_in((*annotations, context.return_annotation))
    yield from map(type, context.shown_locals.values())


def _classes_in(annotations: tuple[object, ...]) -> Iterator[object]:
    for annotation in annotations:
        yield annotation
        yield from _classes_in(cast("tuple[object, ...]", get_args(annotation)))
