"""The model settings of the transport, checked, and the time limits of one request.

Each limit has its own error:

    queue_timeout        |---|                               each wait for a turn
    timeout                  |---------- from the first turn on: attempts, backoff, later waits ---|
    connect_timeout          |--|                         (kept by `http_transport`)
    first_event_timeout      |-------------|              from connecting to the first output event
    idle_timeout                           |----|----|----|    from one sign of life to the next

A request that waits for its turn costs nothing, and shows nothing about the endpoint: of ten thousand
requests that arrive together under a limit per minute, most wait longer than any answer should take.

No cancel scope is open while the caller holds the stream, only while it waits for something.

All other settings go into the request's body; `wire.transport_settings` lists those that do not. The setting
`capabilities` corrects the catalog's facts about a model.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, fields
from decimal import Decimal
from typing import Annotated, Any, Literal, TypeVar

import anyio
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    StringConstraints,
    TypeAdapter,
    ValidationError,
)

from ..errors import (
    ConfigurationError,
    FirstEventTimeoutError,
    IdleTimeoutError,
    ModelTimeoutError,
    RequestTimeoutError,
)
from ..suggestions import did_you_mean
from ..types.json import is_json_mapping
from ..types.model import Credentials, ModelCapabilities, ModelPrice


def overridden_capabilities(
    capabilities: ModelCapabilities, overrides: Mapping[str, Any]
) -> ModelCapabilities:
    """Return the capabilities of a model: the catalog's, corrected by the setting.

    Args:
        capabilities: The capabilities of the catalog.
        overrides: Fields of `ModelCapabilities` and their values; a price is a mapping of fields of
            `ModelPrice`, in US dollars per million tokens.

    Raises:
        ConfigurationError: There is no such field, or the value does not fit it.
    """
    if not overrides:
        return capabilities
    _refuse_unknown(overrides, ModelCapabilities, "capability of a model")
    price: object = overrides.get("price")
    while is_json_mapping(price):
        _refuse_unknown(price, ModelPrice, "price of a model")
        price = price.get("long_request")
    try:
        corrected = TypeAdapter(ModelCapabilities).validate_python({**asdict(capabilities), **overrides})
    except ValidationError as error:
        faults = [f"{'.'.join(map(str, each['loc']))!r}: {each['msg']}" for each in error.errors()]
        raise ConfigurationError(f"Bad model setting 'capabilities': {'; '.join(faults)}.") from None
    _check_values(corrected)
    return corrected


def _refuse_unknown(given: Mapping[str, Any], form: type[ModelCapabilities | ModelPrice], what: str) -> None:
    known = {each.name for each in fields(form)}
    if unknown := sorted(given.keys() - known):
        raise ConfigurationError(
            f"No {what} is called {unknown[0]!r}; there are {', '.join(sorted(known))}."
            f"{did_you_mean(unknown[0], known)}"
        )


def _check_values(capabilities: ModelCapabilities) -> None:
    for name in ("context_window", "max_output_tokens"):
        number: int | None = getattr(capabilities, name)
        if number is not None and number <= 0:
            raise ConfigurationError(f"Bad model setting 'capabilities': {name!r} must be more than 0.")
    _check_prices(capabilities.price, "price")
    if capabilities.reasoning_efforts == ():
        raise ConfigurationError(
            "Bad model setting 'capabilities': 'reasoning_efforts' must hold a word; None stands for words "
            "that are unknown."
        )


_AMOUNTS = (
    "input",
    "output",
    "cache_read",
    "cache_write",
    "cache_write_1h",
    "web_search",
    "file_search",
    "long_request_tokens",
)


def _check_prices(price: ModelPrice | None, path: str) -> None:
    if price is None:
        return
    for name in _AMOUNTS:
        amount: Decimal | int | None = getattr(price, name)
        if amount is not None and amount < 0:
            raise ConfigurationError(
                f"Bad model setting 'capabilities': '{path}.{name}' must not be negative."
            )
    _check_prices(price.long_request, f"{path}.long_request")


# An empty URL is more likely a variable that was never filled than a choice of the provider's own.
_Url = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
_Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Count = Annotated[int, Field(ge=1)]


def _checked_credentials(value: object) -> object:
    is_one = isinstance(value, Credentials) and callable(value.headers) and not isinstance(value, type)
    if value is None or is_one:
        return value
    raise ValueError(
        "must be an object with the method async def headers(method, url, body), for example "
        "nh.credentials.google()"
    )


class TransportSettings(BaseModel):
    """Settings for sending requests.

    The limits of the whole request (600 seconds) and of the connection (5) and the two retries are those of
    the official SDKs. Half of the whole is given to the first event, since a reasoning model may think for
    minutes before its first output, and to any silence after that.

    Args:
        base_url: The URL below which the protocol's paths lie; None takes the environment's or the
            provider's.
        api_key: The API key; None takes the environment's.
        credentials: Authenticates requests in place of a key; None for a key.
        extra_headers: More headers.
        extra_body: More fields of the request's body, which take precedence.
        capabilities: The capabilities of the model that the catalog lacks or has wrong.
        endpoint_rules: The provider whose rules for requests the endpoint has; None for those of the model's
            provider, or of the host.
        transport: `"websocket"` sends requests over a WebSocket; `"auto"` does so from the second turn of a
            step on, where the endpoint has one.
        timeout: Seconds a request may take in all from its first turn on, its retries included; None
            for no limit.
        queue_timeout: Seconds a request may wait for a turn to be sent; None for no limit.
        connect_timeout: Seconds to wait for the connection.
        first_event_timeout: Seconds from sending a request to the first event of its response that
            is output; None for no limit. Holds for each attempt.
        idle_timeout: Seconds without a sign of life from then on; None for no limit.
        max_response_bytes: Bytes that the body of a response may have, everything in it counted; None for no
            limit. Holds for each attempt.
        max_retries: The number of times that a request that failed before its first output event is sent
            again.
        max_concurrent_requests: Requests in flight at once with the same key at the same endpoint, within a
            run and on one event loop; None for no limit.
        requests_per_minute: Requests that may begin within a minute, likewise.
        tokens_per_minute: Tokens that requests may take within a minute, likewise.
        idempotency_header: The header in which the endpoint takes a key that is the same for all attempts at
            a request; None takes the provider's, if it has one.
        upload_media_above_bytes: The size above which media of a request are uploaded as files; None for
            never.
        uploads_expire_after_seconds: Seconds after which the provider deletes uploaded files; None deletes
            them at the end of the run.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)

    base_url: _Url | None = Field(default=None, repr=False)
    api_key: SecretStr | None = None
    credentials: Annotated[Any, AfterValidator(_checked_credentials)] = Field(default=None, repr=False)
    extra_headers: dict[str, str] = Field(default_factory=dict[str, str], repr=False)
    extra_body: dict[str, Any] = Field(default_factory=dict[str, Any], repr=False)
    capabilities: dict[str, Any] = Field(default_factory=dict[str, Any])
    endpoint_rules: str | None = None
    transport: Literal["http", "websocket", "auto"] = "http"
    timeout: _Seconds | None = 600.0
    queue_timeout: _Seconds | None = None
    connect_timeout: _Seconds = 5.0
    first_event_timeout: _Seconds | None = 300.0
    idle_timeout: _Seconds | None = 300.0
    max_response_bytes: _Count | None = 64 * 1024 * 1024
    max_retries: Annotated[int, Field(ge=0)] = 2
    max_concurrent_requests: _Count | None = None
    requests_per_minute: _Count | None = None
    tokens_per_minute: _Count | None = None
    idempotency_header: str | None = None
    upload_media_above_bytes: Annotated[int, Field(ge=0)] | None = None
    uploads_expire_after_seconds: Annotated[int, Field(ge=3600)] | None = None

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> "TransportSettings":
        """The transport settings among all settings.

        Args:
            settings: All settings of a model or request.

        Raises:
            ConfigurationError: One of them has a bad value; the message names it and does not show the value.
        """
        try:
            return cls.model_validate({name: settings[name] for name in cls.model_fields if name in settings})
        except ValidationError as error:
            faults = [f"{'.'.join(map(str, each['loc']))!r}: {each['msg']}" for each in error.errors()]
            raise ConfigurationError(f"Bad model setting {'; '.join(faults)}.") from None


