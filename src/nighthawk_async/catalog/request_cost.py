"""Costs of tokens, by the price of a model or the user's own prices. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from typing import TypeAlias, cast

from ..errors import ConfigurationError
from ..types.model import ModelPrice
from ..types.usage import Usage

Prices: TypeAlias = Mapping[str, ModelPrice] | Callable[[str, Usage], Decimal | None]
"""Prices by model id, or a function from a model id and a usage to US dollars; None for unknown."""

_PER_TOKEN = Decimal(1) / 1_000_000
_PER_USE = Decimal(1) / 1_000
_NO_USES = Usage()


def cost_of(usage: Usage, price: ModelPrice) -> Decimal:
    """Return the cost of one request's tokens and uses of native tools, in US dollars.

    If a provider reports more cached tokens than tokens, the number of tokens is trusted.

    Args:
        usage: The usage of one request.
        price: The prices.
    """
    sent = max(usage.input_tokens, 0)
    uses = (price.web_search or 0) * usage.web_searches + (price.file_search or 0) * usage.file_searches
    price = price.for_request(sent)
    read = min(max(usage.cache_read_tokens, 0), sent)
    written = min(max(usage.cache_write_tokens, 0), sent - read)
    kept = min(max(usage.cache_write_1h_tokens, 0), written)
    read_price = price.input if price.cache_read is None else price.cache_read
    write_price = price.input if price.cache_write is None else price.cache_write
    millions = (
        price.input * (sent - read - written)
        + read_price * read
        + write_price * (written - kept)
        + _price_of_an_hour(price) * kept
        + price.output * max(usage.output_tokens, 0)
    )
    if price.image_output is not None:
        images = min(max(usage.image_output_tokens, 0), max(usage.output_tokens, 0))
        millions += (price.image_output - price.output) * images
    return millions * _PER_TOKEN + uses * _PER_USE


def _price_of_an_hour(price: ModelPrice) -> Decimal:
    """The price of tokens that the provider keeps in its cache for an hour."""
    if price.cache_write_1h is not None:
        return price.cache_write_1h
    return price.input if price.cache_write is None else 2 * price.input


def priced(usage: Usage, price: ModelPrice | None) -> Usage:
    """The usage of one request with its cost added, unless the cost was reported.

    Every view of a request passes through here, so that all of them show the same cost.

    Args:
        usage: The usage of one request.
        price: The price of the model; None when it is unknown.
    """
    if price is None or usage.cost:
        return usage
    return replace(usage, cost=cost_of(usage, price), unpriced_requests=0)


def known_cost(
    usage: Usage, *, model_name: str, prices: Sequence[Prices], model_price: ModelPrice | None
) -> Decimal | None:
    """Return the cost of a request, in US dollars; None when it is unknown.

    Args:
        usage: The usage of the request.
        model_name: The model id.
        prices: The prices that users give; the first that knows the model counts.
        model_price: The price of the model, used when the transport has reported no cost.

    Raises:
        ConfigurationError: A user's function gives no amount of money.
    """
    for each in prices:
        cost = _said_cost(each, model_name, usage)
        if cost is not None:
            return cost
    if usage.cost > 0:
        return usage.cost
    if model_price is not None:
        return cost_of(usage, model_price)
    return None if usage.input_tokens or usage.output_tokens else Decimal(0)


def highest_cost(
    input_tokens: int,
    output_tokens: int,
    *,
    model_name: str,
    prices: Sequence[Prices],
    model_price: ModelPrice | None,
    uses: Usage = _NO_USES,
    caches_for_an_hour: bool = False,
) -> Decimal | None:
    """The greatest possible cost of a request, in US dollars: every token sent at the highest price.

    Args:
        input_tokens: The greatest number of tokens sent.
        output_tokens: The greatest number of tokens received.
        model_name: The model id.
        prices: The prices that users give; the first that knows the model counts.
        model_price: The price of the model.
        uses: The most uses of native tools.
        caches_for_an_hour: Whether the request may ask the provider to keep tokens for an hour.

    Raises:
        ConfigurationError: A user's function gives no amount of money.
    """
    plain = replace(uses, requests=1, input_tokens=input_tokens, output_tokens=output_tokens)
    kept = input_tokens if caches_for_an_hour else 0
    usages = (
        plain,
        replace(plain, cache_write_tokens=input_tokens),
        replace(plain, cache_write_tokens=input_tokens, cache_write_1h_tokens=kept),
        replace(plain, cache_read_tokens=input_tokens),
        replace(plain, image_output_tokens=output_tokens),
    )
    costs = [
        known_cost(usage, model_name=model_name, prices=prices, model_price=model_price) for usage in usages
    ]
    known = [cost for cost in costs if cost is not None]
    return max(known) if len(known) == len(costs) else None


def _said_cost(prices: Prices, model_name: str, usage: Usage) -> Decimal | None:
    if isinstance(prices, Mapping):
        price = cast("Mapping[str, ModelPrice]", prices).get(model_name)
        return None if price is None else cost_of(usage, price)
    cost = prices(model_name, usage)
    return None if cost is None else _checked_cost(cost, model_name)


def _checked_cost(cost: object, model_name: str) -> Decimal:
    if isinstance(cost, Decimal | int | float) and not isinstance(cost, bool):
        try:
            amount = Decimal(str(cost))
        except InvalidOperation:
            amount = Decimal("NaN")
        if amount.is_finite() and amount >= 0:
            return amount
    raise ConfigurationError(
        f"The function in prices gave {cost!r} for {model_name}; it gives US dollars, or None for unknown."
    )
