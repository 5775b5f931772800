"""`nh.credentials.bearer`: tokens that a function of the program fetches."""

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from inspect import isawaitable, iscoroutine, iscoroutinefunction
from typing import Any, TypeAlias, cast

from ..errors import ConfigurationError
from ..types.json import is_number
from .errors import OwnTextError
from .header_credentials import HeaderCredentials
from .refresher import Lease, Refresher, lease_until


@dataclass(frozen=True, slots=True)
class Token:
    """A token, and its expiry.

    Args:
        text: The token.
        expires_at: Its expiry: a datetime with a time zone, or seconds since 1970; None when it is unknown.

    Raises:
        ValueError: The text cannot be sent in a header, or the datetime has no time zone. The message does
            not show the token.
    """

    text: str = field(repr=False)
    expires_at: datetime | float | None = None

    def __post_init__(self) -> None:
        text = cast("object", self.text)
        if not isinstance(text, str) or not text or not text.isascii() or not text.isprintable():
            raise OwnTextError("the text of a token must be printable ASCII characters, at least one")
        if text != text.strip():
            raise OwnTextError("the text of a token must not begin or end with a space")
        if isinstance(self.expires_at, datetime) and self.expires_at.tzinfo is None:
            raise OwnTextError(
                "expires_at needs a time zone, for example datetime.now(UTC) + timedelta(hours=1)"
            )

    def expiry(self) -> float | None:
        """The expiry in seconds since 1970; None when it is unknown."""
        return self.expires_at.timestamp() if isinstance(self.expires_at, datetime) else self.expires_at


FetchToken: TypeAlias = Callable[[], Token | str | Awaitable[Token | str]]
"""Fetches a token: a function, async or not, without arguments."""


def bearer(
    fetch_token: FetchToken,
    *,
    header: str = "authorization",
    prefix: str = "Bearer ",
    timeout: float = 30.0,
) -> HeaderCredentials:
    """Authenticate requests with tokens that a function fetches.

    The function is called for the first request, then before the token expires (five minutes before, or a
    quarter of its lifetime), and after an endpoint has refused the token with the HTTP status 401. All
    requests share one call.

    An async function is called in the task of one of the requests, and so on the event loop of that request.
    Any other function is called in a thread, and may block. While the former token is still valid, requests
    go on with it, except for the one whose task calls an async function.

    Args:
        fetch_token: Returns a `Token`, or a text whose expiry is unknown.
        header: The header that carries the token.
        prefix: The text before the token in that header.
        timeout: Seconds that a call may take.

    Raises:
        ConfigurationError: An argument is wrong.
    """
    if not callable(fetch_token):
        raise ConfigurationError(
            "bearer takes a function that fetches a token; a key that does not expire is the setting api_key."
        )
    check_timeout(timeout)
    name = header.strip().lower()
    make_lease = partial(_lease, header=name, prefix=prefix)
    shown = f"nh.credentials.bearer({_name_of(fetch_token)})"
    is_async = _is_async(fetch_token)
    return HeaderCredentials(
        shown,
        Refresher(
            shown,
            fetch=None if is_async else partial(_fetch, fetch_token, make_lease),
            fetch_async=partial(_fetch_async, fetch_token, make_lease) if is_async else None,
            timeout=timeout,
        ),
        make=bearer,
        arguments={
            "fetch_token": fetch_token,
            "header": header,
            "prefix": prefix,
            "timeout": timeout,
        },
    )


def check_timeout(seconds: float) -> None:
    """Refuse a time limit that is none.

    Args:
        seconds: The time limit.

    Raises:
        ConfigurationError: It is not a positive number.
    """
    if not is_number(seconds) or not seconds > 0:
        raise ConfigurationError(f"timeout must be a positive number, not {seconds!r}.")


_Header: TypeAlias = Mapping[str, str]


def _fetch(
    fetch_token: FetchToken, make_lease: Callable[[object], Lease[_Header]], is_refused: bool
) -> Lease[_Header]:
    token = fetch_token()
    if isawaitable(token):
        if iscoroutine(token):
            token.close()
        raise OwnTextError("the function returned an awaitable; make it an async def")
    return make_lease(token)


async def _fetch_async(
    fetch_token: FetchToken, make_lease: Callable[[object], Lease[_Header]], is_refused: bool
) -> Lease[_Header]:
    return make_lease(await cast("Awaitable[Token | str]", fetch_token()))


def _lease(token: object, *, header: str, prefix: str) -> Lease[_Header]:
    if isinstance(token, str):
        token = Token(token)
    if not isinstance(token, Token):
        raise OwnTextError(f"the function must return a Token or a str, not {type(token).__name__}")
    expiry = token.expiry()
    if expiry is not None and expiry <= time.time():
        raise OwnTextError("the function returned a token that has expired")
    return lease_until({header: prefix + token.text}, expiry, secrets=(token.text,))


def _is_async(function: Callable[..., Any]) -> bool:
    return iscoroutinefunction(function) or iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


def _name_of(function: Callable[..., Any]) -> str:
    while isinstance(function, partial):
        function = function.func
    return str(getattr(function, "__qualname__", type(function).__qualname__))
