"""The usage meter adds up, upwards, from any thread."""

import sys
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

from nighthawk_async import Usage
from nighthawk_async.kernel.usage_meter import UsageMeter
from nighthawk_async.types.unset import UNSET


def test_usage_is_added_by_model_and_in_every_enclosing_meter() -> None:
    outer = UsageMeter()
    inner = UsageMeter(outer)
    outer.add("a", Usage(requests=1))
    inner.add("a", Usage(requests=1, input_tokens=3))
    inner.add("b", Usage(requests=1, is_complete=False))
    inner.count_step()
    assert inner.usage == Usage(requests=2, input_tokens=3, is_complete=False)
    assert dict(outer.usage_by_model) == {
        "a": Usage(requests=2, input_tokens=3),
        "b": Usage(requests=1, is_complete=False),
    }
    assert (inner.steps, outer.steps) == (1, 1)


def test_a_difference_is_what_came_since_an_earlier_figure() -> None:
    earlier = Usage(requests=2, input_tokens=10, cost=Decimal("0.5"), retries=1, unpriced_requests=1)
    since = Usage(requests=1, input_tokens=3, output_tokens=4, cost=Decimal("0.25"), reasoning_tokens=2)
    assert (earlier + since) - earlier == since
    assert not (earlier + Usage(requests=1, is_complete=False) - earlier).is_complete


def test_a_view_by_model_is_a_snapshot() -> None:
    meter = UsageMeter()
    before = meter.usage_by_model
    meter.add("a", Usage(requests=1))
    assert dict(before) == {}


def test_threads_that_add_at_once_lose_nothing() -> None:
    outer = UsageMeter()
    meter = UsageMeter(outer)

    def add(_: int) -> None:
        for _ in range(500):
            meter.add("a", Usage(requests=1))
            meter.count_step()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(add, range(4)))
    finally:
        sys.setswitchinterval(interval)
    assert meter.usage == outer.usage == Usage(requests=2000)
    assert meter.steps == outer.steps == 2000


def test_an_unset_argument_shows_as_such_in_signatures() -> None:
    assert repr(UNSET) == "UNSET"
