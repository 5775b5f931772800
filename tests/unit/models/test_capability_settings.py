from dataclasses import fields
from decimal import Decimal
from typing import Any

import pytest

from nighthawk_async.errors import ConfigurationError
from nighthawk_async.models.time_limits import overridden_capabilities
from nighthawk_async.types.model import ModelCapabilities, ModelPrice

PRICE = ModelPrice(input=Decimal(3), output=Decimal(15), cache_read=Decimal("0.3"))
CATALOG = ModelCapabilities(images=True, context_window=200_000, price=PRICE)

EVERYTHING: dict[str, Any] = {
    "tools": False,
    "parallel_tool_calls": False,
    "forced_tool_choice": False,
    "structured_output": True,
    "structured_output_with_tools": False,
    "images": True,
    "audio": True,
    "video": True,
    "documents": True,
    "prompt_caching": True,
    "reasoning": True,
    "reasoning_control": "budget",
    "reasoning_efforts": ("low", "high"),
    "reasoning_with_tools": False,
    "sampling": False,
    "is_small": True,
    "tool_search": True,
    "context_management": True,
    "native_tools": ("web_search", "file_search"),
    "prompt_cache_key": True,
    "default_transport": "native",
    "context_window": 1_000,
    "max_output_tokens": 100,
}


def test_without_corrections_the_catalog_holds() -> None:
    assert overridden_capabilities(CATALOG, {}) is CATALOG


def test_a_correction_changes_its_field_and_no_other() -> None:
    corrected = overridden_capabilities(CATALOG, {"reasoning": True})
    assert corrected == ModelCapabilities(images=True, context_window=200_000, price=PRICE, reasoning=True)


def test_words_may_come_as_a_list_and_may_become_unknown_again() -> None:
    corrected = overridden_capabilities(CATALOG, {"reasoning_efforts": ["low", "high"]})
    assert corrected.reasoning_efforts == ("low", "high")
    assert overridden_capabilities(corrected, {"reasoning_efforts": None}).reasoning_efforts is None


def test_every_capability_can_be_corrected() -> None:
    assert {*EVERYTHING, "price"} == {each.name for each in fields(ModelCapabilities)}
    assert overridden_capabilities(ModelCapabilities(), EVERYTHING) == ModelCapabilities(**EVERYTHING)


@pytest.mark.parametrize(
    ("price", "expected"),
    [
        ({"input": "0.5", "output": 2}, ModelPrice(input=Decimal("0.5"), output=Decimal(2))),
        (
            {"input": 0.15, "output": 0, "cache_read": "0.015", "cache_write": None},
            ModelPrice(input=Decimal("0.15"), output=Decimal(0), cache_read=Decimal("0.015")),
        ),
        (PRICE, PRICE),
        (None, None),
    ],
)
def test_a_price_replaces_the_catalogs(price: object, expected: ModelPrice | None) -> None:
    assert overridden_capabilities(CATALOG, {"price": price}).price == expected


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            {"vision": True},
            "No capability of a model is called 'vision'; there are audio, context_management",
        ),
        ({"images": "perhaps"}, "'images': Input should be a valid boolean"),
        ({"reasoning_control": "words"}, "'reasoning_control': Input should be 'effort' or 'budget'"),
        ({"reasoning_efforts": ["low", "extreme"]}, "'reasoning_efforts.1': Input should be 'none'"),
        ({"reasoning_efforts": []}, "'reasoning_efforts' must hold a word"),
        ({"context_window": "big"}, "'context_window': Input should be a valid integer"),
        ({"context_window": 0}, "'context_window' must be more than 0"),
        ({"max_output_tokens": -1}, "'max_output_tokens' must be more than 0"),
        ({"price": 5}, "'price"),
        ({"price": {"input": 1}}, "'price.output': Field required"),
        ({"price": {"input": "cheap", "output": 1}}, "'price.input': Input should be a valid decimal"),
        ({"price": {"input": "NaN", "output": 1}}, "'price.input': Input should be a finite number"),
        ({"price": {"input": -1, "output": 1}}, "'price.input' must not be negative"),
        ({"price": {"input": 1, "output": 1, "cached": 1}}, "No price of a model is called 'cached'"),
    ],
)
def test_a_bad_correction_is_refused_by_name(overrides: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        overridden_capabilities(CATALOG, overrides)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("price", "fault"),
    [
        ({"long_request": {"input": 2, "output": 8}}, "long_request_tokens"),
        ({"long_request": {"input": -2, "output": 8}, "long_request_tokens": 9}, "price.long_request.input"),
        ({"long_request": {"input": 2, "output": 8, "sound": 1}, "long_request_tokens": 9}, "sound"),
    ],
)
def test_a_price_of_long_requests_is_checked_as_well(price: dict[str, Any], fault: str) -> None:
    with pytest.raises(ConfigurationError, match=fault):
        overridden_capabilities(CATALOG, {"price": {"input": 1, "output": 4, **price}})


def test_a_price_of_long_requests_can_be_given() -> None:
    price = {"input": 1, "output": 4, "long_request": {"input": 2, "output": 8}, "long_request_tokens": 9}
    corrected = overridden_capabilities(CATALOG, {"price": price})
    assert corrected.price is not None
    assert corrected.price.long_request == ModelPrice(input=Decimal(2), output=Decimal(8))
