"""Parameters of tools that take no single named value: `*more`, `**options`, and those before a `/`. Pure.

To a model, `*more` is an optional list and `**options` an optional object, under these names; what stands
before a `/` is a parameter like any other. Their annotations are those of the items.
"""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, Unpack, get_args, get_origin

from typing_extensions import is_typeddict  # that of typing knows its own alone

from ..types.json import is_json_object, is_list_or_tuple
from ..values.validation import with_unpacked

Values: TypeAlias = Mapping[str, object]

_BY_KEYWORD = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def whole_type(parameter: inspect.Parameter, annotation: Any) -> object:
    """The type of everything that a parameter takes.

    Args:
        parameter: The parameter.
        annotation: Its annotation, resolved.
    """
    if parameter.kind is parameter.VAR_KEYWORD:
        return _unpacked_keywords(annotation) or dict[str, annotation]
    if parameter.kind is not parameter.VAR_POSITIONAL:
        return with_unpacked(annotation)
    unpacked = with_unpacked(tuple[annotation])
    return unpacked if unpacked != tuple[annotation] else list[with_unpacked(annotation)]


def _unpacked_keywords(annotation: object) -> object | None:
    if get_origin(annotation) is not Unpack:
        return None
    return get_args(annotation)[0]


def default_of(parameter: inspect.Parameter, whole: object) -> object:
    """The value of a parameter that is left out; `Parameter.empty` where it must be given.

    Args:
        parameter: The parameter.
        whole: The type of everything that it takes.
    """
    if parameter.kind is parameter.VAR_POSITIONAL:
        is_list = get_origin(whole) is list or Ellipsis in get_args(whole)
        return () if is_list else parameter.empty
    if parameter.kind is parameter.VAR_KEYWORD:
        needed = getattr(whole, "__required_keys__", ()) if is_typeddict(whole) else ()
        return parameter.empty if needed else {}
    return parameter.default


def conflict_in(parameters: Sequence[inspect.Parameter], values: Values) -> str | None:
    """The reason why a function cannot take values, although each matches its type; None if it can.

    Args:
        parameters: The parameters of the function, those included that the model does not see.
        values: The values by parameter.
    """
    taken = {parameter.name for parameter in parameters if parameter.kind in _BY_KEYWORD}
    for parameter in parameters:
        if parameter.kind is parameter.VAR_KEYWORD:
            twice = [name for name in _mapping(values.get(parameter.name)) if name in taken]
            if twice:
                return f"{twice[0]!r} in '{parameter.name}' is a parameter of its own"
    return None


def passed(parameters: Sequence[inspect.Parameter], values: Values) -> tuple[list[object], dict[str, object]]:
    """The values as a function takes them: those by position, and those by keyword.

    Args:
        parameters: The parameters.
        values: The values by parameter; those left out have defaults.
    """
    has_more = any(
        parameter.kind is parameter.VAR_POSITIONAL and values.get(parameter.name) for parameter in parameters
    )
    by_position: list[object] = []
    by_keyword: dict[str, object] = {}
    for parameter in parameters:
        name, is_given = parameter.name, parameter.name in values
        if parameter.kind is parameter.VAR_POSITIONAL:
            by_position += _items(values.get(name))
        elif parameter.kind is parameter.VAR_KEYWORD:
            by_keyword |= _mapping(values.get(name))
        elif parameter.kind is parameter.POSITIONAL_ONLY or (
            has_more and parameter.kind is parameter.POSITIONAL_OR_KEYWORD
        ):
            by_position.append(values[name] if is_given else parameter.default)
        elif is_given:
            by_keyword[name] = values[name]
    return by_position, by_keyword


def _items(value: object) -> Sequence[object]:
    return value if is_list_or_tuple(value) else ()


def _mapping(value: object) -> Mapping[str, object]:
    return value if is_json_object(value) else {}
