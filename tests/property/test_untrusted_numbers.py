"""Whatever an endpoint says of its consumption, and however it nests its JSON."""

import json
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from nighthawk_async.kernel.usage_meter import UsageMeter
from nighthawk_async.types.usage import MAX_COUNT, Usage
from nighthawk_async.wire import json_text

_COUNTS = (
    st.integers(0, 100)
    | st.integers(-(10**310), 10**310)
    | st.sampled_from([-1, MAX_COUNT, MAX_COUNT + 1, None, True, "5", 1.5, float("nan"), float("inf")])
)
_COSTS = (
    st.decimals() | st.decimals(0, 5) | st.sampled_from([Decimal("sNaN"), None, "much", 0, 0.5, float("nan")])
)
USAGES = st.builds(
    Usage,
    requests=_COUNTS,
    input_tokens=_COUNTS,
    output_tokens=_COUNTS,
    cache_read_tokens=_COUNTS,
    cache_write_tokens=_COUNTS,
    cache_write_1h_tokens=_COUNTS,
    reasoning_tokens=_COUNTS,
    retries=_COUNTS,
    cost=_COSTS,
    unpriced_requests=_COUNTS,
    is_complete=st.booleans(),
)
_NUMBERS = tuple(name for name in Usage.__slots__ if name != "is_complete")


@given(told=USAGES)
def test_a_usage_becomes_one_that_can_be_true(told: Usage) -> None:
    usage = told.credible()

    assert all(0 <= getattr(usage, name) <= MAX_COUNT for name in _NUMBERS)
    assert type(usage.cost) is Decimal
    assert usage.cache_read_tokens + usage.cache_write_tokens <= usage.input_tokens
    assert usage.cache_write_1h_tokens <= usage.cache_write_tokens
    assert usage.reasoning_tokens <= usage.output_tokens
    assert usage.credible() is usage
    assert usage.is_complete <= told.is_complete
    if usage.is_complete:
        assert usage == told or isinstance(told.cost, int | float)


@given(reports=st.lists(USAGES, max_size=5))
def test_a_meter_only_grows(reports: list[Usage]) -> None:
    meter = UsageMeter()
    before = meter.usage
    for report in reports:
        meter.add("a:b", report)
        after = meter.usage
        assert all(getattr(after, name) >= getattr(before, name) for name in _NUMBERS)
        before = after


_TEXTS = st.text(alphabet='[]{}"\\a,:\u2028é')
_JSON = st.recursive(
    st.none() | st.integers() | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
)


def depth_of(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth_of, value.values()), default=0)
    return 1 + max(map(depth_of, value), default=0) if isinstance(value, list) else 0


@given(value=_JSON, is_ascii=st.booleans(), bound=st.integers(0, 6))
def test_the_depth_of_json_is_told_from_its_bytes(value: Any, is_ascii: bool, bound: int) -> None:
    text = json.dumps(value, ensure_ascii=is_ascii)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(json_text, "MAX_DEPTH", bound)
        patched.setattr(json_text, "_BRACKETS_AT_ONCE", 2)
        for data in (text, text.encode()):
            if depth_of(value) <= bound:
                json_text.check_depth(data)
            else:
                with pytest.raises(msgspec.DecodeError, match=f"deeper than {bound} levels"):
                    json_text.check_depth(data)
