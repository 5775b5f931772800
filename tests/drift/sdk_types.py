"""Comparison of JSON and of our wire shapes with the types of a provider's SDK.

Only what vanished counts. Fields and words that an SDK has got since are no difference: they are reported as
reasons of skipped tests.
"""

import enum
import types
from collections.abc import Iterable, Mapping, Set
from datetime import datetime
from functools import cache
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
)

import msgspec
import pytest
from pydantic import BaseModel
from typing_extensions import TypeAliasType, get_type_hints, is_typeddict

_ATOMS: Mapping[Any, tuple[type, ...]] = {
    str: (str,),
    bool: (bool,),
    int: (int,),
    float: (int, float),
    bytes: (str,),  # base64
    datetime: (str,),
    type(None): (type(None),),
}
"""The Python types of JSON. Types that are not here, those of files for example, are none of JSON."""


def variants_of(annotation: Any) -> list[Any]:
    """The types of a union, without its wrappers; one type alone when it is no union."""
    annotation = _unwrapped(annotation)
    if get_origin(annotation) in (Union, types.UnionType):
        return [variant for each in get_args(annotation) for variant in variants_of(each)]
    return [annotation]


def words_of(annotation: Any) -> set[str]:
    """The words that a type of literals, or an enumeration, allows."""
    words: set[str] = set()
    for variant in variants_of(annotation):
        if get_origin(variant) is Literal:
            words.update(each for each in get_args(variant) if isinstance(each, str))
        elif isinstance(variant, type) and issubclass(variant, enum.Enum):
            words.update(str(each.value) for each in variant)
    return words


@cache
def fields_of(form: Any) -> Mapping[str, Any]:
    """The fields of a model or typed dictionary, with their types, under their names in JSON."""
    if isinstance(form, type) and issubclass(form, BaseModel):
        return {field.alias or name: field.annotation for name, field in form.model_fields.items()}
    return get_type_hints(form, include_extras=True)


def vanished_fields(shape: type[msgspec.Struct], *forms: Any, of_others: Iterable[str] = ()) -> list[str]:
    """The fields of a wire shape that none of the SDK's types has.

    Args:
        shape: The wire shape.
        forms: The SDK's types that it stands for.
        of_others: Fields that only other servers send.
    """
    known = {name for form in forms for name in fields_of(form)}
    return [
        f"{shape.__qualname__}.{name}"
        for name in shape.__struct_encode_fields__
        if name not in known and name not in of_others
    ]


def differences(value: object, annotation: Any, path: str = "") -> list[str]:
    """The paths in JSON that a type does not allow.

    Args:
        value: The JSON.
        annotation: The type; of a union, the variant that fits best counts.
        path: The path of the value.
    """
    variants = variants_of(annotation)
    for name in ("type", "role"):
        if any(_is_named(value, each, name) for each in variants):
            variants = [each for each in variants if not _has_fields(each) or _is_named(value, each, name)]
    return min((_differences(value, each, path) for each in variants), key=len)


def _is_named(value: object, form: Any, discriminator: str) -> bool:
    if not isinstance(value, dict) or discriminator not in value or not _has_fields(form):
        return False
    return value[discriminator] in words_of(fields_of(form).get(discriminator))


def _differences(value: object, form: Any, path: str) -> list[str]:
    origin = get_origin(form)
    if form in (object, Any):
        return []
    if origin is Literal or (isinstance(form, type) and issubclass(form, enum.Enum)):
        allowed = get_args(form) if origin is Literal else [each.value for each in form]
        return [] if value in allowed else [f"{path} = {value!r}", path]  # worse than another variant's field
    if _has_fields(form):
        return _fields_differences(value, form, path)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return [] if isinstance(value, dict) else [f"{path} is {type(value).__name__}", path]
    if isinstance(origin, type) and issubclass(origin, Iterable):
        if not isinstance(value, list):
            return [f"{path} is {type(value).__name__}", path]
        inner = (get_args(form) or (Any,))[0]
        return [
            found
            for number, each in enumerate(value)
            for found in differences(each, inner, f"{path}[{number}]")
        ]
    return [] if isinstance(value, _ATOMS.get(form, ())) else [f"{path} is {type(value).__name__}", path]


def _fields_differences(value: object, form: Any, path: str) -> list[str]:
    if not isinstance(value, dict):
        return [f"{path} is {type(value).__name__}", path]
    fields, found = fields_of(form), list[str]()
    for name, each in value.items():
        inside = f"{path}.{name}" if path else name
        found += differences(each, fields[name], inside) if name in fields else [inside]
    return found


def _has_fields(form: Any) -> bool:
    return is_typeddict(form) or (isinstance(form, type) and issubclass(form, BaseModel))


def _unwrapped(annotation: Any) -> Any:
    while True:
        origin = get_origin(annotation)
        if origin in (Annotated, Required, NotRequired):
            annotation = get_args(annotation)[0]
        elif isinstance(annotation, TypeAliasType):
            annotation = annotation.__value__
        else:
            return annotation


def skip_if_new(sdk: str, what: str, new: Set[str], *, unused: Set[str] = frozenset()) -> None:
    """Report what an SDK has and the library does not know: the reason of a skipped test.

    Args:
        sdk: The package.
        what: A name for the words.
        new: The words that the library does not know.
        unused: Those of them that are known to mean nothing here; the list may only shrink.
    """
    assert unused <= new, f"no longer new, so strike these out: {sorted(unused - new)}"
    if names := sorted(new - unused):
        pytest.skip(f"{sdk} has {what} that the library does not know: {', '.join(names)}")


def types_in(union: Any) -> set[str]:
    """The words for the types in a union of models, in their field `type`."""
    return {word for form in variants_of(union) for word in words_of(fields_of(form)["type"])}
