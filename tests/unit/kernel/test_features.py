from contextvars import copy_context

import pytest

from nighthawk_async.kernel.features import Feature


def test_a_feature_is_active_within_its_block() -> None:
    feature = Feature("none")
    with feature.active("outer"):
        with feature.active("inner"):
            assert feature.get() == "inner"
        assert feature.get() == "outer"
    assert feature.get() == "none"


def test_features_end_in_any_order() -> None:
    one, other = Feature(0), Feature(0)
    first = one.set(1)
    second = other.set(2)
    one.reset(first)
    assert (one.get(), other.get()) == (0, 2)
    other.reset(second)
    assert (one.get(), other.get()) == (0, 0)


def test_what_is_set_within_a_block_of_another_feature_stays() -> None:
    one, other = Feature(0), Feature(0)
    with one.active(1):
        other.set(2)
    assert (one.get(), other.get()) == (0, 2)


def test_a_context_keeps_the_features_of_its_beginning() -> None:
    feature = Feature(0)
    with feature.active(1):
        context = copy_context()
    assert (feature.get(), context.run(feature.get)) == (0, 1)


def test_a_feature_cannot_be_ended_in_another_context() -> None:
    feature = Feature(0)
    before = feature.set(1)
    with pytest.raises(ValueError, match="different Context"):
        copy_context().run(feature.reset, before)
    assert feature.get() == 1
    feature.reset(before)
