"""Everything about one request that is decided before anything is sent. Data only."""

from collections.abc import Hashable
from dataclasses import dataclass

from ..catalog.providers import RetryRules
from ..types.model import ModelPrice
from ..wire.codec import Codec, EncodedRequest
from .endpoint import Endpoint
from .pacing_lane import Demand
from .settings import TransportSettings

__all__ = ["HttpRequestPlan"]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class HttpRequestPlan:
    """One request: what is sent, where to, and under which rules.

    Args:
        endpoint: Where it goes.
        codec: Speaks the endpoint's protocol.
        encoded: What is sent.
        settings: Time limits and retries.
        retry_rules: When the provider wants it to be sent again.
        price: What the model costs; None when that is unknown.
        demand: What it needs before it may be sent.
        pacing_key: Tells the requests that share limits from others.
    """

    endpoint: Endpoint
    codec: Codec
    encoded: EncodedRequest
    settings: TransportSettings
    retry_rules: RetryRules
    price: ModelPrice | None
    demand: Demand
    pacing_key: Hashable
