"""Every exception the library raises on purpose. Floor 0: imports nothing of the house.

    NighthawkError
    ├── NaturalParseError           a natural block, its bindings or its frontmatter are malformed
    ├── ConfigurationError          a setting is wrong; nothing was sent anywhere
    │   ├── UnknownModelError           no provider or model of that name, or a malformed model id
    │   ├── MissingCredentialError      the provider's API key is not set
    │   └── UnsupportedContentError     the model cannot take a kind of content
    ├── ExecutionError              a step failed
    │   ├── StepLimitError              a limit on turns, tool calls or seconds was reached
    │   └── StepEndedError              a message reached a step actor that had already stopped
    ├── ToolEvaluationError         an expression or a statement raised while a tool evaluated it
    ├── ToolValidationError         a value does not match the type of its binding
    ├── ToolRegistrationError       a tool has a bad name, a bad signature, or a name that is taken
    ├── ToolBoundaryError           what a tool raises to send a structured failure to the model
    └── ModelError                  a model request failed
        ├── ModelConnectionError        no connection, or a broken one
        ├── ModelTimeoutError           something took too long
        │   ├── ConnectTimeoutError         the connection
        │   ├── FirstEventTimeoutError      the beginning of the response
        │   ├── IdleTimeoutError            the next sign of life in the response
        │   └── RequestTimeoutError         the whole request
        ├── ModelStatusError            the endpoint answered with an HTTP error status
        ├── ModelProviderError          the provider reported an error inside its stream
        └── ModelProtocolError          the answer is not what the protocol promises

`InterceptionError` of `runtime.model_access`, and the errors of cassettes below it, stand beside what raises
them.

Source: specification section 13; the branches below `ConfigurationError` and `ModelError` are this
library's own, because it speaks to the providers itself.
"""

from typing import Literal, TypeAlias

__all__ = [
    "ConfigurationError",
    "ConnectTimeoutError",
    "ErrorKind",
    "ExecutionError",
    "FirstEventTimeoutError",
    "IdleTimeoutError",
    "MissingCredentialError",
    "ModelConnectionError",
    "ModelError",
    "ModelProtocolError",
    "ModelProviderError",
    "ModelStatusError",
    "ModelTimeoutError",
    "NaturalParseError",
    "NighthawkError",
    "RequestTimeoutError",
    "StepEndedError",
    "StepLimitError",
    "ToolBoundaryError",
    "ToolEvaluationError",
    "ToolRegistrationError",
    "ToolValidationError",
    "UnknownModelError",
    "UnsupportedContentError",
]

ErrorKind: TypeAlias = Literal[
    "invalid_input", "resolution", "execution", "transient", "internal", "oversight"
]
"""Categories of failures that a model may see (specification 8.3)."""


class NighthawkError(Exception):
    """Base class of every exception this library raises on purpose.

    Raised itself when a runtime precondition fails, for example when no run is active.
    """


class NaturalParseError(NighthawkError):
    """A natural block could not be parsed.

    Args:
        message: What is wrong and what to do about it.
        filename: The source file of the block, when known.
        line: The line of the block in that file, counted from 1, when known.
    """

    def __init__(self, message: str, *, filename: str | None = None, line: int | None = None) -> None:
        self.message = message
        self.filename = filename
        self.line = line
        place = "" if filename is None else f"{filename}:{line}: " if line is not None else f"{filename}: "
        super().__init__(place + message)


class ConfigurationError(NighthawkError):
    """A setting is wrong. Nothing was sent."""


class UnknownModelError(ConfigurationError):
    """No provider or model of that name exists, or the model id is not `provider:model`."""


class MissingCredentialError(ConfigurationError):
    """The API key of the provider is not set."""


class UnsupportedContentError(ConfigurationError):
    """The model cannot take a kind of content that the request holds."""


class ExecutionError(NighthawkError):
    """A step failed.

    For example: the model's answer is not JSON, the outcome kind is not allowed for the block, the return
    value does not match the function's annotation, or the block raised without a matching exception type.
    """


class StepLimitError(ExecutionError):
    """A limit on turns, tool calls or seconds was reached before the step had an outcome."""


class StepEndedError(ExecutionError):
    """A message was sent to a step actor that had already stopped."""


class ToolEvaluationError(NighthawkError):
    """Evaluating an expression or a statement inside a tool call failed. The cause is chained."""


class ToolValidationError(NighthawkError):
    """A value does not match the type of the binding it was assigned to."""


class ToolRegistrationError(NighthawkError):
    """A tool could not be registered."""


class ToolBoundaryError(NighthawkError):
    """A structured failure that a tool sends to the model (specification 8.3.1).

    Args:
        kind: The category of the failure.
        message: What failed.
        guidance: What the model may do about it, when there is something.
    """

    def __init__(self, *, kind: ErrorKind, message: str, guidance: str | None = None) -> None:
        super().__init__(message)
        self.kind: ErrorKind = kind
        self.message = message
        self.guidance = guidance


class ModelError(NighthawkError):
    """A model request failed.

    Args:
        message: What happened, naming the model or the endpoint.
        is_transient: Whether the same request may succeed later.

    Attributes:
        retries: How often the request had been sent again before this error.
    """

    def __init__(self, message: str, *, is_transient: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.is_transient = is_transient
        self.retries = 0


class ModelConnectionError(ModelError):
    """The connection could not be made, or broke."""


class ModelTimeoutError(ModelError):
    """Something took too long; the subclasses say what."""


class ConnectTimeoutError(ModelTimeoutError):
    """The connection was not there in time (`connect_timeout_seconds`)."""


class FirstEventTimeoutError(ModelTimeoutError):
    """The response did not begin in time (`first_event_timeout_seconds`)."""


class IdleTimeoutError(ModelTimeoutError):
    """A response that had begun was silent for too long (`idle_timeout_seconds`)."""


class RequestTimeoutError(ModelTimeoutError):
    """The whole request took too long.

    Either the request from its first turn on, with its retries (`timeout_seconds`), or the wait for a turn
    (`queue_timeout_seconds`).
    """


class ModelStatusError(ModelError):
    """The endpoint answered with an HTTP error status.

    Args:
        message: What happened, with an excerpt of the endpoint's own message.
        status: The HTTP status code.
        is_transient: Whether the same request may succeed later.
        retry_after_seconds: How long the endpoint asked to wait, in seconds, when it said so.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int,
        is_transient: bool = False,
        retry_after_seconds: float | None = None,
    ) -> None:
        super().__init__(message, is_transient=is_transient)
        self.status = status
        self.retry_after_seconds = retry_after_seconds


class ModelProviderError(ModelError):
    """The provider reported an error inside a stream that had begun with a success status.

    Args:
        message: The provider's message.
        error_type: The provider's own name of the error, when it gave one.
        is_transient: Whether the same request may succeed later.
    """

    def __init__(self, message: str, *, error_type: str | None = None, is_transient: bool = False) -> None:
        super().__init__(message, is_transient=is_transient)
        self.error_type = error_type


class ModelProtocolError(ModelError):
    """The answer is not what the protocol promises: garbage, or a stream without its terminal event."""
