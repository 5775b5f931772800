import copy
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, strategies as st

from nighthawk_async.errors import ConfigurationError
from nighthawk_async.wire.transport_settings import merge_extra_body

SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=3)
NAMES = st.sampled_from(["a", "b", "c"])
OBJECTS = st.dictionaries(
    NAMES,
    st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner)),
)


def merge(body: dict[str, Any], extra: object) -> dict[str, Any]:
    return merge_extra_body(body, {"temperature": 1, "extra_body": extra})


def test_objects_are_merged_at_every_depth() -> None:
    body = {"reasoning": {"effort": "low", "more": {"a": 1}}, "model": "m"}
    extra = {"reasoning": {"summary": "auto", "more": {"b": 2}}}
    assert merge(body, extra) == {
        "reasoning": {"effort": "low", "summary": "auto", "more": {"a": 1, "b": 2}},
        "model": "m",
    }


@pytest.mark.parametrize(
    ("below", "above"),
    [([1, 2], [3]), ("a", 1), ({"a": 1}, None), ({"a": 1}, [1]), ([1], {"a": 1}), (None, {"a": 1})],
)
def test_whatever_is_not_an_object_on_both_sides_is_replaced(below: object, above: object) -> None:
    assert merge({"x": below, "y": 1}, {"x": above}) == {"x": above, "y": 1}


def test_any_mapping_counts_as_an_object() -> None:
    extra = MappingProxyType({"x": MappingProxyType({"b": 2})})
    assert merge({"x": {"a": 1}}, extra) == {"x": {"a": 1, "b": 2}}


@pytest.mark.parametrize("settings", [{}, {"extra_body": None}, {"extra_body": {}}])
def test_without_the_setting_the_body_is_the_same(settings: dict[str, Any]) -> None:
    assert merge_extra_body({"a": {"b": 1}}, settings) == {"a": {"b": 1}}


@pytest.mark.parametrize("extra", ["x", [("a", 1)], 1])
def test_it_must_be_a_mapping(extra: object) -> None:
    with pytest.raises(ConfigurationError, match="'extra_body' must be a mapping"):
        merge({}, extra)


def test_what_is_new_comes_last_so_that_bodies_keep_their_prefix() -> None:
    assert list(merge({"b": 1, "a": {"y": 1}}, {"c": 1, "a": {"x": 1}})) == ["b", "a", "c"]


@given(body=OBJECTS, extra=OBJECTS)
def test_merging_changes_neither_side_and_every_value_comes_from_one_of_them(
    body: dict[str, Any], extra: dict[str, Any]
) -> None:
    before = copy.deepcopy((body, extra))
    merged = merge(body, extra)
    assert (body, extra) == before
    assert merged.keys() == body.keys() | extra.keys()
    for name, value in merged.items():
        if isinstance(body.get(name), dict) and isinstance(extra.get(name), dict):
            assert value == merge(body[name], extra[name])
        else:
            assert value == (extra if name in extra else body)[name]
    assert merge(merged, extra) == merged
