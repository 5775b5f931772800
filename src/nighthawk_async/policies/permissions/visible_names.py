"""Hiding from a step what its block does not name (`StepContextLimits.visible_names`)."""

import builtins
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import cast, get_args

from ...errors import ExecutionError
from ...natural.blocks import NaturalBlock
from ...runtime.annotations import return_type
from ...runtime.step_context import StepContext

__all__ = ["hide_unnamed"]


def hide_unnamed(
    context: StepContext,
    block: NaturalBlock,
    implicit_references: Mapping[str, object],
) -> None:
    """Leave a step only what its block names.

    That is what its author wrote in angle brackets, the exception types that it may raise, the scope's
    implicit references, and the classes of the values that it has to produce. An implicit reference hides a
    local variable of its name that the block does not name.

    Args:
        context: The state of the step, which has not begun.
        block: The block.
        implicit_references: Names that the scope makes available.
    """
    named = block.named.union(context.raise_error_types)
    types = dict(_types_to_produce(context))
    own = (named | types.keys()).intersection(context.step_locals)
    others = (named - block.local_names - block.free_names) | types.keys() | implicit_references.keys()
    for name in context.step_locals.keys() - own:
        del context.step_locals[name]
    globals_, others = context.step_globals, others - own
    context.referenced_globals = {name: globals_[name] for name in others if name in globals_}
    context.visible_builtins = frozenset(
        name for name in others if name not in globals_ and name in vars(builtins)
    )


def _types_to_produce(context: StepContext) -> Iterator[tuple[str, type]]:
    """The classes in the types of write bindings and of the return value, by their names in the block."""
    for kind in _classes_in((*context.binding_types.values(), *_return_types(context))):
        name = kind.__name__
        scope = context.step_locals if name in context.step_locals else context.step_globals
        if scope.get(name) is kind:
            yield name, kind


def _return_types(context: StepContext) -> tuple[object, ...]:
    if "return" not in context.allowed_kinds:
        return ()
    try:
        return (return_type(context),)
    except ExecutionError:  # a block that returns a value is told
        return ()


def _classes_in(annotations: Iterable[object]) -> Iterator[type]:
    """The classes that annotations are made of; of a member in `Literal`, its enumeration."""
    for annotation in annotations:
        if issubclass(type(annotation), type):  # not isinstance, which asks the value for its __class__
            yield cast("type", annotation)
        elif issubclass(type(annotation), Enum):
            yield type(annotation)
        yield from _classes_in(get_args(annotation))
        yield from _classes_in([value] if (value := getattr(annotation, "__value__", None)) else [])
