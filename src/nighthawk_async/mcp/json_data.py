"""Values as strict JSON data: what JSON cannot say is refused, or written as a text, and never lost."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence, Set as AbstractSet
from enum import Enum
from typing import Any, Literal, TypeAlias, cast

import msgspec
from pydantic import TypeAdapter

from ..pickling import PicklableError
from ..types.json import is_json_list, is_json_object, is_list_or_tuple, is_mapping

Path: TypeAlias = tuple[str | int, ...]


class NoJsonError(PicklableError, ValueError):
    """A part of a value has no JSON form.

    Args:
        reason: The reason.
        path: The keys and positions that lead to the part.
    """

    def __init__(self, reason: str, path: Path) -> None:
        super().__init__(f"at {'.'.join(map(str, path))}: {reason}" if path else reason)


def json_data(
    adapter: TypeAdapter[Any],
    value: object,
    *,
    non_finite: Literal["refused", "texts"],
    fallback: Callable[[Any], Any] | None = None,
) -> Any:
    """Return a value as JSON data, by alias.

    Args:
        adapter: Serializes it.
        value: The value.
        non_finite: The treatment of numbers that are not finite, which pydantic writes as null.
        fallback: Serializes what pydantic cannot.

    Raises:
        NoJsonError: A part has no JSON form, or two keys of a dictionary are one in JSON.
        Exception: It cannot be serialized.
    """

    def dump(mode: Literal["json", "python"]) -> Any:
        is_json = mode == "json"  # else by name, so that two fields with the same alias are noticed
        return adapter.dump_python(value, mode=mode, by_alias=is_json, warnings="none", fallback=fallback)

    data = dump("json")
    try:
        given = dump("python")
    except TypeError:  # a set of models, which are dictionaries in this mode
        _check_finite(value, set())
        given = data
    return _checked(given, data, (), are_texts=non_finite == "texts")


def _check_finite(value: object, seen: set[int]) -> None:
    """Check that no number in a value, or in an object in it, is infinite or none."""
    if isinstance(value, float) and not math.isfinite(value):
        raise NoJsonError(f"JSON has no number {value!r}", ())
    if isinstance(value, str | bytes | bytearray) or id(value) in seen:
        return
    seen.add(id(value))
    if is_mapping(value):
        inner: list[object] = list(value.values())
    elif isinstance(value, Collection):
        inner = list(cast("Collection[object]", value))
    else:
        inner = list(getattr(value, "__dict__", {}).values())
    for each in inner:
        _check_finite(each, seen)


def checked_data(data: Any) -> Any:
    """Return JSON data as it is.

    Raises:
        NoJsonError: A number is not finite, or a text has a lone surrogate.
    """
    return _checked(data, data, (), are_texts=False)


def _checked(given: Any, data: Any, path: Path, *, are_texts: bool) -> Any:
    """Return data; what it was before JSON shows whether something was lost."""
    if isinstance(given, Enum):
        given = given.value
    if is_json_object(data):
        return _checked_dict(given, data, path, are_texts=are_texts)
    if is_json_list(data):
        return [
            item
            if type(item) is int or (type(item) is float and math.isfinite(item))
            else _checked(each, item, (*path, at), are_texts=are_texts)
            for at, (each, item) in enumerate(zip(_items(given, data), data, strict=True))
        ]
    match data:
        case str():
            _check_text(data, path)
            return data
        case float() if not math.isfinite(data):
            given = data
        case None if isinstance(given, float) and not math.isfinite(given):
            pass
        case _:
            return data
    if not are_texts:
        raise NoJsonError(f"JSON has no number {given!r}", path)
    return "NaN" if math.isnan(given) else "Infinity" if given > 0 else "-Infinity"


def _checked_dict(given: Any, data: dict[str, Any], path: Path, *, are_texts: bool) -> dict[str, Any]:
    before: Mapping[Any, Any] = given if is_mapping(given) else data
    if len(before) > len(data) and before is not data:
        raise NoJsonError("two of its keys are the same text in JSON", path)
    if len(before) < len(data):
        before = data
    for key in before:
        if isinstance(key, str):
            _check_text(key, path)
    return {
        key: _checked(each, item, (*path, key), are_texts=are_texts)
        for (key, item), each in zip(data.items(), before.values(), strict=True)
    }


def _items(given: Any, data: list[Any]) -> list[Any]:
    """The items that became those of a list."""
    if isinstance(given, AbstractSet):  # in another order, perhaps
        lost = [each for each in cast("AbstractSet[Any]", given) if isinstance(each, float)]
        number = next((each for each in lost if not math.isfinite(each)), None)
        return data if number is None else [number if each is None else each for each in data]
    items: list[Any] = list(given) if is_list_or_tuple(given) else data
    return items if len(items) == len(data) else data


def _check_text(text: str, path: Path) -> None:
    if text.isascii():
        return
    try:
        text.encode()
    except UnicodeEncodeError:
        raise NoJsonError("a text has a lone surrogate, which is no character", path) from None


def characters(text: str) -> str:
    """Return a text with question marks for lone surrogates, which no message can have."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def with_characters(data: Any) -> Any:
    """Return JSON data with question marks for lone surrogates in its texts and keys."""
    if isinstance(data, str):
        return characters(data)
    if is_json_object(data):
        return {characters(key): with_characters(each) for key, each in data.items()}
    return [with_characters(each) for each in data] if is_json_list(data) else data


def fields_of(value: object) -> object:
    """Return an instance of an attrs class or a struct as a dictionary, and collections as data.

    Raises:
        TypeError: The value is none of these.
    """
    kind: Any = type(value)
    if isinstance(value, msgspec.Struct):
        config = kind.__struct_config__
        named = {each.encode_name: getattr(value, each.name) for each in msgspec.structs.fields(kind)}
        tag = {} if config.tag_field is None else {config.tag_field: config.tag}
        return tag | {name: each for name, each in named.items() if each is not msgspec.UNSET}
    if "__attrs_attrs__" in vars(kind):
        return {each.alias: getattr(value, each.name) for each in kind.__attrs_attrs__}
    if is_mapping(value):
        return dict(value)
    if isinstance(value, Sequence) and not isinstance(value, memoryview):
        return list(cast("Sequence[object]", value))
    raise TypeError(f"{kind.__qualname__} is no type of JSON")


def shown_fields_of(value: object) -> object:
    """Return a value as `fields_of` does, and as its `repr` if it is none of these."""
    try:
        return fields_of(value)
    except TypeError:
        return repr(value)
