"""Changes good JSON documents here and there, so that they stay JSON and reach deep into a decoder.

Random bytes are almost never JSON, and random JSON almost never has a field that a decoder reads. A response
with one part missing, doubled, moved or of another type goes all the way through.
"""

import copy
import json
from collections.abc import Iterator
from typing import Any, TypeAlias, cast

from hypothesis import strategies as st

__all__ = ["every_single_change", "mutated"]

Path: TypeAlias = tuple[str | int, ...]

_ABSENT = object()

_WILD_VALUES: list[Any] = [
    _ABSENT,
    None,
    True,
    0,
    3.5,
    10**25,
    -1,
    "",
    "x",
    "{",
    "{}",
    '{"a":1}',
    "\u2028",
    "\ud800",
    [],
    [None],
    [{}],
    ["text"],
    {},
    {"type": "x"},
    {"type": ["text"]},
    {"a": [1]},
    json.loads("[" * 200 + "]" * 200),
]
_SPECIAL_WORDS = ["length", "max_tokens", "error", "text", "thinking", "tool_use", "function_call", "message"]


def every_single_change(document: Any) -> Iterator[Any]:
    """The document with one value missing or replaced, for every value and every replacement.

    Args:
        document: A JSON document; it stays as it is.
    """
    for path in _paths(document):
        for value in _WILD_VALUES:
            yield _replaced(document, path, value)


@st.composite
def mutated(draw: st.DrawFn, document: Any) -> Any:
    """The document with up to four changes: values missing, replaced, or found again elsewhere.

    Args:
        draw: Given by Hypothesis.
        document: A JSON document; it stays as it is.
    """
    changed = document
    for _ in range(draw(st.integers(1, 4))):
        paths = list(_paths(changed))
        if not paths:
            break
        place = draw(st.sampled_from(paths))
        kind = draw(st.sampled_from(["replace", "replace", "borrow", "double", "swap"]))
        if kind == "replace":
            value = draw(st.sampled_from([*_WILD_VALUES, *_SPECIAL_WORDS]))
            changed = _replaced(changed, place, value)
        elif kind == "borrow":
            changed = _replaced(changed, place, _value_at(changed, draw(st.sampled_from(paths))))
        else:
            changed = _rearranged(changed, place, draw(st.integers(0, 20)), is_double=kind == "double")
    return changed


def _paths(document: Any, path: Path = ()) -> Iterator[Path]:
    """The places of all values inside a document."""
    entries = list[tuple[str | int, Any]]()
    if isinstance(document, dict):
        entries += cast("dict[str, Any]", document).items()
    elif isinstance(document, list):
        entries += enumerate(cast("list[Any]", document))
    for key, value in entries:
        yield (*path, key)
        yield from _paths(value, (*path, key))


def _value_at(document: Any, path: Path) -> Any:
    for key in path:
        document = document[key]
    return document


def _replaced(document: Any, path: Path, value: Any) -> Any:
    """The document with another value at a place; what does not change is shared, not copied."""
    if not path:
        return value
    key, *rest = path
    changed = copy.copy(document)
    if value is _ABSENT and not rest:
        del changed[key]
    else:
        changed[key] = _replaced(document[key], tuple(rest), value)
    return changed


def _rearranged(document: Any, path: Path, other: int, *, is_double: bool) -> Any:
    """An entry of a list, an event of a stream among them, comes twice or changes its place with another."""
    entries, place = _value_at(document, path[:-1]), path[-1]
    if not isinstance(entries, list) or not isinstance(place, int):
        return document
    siblings = list(cast("list[Any]", entries))
    other %= len(siblings)
    if is_double:
        siblings.insert(other, siblings[place])
    else:
        siblings[place], siblings[other] = siblings[other], siblings[place]
    return _replaced(document, path[:-1], siblings)
