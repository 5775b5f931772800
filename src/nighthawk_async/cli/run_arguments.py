"""Arguments of the command line as arguments of a function, by its annotations. Pure."""

import inspect
import json
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import ConfigDict, PydanticSchemaGenerationError, TypeAdapter, ValidationError

from ..errors import ConfigurationError
from ..runtime.validation import type_name
from ..runtime.variadics import keyword_types, positional_types, type_of_items

__all__ = ["ArgumentError", "bind_arguments"]

_OPTION = "--"


class ArgumentError(ConfigurationError):
    """A function cannot be called with the arguments of the command line."""


def bind_arguments(function: Callable[..., Any], texts: Sequence[str]) -> inspect.BoundArguments:
    """The arguments to call a function with.

    `--name value` and `--name=value` are arguments by name, with `-` for `_` if you like; `--name` alone is
    True. What follows `--` is no name. A text where the annotation is `str` is taken as it is. Otherwise it
    is read as JSON and validated against the annotation, or validated as a text if it is none.

    Args:
        function: The function.
        texts: The arguments on the command line.

    Raises:
        ArgumentError: They do not fit.
    """
    signature = inspect.signature(function)
    annotations = _annotations(function)
    by_position, by_name = _sort(texts)
    try:
        bound = signature.bind(*by_position, **by_name)
    except TypeError as error:
        shown = f"{getattr(function, '__name__', 'the function')}{signature}"
        raise ArgumentError(f"{error}; it is {shown}") from None
    for name, parameter in signature.parameters.items():
        annotation = annotations.get(name, Any)
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            bound.arguments[name] = _several(name, bound.arguments.get(name, ()), annotation)
        elif parameter.kind is inspect.Parameter.VAR_KEYWORD:
            bound.arguments[name] = _options(name, bound.arguments.get(name, {}), annotation)
        elif name in bound.arguments:
            bound.arguments[name] = _value(name, bound.arguments[name], annotation)
    return bound


def _several(name: str, given: Sequence[str], annotation: Any) -> tuple[Any, ...]:
    kinds = positional_types(annotation, len(given))
    if kinds is None:
        whole = type_name(type_of_items(annotation, "positional"))
        raise ArgumentError(f"the arguments {name} are of the type {whole}; {len(given)} are given")
    return tuple(_value(name, each, kind) for each, kind in zip(given, kinds, strict=True))


def _options(name: str, given: Mapping[str, str | bool], annotation: Any) -> dict[str, Any]:
    typed = keyword_types(annotation)
    if typed is None:
        return {key: _value(key, each, annotation) for key, each in given.items()}
    kinds = typing.get_type_hints(typed)
    missing = sorted(typed.__required_keys__ - given.keys())
    unknown = sorted(given.keys() - kinds.keys())
    if missing or unknown:
        what = [*(f"--{key} is missing" for key in missing), *(f"--{key} is none of them" for key in unknown)]
        raise ArgumentError(f"the arguments {name} are those of {type_name(typed)}: {', '.join(what)}")
    return {key: _value(key, each, kinds[key]) for key, each in given.items()}


def _annotations(function: Callable[..., Any]) -> Mapping[str, Any]:
    try:
        return typing.get_type_hints(inspect.unwrap(function), include_extras=True)
    except NameError:  # a name that only type checkers see
        return {
            name: annotation
            for name, annotation in inspect.get_annotations(inspect.unwrap(function)).items()
            if not isinstance(annotation, str)
        }


def _sort(texts: Sequence[str]) -> tuple[list[str], dict[str, str | bool]]:
    by_position: list[str] = []
    by_name: dict[str, str | bool] = {}
    rest = list(texts)
    while rest:
        text = rest.pop(0)
        if text == _OPTION:
            by_position += rest
            break
        if not text.startswith(_OPTION):
            by_position.append(text)
            continue
        name, sign, value = text.removeprefix(_OPTION).partition("=")
        name = name.replace("-", "_")
        if name in by_name:
            raise ArgumentError(f"--{name} is given twice")
        if sign:
            by_name[name] = value
        else:
            by_name[name] = True if not rest or rest[0].startswith(_OPTION) else rest.pop(0)
    return by_position, by_name


def _value(name: str, given: str | bool, annotation: Any) -> Any:
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(annotation)
    except PydanticSchemaGenerationError:
        adapter = TypeAdapter(annotation, config=ConfigDict(arbitrary_types_allowed=True))
    try:
        return _validated(adapter, given, is_text=annotation is str)
    except ValidationError as error:
        reasons = "; ".join(detail["msg"] for detail in error.errors(include_url=False)[:3])
        raise ArgumentError(f"the argument {name}: {reasons}") from None


def _validated(adapter: TypeAdapter[Any], given: str | bool, *, is_text: bool) -> Any:
    if is_text or isinstance(given, bool):
        return adapter.validate_python(given)
    try:
        json.loads(given)
    except ValueError:
        return adapter.validate_python(given)
    try:
        return adapter.validate_json(given)
    except ValidationError as error:
        try:
            return adapter.validate_python(given)
        except ValidationError:
            raise error from None
