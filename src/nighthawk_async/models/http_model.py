"""A model over HTTP, of any protocol; `exchange` sends its requests."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from ..catalog.providers import RetryRules
from ..ports import ResponseStream
from ..types.model import ModelCapabilities, ModelPrice, ModelRequest
from ..types.unset import UNSET, Unset
from ..wire.codec import Codec, DemandsMaxTokens, EncodedRequest
from .endpoint import Endpoint
from .exchange import Exchange, PoolSource, PriceSource
from .fitting import FeatureCheck, RequestRules, estimate_input_tokens, fit_request
from .http_pool import open_http_pool
from .pacing import Demand, PacerSource, pacer_of_request
from .prepared_settings import HttpRequestPlan, PreparedSettings, SettingsMemory
from .pricing import is_loaded, load_meanwhile

if TYPE_CHECKING:
    from .uploads import UploadTerms

_NO_NAMES: Mapping[str, str] = MappingProxyType({})
_USUAL_RULES = RetryRules()


class HttpModel:
    """A model behind an HTTP endpoint; implements `ports.Model`.

    It holds no connection and no event-loop object: connections come from the pool source, and turns from
    the pacer source, request by request.

    Args:
        codec: Speaks the endpoint's protocol.
        endpoint: The endpoint of requests, credentials included.
        model_name: The model's name at the endpoint.
        capabilities: The capabilities of the model.
        settings: Settings of every request; those of a request itself take precedence.
        setting_names: The endpoint's names of settings, by the names that others use.
        retry_rules: The provider's rules of retries.
        idempotency_header: The header in which the provider takes a key that is the same for all attempts.
        pool_source: Provides the pool for a request. Without one, each request opens a connection of its own.
        pacer_source: Provides the pacer for a request. Without one, no request waits for another.
        price_source: Looks up the price. Without one, it is that of the capabilities.

    Attributes:
        name: The model id, `provider:name`.
        capabilities: The capabilities of the model, with its price when `load_price` was called last.
        codec: See above, as for the others.
        pool_source: Provides the pool for a request.
        retry_rules: The provider's rules of retries.
    """

    def __init__(
        self,
        *,
        codec: Codec,
        endpoint: Endpoint,
        model_name: str,
        capabilities: ModelCapabilities,
        settings: Mapping[str, Any] = MappingProxyType({}),
        setting_names: Mapping[str, str] = _NO_NAMES,
        retry_rules: RetryRules = _USUAL_RULES,
        idempotency_header: str | None = None,
        pool_source: PoolSource = open_http_pool,
        pacer_source: PacerSource = pacer_of_request,
        price_source: PriceSource | None = None,
    ) -> None:
        self.codec = codec
        self.name = endpoint.model_id
        self._model_name = model_name
        self.capabilities = capabilities
        self.retry_rules = retry_rules
        self.pool_source = pool_source
        self._pacer_source = pacer_source
        self._price_source = price_source
        self._rules = RequestRules.of_model(codec.rules, model_name)
        self._features = FeatureCheck()
        self._memory = SettingsMemory(
            endpoint=endpoint,
            settings=settings,
            setting_names=setting_names,
            idempotency_header=idempotency_header,
        )

    def __repr__(self) -> str:
        return f"HttpModel({self.name!r})"

    async def load_price(self) -> ModelPrice | None:
        """Look up the price of requests that begin now; see `ports.HasCurrentPrice`."""
        if self._price_source is not None:
            price = await self._price_source()
            if price != self.capabilities.price:
                self.capabilities = replace(self.capabilities, price=price)
        return self.capabilities.price

    def endpoint_of(self, settings: Mapping[str, Any]) -> Endpoint:
        """Return the endpoint of a request, for telemetry.

        Args:
            settings: The settings of the request.

        Raises:
            ConfigurationError: A setting is bad.
        """
        return self._memory.prepare(settings).endpoint

    def settings_of(self, settings: Mapping[str, Any]) -> Mapping[str, Any]:
        """The settings that a request is sent with, those of the model included; for telemetry and budgets.

        Args:
            settings: The settings of the request.

        Raises:
            ConfigurationError: A setting is bad.
        """
        merged = self._memory.prepare(settings).merged
        if merged.get("max_tokens") is not None or not isinstance(self.codec, DemandsMaxTokens):
            return merged
        return {**merged, "max_tokens": self.codec.max_tokens_of(merged, self.capabilities)}

    def stream(self, request: ModelRequest) -> ResponseStream:
        """Send a request and stream its response; see `ports.Model.stream`.

        Entering the stream waits for the first event of the response that is output. Until then a failed
        request is sent again, as the settings allow; afterwards never.

        Args:
            request: The request.

        Raises:
            ConfigurationError: The request asks for what the model or its protocol lacks, or has a bad
                setting.
        """
        settings = self._memory.prepare(request.settings)
        if settings.transport.upload_media_above_bytes is not None:
            from .uploads import UploadingResponse  # here, because few requests have large media

            terms = self.upload_terms(settings)
            return UploadingResponse(request, terms, lambda uploaded: self.send(uploaded, settings))
        return self.send(request, settings)

    def upload_terms(self, settings: PreparedSettings) -> "UploadTerms":
        """The terms of uploads for a request with these settings."""
        from .uploads import UploadTerms

        return UploadTerms(
            codec=self.codec,
            settings=settings,
            retry_rules=self.retry_rules,
            pool_source=self.pool_source,
        )

    def send(self, request: ModelRequest, settings: PreparedSettings) -> Exchange:
        """Send a request as it is; see `stream`.

        Args:
            request: The request.
            settings: Its settings.

        Raises:
            ConfigurationError: See `stream`.
        """
        plan = self.plan(request, settings)
        sender = self.pool_source
        if settings.transport.transport != "http":
            from .websocket_choice import choose_sender  # here, because few requests may use a WebSocket

            sender = choose_sender(request, plan, sender)
        return Exchange(
            plan,
            pool_source=sender,
            pacer_source=self._pacer_source,
            load_price=self.load_price,
            price=self._price_until_loaded(),
        )

    def prepare(self, settings: Mapping[str, Any]) -> PreparedSettings:
        """The settings of a request, those of the model included, ready for use.

        Args:
            settings: The settings of the request.

        Raises:
            ConfigurationError: A setting is bad.
        """
        return self._memory.prepare(settings)

    def _price_until_loaded(self) -> ModelPrice | Unset | None:
        """The price until the list of prices is imported; UNSET where nothing is waited for."""
        if self._price_source is None or is_loaded():
            return UNSET
        load_meanwhile()
        return self.capabilities.price

    def plan(self, request: ModelRequest, settings: PreparedSettings) -> HttpRequestPlan:
        """The request as it is to be sent.

        Args:
            request: The request.
            settings: Its settings.

        Raises:
            ConfigurationError: See `stream`.
        """
        with_settings = _with_settings(request, settings.for_codec)
        self._rules.check(with_settings, model_id=self.name)
        fitted = fit_request(
            with_settings,
            self.capabilities,
            model_id=self.name,
            find_refusal=self.codec.find_refusal,
            check=self._features.check,
        )
        encoded = self.codec.encode(fitted, model_name=self._model_name, capabilities=self.capabilities)
        return HttpRequestPlan(
            endpoint=settings.endpoint,
            codec=self.codec,
            encoded=_with_key(encoded, settings.idempotency_header),
            settings=settings.transport,
            retry_rules=self.retry_rules,
            demand=Demand(
                lane=self._model_name,
                input_tokens=estimate_input_tokens(fitted, encoded.body),
                output_tokens=settings.response_tokens,
                limits=settings.pacing_limits,
            ),
            pacing_key=settings.pacing_key,
        )


def _with_settings(request: ModelRequest, settings: Mapping[str, Any]) -> ModelRequest:
    return ModelRequest(
        system_prompt=request.system_prompt,
        messages=request.messages,
        tools=request.tools,
        tool_choice=request.tool_choice,
        response_format=request.response_format,
        settings=settings,
        site=request.site,
    )


def _with_key(encoded: EncodedRequest, idempotency_header: str | None) -> EncodedRequest:
    """The request with a random key, by which the endpoint recognizes its attempts as one request."""
    if idempotency_header is None:
        return encoded
    headers = {**encoded.headers, idempotency_header.lower(): f"nighthawk-{uuid4()}"}
    return replace(encoded, headers=headers)
