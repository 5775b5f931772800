"""The model setting `capabilities`, which corrects what the catalog says of a model. Floor 4."""

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
    """What a model can do, as the catalog says and the setting corrects it.

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
    if isinstance(price := overrides.get("price"), Mapping):
        _refuse_unknown(cast("Mapping[str, Any]", price), ModelPrice, "price of a model")
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
    if capabilities.price is not None:
        for each in fields(ModelPrice):
            price: Decimal | None = getattr(capabilities.price, each.name)
            if price is not None and price < 0:
                raise ConfigurationError(
                    f"Bad model setting 'capabilities': 'price.{each.name}' must not be negative."
                )
    if capabilities.reasoning_efforts == ():
        raise ConfigurationError(
            "Bad model setting 'capabilities': 'reasoning_efforts' must hold a word; None stands for words "
            "that are unknown."
        )
