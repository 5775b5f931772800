"""`docs/refusals.md` says what models are told, word for word."""

from typing import get_args

import pytest

from nighthawk_async.errors import CorrectionCause

from .refusals import PAGE, SCENARIOS, Scenario, told, with_rows

pytestmark = pytest.mark.anyio


def causes() -> set[str]:
    """The words by which corrections are counted."""
    return {cause for part in get_args(CorrectionCause) for cause in get_args(part) or (part,)}


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: f"{each.group}: {each.when}")
async def test_a_refusal_is_the_same_in_each_transport_and_counted_by_its_cause(scenario: Scenario) -> None:
    each = [await told(scenario, transport) for transport in scenario.transports]
    assert {one.text for one in each} == {each[0].text}
    for one in each:
        if scenario.cause is None:
            assert one.corrections == {}
        else:
            assert one.corrections.get(scenario.cause, 0) >= 1


async def test_the_page_has_the_text_of_each_refusal() -> None:
    texts = {number: (await told(each, each.transports[0])).message for number, each in enumerate(SCENARIOS)}
    page = PAGE.read_text(encoding="utf-8")
    assert with_rows(page, texts) == page, "python -m tests.docs.refusals writes the page anew"


def test_every_cause_has_a_row() -> None:
    assert causes() - {each.cause for each in SCENARIOS} == {"internal"}, "no code of ours refuses by it"
