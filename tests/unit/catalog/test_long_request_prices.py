"""What a note of the tables says of long requests, their prices say as well."""

import re
from decimal import Decimal

from nighthawk_async.catalog.model_facts import ModelFacts
from nighthawk_async.catalog.models import MODELS
from tests.cases import every

NOTED = [facts for facts in MODELS if "equest of more than" in facts.note]


@every("facts", NOTED)
def test_a_price_rises_where_its_note_says_so(facts: ModelFacts) -> None:
    price = facts.capabilities.price
    assert price is not None
    assert price.long_request is not None
    (tokens,) = re.findall(r"equest of more than ([0-9,]+) tokens", facts.note)
    assert price.long_request_tokens == int(tokens.replace(",", ""))
    sent, received = (5, 5) if "five times the price" in facts.note else (2, Decimal("1.5"))
    assert price.long_request.input == sent * price.input
    assert price.long_request.output == received * price.output
    for usual, long in (
        (price.cache_read, price.long_request.cache_read),
        (price.cache_write, price.long_request.cache_write),
        (price.cache_write_1h, price.long_request.cache_write_1h),
    ):
        assert long == (None if usual is None else sent * usual)


def test_only_prices_with_a_note_rise() -> None:
    assert NOTED
    for facts in MODELS:
        price = facts.capabilities.price
        assert price is None or price.long_request is None or facts in NOTED
