"""The price of a model at the moment: from genai-prices where that is installed, else from the catalog.

Importing genai-prices takes 0.2 seconds, so a worker thread does that when the first price is needed. Its own
data are used, or those to which the program has updated it; nothing is fetched here.
"""

import importlib
import importlib.util
import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache, lru_cache
from time import time
from types import ModuleType
from typing import Any, cast
from urllib.parse import SplitResult

from anyio import CapacityLimiter, Event, to_thread
from anyio.lowlevel import RunVar

from ..types.model import ModelPrice

_LOGGER = logging.getLogger("nighthawk")
_LIBRARY = "genai_prices"

_TOKENS = ("input_mtok", "output_mtok", "cache_read_mtok", "cache_write_mtok", "cache_write_1h_mtok")
"""The prices that usage can be multiplied with."""

_USES = {"web_search": "web_searches_kcount", "file_search": "storage_searches_kcount"}
"""The prices of the uses of native tools, by the field of `ModelPrice`."""

_APART = frozenset(_USES.values())
"""Prices of services that a request has to ask for."""

_MINUTE = 60
"""The seconds for which a price is kept: some depend on the day, others on the time of day."""

_loading: RunVar[Event | None] = RunVar("nighthawk_async_prices_loading")


class CurrentPrice:
    """The price of a model at an endpoint, looked up anew for each request.

    Args:
        base_url: The base URL of requests, by which genai-prices knows the provider.
        model_name: The model's name at the endpoint.
        catalog_price: The price in the catalog; None when it has none.
    """

    __slots__ = ("_base_url", "_catalog_price", "_model_name")

    def __init__(self, base_url: SplitResult, model_name: str, catalog_price: ModelPrice | None) -> None:
        self._base_url = f"{base_url.scheme}://{base_url.hostname}{base_url.path}"  # no credentials
        self._model_name = model_name
        self._catalog_price = catalog_price

    async def load(self) -> ModelPrice | None:
        """Return the price; None when it is unknown. The first call may wait for the import."""
        if not _is_loaded():
            await _load()
        return self.find()

    def find(self) -> ModelPrice | None:
        """Return the price; None when it is unknown. The first call imports genai-prices, if it is there."""
        listed = self.find_listed()
        return self._catalog_price if listed is None else listed

    def find_listed(self) -> ModelPrice | None:
        """Return the price by genai-prices; None when it has none that holds for all requests."""
        if _import_library() is None:
            return None
        minute = datetime.fromtimestamp(time() // _MINUTE * _MINUTE, tz=UTC)
        is_priced = self._catalog_price is not None
        return listed_price(self._base_url, self._model_name, at=minute, is_text_known=is_priced)


@lru_cache(maxsize=256)
def listed_price(
    base_url: str, model_name: str, *, at: datetime, is_text_known: bool = False
) -> ModelPrice | None:
    """Return a price by genai-prices; None when it does not know the provider or the model.

    Usage does not tell sound and pictures from text. A model for which those have prices of their own has a
    price only if that of text is known to be good enough.

    Args:
        base_url: The base URL of requests.
        model_name: The model's name at the endpoint.
        at: The time of the request.
        is_text_known: Whether the catalog has a price of text for the model.
    """
    library: Any = _import_library()
    if library is None:
        return None
    try:
        found = library.calc_price(
            library.Usage(), model_name, provider_api_url=base_url, genai_request_timestamp=at
        )
    except LookupError:
        return None
    listed = cast("dict[str, Any]", vars(found.model_price))
    prices = {name: each for name, each in listed.items() if each is not None and not name.startswith("_")}
    if not prices.keys() >= {"input_mtok", "output_mtok"}:
        return None
    if prices.keys() - _APART - {*_TOKENS} and not is_text_known:
        return None
    return _as_price(prices)


def library_version() -> str:
    """Return the name and the version of genai-prices, once it is imported."""
    library = _import_library()
    return "" if library is None else f"genai-prices {library.__version__}"


def _as_price(prices: Mapping[str, Any]) -> ModelPrice:
    """Convert prices, which may rise with the number of tokens sent, once or in several tiers."""
    starts = {tier.start for name in _TOKENS for tier in getattr(prices.get(name), "tiers", ())}
    price: ModelPrice | None = None
    above: int | None = None
    for start in sorted(starts, reverse=True):
        price = _price_above(prices, start, price, above)
        above = start
    uses = {name: prices[listed] for name, listed in _USES.items() if isinstance(prices.get(listed), Decimal)}
    return replace(_price_above(prices, -1, price, above), **uses)


def _price_above(
    prices: Mapping[str, Any], tokens: int, long_request: ModelPrice | None, long_request_tokens: int | None
) -> ModelPrice:
    """The price of requests that send more than so many tokens, up to the next tier."""
    amounts = {name: _amount_above(price, tokens) for name, price in prices.items() if name in _TOKENS}
    return ModelPrice(
        input=amounts["input_mtok"],
        output=amounts["output_mtok"],
        cache_read=amounts.get("cache_read_mtok"),
        cache_write=amounts.get("cache_write_mtok"),
        cache_write_1h=amounts.get("cache_write_1h_mtok"),
        long_request=long_request,
        long_request_tokens=long_request_tokens,
    )


def _amount_above(price: Any, tokens: int) -> Decimal:
    reached = [tier.price for tier in getattr(price, "tiers", ()) if tier.start <= tokens]
    return reached[-1] if reached else getattr(price, "base", price)


@cache
def _import_library() -> ModuleType | None:
    """The library with its data; None when it is not installed."""
    if importlib.util.find_spec(_LIBRARY) is None:
        return None
    try:
        library: Any = importlib.import_module(_LIBRARY)
        with suppress(LookupError):  # it imports its data at the first question
            library.calc_price(library.Usage(), "gpt-5", provider_id="openai")
    except ImportError as error:
        _LOGGER.warning("genai-prices is not used: %r", error)
        return None
    return library


def _is_loaded() -> bool:
    return _import_library.cache_info().currsize > 0


async def _load() -> None:
    """Import the library in a worker thread. Tasks that need it meanwhile wait for the same import."""
    while not _is_loaded():
        if importlib.util.find_spec(_LIBRARY) is None:
            _import_library()
            return
        begun = _loading.get(None)
        if begun is not None:
            await begun.wait()
            continue
        done = Event()
        _loading.set(done)
        try:
            # With a limiter of its own: other threads may be busy for long.
            await to_thread.run_sync(_import_library, limiter=CapacityLimiter(1), abandon_on_cancel=True)
        finally:
            _loading.set(None)
            done.set()
