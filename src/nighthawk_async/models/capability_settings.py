"""The model setting `capabilities`, which corrects what the catalog says of a model."""

from collections.abc import Mapping
from dataclasses import asdict, fields
from decimal import Decimal
from typing import Any, cast

from pydantic import TypeAdapter, ValidationError

from ..errors import ConfigurationError
from ..types.model import ModelCapabilities, ModelPrice

__all__ = ["overridden_capabilities"]


def overridden_capabilities(
    capabilities: ModelCapabilities, overrides: Mapping[str, Any]
) -> ModelCapabilities:
    """Return the capabilities of a model: the catalog's, corrected by the setting.

    Args:
        capabilities: What the catalog says.
        overrides: Fields of `ModelCapabilities` and their values; a price is a mapping of fields of
            `ModelPrice`, in US dollars per million tokens.

    Raises:
        ConfigurationError: There is no such field, or the value does not fit it.
    """
    if not overrides:
        return capabilities
    _refuse_unknown(overrides, ModelCapabilities, "capability of a model")
    price: object = overrides.get("price")
    while isinstance(price, Mapping):
        prices = cast("Mapping[str, Any]", price)
        _refuse_unknown(prices, ModelPrice, "price of a model")
        price = prices.get("long_request")
    try:
        corrected = TypeAdapter(ModelCapabilities).validate_python({**asdict(capabilities), **overrides})
    except ValidationError as error:
        faults = [f"{'.'.join(map(str, each['loc']))!r}: {each['msg']}" for each in error.errors()]
        raise ConfigurationError(f"Bad model setting 'capabilities': {'; '.join(faults)}.") from None
    _check_values(corrected)
    return corrected


def _refuse_unknown(given: Mapping[str, Any], form: type[ModelCapabilities | ModelPrice], what: str) -> None:
    known = {each.name for each in fields(form)}
    if unknown := sorted(given.keys() - known):
        raise ConfigurationError(f"No {what} is called {unknown[0]!r}; there are {', '.join(sorted(known))}.")


def _check_values(capabilities: ModelCapabilities) -> None:
    for name in ("context_window", "max_output_tokens"):
        number: int | None = getattr(capabilities, name)
        if number is not None and number <= 0:
            raise ConfigurationError(f"Bad model setting 'capabilities': {name!r} must be more than 0.")
    _check_prices(capabilities.price, "price")
    if capabilities.reasoning_efforts == ():
        raise ConfigurationError(
            "Bad model setting 'capabilities': 'reasoning_efforts' must hold a word; None stands for words "
            "that are unknown."
        )


def _check_prices(price: ModelPrice | None, path: str) -> None:
    if price is None:
        return
    for name in ("input", "output", "cache_read", "cache_write", "long_request_tokens"):
        amount: Decimal | int | None = getattr(price, name)
        if amount is not None and amount < 0:
            raise ConfigurationError(
                f"Bad model setting 'capabilities': '{path}.{name}' must not be negative."
            )
    _check_prices(price.long_request, f"{path}.long_request")
