"""The price of a model at the moment, and the usage and cost of a request over all its attempts.

The price is from genai-prices where that is installed, else from the catalog. Importing genai-prices takes
0.2 seconds, so a thread does that while the first response is awaited, or when a price is needed before. Its
own data are used, or those to which the program has updated it; nothing is fetched here.
"""

import importlib
import importlib.util
import logging
import threading
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

from ..catalog.request_cost import cost_of
from ..ports import AttemptUsage
from ..types.model import ModelPrice
from ..types.usage import Usage

_LOGGER = logging.getLogger("nighthawk")
_LIBRARY = "genai_prices"

_TOKENS = ("input_mtok", "output_mtok", "cache_read_mtok", "cache_write_mtok", "cache_write_1h_mtok")
"""The prices that usage can be multiplied with."""

_USES = {"web_search": "web_searches_kcount", "file_search": "storage_searches_kcount"}
"""The prices of the uses of native tools, by the field of `ModelPrice`."""

_IMAGES = "output_image_mtok"
"""The price of images in the output, which usage tells apart."""

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
        if not is_loaded():
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
    if prices.keys() - _APART - {*_TOKENS, _IMAGES} and not is_text_known:
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
    amounts = {
        name: _amount_above(price, tokens) for name, price in prices.items() if name in (*_TOKENS, _IMAGES)
    }
    return ModelPrice(
        input=amounts["input_mtok"],
        output=amounts["output_mtok"],
        cache_read=amounts.get("cache_read_mtok"),
        cache_write=amounts.get("cache_write_mtok"),
        cache_write_1h=amounts.get("cache_write_1h_mtok"),
        image_output=amounts.get(_IMAGES),
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


def is_loaded() -> bool:
    """Whether a price can be looked up without waiting for the import."""
    return _import_library.cache_info().currsize > 0


_AFTER_SENDING = 0.02
"""Seconds after which the import begins: a request that is about to be sent goes first."""


def load_meanwhile() -> None:
    """Have a thread import the library soon; whoever needs a price before it has ended waits as always."""
    if not is_loaded() and importlib.util.find_spec(_LIBRARY) is not None:
        importing = threading.Timer(_AFTER_SENDING, _import_library)
        importing.daemon = True
        importing.start()


async def _load() -> None:
    """Import the library in a worker thread. Tasks that need it meanwhile wait for the same import."""
    while not is_loaded():
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


_NOTHING = Usage()


class UsageTally:
    """Adds up one request: the usage reported by failed attempts and by the last one, retries, and the cost.

    Args:
        price: The model's prices; None when they are unknown. They can be set until usage is reported.
    """

    def __init__(self, price: ModelPrice | None) -> None:
        self.price = price
        self._lost = _NOTHING
        self._reported: Usage | None = None
        self._total_reported: Usage | None = None
        self._is_begun = False
        self.failed: list[AttemptUsage] = []
        """The attempts that failed, oldest first."""
        self.has_lost = False
        """Whether attempts that failed had reported any usage."""
        self.retries = 0
        """The number of times the request was sent again."""

    @property
    def usage(self) -> Usage | None:
        """The usage of the whole request as far as it is known; None when nothing was sent."""
        if not self._is_begun:
            return None
        return self.unreported() if self._total_reported is None else self._total_reported

    @property
    def present(self) -> Usage | None:
        """The usage reported by the current attempt; None for none."""
        return None if self._reported is None else self._priced(replace(self._reported, requests=0))

    @property
    def may_have_lost(self) -> bool:
        """Whether attempts that failed may have consumed more than they reported."""
        return not self._lost.is_complete

    def attempt_begun(self) -> None:
        """Record that the request is sent now."""
        self._is_begun = True

    def report(self, usage: Usage) -> Usage:
        """The usage of the whole request, as of a report of the current attempt.

        Args:
            usage: The usage of the attempt so far; it replaces earlier reports of the attempt.
        """
        self._reported = usage
        total = self._total_reported = self._total(usage)
        return total

    def attempt_failed(self, *, may_have_consumed: bool) -> None:
        """Keep the consumption of the current attempt, and expect the next one's reports.

        Args:
            may_have_consumed: Whether the attempt may have consumed more than it reported.
        """
        reported = self.present
        if reported is not None:
            reported = replace(reported, is_complete=False)
            self.has_lost = True
            self._lost += reported
        elif may_have_consumed:
            self._lost = replace(self._lost, is_complete=False)
        self.failed.append(AttemptUsage(reported=reported, may_have_consumed=may_have_consumed))
        self._reported = self._total_reported = None

    def unreported(self) -> Usage:
        """The usage of the whole request when the current attempt has reported none."""
        return self._total(Usage(requests=1, is_complete=False))

    def _total(self, usage: Usage) -> Usage:
        total = self._priced(usage)
        if self.failed:
            total += self._lost
        unpriced = total.requests if self.price is None else total.unpriced_requests
        if (total.retries, total.unpriced_requests) == (self.retries, unpriced):
            return total
        return replace(total, retries=self.retries, unpriced_requests=unpriced)

    def _priced(self, usage: Usage) -> Usage:
        """The usage of one attempt with its cost: the price of a token can depend on the number sent."""
        return usage if self.price is None else replace(usage, cost=cost_of(usage, self.price))
