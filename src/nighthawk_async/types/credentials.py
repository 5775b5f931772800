"""The interface of objects that authenticate requests."""

from collections.abc import Mapping
from typing import Protocol, runtime_checkable


@runtime_checkable
class Credentials(Protocol):
    """Authenticates requests, each just before it is sent; the model setting `credentials`.

    One object may serve many requests at the same time, on several event loops and in several threads. An
    object that has the method `known_secrets`, without arguments, returns from it the texts that recordings
    must not contain.
    """

    async def headers(self, method: str, url: str, body: bytes) -> Mapping[str, str]:
        """Return the headers that authenticate a request; they replace others of the same name.

        It is called again for every attempt. The request is sent with exactly this method, URL and body, and
        with the host of the URL as the header `Host`; other headers may be added.

        Args:
            method: The method, `POST`.
            url: The URL, in the form that is sent.
            body: The final bytes of the body.
        """
        ...


@runtime_checkable
class RefreshableCredentials(Credentials, Protocol):
    """Credentials that may be out of date without knowing it."""

    def refused(self, headers: Mapping[str, str]) -> bool:
        """Note that an endpoint refused a request: with the HTTP status 401, or a 403 that says `expired`.

        Args:
            headers: The headers that `headers` returned for that request.

        Returns:
            Whether the next headers may be accepted, so that the request is worth sending again, once.
        """
        ...
