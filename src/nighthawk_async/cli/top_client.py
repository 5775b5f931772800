"""Reads a running service's dashboard, and acts through it."""

from collections.abc import AsyncGenerator, Mapping
from typing import Any, Protocol
from urllib.parse import urlsplit

import httpx

from ..errors import ConfigurationError, ModelProtocolError, NighthawkError
from ..types.json import is_json_object
from ..wire.json_text import NOT_JSON, decode_json
from ..wire.sse import ServerSentEventDecoder

_TIMEOUT = httpx.Timeout(10.0, read=60.0)  # seconds; the dashboard sends keep-alives more often
_PROBLEMS = "urn:nighthawk-async:problem:"
_PASSING = frozenset({408, 425, 429})  # a proxy may answer with these for a while, as with 5xx


class DashboardError(NighthawkError):
    """The dashboard cannot be reached, or refuses something."""


class NoDashboardError(DashboardError):
    """Something other than a dashboard answers, or there is nothing at the address: it is wrong."""


class TopClient(Protocol):
    """Client of a dashboard, for the terminal view."""

    def changes(self) -> AsyncGenerator[tuple[str, Mapping[str, Any]], None]:
        """The events of the tree as they come: their names and data. Continues after the last one."""
        ...

    async def details(self, node_id: str) -> Mapping[str, Any]:
        """Everything there is to see of a node."""
        ...

    async def act(self, node_id: str, action: str, body: Mapping[str, str]) -> None:
        """Cancel, steer, suspend or resume a node."""
        ...


class DashboardClient:
    """HTTP client of a dashboard. Use it with `async with`.

    Args:
        url: The address of the dashboard.
        token: The token of the dashboard; None for one that is read-only.
    """

    def __init__(self, url: str, token: str | None) -> None:
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        self._client = httpx.AsyncClient(base_url=url, headers=headers, timeout=_TIMEOUT)
        self._last_event_id = ""
        self._stream = ""

    async def __aenter__(self) -> "DashboardClient":
        await self._client.__aenter__()
        return self

    async def __aexit__(self, *exc_details: Any) -> None:
        await self._client.__aexit__(*exc_details)

    async def changes(self) -> AsyncGenerator[tuple[str, Mapping[str, Any]], None]:
        """The events of the tree; see `TopClient`.

        Raises:
            NoDashboardError: Something else answers.
            DashboardError: The dashboard cannot be reached, or refuses the request.
        """
        headers = {"last-event-id": self._last_event_id} if self._last_event_id else {}
        decoder = ServerSentEventDecoder()
        try:
            async with self._client.stream("GET", "api/changes", headers=headers) as response:
                await _check(response)
                _check_type(response, "text/event-stream")
                async for data in response.aiter_bytes():
                    for event in decoder.feed(data):
                        data = _as_object(event.data)
                        self._stream = data.get("stream", self._stream)
                        yield event.event, data
                        self._last_event_id = event.id or self._last_event_id
        except (httpx.HTTPError, ModelProtocolError, ValueError) as error:
            raise DashboardError(_words_for(error)) from error
        raise DashboardError("the dashboard has ended the connection")

    async def details(self, node_id: str) -> Mapping[str, Any]:
        """Everything there is to see of a node.

        Args:
            node_id: The id of the node.

        Raises:
            DashboardError: The dashboard cannot be reached, or has no such node any more.
        """
        response = await self._send("GET", f"api/nodes/{node_id}", params={"stream": self._stream})
        _check_type(response, "application/json")
        return _as_object(response.content)

    async def act(self, node_id: str, action: str, body: Mapping[str, str]) -> None:
        """Perform an action on a node of the tree that `changes` reports.

        Args:
            node_id: The id of the node.
            action: The action: `cancel`, `steer`, `suspend` or `resume`.
            body: The body: `reason` or `text`.

        Raises:
            DashboardError: The dashboard cannot be reached, or refuses it.
        """
        await self._send("POST", f"api/nodes/{node_id}/{action}", json={**body, "stream": self._stream})

    async def _send(self, method: str, path: str, **options: Any) -> httpx.Response:
        try:
            response = await self._client.request(method, path, **options)
            await _check(response)
        except httpx.HTTPError as error:
            raise DashboardError(_words_for(error)) from error
        return response


def checked_url(url: str) -> str:
    """The URL of a dashboard, with a slash at its end.

    Args:
        url: The URL as the user typed it.

    Raises:
        ConfigurationError: It is no URL of HTTP.
    """
    whole = url if "://" in url else f"http://{url}"
    try:
        parts = urlsplit(whole)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_usable = False
    if not is_usable:
        raise ConfigurationError(f"{url!r} is no URL of a dashboard, such as http://127.0.0.1:8000/dashboard")
    return whole.partition("?")[0].partition("#")[0].rstrip("/") + "/"


def checked_token(token: str | None) -> str | None:
    """The token of a dashboard; None for none.

    Args:
        token: The token as the user gave it. An empty one is none.

    Raises:
        ConfigurationError: It is no token.
    """
    if not token:
        return None
    if not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigurationError("the token of a dashboard has visible ASCII characters only")
    return token


async def _check(response: httpx.Response) -> None:
    if response.is_success:
        return
    status = response.status_code
    name, detail = _problem_of(await response.aread())
    if name and name != "not-found":
        raise DashboardError(detail)
    may_pass = status >= 500 or status in _PASSING
    raise (DashboardError if may_pass else NoDashboardError)(f"there is no dashboard here: status {status}")


def _problem_of(data: bytes) -> tuple[str, str]:
    """The name and text of a problem that a dashboard reports; empty for any other answer."""
    try:
        problem = decode_json(data)
        kind, detail = str(problem["type"]), str(problem["detail"])
    except (*NOT_JSON, KeyError, TypeError):
        return "", ""
    return (kind.removeprefix(_PROBLEMS), detail) if kind.startswith(_PROBLEMS) else ("", "")


def _check_type(response: httpx.Response, expected: str) -> None:
    found = response.headers.get("content-type", "").partition(";")[0].strip()
    if found != expected:
        raise NoDashboardError(f"there is no dashboard here: it answers with {found or 'something else'}")


def _as_object(data: str | bytes) -> dict[str, Any]:
    try:
        decoded: object = decode_json(data)
    except NOT_JSON as error:
        raise DashboardError("the dashboard sends data that is not JSON") from error
    if not is_json_object(decoded):
        raise DashboardError("the dashboard sends something that is not understood")
    return decoded


def _words_for(error: Exception) -> str:
    return str(error) or f"the dashboard cannot be reached ({type(error).__name__})"
