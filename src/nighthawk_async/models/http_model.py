"""A model over HTTP, whatever protocol it speaks."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any
from uuid import uuid4

from ..catalog.providers import RetryRules
from ..types.model import ModelCapabilities, ModelRequest
from ..wire.codec import Codec, DemandsMaxTokens, EncodedRequest
from .endpoint import Endpoint
from .fitting import fit_request
from .http_plan import HttpRequestPlan
from .http_pool import open_http_pool
from .http_stream import HttpResponseStream, PoolSource
from .pacing import PacerSource, pacer_of_request
from .pacing_lane import Demand
from .prepared_settings import PreparedSettings, SettingsMemory
from .token_demand import estimate_input_tokens

__all__ = ["HttpModel"]

_NO_NAMES: Mapping[str, str] = MappingProxyType({})
_USUAL_RULES = RetryRules()


class HttpModel:
    """A model behind an HTTP endpoint; implements `ports.Model`.

    It holds no connection and no event-loop object: connections come from the pool source, and turns from
    the pacer source, request by request.

    Args:
        codec: Speaks the endpoint's protocol.
        endpoint: Where requests go, credentials included.
        model_name: The model's name at the endpoint.
        capabilities: What the model can do.
        settings: Settings of every request; those of a request itself have the last word.
        setting_names: What the endpoint calls a setting that others call by the name on the left.
        retry_rules: When the provider wants a failed request to be sent again.
        idempotency_header: The header in which the provider takes a key that is the same for all attempts.
        pool_source: Gives the pool for a request. Without one, each request opens a connection of its own.
        pacer_source: Gives the pacer for a request. Without one, no request waits for another.
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
    ) -> None:
        self._codec = codec
        self._model_id = endpoint.model_id
        self._model_name = model_name
        self._capabilities = capabilities
        self._retry_rules = retry_rules
        self._pool_source = pool_source
        self._pacer_source = pacer_source
        self._memory = SettingsMemory(
            endpoint=endpoint,
            settings=settings,
            setting_names=setting_names,
            idempotency_header=idempotency_header,
        )

    def __repr__(self) -> str:
        return f"HttpModel({self.name!r})"

    @property
    def name(self) -> str:
        """The model id, `provider:name`."""
        return self._model_id

    @property
    def capabilities(self) -> ModelCapabilities:
        """The capabilities of the model."""
        return self._capabilities

    def endpoint_of(self, settings: Mapping[str, Any]) -> Endpoint:
        """Return the endpoint of a request, for telemetry.

        Args:
            settings: The settings of the request.

        Raises:
            ConfigurationError: A setting is bad.
        """
        return self._memory.prepare(settings).endpoint

    def settings_of(self, settings: Mapping[str, Any]) -> Mapping[str, Any]:
        """The settings that a request is sent with, for telemetry and budgets: the model's own as well.

        Args:
            settings: The settings of the request.

        Raises:
            ConfigurationError: A setting is bad.
        """
        merged = self._memory.prepare(settings).merged
        if merged.get("max_tokens") is not None or not isinstance(self._codec, DemandsMaxTokens):
            return merged
        return {**merged, "max_tokens": self._codec.max_tokens_of(merged, self._capabilities)}

    def stream(self, request: ModelRequest) -> HttpResponseStream:
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
        fitted = fit_request(
            _with_settings(request, settings.for_codec),
            self._capabilities,
            model_id=self.name,
            find_refusal=self._codec.find_refusal,
        )
        encoded = self._codec.encode(fitted, model_name=self._model_name, capabilities=self._capabilities)
        return HttpResponseStream(
            self._plan(fitted, encoded, settings),
            pool_source=self._pool_source,
            pacer_source=self._pacer_source,
        )

    def _plan(
        self, request: ModelRequest, encoded: EncodedRequest, settings: PreparedSettings
    ) -> HttpRequestPlan:
        return HttpRequestPlan(
            endpoint=settings.endpoint,
            codec=self._codec,
            encoded=_with_key(encoded, settings.idempotency_header),
            settings=settings.transport,
            retry_rules=self._retry_rules,
            price=self._capabilities.price,
            demand=Demand(
                lane=self._model_name,
                input_tokens=estimate_input_tokens(request, encoded.body),
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
    )


def _with_key(encoded: EncodedRequest, idempotency_header: str | None) -> EncodedRequest:
    """The request with a random key of its own, by which the endpoint knows its attempts as one."""
    if idempotency_header is None:
        return encoded
    headers = {**encoded.headers, idempotency_header.lower(): f"nighthawk-{uuid4()}"}
    return replace(encoded, headers=headers)
