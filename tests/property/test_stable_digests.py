"""Digests of any plain values are equal only for values that are equal in type, value and structure."""

import copy
import math
from typing import Any

from hypothesis import given, strategies as st

from nighthawk_async.parallel.task_node import UNSTABLE
from nighthawk_async.values.stable_digest import stable_digest

HASHABLE = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 3), st.integers(), st.sampled_from([0.0, -0.0, 1.0, math.inf]),
    st.text("ab\ud83d", max_size=2), st.binary(max_size=2), st.decimals(allow_nan=False, places=1),
    st.datetimes(), st.dates(), st.timedeltas(), st.uuids(), st.complex_numbers(allow_nan=False, width=32),
)  # fmt: skip


def containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Containers of values."""
    return st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(HASHABLE, inner, max_size=3),
        st.sets(HASHABLE, max_size=3),
        st.frozensets(HASHABLE, max_size=3),
    )


VALUES = st.recursive(HASHABLE, containers, max_leaves=8)


def strict(value: Any) -> Any:
    """A form that is equal only for values of the same types."""
    kind = type(value)
    if kind is dict:
        return kind, frozenset((strict(key), strict(each)) for key, each in value.items())
    if kind in (set, frozenset):
        return kind, frozenset(map(strict, value))
    if kind in (list, tuple):
        return kind, tuple(map(strict, value))
    return kind, repr(value)


@given(VALUES, VALUES)
def test_digests_are_equal_only_for_equal_values(first: Any, second: Any) -> None:
    assert (stable_digest(first) == stable_digest(second)) == (strict(first) == strict(second))
    assert not stable_digest(first).endswith(UNSTABLE)


@given(VALUES)
def test_a_copy_has_the_same_digest(value: Any) -> None:
    assert stable_digest(copy.deepcopy(value)) == stable_digest(value)


@given(st.dictionaries(st.text(max_size=2), VALUES, max_size=4), st.randoms())
def test_the_order_of_items_does_not_count(value: dict[str, Any], random: Any) -> None:
    items = list(value.items())
    random.shuffle(items)
    assert stable_digest(dict(items)) == stable_digest(value)
