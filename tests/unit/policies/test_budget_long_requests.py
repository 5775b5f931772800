"""Budgets of cost where long requests have prices of their own."""

from decimal import Decimal

import pytest

import nighthawk_async as nh
from nighthawk_async.testing import model_response

from .budget_models import DONE, act, executor_of, known_model, used

pytestmark = pytest.mark.anyio

USUAL = nh.models.ModelPrice(input=Decimal(1), output=Decimal(5))
LONG = nh.models.ModelPrice(input=Decimal(2), output=Decimal(10))


def rising(tokens: int) -> nh.models.ModelPrice:
    return nh.models.ModelPrice(
        input=USUAL.input, output=USUAL.output, long_request=LONG, long_request_tokens=tokens
    )


async def reserved_cost(price: nh.models.ModelPrice) -> Decimal:
    async with nh.run(executor_of(known_model(price=price)), budget=nh.budget(cost=0)):
        with pytest.raises(nh.BudgetExceededError) as caught:
            await act()
    return Decimal(caught.value.asked)


async def test_what_may_be_long_is_reserved_at_the_price_of_long_requests() -> None:
    usual = await reserved_cost(USUAL)
    assert await reserved_cost(rising(1_000_000)) == usual
    assert await reserved_cost(rising(100)) == 2 * usual


@pytest.mark.parametrize("by_budget", [False, True])
async def test_a_request_is_charged_by_its_own_length(by_budget: bool) -> None:
    answers = [model_response(DONE, usage=used(1_000, 10)), model_response(DONE, usage=used(1_001, 10))]
    model = known_model(*answers, price=USUAL if by_budget else rising(1_000))
    prices = {"scripted:model": rising(1_000)} if by_budget else None
    budget = nh.budget(cost=1, prices=prices)
    async with nh.run(executor_of(model), budget=budget):
        await act()
        assert budget.cost == Decimal("0.001050")
        await act()
    assert budget.cost == Decimal("0.001050") + Decimal("0.002102")


def test_a_price_of_long_requests_is_checked_like_others() -> None:
    bad = nh.models.ModelPrice(input=Decimal(-1), output=Decimal(1))
    prices = {
        "a:b": nh.models.ModelPrice(
            input=USUAL.input, output=USUAL.output, long_request=bad, long_request_tokens=5
        )
    }
    with pytest.raises(nh.NighthawkError, match="price of a:b"):
        nh.budget(cost=1, prices=prices)
