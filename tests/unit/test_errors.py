"""What errors say to those who read them."""

from decimal import Decimal

import pytest

from nighthawk_async import BudgetExceededError


@pytest.mark.parametrize(
    ("resource", "amounts", "text"),
    [
        ("steps", (2, 2, 0, 1), "budget b: no room for 1 step: 2 spent of 2"),
        ("tool_calls", (9, 5, 2, 3), "budget b: no room for 3 tool calls: 5 spent, 2 reserved of 9"),
        ("tokens", (5_000, 0, 0, 12_000), "budget b: no room for 12,000 tokens: 0 spent of 5,000"),
        (
            "cost",
            (Decimal(1), Decimal("0.9"), Decimal(0), Decimal("0.125")),
            "budget b: no room for 0.125 US dollars: 0.9 spent of 1",
        ),
        ("seconds", (1.5, 1.5, 0, 0), "budget b: its 1.5 seconds are over"),
    ],
)
def test_a_breach_of_a_budget_names_the_amounts(
    resource: str, amounts: tuple[float | Decimal, ...], text: str
) -> None:
    limit, spent, reserved, asked = amounts
    error = BudgetExceededError(
        budget="b", resource=resource, limit=limit, spent=spent, reserved=reserved, asked=asked
    )
    assert str(error) == text
