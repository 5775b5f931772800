"""The variables of a block in which JSON stays JSON, because their types make no objects of it."""

from collections import deque
from typing import Annotated, Any, Literal, get_args, get_origin

from ..prompt.scalars import PLAIN_TYPES
from ..runtime.step_context import StepContext

_ANYTHING = frozenset({id(object), id(Any)})
_CONTAINERS = frozenset(map(id, (list, dict, set, frozenset, tuple, deque)))
"""The types by identity, because any object may be an annotation."""


def plain_names(context: StepContext) -> frozenset[str]:
    """The write bindings in which JSON stays JSON though the block may mean objects.

    These are the ones without a type, and the ones of lists and dicts of anything if the program names a
    class: there a model may write the text of a member of an enumeration, for example, and it stays a text.

    Args:
        context: The state of the step.
    """
    types = {name: context.binding_types.get(name, object) for name in context.write_names}
    untyped = {name for name, annotation in types.items() if id(annotation) in _ANYTHING}
    plain = {name for name, annotation in types.items() if _stays_json(annotation)}
    return frozenset(plain if plain != untyped and _names_class(context) else untyped)


def _stays_json(annotation: object) -> bool:
    if id(annotation) in PLAIN_TYPES:
        return False
    if id(annotation) in _ANYTHING or id(annotation) in _CONTAINERS:
        return True
    arguments: tuple[object, ...] = get_args(annotation)
    if get_origin(annotation) is Literal:
        return False
    return any(map(_stays_json, arguments[:1] if get_origin(annotation) is Annotated else arguments))


def _names_class(context: StepContext) -> bool:
    """Whether the program names a class that is no exception."""
    for reference in context.references:
        value = context.step_locals.get(reference, context.referenced_globals.get(reference))
        # Not isinstance, which reads `__class__` of the value.
        if issubclass(type(value), type) and not issubclass(value, BaseException):  # pyright: ignore[reportArgumentType]
            return True
    return False
