"""Calls of an endpoint beside the requests to its model: batches and files.

Each is signed, limited in time and sent again like a request to the model; its answer is read as a whole.
"""

import copy
from collections.abc import Mapping
from dataclasses import replace
from random import random
from typing import Any, TypeVar
from urllib.parse import SplitResult

import anyio
from msgspec import Struct

from ..catalog.providers import RetryRules
from ..errors import ModelConnectionError, ModelError, ModelProtocolError, RequestTimeoutError
from ..types.json import is_json_list
from ..wire.json_text import NOT_JSON, as_object, decode_json
from ..wire.provider_errors import status_error
from .endpoint import Endpoint, name_error
from .http_pool import HttpPool
from .http_retries import retry_delay
from .signing import RequestSigner
from .time_limits import TimeLimits, TransportSettings

JSON: Mapping[str, str] = {"content-type": "application/json", "accept": "application/json"}
"""The headers of a call with a JSON body."""

_HEADERS: Mapping[str, str] = {"accept-encoding": "identity", "user-agent": "nighthawk-async"}
_GOOD = range(200, 300)
_UNCERTAIN = frozenset({408, 500, 502, 504})
"""Statuses after which it is unknown whether a call was carried out."""

_Error = TypeVar("_Error", bound=Exception)


class CallAnswer(Struct, frozen=True, kw_only=True):
    """The answer to a call.

    Args:
        headers: Its headers; names in lower case.
        body: Its body.
    """

    headers: Mapping[str, str]
    body: bytes

    def json(self) -> dict[str, object]:
        """The body as a JSON object.

        Raises:
            ModelProtocolError: It is none.
        """
        try:
            decoded: object = decode_json(self.body)
        except NOT_JSON:
            decoded = None
        if not isinstance(decoded, dict):
            raise ModelProtocolError("the endpoint's answer is no JSON object")
        return decoded  # pyright: ignore[reportUnknownVariableType]


class LostAnswerError(ModelConnectionError):
    """The answer to a call that must not be repeated is lost: the endpoint may have carried it out."""


class EndpointCalls:
    """Makes calls of an endpoint.

    Args:
        endpoint: The endpoint, credentials included.
        settings: Time limits, retries and credentials.
        rules: The provider's rules of retries.
        pool: The pool of connections.
    """

    def __init__(
        self, endpoint: Endpoint, settings: TransportSettings, rules: RetryRules, pool: HttpPool
    ) -> None:
        self.endpoint = endpoint
        self._settings = settings
        self._rules = rules
        self._pool = pool

    async def call(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str] = JSON,
        body: bytes = b"",
        is_repeatable: bool = True,
        at: SplitResult | None = None,
        max_bytes: int | None = None,
    ) -> CallAnswer:
        """Make a call.

        Args:
            method: The HTTP method.
            path: The path below the base URL.
            headers: Its headers, credentials excepted.
            body: Its body.
            is_repeatable: Whether it may be sent again when it is unknown whether it was carried out.
            at: Another base URL of the same provider; None for that of the endpoint.
            max_bytes: The greatest size of the answer; None for the limit of the settings.

        Raises:
            LostAnswerError: It is not repeatable, and its answer is lost.
            ModelError: It failed.
        """
        endpoint = self.endpoint if at is None else replace(self.endpoint, base_url=at)
        retries = 0
        limits = TimeLimits(self._settings, endpoint.base_url.netloc)
        limits.begin()
        signer = self._signer(endpoint, method, path, body)
        with anyio.CancelScope(deadline=limits.deadline):
            while True:
                signed = endpoint if signer is None else await signer.sign(limits)
                try:
                    return await self._once(
                        signed, method, path, headers, body, max_bytes, is_repeatable=is_repeatable
                    )
                except ModelError as error:
                    name_error(error, signed)
                    delay = self._delay(error, signer, retries)
                    if delay is None:
                        raise
                await anyio.sleep(delay)
                retries += 1
        raise RequestTimeoutError(
            f"{endpoint.model_id}: no answer to {method} {path} within {self._settings.timeout:g} "
            "seconds (timeout)"
        )

    async def results(self, path: str, count: int, *, headers: Mapping[str, str] = JSON) -> bytes:
        """Download the results of a batch.

        Args:
            path: The path below the base URL.
            count: The number of requests of the batch; each may have a result as large as a response.
            headers: Its headers, credentials excepted.

        Raises:
            ModelError: They could not be downloaded.
        """
        most = self._settings.max_response_bytes
        limit = None if most is None else most * max(count, 1)
        return (await self.call("GET", path, headers=headers, max_bytes=limit)).body

    def _delay(self, error: ModelError, signer: RequestSigner | None, retries: int) -> float | None:
        """Seconds until the call is sent again; None when it is not."""
        if isinstance(error, LostAnswerError):
            return None
        if signer is not None and retries < self._settings.max_retries and signer.may_send_again(error):
            return 0.0
        most = self._settings.max_retries
        return retry_delay(error, retries=retries, max_retries=most, rules=self._rules, draw=random)

    def _signer(self, endpoint: Endpoint, method: str, path: str, body: bytes) -> RequestSigner | None:
        credentials = self._settings.credentials
        if credentials is None:
            return None
        return RequestSigner(credentials, endpoint=endpoint, path=path, body=body, method=method)

    async def _once(
        self,
        endpoint: Endpoint,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes,
        max_bytes: int | None,
        *,
        is_repeatable: bool,
    ) -> CallAnswer:
        exchange = self._pool.request(
            endpoint.url(path),
            {**_HEADERS, **headers, **endpoint.headers},
            body,
            connect_timeout=self._settings.connect_timeout,
            method=method,
        )
        try:
            async with exchange:
                most = max_bytes or self._settings.max_response_bytes
                content = await exchange.read_body(max_bytes=most)
        except ModelConnectionError as error:
            if is_repeatable or not exchange.was_sent:
                raise
            raise LostAnswerError(f"{method} {path}: {error.message}", is_transient=True) from error
        if exchange.status not in _GOOD:
            error = status_error(exchange.status, exchange.headers, content, secrets=endpoint.secrets())
            if is_repeatable or exchange.status not in _UNCERTAIN:
                raise error
            raise LostAnswerError(f"{method} {path}: {error.message}", is_transient=True) from error
        if exchange.was_cut:
            message = f"{method} {path}: the answer broke off"
            raise (ModelConnectionError if is_repeatable else LostAnswerError)(message, is_transient=True)
        return CallAnswer(headers=exchange.headers, body=content)


def text_of(answer: Mapping[str, Any], name: str) -> str:
    """A field of an answer that must be a text.

    Raises:
        ModelProtocolError: It is missing or none.
    """
    value = answer.get(name)
    if isinstance(value, str) and value:
        return value
    raise ModelProtocolError(f"the endpoint's answer has no {name}")


def objects_of(value: object) -> list[dict[str, Any]]:
    """The JSON objects in a list; none if the value is no list."""
    entries = value if is_json_list(value) else []
    return [as_object(entry) for entry in entries]


def copied_error(error: _Error) -> _Error:
    """A copy of an error, as each request of a batch raises its own."""
    copied = copy.copy(error)
    copied.__cause__ = error.__cause__
    return copied
