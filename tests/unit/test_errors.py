"""What errors say to those who read them."""

import copy
import inspect
import pickle
from decimal import Decimal
from typing import Any

import pytest

from nighthawk_async import BudgetExceededError, errors


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


ALL_ERRORS = [
    each
    for each in vars(errors).values()
    if isinstance(each, type) and issubclass(each, errors.NighthawkError)
]


@pytest.mark.parametrize("error_type", ALL_ERRORS)
@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda error: pickle.loads(pickle.dumps(error))]
)
def test_every_error_can_be_copied_and_sent_to_another_process(error_type: Any, copied: Any) -> None:
    has_own = inspect.isfunction(error_type.__init__)
    parameters = [*inspect.signature(error_type.__init__).parameters.values()][1:] if has_own else []
    numbers = dict.fromkeys(
        ("limit", "spent", "reserved", "asked", "status", "line", "retry_after_seconds"), 7
    )
    given: dict[str, Any] = {
        each.name: numbers.get(each.name, each.name)
        for each in parameters
        if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
    }
    words = [
        given.pop(each.name) for each in parameters if each.name in given and each.kind != each.KEYWORD_ONLY
    ]
    error = error_type(*(words if has_own else ["what happened"]), **given)
    error.add_note("a note")
    other = copied(error)
    assert type(other) is error_type
    assert (str(other), other.args, vars(other)) == (str(error), error.args, vars(error))
