"""Types of values that are images, sounds and other media."""

from collections.abc import Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from ..types.messages import BinaryContent, FileUrl


def media_classes(annotation: object) -> tuple[type[Any], ...]:
    """The classes of media that a type takes, alone or in a list; none for another type.

    Args:
        annotation: The type of a write binding, or of the return value.
    """
    origin, arguments = get_origin(annotation), get_args(annotation)
    if isinstance(annotation, type) and origin is None:
        return (annotation,) if issubclass(annotation, BinaryContent | FileUrl) else ()
    if origin is Annotated:
        return media_classes(arguments[0])
    if origin in (list, tuple, Sequence):
        return media_classes(arguments[0]) if arguments and arguments[1:] in ((), (...,)) else ()
    if origin in (Union, UnionType):
        members = [each for each in arguments if each is not NoneType]
        found = [media_classes(each) for each in members]
        return tuple(each for classes in found for each in classes) if all(found) else ()
    return ()


def is_list_type(annotation: object) -> bool:
    """Whether a type of media takes a list of them.

    Args:
        annotation: The type.
    """
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return is_list_type(arguments[0])
    if origin in (Union, UnionType):
        return any(is_list_type(each) for each in arguments)
    return origin in (list, tuple, Sequence)


def is_optional_type(annotation: object) -> bool:
    """Whether a type takes None.

    Args:
        annotation: The type.
    """
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return is_optional_type(arguments[0])
    return origin in (Union, UnionType) and NoneType in arguments