_FOREVER = float("inf")
_Result = TypeVar("_Result")


class TimeLimits:
    """Limits the waits of one request. The whole request's time begins with its first turn.

    Args:
        settings: The limits.
        place: The name of the endpoint in errors.
    """

    def __init__(self, settings: TransportSettings, place: str) -> None:
        self._settings = settings
        self._place = place
        self._has_begun = False
        self._deadline = _FOREVER
        self._first_event_deadline = _FOREVER
        self._has_output = False

    @property
    def deadline(self) -> float:
        """The time limit of the whole request, on the event loop's clock; infinity before its first turn."""
        return self._deadline

    def begin_attempt(self) -> None:
        """Record that the request is sent now."""
        self._first_event_deadline = _deadline_after(self._settings.first_event_timeout)
        self._has_output = False

    def note_output(self) -> None:
        """Record that the first output event has arrived."""
        self._has_output = True

    async def keep_turn(self, wait: Callable[[], Awaitable[_Result]]) -> _Result:
        """Wait for the request's turn, under the limit of that wait and, once it has begun, of the whole.

        Args:
            wait: Begins the wait.

        Raises:
            RequestTimeoutError: Its turn did not come in time.
        """
        queue_deadline = _deadline_after(self._settings.queue_timeout)
        with anyio.CancelScope(deadline=min(queue_deadline, self._deadline)):
            result = await wait()
            self.begin()
            return result
        if queue_deadline < self._deadline:
            limit = f"{self._settings.queue_timeout:g} seconds (queue_timeout)"
        else:
            limit = f"{self._settings.timeout:g} seconds (timeout)"
        raise RequestTimeoutError(f"still waiting for its turn after {limit}")

    def begin(self) -> None:
        """Record that the request has its first turn, or another one."""
        if not self._has_begun:
            self._has_begun = True
            self._deadline = _deadline_after(self._settings.timeout)

    async def keep_credential(self, wait: Callable[[], Awaitable[_Result]]) -> _Result:
        """Wait for the credential of an attempt, under the limit of the whole request.

        Args:
            wait: Begins the wait.

        Raises:
            RequestTimeoutError: The request's time is over.
        """
        with anyio.CancelScope(deadline=self._deadline):
            return await wait()
        raise RequestTimeoutError(
            f"still waiting for the credential after {self._settings.timeout:g} seconds (timeout)"
        )

    async def keep(self, wait: Callable[[], Awaitable[_Result]]) -> _Result:
        """Wait for a chunk of the response under the limit that applies at this point.

        Args:
            wait: Begins the wait.

        Raises:
            FirstEventTimeoutError: The response did not begin in time.
            IdleTimeoutError: The response was silent for too long.
            RequestTimeoutError: The request's time is over.
        """
        idle_deadline = _deadline_after(self._settings.idle_timeout)
        own_deadline = idle_deadline if self._has_output else self._first_event_deadline
        with anyio.CancelScope(deadline=min(own_deadline, self._deadline)):
            return await wait()
        raise self._too_late() if own_deadline < self._deadline else self._too_long()

    def _too_late(self) -> ModelTimeoutError:
        if self._has_output:
            return IdleTimeoutError(
                f"no sign of life from {self._place} for {self._settings.idle_timeout:g} seconds"
                " (idle_timeout)",
                is_transient=True,
            )
        return FirstEventTimeoutError(
            f"no response from {self._place} within {self._settings.first_event_timeout:g} seconds"
            " (first_event_timeout)",
            is_transient=True,
        )

    def _too_long(self) -> RequestTimeoutError:
        return RequestTimeoutError(
            f"no complete response from {self._place} within {self._settings.timeout:g} seconds (timeout)"
        )


def _deadline_after(seconds: float | None) -> float:
    return _FOREVER if seconds is None else anyio.current_time() + seconds
