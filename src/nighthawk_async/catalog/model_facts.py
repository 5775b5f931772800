"""A row of the tables of models. Data only."""

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Literal

from msgspec import Struct, field

from ..types.model import ModelCapabilities, ModelPrice


class ModelFacts(Struct, frozen=True, kw_only=True):
    """One family of models at one provider.

    Args:
        pattern: The model ids it covers, with `*` for any characters, `?` for one and `[…]` for one of some.
        capabilities: The capabilities of the models.
        setting_names: The endpoint's names of settings, by the names that others use.
        only_through: The provider that serves the models instead; empty if this one does.
        more_through: The provider through which they can do more; empty if that is this one.
        schema_rules: The module in `wire` with the rules of the endpoint for JSON Schemas; empty for those of
            the provider.
        enforces_tools: Whether the schemas of its tools are enforced where the provider enforces them.
        note: Advice for people who choose the models, in a sentence or two.
        source: The source of the facts, with the day.
    """

    pattern: str
    capabilities: ModelCapabilities
    setting_names: Mapping[str, str] = field(default_factory=dict[str, str])
    only_through: str = ""
    more_through: str = ""
    schema_rules: str = ""
    enforces_tools: bool = True
    note: str = ""
    source: str = ""


class SchemaRuleFacts(Struct, frozen=True, kw_only=True):
    """Known rules of a model's endpoint for JSON Schemas.

    Args:
        module: The module in `wire` that has them; empty where none are known.
        strict_places: The places of schemas that it enforces, when they are in the strict subset.
    """

    module: str = ""
    strict_places: frozenset[Literal["tool", "response"]] = frozenset()


def price(
    input_price: str,
    output_price: str,
    *,
    read: str | None = None,
    write: str | None = None,
    write_1h: str | None = None,
    web_search: str | None = None,
    file_search: str | None = None,
) -> ModelPrice:
    """A price, in US dollars per million tokens or thousand searches, each as a decimal number.

    Args:
        input_price: Tokens sent.
        output_price: Tokens received.
        read: Tokens sent that are read from the cache.
        write: Tokens sent that are written to the cache.
        write_1h: Those of them that are kept for an hour.
        web_search: Searches of the web by the provider.
        file_search: Searches of uploaded files by the provider.
    """
    return ModelPrice(
        input=Decimal(input_price),
        output=Decimal(output_price),
        cache_read=None if read is None else Decimal(read),
        cache_write=None if write is None else Decimal(write),
        cache_write_1h=None if write_1h is None else Decimal(write_1h),
        web_search=None if web_search is None else Decimal(web_search),
        file_search=None if file_search is None else Decimal(file_search),
    )


def with_long_requests(usual: ModelPrice, *, above: int, sent: str, received: str) -> ModelPrice:
    """A price that rises for long requests.

    Args:
        usual: The price of other requests.
        above: A request that sends more tokens is long.
        sent: The factor for the price of its tokens sent, cached ones included.
        received: The factor for the price of its tokens received.
    """
    more = Decimal(sent)
    long_request = ModelPrice(
        input=usual.input * more,
        output=usual.output * Decimal(received),
        cache_read=None if usual.cache_read is None else usual.cache_read * more,
        cache_write=None if usual.cache_write is None else usual.cache_write * more,
        cache_write_1h=None if usual.cache_write_1h is None else usual.cache_write_1h * more,
    )
    return replace(usual, long_request=long_request, long_request_tokens=above)
