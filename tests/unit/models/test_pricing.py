from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given, strategies as st

from nighthawk_async.models.pricing import UsageTally, cost_of
from nighthawk_async.types.model import ModelPrice
from nighthawk_async.types.usage import Usage

PRICE = ModelPrice(
    input=Decimal(3), output=Decimal(15), cache_read=Decimal("0.30"), cache_write=Decimal("3.75")
)
MILLION = 1_000_000

tokens = st.integers(min_value=0, max_value=10**9)
dollars = st.decimals(min_value=0, max_value=1_000, places=4)
prices = st.builds(
    ModelPrice,
    input=dollars,
    output=dollars,
    cache_read=st.none() | dollars,
    cache_write=st.none() | dollars,
    cache_write_1h=st.none() | dollars,
)
usages = st.builds(
    Usage,
    requests=st.just(1),
    input_tokens=tokens,
    output_tokens=tokens,
    cache_read_tokens=tokens,
    cache_write_tokens=tokens,
    cache_write_1h_tokens=tokens,
    is_complete=st.booleans(),
)


def test_each_kind_of_token_has_its_price() -> None:
    assert cost_of(Usage(input_tokens=MILLION), PRICE) == 3
    assert cost_of(Usage(output_tokens=MILLION), PRICE) == 15
    assert cost_of(Usage(input_tokens=MILLION, cache_read_tokens=MILLION), PRICE) == Decimal("0.30")
    assert cost_of(Usage(input_tokens=MILLION, cache_write_tokens=MILLION), PRICE) == Decimal("3.75")
    usage = Usage(input_tokens=1_000, cache_read_tokens=600, cache_write_tokens=300, output_tokens=50)
    assert cost_of(usage, PRICE) == Decimal("0.000300") + Decimal("0.000180") + Decimal("0.001125") + Decimal(
        "0.000750"
    )


def test_cached_tokens_without_a_price_cost_what_others_cost() -> None:
    usage = Usage(input_tokens=MILLION, cache_read_tokens=400_000, cache_write_tokens=300_000)
    assert cost_of(usage, ModelPrice(input=Decimal(3), output=Decimal(15))) == 3


def test_tokens_that_are_kept_for_an_hour_have_a_price_of_their_own() -> None:
    usage = Usage(input_tokens=1_000, cache_write_tokens=900, cache_write_1h_tokens=600)
    written = Decimal("0.000300") + Decimal("0.001125")
    assert cost_of(usage, replace(PRICE, cache_write_1h=Decimal(7))) == written + Decimal("0.004200")
    assert cost_of(usage, PRICE) == written + Decimal("0.003600")  # twice what others sent cost
    assert cost_of(usage, replace(PRICE, cache_write=None)) == Decimal("0.003000")


def test_more_cached_tokens_than_tokens_cost_no_more_than_the_tokens() -> None:
    assert cost_of(Usage(input_tokens=10, cache_read_tokens=MILLION), PRICE) == Decimal("0.000003")


def test_a_long_request_has_prices_of_its_own() -> None:
    long_request = ModelPrice(input=Decimal(6), output=Decimal(20), cache_read=Decimal(1))
    price = replace(PRICE, long_request=long_request, long_request_tokens=1_000)
    usual = Usage(input_tokens=1_000, cache_read_tokens=600, output_tokens=50)
    assert cost_of(usual, price) == cost_of(usual, PRICE)
    longer = replace(usual, input_tokens=1_001)
    assert cost_of(longer, price) == cost_of(longer, long_request) > cost_of(longer, PRICE)


def test_attempts_that_are_long_only_together_cost_what_others_cost() -> None:
    price = replace(
        PRICE, long_request=ModelPrice(input=Decimal(9), output=Decimal(90)), long_request_tokens=100
    )
    tally = UsageTally(price)
    tally.report(Usage(requests=1, input_tokens=80))
    tally.attempt_failed(may_have_consumed=True)
    assert tally.report(Usage(requests=1, input_tokens=80)).cost == Decimal("0.00048")


def test_a_price_of_long_requests_says_which_are_long() -> None:
    with pytest.raises(ValueError, match="long_request_tokens"):
        replace(PRICE, long_request=PRICE)
    with pytest.raises(ValueError, match="long_request_tokens"):
        replace(PRICE, long_request_tokens=5)


@given(usages, prices)
def test_the_parts_add_up_and_nothing_is_negative(usage: Usage, price: ModelPrice) -> None:
    cost = cost_of(usage, price)
    read = min(usage.cache_read_tokens, usage.input_tokens)
    written = min(usage.cache_write_tokens, usage.input_tokens - read)
    kept = min(usage.cache_write_1h_tokens, written)
    parts = [
        Usage(input_tokens=usage.input_tokens - read - written),
        Usage(input_tokens=read, cache_read_tokens=read),
        Usage(input_tokens=written - kept, cache_write_tokens=written - kept),
        Usage(input_tokens=kept, cache_write_tokens=kept, cache_write_1h_tokens=kept),
        Usage(output_tokens=usage.output_tokens),
    ]
    assert cost == sum((cost_of(part, price) for part in parts), Decimal(0))
    assert cost >= 0


@given(usages, usages)
def test_without_a_price_every_request_counts_as_unpriced(lost: Usage, last: Usage) -> None:
    tally = UsageTally(None)
    tally.report(lost)
    tally.attempt_failed(may_have_consumed=True)
    total = tally.report(last)
    assert (total.cost, total.unpriced_requests) == (0, total.requests)


@given(usages, usages, prices)
def test_what_failed_attempts_reported_is_added_and_marked_incomplete(
    lost: Usage, last: Usage, price: ModelPrice
) -> None:
    tally = UsageTally(price)
    tally.report(lost)
    tally.attempt_failed(may_have_consumed=True)
    tally.retries += 1
    total = tally.report(last)
    assert total.requests == 1
    assert total.retries == 1
    assert total.input_tokens == lost.input_tokens + last.input_tokens
    assert total.output_tokens == lost.output_tokens + last.output_tokens
    assert total.cost == cost_of(lost, price) + cost_of(last, price)
    assert not total.is_complete
    assert tally.has_lost


def test_a_later_report_replaces_an_earlier_one() -> None:
    tally = UsageTally(PRICE)
    tally.report(Usage(requests=1, input_tokens=10, is_complete=False))
    assert tally.report(Usage(requests=1, input_tokens=10, output_tokens=2)) == Usage(
        requests=1, input_tokens=10, output_tokens=2, cost=Decimal("0.00006")
    )


def test_an_attempt_that_reported_nothing_leaves_nothing_but_a_doubt() -> None:
    for may_have_consumed in (False, True):
        tally = UsageTally(PRICE)
        tally.attempt_failed(may_have_consumed=may_have_consumed)
        assert not tally.has_lost
        assert tally.unreported() == Usage(requests=1, is_complete=False)
        assert tally.report(Usage(requests=1)) == Usage(requests=1, is_complete=not may_have_consumed)


def test_the_usage_so_far_is_that_of_all_attempts() -> None:
    tally = UsageTally(PRICE)
    assert tally.usage is None
    tally.attempt_begun()
    assert tally.usage == Usage(requests=1, is_complete=False)
    tally.report(Usage(requests=1, input_tokens=10))
    assert tally.usage == Usage(requests=1, input_tokens=10, cost=Decimal("0.00003"))
    tally.attempt_failed(may_have_consumed=True)
    tally.retries += 1
    assert tally.usage == Usage(
        requests=1, input_tokens=10, retries=1, cost=Decimal("0.00003"), is_complete=False
    )
