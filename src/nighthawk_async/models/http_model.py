"""A model over HTTP, whatever protocol it speaks. Floor 4."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from ..types.model import ModelCapabilities, ModelRequest
from ..wire.codec import Codec
from .endpoint import Endpoint
from .fitting import fit_request
from .http_pool import open_http_pool
from .http_stream import HttpResponseStream, PoolSource
from .settings import TransportSettings

__all__ = ["HttpModel"]

_NO_NAMES: Mapping[str, str] = MappingProxyType({})


class HttpModel:
    """A model behind an HTTP endpoint; implements `ports.Model`.

    It holds no connection and no event-loop object: connections come from the pool source, request by
    request.

    Args:
        codec: Speaks the endpoint's protocol.
        endpoint: Where requests go, credentials included.
        model_name: The model's name at the endpoint.
        capabilities: What the model can do.
        settings: Settings of every request; those of a request itself have the last word.
        setting_names: What the endpoint calls a setting that others call by the name on the left.
        pool_source: Gives the pool for a request. Without one, each request opens a connection of its own.
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
        pool_source: PoolSource = open_http_pool,
    ) -> None:
        self._codec = codec
        self._endpoint = endpoint
        self._model_name = model_name
        self._capabilities = capabilities
        self._settings = dict(settings)
        self._setting_names = setting_names
        self._pool_source = pool_source

    def __repr__(self) -> str:
        return f"HttpModel({self.name!r})"

    @property
    def name(self) -> str:
        """The model id, `provider:name`."""
        return self._endpoint.model_id

    @property
    def capabilities(self) -> ModelCapabilities:
        """What the model can do."""
        return self._capabilities

    def stream(self, request: ModelRequest) -> HttpResponseStream:
        """Send a request and stream its response; see `ports.Model.stream`.

        Entering the stream waits for the first event of the response. Until then a failed request is sent
        again, as the settings allow; afterwards never.

        Args:
            request: The request.

        Raises:
            ConfigurationError: The request asks for what the model or its protocol lacks, or has a bad
                setting.
        """
        settings = {**self._settings, **request.settings}
        transport = TransportSettings.from_settings(settings)
        fitted = fit_request(
            request, self._capabilities, model_id=self.name, find_refusal=self._codec.find_refusal
        )
        encoded = self._codec.encode(
            _with_settings(fitted, self._rename(settings)), model_name=self._model_name
        )
        return HttpResponseStream(
            endpoint=self._endpoint.with_headers(transport.extra_headers),
            codec=self._codec,
            encoded=encoded,
            settings=transport,
            pool_source=self._pool_source,
        )

    def _rename(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        return {self._setting_names.get(name, name): value for name, value in settings.items()}


def _with_settings(request: ModelRequest, settings: Mapping[str, Any]) -> ModelRequest:
    return ModelRequest(
        system_prompt=request.system_prompt,
        messages=request.messages,
        tools=request.tools,
        tool_choice=request.tool_choice,
        response_format=request.response_format,
        settings=settings,
    )
