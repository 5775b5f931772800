"""The protocols that the runtime needs and others implement.

The step executor protocols name `StepContext`, so they stand one floor up, in `runtime.step_executor`.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, runtime_checkable

from .types.model import ModelCapabilities, ModelEvent, ModelRequest

__all__ = ["HasSettings", "Model"]


@runtime_checkable
class Model(Protocol):
    """One LLM endpoint.

    A model object holds no connection and no event-loop object: it may be created before any loop runs and
    be used by many runs, on either backend.
    """

    @property
    def name(self) -> str:
        """The model id, `provider:name`."""
        ...

    @property
    def capabilities(self) -> ModelCapabilities:
        """The capabilities of the model."""
        ...

    def stream(self, request: ModelRequest) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        """Send a request and stream its response.

        Entering the context manager sends the request and waits for the response to begin. The iterator ends
        after `ResponseFinished`. Leaving early, or being cancelled, closes the connection.

        Args:
            request: The request.

        Raises:
            ConfigurationError: The request asks for what the model lacks; nothing was sent.
            ModelError: The request failed, on entering or while iterating. A stream that ends without
                `ResponseFinished` raises `ModelProtocolError`.
        """
        ...


@runtime_checkable
class HasSettings(Protocol):
    """A model with settings, beside the protocol `Model`."""

    def settings_of(self, settings: Mapping[str, Any]) -> Mapping[str, Any]:
        """The settings that a request with these is sent with: those of the model itself as well.

        Raises:
            ConfigurationError: A setting is bad.
        """
        ...
