from typing import Any

import pytest

from nighthawk_async.wire.strict_schema import is_strict_schema

CLOSED: dict[str, Any] = {
    "type": "object",
    "properties": {"a": {"type": "string"}},
    "required": ["a"],
    "additionalProperties": False,
}
OPEN: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string"}}}


def closed_around(schema: dict[str, Any]) -> dict[str, Any]:
    return {**CLOSED, "properties": {"a": schema}}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string"},
        CLOSED,
        {"type": "object", "additionalProperties": False},
        closed_around(CLOSED),
        closed_around({"type": "array", "items": CLOSED}),
        closed_around({"anyOf": [CLOSED, {"type": "null"}]}),
        {**CLOSED, "$defs": {"b": CLOSED}},
    ],
)
def test_closed_objects_all_the_way_down_are_strict(schema: dict[str, Any]) -> None:
    assert is_strict_schema(schema)


@pytest.mark.parametrize(
    "schema",
    [
        OPEN,
        {"type": "object"},
        {**CLOSED, "required": []},
        {**CLOSED, "additionalProperties": {"type": "string"}},
        closed_around(OPEN),
        closed_around({"type": "array", "items": OPEN}),
        closed_around({"anyOf": [OPEN, {"type": "null"}]}),
        closed_around({"oneOf": [CLOSED]}),
        {**CLOSED, "$defs": {"b": OPEN}},
    ],
)
def test_an_open_object_anywhere_is_not_strict(schema: dict[str, Any]) -> None:
    assert not is_strict_schema(schema)
